#!/usr/bin/env bats
# quotas.bats - no job and no size goes to nodes that a reservation takes
# before the job would end, at its own limit or at that of its partition; what
# the policy resizes and in which words; and the past of it in mgpu-sim. Quotas
# are in accounting.bats.

bats_require_minimum_version 1.5.0
load helpers

setup_file() { slurm_up --nodes 2 --gpus 4; }
teardown_file() { slurm_down; }
teardown() {
    scontrol delete reservationname=maint 2>/dev/null || :
    scontrol update partitionname=batch defaulttime=unlimited
    slurm_calm
}
# People resize jobs here: the default policy would, too.
conf_more='scheduler: {policy: backfill}'
conf_slurm='  limit_margin: 0s'

limit_is() { scontrol show job "$(native_id "$1")" | grep -q "TimeLimit=$2 "; }

@test "the head of the queue stands in Slurm: where, until when, and why" {
    for node in node1 node2; do
        id=$(stranger -t 10 --gres=gpu:2 -w "$node")
        wait_for 30 slurm_is "$id" RUNNING
    done
    ctld_start
    id=$(submit_sh head 1 3 "$say_ran")
    why_has() { "$MGPU_BIN/mgpu-stat" --why "$id" | grep -F "$1"; }
    wait_for 30 why_has 'Fragmented: needs 3 on 1 node, 4 free, at most 2 on one node'
    starts() { [[ $(job_field "$id" start_estimate) == 20*Z ]]; }
    wait_for 60 starts
    [ "$(job_field "$id" state)" = DISPATCHING ]
    [ "$(job_field "$id" position)" = 1 ]
    why_has ' queue      position 1'
    why_has "Slurm's own estimate holds"
    scancel --quiet --name=stranger
    wait_for 60 job_is "$id" COMPLETED
}

@test "a reservation to come, and what was left of a time limit" {
    ctld_start
    # Longer than a second: less than a minute is left of 61 s.
    over_a_second() { [[ $(job_field "$1" elapsed_s) == [2-9]* ]]; }
    short=$(saver short 1..4 resources.time_limit=61s)
    long=$(saver long 1..4)
    wait_for 60 runs_on "$short" 1
    wait_for 60 runs_on "$long" 1
    limit_is "$short" 00:02:00
    wait_for 30 over_a_second "$short"
    resize "$short" 2
    wait_for 60 runs_on "$short" 2
    limit_is "$short" 00:01:00
    "$MGPU_BIN/mgpu-cancel" --quiet "$short"
    scontrol create reservationname=maint starttime=now+90 duration=60 \
        nodes=ALL users=root flags=maint,ignore_jobs
    spec waits 1
    wait_for 60 dry_says waits 'Reservation: maint begins at '
    late=$(submit_sh late 1 1 "$say_ran" resources.time_limit=10m)
    wait_for 60 reason_like "$late" 'Reservation: maint begins at *too early for a limit of 10m*'
    run resize "$long" 2
    [ "$status" -ne 0 ]
    [[ $output == *"Reservation: maint begins at"* ]]
    runs_on "$long" 1
    scontrol delete reservationname=maint
    wait_for 60 job_is "$late" COMPLETED
    [ "$(job_field "$long" attempt)" = 1 ]
}

@test "a job without a limit has the DefaultTime of its partition" {
    conf_slurm='  limit_margin: 200s'
    ctld_start
    spec plain 1
    sed -i 's/, time_limit: 10m//' "$BATS_TEST_TMPDIR/plain.yaml"
    scontrol create reservationname=maint starttime=now+3600 duration=60 \
        nodes=ALL users=root flags=maint,ignore_jobs
    wait_for 60 dry_says plain 'too early for a job with no time limit'
    scontrol update partitionname=batch defaulttime=120
    wait_for 60 dry_says plain 'too early for a limit of 2h'
    scontrol update partitionname=batch defaulttime=20
    wait_for 60 dry_says plain 'starts     now'
    id=$("$MGPU_BIN/mgpu-submit" --parsable "$BATS_TEST_TMPDIR/plain.yaml")
    [ "$(job_field "$id" limit_s)" = 1200.0 ]
    wait_for 60 runs_on "$id" 1
    limit_is "$id" 00:20:00
    "$MGPU_BIN/mgpu-stat" --events "$id" >"$BATS_TEST_TMPDIR/events"
    cat "$BATS_TEST_TMPDIR/events"
    grep 'update .*the default of partition batch' "$BATS_TEST_TMPDIR/events"
    [ "$(grep -c update "$BATS_TEST_TMPDIR/events")" = 1 ]
    # "No limit" is what Slurm makes of it.
    id=$("$MGPU_BIN/mgpu-submit" --parsable --hold \
        --set resources.time_limit=5m "$BATS_TEST_TMPDIR/plain.yaml")
    "$MGPU_BIN/mgpu-admin" --quiet update "$id" time_limit=null
    [ "$(job_field "$id" limit_s)" = 1200.0 ]
}

