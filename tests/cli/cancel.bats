#!/usr/bin/env bats
# cancel.bats - mgpu-cancel in every state a job can be in.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    ctld_start
    printf 'version: 1\nkind: command\nname: hog\ncommand: [sleep, "600"]\n' \
        >hog.yaml
    printf 'checkpoint: {grace: 1s}\nresources: {gpus: 2}\n' >>hog.yaml
}
teardown() { ctld_stop; }

cancel() { "$MGPU_BIN/mgpu-cancel" "$@"; }
submit() { "$MGPU_BIN/mgpu-submit" --quiet "$@"; }
job_claimed() { job_is 1 STARTING || job_is 1 RUNNING; }

@test "a running job ends as CANCELLED, and nothing of it is left" {
    local s=$((100000 + $$)) # nobody else sleeps for as long
    submit --set "command=[\"sleep\",\"$s\"]" hog.yaml
    wait_for 60 job_claimed
    wait_for 60 pgrep -fx "sleep $s"
    run cancel 1
    [ "$status" -eq 0 ]
    [ "$output" = "job 1: is being cancelled" ]
    wait_for 60 job_is 1 CANCELLED
    run pgrep -fx "sleep $s"
    [ "$status" -eq 1 ]
    [ "$(api GET /v1/jobs/1 | json '$.job.exit_code')" = 130 ]
}

@test "a job that ignores SIGTERM is killed after its grace" {
    submit --set 'command=["sh","-c","trap : TERM; while :; do sleep 0.1; done"]' \
        hog.yaml
    wait_for 60 job_claimed
    cancel --quiet 1
    wait_for 60 job_is 1 CANCELLED
}

@test "a waiting job is cancelled at once, twice is once" {
    submit hog.yaml
    submit hog.yaml
    run cancel 2
    [ "$status" -eq 0 ]
    [ "$output" = "job 2: cancelled" ]
    run cancel 2
    [ "$status" -eq 0 ]
}

@test "a job that has ended is status 73" {
    submit --wait --set 'command=["true"]' hog.yaml
    run cancel 1
    [ "$status" -eq 73 ]
    [[ $output == *"job 1 has ended: COMPLETED"* ]]
    sweep=$(submit --wait --parsable --set 'command=["true"]' \
        --set 'sweep={grid: {env.A: [1, 2]}}' hog.yaml)
    run cancel "${sweep}_1"
    [ "$status" -eq 73 ]
    [[ $output == *"job ${sweep}_1 has ended: COMPLETED"* ]]
}

@test "several at once: the worst status, and the others are done" {
    submit hog.yaml
    submit hog.yaml
    run cancel 2 77
    [ "$status" -eq 66 ]
    job_is 2 CANCELLED
}

@test "by user, state and name" {
    submit hog.yaml
    wait_for 60 job_claimed
    submit hog.yaml
    submit hog.yaml
    submit --set name=other hog.yaml
    run cancel --user me --state QUEUED --name hog
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 2 ]
    job_is 2 CANCELLED
    job_is 3 CANCELLED
    job_is 4 QUEUED
    job_claimed
}

@test "--signal reaches the ranks and ends nothing by itself" {
    submit --set "command=[\"sh\",\"-c\",\"trap 'touch $PWD/usr1' USR1; touch $PWD/ready\$MGPU_RANK; while :; do sleep 0.05; done\"]" \
        hog.yaml
    wait_for 60 test -e ready0
    wait_for 60 test -e ready1
    run cancel --signal USR1 1
    [ "$status" -eq 0 ]
    [ "$output" = "job 1: sent USR1" ]
    wait_for 60 test -e usr1
    job_claimed
    for name in SIGUSR1 usr1 "$(kill -l USR1)"; do
        rm usr1
        run cancel --signal "$name" 1
        [ "$output" = "job 1: sent USR1" ]
        wait_for 60 test -e usr1
    done
    for name in FOO SIG 99 USR; do
        run cancel --signal "$name" 1
        [ "$status" -eq 64 ]
        [[ $output == *"--signal '$name': expected TERM, "*number ]]
    done
    run api POST /v1/jobs/1/cancel -d '{"signal":"FOO"}'
    [[ $output == *"signal 'FOO': expected TERM, "* ]]
}

@test "wrong command lines, and JSON" {
    run cancel
    [ "$status" -eq 64 ]
    run cancel --state QUEUED
    [ "$status" -eq 64 ]
    run cancel x
    [ "$status" -eq 64 ]
    run cancel -u me
    [ "$status" -eq 0 ]
    [ "$output" = "no matching job is pending or running" ]
    run cancel --quiet -u me
    [ "$output" = "" ]
    submit hog.yaml
    submit hog.yaml
    run --separate-stderr cancel --json 2 77
    [ "$status" -eq 66 ]
    [ "$(sqlite3 :memory: "SELECT json_valid('${output//\'/\'\'}')")" = 1 ]
    [[ $output == *'"id":2,"state":"CANCELLED"'*'"id":77,"code":"NOTFOUND"'* ]]
}

# For a moment each rank has a core to itself, or would.
works='i=0; while [ \"$i\" -lt 30000 ]; do i=$((i + 1)); done'

cpu_of() { "$MGPU_BIN/mgpu-stat" --eff --json "$1" | json '$.jobs[0].cpu'; }

@test "the resources of an attempt are recorded however it ends" {
    # By itself; with others that nobody can ask any more; by a signal; told to.
    submit --wait --set 'resources.gpus=1' --set 'retry.max=0' \
        --set "command=[\"sh\",\"-c\",\"$works; exit 3\"]" hog.yaml && false
    submit --wait --set 'retry.max=0' \
        --set "command=[\"sh\",\"-c\",\"$works; exit 3\"]" hog.yaml && false
    submit --wait --set 'retry.max=0' \
        --set "command=[\"sh\",\"-c\",\"$works; kill -9 \$PPID\"]" hog.yaml && false
    submit --set "command=[\"sh\",\"-c\",\"$works; touch $PWD/done; sleep 600\"]" \
        hog.yaml
    wait_for 60 test -e done
    cancel --quiet 4
    wait_for 60 job_is 4 CANCELLED
    for id in 1 2 3 4; do
        awk -v s="$(cpu_of "$id")" 'BEGIN { exit !(s > 0) }'
    done
    "$MGPU_BIN/mgpu-stat" --eff 3 | grep -qE '^ CPU .* %$'
}
