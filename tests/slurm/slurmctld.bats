#!/usr/bin/env bats
# slurmctld.bats - slurmctld is away, hangs, forgets, and gives ids again.

bats_require_minimum_version 1.5.0
load helpers

# MinJobAge: what has ended is forgotten within seconds.
setup_file() { slurm_up --nodes 2 --gpus 4 --extra MinJobAge=2; }
teardown_file() { slurm_down; }
teardown() { slurm_calm; }

@test "F19: slurmctld is down: jobs are accepted, wait, and run afterwards" {
    ctld_start
    long=$(submit_sh long 1 1 "$say_ran; $wait_go")
    wait_for 60 has_run "$long.1.0"
    slurmctld kill
    id=$(submit_sh later 1 1 "$say_ran")
    wait_for 30 reason_like "$id" 'SlurmUnavailable*'
    # Once that is known, nothing more is even tried.
    stays_queued() {
        last=$(submit_sh last 1 1 "$say_ran")
        wait_for 30 reason_like "$last" 'SlurmUnavailable*'
        job_is "$last" QUEUED
    }
    wait_for 60 stays_queued
    "$MGPU_BIN/mgpu-stat" --why "$last" | grep 'SlurmUnavailable.* since'
    [ "$(api GET /readyz)" = ok ]
    job_runs "$long"
    slurmctld start
    wait_for 60 job_is "$id" COMPLETED
    wait_for 60 job_is "$last" COMPLETED
    touch "$go"
    wait_for 60 job_has_ended "$long"
    [ "$(job_state "$long")" = COMPLETED ]
    [ -z "$(sort "$ran" | uniq -d)" ]
}

@test "F20: slurmctld hangs in a submit: adopted, never two" {
    # Seldom: the slower the machine, the likelier a scan hangs before it.
    poll=4s
    ctld_start
    hung=no ids=
    for n in 1 2 3 4 5 6; do
        wait_for 60 nodes_idle
        slurmctld pause
        id=$(submit_sh "hang$n" 1 1 "$say_ran")
        # Either it hung in the submit, or a scan hung and it was not sent.
        wait_for 30 reason_like "$id" 'Slurm*'
        [[ $(job_field "$id" reason) != SlurmUnknown* ]] || hung=yes
        slurmctld cont
        wait_for 60 job_has_ended "$id"
        [ "$(job_state "$id")" = COMPLETED ]
        [ "$(n_slurm_jobs "hang$n")" = 1 ]
        ids="$ids$id.1.0 "
        [ "$hung" = no ] || break
    done
    [ "$(ran_lines)" = "$ids" ]
    [ "$hung" = yes ]
}

@test "F20: it hangs in a submit, and is killed: submitted again, runs once" {
    ctld_start
    slurmctld pause
    id=$(submit_sh killed 1 1 "$say_ran")
    wait_for 30 reason_like "$id" 'Slurm*'
    slurmctld kill
    slurmctld start
    wait_for 90 job_has_ended "$id"
    [ "$(job_state "$id")" = COMPLETED ]
    [ "$(n_slurm_jobs killed)" = 1 ]
    [ "$(ran_lines)" = "$id.1.0 " ]
}

@test "F21: Slurm loses a job that did not start: submitted again, runs once" {
    ctld_start
    slurm_save
    # No node launches anything: the job is granted and not claimed.
    slurmd node1 pause
    slurmd node2 pause
    id=$(submit_sh lost 1 1 "$say_ran")
    wait_for 60 has_slurm_job lost
    # First slurmctld, which would see that they die, and requeue the job.
    slurmctld kill
    slurmd node1 kill
    slurmd node2 kill
    kill -STOP "$ctld_pid" # it would submit it again at once
    slurm_lose
    not has_slurm_job lost
    kill -CONT "$ctld_pid"
    slurmd node1 start
    slurmd node2 start
    wait_for 120 job_has_ended "$id"
    [ "$(job_state "$id")" = COMPLETED ]
    [ "$(ran_lines)" = "$id.1.0 " ]
}

