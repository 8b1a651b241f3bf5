#!/bin/sh
# Runs a command with a throw-away PostgreSQL cluster, named to it in GITOPS_BOT_TEST_POSTGRES, and removes the cluster
# afterwards. Where the variable is set already, that server is used and none is started.
#
# The cluster listens on a socket in a directory that only its user may enter, on no network address; so it needs no
# password and two runs never meet on a port. fsync is off: a test cluster has nothing to survive.
set -eu

[ $# -gt 0 ] || { echo "usage: $0 COMMAND [ARGUMENT...]" >&2; exit 64; }
if [ -n "${GITOPS_BOT_TEST_POSTGRES:-}" ]; then exec "$@"; fi

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
bin=$("$here/postgres-bin.sh") || exit 1

# In memory where there is room (2 GB): a database for a test is then made in 40 ms, on some disks in 500.
# Short: a socket path holds at most 107 bytes.
place=/tmp
free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
if [ -w /dev/shm ] && [ "${free:-0}" -ge 2097152 ]; then place=/dev/shm; fi
home=$(mktemp -d "$place/gitops-bot-pg.XXXXXX")
owner=$(id -un)
if [ "$(id -u)" -eq 0 ]; then
  # The server refuses to run as root.
  if id postgres >/dev/null 2>&1; then owner=postgres; else owner=nobody; fi
  chown "$owner" "$home"
fi

as_owner() {
  if [ "$(id -un)" = "$owner" ]; then (cd "$home" && sh -c "$1"); else (cd "$home" && su -s /bin/sh "$owner" -c "$1"); fi
}

stop() {
  status=$?
  trap - EXIT INT TERM HUP
  as_owner "'$bin/pg_ctl' -D '$home/data' -m immediate -w stop" >/dev/null 2>&1 || true
  rm -rf -- "$home"
  exit "$status"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

as_owner "'$bin/initdb' -D '$home/data' -U postgres -A trust -E UTF8 --locale=C --no-sync" >"$home/initdb.log" 2>&1 ||
  { cat "$home/initdb.log" >&2; exit 1; }
cat >>"$home/data/postgresql.conf" <<EOF
listen_addresses = ''
unix_socket_directories = '$home'
unix_socket_permissions = 0700
max_connections = 200
shared_buffers = 128MB
dynamic_shared_memory_type = mmap
fsync = off
synchronous_commit = off
full_page_writes = off
autovacuum_naptime = 10s
timezone = 'UTC'
EOF
as_owner "'$bin/pg_ctl' -D '$home/data' -l '$home/server.log' -w -t 60 start" >/dev/null 2>&1 ||
  { cat "$home/server.log" >&2 2>/dev/null || true; echo "the test cluster did not start" >&2; exit 1; }

GITOPS_BOT_TEST_POSTGRES="postgresql+psycopg://postgres@/postgres?host=$home"
export GITOPS_BOT_TEST_POSTGRES
"$@"
