#!/usr/bin/env bats
# nodes.bats - nodes fail, are drained and come back; ranks hang, the network
# is cut.

bats_require_minimum_version 1.5.0
load helpers

# With 3 s, slurmctld 24.11 sets down nodes that answer late on a busy machine,
# and leaves them so.
setup_file() {
    node_timeout=3
    ! slurm_is_from 24 5 || node_timeout=10
    export node_timeout
    slurm_up --nodes 2 --gpus 4 --extra "SlurmdTimeout=$node_timeout"
}
teardown_file() { slurm_down; }
teardown() {
    [ -z "$proxy" ] || kill -KILL "$proxy"
    slurm_calm
}
proxy=

stat() { "$MGPU_BIN/mgpu-stat" "$@"; }

@test "F16: a drained node is shown with its reason and gets nothing new" {
    ctld_start
    scontrol update nodename=node1 state=drain reason='fan is broken'
    shown() { stat --nodes | grep -q '^node1 .* drained .*fan is broken'; }
    wait_for 30 shown
    id=$(submit_sh one 1 4 "$say_ran; $wait_go")
    wait_for 60 has_run "$id.1.0"
    [ "$(node_of "$id")" = node2 ]
    wide=$(submit_sh wide 2 2 true)
    wait_for 30 reason_like "$wide" '*'
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
    job_is "$wide" QUEUED
    not has_slurm_job wide
    [ "$(stat --nodes --json | json '$.nodes[0].state')" = drained ]
    scontrol update nodename=node1 state=resume
    wait_for 60 job_is "$wide" COMPLETED
}

@test "a node that mgpu-admin drains gets nothing of ours, and stays Slurm's" {
    ctld_start
    known() { stat --nodes | grep -q '^node1 '; }
    wait_for 30 known # the first look at Slurm may come after the start
    shown() { stat --nodes | grep -q "^node1 .*drained by uid 0: fan"; }
    "$MGPU_BIN/mgpu-admin" --quiet drain --reason fan node1
    wait_for 30 shown
    id=$(submit_sh one 1 1 "$say_ran; $wait_go")
    wait_for 60 has_run "$id.1.0"
    [ "$(node_of "$id")" = node2 ]
    sinfo --noheader --nodes=node1 --format=%T | grep -qv drain
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
    "$MGPU_BIN/mgpu-admin" --quiet resume node1
    wide=$(submit_sh wide 2 2 true)
    wait_for 60 job_is "$wide" COMPLETED
}

@test "a node is draining while anybody is on it, also without a GPU" {
    ctld_start
    # As a look at Slurm found it that was later than what we did there.
    seen() { # a REASON, another one each time
        scontrol update nodename=node1 state=drain reason="$1"
        says() { stat --nodes | grep -q "^node1 .*drained by .*: $1$"; }
        wait_for 30 says "$1"
        stat --nodes --json | json '$.nodes[0].state'
    }
    id=$(stranger -w node1 -n 1)
    wait_for 60 slurm_is "$id" RUNNING
    [ "$(seen one)" = draining ]
    scontrol suspend "$id"
    wait_for 30 slurm_is "$id" SUSPENDED
    # To Slurm 22.05 it is drained then, to 24.11 it is not.
    slurm_is_from 24 5 || wait_for 30 node_is node1 drained
    [ "$(seen two)" = draining ]
    scontrol resume "$id"
    wait_for 30 node_is node1 draining
    # It cannot be ended for now.
    step=$(stepd_of "$id")
    kill -STOP "$step"
    scancel "$id"
    wait_for 30 slurm_is "$id" COMPLETING
    [ "$(seen three)" = draining ]
    slurm_is "$id" COMPLETING
    kill -CONT "$step"
    wait_for 60 node_is node1 drained
    [ "$(seen four)" = drained ]
}

@test "a node that was drained and does not answer is down" {
    ctld_start
    scontrol update nodename=node1 state=drain reason=fan
    shown() { stat --nodes | grep -q "^node1 .* $1 .* $2"; }
    wait_for 30 shown drained 'drained by .*: fan'
    # It is not set down itself for as long as this takes.
    sed -i "s/^SlurmdTimeout=$node_timeout\$/&00/" "$SLURM_CONF"
    scontrol reconfigure
    slurmd node1 kill
    scontrol update nodename=node1 state=noresp
    node_is node1 'drained*'
    wait_for 30 shown down 'not responding, drained by .*: fan'
    sed -i "s/^\(SlurmdTimeout=$node_timeout\)00\$/\1/" "$SLURM_CONF"
    scontrol reconfigure
    slurmd node1 start
    wait_for 60 shown drained
}

@test "F16: a node goes down: NODE_FAIL, and the job runs again elsewhere" {
    ctld_start
    id=$(submit_sh one 1 4 "$say_ran; $wait_go")
    wait_for 60 has_run "$id.1.0"
    node=$(node_of "$id")
    scontrol update nodename="$node" state=down reason='power supply'
    wait_for 60 has_run "$id.2.0"
    [ "$(node_of "$id")" != "$node" ]
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
    [ "$(sql state "SELECT count(*) FROM v_attempt")" = 2 ]
    sql state "SELECT reason FROM v_attempt WHERE attempt = 1" |
        grep -i 'node'
    wait_for 60 no_ranks "$id/1"
}

