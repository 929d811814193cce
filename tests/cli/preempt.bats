#!/usr/bin/env bats
# preempt.bats - an urgent job has room made for it by real ones, which go on
# where they were.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export OMP_NUM_THREADS=1
    cat >mgpu.yaml <<END
version: 1
scheduler: {preempt: {enabled: true, grace: 60s, min_runtime: 0s}}
END
    ctld_launch --local --slots 1 --config mgpu.yaml
}
teardown() { ctld_stop; }

attempt_is() { [ "$(api GET "/v1/jobs/$1" | json '$.job.attempt')" = "$2" ]; }

# urgent: a short job that cannot wait; its id.
urgent() {
    cat >urgent.yaml <<END
version: 1
kind: command
name: urgent
command: ["true"]
policy: {priority: high}
END
    "$MGPU_BIN/mgpu-submit" --parsable urgent.yaml
}

@test "training makes room with a checkpoint, and goes on from it" {
    cat >long.yaml <<END
version: 1
kind: cv
name: long
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 28, train_samples: 64, eval_samples: 8}
train: {device: host, epochs: 10000, batch_size: 8, output_dir: $PWD/out}
resources: {gpus: 1}
checkpoint: {every: 10000epoch}
retry: {max: 0}
END
    id=$("$MGPU_BIN/mgpu-submit" --parsable long.yaml)
    wait_for 90 job_is "$id" RUNNING
    high=$(urgent)
    wait_for 90 job_is "$high" COMPLETED
    log=$ctld_dir/state/jobs/$id
    at=$(sed -n 's/.*stopped by signal, checkpoint at iteration \([0-9]*\).*/\1/p' "$log/1/log")
    [ "$at" -ge 1 ]
    wait_for 90 grep -qs "resumed at iteration $at of" "$log/2/log"
    "$MGPU_BIN/mgpu-stat" --events "$id" | grep -q "preempted by job $high of .*, priority 50 over 0"
    # Nobody asked for it, as for a requeue.
    "$MGPU_BIN/mgpu-stat" --events "$id" | grep -q " preempt  *mgpu .*for_job=$high"
    "$MGPU_BIN/mgpu-stat" --why "$id" | grep -q "Preempted: by job $high, at 20"
}

@test "a command that saves its work waits at its place, and completes" {
    cat >saves.sh <<'END'
if [ -e saved ]; then exit 0; fi
trap 'touch stopping; while [ ! -e go ]; do sleep 0.05; done; touch saved; exit 1' TERM
touch ready
while :; do sleep 0.05; done
END
    cat >saves.yaml <<'END'
version: 1
kind: command
name: saves
command: [sh, saves.sh]
retry: {max: 0}
END
    id=$("$MGPU_BIN/mgpu-submit" --parsable saves.yaml)
    wait_for 60 test -e ready
    wait_for 60 job_is "$id" RUNNING
    high=$(urgent)
    wait_for 60 test -e stopping
    job_is "$id" CHECKPOINTING
    why=$("$MGPU_BIN/mgpu-stat" --why "$high")
    [[ $why == *"WaitingForPreemption: needs 1, released by job $id"* ]]
    [[ $why == *"job $id of "*" lets 1 GPUs go by 20"* ]]
    [[ $("$MGPU_BIN/mgpu-stat" --why "$id") == *"Preempted: by job $high; it has until 20"* ]]
    job_is "$high" QUEUED
    touch go
    wait_for 60 job_is "$high" COMPLETED
    wait_for 60 job_is "$id" COMPLETED
    attempt_is "$id" 2
}
