#!/usr/bin/env bash
# Runs every test and tells at the end what failed.
#
#   scripts/test.sh EVENTS     writes the events of the run there, for scripts/check-test-count.sh
#
# The tests that kill many processes run after the others, so that neither waits for the other's turns.

set -uo pipefail
cd "$(dirname "$0")/.."
events=${1:?"usage: scripts/test.sh EVENTS"}
killing='^(PushwakeTests|OmemoTests)\.'
rm -f "$events"
status=0
for part in --skip --filter; do
    swift test --skip-build --disable-xctest "$part" "$killing" --event-stream-output-path "$events.part" ||
        status=$?
    cat "$events.part" >>"$events"
    rm -f "$events.part"
done
if [ "$status" -ne 0 ]; then
    echo "What failed:" >&2
    grep -F '"kind":"issueRecorded"' "$events" | grep -oE '"symbol":"[^"]*","text":"([^"\\]|\\.)*"|"text":"([^"\\]|\\.)*"|"testID":"([^"\\]|\\.)*"' |
        sed -E 's/^/  /' | cut -c 1-600 >&2
fi
exit "$status"
