#!/usr/bin/env bats
# save.bats - checkpoints that cannot be written: the training goes on or ends,
# as checkpoint.on_error says; its result is there, and no work is lost without
# a word.
#
# A directory with the name of a file that a checkpoint consists of takes that
# file's place, for one iteration or for the best one: what a full disk does,
# for root, too.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export OMP_NUM_THREADS=1
    printf '%s\n' 'version: 1' 'scheduler: {policy: backfill}' >mgpu.yaml
}
teardown() { ctld_stop; }

stat() { "$MGPU_BIN/mgpu-stat" "$@"; }
submit() { "$MGPU_BIN/mgpu-submit" --parsable "$@"; }
sql() { sqlite3 -readonly "$ctld_dir/state/$1.db" "$2"; }
# block STEP...: of the job that is submitted next.
block() {
    local step
    for step in "$@"; do
        mkdir -p "ckpt/$step.tmp/"{,adapter_}model.safetensors
    done
}
unblock() { rm -rf "ckpt/$1.tmp"; }
failures() {
    sql state "SELECT count(*) FROM v_event WHERE job = $1 AND event = 'save_failed'"
}

# cv NAME [TEXT]: three epochs of four iterations.
cv() {
    cat >"$1.yaml" <<END
version: 1
kind: cv
name: $1
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 32, train_samples: 32, eval_samples: 8}
train: {device: host, epochs: 3, batch_size: 8, seed: 3, output_dir: $PWD/out}
resources: {gpus: 1}
retry: {max: 0}
checkpoint: {dir: $PWD/ckpt, every: 2steps, keep_last: 9$2}
END
}

# llm NAME [TEXT]: ten iterations, by LoRA.
llm() {
    cat >"$1.yaml" <<END
version: 1
kind: llm
name: $1
method: lora
train:
  checkpointer: {checkpoint_dir: $MGPU_SRC/tests/data/llama-tied}
  dataset: {template: tokens, path: $MGPU_SRC/tests/data/llama-tied/rows.jsonl}
  device: host
  seed: 1
  batch_size: 2
  gradient_accumulation_steps: 1
  output_dir: $PWD/out
resources: {gpus: 1}
retry: {max: 0}
checkpoint: {dir: $PWD/ckpt$2}
END
}

@test "on the way: the training goes on, once said, and the end is no warning" {
    ctld_start --config mgpu.yaml
    cv on-the-way ", keep_best: true"
    block step-4 step-6 step-10 best
    id=$(submit on-the-way.yaml)
    wait_for 120 job_is "$id" COMPLETED
    # 4 and the best of epoch 1 for the same reason; so 6; after 8, again.
    run -0 sql state "SELECT detail FROM v_event WHERE job = $id AND event = 'save_failed'"
    echo "$output"
    [ -d ckpt/step-12 ]
    [ ! -e ckpt/step-4 ]
    [ ! -e ckpt/best ]
    [[ $(head -1 <<<"$output") == *'no checkpoint at iteration 4: File exists, in '"$PWD/ckpt"'"'* ]]
    [[ $output == *'no checkpoint at iteration 10: File exists'* ]]
    [ "$(failures "$id")" -ge 2 ]
    [ "$(failures "$id")" -le 4 ]
    run -0 stat "$id"
    [[ $output == *COMPLETED\ \(0\)* ]]
    [[ $output == *" warning    attempt 1: no checkpoint at iteration 10: File exists"* ]]
    [[ $output != *" reason "* ]]
    [ "$(failures "$id")" -eq "$(stat --events "$id" | grep -c save_failed)" ]
}

