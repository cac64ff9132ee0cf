#!/usr/bin/env bash
# The long kill tests: random kills against the embedded server and against Prosody, seed after seed.
#   KILLS=10000 SEED=1 make torture
set -euo pipefail
cd "$(dirname "$0")/.."
kills=${KILLS:-2000}
seed=${SEED:-$RANDOM}
scripts/setup.sh test
swift build -c release --static-swift-stdlib --product pushwake
for server in embedded prosody; do
    echo "$server: $kills kills, seed $seed"
    .build/release/pushwake simulate --server "$server" --rounds $((kills / 5 + 1)) --kills "$kills" --seed "$seed"
done
echo "handlers: 1000000, $kills kills"
swift build --build-tests
HANDLERS_COUNT=1000000 HANDLERS_KILLS=$kills swift test --skip-build --disable-xctest --filter ConservationTests/twoWorkers
