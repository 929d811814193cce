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
    printf 'cat >>"%s/told"; echo >>"%s/told"\n' "$PWD" "$PWD" >tell
    printf 'version: 1\nnotify: {program: [/bin/sh, "%s/tell"]}\n' "$PWD" >mgpu.yaml
    ctld_start --config mgpu.yaml
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
    # Its notify is told as its user asked before.
    is_told() { [ "$(wc -l <told)" = 2 ]; }
    wait_for 60 is_told
    [ "$(tail -n 1 told | json '$.notify.email')" = alice@example.org ]
    [ "$(tail -n 1 told | json '$.on')" = end ]
    # Nobody starts them by a release.
    "$MGPU_BIN/mgpu-admin" --quiet release 3
    "$MGPU_BIN/mgpu-admin" --quiet release 5
    refused() { [[ $(api GET "/v1/jobs/$1" | json '$.job.reason') == "Refused: a value of env"* ]]; }
    for id in 3 5; do wait_for 60 refused "$id"; done
    [ "$(api GET /v1/jobs/5 | json '$.job.attempt')" = 0 ]
    ctld_kill
    ctld_start --config mgpu.yaml
    job_is 4 COMPLETED
    ctld_term
    "$MGPU_BIN/mgpu-ctld" --fsck d/state
}

@test "what was removed is refused by name, with what to use instead" {
    run "$MGPU_BIN/mgpu-stat" --sql "SELECT 1"
    [ "$status" -eq 64 ]
    [[ $output == *"--sql was removed: ask sqlite3 -readonly of a backup"* ]]
    for line in 'mail_program: /usr/bin/true' 'ca_file: /a.pem' "webhook_allow: ['a.org']"; do
        printf 'version: 1\nnotify:\n  %s\n' "$line" >old.yaml
        run "$MGPU_BIN/mgpu-ctld" --check-config old.yaml
        [ "$status" -eq 78 ]
        [[ $output == *"old.yaml:3:3: error[E018]: 'notify.${line%%:*}' was removed"*"notify.program"* ||
            $output == *"old.yaml:3:3: error[E018]: 'notify.${line%%:*}' was removed"*"program: ["* ]]
    done
}
