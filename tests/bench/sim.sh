#!/bin/sh
# sim.sh - mgpu-sim on the published traces, beside the figures of others.
#
# MGPU_BIN: the folder of the programs. PHILLY=1: all of October 2017 as well, two
# minutes. MGPU_TRACES: a folder with logs of the Parallel Workloads Archive, see
# sim/logs.sh. Averages over Pollux' workloads 1 to 4; hours. The figures of others
# are constants: FIFO and EASY of an event simulator of 80 lines on the same
# files, the rest as published, with elastic jobs.
set -eu

sim=${MGPU_BIN:?set MGPU_BIN to the folder of the mgpu programs}/mgpu-sim
traces=$(cd "$(dirname "$0")/../data/traces" && pwd)
pollux=$traces/pollux-osdi21
out=$(mktemp)
trap 'rm -f "$out" "$out.csv"' EXIT

# figure PATH: of the first run
figure() {
    sqlite3 :memory: "SELECT json_extract(readfile('$out'), '$.runs[0].$1')"
}

# suite NAME WORKLOADS OPTION...: one line for each policy
suite() {
    name=$1 workloads=$2
    shift 2
    for policy in fifo backfill; do
        for w in 1 2 3 4; do
            "$sim" --policy "$policy" --cluster 16x4 "$@" --json "$out" \
                --trace "pollux:$pollux/$workloads/workload-$w.csv.gz" \
                --tables "pollux:$pollux/models" >/dev/null
            echo "$(figure jct_s.avg) $(figure jct_s.p99) $(figure makespan_s)" \
                "$(figure completed) $(figure jobs)"
        done | awk -v name="$name" -v policy="$policy" '
            { jct += $1; p99 += $2; span += $3; done += $4; all += $5 }
            END { printf "%-22s %-9s JCT %5.2f h, p99 %5.1f h, makespan %5.2f h, %d of %d\n",
                  name, policy, jct / NR / 3600, p99 / NR / 3600,
                  span / NR / 3600, done, all }'
    done
}

other() { printf '%-22s %-9s JCT %s\n' "" "$@"; }

suite 'rigid, exact limits' workloads --request trace --limits exact
other FIFO ' 5.6  h, makespan 21.9 h (event simulator)'
other EASY ' 2.5  h, makespan 21.2 h (event simulator)'
suite 'rigid, limits x3' workloads --request trace
suite 'untuned requests' workloads-realistic --request trace
other FIFO ' 2.87 h, EASY 2.82 h, Tiresias 2.11 h (8 workloads)'
suite 'load 0.5' workloads-0.5 --request trace
suite 'load 1.5' workloads-1.5 --request trace
suite 'load 2.0' workloads-2.0 --request trace
suite 'elastic, fixed batch' workloads
other Tiresias ' 1.03 h, makespan 22.4 h; Optimus 1.45 h, 17.3 h'
suite 'elastic, adaptive' workloads --batch adaptive
other Pollux ' 0.72 h, makespan 15.4 h'

printf '\n%-22s' 'decisions'
"$sim" --bench 10000x10000 --json "$out" >/dev/null
printf ' 10000 jobs x 10000 GPUs: p50 %.1f ms, p99 %.1f ms\n' \
    "$(figure decision_ms.p50)" "$(figure decision_ms.p99)"

# philly NAME TRACE: one line for each policy
philly() {
    name=$1 trace=$2
    for policy in fifo backfill; do
        "$sim" --policy "$policy" --cluster 64x8 --limits exact --json "$out" \
            --trace "csv:$trace" >/dev/null
        awk -v name="$name" -v p="$policy" -v jct="$(figure jct_s.avg)" \
            -v wall="$(figure wall_s)" -v steps="$(figure steps)" \
            -v n="$(figure completed)" 'BEGIN {
                printf "%-22s %-9s JCT %5.2f h, %d jobs in %.1f s, %.0f steps/s\n",
                name, p, jct / 3600, n, wall, steps / wall }'
    done
}

october=$traces/philly/philly_oct2017.t_duration_gpus.csv.gz
zcat "$october" | head -n 11000 >"$out.csv"
philly '11,000 jobs of Philly' "$out.csv"

# Jobs of one size made elastic by an assumed law; the sizes of all others, and
# all sizes under backfill, are those of the trace.
zcat "$october" | head -n 3000 >"$out.csv"
bench=$(dirname "$0")/sim
"$bench/shares.sh" '3,000 jobs of Philly' "csv:$out.csv" 32x8 --limits exact
other '' 'turnaround 37 to 67 % less (arXiv 2602.17318, its own traces)'
"$bench/logs.sh"
[ -n "${PHILLY:-}" ] || exit 0
philly 'Philly, October 2017' "$october"
other FIFO '27.85 h, EASY 6.01 h (event simulator)'
