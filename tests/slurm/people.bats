#!/usr/bin/env bats
# people.bats - administrators, users and Slurm itself do to a job what Slurm
# lets them.

bats_require_minimum_version 1.5.0
load helpers

setup_file() { slurm_up --nodes 2 --gpus 4; }
teardown_file() { slurm_down; }
teardown() { slurm_calm; }

@test "requeued by an administrator: a new attempt, the old one ends" {
    ctld_start
    id=$(submit_sh again 1 1 "$say_ran; $wait_go")
    wait_for 60 has_run "$id.1.0"
    native=$(native_id "$id")
    scontrol update jobid="$native" requeue=1
    scontrol requeue "$native"
    wait_for 90 has_run "$id.2.0"
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
    [ "$(ran_lines)" = "$id.1.0 $id.2.0 " ]
    wait_for 30 slurm_is "$native" ''
}

# limit_of ID: the job's own, in seconds; minutes_of SLURM_ID: Slurm's.
limit_of() { api GET "/v1/jobs/$1" | json '$.job.limit_s'; }
has_limit() { [ "$(limit_of "$1")" = "$2" ]; }
minutes_of() { squeue --noheader -j "$1" -o %l; }
has_minutes() { [ "$(minutes_of "$1")" = "$2" ]; }

@test "a time limit that Slurm's administrator changes is taken over, and ours reaches Slurm" {
    ctld_start
    id=$(submit_sh timed 1 1 "$say_ran; $wait_go" resources.time_limit=10m)
    wait_for 60 has_run "$id.1.0"
    native=$(native_id "$id")
    has_minutes "$native" 12:00 # with slurm.limit_margin
    scontrol update jobid="$native" timelimit=32
    wait_for 30 has_limit "$id" 1800.0
    [ "$(sql state "SELECT json_extract(detail, '\$.why') FROM v_event
        WHERE job = $id AND event = 'update' AND uid IS NULL")" = 'changed in Slurm' ]
    "$MGPU_BIN/mgpu-admin" --quiet update "$id" time_limit=1h
    wait_for 30 has_minutes "$native" 1:02:00
    has_limit "$id" 3600.0
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
    # One event each: what we ask for is not taken for somebody's change.
    [ "$(sql state "SELECT count(*) FROM v_event WHERE job = $id AND event = 'update'")" = 2 ]
}

@test "a job that waits in Slurm's queue is submitted anew with what was updated" {
    ctld_start
    big=$(submit_sh big 2 8 "$say_ran; $wait_go")
    wait_for 60 has_run "$big.1.7"
    id=$(submit_sh next 2 8 "$say_ran; $wait_go" resources.time_limit=10m)
    waits_in_slurm() { slurm_of "$id" && [ "$native" != "$1" ]; }
    slurm_of() {
        native=$(squeue --noheader -t PENDING -o '%i %k' | sed -n "s/ mgpu:[^:]*:$1:.*//p")
        [ -n "$native" ]
    }
    wait_for 60 waits_in_slurm ''
    first=$native
    has_minutes "$first" 12:00
    "$MGPU_BIN/mgpu-admin" --quiet update "$id" time_limit=20m
    wait_for 60 waits_in_slurm "$first"
    has_minutes "$native" 22:00
    touch "$go"
    wait_for 90 job_is "$id" COMPLETED
    [ "$(sql state "SELECT count(*) FROM v_event WHERE job = $id AND
        event = 'requeue' AND detail LIKE '%TakenBack%'")" = 1 ]
}

@test "preempted in Slurm: the job runs again" {
    ctld_start
    id=$(submit_sh victim 2 8 "$say_ran; $wait_go")
    wait_for 60 has_run "$id.1.0"
    other=$(stranger -p urgent -N 2 --gpus-per-node=4)
    requeued() {
        [ "$(sql state "SELECT count(*) FROM v_event WHERE event = 'requeue'
            AND detail LIKE '%preempt%'")" = 1 ]
    }
    wait_for 60 requeued
    wait_for 60 slurm_is "$other" RUNNING
    scancel "$other"
    wait_for 60 has_run "$id.2.7"
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
}

