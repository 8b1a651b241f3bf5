#!/bin/sh
# What every change passes before it is committed: format, lint, types, import contracts, documents, quick tests.
set -u

cd "$(dirname -- "$0")/.." || exit 1
PATH="$(pwd)/.venv/bin:$PATH"
export PATH
. tools/stage.sh

. tools/static.sh
HYPOTHESIS_PROFILE=quick
export HYPOTHESIS_PROFILE
stage tests 60 python -m pytest -n 2 --dist worksteal -m "not slow and not postgresql" tests/architecture tests/unit tests/property
finish
