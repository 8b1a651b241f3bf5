#!/bin/sh
# Writes requirements/*.txt: every package that is installed, by version and hash, for all systems and Pythons at once.
# Pins stand as they are unless UPGRADE=1. `--check` writes nothing and says whether the files are what the dependencies resolve to with the pins they hold.
set -eu

cd "$(dirname -- "$0")/.."
into=.
if [ "${1:-}" = --check ]; then
  into=$(mktemp -d)
  trap 'rm -rf -- "$into"' EXIT
  cp -R requirements pyproject.toml README.md "$into"
fi

compile() {
  (cd "$into" && "$OLDPWD/.venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links ${UPGRADE:+--upgrade} "$@")
}
resolve() {
  compile requirements/build.in -o requirements/build.txt &&
    compile --extra measure pyproject.toml -o requirements/runtime.txt &&
    compile --extra measure --extra notify --extra oidc --extra dev -c requirements/runtime.txt pyproject.toml -o requirements/dev.txt
}

if [ "$into" = . ]; then resolve; exit; fi
if ! resolve 2>"$into/errors"; then
  if grep -qiE 'failed to fetch|error sending request|connect|dns|network|timed out' "$into/errors"; then
    echo "lock: not compared, the package index cannot be asked"
    exit 0
  fi
  cat "$into/errors" >&2
  exit 1
fi
diff -r requirements "$into/requirements" || { echo "lock: run \`make lock\` and commit what it writes" >&2; exit 1; }
echo "lock: up to date"
