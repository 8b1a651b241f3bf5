#!/bin/sh
# Sees to it that the programs the tests need are there: as root on Debian it installs what is missing, else it names it.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
missing=
lacks() { missing="$missing $1"; }

command -v git >/dev/null 2>&1 || lacks git
command -v gpg >/dev/null 2>&1 || lacks gnupg
"$here/postgres-bin.sh" >/dev/null 2>&1 || lacks postgresql

[ -n "$missing" ] || exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "need: installing$missing"
  apt-get update -qq
  # Nobody here wants the server that Debian would set up and start beside it.
  quiet=/etc/postgresql-common/createcluster.d/gitops-bot-tests.conf
  mkdir -p "${quiet%/*}"
  echo 'create_main_cluster = false' >"$quiet"
  trap 'rm -f "$quiet"' EXIT
  # shellcheck disable=SC2086 # a list of words
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
  "$here/postgres-bin.sh" >/dev/null
else
  echo "The tests need these programs, which are missing:$missing (names of Debian's packages; PostgreSQL 15 or newer)" >&2
  exit 1
fi
