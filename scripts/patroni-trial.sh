#!/usr/bin/env bash
# Tries docs/guide/patroni.yml: three servers of PostgreSQL under Patroni and an etcd, on loopback. A program with a store counts in
# steps; the leader's machine dies (SIGKILL to its Patroni and its PostgreSQL), then it comes back. Says how long steps waited, and
# fails when one is lost or stored twice.
#
# It needs Debian's packages patroni and etcd-server, which it does not install, and NodeTestProgram (swift build).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
for program in patroni etcd; do
    command -v $program >/dev/null || { echo "skipped: $program is not installed (apt-get install patroni etcd-server)"; exit 0; }
done
work=$(mktemp -d /tmp/patroni-trial-XXXXXX)
rights=()
if [ "$(id -u)" = 0 ]; then
    rights=(--reuid=postgres --regid=postgres --clear-groups)
    chown postgres:postgres "$work"
fi
export PATRONI_SUPERUSER_PASSWORD=trial PATRONI_REPLICATION_PASSWORD=trial
PATRONI_POSTGRESQL_BIN_DIR=$(echo /usr/lib/postgresql/*/bin)
export PATRONI_POSTGRESQL_BIN_DIR
# Low ports of its own; a run needs them for half a minute.
base=${BASE:-$((20000 + RANDOM % 10000))}
export PATRONI_ETCD3_HOSTS=127.0.0.1:$base

declare -A nodes=()
clean() {
    for node in "${nodes[@]}"; do kill -KILL -- "-$node" 2>/dev/null || true; done
    for name in pg1 pg2 pg3; do kill_server $name; done
    rm -rf "$work"
}
# The postmaster has a session of its own.
kill_server() {
    local process
    process=$(head -n 1 "$work/$1/postmaster.pid" 2>/dev/null) || return 0
    kill -KILL $(pgrep -P "$process") "$process" 2>/dev/null || true
}
trap clean EXIT

# In groups of their own, of which each ends at once.
set -m
start_node() {
    local number=$1 name=pg$1
    (cd / && exec env HOME="$work" PATRONI_NAME="$name" PATRONI_POSTGRESQL_PGPASS="$work/$name.pgpass" \
        PATRONI_POSTGRESQL_LISTEN=127.0.0.1:$((base + 10 + number)) PATRONI_POSTGRESQL_CONNECT_ADDRESS=127.0.0.1:$((base + 10 + number)) \
        PATRONI_RESTAPI_LISTEN=127.0.0.1:$((base + 20 + number)) PATRONI_RESTAPI_CONNECT_ADDRESS=127.0.0.1:$((base + 20 + number)) \
        PATRONI_POSTGRESQL_DATA_DIR="$work/$name" \
        setpriv ${rights[@]+"${rights[@]}"} -- patroni "$work/patroni.yml") >>"$work/$name.log" 2>&1 8>&- &
    nodes[$name]=$!
    # Its end is not reported.
    disown $!
}
install -m 644 docs/guide/patroni.yml "$work/patroni.yml"
# Its socket would go where another server has one.
printf '  parameters:\n    unix_socket_directories: %s\n' "$work" >"$work/socket"
sed -i "/^postgresql:/r $work/socket" "$work/patroni.yml"
sed -i 's/samenet/127.0.0.1\/32/' "$work/patroni.yml"
etcd --data-dir "$work/etcd" --listen-client-urls "http://127.0.0.1:$base" --advertise-client-urls "http://127.0.0.1:$base" \
    --listen-peer-urls "http://127.0.0.1:$((base + 1))" >"$work/etcd.log" 2>&1 &
nodes[etcd]=$!
disown $!

hosts=127.0.0.1,127.0.0.1,127.0.0.1
ports=$((base + 11)),$((base + 12)),$((base + 13))
connection="host=$hosts port=$ports dbname=postgres user=postgres password=trial target_session_attrs=read-write"
say() { printf '%s\n' "$*"; }
# until SECONDS COMMAND: tries it again and again.
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || {
            tail -n 5 "$work"/pg*.log >&2
            say "not in time: $*" >&2
            exit 1
        }
        sleep 0.2
    done
}
query() { psql --no-psqlrc --quiet --tuples-only --no-align --dbname="$connection connect_timeout=2" --command="$1"; }
has_standbys() { [ "$(query "SELECT count(*) || ' ' || count(*) FILTER (WHERE sync_state = 'sync') FROM pg_stat_replication")" = "$1 1" ]; }

for number in 1 2 3; do start_node $number; done
until_true 60 has_standbys 2
leader() { query "SELECT inet_server_port() - $base - 10"; }
old=$(leader)
say "the leader is pg$old, with a synchronous standby and another one; after ${SECONDS} s"

mkfifo "$work/input"
"${PROGRAM:-$root/.build/debug/NodeTestProgram}" "$connection" count <"$work/input" >"$work/counted" 2>&1 &
program=$!
exec 8>"$work/input"
until_true 20 grep -q counting "$work/counted"
sleep 2
killed=$SECONDS
kill -KILL -- "-${nodes[pg$old]}"
kill_server "pg$old"
say "killed pg$old"
is_led_anew() { new=$(leader) && [ -n "$new" ] && [ "$new" != "$old" ]; }
until_true 60 is_led_anew
say "the leader is pg$new after $((SECONDS - killed)) s"
sleep 3
start_node "$old"
until_true 60 has_standbys 2
say "pg$old is a standby $((SECONDS - killed)) s after its death"
exec 8>&-
wait $program && status=0 || status=$?
cat "$work/counted"
exit $status
