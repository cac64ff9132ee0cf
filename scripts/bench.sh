#!/usr/bin/env bash
# Builds the benchmarks and what they measure, and runs those whose name begins with PREFIX.
#
#   scripts/bench.sh [PREFIX]

set -euo pipefail
cd "$(dirname "$0")/.."

others() {
    scripts/setup.sh build
    scripts/setup.sh bench || echo "bench: the peers are not there; their lines are left out" >&2
    for product in pushwake cold-start session-start stream-client stream-owner account-host benchmarks; do
        swift build -c release --static-swift-stdlib --product "$product" >&2
    done
    # Not by swift build, which would link Swift's libraries to it.
    clang -O2 -I Benchmarks/CFloor/include Benchmarks/ColdFloor/main.c Benchmarks/CFloor/floor.c \
        $(pkg-config --cflags --libs sqlite3) -o .build/release/cold-floor
    clang -O2 Benchmarks/ArchiveCounter/main.c $(pkg-config --cflags --libs openssl) -o .build/release/archive-counter
    if pkg-config --exists libstrophe; then
        clang -O2 Benchmarks/StrophePeer/main.c $(pkg-config --cflags --libs libstrophe sqlite3) -o .build/release/strophe-peer
    fi
    .build/release/benchmarks "$@"
}

# A program of its own: it links libomemo-c and looks inside the module.
omemo() {
    scripts/setup.sh test
    OMEMO_BENCHMARKS=1 swift build -c release -Xswiftc -enable-testing --scratch-path .build/omemo-bench \
        --product omemo-benchmarks >&2
    .build/omemo-bench/release/omemo-benchmarks "$@"
}

case ${1-} in
    '')
        others
        omemo
        ;;
    omemo*) omemo "$@" ;;
    *) others "$@" ;;
esac
