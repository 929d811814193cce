#!/usr/bin/env bats
# output.bats - B24: whatever a command prints, a full disk and a standard
# output that is closed are status 74, and a reader that went away is no error.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    ctld_start
}
teardown() { ctld_stop; }

# HOW COMMAND: its status, in $status; what it says in `err`.
into() {
    status=0
    case $1 in
    full) timeout 60 bash -c "\"\$MGPU_BIN\"/$2 >/dev/full 2>err" ;;
    closed) timeout 60 bash -c "\"\$MGPU_BIN\"/$2 >&- 2>err" ;;
    gone) timeout 60 bash -c "exec 2>err; set -o pipefail
        \"\$MGPU_BIN\"/$2 | true" ;;
    esac || status=$?
}

@test "B24: each command into a full disk, a closed output, to nobody" {
    printf 'version: 1\n' >conf.yaml
    printf 'version: 1\nkind: command\ncommand: [sleep, "600"]\n' >job.yaml
    printf 'version: 2\n' >bad.yaml
    cat >rows.yaml <<'YAML'
version: 1
kind: command
command:
  - sh
  - -c
  - echo '{"iteration":1,"loss":0.5}' >"$MGPU_METRICS"; echo word
YAML
    "$MGPU_BIN/mgpu-submit" --quiet rows.yaml
    wait_for 60 job_is 1 COMPLETED
    submit_command sleeps sleep 600
    "$MGPU_BIN/mgpu-admin" pause --reason "so that job 3 waits"
    submit_command waits true
    while read -r line; do
        for how in full closed; do
            why='No space left on device'
            [ "$how" = full ] || why='Bad file descriptor'
            into "$how" "$line"
            [ "$status" -eq 74 ] || {
                echo "$how: $line: $status"
                cat err
                false
            }
            grep -q "standard output: $why" err || {
                echo "$how: $line: it does not say why"
                cat err
                false
            }
        done
        into gone "$line"
        [ "$status" -eq 0 ] && [ ! -s err ] || {
            echo "gone: $line: $status"
            cat err
            false
        }
    done <<'END'
mgpu-stat
mgpu-stat --json
mgpu-stat -o ids
mgpu-stat -o help
mgpu-stat --help
mgpu-stat --version
mgpu-stat 1
mgpu-stat --why 3
mgpu-stat --metrics 1
mgpu-stat --metrics --json 1
mgpu-stat --eff 1
mgpu-stat --scaling 1
mgpu-stat --events 1
mgpu-stat --logs 1
mgpu-stat --nodes
mgpu-stat --gpus
mgpu-stat --status
mgpu-stat --report table2 1
mgpu-submit --show job.yaml
mgpu-submit --validate job.yaml
mgpu-submit --dry-run job.yaml
mgpu-submit --dry-run --json job.yaml
mgpu-submit --hold job.yaml
mgpu-submit --hold --json job.yaml
mgpu-submit --list-templates
mgpu-submit --explain E024
mgpu-submit --help
mgpu-cancel --help
mgpu-cancel --version
mgpu-admin --help
mgpu-admin status
mgpu-admin --json status
mgpu-admin policy show
mgpu-admin policy explain
mgpu-admin log
mgpu-admin fsck
mgpu-ctld --help
mgpu-ctld --version
mgpu-ctld --check-config conf.yaml
mgpu-worker --help
mgpu-worker --version
END
    # A job that was accepted is there, though its number could not be told.
    [ "$("$MGPU_BIN/mgpu-stat" --no-header -t HELD -o id | wc -l)" = 6 ]
    for how in full closed; do
        for json in '' --json; do
            into "$how" "mgpu-submit --hold $json job.yaml"
            id=$("$MGPU_BIN/mgpu-stat" --no-header -t HELD -o id | tail -n 1)
            grep -qx "mgpu-submit: job ${id// /} was submitted, but its number could not be written to standard output" err || {
                cat err
                false
            }
        done
    done
    # What is wrong counts more than that nobody could be told.
    into full 'mgpu-submit --validate bad.yaml'
    [ "$status" -eq 65 ]
}

@test "a command that follows ends when its output cannot be written" {
    submit_command says sh -c 'echo word; sleep 600' >/dev/null
    wait_for 60 has_said
    while read -r line; do
        into full "$line"
        [ "$status" -eq 74 ] || {
            echo "$line: $status"
            cat err
            false
        }
        grep -q 'standard output: No space left on device' err
    done <<'END'
mgpu-stat --logs --follow 1
mgpu-stat --watch
mgpu-stat --watch --json
mgpu-stat --watch -o ids
END
}
has_said() { [ "$("$MGPU_BIN/mgpu-stat" --logs 1 2>/dev/null)" = word ]; }
