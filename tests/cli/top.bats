#!/usr/bin/env bats
# top.bats - mgpu-stat --top on a terminal of its own, which script(1) makes:
# what is drawn, how it follows, and that the screen is given back.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export TERM=xterm SHELL=/bin/sh
    ctld_start
}
teardown() { ctld_stop; }

command -v script >/dev/null || skip_all=1
begin() { [ -z "${skip_all:-}" ] || skip "no script(1)"; }

# top_start [OPTION...]: keys come by descriptor 9, what is drawn is in screen.
top_start() {
    rm -f keys screen
    mkfifo keys
    exec 9<>keys
    script -qefc "stty cols 80 rows 24; echo \$\$ >pid
        exec $MGPU_BIN/mgpu-stat --top $*" screen <keys >/dev/null 2>&1 3>&- 9>&- &
    top=$!
}

shows() { grep -qaF -- "$1" screen; }

# top_ends STATUS: and the screen is as it was before.
top_ends() {
    local status=0
    wait_for 150 process_gone "$top" || kill "$top"
    wait "$top" || status=$?
    exec 9>&-
    [ "$status" -eq "$1" ] || { echo "status $status" && false; }
    # The other screen, once; and afterwards the first again, with its cursor.
    [ "$(grep -ac $'\e\\[?1049h' screen)" -eq 1 ]
    tail -n 2 screen | grep -qa $'\e\\[?25h\e\\[?1049l'
}

@test "--top: GPUs, what runs and what waits, as they change; q ends" {
    begin
    id=$(submit_command hog sleep 600)
    wait_for 150 job_claimed
    top_start
    wait_for 150 shows ":0  slot  "
    wait_for 150 grep -qa "  $id [^ ]* hog" screen
    wait_for 150 shows "1 allocated, 1 idle | 1 running, 0 queued"
    submit_command next sleep 600 >/dev/null
    submit_command third sleep 600 >/dev/null
    wait_for 150 shows "WaitingForGpus: needs 1, 0 free"
    wait_for 150 shows "2 allocated, 0 idle | 2 running, 1 queued"
    "$MGPU_BIN/mgpu-cancel" --quiet "$id"
    wait_for 150 shows "2 allocated, 0 idle | 2 running, 0 queued"
    printf q >&9
    top_ends 0
    [ "$(sed 's/\x1b\[[0-9;?]*[A-Za-z]//g' screen | tr '\r' '\n' |
        grep -av '^Script ' | LC_ALL=C.UTF-8 wc -L)" -le 80 ]
    # Of the cluster all is said, though no job is chosen.
    top_start -n zz
    wait_for 150 shows "2 allocated, 0 idle | 2 running, 0 queued"
    printf q >&9
    top_ends 0
}
job_claimed() { job_is 1 STARTING || job_is 1 RUNNING; }

@test "--watch and --top: time goes by though nothing changes" {
    begin
    sed 's/^        //' >long.yaml <<'END'
        version: 1
        kind: command
        name: long
        command: [sleep, "600"]
        resources: {gpus: 2, time_limit: 1h}
END
    "$MGPU_BIN/mgpu-submit" --quiet long.yaml
    "$MGPU_BIN/mgpu-submit" --quiet --set name=next long.yaml
    wait_for 150 job_is 1 RUNNING
    many_times() { # MINUTES, a pattern
        [ "$(grep -aoE "\b$1:[0-9]{2}\b" screen | sort -u | wc -l)" -ge 3 ]
    }
    top_start
    wait_for 150 many_times '[0-9]'
    printf q >&9
    top_ends 0
    rm screen
    script -qefc "stty cols 80 rows 24; exec $MGPU_BIN/mgpu-stat --watch \
        --timeout 150s -h -o id,elapsed,remaining" screen </dev/null >/dev/null \
        2>&1 3>&- &
    watch=$!
    wait_for 150 many_times '[0-9]'
    wait_for 150 many_times '5[0-9]'
    kill "$watch"
    wait "$watch" || :
    # Elsewhere than on a terminal each picture is a change.
    "$MGPU_BIN/mgpu-stat" --watch -i 0.25 --timeout 3s -h -o id,elapsed >table
    [ "$(grep -c '^1 ' table)" -le 4 ]
}

