#!/usr/bin/env bats
# sweeps.bats - several jobs of one text: submitted, shown, cancelled.
# shellcheck disable=SC2154,SC2016 # bats sets output; $I is the job's

bats_require_minimum_version 1.5.0
load helpers

setup() { ctld_start; }
teardown() { ctld_stop; }

sweep() { # NAME MORE: of `sh -c $DO` with I from 1 to 4
    cat >"$BATS_TEST_TMPDIR/$1.yaml" <<END
version: 1
kind: command
command: [sh, -c, 'eval "\$DO"']
env: {DO: '$DO'}
retry: {max: 0}
checkpoint: {grace: 1s}
sweep:
  grid: {env.I: [1, 2, 3, 4]}
  $2
END
    echo "$BATS_TEST_TMPDIR/$1.yaml"
}

stat_of() { "$MGPU_BIN/mgpu-stat" "$@"; }
waits_for_limit() { # JOBID
    [[ "$(stat_of -h)" == *"$1  "*"SweepLimit: max_parallel 1 of 4 jobs"* ]]
}

@test "a submit makes all jobs of a sweep; --wait exits with the largest code" {
    file=$(DO='exit $I' sweep codes '')
    run -4 timeout "$compute_s" "$MGPU_BIN/mgpu-submit" --wait "$file"
    [ "${lines[0]}" = "submitted sweep 1: 4 jobs, 1_0 to 1_3" ]
    run -0 stat_of 1
    [[ "${lines[0]}" == "Sweep 1  codes  "*"/command  4 jobs: 4 FAILED" ]]
    [[ "$output" == *"  1_2  FAILED  3 "*"exited with 3"* ]]
    run -0 stat_of 1_2
    [[ "${lines[0]}" == "Job 1_2  codes "*"FAILED (3)"* ]]
    [[ "${lines[2]}" == *" job        3, task 2 of sweep 1: env.I=3" ]]
    run -0 stat_of 3
    [[ "${lines[0]}" == "Job 1_2 "* ]]
    [ "$(stat_of --json 1_3 | json '$.job.id')" = 4 ]
    [ "$(stat_of --json 1_3 | json '$.job.display_id')" = 1_3 ]
    [ "$(stat_of --json 1_3 | json '$.job.vary."env.I"')" = 4 ]
    [ "$(stat_of --json 1 | json '$.sweep.states.FAILED')" = 4 ]
    [ "$(stat_of --json 1 | json '$.tasks[3].display_id')" = 1_3 ]
    [ "$(api GET '/v1/jobs?sweep=1' | json '$.jobs[3].task')" = 3 ]
    run -4 timeout "$compute_s" "$MGPU_BIN/mgpu-stat" --wait 1
    run -3 timeout "$compute_s" "$MGPU_BIN/mgpu-stat" --wait 1_2
    run -66 stat_of 1_4
    [[ "$output" == *"no such job: '1_4'"* ]]
    run -64 stat_of 1_
    run -64 stat_of 1_2_3
}

@test "two submits with one key make one sweep, even if the daemon was killed between them" {
    file=$(DO='exit 0' sweep keys '')
    run -0 "$MGPU_BIN/mgpu-submit" --parsable --idempotency-key k "$file"
    [ "$output" = 1 ]
    ctld_kill
    ctld_start
    run -0 "$MGPU_BIN/mgpu-submit" --parsable --idempotency-key k "$file"
    [ "$output" = 1 ]
    run -0 timeout "$compute_s" "$MGPU_BIN/mgpu-stat" --wait 1
    [ "$(api GET '/v1/jobs' | json '$.jobs[#-1].display_id')" = 1_3 ]
    run -0 "$MGPU_BIN/mgpu-submit" --json "$file"
    [ "$output" = '{"schema":"mgpu.submitted/1","id":5,"tasks":4}' ]
}

