#!/usr/bin/env bats
# testbed.bats - the cluster that the other files here are tested on.

bats_require_minimum_version 1.5.0

testbed=$BATS_TEST_DIRNAME/testbed

setup_file() {
    TB=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-tb.XXXXXX")
    export TB
    "$testbed" up "$TB" --nodes 2 --gpus 4 --owner "$$" 3>&-
}
teardown_file() { "$testbed" down "$TB" --purge; }

setup() { eval "$("$testbed" env "$TB")"; }

is_marked() { [ -n "$(grep -slzxF "MGPU_TESTBED=$1" /proc/[0-9]*/environ)" ]; }
none_marked() { ! is_marked "$1"; }
wait_for() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.05
    done
}
node_is() { [[ $(sinfo -h -p batch -N -n "$1" -o %T) == "$2" ]]; }
is_running() { [ "$(squeue -h -j "$1" -o %T)" = RUNNING ]; }

@test "each task sees its own GPU, and knows its node" {
    run srun -N 2 -n 4 --gpus-per-node=2 --gpus-per-task=1 \
        sh -c 'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"'
    [ "$(sort <<<"$output" | tr '\n' ';')" = \
        'node1 0;node1 1;node2 0;node2 1;' ]
}

@test "srun has PMIx" {
    srun --mpi=list 2>&1 | grep -w pmix
    srun -N 2 -n 2 --mpi=pmix sh -c '[ -n "$PMIX_RANK" ]'
}

@test "slurmctld can be stopped, killed, paused, and comes back" {
    "$testbed" ctld "$TB" stop
    run -1 "$testbed" status "$TB"
    run -1 "$testbed" ctld "$TB" stop
    "$testbed" ctld "$TB" start 3>&-
    "$testbed" ctld "$TB" kill
    "$testbed" ctld "$TB" start 3>&-
    "$testbed" ctld "$TB" pause
    "$testbed" ctld "$TB" cont
    run -1 "$testbed" ctld "$TB" start
    "$testbed" ctld "$TB" pause
    run -0 env TESTBED_STOP_SECONDS=1 "$testbed" ctld "$TB" stop
    [[ $output == *"slurmctld did not end at SIGTERM, and is killed" ]]
    "$testbed" ctld "$TB" start 3>&-
    wait_for 60 node_is node1 idle
    wait_for 60 node_is node2 idle
}

@test "a node whose slurmd was killed comes back" {
    "$testbed" node "$TB" node2 kill
    "$testbed" node "$TB" node2 start 3>&-
    wait_for 60 node_is node2 idle
    srun -w node2 true
}

@test "the urgent partition preempts" {
    id=$(sbatch --parsable -N 2 --gpus-per-node=4 --no-requeue \
        -o /dev/null --wrap 'sleep 600')
    wait_for 60 is_running "$id"
    srun -p urgent -N 2 --gpus-per-node=4 true
    wait_for 60 grep -q "^JobId=$id .*JobState=PREEMPTED" "$TB/log/jobcomp.log"
}

@test "down ends jobs, also stubborn ones, and removes everything" {
    dir=$TB/tmp/other
    "$testbed" up "$dir" --nodes 1 3>&-
    eval "$("$testbed" env "$dir")"
    id=$(sbatch --parsable -D "$dir/tmp" \
        --wrap 'trap "" TERM; env -u MGPU_TESTBED sleep 600 & sleep 600')
    wait_for 60 is_running "$id"
    "$testbed" node "$dir" node1 kill
    "$testbed" ctld "$dir" pause
    is_marked "$dir"
    "$testbed" down "$dir" --purge
    none_marked "$dir"
    [ ! -e "$dir" ]
}

@test "the private cluster ends with its owner" {
    dir=$TB/tmp/other
    sleep 600 3>&- &
    owner=$!
    "$testbed" up "$dir" --nodes 1 --owner "$owner" 3>&-
    is_marked "$dir"
    kill "$owner"
    wait_for 60 none_marked "$dir"
    wait_for 60 test ! -e "$dir"
}
