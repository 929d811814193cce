#!/bin/bash
# ctld.sh - what the daemon carries: durable submits, metric rows, watchers, a
# long queue, a far longer one, the largest sweep, a long past, an idle day; each
# figure beside its target.
#
#   ctld.sh [SECONDS]             for each of the loads; 20
#
# SUBMIT_S, ROWS_S: other times for the submits and the metric rows, which are
# to go on like that for a minute, and for ten.
#
# The targets are for two cores of a virtual machine, of which the load itself
# uses one. Not a test: figures are printed, none is expected.
set -eu

seconds=${1:-20}
submit_s=${SUBMIT_S:-$seconds} rows_s=${ROWS_S:-$seconds}
# shellcheck source=tests/bench/daemon.bash
. "${0%/*}/daemon.bash"
switches() {
    cat "/proc/$daemon"/task/*/status |
        awk '/^voluntary/ { n += $2 } END { print n }'
}
# Of the holder: what who looks at its last rows is shown, by rank, summed.
seen() {
    local rank sql=
    for rank in 0 1 2 3; do
        sql+="${sql:+ + }(SELECT coalesce(max(iteration), 0) FROM iteration
            WHERE job = $holder AND attempt = 1 AND rank = $rank)"
    done
    sqlite3 -readonly "$dir/new/metrics.db" "SELECT $sql"
}
stalls() { # of this life; and what the daemon said of those above 50 ms
    api /metrics | awk '
        $1 == "mgpu_loop_stall_longest_seconds" { all = $2 }
        $1 == "mgpu_loop_stall_own_longest_seconds" { own = $2 }
        $1 == "mgpu_loop_slept_longest_seconds" { slept = $2 }
        END { printf "longest turn of the loop %.1f ms, without waiting for " \
            "a core %.1f ms, longest sleep %.1f ms", all * 1e3, own * 1e3,
            slept * 1e3 }'
    awk '/ ctld: ready / { said = "" }
        sub(/.* a callback delayed the event loop /, "") { said = said "\n     " $0 }
        END { printf "%s", said }' "$dir/ctld.log"
}

cat >"$dir/mgpu.yaml" <<YAML
version: 1
controller: {max_clients: 2000}
limits: {max_jobs_per_user: 1000000}
log: {level: notice}
YAML
mkdir -m 700 "$dir/new" "$dir/queue" "$dir/past" "$dir/sweeps"

say id load target figure
start "$dir/new"
sleep 2
t=$(switches)
sleep 10
n=$(switches)
say L10 'idle: memory' '<= 15 MB' \
    "$(awk '/^VmRSS/ { printf "%.1f MB", $2 / 1024 }' "/proc/$daemon/status")"
say L10 'idle: wake-ups' '<= 2/s' \
    "$(awk -v a="$t" -v b="$n" 'BEGIN { printf "%.1f/s", (b - a) / 10 }')"

hold_slot
say L2 'submits, one client' '>= 300/s, p50 3 ms' \
    "$("$bench/load" submit "$dir/sock" 1 5)"
a=$(cpu)
say L1 'submits, 16 clients' '>= 1000/s, p99 50 ms' \
    "$("$bench/load" submit "$dir/sock" 16 "$submit_s")"
say '' '' '' "$(cores "$a" "$submit_s")"
say '' '' '' "$(stalls)"
say '' '' '' "$(metric 'mgpu_jobs{state="QUEUED"}') jobs wait at the end"

token=$(sed 's/.*"token": *"\([0-9a-f]*\)".*/\1/' \
    "$dir/new/jobs/$holder/1/launch.json" | tr -d '\n')
"$bench/load" get "$dir/sock" "/v1/jobs/$holder/iterations?last=1&limit=100" 20 5 \
    "$((rows_s + 2))" >"$dir/readers" &
helpers=($!)
sleep 1
say L3 'metric rows, 4 ranks, 20 readers' '>= 100000/s' \
    "$("$bench/load" rows "$dir/sock" "$holder" "$token" 4 "$rows_s" |
        tee "$dir/rows")"
t=$(now)
n=$(sed 's/.*, \([0-9]*\) rows$/\1/' "$dir/rows")
until [ "$(seen)" -ge "$n" ] || awk -v a="$t" -v b="$(now)" \
    'BEGIN { exit b - a < 60 }'; do sleep 0.05; done
