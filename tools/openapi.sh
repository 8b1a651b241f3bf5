#!/bin/sh
# Writes docs/openapi.json anew from the routes of the HTTP API; a test compares the two.
set -eu
cd "$(dirname "$0")/.."
trap 'rm -f docs/openapi.json.new' EXIT
.venv/bin/python -c '
import sys
from gitops_bot.bootstrap.workspace import Services
from workspace import create_app
from workspace.api.openapi import written
# Nothing is called: only the map of routes is read.
sys.stdout.write(written(create_app(Services(None, None, None, lambda path: None))))
' >docs/openapi.json.new
mv docs/openapi.json.new docs/openapi.json
