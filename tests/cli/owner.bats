#!/usr/bin/env bats
# owner.bats - a directory of results or checkpoints belongs to one job over all
# of its attempts: others are refused, at the submit or at the start, and go on
# from it only when they say so.

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
log_of() { stat --logs "$1"; }

# cv NAME [TRAIN]: two epochs of four iterations, into out/.
cv() {
    cat >"$1.yaml" <<END
version: 1
kind: cv
name: $1
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 32, train_samples: 32, eval_samples: 8}
train:
  device: host
  epochs: 2
  batch_size: 8
  output_dir: $PWD/out
  optimizer: {name: sgd, lr: 0.01}$2
resources: {gpus: 1}
retry: {max: 2, on: [exit, signal]}
END
}
worker() { "$MGPU_BIN/mgpu-worker" --alone --standalone "$@"; }
ends() { # JOB STATE
    wait_for 120 job_has_ended "$1"
    stat "$1"
    job_is "$1" "$2"
}

@test "another job is refused at the submit, and at its start" {
    ctld_start --config mgpu.yaml
    cv first
    id=$(submit first.yaml)
    ends "$id" COMPLETED
    grep -q '"owner":"[0-9a-f]\{32\}"' out/.mgpu-owner
    cmp <(grep -o '"owner":"[^"]*"' out/.mgpu-owner) \
        <(grep -o '"owner":"[^"]*"' out/ckpt/.mgpu-owner)
    # The same specification is another job, too.
    run -65 submit first.yaml
    echo "$output"
    [[ $output == *"first.yaml:10:15: error[E015]: '$PWD/out' is another job's directory"* ]]
    [[ $output == *"train.resume_from"* ]]
    # What this machine does not see is seen at the start; nothing is tried
    # twice but what retry.on says.
    sed 's/lr: 0.01/lr: 0.02/; s/ on: \[exit, signal\]/ on: [signal]/' first.yaml >other.yaml
    id=$(submit --idempotency-key other other.yaml)
    ends "$id" FAILED
    run -0 stat "$id"
    [[ $output == *"FAILED (65)  attempt 1"* ]]
    [[ $output == *"reason     train.output_dir: '$PWD/out' is job 1's ("*"): name another, leave it out, or set train.resume_from"* ]]
    # Checkpoints without a word whose they are.
    rm out/.mgpu-owner out/ckpt/.mgpu-owner
    run -65 submit first.yaml
    [[ $output == *"has another job's checkpoints"* ]]
    id=$(submit --idempotency-key nobody first.yaml)
    ends "$id" FAILED
    [[ $(stat "$id") == *"has another job's checkpoints: "* ]]
    # A directory of one's own is the default.
    id=$(submit --unset train.output_dir first.yaml)
    ends "$id" COMPLETED
}

attempt_runs() { # JOB ATTEMPT
    job_is "$1" RUNNING && [ "$(api GET "/v1/jobs/$1" | json '$.job.attempt')" = "$2" ]
}
worker_pids() { pgrep -f "^[^ ]*mgpu-worker .*$BATS_TEST_TMPDIR"; }

@test "all attempts of a job have it, also the first that made no checkpoint" {
    ctld_start --config mgpu.yaml
    cv long
    sed -i 's/epochs: 2/epochs: 9000/; s/retry: .*/retry: {backoff: 0s}/' long.yaml
    printf 'checkpoint: {every: 10000epoch}\n' >>long.yaml
    id=$(submit long.yaml)
    wait_for 90 attempt_runs "$id" 1
    # Its worker is killed, and the daemon starts again.
    worker_pids | xargs kill -KILL
    ctld_term
    ctld_start --config mgpu.yaml
    wait_for 90 attempt_runs "$id" 2
    "$MGPU_BIN/mgpu-admin" --quiet requeue "$id"
    wait_for 90 attempt_runs "$id" 3
    log_of "$id" | grep -q 'resumed at iteration'
    # And nobody else has it meanwhile.
    other=$(submit --idempotency-key other long.yaml)
    ends "$other" FAILED
    job_is "$id" RUNNING
}

@test "a sweep whose tasks share a directory is refused" {
    ctld_start --config mgpu.yaml
    cv sweep
    printf 'sweep:\n  grid:\n    train.seed: [1, 2]\n' >>sweep.yaml
    run -65 submit sweep.yaml
    echo "$output"
    [[ $output == *"sweep.yaml:10:15: error[E020]: tasks 0 and 1 would write into one directory, '$PWD/out'"* ]]
    [[ $output == *'${task_id}'*"leave the key out"* ]]
    run -65 submit --set checkpoint.dir="$PWD/ckpt" --unset train.output_dir sweep.yaml
    echo "$output"
    [[ $output == *"tasks 0 and 1 would write into one directory, '$PWD/ckpt'"* ]]
    run -65 submit --unset train.output_dir --unset sweep.grid \
        --set 'sweep={"zip": {"train.output_dir": ["/a", "/b", "/a"]}}' sweep.yaml
    echo "$output"
    [[ $output == *"tasks 0 and 2 would write into one directory, '/a'"* ]]
    # Those that only evaluate write nothing.
    run -0 "$MGPU_BIN/mgpu-submit" --dry-run --set train.eval_only=true \
        --set train.resume_from=/a sweep.yaml
    id=$(submit --set train.output_dir="$PWD/runs/\${task_id}" sweep.yaml)
    ends "$id" COMPLETED
    ends $((id + 1)) COMPLETED
    not cmp runs/0/.mgpu-owner runs/1/.mgpu-owner
    id=$(submit --set checkpoint.dir='${output_dir}/c' --unset train.output_dir sweep.yaml)
    ends $((id + 1)) COMPLETED
}

