#!/usr/bin/env bats
# queue.bats - which jobs a filter leaves: mgpu-stat shows those and no
# others, and mgpu-cancel ends those and no others.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    ctld_start
    printf 'version: 1\nkind: command\ncommand: [sleep, "600"]\n' \
        >"$BATS_TEST_TMPDIR/job.yaml"
    held apple && held pear && held plum
    "$MGPU_BIN/mgpu-cancel" --quiet 2
}
teardown() { ctld_stop; }

held() {
    "$MGPU_BIN/mgpu-submit" --quiet --hold --set "name=$1" \
        "$BATS_TEST_TMPDIR/job.yaml"
}

# The names that mgpu-stat shows with these options, on one line.
names() {
    "$MGPU_BIN/mgpu-stat" --no-header "$@" | awk '{ printf "%s ", $2 }'
}

@test "mgpu-stat shows what its options ask for" {
    [ "$(names)" = "apple plum " ]
    [ "$(names -t all)" = "apple pear plum " ]
    [ "$(names -t CANCELLED)" = "pear " ]
    [ "$(names -t HELD,CANCELLED)" = "apple pear plum " ]
    [ "$(names -n 'p*')" = "plum " ]
    [ "$(names -t all -n 'p*')" = "pear plum " ]
    [ "$(names -c 1)" = "plum " ]
    [ "$(names -u nobody)" = "" ]
    [ "$(names -u me)" = "apple plum " ]
    [ "$(names -u all)" = "apple plum " ]
    [ "$(names -u "$(id -un)" -n apple)" = "apple " ]
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
