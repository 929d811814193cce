#!/usr/bin/env bats
# stat.bats - mgpu-stat and mgpu-submit --wait against a private daemon: what
# a user sees of jobs that run, ended, failed, or are not there.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    ctld_start
}
teardown() { ctld_stop; }

stat() { "$MGPU_BIN/mgpu-stat" "$@"; }
submit() { "$MGPU_BIN/mgpu-submit" "$@"; }

# spec NAME COMMAND: a job of one shell command.
spec() {
    printf 'version: 1\nkind: command\nname: %s\ncommand: [sh, -c, "%s"]\n' \
        "$1" "$2" >"$1.yaml"
}

is_json() {
    [ "$(sqlite3 :memory: "SELECT json_valid('${1//\'/\'\'}')")" = 1 ]
}

@test "submit --wait returns the job's own code, and the result is shown" {
    spec three 'echo spoken; exit 3'
    run submit --wait three.yaml
    [ "$status" -eq 3 ]
    [[ $output == *"submitted job 1"* ]]
    [[ $output == *"job 1 FAILED"* ]]
    run stat 1
    [ "$status" -eq 0 ]
    [[ $output == *"Job 1  three  "*"FAILED (3)"* ]]
    run stat --logs 1
    [ "$status" -eq 0 ]
    [[ $output == *"spoken"* ]]
    run stat --events 1
    [[ $output == *"submit"*"intent"*"claim"*"fail"* ]]
    [[ $output != *"token"* ]]
}

@test "progress to a file has no carriage return" {
    spec quick 'exit 0'
    submit --wait quick.yaml >out
    [ "$(tr -dc '\r' <out | wc -c)" -eq 0 ]
    grep -q '^job 1 COMPLETED' out
}

@test "on a terminal a moving line fits, and the last one is whole" {
    command -v script >/dev/null || skip "no script(1)"
    spec long 'echo {\\\"iteration\\\": 123456789, \\\"loss\\\": 0.5, \\\"t_iter\\\": 0.25} >$MGPU_METRICS; until [ -e go ]; do sleep 0.1; done; exit 3'
    timeout 200 script -qefc "stty cols 50
        $MGPU_BIN/mgpu-submit --wait --set retry.max=0 long.yaml" seen \
        </dev/null >/dev/null 2>&1 3>&- &
    # The rate has no room: no part of it is shown.
    wait_for 150 grep -qa 'RUNNING  iteration 123456789  loss 0.5000' seen
    touch go
    wait $! || true
    tr '\r' '\n' <seen | sed 's/\x1b\[[0-9;]*[mK]//g' >plain
    ! grep -a 'RUNNING.*0.5000.' plain || false
    [ "$(grep -a '^job' plain | grep -v FAILED | wc -L)" -lt 50 ]
    grep -a '^job 1 FAILED  iteration 123456789  loss 0.5000  4.0 it/s  (.*)$' plain
}

@test "a signal is 128 + its number" {
    spec dies 'kill -9 $$'
    run submit --wait --set retry.max=0 dies.yaml
    [ "$status" -eq 137 ]
}

@test "the time limit is 124" {
    spec slow 'sleep 60'
    run submit --wait --set resources.time_limit=1s \
        --set checkpoint.grace=1s slow.yaml
    [ "$status" -eq 124 ]
    run stat 1
    [[ $output == *"TIMEOUT (124)"*"time limit"* ]]
}

@test "--timeout gives up waiting, and the job goes on" {
    spec slow 'sleep 60'
    run submit --wait --timeout 1s slow.yaml
    [ "$status" -eq 124 ]
    [[ $output == *"it goes on"* ]]
    wait_for 60 job_claimed # a slow machine may still be starting it
}

@test "waiting survives a daemon that is killed and comes back" {
    spec wait 'until [ -e go ]; do sleep 0.05; done; exit 5'
    sed -i "s|until \[ -e go|until [ -e $PWD/go|" wait.yaml
    submit --wait wait.yaml >out 2>&1 3>&- &
    pid=$!
    wait_for 60 job_claimed
    ctld_kill
    ctld_start
    touch go
    status=0
    wait "$pid" || status=$?
    [ "$status" -eq 5 ]
}
job_claimed() { job_is 1 STARTING || job_is 1 RUNNING; }

@test "--wait=STATE ends with a state, or with the job; of several, with all" {
    spec long 'until [ -e go ]; do sleep 0.05; done; exit 3'
    sed -i "s|until \[ -e go|until [ -e $PWD/go|" long.yaml
    run submit --wait=running --set retry.max=0 long.yaml
    [ "$status" -eq 0 ]
    [[ $output == *"job 1 RUNNING"* ]]
    submit --quiet --hold long.yaml
    run stat --wait=HELD,RUNNING 2 1 2
    [ "$status" -eq 0 ]
    [[ $output == *"job 2 HELD"*"[2 of 2]"* ]]
    run stat --wait=HELD --timeout 1s 1
    [ "$status" -eq 124 ]
    [[ $output == *"job 1 is not so far within 1 s; it goes on"* ]]
    run stat --wait --timeout 1s 1 2
    [ "$status" -eq 124 ]
    [[ $output == *"2 of 2 jobs are not so far within 1 s, job 1 the first"* ]]
    "$MGPU_BIN/mgpu-cancel" --quiet 2
    stat --wait=COMPLETED 1 2 >out 2>&1 3>&- &
    pid=$!
    wait_for 60 grep -q 'job 2 CANCELLED' out
    touch go
    status=0
    wait "$pid" || status=$?
    [ "$status" -eq 130 ]
    grep -q '^job 1 FAILED.*\[2 of 2\]$' out
    grep -qx 'mgpu-stat: waited for COMPLETED, and 2 of 2 jobs are not, job 1, which is FAILED, the first' out
    run stat -wQUEUED,FAILED 1
    [ "$status" -eq 0 ]
    run stat --wait=RUNNING 1
    [ "$status" -eq 3 ]
    spec quick 'exit 0'
    submit --quiet --wait quick.yaml
    run stat --wait=RUNNING 3
    [ "$status" -eq 0 ]
    run stat --wait=FAILED 3
    [ "$status" -eq 125 ]
    run --separate-stderr stat --json --wait=HELD,failed 3
    [ "$status" -eq 125 ]
    [ "$stderr" = "mgpu-stat: waited for HELD or FAILED, and job 3 is COMPLETED" ]
    run --separate-stderr submit --quiet --wait=HELD quick.yaml
    [ "$status" -eq 125 ]
    [ "$stderr" = "mgpu-submit: waited for HELD, and job 4 is COMPLETED" ]
    # Where no state was asked for, the code is the job's.
    run --separate-stderr stat --wait 1
    [ "$status" -eq 3 ] && [ "$stderr" = "" ]
    for bad in "--wait=RUNING 3" "--wait= 3" "--wait=RUNNING"; do
        # shellcheck disable=SC2086 # words
        run stat $bad
        [ "$status" -eq 64 ]
    done
}

@test "a job's command is shown as a shell takes it" {
    cat >odd.yaml <<'END'
version: 1
kind: command
name: odd
command: [sh, -c, "printf '<%s>' \"$@\"", sh, a b, it's, "", "one\ntwo", '\t$HOME*', Ü, "#x"]
END
    submit --quiet --wait odd.yaml
    words=$(stat 1 | sed -n 's/^ command    //p')
    want=$(printf '<%s>' 'a b' "it's" '' $'one\ntwo' '\t$HOME*' Ü '#x')
    [ "$(bash -c "$words")" = "$want" ]
    [ "$(stat --logs 1)" = "$want" ]
}

@test "the queue: what runs and what waits, and why" {
    spec hog 'sleep 600'
    submit --quiet --set resources.gpus=2 hog.yaml
    wait_for 60 job_claimed
    submit --quiet --set name=waiting hog.yaml
    wait_for 60 waits_for_gpus
    run stat
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == *"2 allocated, 0 idle | 1 running, 1 queued"* ]]
    [[ $output == *"2  waiting"*"PD"*"WaitingForGpus"* ]]
    run stat --no-header -t QUEUED
    [ "${#lines[@]}" -eq 1 ]
    run stat -n 'wait*' --no-header
    [ "${#lines[@]}" -eq 1 ]
    run stat --nodes
    [[ $output == *"slot"*"2     0  up"* ]]
}

