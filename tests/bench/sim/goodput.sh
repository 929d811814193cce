#!/bin/sh
# goodput.sh - the proof of the policy goodput: suites, rivals and goals.
#
# MGPU_BIN: the folder of the programs. One configuration, the defaults, for
# all. Each line has a figure of ours, its goal, and whether it is met. fifo and
# backfill run here; the figures of other schedulers are constants: published,
# or of Sia's objective in our own simulator. Hours, unless a unit is named.
# Fails if a goal is missed by more than 5 %.
# ALONE: without backfill, and what is compared with it.
# SUITES: some of "b2 b1 loads b2r mix rush pair robust"; all without.
set -eu

sim=${MGPU_BIN:?set MGPU_BIN to the folder of the mgpu programs}/mgpu-sim
here=$(cd "$(dirname "$0")" && pwd)
pollux=$here/../../data/traces/pollux-osdi21
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
suites=${SUITES:-b2 b1 loads b2r mix rush pair robust}

# figures: a line of the last run, in hours and numbers:
# AVG P99 MAKESPAN P99-SLOWDOWN RESTARTS NOT-COMPLETED
figures() {
    sqlite3 -separator ' ' :memory: "
        WITH r AS (SELECT json_extract(readfile('$tmp/out'), '\$.runs[0]') AS r)
        SELECT json_extract(r, '\$.jct_s.avg') / 3600,
               json_extract(r, '\$.jct_s.p99') / 3600,
               json_extract(r, '\$.makespan_s') / 3600,
               json_extract(r, '\$.slowdown.p99'),
               json_extract(r, '\$.restarts_per_job'),
               json_extract(r, '\$.jobs') - json_extract(r, '\$.completed')
        FROM r"
}

run() { # OPTION...: adds a line of figures to $tmp/rows
    "$sim" "$@" --json "$tmp/out" >/dev/null || true
    figures >>"$tmp/rows"
}

begin() { : >"$tmp/rows"; }

# show NAME: the means over the rows, kept in $tmp/NAME
show() {
    awk -v name="$1" '
        { for (i = 1; i <= 6; i++) s[i] += $i }
        END { for (i = 1; i <= 5; i++) m[i] = s[i] / NR
              printf "  %-24s JCT %6.3f, p99 %6.2f, makespan %6.2f, p99 slowdown %6.1f, restarts %.1f%s\n",
                     name, m[1], m[2], m[3], m[4], m[5],
                     s[6] ? ", NOT COMPLETED " s[6] : ""
              print m[1], m[3], m[5] >"'"$tmp/means"'" }' "$tmp/rows"
    cp "$tmp/means" "$tmp/$(echo "$1" | tr ' /' '__')"
}

# mean NAME COLUMN: 1 the average JCT, 2 the makespan, 3 the restarts
mean() { cut -d' ' -f"$2" "$tmp/$(echo "$1" | tr ' /' '__')"; }

goal() { # WHAT FIGURE MOST
    awk -v what="$1" -v x="$2" -v most="$3" 'BEGIN {
        printf "    %-26s %8.3f, goal %s: %s\n", what, x, most,
               x <= most ? "met" : sprintf("MISSED by %.2f %%", 100 * (x / most - 1))
        if (x > 1.05 * most) print what >>"'"$tmp/missed"'" }'
}

other() { printf '  %-24s %s\n' "$1" "$2"; }

pollux_suite() { # NAME WORKLOADS OPTION...
    name=$1 workloads=$2
    shift 2
    begin
    for w in 1 2 3 4; do
        run --policy goodput --cluster 16x4 "$@" \
            --trace "pollux:$pollux/$workloads/workload-$w.csv.gz" \
            --tables "pollux:$pollux/models"
    done
    show "$name"
}

ratio() { awk -v x="$1" -v y="$2" 'BEGIN { print x / y }'; }

has() { case " $suites " in *" $1 "*) ;; *) return 1 ;; esac }

if has b2; then
    echo 'B2: fixed batch, Pollux workloads 1 to 4, 16 x 4'
    other 'Sia objective' 'JCT  1.07 , makespan 17.8; Tiresias 1.026, 22.5; Optimus 1.45, 17.4'
    pollux_suite b2 workloads
    goal 'average JCT' "$(mean b2 1)" .82
    goal makespan "$(mean b2 2)" 18.7
    goal restarts "$(mean b2 3)" 4
fi
if has b1; then
    echo 'B1: adaptive batch, the same'
    other Pollux 'JCT  0.717, makespan 15.5; Sia objective 0.760, 15.2'
    pollux_suite b1 workloads --batch adaptive
    goal 'average JCT' "$(mean b1 1)" .64
    goal makespan "$(mean b1 2)" 16.0
fi
if has loads; then
    echo 'Loads 0.5, 1.5, 2: adaptive batch'
    other Pollux 'JCT  0.395, 1.003, 1.442'
    for load in 0.5:.40 1.5:.85 2.0:1.15; do
        pollux_suite "load ${load%:*}" "workloads-${load%:*}" --batch adaptive
        goal 'average JCT' "$(mean "load ${load%:*}" 1)" "${load#*:}"
    done
