#!/usr/bin/env bats
# resize.bats - a running job changes its number of slots, and goes on where it
# was: MNIST and a Llama with the losses of an undisturbed run, commands that
# save; what is refused, and what comes in the middle.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export OMP_NUM_THREADS=1
    # People resize jobs here: the default policy would, too.
    printf '%s\n' 'version: 1' 'scheduler: {policy: backfill}' >mgpu.yaml
}
teardown() {
    rm -f hold # or a job that is cancelled waits for it
    ctld_stop
}

admin() { "$MGPU_BIN/mgpu-admin" "$@"; }
stat() { "$MGPU_BIN/mgpu-stat" "$@"; }
submit() { "$MGPU_BIN/mgpu-submit" --parsable "$@"; }
field() { api GET "/v1/jobs/$1" | json "\$.job.$2"; }
field_is() { [ "$(field "$1" "$2")" = "$3" ]; }
runs_on() { job_is "$1" RUNNING && field_is "$1" gpus "$2"; }
# ran_on JOB ATTEMPT GPUS: it has run so, and may have ended meanwhile.
ran_on() {
    [ -n "$(sql state "SELECT 1 FROM v_attempt WHERE job = $1 AND attempt = $2
        AND gpus = $3 AND running_at > 0")" ]
}
# The daemon has considered it, and says what it waits for.
is_planned() {
    local why
    why=$(stat --why "$1")
    [[ $why == *"$1"* && $why != *PendingEvaluation* ]]
}
# limit_has_passed JOB SECONDS: since its attempt began.
limit_has_passed() {
    [ "$(sql state "SELECT strftime('%s', 'now') - claimed_at > $2 FROM v_attempt
        WHERE job = $1")" = 1 ]
}
sql() { sqlite3 -readonly "$ctld_dir/state/$1.db" "$2"; }

# mnist NAME SLOTS: 12 micro-batches of 8 in each iteration. At a higher rate,
# the norm of so few values makes a difference of 1 in 20 iterations of one in
# the last bit.
mnist() {
    cat >"$1.yaml" <<END
version: 1
kind: cv
name: $1
model: {width_mult: 0.25}
dataset: {source: mnist, path: $MGPU_SRC/tests/data/mnist, image_size: 64,
          train_samples: 192, eval_samples: 8}
train: {device: host, epochs: 12, batch_size: 8, global_batch_size: 96,
        precision: fp64, seed: 3, optimizer: {name: sgd, lr: 1e-4}}
resources: {gpus: $2}
checkpoint: {every: 10000epoch}
retry: {max: 0}
END
}

# llm NAME SLOTS PACKED TOKENS EPOCHS: the small Llama by LoRA, 12 micro-batches
# of a row, or of a pack of two or three, in each iteration. The last iteration
# of an epoch has fewer.
llm() {
    cat >"$1.yaml" <<END
version: 1
kind: llm
name: $1
method: lora
train:
  checkpointer: {checkpoint_dir: $MGPU_SRC/jobs/examples/stories260K}
  tokenizer: {max_seq_len: $4}
  dataset: {template: tokens, packed: $3, path: $MGPU_SRC/jobs/examples/story-names/train.jsonl}
  device: host
  epochs: $5
  batch_size: 1
  global_batch_size: 12
  precision: fp64
  seed: 5
  optimizer: {name: adamw, lr: 1e-4}
  lr_scheduler: {name: constant}
resources: {gpus: $2}
checkpoint: {every: 10000epoch}
retry: {max: 0}
END
}

# saver SLOTS [more]: a command that counts its attempts in its directory, and
# ends when `done` is there; while `hold` is there it does not stop.
saver() {
    cat >saver.sh <<'END'
trap 'echo "$MGPU_ATTEMPT on $MGPU_WORLD_SIZE" >>"$MGPU_OUTPUT_DIR/saved"
      while [ -e hold ]; do sleep 0.05; done; exit 0' TERM
while [ ! -e done ]; do sleep 0.05; done
END
    cat >saver.yaml <<END
version: 1
kind: command
name: saver
command: [sh, saver.sh]
saves: true
resources: {gpus: $1}
retry: {max: 0}
$2
END
}

# same_losses JOB WHOLE APART: each iteration of the job is there once, none was
# done again, and each has the loss of the undisturbed run, but for APART. With
# two micro-batches that is 0: their sum has the same bits, whoever adds them.
# Sums of more of them round differently on two ranks than on one, in the last of
# 53 bits; a learning rate that is 2^-30 larger moves a Llama's losses by more
# than 1e-10 (tests/mpi/resize.c).
same_losses() {
    local n both="FROM v_iteration a JOIN v_iteration b USING (iteration)
        WHERE a.job = $1 AND b.job = $2 AND a.rank = 0 AND b.rank = 0"
    n=$(sql metrics "SELECT max(iteration) FROM v_iteration WHERE job = $2")
    [ "$n" -gt 0 ]
    [ "$(sql metrics "SELECT count(*), max(iteration) FROM v_iteration
        WHERE job = $1 AND rank = 0")" = "$n|$n" ]
    sql metrics "SELECT printf('%.3g apart', max(abs(a.loss - b.loss) / b.loss)) $both"
    [ "$(sql metrics "SELECT count(*) $both AND abs(a.loss - b.loss) <= $3 * b.loss")" = "$n" ]
}