@test "a node, partition or account that nothing knows is told of" {
    node=$(api GET /v1/nodes | json '$.nodes[0].name')
    run --separate-stderr stat --on n77
    [ "$status" -eq 0 ]
    [[ $output == *JOBID* && $output != *n77* ]]
    [ "$stderr" = "mgpu-stat: unknown node 'n77'; nodes: $node" ]
    run --separate-stderr stat -q gqu
    [ "$status" -eq 0 ]
    [ "$stderr" = "mgpu-stat: unknown partition 'gqu'" ]
    run --separate-stderr stat -A vison -o ids
    [ "$stderr" = "mgpu-stat: unknown account 'vison'" ]
    run --separate-stderr stat --json -A vison -S id --on "n7,7"
    is_json "$output"
    [ "${stderr_lines[*]}" = "mgpu-stat: unknown node 'n7,7'; nodes: $node mgpu-stat: unknown account 'vison'" ]
    run --separate-stderr stat --on "$node" -t all
    [ -z "$stderr" ]
    # What a job has, or had, is known, also where no row has it.
    spec quick 'exit 0'
    submit --quiet --wait --set policy.account=vison quick.yaml
    run --separate-stderr stat -A vison -q gqu
    [ "$stderr" = "mgpu-stat: unknown partition 'gqu'" ]
    run --separate-stderr stat -o jsonl -A vison
    [ -z "$output$stderr" ]
    run --separate-stderr stat -t all -n 'zz*' # of no name
    [ -z "$stderr" ]
}

@test "the queue: what is held is counted apart from what is queued" {
    spec hog 'sleep 600'
    submit --quiet --set resources.gpus=2 hog.yaml
    wait_for 60 job_claimed
    submit --quiet hog.yaml
    run stat
    [[ ${lines[0]} == *" | 1 running, 1 queued | policy "* ]]
    submit --quiet --hold hog.yaml
    submit --quiet --hold hog.yaml
    run stat
    [[ ${lines[0]} == *" | 1 running, 1 queued, 2 held | policy "* ]]
    [ "$(stat --json -n 'zz*' | json '$.queued')" = 1 ]
    [ "$(stat --json -n 'zz*' | json '$.held')" = 2 ]
    [ "$(stat --json --top | json '$.queued')" = 1 ]
    [ "$(stat --json --top | json '$.held')" = 2 ]
    # One counts what it was sent, the other what it was told.
    counts() { grep -q ' | 1 running, 1 queued, 2 held | policy ' "$1"; }
    for only in '' '-n zz*'; do
        # shellcheck disable=SC2086 # words
        follow_until counts table "$MGPU_BIN/mgpu-stat" --watch $only
    done
}

# DOCUMENT EXPRESSION OF-ANOTHER EXPRESSION: the same time but for 5 s.
same_time() {
    [ "$(sqlite3 :memory: "SELECT
        abs(julianday(json_extract('$1', '$2')) -
            julianday(json_extract('$3', '$4'))) * 86400 < 5")" = 1 ]
}

@test "the queue: about when those that wait start, as --why says" {
    spec hog 'sleep 600'
    submit --quiet --set resources.gpus=2 --set resources.time_limit=2h hog.yaml
    wait_for 60 job_claimed
    submit --quiet --set resources.gpus=2 --set resources.time_limit=5h hog.yaml
    submit --quiet --set resources.gpus=2 hog.yaml
    submit --quiet hog.yaml
    submit --quiet --hold hog.yaml
    wait_for 60 waits_for_gpus
    # 3 may run for ever, and 4 comes behind it.
    [ "$(stat --no-header -o id,eta | tr -d ' ' | tr '\n' ' ')" = \
        "1- 2~2h 3~7h 4- 5- " ]
    list=$(stat --json)
    why=$(stat --json --why 3)
    [ "$(json '$.jobs[2].start_estimate' <<<"$list")" = "" ]
    [ "$(json '$.jobs[1].start_forecast' <<<"$list")" = "" ]
    same_time "$list" '$.jobs[2].start_forecast' "$why" '$.start_forecast'
    not same_time "$list" '$.jobs[2].start_forecast' \
        "$(stat --json --why 2)" '$.job.start_estimate'
    # What ends sooner lets the next start sooner, and the list knows.
    "$MGPU_BIN/mgpu-cancel" --quiet 2
    sooner() { [[ $(stat --no-header -o eta -t QUEUED | head -n 1) == *~2h ]]; }
    wait_for 60 sooner
}

@test "--why: what it waits for, who is there, and why it ended" {
    spec hog 'sleep 600'
    submit --quiet --set resources.gpus=2 hog.yaml
    wait_for 60 job_claimed
    submit --quiet --set name=waiting hog.yaml
    wait_for 60 waits_for_gpus
    run stat --why 2
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == "Job 2  waiting  "*"QUEUED since "* ]]
    [[ $output == *"because    WaitingForGpus: needs 1, 0 free"* ]]
    [[ $output == *"queue      position 1"* ]]
    [[ $output == *"0,1 mgpu 1.1"* ]]
    [[ $output == *"IN USE BY"*"1  "*"hog"*"no limit"* ]]
    run --separate-stderr stat --why --json 2
    is_json "$output"
    [[ $output == *'"schema":"mgpu.why/1"'*'"token":"WaitingForGpus"'* ]]
    "$MGPU_BIN/mgpu-cancel" 2
    wait_for 60 job_is 2 CANCELLED
    run stat --why 2
    [[ $output == *"because    cancelled by its user"* ]]
    [[ $output == *"exit code  130: cancelled by its user"* ]]
    run stat --why
    [ "$status" -eq 64 ]
    run stat --why 9
    [ "$status" -eq 66 ]
}
waits_for_gpus() { stat --why 2 | grep -q WaitingForGpus; }

