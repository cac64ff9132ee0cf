#!/bin/bash
# Compares the digests of a few simulated worlds between the debug build, which `make test` leaves, and the release build.
set -euo pipefail
cd "$(dirname "$0")/.."
swift build -c release --product pushwake-world
for seed in 1 2 3; do
    for build in debug release; do
        digest=$(".build/$build/pushwake-world" --seed "$seed" --lives 8 | grep -o 'digest [0-9a-f]*')
        if [ "${before:=$seed $digest}" != "$seed $digest" ]; then
            echo "seed $seed has the $digest in the $build build, and another one in the debug build; run both with --trace" >&2
            exit 1
        fi
    done
    unset before
done