@test "train.resume_from goes on from it with more epochs, and nothing else" {
    ctld_start --config mgpu.yaml
    cv first
    id=$(submit --set checkpoint.keep_best=true --set checkpoint.metric=eval_loss first.yaml)
    ends "$id" COMPLETED
    cp -r out before
    cv more "
  resume_from: $PWD/out"
    sed -i 's/output_dir: .*/output_dir: ${resume}/; s/epochs: 2/epochs: 3/' more.yaml
    sed -i "s|\${resume}|$PWD/more|" more.yaml
    id=$(submit --set checkpoint.keep_best=true more.yaml)
    ends "$id" COMPLETED
    # No accuracy is above that loss of 2, which was the best of another job.
    [ -d more/ckpt/best ]
    log_of "$id" | grep -q 'resumed at iteration 8 of 12'
    log_of "$id" | grep -q "loaded the checkpoint of '$PWD/out/ckpt'"
    log_of "$id" | grep -q 'train.seed stays '
    [ -d more/ckpt/step-12 ]
    diff -r out before
    # What differs is named.
    id=$(submit --set train.output_dir="$PWD/other" --set train.optimizer.lr=0.5 \
        --set dataset.train_samples=16 --set 'retry.on=[]' more.yaml)
    ends "$id" FAILED
    [[ $(stat "$id") == *"reason     train.resume_from: '"*" train.optimizer.lr: only train.epochs and max_iterations may differ"* ]]
    log_of "$id" | grep -q 'had another dataset.train_samples, train.optimizer.lr: only'
    # Nothing is called trained that was trained before.
    id=$(submit --set train.output_dir="$PWD/same" --set train.epochs=2 --set 'retry.on=[]' more.yaml)
    ends "$id" FAILED
    [[ $(stat "$id") == *"has 2 epochs: set train.epochs to more"* ]]
    id=$(submit --set train.output_dir="$PWD/none" --set train.resume_from=/tmp --set 'retry.on=[]' more.yaml)
    ends "$id" FAILED
    [[ $(stat "$id") == *"no checkpoint in '/tmp'"* ]]
    # The best one alone is what one has to name.
    cp -r out only
    rm -r only/ckpt/step-*
    id=$(submit --set train.output_dir="$PWD/last" --set train.resume_from="$PWD/only" \
        --set 'retry.on=[]' more.yaml)
    ends "$id" FAILED
    [[ $(stat "$id") == *"no whole checkpoint in '$PWD/only/ckpt'; name best/ in it to go on from that"* ]]
}

@test "an early end says why, and train.eval_only leaves a row" {
    ctld_start --config mgpu.yaml
    cv first
    id=$(submit --set train.epochs=9 --set train.early_stopping.metric=eval_loss \
        --set train.early_stopping.patience=1 --set checkpoint.keep_best=true \
        --set train.early_stopping.min_delta=1e9 first.yaml)
    ends "$id" COMPLETED
    [[ $(stat "$id") == *"reason     early stopping at iteration 8 of 36: no eval_loss better than "*" in 1 evaluation"* ]]
    cp -r out before
    eval=$(submit --set train.eval_only=true --set train.output_dir="$PWD/other" \
        --set train.resume_from="$PWD/out/ckpt" --set train.batch_size=4 \
        --set train.lr_scheduler.num_warmup_steps=99 first.yaml)
    ends "$eval" COMPLETED
    not grep num_warmup_steps <(log_of "$eval")
    [[ $(stat "$eval") == *"reason     evaluated at iteration 8: loss "*", accuracy "* ]]
    [ "$(sql metrics "SELECT eval_loss, eval_accuracy FROM epoch WHERE job = $eval")" = \
        "$(sql metrics "SELECT eval_loss, eval_accuracy FROM epoch WHERE job = $id AND epoch = 2")" ]
    # The queue has the loss of that evaluation, and so has JSON.
    want=$(sql metrics "SELECT printf('%.4g', eval_loss) FROM epoch WHERE job = $eval")
    [ "$(stat -t all -h -o id,eval_loss | awk -v id="$eval" '$1 == id { print $2 }')" = "$want" ]
    [ "$(stat --json "$eval" | json '$.job.eval_loss' | awk '{ printf "%.4g", $1 }')" = "$want" ]
    # One checkpoint; a network that differs is refused.
    eval=$(submit --set train.eval_only=true --set train.output_dir="$PWD/best" \
        --set train.resume_from="$PWD/out/ckpt/best" first.yaml)
    wide=$(submit --set train.eval_only=true --set train.output_dir="$PWD/wide" \
        --set train.resume_from="$PWD/out/ckpt/best" --set 'retry.on=[]' \
        --set model.dropout=0.5 first.yaml)
    ends "$eval" COMPLETED
    ends "$wide" FAILED
    [[ $(stat "$wide") == *"had another model.dropout: only data, batch sizes and lr_scheduler may differ"* ]]
    diff -r out before
    # The job's own file, with what it evaluates; a directory that is not there
    # is left to a training.
    eval=$(submit --set train.eval_only=true --set train.resume_from="$PWD/out" first.yaml)
    ends "$eval" COMPLETED
    [[ $(stat "$eval") == *"reason     evaluated at iteration 8: loss "* ]]
    diff -r out before
    [ ! -e other ] && [ ! -e best ]
}

@test "without a daemon a run is its --dir" {
    cv alone
    run -0 worker alone.yaml --dir a
    run -0 worker alone.yaml --dir a
    [[ $output == *"resumed at iteration 8 of 8"* ]]
    run -65 worker alone.yaml --dir b
    echo "$output"
    [[ $output == *"train.output_dir: '$PWD/out' is another run's ("* ]]
}
