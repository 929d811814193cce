#!/usr/bin/env bats
# The databases are removed, replaced or truncated under the running daemon. It
# acknowledges nothing more, says so, and writes what it holds to a file beside,
# with which the next daemon has all that was acknowledged.

load helpers

setup() { ctld_start; }
teardown() { ctld_stop; }

state=
# As many jobs as the names; all of them wait.
submit_held() {
    local name
    for name in "$@"; do
        submit_command "$name" sleep 600 >/dev/null
    done
}
names() { api GET '/v1/jobs?fields=name&limit=100' | grep -o '"name":"[a-z]"' | sort; }

not_ready() {
    [ "$(curl --silent --unix-socket "$ctld_dir/sock" -o "$BATS_TEST_TMPDIR/readyz" \
        -w '%{http_code}' http://mgpu/readyz)" = 503 ] &&
        grep -q 'state.db was lost' "$BATS_TEST_TMPDIR/readyz"
}
is_rescued() { ls "$state"/state.db.rescued-* >/dev/null 2>&1; }

# lost COMMAND...: the jobs a and b were acknowledged when the command runs.
lost() {
    state=$ctld_dir/state
    "$MGPU_BIN/mgpu-admin" --quiet pause
    submit_held a b
    "$@"
    # Either is refused, before or after the daemon has noticed by itself.
    run submit_command c true
    [ "$status" -ne 0 ]
    grep -q '"code":"IO"' <<<"$output"
    grep -q 'while the daemon runs: nothing is stored any more' <<<"$output"
    wait_for 10 not_ready
    wait_for 10 is_rescued
    run submit_command d true
    [ "$status" -ne 0 ]
    file=$(cd "$state" && ls state.db.rescued-*)
    wait_for 10 grep -q " err store: all that was acknowledged is in a new file beside state.db.*$file" \
        "$ctld_dir/ctld.log"
    "$MGPU_BIN/mgpu-admin" status >"$BATS_TEST_TMPDIR/status"
    grep -q "^ lost .*state.db.* was " "$BATS_TEST_TMPDIR/status"
    grep -q "all that was acknowledged is in $file" "$BATS_TEST_TMPDIR/status"
    run "$MGPU_BIN/mgpu-admin" backup "$BATS_TEST_TMPDIR/backup"
    [ "$status" -eq 74 ]
    ctld_kill
    # The next daemon does not go on with what is there.
    run "$MGPU_BIN/mgpu-ctld" --local --state-dir "$state" --socket "$ctld_dir/sock2"
    [ "$status" -eq 74 ]
    grep -q "$file: see RECOVERY" <<<"$output"
    # RECOVERY of mgpu-ctld(8).
    mkdir "$BATS_TEST_TMPDIR/lost"
    for f in state.db state.db-wal state.db-shm; do
        [ ! -e "$state/$f" ] || mv "$state/$f" "$BATS_TEST_TMPDIR/lost"
    done
    mv "$state/$file" "$state/state.db"
    ctld_start
    [ "$(names)" = "$(printf '"name":"%s"\n' a b)" ]
    "$MGPU_BIN/mgpu-ctld" --fsck "$state"
    submit_held e
    [ "$(names)" = "$(printf '"name":"%s"\n' a b e)" ]
}

@test "state.db is removed" { lost rm "$ctld_dir/state/state.db"; }

remove_all() { rm "$ctld_dir/state/state.db"*; }
@test "state.db and its log are removed" { lost remove_all; }

other_over() {
    "$MGPU_BIN/mgpu-ctld" --local --state-dir "$BATS_TEST_TMPDIR/other" \
        --socket "$BATS_TEST_TMPDIR/other.sock" >/dev/null 2>&1 3>&- &
    local pid=$!
    wait_for 30 test -S "$BATS_TEST_TMPDIR/other.sock"
    kill "$pid"
    wait "$pid" || :
    mv "$BATS_TEST_TMPDIR/other/state.db" "$ctld_dir/state/state.db"
}
@test "another database is moved over state.db" { lost other_over; }

# Before the daemon has looked, most likely: it may not end without a copy.
@test "state.db is removed, and the daemon is stopped at once" {
    state=$ctld_dir/state
    "$MGPU_BIN/mgpu-admin" --quiet pause
    submit_held a b
    remove_all
    ctld_term
    file=$(cd "$state" && ls state.db.rescued-*)
    mv "$state/$file" "$state/state.db"
    ctld_start
    [ "$(names)" = "$(printf '"name":"%s"\n' a b)" ]
}

# Nothing is left to copy: what the daemon has in memory are the jobs.
@test "state.db is truncated" {
    state=$ctld_dir/state
    "$MGPU_BIN/mgpu-admin" --quiet pause
    submit_held a b
    truncate -s 0 "$state/state.db"
    run submit_command c true
    [ "$status" -ne 0 ]
    grep -q 'state.db was truncated while the daemon runs' <<<"$output"
    wait_for 10 not_ready
    wait_for 10 is_rescued
    file=$(cd "$state" && ls state.db.rescued-*.jsonl)
    wait_for 10 grep -q " err store: the content of state.db is lost.* jobs=2 .*$file" "$ctld_dir/ctld.log"
    [ "$(sed 's/.*"name":"\([a-z]*\)".*"command":\["\([a-z]*\)".*/\1 \2/' "$state/$file")" = \
        "$(printf '%s sleep\n' a b)" ]
    ctld_kill
    run "$MGPU_BIN/mgpu-ctld" --local --state-dir "$state" --socket "$ctld_dir/sock2"
    [ "$status" -eq 74 ]
    grep -q "$file: see RECOVERY" <<<"$output"
}

@test "the log of state.db is removed" { lost rm "$ctld_dir/state/state.db-wal"; }

submit_row() { # NAME: a job that reports an iteration
    # shellcheck disable=SC2016 # the job's shell expands it
    submit_command "$1" sh -c 'echo {\\\"iteration\\\":1} >>$MGPU_METRICS'
}
@test "metrics.db is removed: jobs run and end, its rows are rescued" {
    local state=$ctld_dir/state
    a=$(submit_row a)
    wait_for 60 job_is "$a" COMPLETED
    rm "$state"/metrics.db*
    b=$(submit_row b)
    wait_for 60 job_is "$b" COMPLETED
    wait_for 10 grep -q ' err store: all that was acknowledged is in a new file beside metrics.db' \
        "$ctld_dir/ctld.log"
    [ "$(api GET /readyz)" = 'ok, but metrics.db was lost: see mgpu-admin status' ]
    "$MGPU_BIN/mgpu-admin" status | grep -q '^ lost .*metrics.db was removed'
    ctld_term
    mv "$state"/metrics.db.rescued-* "$state/metrics.db"
    ctld_start
    job_is "$b" COMPLETED
    [ "$(sqlite3 -readonly "$state/metrics.db" "SELECT job FROM v_iteration")" = "$a" ]
}
