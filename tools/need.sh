#!/bin/sh
# Sees to it that the programs and data the tests need are there: as root on Debian it installs the programs that are
# missing, else it names them. With `probot` it installs only what the benchmark of webhooks is compared with.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
# installed FOLDER: tells whether the npm packages of its lock file are there
installed() { cmp -s "$1/package-lock.json" "$1/node_modules/.installed"; }

if [ "${1:-}" = probot ]; then
  probot=$here/../benchmarks/probot
  installed "$probot" && exit
  echo "need: installing Probot, and the Node that it needs"
  (cd "$probot" && npm ci --ignore-scripts --no-audit --no-fund --silent)
  cp "$probot/package-lock.json" "$probot/node_modules/.installed"
  exit
fi

missing=
lacks() { missing="$missing $1"; }

command -v git >/dev/null 2>&1 || lacks git
command -v gpg >/dev/null 2>&1 || lacks gnupg
"$here/postgres-bin.sh" >/dev/null 2>&1 || lacks postgresql
command -v bwrap >/dev/null 2>&1 || lacks bubblewrap
command -v npm >/dev/null 2>&1 || lacks npm
# A browser for the pages, and a font to see them in.
command -v chromium >/dev/null 2>&1 || lacks chromium
fc-list 2>/dev/null | grep -q . || lacks fonts-liberation

# GitHub's published descriptions, which the local GitHub is tested against, and axe-core, which looks at pages: npm
# packages, of which no script is run here. From here on they are read from disk only.
descriptions() {
  node=$here/../tests/node
  installed "$node" && return
  echo "need: installing the published descriptions of GitHub, and axe-core"
  (cd "$node" && npm ci --ignore-scripts --no-audit --no-fund --silent)
  # The descriptions of other products are 370 MB.
  find "$node/node_modules/@octokit/openapi/generated" -type f ! -name api.github.com.json -delete
  cp "$node/package-lock.json" "$node/node_modules/.installed"
}

if [ -z "$missing" ]; then descriptions; exit; fi
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
  descriptions
else
  echo "The tests need these programs, which are missing:$missing (names of Debian's packages; PostgreSQL 15 or newer)" >&2
  exit 1
fi
