#!/usr/bin/env bats
# forgotten.bats - slurmctld forgets what has ended, and gives ids again.

bats_require_minimum_version 1.5.0
load helpers

# MinJobAge: what has ended is forgotten within seconds.
setup_file() { slurm_up --nodes 2 --gpus 4 --extra MinJobAge=2; }
teardown_file() { slurm_down; }
teardown() { slurm_calm; }

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

# On another node than the job whose id it has, as slurmd refuses a second job
# with an id that it launched before and was never told to end, and Slurm then
# drains the node. Held until the nodes have killed what Slurm has forgotten.
# slurmd knows a step by its socket.
no_steps() { [ -z "$(find "$TB/spool" -type s)" ]; }
held_stranger() { stranger --hold --gpus-per-node=1 --exclude="$1"; } # NODE
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
    node=$(node_of "$id")
    ctld_kill
    slurm_lose
    other=$(held_stranger "$node")
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
    node=$(node_of "$id")
    kill -STOP "$ctld_pid" # its next attempt would have that id
    slurm_lose
    other=$(held_stranger "$node")
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
