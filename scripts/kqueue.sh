#!/usr/bin/env bash
# Runs the tests of Platform with Darwin's part of it, over a kqueue made of epoll (Tests/KqueueShim).
#
#   scripts/kqueue.sh          the tests of Platform
#   scripts/kqueue.sh all      every test, in a build of everything

set -euo pipefail
cd "$(dirname "$0")/.."

export HANDLERS_KQUEUE=${1:-platform}
build=.build/kqueue-$HANDLERS_KQUEUE
# The product alone: snippets, which would be built too, need the targets that are left out.
swift build --scratch-path "$build" --product durable-handlersPackageTests 2>&1 | grep -E 'error|^Build' || [ "${PIPESTATUS[0]}" = 0 ]
"$build/debug/durable-handlersPackageTests.xctest" --testing-library swift-testing | { grep -E '✘|Test run with' || true; }