@test "F21: Slurm loses a job that runs: no attempt runs twice" {
    ctld_start
    slurm_save
    id=$(submit_sh lost 2 2 "$say_ran; $wait_go" retry.max=1)
    wait_for 60 has_run "$id.1.0"
    wait_for 60 has_run "$id.1.1"
    slurm_lose
    # Attempt 2, or 3: the ids of both may be the same, too.
    runs_again() {
        resume_nodes
        [ "$(wc -l <"$ran")" -ge 4 ]
    }
    wait_for 120 runs_again
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
    [ -z "$(sort "$ran" | uniq -d)" ]
    wait_for 60 no_ranks "$id/1"
    costs_no_retry "$id" 'slurmctld was restarted'
}

# --events says what happened, and that the job is not to blame. For another
# loss it may be: where Slurm gives an id again whose old ranks are still being
# killed, the next attempt cannot be launched.
costs_no_retry() { # JOB WORDS
    "$MGPU_BIN/mgpu-stat" --events "$1" >"$BATS_TEST_TMPDIR/events"
    cat "$BATS_TEST_TMPDIR/events"
    grep "requeue.*$2" "$BATS_TEST_TMPDIR/events"
    not grep "retry 1 of.*$2" "$BATS_TEST_TMPDIR/events"
}

@test "F21: Slurm forgets that it started a job: it runs again, and once" {
    ctld_start
    other=$(stranger -N 2 --gpus-per-node=4)
    wait_for 60 slurm_is "$other" RUNNING
    id=$(submit_sh start 1 1 "$say_ran; $wait_go" retry.max=0)
    wait_for 60 has_slurm_job start
    slurm_save_busy
    scancel "$other"
    wait_for 60 has_run "$id.1.0"
    slurm_lose
    scancel "$other"
    runs_again() {
        resume_nodes
        has_run "$id.2.0"
    }
    wait_for 120 runs_again
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
    [ "$(ran_lines)" = "$id.1.0 $id.2.0 " ]
    wait_for 60 no_ranks "$id/1"
    costs_no_retry "$id" 'Slurm has forgotten that it started job'
}

# The batch step runs, and starts no rank before the test makes the file gate.
gate_srun() {
    gate=$BATS_TEST_TMPDIR/gate
    cat >"$BATS_TEST_TMPDIR/srun" <<SH
#!/bin/sh
until [ -e "$gate" ]; do sleep 0.05; done
exec srun "\$@"
SH
    chmod +x "$BATS_TEST_TMPDIR/srun"
    conf_slurm="  srun: $BATS_TEST_TMPDIR/srun"
}
batch_began() { [ -e "$ctld_dir/state/jobs/$1/1/started" ]; } # JOB
attempt_is_over() { # JOB: its first, which has a Slurm job
    job_has_ended "$1" || job_is "$1" QUEUED ||
        [ "$(job_field "$1" attempt)" -gt 1 ]
}
ran_once_at_no_cost() { # JOB
    wait_for 120 job_has_ended "$1"
    costs_no_retry "$1" 'slurmctld lost the attempt'
    not grep 'retry [0-9]* of' "$BATS_TEST_TMPDIR/events"
    job_is "$1" COMPLETED
    [ "$(ran_lines)" = "$1.2.0 " ]
}

# The next submission starts elsewhere, and finds the first one's batch step
# in the attempt's directory.
loses_unclaimed() { # RETRIES
    local node
    gate_srun
    ctld_start
    slurm_save
    id=$(submit_sh lost 1 1 "$say_ran" "retry.max=$1")
    wait_for 60 batch_began "$id"
    node=$(node_of "$id")
    slurmctld kill
    slurmd "$node" pause
    slurm_lose
    # slurmctld may still take the node for one that answers.
    scontrol update nodename="$node" state=drain reason=test
    wait_for 120 attempt_is_over "$id"
    slurmd "$node" cont
    touch "$gate"
    ran_once_at_no_cost "$id"
}

