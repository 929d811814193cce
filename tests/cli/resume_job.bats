#!/usr/bin/env bats
# resume_job.bats - train.resume_from names a job by its number: its checkpoint
# is found, the job is recorded as the parent, and what cannot be gone on from is
# refused with its line.
# shellcheck disable=SC2154 # bats sets output

bats_require_minimum_version 1.5.0
load helpers
load llm

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export OMP_NUM_THREADS=1
    printf '%s\n' 'version: 1' 'scheduler: {policy: backfill}' >mgpu.yaml
    cv first
    cv more 3 "
  resume_from: 1"
}
teardown() { ctld_stop; }

stat() { "$MGPU_BIN/mgpu-stat" "$@"; }
submit() { "$MGPU_BIN/mgpu-submit" --parsable "$@"; }
sql() { sqlite3 -readonly "$ctld_dir/state/state.db" "$1"; }
ends() { # JOB STATE
    wait_for 120 job_has_ended "$1"
    stat "$1"
    job_is "$1" "$2"
}
# cv NAME [EPOCHS [TRAIN]]: four iterations an epoch.
cv() {
    cat >"$1.yaml" <<END
version: 1
kind: cv
name: $1
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 32, train_samples: 32, eval_samples: 8}
train:
  device: host
  epochs: ${2-2}
  batch_size: 8
  optimizer: {name: sgd, lr: 0.01}${3-}
resources: {gpus: 1}
retry: {on: []}
END
}

@test "a job goes on from another by its number, which is recorded and shown" {
    ctld_start --config mgpu.yaml
    ends "$(submit --set checkpoint.keep_best=true first.yaml)" COMPLETED
    dir=$(stat --json 1 | json '$.job.dir')
    ends "$(submit more.yaml)" COMPLETED
    stat --logs 2 | grep -q "loaded the checkpoint of '$dir/out/ckpt'"
    stat --logs 2 | grep -q 'resumed at iteration 8 of 12'
    [[ $(stat 2) == *" continues  job 1, $dir/out/ckpt"* ]]
    [[ $(stat 1) != *continues* ]]
    [ "$(stat --json 2 | json '$.job.parent')" = 1 ]
    [ "$(stat --json 2 | json '$.job.parent_display_id')" = 1 ]
    [ "$(stat --json 2 | json '$.job.resumed_from')" = "$dir/out/ckpt" ]
    [ "$(stat --json 2 | json '$.job.spec.train.resume_from')" = 1 ]
    [ "$(sql 'SELECT job, parent FROM v_job ORDER BY job')" = $'1|\n2|1' ]
    [ "$(stat -t all -h -o id,parent | sort -n | tr -s ' ' | sed 's/^ //; s/ $//')" = $'1 -\n2 1' ]

    # The best one, also with other data; and a directory of the job's own.
    ends "$(submit --set train.resume_from=1:best --set train.weights_only=true \
        --set dataset.train_samples=16 more.yaml)" COMPLETED
    stat --logs 3 | grep -q "took the weights of '$dir/out/ckpt/best'"
    ends "$(submit --set train.resume_from="$dir/out" more.yaml)" COMPLETED
    [[ $(stat 4) == *" continues  job 1, $dir/out"$'\n'* ]]
    # A directory that is of no job is shown.
    cp -r "$dir/out" copy
    ends "$(submit --set train.resume_from=copy more.yaml)" COMPLETED
    [[ $(stat 5) == *" continues  $PWD/copy"$'\n'* ]]
    [ "$(sql 'SELECT parent FROM v_job WHERE job = 5')" = '' ]
    # A directory whose name is a number.
    mv copy 1
    ends "$(submit --set train.resume_from=./1 more.yaml)" COMPLETED
    [[ $(stat 6) == *" continues  $PWD/1"$'\n'* ]]

    # All of it survives the daemon.
    ctld_kill
    ctld_start --config mgpu.yaml
    [[ $(stat 2) == *" continues  job 1, $dir/out/ckpt"* ]]
    [[ $(stat 5) == *" continues  $PWD/copy"* ]]
    [ "$(sql 'SELECT parent FROM v_job WHERE job = 2')" = 1 ]
}

