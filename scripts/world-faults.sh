#!/bin/bash
# Writes docs/internals/world-faults.md: how soon the simulated world finds each fault that is built in on purpose.
#
#     scripts/world-faults.sh [SECONDS]     the time for each fault, 60 by default
set -euo pipefail
cd "$(dirname "$0")/.."
page=docs/internals/world-faults.md
for product in pushwake-world pushwake-omemo; do
    swift build -c release --traits Failpoints --product $product --scratch-path .build/faults
done
options=(--fault all --seed 1 --lives 40 --seconds "${1:-60}")
rows=$(.build/faults/release/pushwake-world "${options[@]}" && .build/faults/release/pushwake-omemo world "${options[@]}")
{
    cat <<'END'
# Faults that the simulated world finds

Each fault is a switch in the shipped code ([BuiltInFault.swift](../../Sources/Handlers/BuiltInFault.swift)), which is only there in
debug builds and with the package trait `Failpoints`. The world ([Sources/World](../../Sources/World)) runs seed after seed with
40 lives of processes each until its model reports a violation. `scripts/world-faults.sh` writes this page; the seeds change
with the world.

```
pushwake world --seed 108 --lives 40 --fault no-fence         # shortened, with its last events
pushwake omemo world --seed 1 --lives 40 --fault ratchet-apart
```

| Fault | What is wrong | Violation | Seed | Lives until then | Time on one core |
|---|---|---|---|---|---|
END
    echo "$rows"
} >"$page"
! grep -n "not found" "$page"