@test "F21: Slurm loses an unclaimed job: no retry is used, retry.max 0" {
    loses_unclaimed 0
}

@test "F21: Slurm loses an unclaimed job: no retry is used, retry.max 6" {
    loses_unclaimed 6
}

# When its exit file was written; and whether that is long enough ago: what is
# told within ten seconds of it is told at once.
wrote_exit() { stat -c %Y "$ctld_dir/state/jobs/$1/1/exit"; } # JOB
ended_before() { [ "$(($(date +%s) - $(wrote_exit "$2")))" -ge "$1" ]; }

@test "F22: ended and forgotten while the daemon was away: as it really ended" {
    ctld_start
    good=$(submit_sh good 1 1 "$say_ran; $wait_go")
    bad=$(submit_sh bad 2 2 "$say_ran; $wait_go; exit 7")
    wait_for 60 has_run "$good.1.0"
    wait_for 60 has_run "$bad.1.0"
    ids="$(native_id "$good") $(native_id "$bad")"
    ctld_kill
    touch "$go"
    for n in $ids; do wait_for 90 slurm_forgot "$n"; done
    for id in "$good" "$bad"; do wait_for 60 ended_before 15 "$id"; done
    ctld_start
    wait_for 60 job_has_ended "$good"
    [ "$(job_state "$good") $(job_field "$good" exit_code)" = 'COMPLETED 0' ]
    wait_for 60 job_has_ended "$bad"
    [ "$(job_state "$bad") $(job_field "$bad" exit_code)" = 'FAILED 7' ]
    for id in "$good" "$bad"; do
        ended=$(date -d "$(job_field "$id" ended)" +%s)
        wrote=$(wrote_exit "$id")
        [ "$ended" -ge "$((wrote - 2))" ]
        [ "$ended" -le "$((wrote + 2))" ]
    done
}

@test "F22: forgotten, and left no word: lost, and both witnesses are named" {
    ctld_start
    id=$(submit_sh gone 1 1 "$say_ran; $wait_go" retry.max=0)
    wait_for 60 has_run "$id.1.0"
    native=$(native_id "$id")
    ctld_kill
    touch "$go"
    wait_for 90 slurm_forgot "$native"
    find "$ctld_dir/state/jobs" \( -name exit -o -name report.json \) -delete
    ctld_start
    wait_for 60 job_has_ended "$id"
    job_is "$id" NODE_FAIL
    job_field "$id" reason
    reason_like "$id" '*exit*'
    reason_like "$id" '*Slurm*'
}

# The script ignores SIGTERM, so that Slurm kills all of it: no exit file.
@test "scancelled and forgotten while the daemon was away: CANCELLED" {
    ctld_start
    soft=$(submit_sh soft 2 2 "$say_ran; exec sleep 600")
    hard=$(submit_sh hard 1 1 "trap '' TERM; $say_ran; $wait_go")
    wait_for 60 has_run "$soft.1.0"
    wait_for 60 has_run "$soft.1.1"
    wait_for 60 has_run "$hard.1.0"
    ids="$(native_id "$soft") $(native_id "$hard")"
    ctld_kill
    scancel $ids
    for n in $ids; do wait_for 90 slurm_forgot "$n"; done
    ctld_start
    for id in $soft $hard; do
        wait_for 60 job_has_ended "$id"
        job_field "$id" reason
        job_is "$id" CANCELLED
        reason_like "$id" 'cancelled in Slurm, *batch step*has forgotten job*'
        "$MGPU_BIN/mgpu-stat" --why "$id" | grep 'cancelled in Slurm'
        "$MGPU_BIN/mgpu-stat" --events "$id" | grep 'cancelled in Slurm'
    done
    [ "$(n_slurm_jobs soft) $(n_slurm_jobs hard)" = '1 1' ]
    [ "$(ran_lines)" = "$soft.1.0 $soft.1.1 $hard.1.0 " ]
}

