#!/usr/bin/env bats
# crash.bats - the daemon is killed, and nobody can tell afterwards.
#
# The first tests kill it at every call of the store, before the call and
# after it (MGPU_FAIL_STORE, docs/ctld.md), while a client that knows nothing
# of that submits a job by an idempotency key. A new daemon takes over each
# time. At the end there must be one job, COMPLETED, that ran once, with
# every row once. The last one kills it in the middle of a training.

bats_require_minimum_version 1.5.0
load helpers

teardown() { ctld_stop; }

# A job that leaves a line in a file for each time that it is run, and three
# rows of metrics.
write_spec() {
    cat >"$BATS_TEST_TMPDIR/spec" <<JSON
{"spec":{"version":1,"kind":"command","name":"once","resources":{"gpus":1},
"command":["sh","-c","echo ran >>$ctld_dir/ran; for i in 1 2 3; do echo \"{\\\\\"iteration\\\\\":\$i,\\\\\"loss\\\\\":0.5}\" >>\$MGPU_METRICS; done"]}}
JSON
}

submitted() {
    api POST /v1/jobs -H 'Idempotency-Key: only-once' \
        -d "@$BATS_TEST_TMPDIR/spec" >/dev/null 2>&1
}

daemon_died() { ! kill -0 "$ctld_pid" 2>/dev/null; }

# Every step of a client, each begun again by the next daemon.
step_or_died() { "$@" || daemon_died; }

# with_restart SECONDS COMMAND...: until it succeeds, over one death.
with_restart() {
    wait_for "$1" step_or_died "${@:2}"
    if daemon_died; then
        died=1
        ctld_kill
        ctld_start
        wait_for "$1" "${@:2}"
    fi
}

sql() { sqlite3 -readonly "$ctld_dir/state/$1.db" "$2"; }

check_world() {
    [ "$(sql state "SELECT group_concat(state||' '||exit_code) FROM v_job")" \
        = 'COMPLETED 0' ]
    [ "$(sql state "SELECT group_concat(attempt) FROM v_attempt")" = 1 ]
    for event in submit intent claim finish; do
        [ "$(sql state "SELECT count(*) FROM v_event
                        WHERE event = '$event'")" = 1 ]
    done
    [ "$(sql metrics "SELECT group_concat(rank||':'||iteration) FROM
        (SELECT * FROM v_iteration ORDER BY rank, iteration)")" \
        = '0:1,0:2,0:3' ]
    [ "$(cat "$ctld_dir/ran")" = ran ]
}

# One life with a death at call n; sets died.
one_life() { # n, "" or ":after"
    ctld_dir=$BATS_TEST_TMPDIR/d
    rm -rf "$ctld_dir"
    mkdir -m 700 "$ctld_dir"
    died=0
    write_spec
    if ! MGPU_FAIL_STORE=$1$2 ctld_start; then
        died=1 # while it came up
        ctld_kill
        ctld_start
    fi
    with_restart 20 submitted
    with_restart 20 job_has_ended 1
    check_world
    ctld_term || died=1 # its last calls are those of the end
}

sweep() { # "" or ":after"
    local n=1 died=1
    while [ "$died" = 1 ]; do
        echo "killed at call $n$1" # bats shows it when the test fails
        one_life "$n" "$1" # not after ||, where a failing [ is not seen
        n=$((n + 1))
    done
    echo "# killed at calls 1..$((n - 2))$1" >&3
    # load, submit, intent, grant, claim, report, end and rows at the least
    [ "$n" -gt 8 ]
}

@test "killed before every call of the store" { sweep ""; }
@test "killed after every call of the store" { sweep :after; }

# ---- in the middle of a training --------------------------------------------

n_rows() { sql metrics "SELECT count(*) FROM v_iteration"; }
rows_at_least() { [ "$(n_rows 2>/dev/null || echo 0)" -ge "$1" ]; }
spool_grew() { [ "$(stat -c %s "$ctld_dir/state/jobs/1/1/spool.0")" -gt "$1" ]; }

@test "killed in mid-training: it goes on, and every row is there once" {
    ctld_start
    api POST /v1/jobs -d '{"spec":{"version":1,"kind":"cv","name":"train",
        "model":{"width_mult":0.25},
        "dataset":{"source":"synthetic","image_size":64,"train_samples":3072,
                   "eval_samples":64},
        "train":{"epochs":2,"batch_size":8,"device":"host"},
        "resources":{"gpus":2}}}' >/dev/null
    wait_for 60 rows_at_least 6
    ctld_kill
    size=$(stat -c %s "$ctld_dir/state/jobs/1/1/spool.0")
    wait_for 60 spool_grew "$size" # nobody told the ranks
    ctld_start
    wait_for 120 job_has_ended 1
    [ "$(job_state 1)" = COMPLETED ]
    # 3072 samples, 2 ranks, 8 each: 192 iterations an epoch, 2 epochs.
    [ "$(n_rows)" = 768 ]
    [ "$(sql metrics 'SELECT count(*) FROM (SELECT DISTINCT rank, iteration
        FROM v_iteration WHERE iteration BETWEEN 1 AND 384)')" = 768 ]
    [ "$(sql metrics 'SELECT count(*) FROM v_epoch')" = 2 ]
    [ "$(sql state 'SELECT count(*) FROM v_attempt')" = 1 ]
    [ "$(sql state "SELECT count(*) FROM v_event
                    WHERE event IN ('claim', 'finish')")" = 2 ]
    ctld_term
}