@test "--why: what it would start with at once, and then does" {
    spec hog 'sleep 600'
    submit --quiet --set resources.time_limit=10m hog.yaml
    wait_for 60 job_claimed
    submit --quiet --set resources.gpus=2 --set resources.time_limit=1h hog.yaml
    wait_for 60 waits_for_gpus
    run stat --why 2
    [[ $output == *" may start  20"*"Z,"*" if each job that runs ends at its time limit"* ]]
    [ "$(stat --why 2 | sed '/^$/,$d' | wc -L)" -le 80 ]
    [[ $output == *" now with   --set resources.gpus=1: 1 GPU on 1 node"* ]]
    run --separate-stderr stat --why --json 2
    [[ $output == *'"would_start":[{"set":"resources.gpus=1","gpus":1,'* ]]
    # And so does a dry run, of which nothing is left.
    run submit --dry-run --set resources.gpus=2 hog.yaml
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "hog.yaml: fits; nothing was submitted" ]
    [[ $output == *" starts     not now: it would be QUEUED"* ]]
    [[ $output == *" queue      position 2
 may start  20"*"Z,
            if each job ends at its time limit, and none comes before"* ]]
    [ "$(wc -L <<<"$output")" -le 80 ]
    [ "$(stat --json -t all | json '$.jobs[2]')" = "" ]
    "$MGPU_BIN/mgpu-cancel" 2
    wait_for 60 job_is 2 CANCELLED
    run submit --dry-run --json --set resources.gpus=2 hog.yaml
    [ "$(json '$.reasons[0].token' <<<"$output")" = WaitingForGpus ]
    [ "$(json '$.would_start[0].set' <<<"$output")" = resources.gpus=1 ]
    [[ $(json '$.job.start_estimate' <<<"$output") == 20*Z ]]
    run submit --dry-run --set resources.gpus=1 hog.yaml
    [[ $output == *" starts     now, with 1 GPU on 1 node:"* ]]
    run submit --quiet --wait=STARTING,RUNNING --timeout 60s \
        --set resources.gpus=1 hog.yaml
    [ "$status" -eq 0 ]
    run stat --why 3
    [[ $output != *"now with"* ]]
}

@test "ended jobs leave the queue, -t all brings them" {
    spec quick 'exit 0'
    submit --wait --quiet quick.yaml
    run stat --no-header
    [ -z "$output" ]
    run stat --no-header -t all
    [[ $output == *"1  quick"*"CD"* ]]
}

@test "metrics of a command, by the columns it named" {
    spec told 'echo {\\\"iteration\\\":1,\\\"t_iter\\\":0.5,\\\"loss\\\":0.25,\\\"bleu\\\":31.5} >>$MGPU_METRICS'
    run submit --wait told.yaml
    [ "$status" -eq 0 ]
    run stat --metrics 1
    [ "$status" -eq 0 ]
    [[ $output == *"loss"*"0.25"* ]]
    [[ $output == *"bleu"*"31.5"* ]]
    run stat --metrics --json 1
    is_json "$output"
    [[ $output == *'"schema":"mgpu.iterations/1"'* ]]
}

@test "metrics of a command's own: a curve each, a chart each, progress" {
    cat >own.sh <<'END'
printf '{"iterations_total": 400, "epochs_total": 3}\n' >>"$MGPU_METRICS"
n=0
for v in Infinity -inf NaN 7; do
    printf '{"step": %d, "wild": %s}\n' $((n += 1)) $v
done >>"$MGPU_METRICS"
for i in $(seq 1 200); do
    printf '{"iteration": %d, "epoch": 1, "loss": 0.5, "lr": 0.1, "gnorm": %d, "acc": 0.5}\n' \
        "$i" "$((300 - i))"
done >>"$MGPU_METRICS"
until [ -e go ]; do sleep 0.1; done
END
    printf 'version: 1\nkind: command\nname: own\ncommand: [sh, own.sh]\n' >own.yaml
    submit --quiet own.yaml
    at_200() { [ "$(stat --no-header -o step 1)" = 200/400 ]; }
    wait_for 60 at_200
    api GET /v1/jobs/1 >told
    [ "$(json '$.job.iterations_total' <told)" = 400 ]
    [ "$(json '$.job.epochs_total' <told)" = 3 ]
    touch go
    submit_ended() { job_has_ended 1; }
    wait_for 60 submit_ended
    stat --metrics 1 >shown
    [ "$(wc -l <shown)" -eq 7 ] || { cat shown; false; }
    # What is no finite number is told apart, everywhere.
    grep -q ' infinite in 2 of 4 iterations' shown
    grep -q ' not a number in 1 of 4 iterations' shown
    [ "$(api GET /v1/jobs/1/values | grep -o '"wild",[^]]*' | sort -u | tr '\n' ' ')" = \
        '"wild","-Infinity" "wild","Infinity" "wild",7 "wild",null ' ]
    [ "$(sqlite3 -readonly "$ctld_dir/state/metrics.db" \
        "SELECT group_concat(CASE value WHEN 9e999 THEN 'inf' WHEN -9e999 THEN '-inf'
            ELSE ifnull(value, 'none') END) FROM v_metric WHERE name = 'wild'")" = inf,-inf,none,7.0 ]
    [ "$(grep -c gnorm shown)" -eq 1 ]
    grep -q 'gnorm .*299 .* 100 .*lowest 100  highest 299' shown
    grep -q 'lr .* 0.1  \(.\)\1*  0.1 ' shown
    ! grep -q '_total' shown || false
    stat --plot g.svg -o gnorm 1
    grep -q '>gnorm, job 1 own<' g.svg
    # What its loss is measured in, nobody else knows.
    stat --plot loss.svg -o loss 1
    ! grep -q -e nats -e logarithmic loss.svg || false
    [ "$(grep -c 'c-line c-s0 c-pale"' loss.svg)" -eq 1 ]
    run stat --plot none.svg -o gain 1
    [ "$status" -eq 64 ]
    [[ $output == *"of the job's own "*"gnorm"* ]]
    stat --report own.html 1
    grep -q '>gnorm<' own.html
    grep -q '>∞<' own.html
    grep -q '>−∞<' own.html
    grep -q '>NaN<' own.html
    ! grep -q '>nats<' own.html || false
    ! grep -q -e 'Time per phase' -e Throughput -e '0 us' own.html || false
    stat --export csv 1 | tr -d '\r' >own.csv
    head -n 1 own.csv | grep -q ',acc,gnorm,wild$'
    [ "$(sed -n '2,5s/.*,//p' own.csv | tr '\n' ' ')" = 'Infinity -Infinity  7 ' ]
    [ "$(wc -l <own.csv)" -eq 201 ]
    sed -n 201p own.csv | grep -q '^1,1,0,200,.*,0.5,100,$'
    stat --export jsonl 1 | sed -n 2p | grep -q '"wild":"-Infinity"}$'
    stat --export jsonl 1 | sed -n 200p | grep -q '"acc":0.5,"gnorm":100}$'
    ! stat --export csv --epochs 1 | grep -q gnorm || false
}

@test "values without a row of iterations are exported, too" {
    spec alone 'echo {\\\"final\\\":7} >>$MGPU_METRICS; echo {\\\"iteration\\\":1,\\\"loss\\\":0.25} >>$MGPU_METRICS; echo {\\\"iteration\\\":9,\\\"bleu\\\":31.5} >>$MGPU_METRICS'
    submit --quiet --wait alone.yaml
    stat --export csv 1 | tr -d '\r' >alone.csv
    [ "$(wc -l <alone.csv)" -eq 4 ] || { cat alone.csv; false; }
    head -n 1 alone.csv | grep -q ',final,bleu$'
    sed -n 2p alone.csv | grep -q '^1,1,0,,.*,7,$'
    sed -n 3p alone.csv | grep -q '^1,1,0,1,.*0.25,.*,,$'
    sed -n 4p alone.csv | grep -q '^1,1,0,9,.*,,31.5$'
    [ "$(stat --no-header -o step 1)" = 9 ]
}

@test "--json everywhere is one valid document, errors too" {
    spec quick 'exit 0'
    submit --wait --quiet quick.yaml
    for view in "" "1" "--epochs 1" "--events 1" "--why 1" "--nodes" "--status" \
        "-t all" "--wait 1"; do
        # shellcheck disable=SC2086 # words
        run --separate-stderr stat --json $view
        [ "$status" -eq 0 ]
        [ "${#lines[@]}" -eq 1 ]
        is_json "$output"
        [[ $output == *'"schema":"mgpu.'* ]]
    done
    run --separate-stderr stat --json 77
    [ "$status" -eq 66 ]
    is_json "$output"
    [[ $output == *'"schema":"mgpu.error/1"'*'"NOTFOUND"'* ]]
}

@test "-o ids: numbers and names alone; -o jsonl: a line each" {
    spec two 'sleep 600'
    submit --quiet --hold two.yaml
    submit --quiet --hold --set 'sweep={grid: {labels.a: [1, 2, 3]}}' two.yaml
    [ "$(stat -o ids | tr '\n' ' ')" = "1 2_0 2_1 2_2 " ]
    [ "$(stat -o ids -S -id -n two -c 2 | tr '\n' ' ')" = "2_2 2_1 " ]
    [ -z "$(stat -o ids -t RUNNING)" ]
    node=$(stat --nodes -o ids)
    [ "$(wc -l <<<"$node")" -eq 1 ]
    [ "$(stat --gpus -o ids | tr '\n' ' ')" = "$node:0 $node:1 " ]
    [ "$(stat --nodes -o jsonl | json '$.node.name')" = "$node" ]
    [ "$(stat -o jsonl 1 2_1 | wc -l)" -eq 2 ]
    [ "$(stat -o jsonl | tail -n 1 | json '$.job.display_id')" = 2_2 ]
    for bad in "--json -o jsonl" "-o jsonl -o ids" "-o ids --json" \
        "-o ids 1" "-o ids --events 1" "-o ids --status" \
        "-o jsonl --logs 1" "-o jsonl --plot x.svg 1" "--json 1 2" \
        "-o ids --export csv" "-o jsonl --export csv"; do
        # shellcheck disable=SC2086 # words
        run stat $bad
        [ "$status" -eq 64 ] || { echo "$bad: $status" && false; }
    done
    # As a stream: each that is there, and each that changes.
    has_release() { [ "$(grep -c '^1$' "$1")" -ge 2 ]; }
    stat --watch -o ids >ids 3>&- &
    pid=$!
    wait_for 60 grep -q '^2_2$' ids
    "$MGPU_BIN/mgpu-admin" --quiet release 1
    status=0
    wait_for 60 has_release ids || status=$?
    kill "$pid" || :
    wait "$pid" || :
    [ "$status" -eq 0 ]
    not grep -v '^\(1\|2_[012]\)$' ids
    has_two() { [ "$(wc -l <"$1")" -ge 2 ]; }
    follow_until has_two lines "$MGPU_BIN/mgpu-stat" -i 1 -o jsonl -n two
    [ "$(head -n 1 lines | json '$.job.id')" = 1 ]
    # Which --help says of it.
    said=$(stat --help | tr -s ' \n' ' ')
    [[ $said == *"alone it means --watch, until Ctrl-C or --timeout"* ]]
}

@test "--color: no colour elsewhere than on a terminal, unless it is asked for" {
    spec quick 'exit 0'
    submit --wait --quiet quick.yaml
    [ "$(stat -t all | grep -c $'\e')" -eq 0 ]
    [ "$(stat -t all --color never | grep -c $'\e')" -eq 0 ]
    [ "$(stat -t all --color=always | grep -c $'\e\\[1m.*\e\\[0m$')" -eq 1 ]
    spec bad 'exit 1'
    submit --wait --quiet --set retry.max=0 bad.yaml || [ $? -eq 1 ]
    submit --quiet --hold quick.yaml
    diff <(stat -t all --color=always | sed 's/\x1b\[[0-9]*m//g') <(stat -t all)
    coloured() { stat "$@" --color=always; }
    coloured -t all | grep -q $'bad .* \e\\[31mF\e\\[0m '
    coloured -o id,state | grep -q $'  \e\\[33mHELD\e\\[0m$'
    coloured 2 | grep -q $'^Job 2 .* \e\\[31mFAILED\e\\[0m (1)'
    [ "$(coloured 1 | grep -c $'\e\\[3')" -eq 0 ]
    run stat --color=yes
    [ "$status" -eq 64 ]
    [[ $output == *"auto, always or never"* ]]
}

@test "a name cannot move the cursor" {
    # The specification refuses such a name; a command's words are shown.
    printf '%s\n' 'version: 1' 'kind: command' \
        'command: [sh, -c, "exit 0 # \\e[2J"]' | sed 's/\\\\e/\\t/' >esc.yaml
    run submit --wait esc.yaml
    run stat 1
    [ "$status" -eq 0 ]
    [[ $output != *$'\t'* ]]
}

@test "B24: wrong command lines" {
    run stat 99999999999999999999
    [ "$status" -eq 64 ]
    run stat --metrics
    [ "$status" -eq 64 ]
    [ "$output" = "mgpu-stat: which job? see mgpu-stat --help" ]
    run stat --plot 12
    [ "$status" -eq 64 ]
    [ "$output" = "mgpu-stat: which job? '12' is the file, which comes first" ]
    run stat --report 12
    [ "$status" -eq 64 ]
    [[ $output == *"no report '12'; there are table2,"*". A job's is a file: --report job.html JOB" ]]
    run stat --nodes 3
    [ "$status" -eq 64 ]
    run stat --follow 1
    [ "$status" -eq 64 ]
    run stat --plot loss 1
    [ "$status" -eq 64 ]
    [ "$output" = "mgpu-stat: --plot 'loss': expected a file named .svg, or '-'; --format says what is drawn" ]
    [ ! -e loss ]
    for bad in 2026-02-30 2026-04-31T10:00:00Z 2026-13-01 2026-11-21T24:00:00; do
        run stat --since "$bad"
        [ "$status" -eq 64 ] || { echo "$bad: $status"; false; }
    done
    stat --since 2028-02-29 --no-header
    run stat --url ftp://x 1
    [ "$status" -eq 64 ]
    spec quick 'exit 0'
    submit --quiet --wait quick.yaml
    run stat -t all 1
    [ "$status" -eq 0 ]
    [[ $output == "Job 1"* ]]
    run stat --export csv --output /nonexistent/x.csv 1
    [ "$status" -eq 74 ]
    run stat --report /nonexistent/x.html 1
    [ "$status" -eq 74 ]
    run "$MGPU_BIN/mgpu-admin" priority -5 1
    [ "$status" -eq 64 ]
    [[ $output == *"after '--'"* ]]
    run "$MGPU_BIN/mgpu-admin" priority -- -5 1
    [ "$status" -ne 64 ]
    run stat --evnts 1
    [ "$status" -eq 64 ]
    [[ $output == *"did you mean '--events'?"* ]]
    run stat 4242
    [ "$status" -eq 66 ]
    run bash -c '"$MGPU_BIN/mgpu-stat" >/dev/full'
    [ "$status" -eq 74 ]
    run bash -c 'set -o pipefail; "$MGPU_BIN/mgpu-stat" | head -n 0'
    [ "$status" -eq 0 ]
}

@test "an option that a view would not look at is refused" {
    local words
    while read -ra words; do
        run stat "${words[@]:1}"
        echo "${words[*]}: $status $output"
        [ "$status" -eq 64 ]
        [[ $output == "mgpu-stat: --${words[0]} does not go with "* ]]
    done <<'ARGS'
format --why 1 -o id
sort 1 -S id
sort --top -S id
count --nodes -c 3
since --events 1 --since 1d
expand -x 1
user 1 -u me
state --nodes -t RUNNING
name --why 1 -n x
account --status -A x
partition --metrics 1 -q x
label --logs 1 --label x
on --report x.html 1 --on x
ARGS
}

@test "jobs that are named with columns are rows of a table" {
    spec one true
    spec two true
    submit --wait one.yaml
    submit --wait two.yaml
    [ "$(stat -h -o name,id,state 2 1 | awk '{ print $1, $2, $3 }')" = \
        "two 2 COMPLETED
one 1 COMPLETED" ]
    [ "$(stat -h -o id -S id 2 1 2 | awk '{ print $1 }')" = "1
2
2" ]
    run stat -o id 1 7
    [ "$status" -eq 66 ]
    [ "$output" = "mgpu-stat: no job 7" ]
    run stat -o nme 1
    [ "$status" -eq 64 ]
    [[ $output == *"did you mean 'name'?" ]]
    # What one always wants to see of the queue is no wish for a table.
    [[ $(MGPU_STAT_FORMAT=id stat 1) == "Job 1  one "* ]]
}

@test "two submits with one key make one job" {
    spec quick 'exit 0'
    run submit --parsable --idempotency-key k1 quick.yaml
    [ "$output" = 1 ]
    run submit --parsable --idempotency-key k1 quick.yaml
    [ "$output" = 1 ]
    run submit --parsable --idempotency-key k2 quick.yaml
    [ "$output" = 2 ]
    run submit --idempotency-key k2 --set retry.max=1 quick.yaml
    [ "$status" -eq 73 ]
    [[ $output == *"'k2' belongs to job 2, which has another specification"* ]]
}

@test "a seed that is left open does not make another job of one key" {
    local cv="$MGPU_SRC/jobs/examples/cv-synthetic.yaml"
    [ "$(grep -c seed "$cv")" = 0 ]
    run submit --hold --parsable --idempotency-key k3 "$cv"
    [ "$output" = 1 ]
    run submit --hold --parsable --idempotency-key k3 "$cv"
    [ "$output" = 1 ]
    run "$MGPU_BIN/mgpu-stat" --json 1
    [[ $output =~ \"seed\":[0-9] ]]
}

@test "a job that can never fit is refused at once" {
    spec wide 'exit 0'
    run submit --set resources.gpus=3 wide.yaml
    [ "$status" -eq 65 ]
    [[ $output == *"can never fit"*"[E201]"* ]]
    run submit --dry-run --set resources.gpus=3 wide.yaml
    [ "$status" -eq 65 ]
    [[ $output == *"can never fit"*"[E201]"* ]]
}

@test "--profile: what each epoch of a job consisted of, rank by rank" {
    cat >seen.yaml <<'END'
version: 1
kind: cv
name: seen
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 32, train_samples: 32, eval_samples: 8}
train: {device: host, epochs: 2, batch_size: 4, profile: epoch}
resources: {gpus: 2}
END
    OMP_NUM_THREADS=1 submit --quiet --wait seen.yaml
    run --separate-stderr stat --profile 1
    [ "$status" -eq 0 ]
    [[ $output == *"epoch 1 of attempt 1: "*", 2 ranks"* ]]
    [[ $output == *"epoch 2 of attempt 1: "*", 2 ranks"* ]]
    for metric in "host kernel launch" "host GEMM" \
        "host memcpy Host-to-Device" "MPI all_reduce" "memory planned"; do
        [ "$(grep -c "^$metric  " <<<"$output")" -eq 2 ]
    done
    run --separate-stderr stat --profile --json 1
    is_json "$output"
    [ "$(json '$.schema' <<<"$output")" = mgpu.profile/1 ]
    run sqlite3 -readonly "$ctld_dir/state/metrics.db" "
        SELECT count(*), count(DISTINCT rank), count(DISTINCT epoch)
        FROM v_profile WHERE metric = 'MPI all_reduce' AND calls > 0
        AND total_s > 0 AND bytes > 0 AND sampled > 0 AND sampled <= 1"
    [ "$output" = "4|2|2" ]
}

@test "-o, -S and --since: columns, order, and jobs that have ended" {
    spec first 'exit 0'
    spec second 'exit 3'
    submit --quiet --wait first.yaml
    submit --wait --set retry.max=0 second.yaml || [ $? -eq 3 ]
    run stat -h
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    run stat -h --since 1h -o name,state,exit -S -exit
    [ "${lines[0]}" = "second  FAILED     3" ]
    [ "${lines[1]}" = "first   COMPLETED  0" ]
    run stat -h --since 2036-01-01
    [ -z "$output" ]
    run stat -h --since 2026-01-01T00:00:00Z -o id
    [ "${#lines[@]}" -eq 2 ]
    MGPU_STAT_FORMAT=id,name run stat --since 1h
    [ "${lines[1]}" = "JOBID  NAME" ]
    for bad in "-o id,stat" "-S nothing" "--since yesterday"; do
        # shellcheck disable=SC2086
        run stat $bad
        [ "$status" -eq 64 ] || { echo "$bad: $status"; false; }
    done
    run stat -o help
    [[ $output == *"gpus "*"Formats:"*"default "* ]]
}

@test "--watch: changes are pushed, and a daemon that restarts is found again" {
    spec long 'until [ -e go ]; do sleep 0.05; done'
    sed -i "s|until \[ -e go|until [ -e $PWD/go|" long.yaml
    # Not the function, which would be a shell, and end alone.
    "$MGPU_BIN/mgpu-stat" --watch -i 0.25 --timeout 30m -o id,name,state \
        >table 3>&- &
    table=$!
    "$MGPU_BIN/mgpu-stat" --watch --json -t all --timeout 30m >changes 3>&- &
    changes=$!
    wait_for 60 grep -q 'slots: 0 allocated' table
    submit --quiet long.yaml
    wait_for 60 grep -q '    1  long  RUNNING' table
    ctld_kill
    wait_for 60 grep -q 'the daemon is away' table
    ctld_start
    touch go
    wait_for 60 grep -q '"state":"COMPLETED"' changes
    wait_for 60 gone_from table
    kill "$table" "$changes"
    wait "$table" "$changes" || :
    is_json "$(grep '"state":"COMPLETED"' changes | tail -n 1)"
    [ "$(head -n 1 changes | json '$.schema')" = mgpu.job/1 ]
    is_shown() { grep -qx '1  COMPLETED' "$1"; }
    follow_until is_shown all "$MGPU_BIN/mgpu-stat" --watch -h -t all -o id,state
    run stat --watch --timeout 1s -h # it ends by itself
    [ "$status" -eq 0 ]
    run stat -i 0.1
    [ "$status" -eq 64 ]
    run stat --watch 1
    [ "$status" -eq 64 ]
}

@test "--watch: above the jobs that are chosen stands the whole cluster" {
    spec one 'sleep 600'
    submit --quiet one.yaml
    wait_for 60 job_is 1 RUNNING
    has_all() { # OPTION...
        follow_until shows_all all "$MGPU_BIN/mgpu-stat" --watch "$@"
    }
    shows_all() { grep -q 'slots: 1 allocated, 1 idle | 1 running, 0 queued' "$1"; }
    has_all
    has_all -n 'zz*'
    has_all -t QUEUED
    has_all -u me -n 'o*'
    # Others' jobs come without a word of them.
    "$MGPU_BIN/mgpu-stat" --watch -i 0.25 --timeout 30m -n 'zz*' >table 3>&- &
    table=$!
    wait_for 60 grep -q '1 allocated, 1 idle | 1 running' table
    submit --quiet one.yaml
    wait_for 60 grep -q '2 allocated, 0 idle | 2 running' table
    ctld_kill
    ctld_start
    "$MGPU_BIN/mgpu-cancel" --quiet 1
    ends_with() { tail -n 3 table | grep -q "$1"; }
    wait_for 60 ends_with '1 allocated, 1 idle | 1 running, 0 queued'
    kill "$table"
    wait "$table" || :
}

@test "--watch: a start that others bring nearer is told" {
    both() { # NAME LIMIT
        printf '%s\n' 'version: 1' 'kind: command' "name: $1" \
            'command: [sleep, "600"]' "resources: {gpus: 2, time_limit: $2}" \
            >"$1.yaml"
        submit --quiet "$1.yaml"
    }
    both a 10m && both b 20m && both c 20m # each takes both slots
    wait_for 60 job_is 1 RUNNING
    # Seconds until c starts, as the last whole line that tells of it has it.
    told() {
        sed -n '/"job":{"id":3,.*}$/s/.*"start_in_s":\([0-9]*\).*/\1/p' "$1" |
            tail -n 1
    }
    is_nearer() {
        local in_s
        in_s=$(told "$1")
        [ -n "$in_s" ] || return 1
        [ -e cancelled ] || {
            [ "$in_s" -gt 1000 ] || return 1
            "$MGPU_BIN/mgpu-cancel" --quiet 2 && touch cancelled
        }
        [ "$in_s" -lt 900 ]
    }
    follow_until is_nearer lines "$MGPU_BIN/mgpu-stat" --watch --json
    [ "$(grep -c '"id":3,' lines)" -lt 20 ]
}

# page_data FILE: the data of a report. page_is_sound FILE: its only script is
# the one that its policy allows, and short.
page_data() {
    sed -n 's/.*<script type="application\/json" id="mgpu-data">\(.*\)<\/script>$/\1/p' "$1"
}
page_is_sound() {
    local sum
    [ "$(grep -o '<script' "$1" | wc -l)" -eq 2 ]
    sed -n '/^<script>/,/^<\/script>/p' "$1" | sed '1s/<script>//; /^<\/script>/d' >own.js
    [ "$(wc -l <own.js)" -lt 300 ] && [ "$(wc -l <own.js)" -gt 100 ]
    sum=$(openssl dgst -sha256 -binary own.js | base64)
    grep -qF "script-src 'sha256-$sum'" "$1"
    is_json "$(page_data "$1")"
}

@test "--plot and --report of a sweep: a line per task, a table of all" {
    cat >varied.yaml <<'END'
version: 1
kind: command
name: varied
command: [sh, varied.sh]
retry: {max: 0}
sweep: {grid: {env.RATE: ["1", "2", "</script>"]}}
END
    cat >varied.sh <<'END'
echo "the rate is $RATE"
[ "$RATE" != "</script>" ] || exit 3
for i in 1 2 3 4; do
    echo "{\"iteration\": $i, \"loss\": $((9 - i * RATE)), \"gnorm\": $((i * RATE))}"
done >>"$MGPU_METRICS"
echo '{"epoch": 1, "eval_accuracy": 0.5}
{"epoch": 2, "eval_accuracy": 0.25}' >>"$MGPU_METRICS"
END
    submit --quiet --wait varied.yaml || true
    stat --plot all.svg 1
    grep -q '>1_0 RATE=1<' all.svg
    grep -q '>1_1 RATE=2<' all.svg
    [ "$(grep -o '<path' all.svg | wc -l)" -eq 2 ]
    stat --plot - -o gnorm 1 | grep -q '>1_1 RATE=2<'
    stat --report sweep.html 1
    page_is_sound sweep.html
    for part in 'Sweep 1 varied' '2 COMPLETED' '1 FAILED' '>env.RATE<' \
        '>Loss, final<' '>Loss, best<' '>gnorm, highest<' '>1_2<' 'exited with 3' \
        '<table class="sort">' '>&lt;/script&gt;<'; do
        grep -qF "$part" sweep.html || { echo "no $part"; false; }
    done
    page_data sweep.html >data.json
    [ "$(json '$.tasks[1].metrics.loss.final' <data.json)" = 1.0 ]
    [ "$(json '$.tasks[1].metrics.gnorm.highest' <data.json)" = 8.0 ]
    [ "$(json '$.tasks[0].metrics.eval_accuracy.final' <data.json)" = 0.25 ]
    [ "$(json '$.tasks[0].metrics.eval_accuracy.highest' <data.json)" = 0.5 ]
    [ "$(json '$.tasks[2].metrics.loss.final' <data.json)" = "" ]
    [ "$(json '$.tasks[2].vary."env.RATE"' <data.json)" = "</script>" ]
    [ "$(json '$.charts[0].series[1].name' <data.json)" = "1_1 RATE=2" ]
    [ "$(json '$.charts[0].series[1].y' <data.json)" = "[7,5,3,1]" ]
    # The page of the task that failed says why.
    stat --report task.html 1_2
    grep -q 'the rate is &lt;/script&gt;' task.html
    page_is_sound task.html
}

gone_from() { [ "$(tail -n 2 "$1" | grep -c long)" -eq 0 ]; }

@test "--plot and --report: files that fetch nothing, and no half ones" {
    cat >drawn.yaml <<'END'
version: 1
kind: cv
name: drawn
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 32, train_samples: 16, eval_samples: 8}
train: {device: host, epochs: 2, batch_size: 4, profile: epoch}
resources: {gpus: 1}
END
    OMP_NUM_THREADS=1 submit --quiet --wait drawn.yaml
    OMP_NUM_THREADS=1 submit --quiet --wait --set name='a.b' drawn.yaml
    stat --plot loss.svg 1 2
    grep -q '<svg .*</svg>' <(tr -d '\n' <loss.svg)
    grep -q '>1 drawn<' loss.svg
    grep -q '>2 a.b<' loss.svg
    stat --plot - -o eval_accuracy 1 | grep -q 'Test accuracy, job 1 drawn'
    stat --report page.html 1
    [ "$(grep -c '<svg' page.html)" -eq 6 ]
    for part in 'Job 1 drawn' 'Time per phase' 'host GEMM' 'COMPLETED' \
        'image_size' '>submit<' 'Efficiency' '>computing<' 'Learning rate' \
        'End of its log' 'epoch 2'; do
        grep -q "$part" page.html || { echo "no $part"; false; }
    done
    # The specification is the YAML of what is not a default.
    sed -n '/<h2>Specification/,/<\/pre>/p' page.html | sed 's/.*<pre>//' >shown
    grep -qx 'version: 1' shown
    grep -qx '  width_mult: 0.25' shown
    grep -qx '  source: synthetic' shown
    not grep -q 'momentum\|num_classes\|backoff\|{' shown
    # Its event says no more, and tables that are too wide scroll.
    grep -q '>as in the specification below<' page.html
    for table in Attempts Events; do
        grep -A 1 "<h2>$table" page.html | grep -q '<div class="scroll"><table'
    done
    run grep -E '(src|href)=|url\(|@import|fetch\(|XMLHttp|import\(' \
        page.html loss.svg
    [ "$status" -eq 1 ]
    ! grep -q '<script' loss.svg || false
    page_is_sound page.html
    page_data page.html >data.json
    [ "$(json '$.charts[0].title' <data.json)" = Loss ]
    [ "$(json '$.charts[0].series[0].x[7]' <data.json)" = 8 ]
    [ "$(json '$.job.name' <data.json)" = drawn ]
    run stat --plot nothing.svg -o gain 1
    [ "$status" -eq 64 ]
    [[ $output == *"there are loss, lr"* ]]
    run stat --report /nowhere/page.html 1
    [ "$status" -ne 0 ]
    run stat --report none.html 9
    [ "$status" -ne 0 ]
    [ ! -e none.html ] && [ ! -e nothing.svg ]
}

@test "--logs -c shows the last lines, and what comes after them" {
    spec talk 'seq 1 9; until [ -e more ]; do sleep 0.1; done; echo more'
    sed -i "s|until \\[ -e more|until [ -e $PWD/more|" talk.yaml
    id=$(submit --parsable talk.yaml)
    said() { [ "$(stat --logs "$id" | tail -n 1)" = 9 ]; }
    wait_for 60 said
    [ "$(stat --logs -c 3 "$id" | tr '\n' ' ')" = "7 8 9 " ]
    [ "$(stat --logs -c 30 "$id" | wc -l)" -eq 9 ]
    stat --logs --follow -c 2 "$id" >followed &
    follower=$!
    at_end() { [ "$(tail -n 1 followed)" = 9 ]; }
    wait_for 60 at_end
    : >more
    wait "$follower"
    [ "$(head -n 3 followed | tr "\n" " ")" = "8 9 more " ]
    [ "$(stat --logs -c 1 "$(submit --parsable --hold talk.yaml)")" = "" ]
}

@test "--logs: lines of several ranks have labels, --rank shows one's" {
    cat >two.yaml <<'END'
version: 1
kind: command
name: two
resources: {gpus: 2, time_limit: 10m}
command:
  - sh
  - -c
  - 'seq -f "$MGPU_RANK is %.0f" 6000; : >HERE/seq.$MGPU_RANK;
     until [ -e HERE/seq.$((1 - MGPU_RANK)) ]; do sleep 0.05; done;
     until [ $MGPU_RANK = 0 ] || [ -e HERE/said ]; do sleep 0.05; done;
     printf "half a "; echo line >&2; printf "no end"; : >HERE/said; exit $((3 * MGPU_RANK))'
END
    # Rank 1 fails, which ends rank 0 wherever it is. Half a line is held back
    # for a moment only: then another's may come between.
    sed -i "s|HERE|$PWD|g" two.yaml
    submit --quiet two.yaml
    # Followed to its end, with the job's code.
    run stat --logs --wait 1
    [ "$status" -eq 3 ]
    stat --logs 1 >all
    diff <(printf '%s\n' "${lines[@]}") all
    # Each line is of one rank, whole, and in its order.
    for rank in 0 1; do
        seq -f "$rank is %.0f" 6000 >want
        printf 'half a line\nno end' >>want # and what the worker says of it
        diff <(stat --logs --rank $rank 1 | head -c "$(wc -c <want)") want
        diff <(stat --logs --rank $rank 1) <(sed -n "s/^\[$rank\] //p" all)
    done
    run ! grep -v '^\[[01]\] ' all
    diff all <(stat --logs --rank all 1)
    [[ $(stat --logs --rank 1 -c 2 1) == "half a line"$'\n'"no end"* ]]
    run ! ls "$ctld_dir"/state/jobs/1/1/out.*
    # A log from before there were labels is shown whole.
    rm "$ctld_dir/state/jobs/1/1/times"
    diff all <(stat --logs --rank 1 1)
    run -65 stat --logs --rank 2 1
    [ "$output" = "mgpu-stat: no rank 2: job 1 has ranks 0 to 1" ]
    submit_command one true >/dev/null
    run -65 stat --logs --rank 1 2
    [ "$output" = "mgpu-stat: no rank 1: job 2 has rank 0 alone" ]
    run -64 stat --logs --rank one 1
    run -64 stat --rank 1 1
    run -64 stat --logs --wait=RUNNING 1
}

@test "F27: logs.on_limit ends a job that prints too much, and it is said" {
    cat >flood.yaml <<'END'
version: 1
kind: command
name: flood
command: [sh, -c, 'if [ $MGPU_RANK = 1 ]; then exec yes; fi; exec sleep 300']
resources: {gpus: 2}
logs: {max_bytes: 8K, on_limit: fail}
END
    run submit --wait flood.yaml
    [ "$status" -eq 122 ]
    run stat 1
    [[ $output == *FAILED*"printed more than the 8192 bytes of logs.max_bytes"* ]]
    [ "$(cat "$ctld_dir"/state/jobs/1/1/log* | wc -c)" -le 8192 ]
    # And whose lines they are is not said where that is not wanted.
    run submit --wait --set logs.per_rank=false --set logs.on_limit=truncate \
        --set 'command=[sh, -c, "echo I am $MGPU_RANK"]' flood.yaml
    [ "$status" -eq 0 ]
    [ "$(stat --logs 2 | grep 'I am' | sort | tr '\n' ' ')" = "I am 0 I am 1 " ]
}

@test "submit --follow: its output from the beginning, and its code" {
    spec said "seq 1 300; echo done; exit 7"
    run --separate-stderr submit --follow said.yaml
    [ "$status" -eq 7 ]
    [ "${lines[0]}" = "submitted job 1" ]
    diff <(seq 300; echo done) <(grep -xE '[0-9]+|done' <<<"$output")
    diff <(tail -n +2 <<<"$output") <(stat --logs 1)
    # With the number alone before it, and after a wait for a place.
    spec hog "until [ -e $PWD/more ]; do sleep 0.1; done"
    submit --quiet --set resources.gpus=2 hog.yaml
    "$MGPU_BIN/mgpu-submit" --follow --parsable said.yaml >followed 3>&- &
    follower=$!
    numbered() { [ "$(head -n 1 followed)" = 3 ]; }
    wait_for 60 numbered
    : >more
    code=0
    wait "$follower" || code=$?
    [ "$code" -eq 7 ]
    diff <(tail -n +2 followed) <(stat --logs 3)
    # It ends, the job does not.
    spec long "until [ -e $PWD/never ]; do sleep 0.1; done"
    run submit --quiet --follow --timeout 1s long.yaml
    [ "$status" -eq 124 ]
    "$MGPU_BIN/mgpu-cancel" 4
}

@test "--logs --since: what was printed from then on" {
    spec clock "echo early; until [ -e $PWD/more ]; do sleep 0.1; done; echo late"
    submit --quiet clock.yaml
    # What is written down is over a second ago.
    dated() {
        [ "$(cat "$ctld_dir/state/jobs/1/1/times" 2>&1 | wc -l)" -eq 2 ]
    }
    wait_for 60 dated
    then=$(date -u +%FT%TZ)
    [ "$(stat --logs --since "$then" 1)" = "" ]
    [ "$(stat --logs --since 1d 1)" = early ]
    stat --logs --wait --since "$then" 1 >since 3>&- &
    follower=$!
    : >more
    wait "$follower"
    [ "$(head -n 1 since)" = late ]
    [ "$(stat --logs --since "$then" --rank 0 1 | head -n 1)" = late ]
    [ "$(stat --logs --since 1d -c 1 1)" = "$(stat --logs 1 | tail -n 1)" ]
    run -22 api GET '/v1/jobs/1/logs?since=soon'
    run -64 stat --logs --since soon 1
}

@test "--logs --wait goes on where it was when the daemon comes back" {
    spec on "seq 1 500; until [ -e $PWD/more ]; do sleep 0.1; done; seq 501 900; exit 4"
    submit --quiet on.yaml
    stat --logs --wait 1 >followed 3>&- &
    follower=$!
    seen() { [ "$(tail -n 1 followed)" = "$1" ]; }
    wait_for 60 seen 500
    ctld_kill
    : >more
    ctld_start
    wait "$follower" || status=$?
    [ "$status" -eq 4 ]
    # What the worker says of it may overtake the last lines in mpirun.
    diff <(grep -v ' err worker: ' followed) <(seq 1 900)
}

@test "a job that takes a range: why so many, and its checkpoints" {
    cat >range.yaml <<'END'
version: 1
kind: cv
name: range
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 32, train_samples: 16, eval_samples: 8}
train: {device: host, epochs: 1, batch_size: 4, seed: 1, output_dir: "runs/${name}/${job_id}"}
resources: {gpus: 1..2}
END
    OMP_NUM_THREADS=1 submit --quiet --wait range.yaml
    run stat 1
    [ "$status" -eq 0 ]
    [[ $output == *"gpus       1 (asked 1..2)"* ]]
    [[ $output == *"chosen because: smallest number of its range, chosen by policy "* ]]
    path=$(sed -n 's/^ checkpoint //p' <<<"$output")
    [ -f "$path/model.safetensors" ]
    [[ $path == */runs/range/1/ckpt/step-* ]]
    OMP_NUM_THREADS=1 submit --quiet --wait --set resources.gpus=1 range.yaml
    run stat 2
    [[ $output != *"chosen because"* ]]
}

@test "--scaling and --eff: what two slots brought, of what was measured" {
    cat >wide.yaml <<'END'
version: 1
kind: cv
name: wide
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 32, train_samples: 64, eval_samples: 8}
train: {device: host, epochs: 1, batch_size: 4, seed: 1}
resources: {gpus: 1, time_limit: 1h}
END
    OMP_NUM_THREADS=1 submit --quiet --wait wide.yaml
    OMP_NUM_THREADS=1 submit --quiet --wait --set resources.gpus=2 wide.yaml
    run stat --scaling 1
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == cv/mobilenet_v2-0.25/*"  measured" ]]
    # The columns are as wide as what was measured asks for.
    [[ $(tr -s ' ' <<<"${lines[2]}") == " 1 1 "*" 1.00 100 % "*" 1 13" ]]
    [[ $(tr -s ' ' <<<"${lines[3]}") == " 2 1 "*" 1 5" ]]
    # The table, of the rows that it is made of: the first three iterations of
    # a run warm up, and the slowest rank counts.
    stat --no-header --scaling 1 | sed 's/ ± / /; s/ +- / /; s/ [mu]\?s / /g' |
        awk 'NF > 9 { print $1, $3, $4, $5, $6, $9, $NF }' >table
    sqlite3 -readonly "$ctld_dir/state/metrics.db" "
        WITH step AS (SELECT job, iteration, max(t_iter) AS t,
                             sum(samples) AS samples, count(*) AS gpus
                      FROM v_iteration AS i
                      WHERE iteration > 2 + (SELECT min(iteration)
                                             FROM v_iteration WHERE job = i.job)
                      GROUP BY job, iteration),
             size AS (SELECT gpus, count(*) AS n, avg(t) AS mean,
                             sum(samples) / sum(t) AS rate
                      FROM step GROUP BY gpus)
        SELECT gpus, mean, (SELECT sqrt(sum((t - mean) * (t - mean)) / (n - 1))
                            FROM step WHERE step.gpus = size.gpus),
               rate, rate / (SELECT rate FROM size WHERE gpus = 1),
               gpus * 1000000 / rate / 3600, n FROM size ORDER BY gpus" |
        tr '|' ' ' >rows
    cat table rows
    paste -d ' ' table rows | awk '
        function off(a, b) { d = a - b; return (d < 0 ? -d : d) }
        function near(a, s, mean) { # in the unit and digits of the mean
            if (mean >= 1) return (off(a, s) < 0.0051)
            if (mean >= 1e-3) return (off(a, s * 1e3) < 0.051)
            return (off(a, s * 1e6) < 0.51)
        }
        { n += $1 == $8 && near($2, $9, $9) && near($3, $10, $9) &&
              off($4, $11) <= 0.51 && off($5, $12) < 0.0051 &&
              off($6, $13) < ($13 < 10 ? 0.00051 : 0.051) && $7 == $14 }
        END { exit n != 2 }'
    [ "$(stat --scaling --json 2 | json '$.rows[1][1]')" = 2 ]
    diff <(stat --scaling 2) <(stat --scaling wide)
    run submit --dry-run wide.yaml
    [[ $output == *"measured on such jobs before, as job 2:"*"100 %"* ]]
    [ "$(submit --dry-run --json wide.yaml | json '$.scaling.rows[1][1]')" = 2 ]
    run stat --scaling 'no such'
    [ "$status" -eq 66 ]
    [[ $output == *"no job is called 'no such'"* ]]
    run stat --eff 2
    [ "$status" -eq 0 ]
    [[ $output == *"computing "*"waiting for ranks "*"parallel efficiency "* ]]
    # No GPU: of its memory nothing is known. The worker said what it used.
    grep -qx ' GPU memory  *-' <<<"$output"
    grep -qE '^ CPU .* %$' <<<"$output"
    share=$(stat --eff --json 2 | json '$.jobs[0].cpu')
    awk -v s="$share" 'BEGIN { exit !(s > 0) }'
    [[ $output == *"used "*" of a time limit of 1:00:00: "*" would"* ]]
    [ "$(stat --eff --json 2 | json '$.jobs[0].notes[0]')" != "" ]
    run stat --no-header --eff -u me
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 2 ]
    [[ $(tr -s ' ' <<<"${lines[1]}") == "2 wide $(id -un) 2 "*" % "* ]]
    [ "$(stat --eff -n 'no*' --json | json '$.jobs[0].id')" = "" ]
    submit --quiet --hold wide.yaml # which has used nothing
    run stat --no-header --eff -c 1
    [ "$status" -eq 0 ]
    [[ $(tr -s ' ' <<<"$output") == "2 wide "* ]]
    run stat --eff
    [ "$status" -eq 64 ]
    [[ $output == *"which job? name one, or choose several, e.g. with --user me or --count"* ]]
}

@test "--gpus: who had which slot when" {
    spec quick 'exit 0'
    spec slow 'sleep 60'
    submit --quiet --wait quick.yaml
    submit --quiet --wait=STARTING --set resources.gpus=2 slow.yaml
    run stat --gpus
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == local*"one bar = 1:00" ]]
    [[ ${lines[2]} == *:0*slot*"2 $(id -un)" ]]
    [[ ${lines[3]} == *:1*slot*"2 $(id -un)" ]]
    [[ $output == *"1  $(id -un)"*quick* ]]
    [[ $output == *"2  $(id -un)"*slow*:0-1*now* ]]
    stat --gpus --json --since 5m -n quick >gpus.json
    [ "$(json '$.schema' <gpus.json)" = mgpu.gpus/1 ]
    [ "$(json '$.holds[0].name' <gpus.json)" = quick ]
    [ "$(json '$.holds[1]' <gpus.json)" = "" ]
    [ "$(json '$.holds[0].gpus' <gpus.json)" = "[0]" ]
    [ "$(json '$.holds[0].to' <gpus.json)" \> "$(json '$.holds[0].from' <gpus.json)" ]
    run stat --gpus 1
    [ "$status" -eq 64 ]
    run stat --gpus --since yesterday
    [ "$status" -eq 64 ]
    # And how much: a job that waits for its worker has used nothing yet.
    wait_for 60 job_is 2 RUNNING
    run stat --usage
    [ "$status" -eq 0 ]
    [[ ${lines[1]} == "USER "*" JOBS  FAILED  GPU-HOURS  BUSY-HOURS  BUSY  MEAN-WAIT" ]]
    [[ ${lines[2]} =~ ^$(id -un)\ +2\ +0\ +0.[0-9]+\ +-\ +-\ +[0-9]+:[0-9]+$ ]]
    stat --usage --json --by class --since 1h >usage.json
    [ "$(json '$.rows[1].jobs' <usage.json)" = 1 ]
    [ "$(json '$.rows[1].job_name' <usage.json)" = quick ]
    stat --usage --by class --no-header >class
    stat --usage --by class --export csv --output class.csv
    [[ $(head -n 1 class.csv) == class,jobs,*,mean_wait_s,job_name? ]]
    [[ $(tail -n 1 class.csv) == command/sh-*,quick? ]]
    [ "$(sed 's/   *.*//' class)" = $'command/sh slow\ncommand/sh quick' ]
    more=$(json '$.rows[0].gpu_hours' <usage.json)
    less=$(json '$.rows[1].gpu_hours' <usage.json)
    [ "$(sqlite3 :memory: "SELECT $more > $less AND $less > 0")" = 1 ]
    stat --usage --by account --export csv --output usage.csv
    [[ $(head -n 1 usage.csv) == account,jobs,failed,gpu_hours,* ]]
    [[ $(tail -n 1 usage.csv) =~ ^,2,0,[0-9.e-]+,0,,[0-9.]+ ]]
    stat --usage --by node --since 2020-01-01 >node
    grep -q '^local  from 2020-01-01[ T].* to .* UTC$' node
    stat --usage --by node --since 2020-01-01 --no-header >node
    [ "$(wc -l <node)" = 1 ]
    for bad in "--usage 1" "--usage --by week" "--by user" "--usage -u me" \
        "--usage --export jsonl"; do
        # shellcheck disable=SC2086 # several words
        run stat $bad
        [ "$status" -eq 64 ]
    done
}

# records FILE: each record of an event file as its length and its step; the
# lengths must lead from one to the next, to the end of the file.
records() {
    local at=0 size n
    size=$(stat_size "$1")
    while [ "$at" -lt "$size" ]; do
        n=$(od -An -t u8 -j "$at" -N 8 "$1" | tr -d ' ')
        [ "$n" -gt 8 ] && [ "$n" -lt 4096 ] || return 1
        echo "$n"
        at=$((at + 16 + n))
    done
    [ "$at" -eq "$size" ]
}
stat_size() { command stat -c %s "$1"; }

@test "--export: CSV, JSON Lines and TensorBoard have every row" {
    cat >rows.yaml <<'END'
version: 1
kind: cv
name: rows
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 32, train_samples: 32, eval_samples: 8}
train: {device: host, epochs: 2, batch_size: 4, profile: epoch}
resources: {gpus: 2}
END
    OMP_NUM_THREADS=1 submit --quiet --wait rows.yaml
    stat --export csv 1 >rows.csv
    [ "$(head -n 1 rows.csv)" = "job,attempt,rank,iteration,epoch,started_at,t_iter,t_data,t_h2d,t_forward,t_backward,t_comm,t_optimizer,loss,lr,samples,tokens,gpu_mem_bytes"$'\r' ]
    [ "$(wc -l <rows.csv)" -eq 17 ]
    sqlite3 :memory: ".import --csv rows.csv r" \
        "SELECT count(*), sum(samples), max(iteration) FROM r" >got
    [ "$(tr -d '\r' <got)" = "16|64|8" ]
    stat --export jsonl --epochs --output epochs.jsonl 1
    [ "$(wc -l <epochs.jsonl)" -eq 2 ]
    [ "$(tail -n 1 epochs.jsonl | json '$.epoch')" = 2 ]
    stat --export csv --profile 1 | grep -q '^1,1,0,2,host GEMM,'
    # Whoever reads it finds the columns where there is no row yet.
    submit_command none true >none
    wait_for 60 job_is 2 COMPLETED
    stat --export csv 2 | diff - <(head -n 1 rows.csv)
    admin() { "$MGPU_BIN/mgpu-admin" --quiet "$@"; }
    admin pause
    submit_command waits true >waits
    stat --export csv --epochs 3 | grep '^job,attempt,epoch,'
    [ -z "$(stat --export jsonl 3)" ]
    stat --export tensorboard --output board 1
    records board/events.out.tfevents.0.job-1 >got
    [ "$(wc -l <got)" -eq 19 ]
    for tag in train/loss time/t_iter/rank_1 epoch/eval_accuracy brain.Event:2; do
        grep -qa "$tag" board/events.out.tfevents.0.job-1
    done
    for bad in "--export xml 1" "--export csv 1 2" "--export csv --events 1" \
        "--export tensorboard 1" "--output x 1"; do
        # shellcheck disable=SC2086
        run stat $bad
        [ "$status" -eq 64 ] || { echo "$bad: $status"; false; }
    done
}

@test "jobs that left the daemon's memory are what they were" {
    ctld_term
    printf 'version: 1\nlimits: {max_ended_jobs: 1}\n' >"$BATS_TEST_TMPDIR/few.yaml"
    ctld_start --config "$BATS_TEST_TMPDIR/few.yaml"
    spec='{"version":1,"kind":"command","name":"one","command":["true"],
           "resources":{"gpus":1}}'
    repeat() {
        api POST /v1/jobs -H 'Idempotency-Key: past-1' -d "{\"spec\":$spec}" |
            json '$.id'
    }
    first=$(repeat)
    wait_for 60 job_is "$first" COMPLETED
    for i in 2 3 4; do
        last=$(submit_command "j$i" true)
        wait_for 60 job_is "$last" COMPLETED
    done
    are_gone() {
        [ "$(sqlite3 -readonly "$ctld_dir/state/state.db" \
            "SELECT count(*) FROM archived WHERE job < $last")" -eq 3 ]
    }
    wait_for 60 are_gone
    # Who watches those that ended begins with all of them, and has each once.
    cd "$BATS_TEST_TMPDIR"
    has_all() { [ "$(sed -n 's/^\([1-4]\)  COMPLETED$/\1/p' "$1" | sort -u | wc -l)" -eq 4 ]; }
    follow_until has_all table "$MGPU_BIN/mgpu-stat" --watch -h -t all -o id,state
    follow_until has_all table "$MGPU_BIN/mgpu-stat" --watch -h --since 2h -o id,state
    "$MGPU_BIN/mgpu-stat" --watch --json -t COMPLETED --timeout 30m >changes 3>&- &
    changes=$!
    wait_for 60 grep -q '"id":4,' changes
    last=$(submit_command j5 true)
    wait_for 60 grep -q '"id":5,' changes
    kill "$changes"
    wait "$changes" || :
    [ "$(sed 's/^.*"job":{"id":\([0-9]*\),.*/\1/' changes | grep -vx 5 |
        tr '\n' ' ')" = "1 2 3 4 " ]
    "$MGPU_BIN/mgpu-stat" --watch -o ids --since 2h --timeout 30m >ids 3>&- &
    changes=$!
    wait_for 60 grep -qx 5 ids
    kill "$changes"
    wait "$changes" || :
    [ "$(sort -u ids | tr '\n' ' ')" = "1 2 3 4 5 " ]
    run "$MGPU_BIN/mgpu-stat" --watch --since yesterday
    [ "$status" -eq 64 ]
    for life in 1 2; do
        job_is "$first" COMPLETED
        run --separate-stderr "$MGPU_BIN/mgpu-stat" --events "$first"
        [ "$status" -eq 0 ]
        [[ $output == *submit*finish* ]]
        run --separate-stderr "$MGPU_BIN/mgpu-stat" --why "$first"
        [ "$status" -eq 0 ]
        [ "$(repeat)" = "$first" ]
        run --separate-stderr "$MGPU_BIN/mgpu-cancel" "$first"
        [ "$status" -ne 0 ]
        [[ $stderr == *"has ended"* ]]
        waits=$(api POST /v1/jobs -d "{\"spec\":{\"version\":1,
            \"kind\":\"command\",\"name\":\"after\",\"command\":[\"true\"],
            \"depends_on\":[\"afterok:$first\"],
            \"resources\":{\"gpus\":1}}}" | json '$.id')
        wait_for 60 job_is "$waits" COMPLETED
        ctld_kill
        run "$MGPU_BIN/mgpu-ctld" --fsck "$ctld_dir/state"
        [ "$status" -eq 0 ]
        ctld_start --config "$BATS_TEST_TMPDIR/few.yaml"
    done
}

