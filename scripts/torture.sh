#!/usr/bin/env bash
# The long kill tests: random kills against the embedded server, Prosody and ejabberd; with the first two, lines break,
# sessions expire and the server restarts besides. Then a worker that finds thousands of messages in a store with a million
# requests pending, a login after a long absence, a worker that finds attacks, conversations with OMEMO under random kills, a
# host of a thousand accounts, one with a silent server, uploads under kills, lines that break after each byte, a million handlers through
# two workers, stores of which each column is altered in turn, and machines that share accounts on PostgreSQL. Every test of
# `make test` at full scale, and those of the runtime and of the parsers with sanitizers. A store under
# Patroni whose leader dies, where Patroni is installed.
# The small faults of Tests/mutants.txt, each of which the tests must notice. At last each fuzz target for FUZZ_SECONDS, which is
# long enough for 10^8 inputs in all.
#
#   KILLS=10000 SEED=1 FUZZ_SECONDS=900 make torture
#
# KILLS is the sum over the servers. A run that fails says its seed, and keeps its database and logs.
set -euo pipefail
cd "$(dirname "$0")/.."
kills=${KILLS:-10000}
seed=${SEED:-$RANDOM}
scripts/setup.sh test
swift build -c release --static-swift-stdlib --product pushwake
simulate() {
    local server=$1 share=$2
    shift 2
    echo "$server: $share kills, seed $seed"
    if ! .build/release/pushwake simulate --server "$server" --rounds $((share / 3 + 1)) --kills "$share" \
        --seed "$seed" "$@"; then
        echo "repeat it with: KILLS=$kills SEED=$seed make torture" >&2
        exit 1
    fi
}
simulate embedded $((kills * 5 / 10)) --faults
simulate prosody $((kills * 3 / 10)) --faults
simulate ejabberd $((kills * 2 / 10))
for server in embedded prosody; do
    echo "backlog on $server: 10000 messages, 1000 answers, 1000000 requests pending"
    .build/release/pushwake backlog --server "$server" --seed "$seed"
done
echo "backlog: the session of 1000000 requests is lost"
.build/release/pushwake backlog --messages 100 --answers 10 --lose-session --seed "$seed"
echo "storm: 150000 messages"
.build/release/pushwake storm --seed "$seed"
echo "attacks: what a worker takes that finds them"
swift build --build-tests
WORKER_PROGRAM=$PWD/.build/release/pushwake swift test --skip-build --disable-xctest --filter WorkerAttackTests
echo "OMEMO: 1000 messages with each version on each server"
OMEMO_MESSAGES=1000 swift test --skip-build --disable-xctest --filter OmemoKillTests/randomKills
echo "a host of 1000 accounts: 200 kills on each server"
HOST_ACCOUNTS=1000 HOST_KILLS=200 swift test --skip-build --disable-xctest --filter HostKillTests
echo "a host with 640 accounts of a silent server beside 100 of another one"
HOST_SILENT=640 HOST_GOOD=100 swift test --skip-build --disable-xctest --filter SilentServerTests
echo "uploads: killed at each place, twelve times each"
UPLOAD_HITS=12 swift test --skip-build --disable-xctest --filter UploadKillTests
echo "lines that break after each byte"
TORN_POSITIONS=all swift test --skip-build --disable-xctest --filter TornStreamTests
echo "altered stores: every column with every value"
ALTERED_VALUES=all swift test --skip-build --disable-xctest --filter AlteredStoreTests
echo "handlers: 1000000, $kills kills"
HANDLERS_COUNT=1000000 HANDLERS_KILLS=$kills swift test --skip-build --disable-xctest --filter ConservationTests/twoWorkers
echo "a fleet: 1000 accounts on 4 machines for ten minutes"
swift build -c release --product fleet-proof
.build/release/fleet-proof --seed "$seed"
echo "every test with all of its random inputs; those of PostgreSQL also with each step run twice"
swift build --build-tests
TEST_SCALE=full scripts/test.py
echo "sanitizers: memory and undefined behavior of the runtime and of the parsers"
scripts/sanitize.sh memory PlatformTests XMPPCoreTests IQTrackerTests HandlersTests
echo "Patroni: a leader dies under a store"
scripts/patroni-trial.sh
echo "mutants: small faults that the tests must notice"
scripts/mutants.py
echo "fuzzing: ${FUZZ_SECONDS:-900} s for each target"
FUZZ_SECONDS=${FUZZ_SECONDS:-900} scripts/fuzz.sh