say '' 'seen by another reader, all' '<= 2 s, 0 lost' "$(
    awk -v a="$t" -v b="$(now)" 'BEGIN { printf "%.2f s", b - a }') later, $((
    n - $(sqlite3 -readonly "$dir/new/metrics.db" \
        "SELECT count(*) FROM iteration WHERE job = $holder"))) lost"
wait "${helpers[@]}"
helpers=()
say '' 'the readers' '' "$(cat "$dir/readers")"
api "/v1/jobs/$holder/cancel" -X POST >/dev/null
end_daemon

"$bench/fill" "$dir/queue" 10000 0
start "$dir/queue"
say L4 'restart with 10,000 queued' '' "$(cat "$dir/ready") s"
# No event has that number: each is shown all jobs.
"$bench/load" watch "$dir/sock" 1000 "$seconds" 999999999 >"$dir/begin" &
helpers=($!)
say L4 '/v1/status while 1,000 watchers begin' '' \
    "$("$bench/load" get "$dir/sock" /v1/status 1 50 "$((seconds - 2))")"
say '' 'memory then' '' \
    "$(awk '/^VmRSS/ { printf "%.1f MB", $2 / 1024 }' "/proc/$daemon/status")"
wait "${helpers[@]}"
helpers=()
say '' '' '' "$(cat "$dir/begin")"
hold_slot
t=$(api "/v1/jobs/$holder/events" | grep -o '"seq":[0-9]*' | tail -1)
"$bench/load" watch "$dir/sock" 1000 "$((seconds + 5))" "${t#*:}" \
    >"$dir/watchers" &
helpers=($!)
sleep 4 # they go through the past
(
    for _ in $(seq 1000); do # a job changes each second
        api /v1/jobs/9000/hold -X POST >/dev/null
        sleep 0.5
        api /v1/jobs/9000/release -X POST >/dev/null
        sleep 0.5
    done
) &
helpers+=($!)
a=$(cpu)
say L4 '1,000 watchers, 10,000 queued' 'p99 10 ms' \
    "$("$bench/load" get "$dir/sock" /livez 1 50 "$((seconds - 2))")"
say '' '' '< 50 % of a core' "$(cores "$a" "$((seconds - 2))")"
kill "${helpers[1]}" 2>/dev/null || :
wait "${helpers[0]}" || :
say '' '' '' "$(cat "$dir/watchers")"
end_helpers
say L6 '/metrics, 10,000 queued, 10/s' '<= 20 ms' \
    "$("$bench/load" get "$dir/sock" /metrics 1 10 5)"
say '' 'the queue as a list of 10,000' '' \
    "$("$bench/load" get "$dir/sock" /v1/jobs 1 1 5)"
t=$(now)
for _ in 1 2 3 4 5; do
    "$bin/mgpu-stat" --url "unix:$dir/sock" >"$dir/table"
done
say '' "mgpu-stat, $(grep -c 'fill' "$dir/table") rows" '<= 100 ms' \
    "$(awk -v a="$t" -v b="$(now)" 'BEGIN { print (b - a) / 5 }' | ms)"
say '' '--why of the last of 10,000' '<= 50 ms' \
    "$("$bench/load" get "$dir/sock" /v1/jobs/9999/why 1 10 5)"
say '' 'the plan, explained' '<= 50 ms' \
    "$("$bench/load" get "$dir/sock" /v1/admin/plan 1 5 5)"
{
    printf 'version: 1\nkind: command\nname: sweep\ncommand: ["true"]\n'
    printf 'resources: {gpus: 1}\nsweep:\n  grid:\n    resources.time_limit: ['
    seq -s ', ' -f '%gs' 61 1060
    echo ']'
} >"$dir/sweep.yaml"
t=$(now)
"$bin/mgpu-submit" --url "unix:$dir/sock" --dry-run "$dir/sweep.yaml" \
    >"$dir/table"
say '' 'dry run of a sweep of 1,000' '' \
    "$(awk -v a="$t" -v b="$(now)" 'BEGIN { print b - a }' | ms)"
say L7 'the same: the loop' 'never > 50 ms' "$(stalls)"
end_daemon

# Twenty times the queue that the targets above are for: submits, a job that
# changes, and what people ask for. Then all of it as whole documents.
mkdir -m 700 "$dir/long"
"$bench/fill" "$dir/long" 200000 0
start "$dir/long"
say L4 'restart with 200,000 queued' '' "$(cat "$dir/ready") s"
hold_slot
say '' 'submits, 4 clients' '' "$("$bench/load" submit "$dir/sock" 4 5)"
for what in hold release; do
    api "/v1/jobs/90000/$what" -X POST >/dev/null