@test "--top: Ctrl-C, a signal and --timeout give the screen back" {
    begin
    top_start
    wait_for 150 shows "idle | 0 running"
    printf '\003' >&9
    top_ends 0
    top_start -i 0.25
    wait_for 150 shows "idle | 0 running"
    kill -TERM "$(cat pid)"
    top_ends 143
    top_start --timeout 1s
    top_ends 0
    # A daemon that went away: it is said, and found again.
    top_start
    wait_for 150 shows "idle | 0 running"
    ctld_kill
    wait_for 150 shows "the daemon is away"
    ctld_start
    submit_command back sleep 600 >/dev/null
    wait_for 150 shows "back"
    printf Q >&9
    top_ends 0
}

@test "states are set off on a terminal, unless it should not be" {
    begin
    submit_command hold sleep 600 >/dev/null
    wait_for 150 job_claimed
    on_terminal() { # VARIABLE=VALUE...
        env "$@" script -qefc "$MGPU_BIN/mgpu-stat" seen </dev/null >/dev/null
    }
    on_terminal TERM=xterm
    grep -qa $' \e\\[32m\\(R\\|ST\\)\e\\[0m ' seen
    on_terminal TERM=xterm NO_COLOR=
    grep -qa $'\e\\[32m' seen
    for plain in NO_COLOR=1 TERM=dumb; do
        on_terminal TERM=xterm "$plain"
        grep -qa ' hold ' seen
        [ "$(grep -ac $'\e\\[[0-9]*m' seen)" -eq 0 ]
    done
}

@test "--top: not on what is no terminal, but once as JSON" {
    run -64 "$MGPU_BIN/mgpu-stat" --top
    [[ $output == *"--top needs a terminal"* ]]
    run -64 "$MGPU_BIN/mgpu-stat" --top -o ids
    run -64 "$MGPU_BIN/mgpu-stat" --top 1
    run -64 "$MGPU_BIN/mgpu-stat" --top --nodes
    run -64 "$MGPU_BIN/mgpu-stat" --top -o id
    id=$(submit_command hog sleep 600)
    wait_for 150 job_claimed
    submit_command next sleep 600 >/dev/null
    submit_command third sleep 600 >/dev/null
    wait_for 150 waits_third
    "$MGPU_BIN/mgpu-stat" --top --json >top.json
    [ "$(json '$.gpus[0].job' <top.json)" = 1 ]
    [ "$(json '$.gpus[1].name' <top.json)" = next ]
    [ "$(json '$.jobs[1].id' <top.json)" = 2 ]
    [ "$(json '$.queue[0].id' <top.json)" = 3 ]
    "$MGPU_BIN/mgpu-stat" -o jsonl -i 1 --top >lines.json
    # Of GPUs that other jobs have it is known, too, who they are.
    "$MGPU_BIN/mgpu-stat" --top --json -n third >third.json
    [ "$(json '$.gpus[0].name' <third.json)" = hog ]
    [ "$(json '$.jobs[0]' <third.json)" = "" ]
    "$MGPU_BIN/../tests/unit/tools/schema" top.json lines.json third.json
}
waits_third() {
    [ "$("$MGPU_BIN/mgpu-stat" -t RUNNING,STARTING -o ids | wc -l)" = 2 ] &&
        [ "$(job_state 3)" = QUEUED ]
}

@test "--watch --since: what was shown alive is shown to its end" {
    mark=$BATS_TEST_TMPDIR/mark
    is_over() { grep -q COMPLETED "$1"; }
    submit_command one sh -c "until [ -e $mark ]; do sleep 0.1; done"
    wait_for 60 job_is 1 RUNNING
    # Whatever ends now has ended before.
    (wait_for 60 grep -qs RUNNING lines && touch "$mark") 3>&- &
    follow_until is_over lines \
        "$MGPU_BIN/mgpu-stat" --watch --json --since 2036-01-01
    rm "$mark"
    submit_command two sh -c "until [ -e $mark ]; do sleep 0.1; done"
    wait_for 60 job_is 2 RUNNING
    (wait_for 60 grep -qs two rows && touch "$mark") 3>&- &
    follow_until is_over rows \
        "$MGPU_BIN/mgpu-stat" --watch -h -o name,state --since 2036-01-01
    run grep one rows
    [ "$status" -eq 1 ]
}