@test "nice of a job that waits in Slurm is taken over, hold and priority are not" {
    ctld_start
    other=$(stranger -N 2 --gpus-per-node=4)
    wait_for 60 slurm_is "$other" RUNNING
    id=$(submit_sh waits 1 4 "$say_ran")
    wait_for 60 reason_like "$id" 'Slurm(*)'
    native=$(slurm_ids waits)
    has_priority() { [ "$(job_field "$id" priority)" = "$1" ]; }
    scontrol hold "$native"
    wait_for 30 reason_like "$id" 'Slurm(JobHeld*)'
    scontrol release "$native"
    wait_for 30 reason_like "$id" 'Slurm(Resources)'
    has_priority 0
    scontrol update jobid="$native" nice=100
    wait_for 30 has_priority -100
    "$MGPU_BIN/mgpu-stat" --events "$id" | grep 'update .*nice 100 in Slurm'
    scontrol update jobid="$native" nice=-10
    wait_for 30 has_priority 10
    # A number is Slurm's alone. It ends the nice value, and that ours.
    scontrol update jobid="$native" priority=4000000000
    wait_for 30 has_priority 0
    scancel "$other"
    wait_for 60 job_is "$id" COMPLETED
    [ "$(job_field "$id" attempt)" = 1 ]
}

# steps NAME GPUS: rank 0 reports iterations, which take half as long on twice
# the GPUs, until it is told to stop; prints the job's id.
steps() {
    cat >"$BATS_TEST_TMPDIR/$1.sh" <<'SH'
trap 'exit 0' TERM
for _ in $(seq 60000); do
    [ "$MGPU_RANK" != 0 ] || printf '{"iteration":%d,"t_iter":%d.%03d}\n' \
        $((i += 1)) 0 $((200 / MGPU_WORLD_SIZE)) >>"$MGPU_METRICS"
    sleep 0.1
done
SH
    spec "$1" "$2"
    sed -i "s#^command:.*#command: [sh, $BATS_TEST_TMPDIR/$1.sh]#" \
        "$BATS_TEST_TMPDIR/$1.yaml"
    "$MGPU_BIN/mgpu-submit" --parsable "$BATS_TEST_TMPDIR/$1.yaml"
}

@test "the policy's resizes: idle GPUs beside a spent budget, and its own words" {
    conf_more='scheduler: {goodput: {interval: 5s, min_runtime: 0s,
    hysteresis: 0s, max_resizes_per_hour: 1}}'
    ctld_start
    spec head '8, nodes: 2'
    head=$("$MGPU_BIN/mgpu-submit" --parsable --hold "$BATS_TEST_TMPDIR/head.yaml")
    id=$(steps grows 1..4)
    why_has() { "$MGPU_BIN/mgpu-stat" --why "$id" | grep -F "$1"; }
    # The resize of the hour; four GPUs are twice the largest measured.
    wait_for 60 runs_on "$id" 2
    wait_for 60 why_has '2 GPUs, not 4: it was resized as often as it may be within an hour (scheduler.goodput.max_resizes_per_hour); it may grow onto GPUs that no job waits for at 20'
    # They are idle.
    wait_for 60 runs_on "$id" 4
    # It began after the head was submitted.
    "$MGPU_BIN/mgpu-admin" --quiet release "$head"
    wait_for 60 runs_on "$head" 8
    # The head may run before the daemon hears that the other has ended.
    has_left() {
        "$MGPU_BIN/mgpu-stat" --events "$id" >"$BATS_TEST_TMPDIR/events"
        grep 'requeue .*makes room for other jobs and waits, chosen by policy goodput' \
            "$BATS_TEST_TMPDIR/events"
    }
    wait_for 60 has_left
    not grep 'by an administrator' "$BATS_TEST_TMPDIR/events"
}

@test "mgpu-sim takes the settings that held, without --config" {
    conf_more=
    ctld_start
    "$MGPU_BIN/mgpu-admin" --quiet policy set limits.max_running_per_user=1
    first=$(saver first 1)
    second=$(saver second 1)
    is_limited() {
        "$MGPU_BIN/mgpu-stat" --why "$second" | grep LimitUserJobs
    }
    wait_for 60 runs_on "$first" 1
    wait_for 30 is_limited
    "$MGPU_BIN/mgpu-admin" --quiet policy reset limits.max_running_per_user
    wait_for 60 runs_on "$second" 1
    touch "$go"
    wait_for 60 job_is "$first" COMPLETED
    wait_for 60 job_is "$second" COMPLETED
    at=$(tail -n 1 "$ctld_dir/state/admin.log" | json '$.at')
    at=$(sql state "SELECT (julianday('$at') - 2440587.5) * 86400
        - min(submitted_at) FROM job")
    "$MGPU_BIN/mgpu-sim" --from-db "$ctld_dir/state" --cluster 2x4 \
        --jobs "$BATS_TEST_TMPDIR/jobs.csv"
    # The second begins when the limit ends, while the first runs. Both times
    # are rounded to milliseconds.
    awk -F, -v at="$at" '{ start[$1] = $5; end[$1] = $6 }
        END { print start["second"], "for", at, "before", end["first"]
              exit !(start["second"] > at - 0.001 &&
                     start["second"] < end["first"]) }' \
        "$BATS_TEST_TMPDIR/jobs.csv"
}