@test "the last one: what was trained is exported, and the job COMPLETED" {
    ctld_start --config mgpu.yaml
    llm tuned
    block step-10
    id=$(submit tuned.yaml)
    wait_for 120 job_is "$id" COMPLETED
    run -0 stat "$id"
    echo "$output"
    [[ $output == *"reason     no last checkpoint: File exists"* ]]
    [[ $output == *"warning    attempt 1: no last checkpoint at iteration 10: "* ]]
    [ -s out/adapter_model.safetensors ]
    rm -r out ckpt
    # A cv's result is its last checkpoint.
    cv pictures
    block step-12
    id=$(submit pictures.yaml)
    wait_for 120 job_is "$id" COMPLETED
    run -0 stat "$id"
    echo "$output"
    [[ $output == *"reason     no last checkpoint: File exists; the model is in train.output_dir"* ]]
    [ -s out/model.safetensors ]
    [ "$(ls out)" = model.safetensors ]
    # With room in neither, the work is not called complete.
    rm -r out ckpt
    block step-12
    mkdir -p out/step-0.tmp/model.safetensors
    id=$(submit pictures.yaml)
    wait_for 120 job_is "$id" FAILED
    run -0 stat "$id"
    echo "$output"
    [[ $output == *"reason     no last checkpoint, and train.output_dir: "* ]]
    # Once there is room, it goes on where it was.
    unblock step-12
    sed "s|output_dir: .*}|output_dir: $PWD/again, resume_from: $PWD/ckpt}|
        s|dir: $PWD/ckpt, ||" pictures.yaml >again.yaml
    run -0 "$MGPU_BIN/mgpu-worker" --alone --standalone again.yaml --dir run
    [[ $output == *"resumed at iteration 10 of 12"* ]]
}

@test "on_error: fail ends the job, with the result of one that is done" {
    ctld_start --config mgpu.yaml
    cv strict ", on_error: fail"
    block step-4
    id=$(submit strict.yaml)
    wait_for 120 job_is "$id" FAILED
    run -0 stat "$id"
    echo "$output"
    [[ $output == *"FAILED (74)"* ]]
    [[ $output == *"step-4.tmp/model.safetensors"*"File exists"* ]]
    [ ! -e ckpt/step-6 ]
    rm -r out ckpt
    llm strict-llm ", on_error: fail"
    block step-10
    id=$(submit strict-llm.yaml)
    wait_for 120 job_is "$id" FAILED
    [[ $(stat "$id") == *"FAILED (74)"* ]]
    [ -s out/adapter_model.safetensors ]
    rm -r out ckpt
}

iterates() { [ "$(api GET "/v1/jobs/$1" | json '$.job.iteration // 0')" -ge "$2" ]; }

again() {
    [ "$(sql state "SELECT count(*) FROM v_attempt WHERE job = $1 AND attempt = 2")" = 1 ]
}

@test "a stop without its checkpoint goes on from the one before, and says so" {
    ctld_start --config mgpu.yaml
    cv stopped
    # Longer than it takes to ask for a requeue, on any machine.
    sed -i 's/epochs: 3/epochs: 4000/; s/every: 2steps/every: 10000epoch/' stopped.yaml
    mkdir -p ckpt/step-{1..16000}.tmp/model.safetensors
    id=$(submit stopped.yaml)
    wait_for 90 job_is "$id" RUNNING
    "$MGPU_BIN/mgpu-admin" --quiet requeue "$id"
    wait_for 180 again "$id"
    "$MGPU_BIN/mgpu-cancel" --quiet "$id"
    wait_for 90 job_is "$id" CANCELLED
    run -0 stat "$id"
    echo "$output"
    [[ $output == *"warning    attempt 1: no checkpoint at iteration "*", all of them are lost: File exists"* ]]
    [[ $output == *"attempt 2"* ]]
    [ "$(sql state "SELECT count(*) FROM v_event WHERE job = $id AND attempt = 1 AND event = 'save_failed'")" = 1 ]
}

# Where the parameters are sharded all ranks write, and all go on.
@test "sharded over two ranks, each of them goes on" {
    llm shared ", every: 2steps"
    sed -i 's/^method: lora/method: full/; s/^  seed: 1/&\n  distribution: fsdp\n  precision: fp32/' shared.yaml
    block step-2 step-5 # 5 iterations of two ranks
    run -0 timeout "$compute_s" mpirun --quiet -n 2 --oversubscribe --bind-to none \
        "$MGPU_BIN/mgpu-worker" --standalone shared.yaml --dir run
    echo "$output"
    [[ $output == *"no checkpoint iteration=2"*"File exists"* ]]
    [[ $output == *"no last checkpoint iteration=5"*"File exists"* ]]
    [ -d ckpt/step-4 ]
    [ -s out/model.safetensors ]
    grep -q '"saves_failed":\[' run/report.json
}
