#!/usr/bin/env bash
# Measures the floor of handlers/ on PostgreSQL: a C program on a new server, over its Unix socket, with synced commits.
#
#   scripts/postgres-floor.sh [STEPS [SETTING=VALUE ...]]
#
# STEPS is the number of handlers for each line; the settings are those of the server. Server and client share one processor:
# on two, waking an idle one takes longer than a statement, and the rate of group-64 depends on where the kernel puts them.
# PROCESSORS=0-3 names others.

set -euo pipefail
cd "$(dirname "$0")/.."
steps=${1:-20000}
shift || true

scripts/setup.sh bench
for product in postgres-program postgres-steps; do swift build -c release --product "$product" >&2; done
# Not by swift build, which would link Swift's libraries to it.
clang -O2 -I Benchmarks/CPostgresFloor/include Benchmarks/PostgresFloor/main.c Benchmarks/CPostgresFloor/*.c \
    $(pkg-config --cflags --libs libpq) -o .build/release/postgres-floor

processors=${PROCESSORS:-$(($(nproc) - 1))}
measure() { taskset -c "$processors" ".build/release/$1" "$connection" "$steps" "${@:2}"; }
# The server ends when this script does.
coproc server { exec taskset -c "$processors" .build/release/postgres-program "$@"; }
read -r connection <&"${server[0]}"
measure postgres-floor 1
measure postgres-floor 64
measure postgres-floor 64 two-flights
measure postgres-steps 1
measure postgres-steps 64
