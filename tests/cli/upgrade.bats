#!/usr/bin/env bats
# upgrade.bats - what older programs wrote, and keys that were removed.
# shellcheck disable=SC2154 # bats sets output

bats_require_minimum_version 1.5.0
load helpers

setup() { cd "$BATS_TEST_TMPDIR" || exit 1; }
teardown() { ctld_stop; }

@test "F44: a state directory of before the first release is refused in one line" {
    ctld_start
    ctld_term
    for old in 'state.db 12' 'metrics.db 6'; do
        read -r file version <<<"$old"
        cp -a "$ctld_dir/state" old
        sqlite3 "old/$file" "PRAGMA user_version = $version"
        sum=$(sha256sum <"old/$file")
        run --separate-stderr timeout 60 "$MGPU_BIN/mgpu-ctld" --local --state-dir old
        [ "$status" -eq 78 ]
        echo "$stderr"
        [ "$(grep -c "$file: has schema version $version, of an mgpu before the first release: let its jobs end with that mgpu, and start this one with an empty directory" <<<"$stderr")" = 1 ]
        [ "$(sha256sum <"old/$file")" = "$sum" ]
        rm -r old
    done
}

@test "databases of the version before programs and parents are read, and get them" {
    ctld_start
    printf 'version: 1\nname: a\nkind: command\ncommand: ["true", "7"]\n' >a.yaml
    run "$MGPU_BIN/mgpu-submit" --wait a.yaml
    [ "$status" -eq 0 ]
    ctld_term
    state=$ctld_dir/state
    # As the first release wrote them: without three columns, and their views.
    sql=$MGPU_SRC/db/schema
    sqlite3 "$state/state.db" 'DROP VIEW v_attempt; ALTER TABLE attempt DROP COLUMN program'
    sqlite3 "$state/state.db" 'DROP VIEW v_job; ALTER TABLE job DROP COLUMN parent'
    sqlite3 "$state/metrics.db" 'DROP VIEW v_scaling; ALTER TABLE run DROP COLUMN program'
    sed -n '/^CREATE VIEW v_attempt/,/;$/p' "$sql/001-state.sql" | sqlite3 "$state/state.db"
    sed -n '/^CREATE VIEW v_job/,/;$/p' "$sql/001-state.sql" | sqlite3 "$state/state.db"
    sed -n '/^CREATE VIEW v_scaling/,/;$/p' "$sql/001-metrics.sql" | sqlite3 "$state/metrics.db"
    sqlite3 "$state/state.db" 'PRAGMA user_version = 13'
    sqlite3 "$state/metrics.db" 'PRAGMA user_version = 7'
    ctld_start
    [ "$("$MGPU_BIN/mgpu-stat" --json 1 | json '$.job.state')" = COMPLETED ]
    [ "$(sqlite3 -readonly "$state/state.db" 'SELECT count(*), count(program) FROM v_attempt')" = '1|0' ]
    [ "$(sqlite3 -readonly "$state/state.db" 'SELECT count(*), count(parent) FROM v_job')" = '1|0' ]
    run "$MGPU_BIN/mgpu-submit" --wait a.yaml
    [ "$status" -eq 0 ]
    [[ "$(sqlite3 -readonly "$state/state.db" 'SELECT program FROM v_attempt WHERE job = 2')" == program/true-* ]]
    [ "$(sqlite3 -readonly "$state/metrics.db" 'SELECT count(*) FROM v_scaling')" = 0 ]
}

@test "a key that was removed is refused by name, with what to use instead" {
    for line in 'mail_program: /usr/bin/true' 'ca_file: /a.pem' "webhook_allow: ['a.org']"; do
        printf 'version: 1\nnotify:\n  %s\n' "$line" >old.yaml
        run "$MGPU_BIN/mgpu-ctld" --check-config old.yaml
        [ "$status" -eq 78 ]
        [[ $output == *"old.yaml:3:3: error[E018]: 'notify.${line%%:*}' was removed"*"notify.program"* ||
            $output == *"old.yaml:3:3: error[E018]: 'notify.${line%%:*}' was removed"*"program: ["* ]]
    done
}