@test "lists have the jobs that left the daemon's memory" {
    wire() { # NAME REST COMMAND: the latter two as JSON
        printf '{"spec":{"version":1,"kind":"command","name":"%s",%s
            "command":[%s],"resources":{"gpus":1}}}' "$1" "$2" "$3"
    }
    for i in 1 2 3; do
        api POST /v1/jobs >/dev/null \
            -d "$(wire "keep-$i" '"labels":{"n":"'"$i"'"},' '"true"')"
        api POST /v1/jobs >/dev/null \
            -d "$(wire "fail-$i" '"retry":{"max":0},' '"false"')"
        last=$(api POST /v1/jobs -d "$(wire gone '' '"true"')" | json '$.id')
    done
    all_ended() {
        [ "$("$MGPU_BIN/mgpu-stat" -h -o id -t CD,F | wc -l)" -ge 9 ]
    }
    wait_for 60 all_ended
    since=$("$MGPU_BIN/mgpu-stat" --json "$last" | json '$.job.ended')
    # What is asked of each life, and what must not change.
    lists() {
        local args
        while read -r args; do
            echo "== $args"
            # shellcheck disable=SC2086
            "$MGPU_BIN/mgpu-stat" $args
        done <<END
--state all
--state all -c 5
-t FAILED
-t COMPLETED -c 3
--since 1h
--since ${since%.*}Z
-u me --state all
-u nobody --state all
-n keep-* --state all
-n gone -t FAILED,COMPLETED -c 2
--label n=3 --state all
--label n --since 1h
-A none --state all
--state all -c 1
--state all --sort -job -o id,name,state,exit
--export csv --state all
--since 1h --json
--gpus --json
END
    }
    shown() { lists | sed -E 's/"(generated|until|since)": ?"[^"]*"//g'; }
    shown >"$BATS_TEST_TMPDIR/before"
    [ "$(grep -c . "$BATS_TEST_TMPDIR/before")" -gt 80 ]
    printf 'version: 1\nlimits: {max_ended_jobs: 2}\n' \
        >"$BATS_TEST_TMPDIR/few.yaml"
    most_are_gone() {
        [ "$(sqlite3 -readonly "$ctld_dir/state/state.db" \
            "SELECT count(*) FROM archived")" -ge 7 ]
    }
    for life in 1 2; do
        ctld_term
        ctld_start --config "$BATS_TEST_TMPDIR/few.yaml"
        wait_for 60 most_are_gone
        shown >"$BATS_TEST_TMPDIR/after"
        diff "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after"
    done
}