@test "MNIST grows and shrinks, and its losses do not notice" {
    ctld_start --config mgpu.yaml
    mnist whole 2
    mnist elastic 1..2
    whole=$(submit --set train.batch_size=48 whole.yaml)
    wait_for 240 job_is "$whole" COMPLETED
    id=$(submit --set train.batch_size=48 elastic.yaml)
    wait_for 90 runs_on "$id" 1
    run -0 admin resize "$id" 2
    [[ $output == "job $id: "*"Resizing: from 1 to 2 GPUs, asked by $(id -un)" ]]
    wait_for 90 runs_on "$id" 2
    admin --quiet resize "$id" 1
    wait_for 240 job_is "$id" COMPLETED
    ran_on "$id" 3 1
    field_is "$id" attempt 3
    same_losses "$id" "$whole" 0
    # What it cost, in rows, for people, and as metrics.
    [ "$(sql state "SELECT group_concat(resized_from) FROM v_attempt WHERE job = $id")" = "1,2" ]
    [ "$(sql state "SELECT count(*) FROM v_attempt WHERE job = $id AND
        checkpoint_s >= 0 AND allocator_s >= 0 AND start_s > 0")" = 2 ]
    stat --events "$id" | grep -q 'resized from 1 to 2 GPUs in .* s: checkpoint'
    stat --events "$id" | grep -q "uid $(id -u) .*Resizing: from 1 to 2 GPUs"
    stat "$id" | grep -q 'resized .*from 1 to 2 GPUs'
    api GET /metrics | grep -q '^mgpu_resizes_total 2$'
    api GET /metrics | grep -q '^mgpu_resize_seconds_total{part="start"}'
}

grows_and_shrinks() { # JOB
    wait_for 90 runs_on "$1" 1
    admin --quiet resize "$1" 2
    wait_for 90 runs_on "$1" 2
    admin --quiet resize "$1" 1
    wait_for 240 job_is "$1" COMPLETED
    ran_on "$1" 3 1
    field_is "$1" attempt 3
}

# Not packed at night alone, which sets $MGPU_TEST_ALL.
@test "a Llama grows and shrinks, packed and not, and its losses do not notice" {
    local kind whole id
    local kinds=("true 256 14")
    [ -z "${MGPU_TEST_ALL-}" ] || kinds+=("false 128 8")
    ctld_start --config mgpu.yaml
    for kind in "${kinds[@]}"; do
        # shellcheck disable=SC2086 # words
        llm whole 2 $kind
        # shellcheck disable=SC2086
        llm elastic 1..2 $kind
        whole=$(submit whole.yaml)
        wait_for 240 job_is "$whole" COMPLETED
        id=$(submit elastic.yaml)
        grows_and_shrinks "$id"
        same_losses "$id" "$whole" 1e-10
    done
}

@test "while others wait: they get what it leaves, and not its place" {
    ctld_launch --local --slots 4
    saver 1..4
    touch hold
    id=$(submit saver.yaml)
    wait_for 60 runs_on "$id" 1
    admin --quiet resize "$id" 3
    wait_for 30 job_is "$id" CHECKPOINTING
    [ "$(stat --no-header --format gpus -t all)" = "1>3" ]
    field_is "$id" to_gpus 3
    late=$(submit_command late sleep 600)
    two=$(submit --set resources.gpus=2 --set name=two saver.yaml)
    wait_for 30 is_planned "$two"
    job_is "$two" QUEUED
    rm hold
    wait_for 60 runs_on "$id" 3
    wait_for 60 job_is "$late" RUNNING
    job_is "$two" QUEUED
    field_is "$id" to_gpus ""
    admin --quiet resize "$id" 1
    wait_for 60 runs_on "$id" 1
    wait_for 60 runs_on "$two" 2
    [ "$(tr '\n' , <"$(find "$ctld_dir/state/jobs/$id" -name saved)")" = "1 on 1,2 on 3,2 on 3,2 on 3," ]
    touch done
    wait_for 60 job_is "$id" COMPLETED
    field_is "$id" attempt 3
}

