# Sourced by check.sh and test.sh: runs named stages, goes on after one that failed, and prints what each took.
# A stage may have a budget in seconds; passing it is printed, and fails nothing: machines differ.

failed=
report=
begun=$(date +%s)

# stage NAME BUDGET COMMAND [ARGUMENT...]
stage() {
  stage_name=$1 stage_budget=$2
  shift 2
  printf '\n== %s\n' "$stage_name"
  stage_begun=$(date +%s)
  stage_result=ok
  "$@" || { stage_result=FAILED; failed="$failed $stage_name"; }
  stage_took=$(($(date +%s) - stage_begun))
  if [ "$stage_took" -gt "$stage_budget" ]; then stage_result="$stage_result, over its budget"; fi
  report="$report$(printf '%-14s %5d s of %5d s  %s' "$stage_name" "$stage_took" "$stage_budget" "$stage_result")
"
}

# Prints the table; its status is that of the whole.
finish() {
  printf '\n%s%-14s %5d s\n' "$report" total "$(($(date +%s) - begun))"
  [ -z "$failed" ] || { echo "failed:$failed" >&2; return 1; }
}