fi
if has b2r; then
    echo 'B2r: untuned requests'
    other 'SJF, exact lengths' 'JCT  2.12 ; backfill 2.29'
    pollux_suite b2r workloads-realistic
    goal 'average JCT' "$(mean b2r 1)" 1.75
fi

# The jobs of the papers, see h100mix.sh.
"$here/h100mix.sh" tables >"$tmp/tables.csv"

paper_run() { # POLICY CLUSTER: of $tmp/trace
    run --policy "$1" --cluster "$2" --request trace \
        --trace "mgpu:$tmp/trace" --tables "mgpu:$tmp/tables.csv"
}

# rivals CLUSTER SEEDS KIND ARGUMENT...: backfill with each request, goodput
rivals() {
    cluster=$1 seeds=$2 kind=$3
    shift 3
    requests='1 4 habits expert elastic'
    [ -z "${ALONE:-}" ] || requests=elastic
    for request in $requests; do
        begin
        policy=backfill
        [ "$request" != elastic ] || policy=goodput
        for seed in $(seq "$seeds"); do
            "$here/h100mix.sh" "$kind" "$seed" "$@" "$request" >"$tmp/trace"
            paper_run "$policy" "$cluster"
        done
        show "$policy, $request"
    done
    [ -z "${ALONE:-}" ] || return 0
    for request in 1 4 habits expert; do
        echo "$(mean "backfill, $request" 1) $(mean "backfill, $request" 2)"
    done >"$tmp/four"
    best_jct=$(sort -n "$tmp/four" | head -1 | cut -d' ' -f1)
    best_span=$(cut -d' ' -f2 "$tmp/four" | sort -n | head -1)
}

rival_goals() { # JCT MAKESPAN: as parts of the best of the four in each
    [ -z "${ALONE:-}" ] || return 0
    goal 'average JCT / the best' \
        "$(ratio "$(mean 'goodput, elastic' 1)" "$best_jct")" "$1"
    goal 'makespan / the best' \
        "$(ratio "$(mean 'goodput, elastic' 2)" "$best_span")" "$2"
}

if has mix; then
    echo 'B5: the papers'"'"' jobs on H100, load .9, 4 x 4, 5 seeds'
    rivals 4x4 5 mix 300 .9 16
    rival_goals .50 1.03
    echo 'B5: the same, 8 x 8; four times the jobs, so that they come as long'
    rivals 8x8 5 mix 1200 .9 64
    rival_goals .65 1.06
fi
if has rush; then
    echo 'Headline: 40 jobs within ten minutes on one node with 4 GPUs, 10 seeds'
    rivals 1x4 10 rush 40 600
    rival_goals .62 .97
fi

pair() { # cold|known: prints MAKESPAN MEAN in seconds, from the submit
    "$here/h100mix.sh" pair "$1" >"$tmp/trace"
    "$sim" --policy goodput --cluster 1x4 --request trace --jobs "$tmp/jobs" \
        --trace "mgpu:$tmp/trace" --tables "mgpu:$tmp/tables.csv" >/dev/null
    awk -F, 'NR > 1 { s = s $4 " "; at[NR] = $4; to[NR] = $6 }
             END { for (i = NR - 1; i <= NR; i++) { x = to[i] - at[i]
                       sum += x; most = x > most ? x : most }
                   print most, sum / 2 }' "$tmp/jobs"
}

if has pair; then
    echo 'The papers'"'"' pair: FP16 cv and alpaca LoRA on four GPUs; seconds'
    other 'fixed sizes' '1+3: makespan 7795, mean 5136; 3+1: 19912; 2+2: 12030'
    pair known >"$tmp/known"
    goal 'classes known: makespan' "$(cut -d' ' -f1 "$tmp/known")" 7200
    goal 'classes known: mean JCT' "$(cut -d' ' -f2 "$tmp/known")" 4300
    pair cold >"$tmp/cold"
    goal 'cold start: makespan' "$(cut -d' ' -f1 "$tmp/cold")" 7795
fi

if has robust; then
    echo 'B7: B2 with errors, as parts of B2'
    has b2 || pollux_suite b2 workloads
    base=$(mean b2 1)
    pollux_suite 'length error 1' workloads --length-error 1
    goal 'average JCT / B2' "$(ratio "$(mean 'length error 1' 1)" "$base")" 1.10
    pollux_suite 'length error 2' workloads --length-error 2
    goal 'average JCT / B2' "$(ratio "$(mean 'length error 2' 1)" "$base")" 1.25
    pollux_suite 'speed noise 20 %' workloads --speed-noise .2
    goal 'average JCT / B2' "$(ratio "$(mean 'speed noise 20 %' 1)" "$base")" 1.10
    pollux_suite 'restarts of 120 s' workloads --restart-cost 120s
    goal 'average JCT / B2' "$(ratio "$(mean 'restarts of 120 s' 1)" "$base")" 1.25
    pollux_suite 'failures' workloads --node-failures .05
    goal 'average JCT / B2' "$(ratio "$(mean failures 1)" "$base")" 1.15
fi

[ ! -s "$tmp/missed" ] || { echo 'a goal is missed by more than 5 %'; exit 1; }