@test "F41: room is made with a checkpoint, and the job goes on from it" {
    conf_more='scheduler: {preempt: {enabled: true, grace: 60s, min_runtime: 0s}}'
    ctld_start
    # One GPU is left, and nobody knows for how long the others are taken.
    one=$(stranger -w node1 --gpus-per-node=4)
    two=$(stranger -w node2 --gpus-per-node=3)
    wait_for 60 slurm_is "$one" RUNNING
    wait_for 60 slurm_is "$two" RUNNING
    cd "$BATS_TEST_TMPDIR"
    export OMP_NUM_THREADS=1
    cat >long.yaml <<YAML
version: 1
kind: cv
name: long
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 28, train_samples: 64, eval_samples: 8}
train: {device: host, epochs: 10000, batch_size: 8, output_dir: $PWD/out}
resources: {gpus: 1}
checkpoint: {every: 10000epoch}
retry: {max: 0}
YAML
    id=$("$MGPU_BIN/mgpu-submit" --parsable long.yaml)
    wait_for 90 job_is "$id" RUNNING
    high=$(submit_sh high 1 1 "$say_ran" policy.priority=high)
    wait_for 120 job_is "$high" COMPLETED
    log=$ctld_dir/state/jobs/$id
    at=$(sed -n 's/.*stopped by signal, checkpoint at iteration \([0-9]*\).*/\1/p' "$log/1/log")
    [ "$at" -ge 1 ]
    wait_for 120 grep -qs "resumed at iteration $at of" "$log/2/log"
    "$MGPU_BIN/mgpu-stat" --events "$id" |
        grep -q "preempted by job $high of .*, priority 50 over 0"
    [ "$(n_slurm_jobs long) $(n_slurm_jobs high)" = "2 1" ]
    # Neither of the strangers had to go.
    slurm_is "$one" RUNNING
    slurm_is "$two" RUNNING
}

@test "scancel by its user: CANCELLED, and not tried again" {
    ctld_start
    id=$(submit_sh ended 2 2 "$say_ran; $wait_go")
    wait_for 60 has_run "$id.1.0"
    scancel "$(native_id "$id")"
    wait_for 60 job_has_ended "$id"
    job_is "$id" CANCELLED
    reason_like "$id" '*cancelled in Slurm*'
    [ "$(n_slurm_jobs ended)" = 1 ]
    [ "$(grep -c "$id.1.0" "$ran")" = 1 ]
}

# A stranger has all GPUs, so the job stands in Slurm's queue, whether the
# daemon has seen the stranger already or not.
pend() { # NAME; sets id, other
    ctld_start
    other=$(stranger -N 2 --gpus-per-node=4)
    wait_for 30 slurm_is "$other" RUNNING
    id=$(submit_sh "$1" 1 1 "$say_ran")
    wait_for 60 reason_like "$id" 'Slurm(*'
    slurm_is "$(slurm_ids "$1")" PENDING
}

@test "a job that waits in Slurm says for what, and runs in the end" {
    pend waiting
    wait_for 60 reason_like "$id" 'Slurm(Resources)'
    job_is "$id" DISPATCHING
    # It is pending for everybody who counts.
    [ "$(api GET /v1/jobs | json '$.running')" = 0 ]
    [ "$(api GET /v1/jobs | json '$.queued')" = 1 ]
    [[ $("$MGPU_BIN/mgpu-stat" --no-header -o st -t PD) == *PD* ]]
    [ "$("$MGPU_BIN/mgpu-admin" --json who | json '$.users[0].gpus')" = 0 ]
    "$MGPU_BIN/mgpu-admin" policy explain "$id" | grep -q submitted
    scancel "$other"
    wait_for 60 job_is "$id" COMPLETED
    [ "$(n_slurm_jobs waiting)" = 1 ]
}

@test "scancel before it started: CANCELLED, and never runs" {
    pend scancelled
    scancel "$(slurm_ids scancelled)"
    wait_for 60 job_is "$id" CANCELLED
    reason_like "$id" '*cancelled in Slurm*'
    [ ! -e "$ran" ]
}

@test "cancelled by its user while it waits in Slurm" {
    pend cancelled
    "$MGPU_BIN/mgpu-cancel" "$id"
    wait_for 60 job_is "$id" CANCELLED
    wait_for 30 slurm_is "$(slurm_ids cancelled)" ''
    slurm_is "$other" RUNNING
    [ ! -e "$ran" ]
}

@test "Slurm's own limit holds while the daemon is away" {
    conf_slurm='  limit_margin: 0s'
    ctld_start
    id=$(submit_sh late 1 1 "$say_ran; exec sleep 600" \
        resources.time_limit=10m)
    wait_for 60 has_run "$id.1.0"
    native=$(native_id "$id")
    ctld_kill
    scontrol update jobid="$native" endtime=now+1
    wait_for 120 slurm_ended "$native"
    [ "$(slurm_end "$native")" = TIMEOUT ]
    ctld_start
    wait_for 60 job_has_ended "$id"
    [ "$(job_state "$id") $(job_field "$id" exit_code)" = 'TIMEOUT 124' ]
}

