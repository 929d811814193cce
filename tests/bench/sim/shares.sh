#!/bin/sh
# shares.sh NAME TRACE CLUSTER [OPTION...] - goodput with 0, 20, 50 and 100 % of
# the jobs of a trace elastic, and backfill, which gives all their own sizes: a
# line for each.
#
# MGPU_BIN: the folder of the programs. How the elastic jobs scale is assumed, see
# docs/sim.md. The last figure is the average JCT relative to backfill's.
set -eu

sim=${MGPU_BIN:?set MGPU_BIN to the folder of the mgpu programs}/mgpu-sim
name=$1 trace=$2 cluster=$3
shift 3
out=$(mktemp)
trap 'rm -f "$out" "$out.err"' EXIT

# figure PATH: of the run
figure() {
    sqlite3 :memory: "SELECT json_extract(readfile('$out'), '$.runs[0].$1')"
}

share() { # POLICY PERCENT OPTION...
    policy=$1 percent=$2
    shift 2
    "$sim" --policy "$policy" --cluster "$cluster" "$@" --json "$out" \
        --trace "$trace" --elastic "$percent%" --scaling amdahl:0.95 \
        >/dev/null 2>"$out.err" || { cat "$out.err" >&2; exit 1; }
    jct=$(figure jct_s.avg)
    [ "$policy" = goodput ] || base=$jct
    awk -v name="$name" -v p="$policy" -v e="$percent" -v jct="$jct" \
        -v base="$base" -v p99="$(figure jct_s.p99)" \
        -v rho="$(figure fairness.worst)" 'BEGIN {
            printf "%-22s %-9s %3d %% elastic: JCT %5.2f h, p99 %5.1f h, worst rho %6.1f",
            name, p, e, jct / 3600, p99 / 3600, rho
            if (p == "goodput") printf ", turnaround %+.0f %%", 100 * (jct / base - 1)
            print "" }'
}
share backfill 0 "$@"
for percent in 0 20 50 100; do share goodput "$percent" "$@"; done
