#!/usr/bin/env bats
# limits.bats - a time limit is announced to the ranks, and real training makes
# use of it.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export OMP_NUM_THREADS=1
    ctld_start
}
teardown() { ctld_stop; }

# A limit that lies far behind its warning: nobody has to wait for it.
warned_yaml() { # SIGNAL
    cat >warned.yaml <<END
version: 1
kind: cv
name: warned
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 28, train_samples: 64, eval_samples: 8}
train: {device: host, epochs: 10000, batch_size: 8, output_dir: $PWD/out}
resources: {gpus: 1, time_limit: 1h, warn_signal: $1, warn_before: 3599s}
checkpoint: {every: 10000epoch}
retry: {max: 1, on: [time_limit], backoff: 0s}
END
}

@test "before its time limit training writes a checkpoint and goes on" {
    warned_yaml auto
    id=$("$MGPU_BIN/mgpu-submit" --parsable warned.yaml)
    wait_for 60 has_event "$id" warn
    wait_for 60 grep -rq 'checkpoint at iteration' "$ctld_dir/state/jobs/$id/1/log"
    job_is "$id" RUNNING
    ls out/ckpt/*/model.safetensors
    [[ $("$MGPU_BIN/mgpu-stat" --events "$id") == *"time limit in 3"*" s, sent SIGUSR1"* ]]
}
has_event() { api GET "/v1/jobs/$1/events" | grep -q "\"event\":\"$2\""; }

# After 10 s: what comes before the program is there does not reach it.
@test "a program that the warning ended is told so" {
    cat >dies.yaml <<'END'
version: 1
kind: command
name: dies
command: [sleep, "600"]
resources: {gpus: 1, time_limit: 1h, warn_signal: USR1, warn_before: 3590s}
END
    run "$MGPU_BIN/mgpu-submit" --quiet --wait dies.yaml
    [ "$status" -eq 124 ]
    run "$MGPU_BIN/mgpu-stat" --eff 1
    [[ $output == *"It ended at SIGUSR1, which warned of its time limit of 1:00:00"* ]]
    [[ $output != *"raise resources.time_limit"* ]]
}

@test "or stops there, and the next attempt goes on where it was" {
    warned_yaml TERM
    id=$("$MGPU_BIN/mgpu-submit" --parsable warned.yaml)
    wait_for 90 job_is "$id" TIMEOUT
    log=$ctld_dir/state/jobs/$id
    at=$(sed -n 's/.*stopped by signal, checkpoint at iteration \([0-9]*\).*/\1/p' "$log/1/log")
    [ "$at" -ge 1 ]
    grep -q "iteration $at" <(head -20 "$log/2/log")
    [ "$(sed -n 's/.*stopped by signal, checkpoint at iteration \([0-9]*\).*/\1/p' "$log/2/log")" -gt "$at" ]
    [ "$(api GET "/v1/jobs/$id" | json '$.job.exit_code')" = 124 ]
    [[ $(api GET "/v1/jobs/$id" | json '$.job.reason') == *"ended by the warning before its time limit of 3600 s"* ]]
}
