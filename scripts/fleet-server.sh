#!/usr/bin/env bash
# Starts a primary and a synchronous standby of PostgreSQL on this machine, to try a store with. It prints the connection string,
# and runs until Ctrl-C, which stops both. The data stays in .build/fleet-server for the next start.
#
#   make fleet-server PORT=5440 STANDBY_PORT=5441
#
# Without ports it takes free ones at the first start, and the same ones later. FOLDER=… is another place for the data. While one runs
# for a folder, a second one prints the connection string of the first. Started by root, the servers run as the user `postgres`.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${FOLDER:-.build/fleet-server}")

say() { printf 'fleet-server: %s\n' "$*"; }
fail() {
    printf 'fleet-server: %s\n' "$*" >&2
    exit 1
}

# Debian keeps the programs of the server outside of PATH, in a folder for each version.
PATH="$(printf '%s:' /usr/lib/postgresql/*/bin)$PATH"
command -v initdb >/dev/null || fail "PostgreSQL is not installed: run 'make setup'."

# PostgreSQL refuses to run as root.
rights=()
[ "$(id -u)" != 0 ] || rights=(--reuid=postgres --regid=postgres --clear-groups)
as_server() { (cd / && setpriv ${rights[@]+"${rights[@]}"} -- env LC_ALL=C "$@"); }

mkdir -p "$folder"
if [ "$(id -u)" = 0 ]; then
    chown postgres:postgres "$folder"
    as_server test -w "$folder" ||
        fail "the user postgres may not enter $folder; name another place: make fleet-server FOLDER=/var/tmp/fleet-server"
fi
chmod 700 "$folder"

# MARK: What is known of the two servers, a and b

port() { cat "$folder/$1.port"; }
primary() { cat "$folder/primary"; }
other() { [ "$1" = a ] && echo b || echo a; }
connection() {
    echo "host=127.0.0.1,127.0.0.1 port=$(port a),$(port b) dbname=fleet user=fleet password=$(cat "$folder/password") target_session_attrs=read-write"
}

print_connection() {
    say "the primary is server $(primary) on port $(port "$(primary)"), its standby server $(other "$(primary)") on port $(port "$(other "$(primary)")")"
    say "the connection string of a store:"
    printf '\n%s\n\n' "$(connection)"
}

# The servers do not inherit it, so it goes with this process.
exec 9>"$folder/lock"
if ! flock -n 9; then
    [ -e "$folder/primary" ] || fail "another one is starting for $folder: try again in some seconds."
    say "it runs already"
    print_connection
    exit 0
fi

# MARK: Making and starting them

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

configure() {
    cat <<TEXT

# Of fleet-server.
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
# A commit waits for the other server: the setting is the same on both, whichever is the primary.
synchronous_commit = on
synchronous_standby_names = 'ANY 1 (a, b)'
wal_keep_size = '512MB'
wal_retrieve_retry_interval = '200ms'
# Of this kind nothing stays when a process is killed.
dynamic_shared_memory_type = mmap
TEXT
}

declare -A processes=()

# start NAME: starts a server and waits until it answers.
start() {
    local name=$1 log="$folder/$1.log"
    # In a session of its own, for Ctrl-C is not for it: the primary stops first. It ends with this process, even after SIGKILL.
    (cd / && exec setsid setpriv ${rights[@]+"${rights[@]}"} --pdeathsig INT -- env LC_ALL=C \
        "$(command -v postgres)" -D "$folder/$name" -p "$(port "$name")" -c "cluster_name=$name") >>"$log" 2>&1 </dev/null 9>&- &
    processes[$name]=$!
    until pg_isready --quiet --host=127.0.0.1 --port="$(port "$name")" && kill -0 "${processes[$name]}" 2>/dev/null; do
        if ! kill -0 "${processes[$name]}" 2>/dev/null; then
            tail -n 5 "$log" >&2
            fail "server $name did not start; see above, and $log. If its port is taken, name another one: make fleet-server PORT=… STANDBY_PORT=…"
        fi
        sleep 0.1
    done
}

