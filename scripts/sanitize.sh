#!/usr/bin/env bash
# Runs the tests with sanitizers. The exit status is 1 when a test failed or a sanitizer found something.
#
#   scripts/sanitize.sh [memory|threads] [PREFIX...]     both, or one of them; the tests whose module or suite begins so
#
# memory: AddressSanitizer in Swift and C, UndefinedBehaviorSanitizer in C. threads: ThreadSanitizer, in a copy of the package with
# another lock (scripts/thread-locks.swift). docs/internals/testing.md says what they do not see.

set -euo pipefail
cd "$(dirname "$0")/.."
export SWIFT_BACKTRACE=enable=no
reports=$PWD/.build/sanitizers

# Programs that are killed all the time, tests that measure memory or limit it, and tests of what a tracer sees.
without=(Kill 'OmemoTests\.OmemoBoundsTests/' 'XMPPModulesTests\.BoundsTests/')

# Runs the tests of a build in a folder, and shows what the sanitizer has reported of any process.
run() {
    local folder=$1 build=$2 patterns=() pattern
    shift 2
    rm -rf "$reports" && mkdir -p "$reports"
    for pattern in "${without[@]}"; do patterns+=(--skip "$pattern"); done
    local status=0
    (cd "$folder" && scripts/test.py --build "$build" "${patterns[@]}" "$@") || status=1
    local found=("$reports"/*)
    if [ -e "${found[0]}" ]; then
        grep -hE 'SUMMARY|runtime error' "${found[@]}" | sort | uniq -c >&2 || true
        echo "sanitize: ${#found[@]} processes reported something; see $reports" >&2
        status=1
    fi
    return "$status"
}

memory() {
    swift build --build-tests --scratch-path .build/memory --sanitize address \
        -Xcc -fsanitize=undefined -Xcc -fno-sanitize-recover=undefined
    export ASAN_OPTIONS="detect_leaks=1:detect_stack_use_after_return=1:log_path=$reports/address"
    export UBSAN_OPTIONS="print_stacktrace=1:log_path=$reports/undefined"
    # An object keeps the shifted address of what its weak references share, where LeakSanitizer finds no pointer.
    echo leak:formWeakReference >.build/memory/leaks.txt
    export LSAN_OPTIONS="suppressions=$PWD/.build/memory/leaks.txt:print_suppressions=0"
    run . .build/memory "$@"
}

# Brings a copy of the package up to date in which each `Mutex` is a lock that ThreadSanitizer sees.
copy() {
    local copy=$1 file
    git ls-files -z | while IFS= read -r -d '' file; do
        # Files that have not changed are not built again.
        if [ ! -f "$file" ] || [ "$copy/$file" -nt "$file" ]; then continue; fi
        mkdir -p "$copy/$(dirname "$file")"
        cp "$file" "$copy/$file"
        [[ $file != *.swift ]] || sed -i 's/^import Synchronization$/&; import struct ThreadLocks.Mutex/' "$copy/$file"
    done
    (cd "$copy" && find . \( -path ./.build -o -path ./Sources/ThreadLocks \) -prune -o -type f -print) | while IFS= read -r file; do
        [ -f "$file" ] || rm "$copy/$file"
    done
    mkdir -p "$copy/Sources/ThreadLocks" "$copy/.build"
    cp -u scripts/thread-locks.swift "$copy/Sources/ThreadLocks/Mutex.swift"
    ln -sfn "$PWD/.build/peers" "$copy/.build/peers"
    cat Package.swift - >"$copy/Package.swift" <<'SWIFT'

// The tests that run with threads of the library, and what they need.
var needed: Set = ["PlatformTests", "HandlersTests", "XMPPTransportTests", "XMPPAccountTests"]
var count = 0
while count < needed.count {
    count = needed.count
    for target in package.targets where needed.contains(target.name) {
        for case .byNameItem(let name, _) in target.dependencies { needed.insert(name) }
    }
}
package.products = []
package.targets.removeAll { !needed.contains($0.name) }
for target in package.targets where [.regular, .executable, .test].contains(target.type) && !target.name.hasPrefix("C") {
    target.dependencies.append("ThreadLocks")
}
package.targets.append(.target(name: "ThreadLocks"))
SWIFT
    # They are programs for the pages.
    rm -rf "$copy/Snippets"
}

threads() {
    local source=.build/threads/source
    copy "$source"
    (cd "$source" && swift build --build-tests --sanitize thread)
    export TSAN_OPTIONS="log_path=$reports/thread"
    run "$source" .build "$@"
}

which=both
if [ "${1-}" = memory ] || [ "${1-}" = threads ]; then
    which=$1
    shift
fi
scripts/setup.sh test
[ "$which" = threads ] || memory "$@"
[ "$which" = memory ] || threads "$@"