# Preempted or hit by a node's failure, it runs again all the same.
@test "preempted and forgotten while the daemon was away: runs again" {
    ctld_start
    id=$(submit_sh victim 2 8 "$say_ran; $wait_go")
    wait_for 60 has_run "$id.1.7"
    native=$(native_id "$id")
    ctld_kill
    other=$(stranger -p urgent -N 2 --gpus-per-node=4)
    wait_for 60 slurm_is "$other" RUNNING
    scancel "$other"
    wait_for 90 slurm_forgot "$native"
    ctld_start
    wait_for 60 has_run "$id.2.7"
    [ "$(sql state "SELECT count(*) FROM v_event WHERE event = 'requeue'
        AND detail LIKE '%was preempted%has forgotten it%'")" = 1 ]
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
}

# Held until the nodes have killed what Slurm has forgotten: a second job with
# the same id on a node would make Slurm drain it. slurmd knows a step by its
# socket.
no_steps() { [ -z "$(find "$TB/spool" -type s)" ]; }
held_stranger() { stranger --hold --gpus-per-node=1; }
check_untouched() {
    slurm_is "$1" PENDING
    wait_for 60 no_steps
    wait_for 60 nodes_idle
    scontrol release "$1"
    wait_for 60 slurm_is "$1" RUNNING
}

@test "F23: an id was given again: its new owner is not touched" {
    ctld_start
    slurm_save
    id=$(submit_sh lost 1 1 "$say_ran; $wait_go" retry.max=0)
    wait_for 60 has_run "$id.1.0"
    native=$(native_id "$id")
    ctld_kill
    slurm_lose
    other=$(held_stranger)
    [ "$other" = "$native" ]
    ctld_start
    "$MGPU_BIN/mgpu-cancel" "$id"
    wait_for 60 job_has_ended "$id"
    job_is "$id" CANCELLED
    check_untouched "$other"
}

@test "F23: cancelled while its id is a stranger's" {
    ctld_start
    slurm_save
    id=$(submit_sh lost 1 1 "$say_ran; $wait_go")
    wait_for 60 has_run "$id.1.0"
    native=$(native_id "$id")
    kill -STOP "$ctld_pid" # its next attempt would have that id
    slurm_lose
    other=$(held_stranger)
    kill -CONT "$ctld_pid"
    [ "$other" = "$native" ]
    "$MGPU_BIN/mgpu-cancel" "$id"
    wait_for 90 job_has_ended "$id"
    job_is "$id" CANCELLED
    check_untouched "$other"
}

# The step daemon stands still: slurmd can neither report its job to slurmctld
# nor end it, and takes the next submission for a second copy of it. The last
# test: Slurm 22.05 never frees the GPU of a job that it refuses so.
@test "F23: the next submission gets the same id on the same node" {
    gate_srun
    ctld_start
    scontrol update nodename=node2 state=drain reason=test
    slurm_save_busy
    id=$(submit_sh copy 1 1 "$say_ran" retry.max=0)
    wait_for 60 batch_began "$id"
    wait_for 60 has_place "$id"
    native=$(native_id "$id")
    stepd=$(stepd_of "$native")
    [ -n "$stepd" ]
    slurmctld kill
    kill -STOP "$stepd"
    slurm_lose
    is_second_copy() {
        grep "Job $native already running, do not launch second copy" \
            "$TB/log/slurmd-node1.log"
    }
    wait_for 60 is_second_copy
    kill -CONT "$stepd"
    wait_for 60 attempt_is_over "$id"
    grep -F "CANCELLED $native " "$ctld_dir/state/jobs/$id/1/told"
    touch "$gate"
    runs_again() {
        resume_nodes
        job_has_ended "$id"
    }
    wait_for 120 runs_again
    ran_once_at_no_cost "$id"
}
