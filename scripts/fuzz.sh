#!/usr/bin/env bash
# Builds the fuzz targets with libFuzzer and AddressSanitizer, runs them one after the other, and puts what they found into
# their corpora: inputs that reach new code, and inputs that break a rule, made small.
#
#   scripts/fuzz.sh [TARGET]           SECONDS of each target come from FUZZ_SECONDS, 60 where that says nothing
#   scripts/fuzz.sh TARGET FILE...     runs these inputs only, to see what they break
#
# The exit status is 1 when a rule was broken. docs/internals/fuzzing.md says what to do then.

set -euo pipefail
cd "$(dirname "$0")/.."
only=${1-}
seconds=${FUZZ_SECONDS:-60}
build=.build/fuzz
fuzz=$build/release/fuzz
corpora=Fuzz/corpus
# Of each corpus. All together stay under a megabyte.
corpus_bytes=32768
corpus_files=100
scripts/setup.sh test
FUZZING=1 swift build --quiet -c release --scratch-path "$build" --product fuzz \
    -Xswiftc -sanitize=fuzzer,address -Xswiftc -enable-testing

if [ -n "$only" ] && ! "$fuzz" | grep -q "^$only "; then
    echo "fuzz: there is no target '$only'; these are: $("$fuzz" | cut -d ' ' -f 1 | tr '\n' ' ')" >&2
    exit 2
fi

# What the targets write stays in memory where it can, and goes with this script whatever ends them.
scratch=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")/durable-handlers-fuzz-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch SWIFT_BACKTRACE=enable=no
# A thread that lives as long as the process is no leak; what grows with the inputs meets rss_limit_mb.
export ASAN_OPTIONS=detect_leaks=0:handle_abort=0:malloc_context_size=2:quarantine_size_mb=16

if [ $# -gt 1 ]; then
    shift
    FUZZ_TARGET=$only "$fuzz" -artifact_prefix="$scratch/" "$@"
    exit
fi

# The smallest inputs that reach what the corpus reaches; those named by people stay whatever they reach.
tidy() {
    local target=$1 found=$2 kept=$scratch/kept input
    rm -rf "$kept" && mkdir "$kept"
    FUZZ_TARGET=$target "$fuzz" -set_cover_merge=1 -max_len="$3" -rss_limit_mb=2048 "$kept" "$corpora/$target" "$found" \
        >"$scratch/merge.log" 2>&1 || cat "$scratch/merge.log" >&2
    find "$corpora/$target" -type f -regextype posix-extended -regex '.*/[0-9a-f]{40}' -delete
    # Small ones first: they are read more easily, and more of them fit.
    find "$kept" -type f -printf '%s %p\n' | sort -n | head -n "$corpus_files" |
        while read -r bytes input; do
            total=$((${total:-0} + bytes))
            [ "$total" -le "$corpus_bytes" ] || break
            cp "$input" "$corpora/$target/"
        done
}

# A crash made as small as it gets in a minute, under a name that stays.
keep_crash() {
    local target=$1 crash=$2 small=$scratch/small
    cp "$crash" "$small"
    FUZZ_TARGET=$target "$fuzz" -minimize_crash=1 -exact_artifact_path="$small" -artifact_prefix="$scratch/" \
        -max_total_time=60 "$crash" \
        >"$scratch/minimize.log" 2>&1 || true
    local name
    name=$corpora/$target/found-$(sha1sum "$small" | cut -c 1-12)
    cp "$small" "$name"
    echo "$target: $name breaks a rule" >&2
    FUZZ_TARGET=$target "$fuzz" -artifact_prefix="$scratch/" "$name" 2>&1 | grep -E -m 2 'FINDING|AddressSanitizer: |Fatal error|/Sources/' |
        cut -c 1-300 >&2 || true
}

status=0
while read -r target length dictionary; do
    [ -z "$only" ] || [ "$only" = "$target" ] || continue
    found=$scratch/$target
    mkdir -p "$found" "$scratch/crashes" "$corpora/$target"
    words=()
    [ "$dictionary" = none ] || words=(-dict="Fuzz/dictionaries/$dictionary.dict")
    FUZZ_TARGET=$target "$fuzz" -max_total_time="$seconds" -max_len="$length" -timeout=30 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="$scratch/crashes/" "${words[@]}" "$found" "$corpora/$target" \
        >"$scratch/$target.log" 2>&1 || status=1
    runs=$(sed -nE 's/^stat::number_of_executed_units: *//p' "$scratch/$target.log")
    rate=$(sed -nE 's/^stat::average_exec_per_sec: *//p' "$scratch/$target.log")
    crashes=("$scratch"/crashes/*)
    [ -e "${crashes[0]}" ] || crashes=()
    printf '%-16s %10s inputs %8s/s %4s found\n' "$target" "${runs:-?}" "${rate:-?}" "${#crashes[@]}"
    [ "${#crashes[@]}" -gt 0 ] || [ -n "$runs" ] || cat "$scratch/$target.log" >&2
    tidy "$target" "$found" "$length"
    for crash in "${crashes[@]}"; do keep_crash "$target" "$crash"; done
    rm -rf "$scratch/crashes" "$found"
done < <("$fuzz")
exit "$status"
