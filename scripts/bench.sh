#!/usr/bin/env bash
# Builds the benchmarks and what they measure, and runs those whose name begins with PREFIX.
#
#   scripts/bench.sh [PREFIX]

set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh build
for product in pushwake benchmarks; do
    swift build -c release --static-swift-stdlib --product "$product" >&2
done
exec .build/release/benchmarks "$@"
