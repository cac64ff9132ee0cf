#!/usr/bin/env bash
# Measures the floor of handlers/ on PostgreSQL: a C program on a new server, over its Unix socket, with synced commits.
#
#   scripts/postgres-floor.sh [STEPS [SETTING=VALUE ...]]
#
# STEPS is the number of handlers for each line; the settings are those of the server.

set -euo pipefail
cd "$(dirname "$0")/.."
steps=${1:-20000}
shift || true

scripts/setup.sh bench
swift build -c release --product postgres-program >&2
# Not by swift build, which would link Swift's libraries to it.
clang -O2 -I Benchmarks/CPostgresFloor/include Benchmarks/PostgresFloor/main.c Benchmarks/CPostgresFloor/*.c \
    $(pkg-config --cflags --libs libpq) -o .build/release/postgres-floor

# The server ends when this script does.
coproc server { exec .build/release/postgres-program "$@"; }
read -r connection <&"${server[0]}"
.build/release/postgres-floor "$connection" "$steps" 1
.build/release/postgres-floor "$connection" "$steps" 64
.build/release/postgres-floor "$connection" "$steps" 64 two-flights
