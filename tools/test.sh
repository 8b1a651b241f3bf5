#!/bin/sh
# The whole suite, on SQLite and on a PostgreSQL cluster of its own, one suite after the other with its wall budget.
set -u

cd "$(dirname -- "$0")/.." || exit 1
if [ -z "${GITOPS_BOT_TEST_POSTGRES:-}" ]; then exec tools/with-postgres.sh tools/test.sh "$@"; fi
PATH="$(pwd)/.venv/bin:$PATH"
HYPOTHESIS_PROFILE=${HYPOTHESIS_PROFILE:-full}
export PATH HYPOTHESIS_PROFILE
. tools/stage.sh

# What is compiled once serves every worker of every suite, and the processes that tests start.
unset PYTHONDONTWRITEBYTECODE
python -m compileall -q gitops_bot

# Each worker has tests in their order, so that what a module shares is rarely made twice; who is done takes from the
# other. Groups of pytest-xdist 3.8 have no effect under pytest 9.2, which derives a test's id from another field.
# A folder that holds no test is none of ours to complain about: pytest says 5 then.
suite() {
  python -m pytest -n 2 --dist worksteal "$@"
  status=$?
  [ "$status" -eq 5 ] && return 0
  return "$status"
}

# suites NAME BUDGET FOLDER...: those of the folders that exist, as one stage
suites() {
  suites_name=$1 suites_budget=$2
  shift 2
  present=
  for folder in "$@"; do [ -d "tests/$folder" ] && present="$present tests/$folder"; done
  # shellcheck disable=SC2086 # a list of words
  [ -z "$present" ] || stage "$suites_name" "$suites_budget" suite $present
}

. tools/static.sh
suites architecture 60 architecture
suites unit 180 unit property vectors
suites contract 120 contract
suites store 180 store
signed="tests/scenarios/signed tests/integration/signed"
# shellcheck disable=SC2086 # a list of words
stage signed 420 suite $signed
stage scenarios 300 suite tests/scenarios tests/integration --ignore=tests/scenarios/signed --ignore=tests/integration/signed
suites crash 300 crash races
suites browser 240 browser
suites interop 180 interop
# Seven subjects of ten minutes, two at a time, where there is time.
fuzz_budget=60
[ "$HYPOTHESIS_PROFILE" = long ] && fuzz_budget=2700
suites fuzz "$fuzz_budget" fuzz

# No test is left out because its folder is new (node holds data of npm packages, no tests).
known=" architecture unit property vectors contract store scenarios integration crash races browser interop fuzz node "
others=
for folder in tests/*/; do
  name=$(basename "$folder")
  case $known in *" $name "*) ;; *) [ "$name" = __pycache__ ] || others="$others $name" ;; esac
done
# shellcheck disable=SC2086 # a list of words
[ -z "$others" ] || suites other 240 $others
finish
