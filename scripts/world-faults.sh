#!/bin/bash
# Writes docs/internals/world-faults.md: how soon the simulated world finds each fault that is built in on purpose.
#
#     scripts/world-faults.sh [SECONDS]     the time for each fault, 60 by default
set -euo pipefail
cd "$(dirname "$0")/.."
page=docs/internals/world-faults.md
swift build -c release --traits Failpoints --product WorldTestProgram --scratch-path .build/world
rows=$(SWIFT_DETERMINISTIC_HASHING=1 .build/world/release/WorldTestProgram faults "${1:-60}")
{
    cat <<'END'
# Faults that the simulated world finds

Each fault is a switch in the shipped code ([BuiltInFault.swift](../../Sources/Handlers/BuiltInFault.swift)), which is only there in
debug builds and with the package trait `Failpoints`. The world ([Sources/World](../../Sources/World)) runs seed after seed with
40 lives of processes each until its model reports a violation. `scripts/world-faults.sh` writes this page; the seeds change
with the world.

```
WorldTestProgram world 1 100 40 fault=no-fence trace    # the first seed that shows a fault, with its events
WorldTestProgram faults 60 no-fence keep-lease          # rows of this table
```

| Fault | What is wrong | Violation | Seed | Lives until then |
|---|---|---|---|---|
END
    echo "$rows"
} >"$page"
! grep -n "not found" "$page"
