#!/usr/bin/env bats
# quotas.bats - sizes that Slurm would not grant: above a quota of an account,
# told or not, and on nodes that a reservation takes before the job would end.

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
    export no_dbd=''
    if slurm_up --nodes 2 --gpus 4 --dbd 2>"$BATS_FILE_TMPDIR/err"; then
        sacctmgr -i add account physics cluster=testbed
        sacctmgr -i add user "$(id -un)" account=physics
        sacctmgr -i modify user "$(id -un)" set defaultaccount=physics
    else
        without_dbd
    fi
} >/dev/null
# As in accounting.bats: slurmdbd of Debian 13.
without_dbd() {
    cat "$BATS_FILE_TMPDIR/err" >&2
    grep -q '_check_mysql_concat_is_sane: null result' \
        "$BATS_FILE_TMPDIR/err" || return 1
    slurm_down
    no_dbd="slurmdbd does not work with this libmariadb"
    slurm_up --nodes 2 --gpus 4
}
# People resize jobs here: the default policy would, too.
conf_more='scheduler: {policy: backfill}'
conf_controller='  metrics_labels: [partition, account]'
conf_slurm='  limit_margin: 0s'
teardown_file() { slurm_down; }
teardown() {
    scontrol delete reservationname=maint 2>/dev/null || :
    [ -n "$no_dbd" ] || quota gres/gpu=-1,gres/gpu:h100=-1
    slurm_calm
}

quota() { sacctmgr -i modify account physics set "GrpTRES=$1" >/dev/null; }
runs_on() { # JOB GPUS
    job_is "$1" RUNNING &&
        [ "$(sql state "SELECT gpus FROM v_attempt WHERE job = $1
            ORDER BY attempt DESC LIMIT 1")" = "$2" ]
}
# A command that ends when it is told to stop, or when `go` is there.
spec() { # NAME GPUS
    cat >"$BATS_TEST_TMPDIR/$1.yaml" <<YAML
version: 1
kind: command
name: $1
command: [sh, -c, "trap 'exit 0' TERM; $wait_go"]
saves: true
resources: {gpus: $2, gpu_type: h100, time_limit: 10m}
checkpoint: {grace: 60s}
retry: {max: 0}
YAML
}
saver() { # NAME GPUS [KEY=VALUE...]
    local s sets=()
    spec "$1" "$2"
    for s in "${@:3}"; do sets+=(--set "$s"); done
    "$MGPU_BIN/mgpu-submit" --parsable ${sets[@]+"${sets[@]}"} \
        "$BATS_TEST_TMPDIR/$1.yaml"
}
resize() { "$MGPU_BIN/mgpu-admin" --quiet resize "$@"; }
# same_sizes JOB: the simulation of the recorded past gives the job the attempts
# that a worker claimed, with their numbers of GPUs.
same_sizes() {
    "$MGPU_BIN/mgpu-sim" --config "$ctld_dir/mgpu.yaml" --cluster 2x4 \
        --from-db "$ctld_dir/state" --events "$BATS_TEST_TMPDIR/events.csv" |
        grep -E '^(stranded|recorded)'
    [ "$(sql state "SELECT group_concat(gpus) FROM v_attempt
        WHERE job = $1 AND claimed_at > 0")" = \
        "$(sed -n "s/.*,$(job_field "$1" name),start,.*:\([0-9]*\)$/\1/p" \
            "$BATS_TEST_TMPDIR/events.csv" | paste -sd,)" ]
}
# What a dry run says, on one line.
dry_says() { # NAME WORDS [OPTION...]
    "$MGPU_BIN/mgpu-submit" --dry-run "${@:3}" "$BATS_TEST_TMPDIR/$1.yaml" |
        grep -F "$2"
}

@test "a quota: no larger size is asked for, and a dry run says so" {
    [ -z "$no_dbd" ] || skip "$no_dbd"
    quota gres/gpu=3
    ctld_start
    spec four 4
    wait_for 30 dry_says four 'starts     not now: Slurm grants at most 3 GPUs now: 3 GPUs in all for account physics, 0 in use'
    dry_says four "not now: Slurm refuses it: $(id -un) has no association with account 'nowhere'" \
        --set policy.account=nowhere
    dry_says four "Slurm shows no reservation 'never'" \
        --set resources.reservation=never
    id=$(saver elastic 1..4)
    wait_for 60 runs_on "$id" 1
    # Slurm's count may come after the start.
    why_says() { "$MGPU_BIN/mgpu-stat" --why "$1" | grep -F "$2"; }
    wait_for 30 why_says "$id" 'for account physics, 1 in use'
    run resize "$id" 4
    [ "$status" -ne 0 ]
    [[ $output == *"cannot have 4 GPUs in Slurm: 3 GPUs in all for account physics"* ]]
    why_says "$id" 'Slurm      grants at most 3 GPUs now'
    resize "$id" 3
    wait_for 60 runs_on "$id" 3
    [ "$(job_field "$id" attempt)" = 2 ]
    # The default account of who names none.
    [ "$(job_field "$id" account)" = physics ]
    has_gpus() { api GET /metrics | grep -qFx "$1"; }
    wait_for 30 has_gpus \
        'mgpu_group_gpus{partition="batch",account="physics"} 3'
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
    "$MGPU_BIN/mgpu-stat" --usage --by account --no-header >"$BATS_TEST_TMPDIR/use"
    grep -E '^physics +1 +0 ' "$BATS_TEST_TMPDIR/use"
    [ "$("$MGPU_BIN/mgpu-stat" -h -t all -A physics -o id)" = "$id" ]
    same_sizes "$id"
}

@test "a quota that is not told: the old size again, and not the other one" {
    [ -z "$no_dbd" ] || skip "$no_dbd"
    quota gres/gpu:h100=2
    ctld_start
    id=$(saver typed 1..4)
    wait_for 60 runs_on "$id" 1
    resize "$id" 4
    "$MGPU_BIN/mgpu-admin" resize "$id" 4 |
        grep 'Resizing: from 1 to 4 GPUs is under way already'
    three() { [ "$(job_field "$id" attempt)" = 3 ]; }
    wait_for 120 three
    wait_for 60 runs_on "$id" 1
    sql state "SELECT detail FROM event WHERE job = $id AND event = 'preempt'" |
        grep 'back to 1 GPU, 4 not granted, nor tried for 5 min: Slurm(AssocGrpGRES)'
    "$MGPU_BIN/mgpu-stat" --why "$id" | grep '4 GPUs or more were not granted'
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
    [ "$(job_field "$id" attempt)" = 3 ]
    same_sizes "$id" >"$BATS_TEST_TMPDIR/sim"
    grep "stranded: job $id .*; repeated as a requeue" "$BATS_TEST_TMPDIR/sim"
}

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
    limit_is() { scontrol show job "$(native_id "$1")" | grep -q "TimeLimit=$2 "; }
    # Longer than a second: less than a minute is left of 61 s.
    over_a_second() { [[ $(job_field "$1" elapsed_s) == [2-9]* ]]; }
    short=$(saver short 1..4 resources.time_limit=61s)
    wait_for 60 runs_on "$short" 1
    limit_is "$short" 00:02:00
    wait_for 30 over_a_second "$short"
    long=$(saver long 1..4)
    wait_for 60 runs_on "$long" 1
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
    touch "$go"
    wait_for 60 job_is "$long" COMPLETED
    [ "$(job_field "$long" attempt)" = 1 ]
}