@test "what cannot be gone on from is refused with its line" {
    ctld_start --config mgpu.yaml
    printf 'version: 1\nkind: command\nname: c\ncommand: ["true"]\n' >c.yaml
    [ "$(submit c.yaml)" = 1 ]
    run -65 submit more.yaml
    echo "$output"
    [[ $output == *"more.yaml:11:16: error[E022]: train.resume_from: job 1 is of kind command, not cv"* ]]
    [ "$(submit --hold first.yaml)" = 2 ]
    run -65 submit --set train.resume_from=2 more.yaml
    echo "$output"
    [[ $output == *"job 2 has not ended, it is HELD: name it in depends_on, too, and this job waits for it"* ]]
    run -65 submit --set train.resume_from=77 more.yaml
    [[ $output == *"you have no job 77"* ]]
    run -65 submit --set train.resume_from=2:last more.yaml
    echo "$output"
    [[ $output == *"'train.resume_from' must be a path, or a job such as 12, 12_3 or 12:best, not '2:last'"* ]]
    run -65 "$MGPU_BIN/mgpu-submit" --dry-run more.yaml
    [[ $output == *"more.yaml:11:16: error[E022]"* ]]
    # The daemon refuses by itself what a program sends.
    run -22 api POST /v1/jobs -H 'Content-Type: application/json' -d \
        '{"spec":{"kind":"cv","name":"x","dataset":{"source":"synthetic"},"train":{"resume_from":"1"}}}'
    echo "$output"
    [[ $output == *'train.resume_from: job 1 is of kind command, not cv [E022]'* ]]

    # One without a checkpoint; one that waits for the job that it goes on from.
    ends "$(submit first.yaml)" COMPLETED
    ckpt=$(stat --json 3 | json '$.job.dir')/out/ckpt
    run -65 submit --set train.resume_from=3:best more.yaml
    [[ $output == *"job 3 has no best checkpoint: checkpoint.keep_best keeps one; 3 names its newest"* ]]
    mv "$ckpt/step-8" "$ckpt/best"
    rm -rf "$ckpt"/step-*
    run -65 submit --set train.resume_from=3 more.yaml
    [[ $output == *"job 3 has its best checkpoint alone: name 3:best"* ]]
    rm -r "$ckpt"
    run -65 submit --set train.resume_from=3 more.yaml
    [[ $output == *"job 3 has no checkpoint"* ]]
    # Its directory may be on the nodes alone.
    mv "${ckpt%/out/ckpt}" away
    run -0 --separate-stderr "$MGPU_BIN/mgpu-submit" --dry-run --set train.resume_from=3 more.yaml
    [[ $stderr == *"warning[W104]: train.resume_from: no checkpoint of job 3 is here"* ]]
    [ "$(submit --set train.resume_from=2 --set 'depends_on=[2]' more.yaml)" = 4 ]
    job_is 4 QUEUED
    [ "$(stat --json 4 | json '$.job.parent')" = 2 ]
    "$MGPU_BIN/mgpu-admin" release 2
    ends 2 COMPLETED
    ends 4 COMPLETED
    stat --logs 4 | grep -q 'resumed at iteration 8 of 12'

    # A run outside of mgpu, while it is open and after its end.
    api POST /v1/runs -H 'Content-Type: application/json' -H 'Idempotency-Key: r' \
        -d '{"name":"r"}'
    sed 's/resume_from: 1/resume_from: 5/' more.yaml >from_run.yaml
    run -65 submit from_run.yaml
    echo "$output"
    [[ $output == *"from_run.yaml:11:16: error[E022]: train.resume_from: job 5 is of kind run, not cv"* ]]
    "$MGPU_BIN/mgpu-cancel" 5
    ends 5 CANCELLED
    run -65 submit from_run.yaml
    [[ $output == *"job 5 is of kind run, not cv"* ]]
}

@test "a sweep goes on from the tasks of a sweep, each from its own" {
    ctld_start --config mgpu.yaml
    printf '%s\n' 'sweep: {grid: {train.optimizer.lr: [0.01, 0.02]}}' >>first.yaml
    sed -i 's/, lr: 0.01//' first.yaml
    [ "$(submit first.yaml)" = 1 ]
    ends 1 COMPLETED
    ends 2 COMPLETED
    sed -i '/resume_from/d; s/, lr: 0.01//' more.yaml
    printf '%s\n' 'sweep:' '  zip:' '    train.resume_from: [1_0, 1_1]' \
        '    train.optimizer.lr: [0.01, 0.02]' >>more.yaml
    [ "$(submit more.yaml)" = 3 ]
    ends 3 COMPLETED
    ends 4 COMPLETED
    [ "$(sql 'SELECT job, parent FROM v_job WHERE parent > 0 ORDER BY job')" = $'3|1\n4|2' ]
    [[ $(stat 3_1) == *" continues  job 1_1, "*/2/out/ckpt* ]]
    # The whole sweep is none; the place is that of the value.
    sed -i 's/\[1_0, 1_1\]/[1_0, 1]/' more.yaml
    run -65 submit more.yaml
    echo "$output"
    [[ $output == *"more.yaml:15:30: error[E022]: train.resume_from: 1 is a sweep of 2 jobs: name one of them, such as 1_0"* ]]
}

@test "a model card says which job it continues, or that it is another's" {
    dir=$PWD/run
    ctld_start --config mgpu.yaml
    llm_spec lora fp32 1 "optimizer: {lr: 1e-2}" "model: {lora_rank: 4}"
    change 's/^retry: .*/retry: {on: []}/'
    [ "$(submit spec.yaml)" = 1 ]
    ends 1 COMPLETED
    [ "$(submit --set train.resume_from=1 --set train.epochs=2 spec.yaml)" = 2 ]
    ends 2 COMPLETED
    out=$(stat --json 1 | json '$.job.dir')/out
    not grep -q Continues "$out/README.md"
    grep -qx -- '- Continues job 1.' "${out%/1/out}/2/out/README.md"
    # Without a daemon nobody knows the job, and its number names nothing.
    change "s|^  epochs: .*|&\n  resume_from: $out|; s/epochs: 1/epochs: 2/"
    run -0 worker 1
    grep -qx -- '- Continues the checkpoint of another job.' run/out/README.md
    change 's|resume_from: .*|resume_from: 1:best|'
    run worker 1
    [[ $output == *"train.resume_from: only a daemon knows job 1:best: name its directory"* ]]
}
