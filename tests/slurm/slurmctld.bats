#!/usr/bin/env bats
# slurmctld.bats - slurmctld is away, hangs, and loses jobs.

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