@test "queued tasks share a line, --expand gives each its own; one cancel ends them all" {
    file=$(DO='exec sleep 1000' sweep slow 'max_parallel: 1')
    run -0 "$MGPU_BIN/mgpu-submit" "$file"
    wait_for 60 waits_for_limit '1_[1-3]'
    wait_for 60 job_is 1 RUNNING
    run -0 stat_of
    [[ "$output" == *"  1_0  slow  "*" R "* ]]
    [ "${#lines[@]}" -eq 4 ]
    run -0 stat_of --expand
    [ "${#lines[@]}" -eq 6 ]
    [[ "$output" == *"  1_2  slow  "*" PD "* ]]
    run -0 stat_of --why 1_2
    [[ "$output" == *"SweepLimit: max_parallel 1 of 4 jobs"* ]]
    run -0 "$MGPU_BIN/mgpu-cancel" 1_2
    [ "$output" = "job 1_2: cancelled" ]
    wait_for 60 waits_for_limit '1_[1,3]'
    run -0 "$MGPU_BIN/mgpu-cancel" -u me -t QUEUED
    [ "$output" = "$(printf 'job 1_1: cancelled\njob 1_3: cancelled')" ]
    job_is 1 RUNNING
    run -0 "$MGPU_BIN/mgpu-cancel" 1
    [ "$output" = "sweep 1: 3 jobs cancelled, 1 are being cancelled" ]
    wait_for 30 job_is 1 CANCELLED
}

@test "the row of a sweep says of how many of its tasks a reason is" {
    submit_command hog sleep 1000
    wait_for 60 job_is 1 RUNNING
    cat >"$BATS_TEST_TMPDIR/wide.yaml" <<'END'
version: 1
name: wide
kind: command
command: [sleep, "1000"]
sweep:
  list: [{resources.gpus: 2, env.I: 1}, {resources.gpus: 1, env.I: 2}, {resources.gpus: 1, env.I: 3}]
END
    run -0 "$MGPU_BIN/mgpu-submit" "$BATS_TEST_TMPDIR/wide.yaml"
    says() { [[ "$(stat_of -h "$@")" == *"2_[0-2]  wide  "*" 2 Reserved, 1 WaitingForGpus" ]]; }
    wait_for 60 says
    says -S id # a list that is not shown as it comes
    run -0 stat_of --expand
    [[ "$output" == *"2_0 "*" WaitingForGpus: needs 2, 1 free"*"2_1 "*" Reserved: would delay"* ]]
}