done
say '' '--why of the last of 200,000' '' \
    "$("$bench/load" get "$dir/sock" /v1/jobs/199999/why 1 4 5)"
say '' 'the plan, explained' '' \
    "$("$bench/load" get "$dir/sock" /v1/admin/plan 1 2 5)"
"$bin/mgpu-stat" --url "unix:$dir/sock" >"$dir/table"
say L7 '200,000 queued: the loop' 'itself <= 100 ms' "$(stalls)"
say '' 'the queue as a list of 200,000' '' \
    "$("$bench/load" get "$dir/sock" /v1/jobs 1 1 5)"
say '' '' '' "$(stalls)"
end_daemon
rm -r "$dir/long"

# The most tasks that a sweep may have, and others of as many that wait for all
# of them. Each line is a life of its own: so are its longest turns.
sweep() { # HOLD MORE: its id
    local i
    i=$(seq -s, -f '"%g"' 64)
    printf '{"hold":%s,"spec":{"version":1,"kind":"command","name":"sweep",
        "command":["true"],"resources":{"gpus":1}%s,
        "sweep":{"grid":{"env.I":[%s],"env.J":[%s]}}}}' "$1" "$2" "$i" "$i" |
        api /v1/jobs --data-binary @- |
        sed 's/^[^}]*"id":\([0-9]*\).*/\1/'
}
of_sweep() { # WHAT COMMAND...
    start "$dir/sweeps" "$dir/sock" "$dir/sweeps.yaml"
    "${@:2}" >"$dir/told"
    rests
    say '' "$1" '' "$(stalls)"
    end_daemon
}
do_to() { api "/v1/jobs/$1/$2" -X POST; }
sed 's/^limits: {/&max_ended_jobs: 100, /' "$dir/mgpu.yaml" \
    >"$dir/sweeps.yaml"
start "$dir/sweeps" "$dir/sock" "$dir/sweeps.yaml"
hold_slot
end_daemon
say L7 'the largest sweep: the loop' 'never > 50 ms' ''
of_sweep 'submitted, held' sweep true ''
first=$(<"$dir/told")
of_sweep 'a restart' :
of_sweep 'released, and planned' do_to "$first" release
of_sweep 'held' do_to "$first" hold
of_sweep 'another, which waits for all' sweep false \
    ",\"depends_on\":[\"afterok:$first\"]"
second=$(<"$dir/told")
of_sweep 'one cancelled, all behind held' do_to "${first}_7" cancel
of_sweep 'those released' do_to "$second" release
of_sweep 'all cancelled, and archived' do_to "$second" cancel
of_sweep 'cancelled and archived, the first' do_to "$first" cancel
of_sweep 'read from the archive' api "/v1/jobs/${first}_9"

# One user asks in a loop, on eight connections; another fifteen times a second.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    printf 'limits: {max_jobs_per_user: 1000000, rpc_rate: 20}\n' |
        cat - <(grep -v '^limits' "$dir/mgpu.yaml") >"$dir/flood.yaml"
    install -d -m 700 -o 65534 -g 65534 "$dir/other"
    chown -R 65534:65534 "$dir/queue"
    mv "$dir/queue" "$dir/other/queue"
    chmod 711 "$dir"
    as_other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    start "$dir/other/queue" "$dir/other/sock" "$dir/flood.yaml"
    for path in /v1/status /v1/jobs; do
        "${as_other[@]}" "$bench/load" get "$dir/other/sock" "$path" 8 0 \
            "$((seconds + 2))" >"$dir/flood" &
        helpers=($!)
        sleep 1
        say S06 "another user, while one floods" 'p99 20 ms' \
            "$("$bench/load" get "$dir/other/sock" /v1/status 1 15 "$seconds")"
        wait "${helpers[@]}"
        helpers=()
        say '' "the flood, of $path" '' "$(cat "$dir/flood")"
    done
    end_daemon
    as_other=()
fi

say L7 'steps: 10,000 jobs, 64 x 8 GPUs' '<= 200 ms, then 5' ''
timeout 30 stdbuf -oL "$bench/plan" backfill 10000 | sed 's/^/     /' || :

"$bench/fill" "$dir/past" 10000 90000
start "$dir/past"
say L8 'restart with 100,000 jobs' '<= 3 s' "$(cat "$dir/ready") s"
say '' '' '' \
    "$(awk '/^VmRSS/ { printf "%.0f MB", $2 / 1024 }' "/proc/$daemon/status")"
