#!/usr/bin/env bats
# quotas.bats - no job and no size goes to nodes that a reservation takes
# before the job would end, at its own limit or at that of its partition. Quotas
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
    scontrol create reservationname=maint starttime=now+300 duration=60 \
        nodes=ALL users=root flags=maint,ignore_jobs
    wait_for 60 dry_says plain 'too early for a job with no time limit'
    scontrol update partitionname=batch defaulttime=10
    wait_for 60 dry_says plain 'too early for a limit of 10m'
    scontrol update partitionname=batch defaulttime=2
    wait_for 60 dry_says plain 'starts     now'
    id=$("$MGPU_BIN/mgpu-submit" --parsable "$BATS_TEST_TMPDIR/plain.yaml")
    [ "$(job_field "$id" limit_s)" = 120.0 ]
    wait_for 60 runs_on "$id" 1
    limit_is "$id" 00:02:00
    "$MGPU_BIN/mgpu-stat" --events "$id" >"$BATS_TEST_TMPDIR/events"
    cat "$BATS_TEST_TMPDIR/events"
    grep 'update .*the default of partition batch' "$BATS_TEST_TMPDIR/events"
    [ "$(grep -c update "$BATS_TEST_TMPDIR/events")" = 1 ]
    # "No limit" is what Slurm makes of it.
    id=$("$MGPU_BIN/mgpu-submit" --parsable --hold \
        --set resources.time_limit=5m "$BATS_TEST_TMPDIR/plain.yaml")
    "$MGPU_BIN/mgpu-admin" --quiet update "$id" time_limit=null
    [ "$(job_field "$id" limit_s)" = 120.0 ]
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
