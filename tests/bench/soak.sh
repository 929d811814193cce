#!/bin/bash
# soak.sh - what a daemon that runs for long takes: memory, descriptors, logs of
# its databases, while short jobs come without end and are read all the time.
#
#   soak.sh [SECONDS [JOBS [HOLD [EVERY]]]]          600 0 5 10
#
# FAST=N: the daemon's clock goes N times as fast as ours, and it lives through
# more; see soak_fast.bash. SECONDS are ours: FAST=43, 6030 of them are 72 hours.
# KEEP=N: limits.max_ended_jobs; unset: the daemon keeps all in memory.
# LIGHT=1: the ranks of short jobs are tests/bench/rank.c, which says what the
# worker says and starts in a fifth of the time: for a million jobs in an hour.
# SLOTS=N: so many run at a time, and one that stays.
# Ends after so many seconds, or when so many jobs have ended; 0: any number. A
# reader of each database begins a transaction and keeps it for HOLD seconds,
# again and again: meanwhile no log of SQLite can begin anew. Each EVERY seconds
# a line on standard error says how it is. Not a test: figures are printed
# beside their targets, none is expected.
set -eu

seconds=${1:-600} jobs=${2:-0} hold=${3:-5} every=${4:-10}
slots=$((${SLOTS:-3} + 1)) # one of them for a job that stays
rows=5000
ten_minutes() { echo 10m; }
written() { echo "$holder"; }
# shellcheck source=tests/bench/daemon.bash
. "${0%/*}/daemon.bash"
FAST=${FAST:-1}
# shellcheck source=tests/bench/soak_fast.bash
[ "$FAST" = 1 ] || . "${0%/*}/soak_fast.bash"
samples=$dir/samples
state=$dir/state
if [ "${LIGHT:-0}" != 0 ]; then # a program is sought beside the daemon's file
    mkdir "$dir/bin"
    cp "$bin"/mgpu-* "$dir/bin/"
    mv "$dir/bin/mgpu-worker" "$dir/bin/mgpu-worker.whole"
    cp "$bench/rank" "$dir/bin/mgpu-worker"
    bin=$dir/bin
fi

opened() { # what they are of, without numbers
    find "/proc/$daemon/fd" -mindepth 1 -printf '%l\n' 2>/dev/null |
        sed 's/\[.*//' | sort
}
descriptors() { opened | wc -l; }
size() { stat -c %s "$1" 2>/dev/null || echo 0; }
over='COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL'
ended() {
    api /metrics | awk -v over="^mgpu_jobs{state=\"($over)\"}" \
        '$0 ~ over || $1 == "mgpu_jobs_removed_total" { n += $2 }
        END { printf "%d\n", n }'
}
# SECONDS JOBS RSS(KiB) DESCRIPTORS THREADS STATE WAL METRICS WAL (bytes)
sample() {
    echo "$(($(date +%s) - began)) $(ended)" \
        "$(awk '/^VmRSS/ { print $2 }' "/proc/$daemon/status")" \
        "$(descriptors)" \
        "$(find "/proc/$daemon/task" -mindepth 1 -maxdepth 1 | wc -l)" \
        "$(size "$state/state.db")" "$(size "$state/state.db-wal")" \
        "$(size "$state/metrics.db")" "$(size "$state/metrics.db-wal")"
}
# Transactions that last, and a second between them. The shell of SQLite ends
# with us, as nobody writes to it then.
keep_open() { # DATABASE VIEW
    exec 9> >(exec sqlite3 -readonly "$1" >/dev/null 2>&1)
    while printf 'BEGIN;\nSELECT 1 FROM %s LIMIT 1;\n' "$2" >&9; do
        read -rt "$hold" <>"$dir/never" || :
        echo 'COMMIT;' >&9
        read -rt 1 <>"$dir/never" || :
    done
}
# Thousands of rows a second for this job, which runs; so many seconds.
report() {
    local at=0 token n=1 ends=$((SECONDS + $2))
    token=$(grep -o '"token": *"[0-9a-f]*' "$state/jobs/$1/1/launch.json")
    while [ "$SECONDS" -lt "$ends" ]; do
        awk -v n="$n" -v rows="$rows" 'BEGIN {
            for (i = n; i < n + rows; i++) printf \
                "{\"iteration\":%d,\"rank\":0,\"epoch\":1,\"t_iter\":0.031," \
                "\"started_at\":1763712000.5,\"loss\":0.5}\n", i }' >"$dir/rows"
        if api "/v1/attempts/$1/1/rows?rank=0&offset=$at" \
            -H "Authorization: Bearer ${token##*\"}" \
            --data-binary "@$dir/rows" >/dev/null; then
            at=$((at + $(size "$dir/rows"))) n=$((n + rows))
        fi
        sleep 1
    done
}
stat_again() {
    while sleep 1; do
        "$bin/mgpu-stat" --url "unix:$socket" >/dev/null 2>&1 || :
        "$bin/mgpu-stat" --url "unix:$socket" --since "$(ten_minutes)" -c 100 \
            >/dev/null 2>&1 || :
        "$bin/mgpu-stat" --url "unix:$socket" --metrics "$(written)" -c 100 \
            >/dev/null 2>&1 || :
    done
}
again() { # COMMAND; a busy daemon whose clock is fast may hang up
    until "$@" >/dev/null; do sleep 1; done 2>/dev/null
}

