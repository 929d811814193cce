#!/usr/bin/env bats
# queue.bats - which jobs a filter leaves: mgpu-stat shows those and no
# others, and mgpu-cancel ends those and no others.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    ctld_start
    printf 'version: 1\nkind: command\ncommand: [sleep, "600"]\n' \
        >"$BATS_TEST_TMPDIR/job.yaml"
    held apple && held pear && held plum
    "$MGPU_BIN/mgpu-cancel" --quiet 2
}
teardown() { ctld_stop; }

held() {
    local name=$1
    shift
    "$MGPU_BIN/mgpu-submit" --quiet --hold --set "name=$name" "$@" \
        "$BATS_TEST_TMPDIR/job.yaml"
}

# The names that mgpu-stat shows with these options, on one line.
names() {
    "$MGPU_BIN/mgpu-stat" --no-header "$@" | awk '{ printf "%s ", $2 }'
}

@test "the queue is exported as it is asked for" {
    held cherry --set "labels={x: '1, \"2\"', y: 3}"
    printf 'sweep: {grid: {retry.max: [1, 2]}}\n' >>job.yaml
    "$MGPU_BIN/mgpu-submit" --quiet --hold --set name=s job.yaml
    "$MGPU_BIN/mgpu-stat" --export csv -o id,name,GPUS,loss,elapsed,LABELS \
        --sort -name >got
    printf '%s\r\n' id,name,gpus,loss,elapsed,labels \
        5_0,s,1,,, 5_1,s,1,,, 3,plum,1,,, '4,cherry,1,,,"x=1, ""2"",y=3"' \
        1,apple,1,,, >want
    diff want got
    "$MGPU_BIN/mgpu-stat" --export csv -t all -n 'p*' -o name,exit,limit \
        --no-header --output file.csv
    printf '%s\r\n' pear,130, plum,, | diff - file.csv
    run -64 "$MGPU_BIN/mgpu-stat" --export csv -o id,nmae
    [[ $output == *"did you mean 'name'?"* ]]
    run -64 "$MGPU_BIN/mgpu-stat" --export jsonl
    run -64 "$MGPU_BIN/mgpu-stat" --export csv --nodes
}

@test "mgpu-stat shows what its options ask for" {
    [ "$(names)" = "apple plum " ]
    [ "$(names -t all)" = "apple pear plum " ]
    [ "$(names -t CANCELLED)" = "pear " ]
    [ "$(names -t HELD,CANCELLED)" = "apple pear plum " ]
    [ "$(names -t held,ca)" = "apple pear plum " ]
    [ "$(names -t all -S -name)" = "plum pear apple " ]
    [ "$("$MGPU_BIN/mgpu-stat" -t all -S -name --json | json '$.jobs[0].name')" = plum ]
    for way in -u\ me --watch "--watch --json" --gpus; do
        # shellcheck disable=SC2086 # words
        run "$MGPU_BIN/mgpu-stat" $way -t HELD,GONE
        [ "$status" -eq 64 ]
        [[ $output == *"--state: no state 'GONE'; there are QUEUED, HELD"* ]]
    done
    [ "$(names -n 'p*')" = "plum " ]
    [ "$(names -t all -n 'p*')" = "pear plum " ]
    [ "$(names -c 1)" = "plum " ]
    [ "$(names -u nobody)" = "" ]
    [ "$(names -u me)" = "apple plum " ]
    [ "$(names -u all)" = "apple plum " ]
    [ "$(names -u "$(id -un)" -n apple)" = "apple " ]
}

