#!/usr/bin/env bash
# Kills the order of the guide under load, as a workflow, as handlers and in DBOS, and prints what became of the orders.
#
#   scripts/order-kills.sh [KILLS] [OPTION...]
#
# Options are those of Benchmarks/OrderKills/run.py. ORDER_PROGRAMS="handlers dbos" leaves the others out.

set -euo pipefail
cd "$(dirname "$0")/.."

kills=${1:-500}
[ $# = 0 ] || shift
programs=()
for name in ${ORDER_PROGRAMS:-workflow handlers dbos}; do
    case $name in
        workflow | handlers)
            swift build -c release --product "order-$name" >&2
            programs+=("$name=Snippets/Order${name^}.swift=.build/release/order-$name")
            ;;
        dbos)
            scripts/setup.sh bench
            programs+=("DBOS 3.4.0=Benchmarks/peers/dbos_orders.py=.build/peers/bin/python Benchmarks/OrderKills/dbos_program.py")
            ;;
    esac
done
exec python3 Benchmarks/OrderKills/run.py "$kills" "${programs[@]}" "$@"
