#!/bin/bash
# history.sh - what a long past costs those who look: jobs that ended over ten
# days, and the rows that some of them reported.
#
#   history.sh [JOBS [ROWS]]                        100000 10000000
#
# KEEP=N: limits.max_ended_jobs; the others leave the daemon's memory in a first
# life, and what is measured is a second one.
#
# PAST=DIR: the past is written there and stays; if it is there it is used as it
# is. FEW=1: a row tells its time and its loss alone.
#
# A million jobs need 4 GB of memory and 2.5 GB of disk, 100,000,000 rows 12 GB,
# with few values 5 GB. Not a test: figures are printed beside their targets, none is expected.
set -eu

jobs=${1:-100000} rows=${2:-10000000}
# shellcheck source=tests/bench/daemon.bash
. "${0%/*}/daemon.bash"

megabytes() {
    stat -c %s "$@" | awk '{ n += $1 } END { printf "%.0f MB", n / 1e6 }'
}
memory() {
    awk '/^VmRSS/ { printf "%.0f MB", $2 / 1024 }' "/proc/$daemon/status"
}
archived() {
    sqlite3 -readonly "$past/state.db" 'SELECT count(*) FROM archived'
}
# The median and the longest of five, and the rows that came.
five() { # ARGUMENT...: of mgpu-stat
    local t
    for _ in 1 2 3 4 5; do
        t=$(now)
        "$bin/mgpu-stat" --url "unix:$socket" "$@" >"$dir/table"
        echo "$t $(now)"
    done | awk '{ print ($2 - $1) * 1e3 }' | sort -n |
        awk '{ t[NR] = $1 } END { printf "p50 %.0f, longest %.0f ms", t[3], t[5] }'
    printf ', %s lines' "$(wc -l <"$dir/table")"
}

printf 'version: 1\nlimits: {max_jobs_per_user: 1000000, max_ended_jobs: %s}\n' \
    "${KEEP:-null}" >"$dir/mgpu.yaml"
past=${PAST:-$dir/past}
written='as it was'
if [ ! -d "$past" ]; then
    mkdir -m 700 "$past"
    t=$(now)
    "$bench/fill" "$past" 100 "$jobs" 10 "$rows" ${FEW:+few}
    written=$(awk -v a="$t" -v b="$(now)" \
        'BEGIN { printf "written in %.0f s", b - a }')
fi
say id load target figure
say L5 "$jobs jobs, $rows rows" '' "$written"
start "$past"
if [ -n "${KEEP:-}" ]; then
    say '' 'first start' '' "$(cat "$dir/ready") s, $(memory)"
    t=$(now)
    until [ "$(archived)" -ge $((jobs - KEEP)) ]; do sleep 0.5; done
    say '' 'left memory' '' "$(archived) jobs in $(
        awk -v a="$t" -v b="$(now)" 'BEGIN { printf "%.0f s", b - a }'), longest turn $(
        metric mgpu_loop_stall_longest_seconds | ms)"
    end_daemon
    start "$past"
fi
say '' 'state.db, metrics.db' 'stated' \
    "$(megabytes "$past/state.db"), $(megabytes "$past/metrics.db")"
say '' 'ready again' '' "$(cat "$dir/ready") s, $(memory)"
say '' 'mgpu-stat' '<= 100 ms' "$(five)"
say '' '--since 1d, the newest 100' '<= 200 ms' "$(five --since 1d -c 100)"
say '' '--since 1d, all: a tenth' '<= 200 ms' "$(five --since 1d)"
say '' '--since 1h' '<= 200 ms' "$(five --since 1h)"
say '' '-t CANCELLED -c 100' '<= 200 ms' "$(five -t CANCELLED -c 100)"
say '' '-t all -n of none: all looked at' '' "$(five -t all -n none)"
say '' '--gpus' '' "$(five --gpus)"
say '' '--metrics of one, the last 100' '<= 200 ms' \
    "$(five --metrics "$jobs" -c 100)"
say '' '--metrics of one, all' '' "$(five --metrics "$jobs")"
say '' '/v1/jobs, the first 100' '' \
    "$("$bench/load" get "$socket" '/v1/jobs?limit=100' 1 10 2)"
say '' 'longest turn of the loop' 'never > 50 ms' \
    "$(metric mgpu_loop_stall_longest_seconds | ms), without waiting for a core $(
        metric mgpu_loop_stall_own_longest_seconds | ms)"
