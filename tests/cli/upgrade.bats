#!/usr/bin/env bats
# upgrade.bats - a state directory that older programs wrote is replayed; see
# tests/data/old_state/make.sh.
# shellcheck disable=SC2154 # bats sets output

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    [ "$(id -u)" = 0 ] || skip "the jobs are root's"
    mkdir -m 700 d
    tar -C d --no-same-owner -xzf \
        "$MGPU_SRC/tests/data/old_state/state.tar.gz" state
}
teardown() { ctld_stop; }

stat() { "$MGPU_BIN/mgpu-stat" "$@"; }

@test "jobs, metrics and settings of an older state directory are there" {
    ctld_start
    job_is 1 COMPLETED
    job_is 4 QUEUED
    job_is 5 HELD
    [ "$(stat --metrics 1 --jsonl | grep -c '"iteration":')" = 3 ]
    [[ $(stat --logs 1) == "" ]]
    stat -t all | grep -q 'Paused: nothing new is started'
    # Sealed values: of a queued job, of one before its retry, of a sweep.
    for id in 2 3 6 7; do
        wait_for 60 job_is "$id" HELD
        api GET "/v1/jobs/$id" >job
        [ "$(json '$.job.held_by' <job)" = refused ]
        [[ $(json '$.job.reason' <job) == "Refused: a value of env was sealed by an older mgpu; submit the job again"* ]]
    done
    not grep -r hunter22 d
    "$MGPU_BIN/mgpu-admin" policy show | grep limits.max_jobs_per_user |
        grep -q 50
    [ "$("$MGPU_BIN/mgpu-admin" fsck)" = sound ]
    "$MGPU_BIN/mgpu-admin" --quiet resume
    wait_for 60 job_is 4 COMPLETED
    # Nobody starts them by a release.
    "$MGPU_BIN/mgpu-admin" --quiet release 3
    "$MGPU_BIN/mgpu-admin" --quiet release 5
    refused() { [[ $(api GET "/v1/jobs/$1" | json '$.job.reason') == "Refused: a value of env"* ]]; }
    for id in 3 5; do wait_for 60 refused "$id"; done
    [ "$(api GET /v1/jobs/5 | json '$.job.attempt')" = 0 ]
    ctld_kill
    ctld_start
    job_is 4 COMPLETED
    ctld_term
    "$MGPU_BIN/mgpu-ctld" --fsck d/state
}

@test "what was removed is refused by name, with what to use instead" {
    run "$MGPU_BIN/mgpu-stat" --sql "SELECT 1"
    [ "$status" -eq 64 ]
    [[ $output == *"--sql was removed: ask sqlite3 -readonly of a backup"* ]]
}
