#!/usr/bin/env bash
# Measures what docs/guide/fleet.md says of sizes: rows and bytes of a waiting handler, write-ahead log and transactions of a step and of
# an idle machine, and whether autovacuum with its default settings keeps the busy tables small. Primary, synchronous standby and
# program run on this machine.
#
#   scripts/fleet-sizing.sh [SECONDS]     of steps, one after the other as fast as they go; 180
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-180}
for product in postgres-steps NodeTestProgram; do swift build -c release --product "$product" >&2; done
export FOLDER
FOLDER=$(mktemp -d /tmp/fleet-sizing-XXXXXX)
coproc server { exec scripts/fleet-server.sh; }
clean() {
    kill "$server_PID" 2>/dev/null || true
    wait "$server_PID" 2>/dev/null || true
    rm -rf "$FOLDER"
}
trap clean EXIT
while read -r connection <&"${server[0]}"; do [[ $connection != host=* ]] || break; done
query() { psql --no-psqlrc --quiet --tuples-only --no-align --field-separator=' ' --dbname="$connection" --command="$1"; }
wal() { query "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"; }
xids() { query "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"; }
say() { printf '%s\n' "$*"; }

say "processors: $(nproc); PostgreSQL $(query 'SHOW server_version')"
# steps COUNT GROUP. A program that ends without closing its store is a death, after which all others are careful for a minute.
steps() {
    query 'DELETE FROM node; DELETE FROM node_step' 2>/dev/null || true
    .build/release/postgres-steps "$connection" "$1" "$2"
}
# per COUNT GROUP: what a step costs.
per() {
    local wal_before xids_before
    wal_before=$(wal) xids_before=$(xids)
    steps $(($1 * 10 / 11)) "$2"
    say "  a step: $((($(wal) - wal_before) / $1)) bytes of write-ahead log, $((($(xids) - xids_before) * 100 / $1)) transactions for 100 steps"
}
steps 1 2000 >/dev/null
psql --quiet --dbname="$connection" --command='VACUUM FULL handler' --command='VACUUM FULL ending'
for table in handler ending; do
    query "SELECT '$table: ' || count(*) || ' rows, ' || pg_relation_size('$table') / count(*) || ' bytes each, and ' ||
        pg_indexes_size('$table') / count(*) || ' of indices' FROM $table"
done
query 'TRUNCATE handler, ending'

steps 300 1 >/dev/null
say 'one step in a commit:'
per 3300 1
say '64 steps in a commit:'
per 70400 64

say "busy tables, with the default settings of autovacuum:"
tables="SELECT string_agg(relname || ' ' || n_dead_tup || ' dead, ' || pg_total_relation_size(relid) / 1024 || ' KiB, ' || autovacuum_count || ' vacuumed',
    '; ' ORDER BY relname) FROM pg_stat_user_tables WHERE n_tup_upd + n_tup_del > 1000"
start=$SECONDS
while [ $((SECONDS - start)) -lt "$seconds" ]; do
    steps 64000 64
    say "  after $((SECONDS - start)) s: $(query "$tables")"
done

query 'TRUNCATE handler'
.build/release/NodeTestProgram "$connection" wait < <(sleep 600) >"$FOLDER/node" &
node=$!
until [ -s "$FOLDER/node" ]; do sleep 0.2; done
query "UPDATE node_step SET ended_at = NULL"
sleep 3
say "connections of an idle machine: $(query "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'durable-handlers%'")"
(wal_before=$(wal) xids_before=$(xids); sleep 60
    say "an idle machine: $((($(xids) - xids_before) * 60)) transactions and $((($(wal) - wal_before) * 60 / 1024)) KiB of write-ahead log an hour")
kill "$node"