# stop NAME SIGNAL: INT closes all connections and writes all to disk, QUIT is like a crash.
stop() {
    local process=${processes[$1]-}
    [ -n "$process" ] || return 0
    kill -"$2" "$process" 2>/dev/null || true
    # A signal ends the wait, and it goes on.
    while kill -0 "$process" 2>/dev/null; do wait "$process" 2>/dev/null || true; done
    unset "processes[$1]"
}

stop_all() {
    trap '' INT TERM HUP
    [ "${#processes[@]}" -eq 0 ] || say "stopping"
    # First the primary, so that the standby has all of it.
    stop "$(primary 2>/dev/null || echo a)" INT
    stop a INT
    stop b INT
}
trap stop_all EXIT
trap 'exit 0' INT TERM HUP

make_primary() {
    say "making a database in $folder"
    local password
    password=$(python3 -c 'import secrets; print(secrets.token_hex(16))')
    as_server rm -rf "$folder/new" "$folder/b"
    as_server sh -c 'umask 077; cat >"$1"' sh "$folder/password" <<<"$password"
    as_server initdb --auth=scram-sha-256 --username=postgres --pwfile="$folder/password" --encoding=UTF8 --locale=C \
        "$folder/new" >"$folder/initdb.log" || fail "initdb failed; see above, and $folder/initdb.log"
    configure | as_server sh -c 'cat >>"$1"' sh "$folder/new/postgresql.conf"
    as_server mv "$folder/new" "$folder/a"
    start a
    # Not waiting for the standby, which there is not yet.
    PGPASSWORD=$password PGOPTIONS='-c synchronous_commit=local' psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 \
        --host=127.0.0.1 --port="$(port a)" --username=postgres --dbname=postgres <<TEXT
CREATE ROLE fleet LOGIN PASSWORD '$password';
CREATE DATABASE fleet OWNER fleet;
TEXT
    echo a >"$folder/primary"
}

# make_standby NAME: copies the primary.
make_standby() {
    as_server rm -rf "$folder/new" "$folder/$1"
    as_server pg_basebackup --checkpoint=fast --write-recovery-conf --pgdata="$folder/new" \
        --dbname="host=127.0.0.1 port=$(port "$(primary)") user=postgres password=$(cat "$folder/password") application_name=$1"
    as_server mv "$folder/new" "$folder/$1"
}

# What a standby of server $1 says of its connection, whose port may have changed.
follow() {
    as_server sed -i "s/^\(primary_conninfo = .*[' ]port=\)[0-9]*/\1$(port "$(primary)")/" "$folder/$1/postgresql.auto.conf"
}

promote() {
    local old new
    old=$(primary)
    new=$(other "$old")
    say "killing the primary, server $old"
    stop "$old" QUIT
    as_server pg_ctl promote --pgdata="$folder/$new" >/dev/null
    echo "$new" >"$folder/primary"
    say "server $new is the primary; server $old becomes its standby, for which commits wait"
    make_standby "$old"
    start "$old"
    print_connection
}

[ -e "$folder/a.port" ] && [ -z "${PORT-}" ] || echo "${PORT:-$(free_port)}" >"$folder/a.port"
[ -e "$folder/b.port" ] && [ -z "${STANDBY_PORT-}" ] || echo "${STANDBY_PORT:-$(free_port)}" >"$folder/b.port"
if [ -e "$folder/primary" ]; then
    start "$(primary)"
else
    as_server rm -rf "$folder/a"
    make_primary
fi
standby=$(other "$(primary)")
# Without that file it was about to be promoted, or is no whole copy.
if [ -e "$folder/$standby/standby.signal" ]; then follow "$standby"; else make_standby "$standby"; fi
start "$standby"

# MARK: Running

print_connection
say "type 'promote' and Enter to kill the primary and promote the standby; Ctrl-C stops both, and keeps the data"
while true; do
    # Without a terminal there are no commands.
    if read -r -t 1 line 2>/dev/null; then
        case $line in
            promote) promote ;;
            '') ;;
            *) say "the one command is 'promote'" ;;
        esac
    elif [ $? -le 128 ]; then
        sleep 1
    fi
    for name in a b; do
        kill -0 "${processes[$name]}" 2>/dev/null || fail "server $name has ended; see $folder/$name.log"
    done
done
