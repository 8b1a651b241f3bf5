#!/bin/sh
# Makes .venv and installs the locked packages and this product into it: `setup.sh runtime` for using it, `setup.sh dev`
# for the tests too. A second run with nothing changed does nothing.
#
# Every file that is installed has its hash in requirements/*.txt, and only wheels are taken, so that no package runs a
# build script of its own here. The product itself is linked in with the locked setuptools, without build isolation,
# which would fetch one without a hash.
set -eu

kind=${1:-runtime}
case $kind in runtime | dev) ;; *) echo "usage: $0 runtime|dev" >&2; exit 64 ;; esac
cd "$(dirname -- "$0")/.."
venv=.venv

find_python() {
  for name in "${PYTHON:-python3}" python3.13 python3.12 python3.11 python3.14; do
    command -v "$name" >/dev/null 2>&1 || continue
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  echo "Python 3.11 or newer is needed; set PYTHON to it (python3 here: $(python3 --version 2>&1 || echo none))." >&2
  return 1
}

python=$(find_python)
fingerprint() {
  {
    "$python" -c 'import sys; print(sys.version, sys.base_prefix)'
    pwd
    cat tools/setup.sh pyproject.toml requirements/build.txt "requirements/$1.txt"
  } | "$python" -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'
}

stamp_is_current() {
  [ -x "$venv/bin/gitops-bot" ] && [ -f "$venv/.installed-$1" ] && [ "$(cat "$venv/.installed-$1")" = "$(fingerprint "$1")" ]
}
if stamp_is_current "$kind"; then exit 0; fi
# What the tests install holds what a user needs.
if [ "$kind" = runtime ] && stamp_is_current dev; then exit 0; fi

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv
  else
    echo "$python cannot make virtual environments: install the package python3-venv." >&2
    exit 1
  fi
fi

# An environment of another interpreter or from another place cannot be mended, only made again.
wanted=$("$python" -c 'import sys; print(sys.version, sys.base_prefix)')
found=$("$venv/bin/python" -c 'import sys; print(sys.version, sys.base_prefix)' 2>/dev/null || true)
if [ "$wanted" != "$found" ] || ! grep -qs "$(pwd)/$venv" "$venv/bin/activate"; then
  echo "setup: making $venv with $("$python" --version)"
  "$python" -m venv --clear "$venv"
fi

echo "setup: installing the locked packages ($kind)"
rm -f "$venv/.installed-$kind"
pip="$venv/bin/python -m pip --disable-pip-version-check --no-input"
$pip install --quiet --require-hashes --only-binary :all: -r requirements/build.txt -r "requirements/$kind.txt"
# "compat" links by a path alone; the default puts a finder module, and its imports, into the start of every command.
$pip install --quiet --no-deps --no-build-isolation --config-settings editable_mode=compat --editable .
[ -x "$venv/bin/gitops-bot" ] || { echo "setup: $venv/bin/gitops-bot was not made" >&2; exit 1; }
fingerprint "$kind" >"$venv/.installed-$kind"
echo "setup: done"