@test "the first failure stops those that wait" {
    file=$(DO='exit 7' sweep stops 'max_parallel: 1
  stop_on_fail: true')
    run -7 timeout "$compute_s" "$MGPU_BIN/mgpu-submit" --wait "$file"
    run -7 "$MGPU_BIN/mgpu-stat" --wait 1
    run -125 "$MGPU_BIN/mgpu-stat" --wait 1_3
    run -0 stat_of 1
    [[ "${lines[0]}" == *"1 FAILED, 3 CANCELLED; 1 at a time; stops when one fails" ]]
    [[ "$output" == *"  1_3  CANCELLED  4 "*"SweepStopped: job 1_0 failed"* ]]
}

@test "a sweep of programs is compared by what they measured" {
    cat >"$BATS_TEST_TMPDIR/own.yaml" <<'YAML'
version: 1
name: own
kind: command
command:
  - sh
  - -c
  - 'for i in 1 2 3; do echo "{\"iteration\":$i,\"acc\":$i.$A}"; done >>$MGPU_METRICS;
     [ $A = 1 ] || echo "{\"iteration\":2,\"rare\":8.5}" >>$MGPU_METRICS;
     [ $A = 2 ] || echo "{\"last\":-Infinity}" >>$MGPU_METRICS'
sweep: {grid: {env.A: [1, 2]}}
YAML
    run -0 timeout "$compute_s" "$MGPU_BIN/mgpu-submit" --wait "$BATS_TEST_TMPDIR/own.yaml"
    run -0 stat_of 1
    [[ "$output" == *"TEST ACC  last  acc  rare  PLACE OR REASON"* ]]
    [[ "$output" == *"1_0  COMPLETED  1 "*" -inf  3.1     -  "*"1_1  COMPLETED  2 "*"    -  3.2   8.5  "* ]]
    [ "$(stat_of --json 1 | json '$.tasks[1].values.acc')" = 3.2 ]
    [ "$(stat_of --json 1_1 | json '$.job.values.rare')" = 8.5 ]
    # As columns of the queue, and as its order.
    run -0 stat_of -t all -o id,metric.acc,metric.rare -S -metric.acc
    [[ "$output" == *"JOBID  acc  rare"$'\n'"  1_1  3.2   8.5"$'\n'"  1_0  3.1     -" ]]
    run -0 stat_of -h -o id,metric.rare 1_0 1_1
    [[ "$output" == *"1_0    -"$'\n'*"1_1  8.5" ]]
    run -0 stat_of -t all -o id,metric.acc --export csv
    [ "${lines[1]%$'\r'}" = 1_0,3.1000000000000001 ]
    run -0 stat_of -t all -h -o id,metric.last -S metric.last
    [[ "$output" == *"1_0  -inf"$'\n'*"1_1     -" ]]
    run -64 stat_of -o id,metric.
    run -64 stat_of --watch -o id,metric.acc
    [[ "$output" == *"tables that are printed once"* ]]
}

@test "a chart names tasks by whole characters" {
    cat >"$BATS_TEST_TMPDIR/drawn.yaml" <<'YAML'
version: 1
kind: command
command: [sh, -c, 'echo "{\"iteration\":1,\"loss\":1}" >"$MGPU_METRICS"']
sweep: {grid: {env.I: [aäääääääääääääääääääääääääääääääääääääääääääääää]}}
YAML
    run -0 timeout "$compute_s" "$MGPU_BIN/mgpu-submit" --wait "$BATS_TEST_TMPDIR/drawn.yaml"
    run -0 stat_of --plot "$BATS_TEST_TMPDIR/drawn.svg" 1_0
    iconv -f UTF-8 -t UTF-8 "$BATS_TEST_TMPDIR/drawn.svg" >/dev/null
    grep -q '>Loss, job 1_0 I=aä[^<]*ä\.\.\.<' \
        "$BATS_TEST_TMPDIR/drawn.svg"
}

@test "--array: a job for each number, which finds it; as sbatch has them" {
    cd "$BATS_TEST_TMPDIR" || exit 1
    cat >job.yaml <<'YAML'
version: 1
kind: command
command: [sh, -c, 'echo $MGPU_SWEEP_ID $MGPU_TASK_ID of $MGPU_TASK_COUNT; exit $MGPU_TASK_ID']
retry: {max: 0}
YAML
    submit() { timeout "$compute_s" "$MGPU_BIN/mgpu-submit" "$@"; }
    run -9 submit --wait --array 1,3,7-9:2%2 job.yaml
    [ "${lines[0]}" = "submitted sweep 1: 4 jobs, 1_1 to 1_9" ]
    for n in 1 3 7 9; do
        stat_of --logs 1_$n | tee log
        grep -qx "1 $n of 4" log
    done
    run -0 stat_of 1
    [[ "${lines[0]}" == *"4 jobs: 4 FAILED; 2 at a time" ]]
    run -0 stat_of 1_9
    [[ "${lines[0]}" == "Job 1_9 "*"FAILED (9)"* ]]
    run -66 stat_of 1_0
    # After a restart, and for others to wait for.
    ctld_kill
    ctld_start
    [ "$(stat_of --json 1_7 | json '$.job.id')" = 3 ]
    submit --quiet --dependency afternotok:1_7 job.yaml
    run -65 submit --dependency afterok:1_2 job.yaml
    [[ $output == *"you have no job 1_2"* ]]
    # Held, they share a line; each is cancelled by its number.
    submit --quiet --hold --array 2-8:3 job.yaml
    [[ $(stat_of -h) == *"6_[2,5,8]  "* ]]
    [ "$("$MGPU_BIN/mgpu-cancel" 6_5)" = "job 6_5: cancelled" ]
    run -65 "$MGPU_BIN/mgpu-admin" requeue 6
    [[ "$output" == *"6 is a sweep; name one of its jobs, as 6_2"* ]]
    # In the file, and what cannot be.
    submit --validate --set 'sweep={array: 0-15%4}' job.yaml
    run -65 submit --array 0-15%x job.yaml
    [[ $output == *"--array:6: error[E020]: 'sweep.array': expected how many at a time"* ]]
    run -65 submit --array 0-3 --set 'sweep.grid={env.A: [1]}' job.yaml
    [[ $output == *"error[E020]"*"grid, zip or list"* ]]
    run -0 submit --show --array 5-6 job.yaml
    [[ $output == *'# 5: {"array":"5"}'* ]]
    not stat_of 1_07x
}

@test "B14: names in braces: as written where it is kept, filled where it runs" {
    cd "$BATS_TEST_TMPDIR" || exit 1
    cat >job.yaml <<'YAML'
version: 1
name: fill
kind: command
command:
  - sh
  - -c
  - 'X=y; echo "${name} ${job_id} ${task_id} ${attempt} ${user} $${X} $X"; pwd; env; exit 3'
  - ${output_dir}
workdir: ${output_dir}
env: {OUT: "${output_dir}/${name}"}
labels: {of: "${user}"}
retry: {max: 1, on: [exit], backoff: 0s}
sweep: {array: "7"}
YAML
    run -0 "$MGPU_BIN/mgpu-submit" --show job.yaml
    [[ "$output" == *'"OUT":"${output_dir}/${name}"'* ]]
    run -3 timeout "$compute_s" "$MGPU_BIN/mgpu-submit" --wait job.yaml
    stat_of --logs 1 >log
    cat log
    me=$(id -un)
    grep -qx "fill 1 7 2 $me y y" log # of the last attempt
    grep -qx "$ctld_dir/state/jobs/1/out" log
    grep -qx "OUT=$ctld_dir/state/jobs/1/out/fill" log
    stat_of --json 1 >job.json
    grep -qF '"OUT":"${output_dir}/${name}"' <(tr -d ' \n' <job.json)
    grep -qF "\"of\":\"$me\"" <(tr -d ' \n' <job.json)
    run -65 "$MGPU_BIN/mgpu-submit" --set 'env.A=${HOME}' job.yaml
    [[ "$output" == *"error[E016]: env.A: '\${HOME}' is unknown"* ]]
}

@test "hold and release all of it, or one; what is for one job refuses a sweep" {
    file=$(DO='exec sleep 1000' sweep held 'max_parallel: 1')
    run -0 "$MGPU_BIN/mgpu-submit" --hold "$file"
    run -0 "$MGPU_BIN/mgpu-admin" release 1_2
    [[ "$output" == "job 1_2: "* ]]
    wait_for 60 job_is 3 RUNNING
    run -0 "$MGPU_BIN/mgpu-admin" release 1
    [[ "$output" == "sweep 1: 3 QUEUED, 1 "* ]]
    run -0 "$MGPU_BIN/mgpu-admin" priority 7 1_3
    [[ "$output" == "job 1_3: QUEUED, priority 7"* ]]
    run -0 "$MGPU_BIN/mgpu-admin" hold 1
    [[ "$output" == "sweep 1: 3 HELD, 1 "* ]]
    run -65 "$MGPU_BIN/mgpu-admin" requeue 1
    [[ "$output" == *"1 is a sweep; name one of its jobs, as 1_0"* ]]
    [ "$("$MGPU_BIN/mgpu-cancel" 1)" = "sweep 1: 3 jobs cancelled, 1 are being cancelled" ]
    run -130 timeout "$compute_s" "$MGPU_BIN/mgpu-stat" --wait 1
    [[ "$output" == *"job 1_2 CANCELLED"* ]]
    wait_for 30 job_is 3 CANCELLED
}

@test "a sweep with one bad task is not submitted at all" {
    file=$(DO='exit 0' sweep bad 'list: [{resources.gpus: 1}, {resources.gpus: 99}]')
    run -65 "$MGPU_BIN/mgpu-submit" "$file"
    [[ "$output" == *'task 1 {"env.I":"1","resources.gpus":"99"}: can never fit'* ]]
    [ "$(api GET /v1/jobs | json '$.jobs[0]')" = "" ]
    file=$(DO='exit 0' sweep typo 'zip: {resources.gpu: [1]}')
    run -65 "$MGPU_BIN/mgpu-submit" "$file"
    [[ "$output" == *"typo.yaml:9:9: error[E010]: unknown key 'resources.gpu'"* ]]
    run -0 "$MGPU_BIN/mgpu-submit" --validate --set sweep.zip=null "$file"
    [[ "$output" == *"valid, 4 jobs" ]]
}

@test "limits.max_sweep: how many jobs one may be, live" {
    ctld_kill
    conf=$ctld_dir/mgpu.yaml
    printf 'version: 1\nlimits: {max_sweep: 3}\n' >"$conf"
    ctld_start --config "$conf"
    file=$(DO='exit 0' sweep four '')
    for how in --dry-run --hold; do
        run -65 "$MGPU_BIN/mgpu-submit" $how "$file"
        [[ "$output" == *"a sweep of 4 jobs, of 3 allowed: an administrator can raise limits.max_sweep [E020]"* ]]
    done
    [ "$(api GET /v1/jobs | json '$.jobs[0]')" = "" ]
    printf 'version: 1\nlimits: {max_sweep: 4}\n' >"$conf"
    "$MGPU_BIN/mgpu-admin" --quiet reload
    "$MGPU_BIN/mgpu-submit" --quiet --hold "$file"
}

# patient COMMAND...: as run -0. A daemon without a core may not answer within the
# 10 s that a client waits; it is asked again then. Sets tries.
patient() {
    for tries in 1 2 3 4 5 6; do
        run "$@"
        [ "$status" -eq 124 ] || break
    done
    [ "$status" -eq 0 ]
}

@test "a thousand jobs are one commit, and one cancel ends them" {
    file=$(DO='exit 0' sweep many "zip: {labels.n: [$(seq -s, 250)]}")
    patient "$MGPU_BIN/mgpu-submit" --dry-run "$file"
    [ "${lines[1]}" = " sweep      1000 jobs; of the first 256, 2 start now" ]
    [[ $output == *" waits      task 2 first"*"WaitingForGpus"* ]]
    [ "$(wc -L <<<"$output")" -le 80 ]
    patient "$MGPU_BIN/mgpu-submit" --idempotency-key many --hold "$file"
    [ "$output" = "submitted sweep 1: 1000 jobs, 1_0 to 1_999" ]
    patient stat_of
    [[ "${lines[2]}" == "1_[0-999]  many "* ]]
    patient "$MGPU_BIN/mgpu-cancel" 1
    [ "$tries" -gt 1 ] || [ "$output" = "sweep 1: 1000 jobs cancelled" ]
    [ "$(sqlite3 "$ctld_dir/state/state.db" \
        "SELECT count(*) FROM v_job WHERE state = 'CANCELLED'")" = 1000 ]
    [ "$(sqlite3 "$ctld_dir/state/state.db" \
        "SELECT json_extract(detail, '\$.sweep.vary.\"labels.n\"') FROM v_event
         WHERE event = 'submit' AND job = 1000")" = 250 ]
}

@test "a long list comes in parts, and is one: no sweep is torn, nothing twice" {
    cd "$BATS_TEST_TMPDIR"
    ctld_kill
    printf 'version: 1\nlimits: {max_jobs_per_user: 20000}\n' \
        >"$ctld_dir/mgpu.yaml"
    ctld_start --config "$ctld_dir/mgpu.yaml"
    printf 'version: 1\nkind: command\ncommand: [sleep, "300"]\n' >job.yaml
    # By a key: one that is not answered in time is sent again.
    for key in one two; do
        wait_for 60 "$MGPU_BIN/mgpu-submit" --quiet --hold \
            --idempotency-key "$key" --array 0-4095 job.yaml
    done
    "$MGPU_BIN/mgpu-submit" --quiet --hold --array 0-999 job.yaml
    "$MGPU_BIN/mgpu-submit" --quiet --hold job.yaml
    stat_of -h >short
    grep -q '^ *1_\[0-4095\]  ' short
    grep -q '^ *8193_\[0-999\]  ' short
    [ "$(wc -l <short)" -eq 4 ]
    [ "$(stat_of -h -x | wc -l)" -eq 9193 ]
    # What is sorted comes whole, and by its number it stands as it does.
    for args in '' '-c 9192' '-x -c 8193'; do
        # shellcheck disable=SC2086
        stat_of $args >parts
        # shellcheck disable=SC2086
        stat_of $args -S id | cmp - parts
    done
    # As do the documents, but for the moment that each tells.
    for args in '' '-c 8200' '-t CA'; do
        # shellcheck disable=SC2086
        stat_of --json $args | sed 's/"generated":"[^"]*"//' >parts
        # shellcheck disable=SC2086
        stat_of --json $args -S id | sed 's/"generated":"[^"]*"//' | cmp - parts
    done
    ctld_kill # nothing runs, and thousands wait: each would be cancelled
}
