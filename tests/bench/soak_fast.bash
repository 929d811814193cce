# soak_fast.bash - what soak.sh does besides when FAST is above 1: the clock of
# the daemon, its shepherds and its workers goes FAST times as fast as ours
# (preload/clock.c). All else lives in our time: the load, the readers, the tools,
# and what the jobs run. Sourced, with daemon.bash.
#
# That shows what grows or breaks with time: each period, retention, backup,
# rotation, backoff, lease and beat comes as often as in FAST times SECONDS. It is
# no proof of so long a load, and of no duration: the disk and the cores are as
# slow as ever, so each limit in seconds is FAST times as tight. A reader who holds
# a transaction for 5 s of ours holds it for 215 of the daemon's with FAST=43.
#
# RATE=N short jobs are submitted in a second of ours, 10 unless it says otherwise:
# a third of a core or so, and the machine can do something else.
# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034 # of soak.sh and daemon.bash

rest_ms=$((4000 / ${RATE:-10})) # of each of four that submit
rows=1000
KEEP=${KEEP:-200}
api() { # as daemon.bash has it, and again
    curl --silent --fail --max-time 60 --retry 5 --retry-all-errors \
        --unix-socket "$socket" "http://mgpu$1" "${@:2}"
}
since_boot() { awk '{ print $1 }' /proc/uptime; }
# A daemon's clock from the first call on, also of one that is started again.
clock_from=$(since_boot)
as_other=(env "MGPU_CLOCK=$FAST $clock_from"
    "LD_PRELOAD=$bench/preload/clock.so")
base=$(date +%s)
touch "$dir/misses" "$dir/failures"
# Since then, in days of the daemon.
days() {
    awk -v n="$FAST" -v a="$clock_from" \
        '{ printf "%.3f", ($1 - a) * n / 86400 }' /proc/uptime
}
its_time() { # AGO: so many seconds before what the daemon's clock says
    date -u -d "@$(awk -v n="$FAST" -v a="$clock_from" -v b="$base" -v g="$1" \
        '{ printf "%d", b + ($1 - a) * n - g }' /proc/uptime)" +%FT%TZ
}
its_time_told() { # by the daemon, in seconds since 1970
    date -d "$(curl -si --max-time 60 --unix-socket "$socket" \
        http://mgpu/livez | tr -d '\r' | sed -n 's/^Date: //p')" +%s
}

# A worker that is silent for 90 s of the daemon's, the default, is one that two
# cores with other work let wait for two seconds: an hour. What ended is kept so
# short that all of it comes and goes many times.
fast_conf() {
    cat <<YAML
scheduler: {interval: 1s}
watchdog: {heartbeat: 1m, node_lost_after: 1h, stall_min: 1h}
store:
  metrics_retention: 1h
  jobs_retention: 3h
  backup: {dir: $dir/backups, every: 2h, keep: 3}
YAML
}

# ---- a job that writes rows, and after it the next ------------------------
ten_minutes() { its_time 600; }
written() { cat "$dir/writer" 2>/dev/null || echo "$holder"; }
report_fast() {
    local id
    until [ -e "$dir/enough" ]; do
        id=$(submit writer sleep 40) || continue
        ask stat --wait=RUNNING --timeout 2m "$id" >/dev/null || continue
        echo "$id" >"$dir/writer"
        report "$id" 36 || miss "no rows for job $id"
        must_end COMPLETED 1 "$id"
    done
}