@test "suspended by an administrator for long: not silent, and goes on" {
    # Until it is seen that it is suspended, nobody is taken for dead.
    lost_after=1h
    ctld_start
    id=$(submit_sh still 2 2 "$say_ran; $wait_go" resources.time_limit=10m)
    wait_for 60 has_run "$id.1.0"
    wait_for 60 has_run "$id.1.1"
    native=$(native_id "$id")
    scontrol suspend "$native"
    wait_for 30 reason_like "$id" 'Slurm(Suspended)'
    # The row says so, too, and has no rate.
    "$MGPU_BIN/mgpu-stat" --no-header -o st,rate,where | grep -qx 'S  *-  Slurm(Suspended)'
    "$MGPU_BIN/mgpu-admin" --quiet policy set watchdog.node_lost_after=3s
    # Longer than it takes to give up ranks that say nothing.
    since=$SECONDS
    passed() { [ $((SECONDS - since)) -gt 10 ]; }
    wait_for 30 passed
    job_runs "$id"
    "$MGPU_BIN/mgpu-admin" --quiet policy set watchdog.node_lost_after=1h
    scontrol resume "$native"
    wait_for 30 reason_like "$id" ''
    touch "$go"
    wait_for 60 job_has_ended "$id"
    [ "$(job_state "$id")" = COMPLETED ]
    [ "$(ran_lines)" = "$id.1.0 $id.1.1 " ]
}

@test "a partition that is not open to a job: refused, and Slurm's words say why" {
    if slurm_is_from 23 2; then
        skip "this Slurm ignores AllowAccounts without slurmdbd"
    fi
    scontrol create partitionname=lab nodes=ALL allowaccounts=physics
    ctld_start
    no=$(submit_sh closed 1 1 "$say_ran" resources.partition=lab)
    wait_for 60 job_is "$no" HELD
    job_field "$no" reason
    [ "$(job_field "$no" held_by)" = refused ]
    reason_like "$no" 'Refused: could not be started: Slurm: never starts: *account*lab allows physics*'
    [ ! -e "$ran" ]
    # What was in the way is gone, and a release tries it again.
    scontrol update partitionname=lab allowaccounts=ALL
    "$MGPU_BIN/mgpu-admin" --quiet release "$no"
    wait_for 60 job_is "$no" COMPLETED
    [ "$(ran_lines)" = "$no.2.0 " ]
    scontrol delete partitionname=lab
}

@test "a partition that is down takes jobs, and its jobs say so" {
    ctld_start
    scontrol create partitionname=lab nodes=ALL state=down
    in_lab() { [[ $("$MGPU_BIN/mgpu-stat" --nodes) == *lab* ]]; }
    wait_for 60 in_lab
    printf '%s\n' 'version: 1' 'kind: command' 'command: ["true"]' \
        'resources: {gpus: 1, partition: lab}' >"$BATS_TEST_TMPDIR/lab.yaml"
    id=$("$MGPU_BIN/mgpu-submit" --parsable "$BATS_TEST_TMPDIR/lab.yaml")
    wait_for 60 reason_like "$id" '*PartitionDown*'
    scontrol update partitionname=lab state=up
    wait_for 90 job_is "$id" COMPLETED
    # Nodes that are in no other partition are named with it.
    scontrol update partitionname=batch state=down
    scontrol update partitionname=urgent state=down
    scontrol update partitionname=lab state=down
    not_up() { [[ $("$MGPU_BIN/mgpu-stat" --nodes) == *"partition "*lab*" is not up"* ]]; }
    wait_for 60 not_up
    id=$("$MGPU_BIN/mgpu-submit" --parsable "$BATS_TEST_TMPDIR/lab.yaml")
    for p in batch urgent lab; do
        scontrol update partitionname=$p state=up
    done
    wait_for 90 job_is "$id" COMPLETED
    # What a partition never takes is refused at once, and not promised.
    scontrol update partitionname=lab maxtime=30 maxnodes=1 allowaccounts=vision,nlp
    refuses() { # WORDS OPTIONS...
        local words=$1
        shift
        run "$MGPU_BIN/mgpu-submit" "$@" "$BATS_TEST_TMPDIR/lab.yaml"
        [[ $status -eq 65 && $output == *"$words"*"[E201]"* ]]
    }
    long='time limit 2h is above the 00:30:00 of partition lab'
    wait_for 60 refuses "$long" --time 2h --dry-run
    refuses "$long" --time 2h
    refuses '2 nodes are more than the 1 that partition lab gives to a job' \
        --set resources.nodes=2 --set resources.gpus=2
    # Later versions ignore the list without slurmdbd.
    slurm_is_from 23 2 ||
        refuses "account 'chem' may not use partition lab, which takes vision,nlp" \
            --set policy.account=chem
    # The margin of mgpu's own limit does not make it too long.
    scontrol update partitionname=lab allowaccounts=ALL
    id=$("$MGPU_BIN/mgpu-submit" --parsable --time 30m "$BATS_TEST_TMPDIR/lab.yaml")
    wait_for 90 job_is "$id" COMPLETED
    scontrol delete partitionname=lab
}

@test "a hidden partition runs jobs" {
    scontrol create partitionname=unseen nodes=ALL hidden=yes
    ctld_start
    id=$(submit_sh hidden 1 1 "$say_ran" resources.partition=unseen)
    wait_for 60 job_is "$id" COMPLETED
    [ "$(ran_lines)" = "$id.1.0 " ]
    scontrol delete partitionname=unseen
}
