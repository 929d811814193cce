# sweep.bash - a whole job, with the daemon killed at every call of its store.
#
#   load helpers
#   load sweep
#   @test "..." { sweep ""; }       # before each call; :after is after it
#
# The client knows nothing of that and submits by an idempotency key; a new
# daemon takes over each time. At the end there must be one job, COMPLETED,
# that ran once, with every row once. A file that has more to check defines
# check_more.
# shellcheck shell=bash
# shellcheck disable=SC2154 # ctld_dir is helpers.bash's

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

sql() { sqlite3 -readonly -cmd '.timeout 5000' "$ctld_dir/state/$1.db" "$2"; }

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
    check_more
}
check_more() { :; }

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
    with_restart 60 submitted
    with_restart 60 job_has_ended 1
    check_world
    ctld_term || died=1 # its last calls are those of the end
}

sweep() { # "" or ":after"
    local n=1 died=1
    while [ "$died" = 1 ]; do
        echo "killed at call $n$1" # bats shows it when the test fails
        one_life "$n" "$1"         # not after ||, where a failing [ is not seen
        n=$((n + 1))
    done
    echo "# killed at calls 1..$((n - 2))$1" >&3
    # load, submit, intent, grant, claim, report, end and rows at the least
    [ "$n" -gt 8 ]
}