# ---- what an administrator and others do ----------------------------------
# What should be so, and what did not come of it.
miss() { echo "$(days) $*" >>"$dir/misses"; }
ask() { # TOOL ARGUMENTS; a busy machine may let a connection wait too long
    for _ in 1 2 3; do
        "$bin/mgpu-$1" --url "unix:$socket" "${@:2}" 2>"$dir/why.$BASHPID" &&
            return 0
        read -rt 1 <>"$dir/never" || :
    done
    miss "mgpu-$1 ${*:2}: $(head -1 "$dir/why.$BASHPID")"
    return 1
}
submit() { # NAME [OPTION VALUE]... COMMAND...: its id
    local options=(--parsable --idempotency-key "$1-$(since_boot)") name=$1
    shift
    while [[ $1 == --* ]]; do
        options+=("$1" "$2")
        shift 2
    done
    printf '{version: 1, kind: command, name: %s, policy: {priority: 40},
        command: [%s]}\n' "$name" "$(printf "'%s'," "$@")" >"$dir/$name.yaml"
    ask submit "${options[@]}" "$dir/$name.yaml"
}
must_end() { # STATE ATTEMPT ID
    local is
    "$bin/mgpu-stat" --url "unix:$socket" --wait --timeout 2m "$3" \
        >/dev/null 2>&1 || :
    is=$(ask stat --no-header --format state,attempt "$3" | xargs) || return 0
    [ "$is" = "$1 $2" ] || miss "job $3: $is, not $1 in attempt $2"
}
limited() {
    local id
    id=$(submit limited --time 2m sleep 600) && must_end TIMEOUT 1 "$id"
}
tried() {
    local id
    id=$(submit tried --set retry.max=2 --set 'retry.on=[exit]' \
        --set retry.backoff=1m false) && must_end FAILED 3 "$id"
}
rotate() { # as contrib/logrotate does
    cat "$state/ctld.log" >>"$dir/ctld.log.old"
    mv "$state/ctld.log" "$state/ctld.log.1"
    kill -USR1 "$daemon"
    for _ in $(seq 100); do
        [ -e "$state/ctld.log" ] && return 0
        read -rt 0.1 <>"$dir/never" || :
    done
    miss "no new ctld.log"
}
# No job of the load may end otherwise than well.
look_for_failures() {
    ask stat -n load -t FAILED,TIMEOUT,NODE_FAIL,CANCELLED,HELD \
        --since "$(its_time 7200)" -c 1000 --format id,state,reason \
        --no-header >>"$dir/failures" || :
}
look_through() {
    ask admin fsck >"$dir/fsck" || miss "fsck: $(head -1 "$dir/fsck")"
}
administer() {
    local n=0 node
    node=$(ask stat --nodes --format ids | head -1 | cut -d'|' -f1)
    until [ -e "$dir/enough" ]; do
        read -rt 10 <>"$dir/never" || :
        n=$((n + 1))
        limited || :
        tried || :
        look_for_failures
        ask admin drain "$node" --reason soak >/dev/null || :
        ask admin resume "$node" >/dev/null || :
        ask admin pause >/dev/null || :
        ask admin resume >/dev/null || :
        sed -i "s/interval: .s/interval: $((1 + n % 2))s/" "$dir/mgpu.yaml"
        kill -HUP "$daemon"
        ask admin backup "$dir/copy" >/dev/null || :
        rm -rf "$dir/copy"
        [ $((n % 4)) != 0 ] || rotate
        [ $((n % 8)) != 0 ] || look_through
        echo "$n" >"$dir/rounds"
    done
}

fast_say() {
    local told a
    a=$(since_boot) told=$(its_time_told)
    say '' 'clock of the daemon' "$FAST times ours" "$(awk -v a="$clock_from" \
        -v b="$a" -v base="$base" -v told="$told" -v days="$(days)" 'BEGIN {
            printf "%.1f times, %.2f days (%.1f h)", (told - base) / (b - a),
                days, days * 24 }')"
    say '' 'the daemon' '' "$(cpu) s on a core"
    say '' 'rounds of administration' '' "$(cat "$dir/rounds" 2>/dev/null ||
        echo 0): limit, retry, drain, pause, reload, backup"
    say '' 'removed by retention' '' "$(metric mgpu_jobs_removed_total) jobs, \
$(metric mgpu_rows_removed_total) rows"
    say '' 'backups at intervals' '3 kept' "$(metric mgpu_backups) kept, \
$(metric mgpu_backup_failures_total) failed"
    sort -u "$dir/failures" | head -5 | sed 's/^/     failed: /'
    say '' 'things that did not come out' '0' \
        "$(wc -l <"$dir/misses")"
    head -10 "$dir/misses" | sed 's/^/     day /'
    cat "$dir/ctld.log.old" "$state/ctld.log" 2>/dev/null |
        grep -E ' (warn|err) ' | sed -E 's/[0-9]+/N/g' |
        cut -c1-100 | sort | uniq -c | sort -rn |
        head -10
}
