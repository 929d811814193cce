#!/usr/bin/env bats
# schema.bats - what the tools print with --json, errors included, is what
# the shipped schema says, and has no field that it does not name.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    ctld_start
}
teardown() { ctld_stop; }

stat() { "$MGPU_BIN/mgpu-stat" "$@"; }
submit() { "$MGPU_BIN/mgpu-submit" "$@"; }
fits() { "$MGPU_BIN/../tests/unit/tools/schema" "$@"; }

@test "every document is what the schema says" {
    cat >cv.yaml <<'END'
version: 1
kind: cv
name: cv
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 32, train_samples: 16, eval_samples: 8}
train: {device: host, epochs: 1, batch_size: 4, profile: epoch}
resources: {gpus: 1}
END
    cat >hog.yaml <<'END'
version: 1
kind: command
name: hog
command: [sleep, "600"]
resources: {gpus: 2, time_limit: 1h}
END
    OMP_NUM_THREADS=1 submit --quiet --wait cv.yaml
    submit --json hog.yaml >submitted.json
    submit --quiet hog.yaml
    submit --quiet --hold hog.yaml
    wait_for 60 hog_runs
    submit --dry-run --json hog.yaml >dry-waits.json
    submit --dry-run --json --set 'sweep={grid: {labels.a: [1, 2]}}' \
        --set resources.gpus=0 hog.yaml >dry-sweep.json
    submit --dry-run --json --hold cv.yaml >dry-alike.json
    [ "$(json '$.spec.train.seed' <dry-alike.json)" = "" ]
    stat --json >queue.json
    stat --json -t all >all.json
    stat --nodes --json >nodes.json
    stat --status --json >status.json
    stat --gpus --json >gpus.json
    stat --gpus --json --since 2d -u me >gpus-mine.json
    stat --usage --json >usage.json
    stat --usage --by node --json --since 2d >usage-node.json
    stat --usage --by class --json >usage-class.json
    has_four() { [ "$(wc -l <"$1")" -ge 4 ]; }
    follow_until has_four lines "$MGPU_BIN/mgpu-stat" --watch --json -t all
    head -n 4 lines >lines.json
    stat -o jsonl -t all -S -id >l-queue.json
    [ "$(wc -l <l-queue.json)" -eq 4 ]
    [ "$(head -n 1 l-queue.json | json '$.job.id')" = 4 ]
    stat --nodes -o jsonl >l-nodes.json
    stat --gpus -o jsonl >l-gpus.json
    for view in metrics epochs profile events scaling why; do
        stat -o jsonl "--$view" 1 3 >"l-$view.json"
        [ -s "l-$view.json" ]
    done
    [ "$(head -n 1 l-metrics.json | json '$.row.iteration')" = 1 ]
    [ "$(wc -l <l-metrics.json)" -ge 2 ]
    [ "$(tail -n 1 l-events.json | json '$.event.job')" = 3 ]
    stat --eff -u me -o jsonl >l-eff.json
    stat -o jsonl 1 2 >l-jobs.json
    [ "$(tail -n 1 l-jobs.json | json '$.job.id')" = 2 ]
    [ "$(cat l-nodes.json l-gpus.json l-eff.json | wc -l)" -ge 3 ]
    for id in 1 2 3 4; do
        stat --json "$id" >"job-$id.json"
        for view in metrics epochs profile scaling eff events why; do
            stat --json "--$view" "$id" >"$view-$id.json"
        done
    done
    stat --json --eff -u me >eff-mine.json
    [ "$(json '$.jobs[0].id' <eff-mine.json)" = 1 ]
    "$MGPU_BIN/mgpu-cancel" --json 2 3 >cancel.json
    # What ended for a reason, and a report with and without a run.
    submit_command fails false >/dev/null
    wait_for 60 job_is 5 FAILED
    stat --json --why 5 >why-5.json
    [ "$(json '$.reasons[0].text' <why-5.json)" != "" ]
    stat --json --report table2 1 >report.json
    stat --json --report fig2 >report-none.json
    # With the values of an iteration, which --metrics --json puts beside them.
    rm metrics-*.json
    api GET /v1/jobs/1/iterations >iterations.json
    api GET /v1/jobs/1/values >values.json
    submit --json --hold --set resources.gpu_memory=1G.. hog.yaml >warned.json
    [ "$(json '$.warnings[0].code' <warned.json)" = W201 ]
    sweep=$(submit --json --hold --set 'sweep={grid: {labels.a: [1, 2]}}' \
        hog.yaml | json '$.id')
    stat --json "$sweep" >sweep.json
    stat -o jsonl "$sweep" "${sweep}_1" >l-sweep.json
    [ "$(json '$.tasks[1].display_id' <sweep.json)" = "${sweep}_1" ]
    [ "$(head -n 1 l-sweep.json | json '$.tasks[1].task')" = 1 ]
    [ "$(tail -n 1 l-sweep.json | json '$.tasks')" = "" ]
    fits ./*.json
}
hog_runs() { job_is 2 RUNNING || job_is 2 STARTING; }

@test "and so is every document of an administrator" {
    admin() { "$MGPU_BIN/mgpu-admin" --json "$@"; }
    id=$(submit_command one true)
    admin policy set limits.max_gpus_per_user=1 --for 1h >set.json
    admin policy show >policy.json
    admin pause --reason why >pause.json
    submit_command two true >/dev/null
    admin policy explain >plan.json
    admin policy explain "$((id + 1))" >plan-one.json
    admin status >status.json
    admin hold "$((id + 1))" 99 >hold.json || [ $? -eq 66 ]
    node=$(api GET /v1/nodes | json '$.nodes[0].name')
    admin drain "$node" --reason fan >drain.json
    admin drain "$node" none >drain-two.json || [ $? -eq 66 ]
    admin drain none neither >drain-none.json || [ $? -eq 66 ]
    [ "$(json '$.nodes[1].code' <drain-none.json)" = NOTFOUND ]
    admin status >drained.json
    admin resume "$node" >in-use.json
    admin resume >resume.json
    admin log >log.json
    admin fsck >fsck.json
    admin who >who.json
    [ "$(json '$.users[0].queued' <who.json)" -ge 0 ]
    admin backup "$PWD/copy" >backup.json
    admin reload >reload.json || [ "$(json '$.schema' <reload.json)" = mgpu.error/1 ]
    fits ./*.json
}

@test "errors are documents too" {
    printf 'version: 2\nkind: cw\n' >bad.yaml
    submit --validate --json bad.yaml >findings.json || [ $? -ne 0 ]
    submit --explain --json E024 w102 >explain.json
    submit --explain --json >explain-all.json
    submit --list-templates --json >templates.json
    stat --json 99 >absent.json || [ $? -ne 0 ]
    stat --json -o nothing >column.json || [ $? -eq 64 ]
    stat --json --plot x.svg >usage.json || [ $? -eq 64 ]
    stat -o jsonl --sort nothing >lines.json || [ $? -eq 64 ]
    stat --json --sort nothing >order.json || [ $? -eq 64 ]
    printf 'version: 1\nkind: cv\ndataset: {source: synthetic}\n' >good.yaml
    submit --show --json good.yaml >show.json || [ $? -eq 64 ]
    MGPU_URL=unix:/nowhere/sock stat --json >away.json || [ $? -ne 0 ]
    "$MGPU_BIN/mgpu-cancel" --json 99 >cancel.json || [ $? -ne 0 ]
    fits ./*.json
    for f in absent column lines order show usage away; do
        [ "$(json '$.schema' <"$f.json")" = mgpu.error/1 ]
    done
}

@test "U4: each error of each command is a document, and its status no 0" {
    printf 'version: 1\nkind: command\ncommand: ["true"]\n' >good.yaml
    printf 'version: 1\nkind: command\ncommand: ["false"]\n' >other.yaml
    printf 'version: 2\n' >bad.yaml
    submit --quiet --idempotency-key k good.yaml
    n=0
    while read -r line; do
        n=$((n + 1))
        file=$(printf 'error-%02d.json' "$n") status=0
        timeout 60 bash -c "\"\$MGPU_BIN\"/$line" >"$file" 2>err || status=$?
        [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && [ -s "$file" ] || {
            echo "$line: $status"
            cat "$file" err
            false
        }
        # One document, and nothing beside it.
        [[ $(json '$.schema' <"$file") == mgpu.*/1 ]]
    done <<'END'
