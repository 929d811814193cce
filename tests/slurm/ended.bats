#!/usr/bin/env bats
# ended.bats - Slurm ends an attempt, and its program saves its work and exits
# with 0 when it is told to stop. The job is not complete.

bats_require_minimum_version 1.5.0
load helpers

setup_file() { slurm_up --nodes 2 --gpus 4; }
teardown_file() { slurm_down; }
teardown() {
    scontrol update partitionname=batch preemptmode=requeue gracetime=0
    slurm_calm
}

# Not what repeats much of another test, but at night, which sets
# $MGPU_TEST_ALL.
at_night() { [ -n "${MGPU_TEST_ALL-}" ] || skip 'at night'; }

# submit_saving NAME [KEY=VALUE...]: it saves and exits with 0 on SIGTERM, and
# it is done when go is there.
submit_saving() {
    local name=$1
    shift
    submit_sh "$name" 1 1 "
        trap 'echo \$MGPU_ATTEMPT >>$BATS_TEST_TMPDIR/saved; exit 0' TERM
        $say_ran
        $wait_go" saves=true "$@"
}
has_saved() { grep -qx "$1" "$BATS_TEST_TMPDIR/saved" 2>/dev/null; }

# A training that lasts, and what it saves; prints its id.
submit_training() { # NAME
    (
        cd "$BATS_TEST_TMPDIR" || return
        export OMP_NUM_THREADS=1
        cat >"$1.yaml" <<YAML
version: 1
kind: cv
name: $1
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 28, train_samples: 64, eval_samples: 8}
train: {device: host, epochs: 10000, batch_size: 8, output_dir: $PWD/$1-out}
resources: {gpus: 1}
checkpoint: {every: 10000epoch, grace: 60s}
YAML
        shift
        "$MGPU_BIN/mgpu-submit" --parsable "$@" ./*.yaml
    )
}
# The attempt wrote a checkpoint when it was told to stop, and the next one
# continues there. srun may be gone before the rank logs it.
goes_on() { # JOB ATTEMPT
    local dir=$ctld_dir/state/jobs/$1 at
    at=$(sed -n 's/.*stopped by signal, checkpoint at iteration \([0-9]*\).*/\1/p' \
        "$dir/$2/report.json")
    [ "${at:-0}" -ge 1 ] || return
    wait_for 120 grep -qs "resumed at iteration $at of" "$dir/$(($2 + 1))/log"
}

# A job of higher priority needs all GPUs, and ends when it has them. scancel
# would take KillWait if it came before the script.
preempt() {
    local other
    other=$(sbatch --parsable -D "$TB/tmp" -o /dev/null -p urgent -N 2 \
        --gpus-per-node=4 --wrap true)
    wait_for 120 slurm_ended "$other"
}
is_at() { [ "$(job_field "$1" attempt)" = "$2" ] && job_is "$1" RUNNING; }

@test "preempted by Slurm three times: runs on, and costs no retry" {
    ctld_start
    id=$(submit_saving victim retry.max=0)
    # At once, though it must not be requeued; for good; with time to stop.
    n=1
    for mode in 'requeue gracetime=0' 'cancel gracetime=0' \
        'cancel gracetime=60'; do
        # shellcheck disable=SC2086 # two options
        scontrol update partitionname=batch preemptmode=$mode
        wait_for 120 has_run "$id.$n.0"
        preempt
        wait_for 60 has_saved $n
        n=$((n + 1))
    done
    wait_for 120 has_run "$id.4.0"
    touch "$go"
    wait_for 60 job_has_ended "$id"
    job_is "$id" COMPLETED
    [ "$(ran_lines)" = "$id.1.0 $id.2.0 $id.3.0 $id.4.0 " ]
    costs_no_retry "$id" 'was preempted'
    [ "$(grep -c 'requeue.*was preempted' "$BATS_TEST_TMPDIR/events")" = 3 ]
    # It may go back to its node.
    [ "$(sql state "SELECT count(*) FROM v_event
        WHERE event = 'requeue' AND detail LIKE '%exclude%'")" = 0 ]
}

@test "training that Slurm preempts with time to stop goes on" {
    at_night
    ctld_start
    scontrol update partitionname=batch preemptmode=cancel gracetime=60
    id=$(submit_training trains --set retry.max=0)
    wait_for 120 job_is "$id" RUNNING
    preempt
    wait_for 120 is_at "$id" 2
    costs_no_retry "$id" 'was preempted'
    goes_on "$id" 1
}

@test "a job whose node is set down runs again elsewhere, though it saved and exited with 0" {
    ctld_start
    id=$(submit_saving moves retry.backoff=0s)
    wait_for 60 has_run "$id.1.0"
    node=$(node_of "$id")
    scontrol update nodename="$node" state=down reason='power supply'
    wait_for 120 has_run "$id.2.0"
    [ "$(node_of "$id")" != "$node" ]
    has_saved 1
    touch "$go"
    wait_for 60 job_has_ended "$id"
    job_is "$id" COMPLETED
    [ "$(ran_lines)" = "$id.1.0 $id.2.0 " ]
    "$MGPU_BIN/mgpu-stat" --events "$id" | grep 'retry 1 of 2.*lost a node'
    sql state "SELECT detail FROM v_event WHERE event = 'requeue'" |
        grep "\"exclude\":\"$node\""
}

@test "drained, then ended there: training and a saving command go on" {
    at_night
    ctld_start
    id=$(submit_training trains --set retry.backoff=0s)
    wait_for 120 job_is "$id" RUNNING
    node=$(node_of "$id")
    other=$(submit_saving moves retry.backoff=0s)
    wait_for 60 has_run "$other.1.0"
    [ "$(node_of "$other")" = "$node" ]
    scontrol update nodename="$node" state=drain reason='to be replaced'
    scontrol update nodename="$node" state=down reason='to be replaced'
    wait_for 120 has_run "$other.2.0"
    wait_for 120 is_at "$id" 2
    goes_on "$id" 1
    touch "$go"
    wait_for 60 job_is "$other" COMPLETED
}

@test "scancel: what saved and exited with 0 is CANCELLED" {
    ctld_start
    id=$(submit_saving ends)
    wait_for 60 has_run "$id.1.0"
    scancel "$(native_id "$id")"
    wait_for 60 job_has_ended "$id"
    has_saved 1
    [ "$(job_state "$id") $(job_field "$id" exit_code)" = 'CANCELLED 143' ]
    [ "$(ran_lines)" = "$id.1.0 " ]
}
