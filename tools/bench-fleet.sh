#!/bin/sh
# Makes .venv-fleet: this product beside LangGraph, DBOS and OpenAI Agents, for `python -m benchmarks cycle`. Every file
# has its hash in benchmarks/requirements-fleet.txt, and only wheels are taken. A second run with nothing changed does
# nothing. `tools/bench-fleet.sh lock` writes that file anew from benchmarks/requirements-fleet.in.
set -eu

cd "$(dirname -- "$0")/.."
if [ "${1:-}" = lock ]; then
  exec .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
    --no-emit-find-links -c requirements/runtime.txt pyproject.toml benchmarks/requirements-fleet.in \
    -o benchmarks/requirements-fleet.txt
fi
stamp=.venv-fleet/.installed
wanted=$(cksum <benchmarks/requirements-fleet.txt)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi
rm -rf .venv-fleet
.venv/bin/python -m venv .venv-fleet
.venv-fleet/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
  --only-binary :all: -r benchmarks/requirements-fleet.txt
printf '%s' "$wanted" >"$stamp"