mgpu-submit --json
mgpu-submit --json none.yaml
mgpu-submit --json bad.yaml
mgpu-submit --json --validate bad.yaml
mgpu-submit --json --dry-run bad.yaml
mgpu-submit --json --idempotency-key k other.yaml
mgpu-submit --json --set resources.gpus=99 good.yaml
mgpu-submit --json --set policy.priority=60 good.yaml
mgpu-submit --json --template none
mgpu-submit --json --valdate good.yaml
mgpu-submit --json --wait --dry-run good.yaml
mgpu-submit --json --set x good.yaml
mgpu-submit --json --show bad.yaml
mgpu-submit --json --depends ok:99 good.yaml
mgpu-submit --json --set 'depends_on=[afterok:99]' good.yaml
mgpu-submit --json --set 'sweep={grid: {labels.a: []}}' good.yaml
mgpu-submit --json --explain E999
mgpu-stat --json 99
mgpu-stat --json 1_5
mgpu-stat --json xyz
mgpu-stat --json --why 99
mgpu-stat --json --logs 99
mgpu-stat --json --metrics 99
mgpu-stat --json --eff 99
mgpu-stat --json --events 99
mgpu-stat --json --scaling 99
mgpu-stat --json --epochs 99
mgpu-stat --json --profile 99
mgpu-stat --json --report nofig 1
mgpu-stat --json --report table2 99
mgpu-stat --json --wait 99
mgpu-stat --json -t nostate
mgpu-stat --json --since yesterday
mgpu-stat --json -S nothing
mgpu-stat --json -o nothing
mgpu-stat --json --export x.json
mgpu-stat --json --nope
mgpu-stat --json -i 0
mgpu-cancel --json
mgpu-cancel --json 99
mgpu-cancel --json x
mgpu-cancel --json -t nostate
mgpu-cancel --json --signal NOPE 1
mgpu-admin --json
mgpu-admin --json nothing
mgpu-admin --json hold
mgpu-admin --json hold 99
mgpu-admin --json release 99
mgpu-admin --json requeue 99
mgpu-admin --json top 99
mgpu-admin --json drain nonode --reason x
mgpu-admin --json resume nonode
mgpu-admin --json policy set nope=1
mgpu-admin --json policy set scheduler.policy=none
mgpu-admin --json policy explain 99
mgpu-admin --json policy nothing
mgpu-admin --json backup /proc/none
mgpu-admin --json reload
mgpu-admin --json who x y
END
    [ "$n" -ge 50 ]
    fits ./*.json
}