@test "--user: a name of nobody's is refused, unless jobs have it" {
    [ "$(names -u "$(id -u)")" = "apple plum " ]
    [ "$(names -u 987654321)" = "" ]
    for way in "" --watch --json "-t all" --gpus --eff --top\ --json; do
        # shellcheck disable=SC2086 # words
        run "$MGPU_BIN/mgpu-stat" $way -u no-such-user
        [ "$status" -eq 64 ] || { echo "$way: $status, $output" && false; }
        [[ $output == *"--user: unknown user 'no-such-user': no such account"* ]]
    done
    run "$MGPU_BIN/mgpu-cancel" -u no-such-user
    [ "$status" -eq 64 ]
    [[ $output == *"unknown user 'no-such-user'"* ]]
    # One who had jobs, and is in no passwd any more.
    echo 'other:x:65533:65533::/:/bin/false' >passwd
    echo 'passwd: files' >nsswitch.conf
    cat >gone <<'END'
for f in passwd nsswitch.conf; do
    mount --bind "$f" "/etc/$f" || exit 1
done
exec "$@"
END
    elsewhere() { unshare --map-root-user --mount sh gone "$@"; }
    elsewhere true 2>/dev/null || skip "not all of it: no namespace to be had"
    user=$(id -un)
    not elsewhere getent passwd "$user"
    [ "$(elsewhere "$MGPU_BIN/mgpu-stat" --no-header -o name -u "$user" -n apple)" = apple ]
    run elsewhere "$MGPU_BIN/mgpu-stat" -u no-such-user
    [ "$status" -eq 64 ]
}

