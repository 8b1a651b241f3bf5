#!/bin/sh
# Prints the folder of PostgreSQL's server programs (15 or newer), or says that there is none.
set -eu

newest=
for candidate in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin \
  "$(dirname -- "$(command -v initdb 2>/dev/null || echo /nowhere/initdb)")"; do
  [ -x "$candidate/initdb" ] && [ -x "$candidate/pg_ctl" ] && [ -x "$candidate/postgres" ] || continue
  major=$("$candidate/postgres" --version | sed -n 's/^[^0-9]*\([0-9][0-9]*\).*/\1/p')
  [ "${major:-0}" -ge 15 ] || continue
  if [ -z "$newest" ] || [ "$major" -gt "${newest%%:*}" ]; then newest="$major:$candidate"; fi
done
[ -n "$newest" ] || { echo "no PostgreSQL server programs, 15 or newer, were found (initdb, pg_ctl, postgres)" >&2; exit 1; }
echo "${newest#*:}"
