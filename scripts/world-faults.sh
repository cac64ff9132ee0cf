#!/bin/bash
# Writes docs/internals/world-faults.md: how soon the simulated world finds each fault that is built in on purpose.
#
#     scripts/world-faults.sh [SECONDS]     the time for each fault, 60 by default
set -euo pipefail
cd "$(dirname "$0")/.."
page=docs/internals/world-faults.md
swift build -c release --traits Failpoints --product pushwake-world --scratch-path .build/faults
rows=$(.build/faults/release/pushwake-world --fault all --seed 1 --lives 40 --seconds "${1:-60}")
{
    cat <<'END'
# Faults that the simulated world finds

Each fault is a switch in the shipped code ([BuiltInFault.swift](../../Sources/Handlers/BuiltInFault.swift)), which is only there in
debug builds and with the package trait `Failpoints`. The world ([Sources/World](../../Sources/World)) runs seed after seed with
40 lives of processes each until its model reports a violation. `scripts/world-faults.sh` writes this page; the seeds change
with the world.

```
pushwake world --seed 14 --lives 40 --fault no-fence    # shortened, with its last events
```

| Fault | What is wrong | Violation | Seed | Lives until then | Time on one core |
|---|---|---|---|---|---|
END
    echo "$rows"
} >"$page"
! grep -n "not found" "$page"
