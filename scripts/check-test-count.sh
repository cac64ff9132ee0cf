#!/usr/bin/env bash
# Compares the @Test functions in Tests/ and Fuzz/ with those that ran, by the event streams of `swift test`
# (--event-stream-output-path). A parameterized test counts once. Exit status 1 when one did not run.
#
#   scripts/check-test-count.sh EVENTS...

set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || {
    echo "usage: scripts/check-test-count.sh EVENTS..." >&2
    exit 2
}

# Both lists hold lines "module/file.swift:line", where the line is that of the attribute.
declared=$(grep -rnE --include='*.swift' '^[[:space:]]*@Test\b' Tests Fuzz |
    sed -E 's#^Fuzz/Sources/Replay/#Tests/FuzzTests/#' |
    sed -E 's#^Tests/([^/]+)/(.*/)?([^/]+\.swift):([0-9]+):.*#\1/\3:\4#' | sort -u)
# The id of a function ends in its place; that of a suite does not.
ran=$(grep -hF '"kind":"testStarted"' "$@" |
    sed -nE 's#.*"testID":"([^."]+)\..*\\/([^/"]+\.swift):([0-9]+):[0-9]+".*#\1/\2:\3#p' | sort -u)

not_run=$(comm -23 <(echo "$declared") <(echo "$ran"))
if [ -n "$not_run" ]; then
    echo "These tests are in the sources but did not run:" >&2
    echo "$not_run" | sed 's/^/  /' >&2
    exit 1
fi
echo "All $(echo "$declared" | wc -l) tests in the sources ran."
