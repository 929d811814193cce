#!/usr/bin/env bats
# sql.bats - S15: mgpu-stat --sql reads the views of mgpu-db(5) through a
# private daemon: as a table, as CSV and as JSON; and nothing else.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    ctld_start
}
teardown() { ctld_stop; }

sql() { "$MGPU_BIN/mgpu-stat" --sql "$@"; }
# A job of this name that tells of three iterations; its id.
told() {
    cat >told.yaml <<'END'
version: 1
kind: command
command: [sh, -c, 'for i in 1 2 3; do echo "{\"iteration\":$i,\"t_iter\":0.5}"; done >>$MGPU_METRICS']
resources: {gpus: 1}
END
    "$MGPU_BIN/mgpu-submit" --parsable --set "name=$1" told.yaml
}

@test "--sql: a table, CSV, and JSON" {
    id=$(told ab)
    wait_for 60 job_is "$id" COMPLETED
    run sql "SELECT j.name, count(*) AS n, sum(t_iter) AS s, NULL AS gone
        FROM v_job AS j JOIN v_iteration AS i USING (job) GROUP BY job"
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "name  n    s  gone" ]
    [ "${lines[1]}" = "ab    3  1.5     -" ]
    [ "$(sql 'SELECT name FROM v_job' --no-header)" = ab ]
    [ "$(sql "SELECT name || ',b' AS name, job, NULL AS gone FROM v_job" \
        --export csv | tr -d '\r')" = $'name,job,gone\n"ab,b",1,' ]
    sql "SELECT iteration AS i FROM v_iteration ORDER BY 1" -c 2 >two
    [ "$(cat two)" = $'i\n1\n2\nonly the first 2 rows; --count N for more' ]
    sql "SELECT iteration AS i FROM v_iteration" --json >doc.json
    [ "$(json '$.rows[2][0]' <doc.json)" = 3 ]
    sql "SELECT job, state, exit_code, started_at FROM v_job" --jsonl >rows.json
    [ "$(json '$.row.state' <rows.json)" = COMPLETED ]
    "$MGPU_BIN/../tests/unit/tools/schema" doc.json rows.json
    # A name cannot move the cursor, nor can a column's.
    [ "$(sql "SELECT char(27) || '[31m' AS \"$(printf '\033')x\"" |
        grep -c "$(printf '\033')")" -eq 0 ]
}

@test "--sql: what writes is refused, and so is all but the views" {
    id=$(submit_command one true)
    wait_for 60 job_is "$id" COMPLETED
    before=$(sql "SELECT count(*) AS n FROM v_event" --no-header)
    for bad in "DELETE FROM event" "UPDATE job SET name = 'x'" \
        "ATTACH 'x.db' AS x" "PRAGMA journal_mode = DELETE" \
        "SELECT load_extension('x')" "SELECT sql FROM sqlite_schema" \
        "SELECT detail FROM event" "VACUUM INTO '$PWD/copy.db'" ""; do
        run sql "$bad"
        [ "$status" -eq 77 ] || { echo "$bad: $status" && false; }
        [[ $output == *"only the views of mgpu-db(5) can be read"* ]]
    done
    [ ! -e copy.db ]
    [ "$(sql "SELECT count(*) AS n FROM v_event" --no-header)" = "$before" ]
    run sql "SELECT nix FROM v_job"
    [ "$status" -eq 65 ]
    [[ $output == *"no such column: nix"* ]]
    for bad in "1" "--events" "--count 0" "--timeout x" "--export jsonl" \
        "--parsable" "--watch"; do
        # shellcheck disable=SC2086 # words
        run sql "SELECT 1" $bad
        [ "$status" -eq 64 ] || { echo "$bad: $status" && false; }
    done
    run --separate-stderr sql "DELETE FROM event" --json
    [ "$(json '$.error.code' <<<"$output")" = DENIED ]
    for body in '{}' '{"sql":1}' '{"sql":"SELECT 1","limit":0}' \
        '{"sql":"SELECT 1","limit":100001}' '{"sql":"SELECT 1","timeout_s":-1}' \
        '{"sql":"SELECT 1","timeout_s":301}'; do
        run api POST /v1/admin/sql -d "$body"
        [ "$status" -ne 0 ]
        [[ $output == *'"INVAL"'* ]]
    done
}

@test "--sql: a bomb is stopped, and the daemon serves meanwhile" {
    bomb="WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)
        SELECT count(*) FROM c"
    run sql "$bomb" --timeout 1s
    [ "$status" -eq 124 ]
    [[ $output == *"stopped after 1 s"* ]]
    sql "$bomb" --timeout 300s >out 2>&1 3>&- &
    pid=$!
    id=$(submit_command one true)
    wait_for 60 job_is "$id" COMPLETED
    kill -0 "$pid"
    # Nor does it keep a daemon from its end, or one from its answer.
    ctld_term
    status=0
    wait "$pid" || status=$?
    [ "$status" -ne 0 ]
    ctld_start
    [ "$(sql "SELECT name FROM v_job" --no-header)" = one ]
}