cat >"$dir/mgpu.yaml" <<YAML
version: 1
limits: {max_jobs_per_user: 1000000, max_ended_jobs: ${KEEP:-null}}
log: {level: notice, target: $([ "$FAST" = 1 ] && echo auto || echo file)}
YAML
[ "$FAST" = 1 ] || fast_conf >>"$dir/mgpu.yaml"
mkdir -m 700 "$state"
mkfifo "$dir/never"
start "$state"
hold_slot
opened >"$dir/first"
first=$(wc -l <"$dir/first")
began=$(date +%s)
long=$((seconds * 2 + 60)) # all end long before, by us

again "$bench/load" submit "$socket" 4 "$seconds" $((slots * 16)) \
    "${rest_ms:-0}" &
submits=$!
helpers=("$submits")
again "$bench/load" watch "$socket" 4 "$long" 0 &
helpers+=($!)
again "$bench/load" get "$socket" '/v1/jobs?limit=100' 1 2 "$long" &
helpers+=($!)
again "$bench/load" get "$socket" \
    "/v1/jobs/$holder/iterations?last=1&limit=100" 2 2 "$long" &
helpers+=($!)
stat_again &
helpers+=($!)
if [ "$FAST" = 1 ]; then
    report "$holder" "$long" &
    helpers+=($!)
else
    report_fast &
    both=($!)
    administer &
    both+=($!)
    helpers+=("${both[@]}")
fi
keep_open "$state/state.db" v_event &
helpers+=($!)
keep_open "$state/metrics.db" v_iteration &
helpers+=($!)

sample >"$samples"
while [ $(($(date +%s) - began)) -lt "$seconds" ]; do
    sleep "$every"
    sample >>"$samples"
    tail -1 "$samples" >&2
    [ "$FAST" = 1 ] || echo "day $(days) of the daemon" >&2
    [ "$jobs" = 0 ] || [ "$(ended)" -lt "$jobs" ] || break
    kill -0 "$daemon" || {
        cat "$dir/ctld.log" >&2
        exit 1
    }
done
# Those that wait run to their end, so that nothing of them is left.
mapfile -t submits < <(below "$submits")
kill "${submits[@]}" 2>/dev/null || :
wait "${submits[-1]}" 2>/dev/null || :
touch "$dir/enough"
[ "$FAST" = 1 ] || wait "${both[@]}" || :
live() { # but the one that stays
    api /metrics | awk -v over="^mgpu_jobs{state=\"($over)\"}" \
        '/^mgpu_jobs{/ && $0 !~ over { n += $2 } END { print n - 1 }'
}
for _ in $(seq 600); do
    [ "$(live)" -gt 0 ] || break
    sleep 0.1
done
end_helpers
for _ in $(seq 100); do
    [ "$(descriptors)" -gt "$first" ] || break
    sleep 0.1
done
left=$(live)
if [ "$FAST" = 1 ]; then
    failed=$(($(ended) - $(metric 'mgpu_jobs{state="COMPLETED"}')))
else # some are to fail, and many were removed
    look_for_failures
    failed=$(sort -u "$dir/failures" | wc -l)
fi

say id load target figure
awk -v slots="$slots" -v first="$first" -v last="$(descriptors)" -v left="$left" -v failed="$failed" '
    function say(load, target, figure) {
        printf "%-4s %-34s %-18s %s\n", "L9", load, target, figure
    }
    function most(a, b) { return a > b ? a : b }
    { t[NR] = $1; n[NR] = $2; rss[NR] = $3; fd[NR] = $4; threads[NR] = $5
      state = $6; was[NR] = $6; mwas[NR] = $8; wal = most(wal, $7); metrics = $8; mwal = most(mwal, $9)
      fds = most(fds, $4) }
    END {
        for (w = 1; w < NR && t[w] < t[NR] / 10; w++);
        say("short jobs on " slots - 1 " slots", "", sprintf( \
            "%d ended in %d s, %.1f/s; %d failed, %d left behind", n[NR], \
            t[NR], n[NR] / t[NR], failed, left))
        say("memory, but the first tenth", "grows < 5 %", sprintf( \
            "%.1f to %.1f MB, %.1f %%; %.0f kB for 1,000 jobs", rss[w] / 1024, \
            rss[NR] / 1024, (rss[NR] / rss[w] - 1) * 100, \
            n[NR] > n[w] ? (rss[NR] - rss[w]) / (n[NR] - n[w]) * 1000 : 0))
        say("descriptors", "constant", sprintf("%d before the load, %d " \
            "after, at most %d", first, last, fds))
        say("threads", "constant", threads[w] " after the first tenth, " \
            threads[NR] " at the end")
        for (h = 1; h < NR && t[h] < t[NR] / 2; h++);
        say("databases at half time, at the end", "", sprintf( \
            "%.1f, %.1f MB of state; %.1f, %.1f MB of metrics", was[h] / 1e6, \
            state / 1e6, mwas[h] / 1e6, metrics / 1e6))
        say("largest log of state.db", "<= 64 MiB", sprintf("%.1f MiB; %.1f MB " \
            "of database", wal / 1048576, state / 1e6))
        say("largest log of metrics.db", "<= 64 MiB", sprintf("%.1f MiB; %.1f " \
            "MB of database", mwal / 1048576, metrics / 1e6))
    }' "$samples"
opened | comm -13 "$dir/first" - | while read -r name; do
    say '' 'a new descriptor' '' "${name#"$dir/"}"
done
say '' 'on the disk, of each job' '' \
    "$(du -sk "$state/jobs" | awk -v n="$(ended)" \
        '{ printf "%.1f kB of files", $1 / n }')"
say '' 'ended jobs kept in memory' '' "${KEEP:-all}"
say '' 'ranks of short jobs' '' \
    "$([ "${LIGHT:-0}" = 0 ] && echo mgpu-worker || echo 'tests/bench/rank')"
[ "$FAST" = 1 ] || fast_say