@test "a resize that is refused leaves the job as it was" {
    ctld_launch --local --slots 4
    mnist m 1..4
    sed -i 's/epochs: 12/epochs: 10000/' m.yaml
    id=$(submit --set train.global_batch_size=48 m.yaml)
    wait_for 90 runs_on "$id" 1
    refused() { # STATUS TEXT WORDS...
        run admin "${@:3}"
        [ "$status" -eq "$1" ]
        [[ $output == *"$2"* ]]
    }
    refused 64 "expected a number of GPUs" resize "$id" four
    refused 64 "which job, and how many" resize "$id"
    refused 64 "one job at a time" resize "$id" 2 3
    refused 64 "--nodes goes with resize" --nodes 2 requeue "$id"
    refused 64 "--nodes goes with a number" --nodes 2 resize "$id" any
    refused 66 "no job 99" resize 99 2
    refused 65 "it may have: 1, 2, 3" resize "$id" 4
    refused 65 "equally among 2 nodes" --nodes 2 resize "$id" 3
    refused 65 "its nodes are 1..1" --nodes 2 resize "$id" 2
    refused 73 "has 1 GPU already" resize "$id" 1
    runs_on "$id" 1
    field_is "$id" attempt 1
    plain=$(submit_command plain sleep 600)
    wait_for 60 job_is "$plain" RUNNING
    refused 73 "saves: true" resize "$plain" 1
    blunt=$(submit --hold --set checkpoint.on_signal=false m.yaml)
    refused 73 "checkpoint.on_signal: true" resize "$blunt" 2
    sweep=$(submit --set 'sweep={grid: {labels.a: [1, 2]}}' --hold m.yaml)
    run admin resize "$sweep" 2
    [ "$status" -ne 0 ]
    admin --quiet resize "${sweep}_1" 2
    field_is "${sweep}_1" to_gpus 2
    field_is "${sweep}_0" to_gpus ""
    admin --quiet resize "${sweep}_1" any
    field_is "${sweep}_1" to_gpus ""
}

@test "a dry run says which sizes there are, and whether the losses depend on them" {
    ctld_launch --local --slots 4
    mnist m 1..4
    run -0 "$MGPU_BIN/mgpu-submit" --dry-run m.yaml
    [[ $output == *"sizes      1..4 GPUs; the global batch is 96 with each"* ]]
    run -0 "$MGPU_BIN/mgpu-submit" --dry-run --set train.global_batch_size=16 m.yaml
    [[ $output == *"sizes      1, 2 GPUs; the global batch is 16 with each"* ]]
    sed -i 's/global_batch_size: 96,//' m.yaml
    run -0 "$MGPU_BIN/mgpu-submit" --dry-run m.yaml
    [[ $output == *"sizes      1..4 GPUs; the global batch, and the curve of the losses,"* ]]
    [[ $output == *"change with the number (train.global_batch_size keeps them)"* ]]
}

@test "twice in a row, undone, cancelled and killed in the middle" {
    ctld_launch --local --slots 4
    saver 1..4
    touch hold
    id=$(submit saver.yaml)
    wait_for 60 runs_on "$id" 1
    admin --quiet resize "$id" 2
    wait_for 30 job_is "$id" CHECKPOINTING
    admin resize "$id" 2 |
        grep -x "job $id: CHECKPOINTING, Resizing: from 1 to 2 GPUs is under way already"
    admin resize "$id" 1 |
        grep -x "job $id: CHECKPOINTING, Resizing: on 1 GPU again, asked by $(id -un), in place of 2"
    [[ $(stat --why "$id") != *Growing* ]]
    admin resize "$id" 4 |
        grep -x "job $id: CHECKPOINTING, Resizing: from 1 to 4 GPUs, asked by $(id -un), in place of 1"
    field_is "$id" to_gpus 4
    ctld_kill
    ctld_launch --local --slots 4
    wait_for 30 field_is "$id" to_gpus 4
    rm hold
    wait_for 60 runs_on "$id" 4
    field_is "$id" attempt 2
    touch hold
    admin --quiet resize "$id" 3
    wait_for 30 job_is "$id" CHECKPOINTING
    admin --quiet resize "$id" any
    rm hold
    wait_for 60 runs_on "$id" 1
    touch hold
    admin --quiet resize "$id" 4
    wait_for 30 job_is "$id" CHECKPOINTING
    "$MGPU_BIN/mgpu-cancel" "$id"
    rm hold
    wait_for 60 job_is "$id" CANCELLED
}

@test "a job's time limit passes in the middle of a resize" {
    ctld_launch --local --slots 2
    saver 1..2 'checkpoint: {grace: 60s}'
    touch hold
    id=$(submit --set resources.time_limit=5s saver.yaml)
    wait_for 60 runs_on "$id" 1
    admin --quiet resize "$id" 2
    wait_for 30 job_is "$id" CHECKPOINTING
    wait_for 30 limit_has_passed "$id" 5
    # The attempt has its grace, and the next one a limit of its own.
    job_is "$id" CHECKPOINTING
    rm hold
    wait_for 60 job_is "$id" TIMEOUT
    field_is "$id" attempt 2
    field_is "$id" gpus 2
}