@test "exclude_node: it waits for another node, where its own is free" {
    ctld_start
    where="tr '\\0' '\\n' </proc/\$PPID/environ |
        sed -n \"s/^SLURMD_NODENAME=/\$MGPU_JOB_ID.\$MGPU_ATTEMPT /p\" >>$ran"
    busy=$(stranger -w node2 --gpus-per-node=4)
    wait_for 60 slurm_is "$busy" RUNNING
    id=$(submit_sh away 1 1 "$where; [ \$MGPU_ATTEMPT -gt 1 ] ||
        kill -SEGV \$\$" 'retry.rules=["signal:SEGV exclude_node"]' \
        retry.backoff=0s)
    is_again() { stat --events "$id" | grep -q 'retry 1 of 2'; }
    wait_for 60 is_again
    # Others run there meanwhile.
    other=$(submit_sh other 1 1 "$where" resources.time_limit=1m)
    wait_for 60 job_is "$other" COMPLETED
    not has_run "$id.2 node1"
    scancel "$busy"
    wait_for 60 job_is "$id" COMPLETED
    [ "$(ran_lines)" = "$id.1 node1 $id.2 node2 $other.1 node1 " ]
}

@test "F16 F18: a node dies, its ranks freeze and come back: fenced" {
    ctld_start
    id=$(submit_sh split 1 4 "$say_ran; $wait_go")
    for n in 0 1 2 3; do wait_for 60 has_run "$id.1.$n"; done
    node=$(node_of "$id")
    first=$(ranks "$id/1")
    # shellcheck disable=SC2086 # several
    kill -STOP $first
    slurmd "$node" kill
    # Slurm gives it up, then it runs on the other node: nobody there knows
    # that the old ranks exist.
    wait_for 120 has_run "$id.2.0"
    # shellcheck disable=SC2086
    kill -CONT $first
    wait_for 60 no_ranks "$id/1"
    job_runs "$id"
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
    [ "$(ran_lines)" = "$(for r in 1 2; do for n in 0 1 2 3; do
        printf '%s.%s.%s ' "$id" "$r" "$n"; done; done)" ]
}

@test "F11: ranks that hang, which Slurm does not notice, are given up" {
    lost_after=1h
    ctld_start
    id=$(submit_sh hang 2 2 "$say_ran; $wait_go")
    wait_for 60 has_run "$id.1.0"
    wait_for 60 has_run "$id.1.1"
    # shellcheck disable=SC2046 # several
    kill -STOP $(ranks "$id/1")
    # So short only while they hang: those that do not may be slow.
    "$MGPU_BIN/mgpu-admin" --quiet policy set watchdog.node_lost_after=3s
    given_up() {
        [ "$(sql state "SELECT count(*) FROM v_event
            WHERE event = 'requeue'")" = 1 ]
    }
    wait_for 60 given_up
    "$MGPU_BIN/mgpu-admin" --quiet policy set watchdog.node_lost_after=1h
    wait_for 90 has_run "$id.2.1"
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
    wait_for 60 no_ranks "$id/1"
    [ "$(n_slurm_jobs hang)" = 2 ]
    [ "$(ran_lines)" = "$id.1.0 $id.1.1 $id.2.0 $id.2.1 " ]
}

@test "F17: the network is cut and heals: the job goes on, each row is there once" {
    MGPU_TESTBED=$TB "$BATS_TEST_DIRNAME/proxy" "$BATS_TEST_TMPDIR/port" \
        "$MGPU_TEST_PORT" 3>&- &
    proxy=$!
    wait_for 30 test -e "$BATS_TEST_TMPDIR/port"
    worker_port=$(cat "$BATS_TEST_TMPDIR/port")
    lost_after=1h # it is not about that, and the machine may be slow
    ctld_start
    id=$(submit_sh cut 2 2 "$say_ran
        for i in \$(seq 80); do
            [ \$i != 20 ] || until [ -e $BATS_TEST_TMPDIR/cut ]; do sleep 0.1; done
            echo \"{\\\"iteration\\\":\$i}\" >>\$MGPU_METRICS
            echo \$i >$BATS_TEST_TMPDIR/at.\$MGPU_RANK
            sleep 0.05
        done")
    rows() { sql metrics 'SELECT count(*) FROM v_iteration'; }
    rows_at_least() { [ "$(rows 2>/dev/null || echo 0)" -ge "$1" ]; }
    at_least() { # of both ranks; a file may be empty for a moment
        local n
        for n in 0 1; do
            n=$(cat "$BATS_TEST_TMPDIR/at.$n")
            [ "${n:-0}" -ge "$1" ] || return 1
        done
    }
    wait_for 60 rows_at_least 4
    kill -STOP "$proxy"
    touch "$BATS_TEST_TMPDIR/cut"
    wait_for 90 at_least 70
    [ "$(rows)" -le 38 ]
    job_runs "$id"
    kill -CONT "$proxy"
    wait_for 60 job_has_ended "$id"
    [ "$(job_state "$id")" = COMPLETED ]
    [ "$(rows)" = 160 ]
    [ "$(ran_lines)" = "$id.1.0 $id.1.1 " ]
}
