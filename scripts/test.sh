#!/usr/bin/env bash
# Runs every test and tells at the end what failed.
#
#   scripts/test.sh EVENTS     writes the events of the run there, for scripts/check-test-count.sh
#
# The tests that kill many processes run after the others, so that neither waits for the other's turns. Those that fill
# stores to their bounds take a processor for minutes, and those that count a process's system calls must not be disturbed:
# each of the two runs by itself.

set -uo pipefail
cd "$(dirname "$0")/.."
events=${1:?"usage: scripts/test.sh EVENTS"}
killing='^(PushwakeTests|OmemoTests|UploadTests)\.'
# It has machines, databases and servers of its own, whose leases run by the clock.
fleet='^HandlersPostgresTests\.FleetTests/'
filling='^XMPPModulesTests\.(BoundsTests|OldStoreTests)/'
counting='^PushwakeTests\.SystemCallKillTests/'
rows='^(HandlersTests|XMPPAccountTests\.Account(Connect|Deferral|Message|Ownership|Resume|Runner|Service|Start)Tests)[./]'
twice='^HandlersTests\.(EndingTests|FailingHandlerTests|HandlerInHandlerTests|JoinTests|KeyTests|StandingTests|VersionTests)/'
rm -f "$events"
status=0
# Without a limit all tests begin at once, and those that await something stand behind a thousand others. Most wait for a
# server or a process, so there are more than the machine has cores.
export SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=$((4 * $(nproc)))
# A test that hangs must not keep the others' results: no pass takes half as long.
limit=35m
run() {
    timeout --signal=ABRT --kill-after=30 "$limit" swift test --skip-build --disable-xctest "$@" --event-stream-output-path "$events.part" || status=$?
    cat "$events.part" >>"$events"
    rm -f "$events.part"
}
run --skip "$killing" --skip "$filling" --skip "$fleet"
# The tests of handlers once more, with their stores on PostgreSQL, and those of accounts that are about their rows.
HANDLERS_TEST_ENGINE=postgres run --filter "$rows"
# And a part of them with each step run twice, which may change nothing that is stored.
HANDLERS_TEST_ENGINE=postgres-twice run --filter "$twice"
run --filter "$filling"
# These keep the processors busy by themselves: with more of them at once a server takes a minute to start.
export SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=$((2 * $(nproc)))
run --filter "$killing" --skip "$counting"
run --filter "$counting"
run --filter "$fleet"
if [ "$status" -ne 0 ]; then
    echo "What failed:" >&2
    grep -F '"kind":"issueRecorded"' "$events" | grep -oE '"symbol":"[^"]*","text":"([^"\\]|\\.)*"|"text":"([^"\\]|\\.)*"|"testID":"([^"\\]|\\.)*"' |
        sed -E 's/^/  /' | cut -c 1-600 >&2
fi
exit "$status"