@test "account, partition, label, node: together, in JSON and watched too" {
    held fig --set policy.account=bio --set resources.partition=urgent \
        --set labels.team=a --set labels.run=7
    held date --set policy.account=bio --set labels.team=b,c
    "$MGPU_BIN/mgpu-submit" --quiet --set name=runs "$BATS_TEST_TMPDIR/job.yaml"
    wait_for 60 job_is 6 RUNNING
    [ "$(names -A bio)" = "fig date " ]
    [ "$(names --account bio -q urgent)" = "fig " ]
    [ "$(names --partition none)" = "" ]
    [ "$(names --label team)" = "fig date " ]
    [ "$(names --label team=b,c)" = "date " ]
    [ "$(names --label team=a --label run=7)" = "fig " ]
    [ "$(names --label team=a --label run=8)" = "" ]
    [ "$(names --label tea)" = "" ]
    node=$("$MGPU_BIN/mgpu-stat" -o place --no-header -n runs)
    [ "$(names --on "${node%%:*}")" = "runs " ]
    [ "$(names --on nowhere)" = "" ]
    [ "$(names -A bio -t HELD -n 'f*' -u me --label team)" = "fig " ]
    "$MGPU_BIN/mgpu-stat" -o name,account,partition,labels -h -A bio >cells
    [ "$(tr -s ' ' <cells)" = "fig bio urgent run=7,team=a
date bio - team=b,c" ] || [ "$(tr -s ' ' <cells)" = "fig bio urgent team=a,run=7
date bio - team=b,c" ]
    "$MGPU_BIN/mgpu-stat" --json --label team=a >one.json
    [ "$(json '$.jobs[0].name' <one.json)" = fig ]
    [ "$(json '$.jobs[0].labels.run' <one.json)" = 7 ]
    [ "$(json '$.jobs[1]' <one.json)" = "" ]
    has_lines() { [ -s "$1" ]; }
    follow_until has_lines lines \
        "$MGPU_BIN/mgpu-stat" --watch --json -A bio --label run=7
    not grep -v '"name":"fig"' lines
    has_runs() { grep -qx runs "$1"; }
    follow_until has_runs lines \
        "$MGPU_BIN/mgpu-stat" --watch --on "${node%%:*}" -h -o name
    run api GET '/v1/watch?state=RUNNING'
    [ "$status" -ne 0 ]
    for bad in "--label =x" "--label"; do
        # shellcheck disable=SC2086 # words
        run "$MGPU_BIN/mgpu-stat" $bad
        [ "$status" -eq 64 ]
    done
    run "$MGPU_BIN/mgpu-cancel" --label team
    [ "$status" -eq 64 ]
    "$MGPU_BIN/mgpu-cancel" --quiet -u me --label team=a -A bio
    [ "$(names -A bio)" = "date " ]
}

@test "mgpu-cancel ends what its options ask for" {
    run "$MGPU_BIN/mgpu-cancel" --user nobody
    [ "$status" -eq 0 ]
    [ "$(names)" = "apple plum " ]
    run "$MGPU_BIN/mgpu-cancel" --user me --state RUNNING
    [ "$(names)" = "apple plum " ]
    run "$MGPU_BIN/mgpu-cancel" --user me
    [ "$status" -eq 0 ]
    [ "$(names)" = "" ]
    [ "$(names -t CANCELLED)" = "apple pear plum " ]
}

why_says() { "$MGPU_BIN/mgpu-stat" --why "$1" | grep -q "$2"; }

@test "F40: a job waits for others, or is held when that is in vain" {
    cd "$BATS_TEST_TMPDIR"
    run "$MGPU_BIN/mgpu-submit" --parsable -d afterok:1,afterany:3 job.yaml
    [ "$status" -eq 0 ]
    id=$output
    wait_for 30 why_says "$id" 'because *Dependency: waits for afterok:1 and 1 more'
    why_says "$id" 'after *afterok:1: job 1 is HELD'
    [ "$("$MGPU_BIN/mgpu-stat" --json "$id" | json '$.job.position')" = "" ]
    "$MGPU_BIN/mgpu-cancel" --quiet 3
    wait_for 30 why_says "$id" 'afterany:3: job 3 is CANCELLED, satisfied'
    "$MGPU_BIN/mgpu-cancel" --quiet 1
    wait_for 30 job_is "$id" HELD
    why_says "$id" 'DependencyNeverSatisfied: afterok:1, which is CANCELLED'
    run "$MGPU_BIN/mgpu-submit" --wait --set 'depends_on=[afterok:1]' job.yaml
    [ "$status" -eq 125 ]
    [[ $output == *DependencyNeverSatisfied* ]]
    api POST "/v1/jobs/$id/release" >/dev/null
    wait_for 60 job_is "$id" RUNNING
}

@test "F40: all conditions at once, a sweep and one task of it, a held job" {
    printf 'sweep: {grid: {env.X: ["0", "3"]}}\n' | cat job.yaml - >sweep.yaml
    ends() { "$MGPU_BIN/mgpu-submit" --parsable --set resources.gpus=0 \
        --set retry.max=0 --set "command=$1" "${@:2}"; }
    # 1 and 3 are held, 2 is cancelled.
    s=$(ends '[sh, -c, "exit $X"]' sweep.yaml | head -n 1)
    a=$(ends '["true"]' -d "afterok:${s}_0,afternotok:$s:2,afterany:$s" job.yaml)
    b=$(ends '["true"]' -d "afterok:$s" job.yaml)
    c=$(ends '["true"]' -d after:1,afterok:"$a" job.yaml)
    run ends '["true"]' -d "afterok:${s}_2" job.yaml
    [ "$status" -eq 65 ]
    [[ $output == *"you have no job ${s}_2 [E022]"* ]]
    wait_for 60 job_is "$b" HELD
    why_says "$b" "DependencyNeverSatisfied: afterok:$s, task ${s}_1 is FAILED"
    "$MGPU_BIN/mgpu-stat" --wait --timeout 600s "$a"
    why_says "$c" 'after:1: job 1 is HELD'
    job_is "$c" QUEUED
    "$MGPU_BIN/mgpu-admin" --quiet release 1
    "$MGPU_BIN/mgpu-stat" --wait --timeout 600s "$c"
    wait_for 60 job_is 1 RUNNING
}

@test "policy.begin: a job waits for its time, and says for which" {
    begin=$(date -u -d '+1 hour' +%FT%TZ)
    submit() { "$MGPU_BIN/mgpu-submit" --set resources.gpus=0 "$@" job.yaml; }
    run -0 submit --dry-run --begin "$begin"
    [[ $output == *"would be QUEUED"*"BeginTime: not before ${begin%Z}"*"may start  20"* ]]
    [ "$(submit --parsable --begin "$begin")" = 4 ]
    why_says 4 "BeginTime: not before ${begin%Z}.000Z"
    [[ $("$MGPU_BIN/mgpu-stat" 4) == *"not before ${begin%Z}.000Z"* ]]
    [ "$(api GET /v1/jobs/4 | json '$.job.begin')" = "${begin%Z}.000Z" ]
    # Of a sweep all have it; the same words under one key are the same job.
    printf 'sweep: {array: 0-1}\n' | cat job.yaml - >two.yaml
    for i in 1 2; do
        [ "$("$MGPU_BIN/mgpu-submit" --parsable --idempotency-key k -b +2h two.yaml)" = 5 ]
    done
    why_says 5 "BeginTime: "
    why_says 6 "BeginTime: "
    # One whose time comes, after a restart; and what is past.
    [ "$(submit --parsable --set 'command=["true"]' --begin +3s)" = 7 ]
    ctld_kill
    ctld_start
    "$MGPU_BIN/mgpu-stat" --wait --timeout 600s 7
    started=$(api GET /v1/jobs/7 | json '$.job.started')
    [[ ! $started < $(api GET /v1/jobs/7 | json '$.job.begin') ]]
    why_says 4 "BeginTime: "
    run -0 submit --validate --begin 2001-01-01T00:00:00Z
    [[ $output == *"--begin: warning[W112]"* ]]
    run -65 submit --begin 2026-12-01T08:00:00
    [[ $output == *"--begin: error[E023]"*"the time zone is missing"*"+01:00"* ]]
}

@test "B17: what cannot be waited for is refused" {
    cd "$BATS_TEST_TMPDIR"
    run "$MGPU_BIN/mgpu-submit" -d afterok:77 job.yaml
    [ "$status" -eq 65 ]
    [[ $output == *"you have no job 77 [E022]"* ]]
    run "$MGPU_BIN/mgpu-submit" -d before:1 job.yaml
    [ "$status" -eq 64 ]
    [[ $output == *"--dependency: 'before:1': expected afterok:JOB"* ]]
    run "$MGPU_BIN/mgpu-submit" --validate --set 'depends_on=[never:1]' job.yaml
    [ "$status" -eq 65 ]
    [[ $output == *"error[E022]"* ]]
}

@test "a start that is refused for good is held, and tried again when released" {
    ctld_kill
    printf '#!/bin/sh\nexec mpirun "$@"\n' >"$BATS_TEST_TMPDIR/launch"
    chmod +x "$BATS_TEST_TMPDIR/launch"
    printf 'version: 1\nlocal: {mpirun: %s}\n' "$BATS_TEST_TMPDIR/launch" \
        >"$BATS_TEST_TMPDIR/d/conf.yaml"
    ctld_start --config "$BATS_TEST_TMPDIR/d/conf.yaml"
    mv "$BATS_TEST_TMPDIR/launch" "$BATS_TEST_TMPDIR/away"
    id=$(submit_command alone true) # one rank needs no launcher
    wait_for 60 job_is "$id" COMPLETED
    id=$(api POST /v1/jobs -d '{"spec":{"version":1,"kind":"command",
        "name":"lost","command":["true"],"resources":{"gpus":2}}}' | json '$.id')
    wait_for 30 job_is "$id" HELD
    run "$MGPU_BIN/mgpu-stat" --why "$id"
    [[ $output == *"Refused: could not be started: "* ]]
    [[ $output == *"until it is released: mgpu-admin release $id"* ]]
    run "$MGPU_BIN/mgpu-stat" --wait --timeout 600s "$id"
    [ "$status" -eq 125 ]
    [[ $(api GET "/v1/jobs/$id" | json '$.job.held_by') == refused ]]
    mv "$BATS_TEST_TMPDIR/away" "$BATS_TEST_TMPDIR/launch"
    "$MGPU_BIN/mgpu-admin" --quiet release "$id"
    wait_for 60 job_is "$id" COMPLETED
}
