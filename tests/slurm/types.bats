#!/usr/bin/env bats
# types.bats - a node with GPUs of two types: both are given out.

bats_require_minimum_version 1.5.0
load helpers

setup_file() { slurm_up --nodes 1 --gpus 2 --also a100:2; }
teardown_file() { slurm_down; }
teardown() { slurm_calm; }

stat() { "$MGPU_BIN/mgpu-stat" "$@"; }
nodes_like() { stat --nodes | tr -s ' ' | grep -q "^node1 $1"; }

# A script: each rank says "NAME.RANK GPU".
show_gpu() { # NAME
    echo "echo $1.\$MGPU_RANK \$CUDA_VISIBLE_DEVICES >>$ran"
}
is_waiting() { reason_like "$1" 'WaitingForGpus*'; }

@test "jobs of both types at once; a new daemon finds both" {
    conf_slurm='  submit_ahead: 0'
    ctld_start
    wait_for 30 nodes_like 'h100 2 2 up'
    nodes_like 'a100 2 2 up'
    named=$(submit_sh named 1 2 "$(show_gpu named); $wait_go" \
        resources.gpu_type=a100)
    wait_for 60 has_run 'named.1 3'
    any=$(submit_sh any 1 2 "$(show_gpu any); $wait_go")
    wait_for 60 has_run 'any.1 1'
    wait_for 60 has_place "$any"
    [ "$(job_field "$named" place) $(job_field "$any" place)" = \
        'node1:2,3 node1:0,1' ]
    wait_for 30 nodes_like "h100 2 0 up .* 0,1 mgpu $any.1"
    nodes_like "a100 2 0 up .* 2,3 mgpu $named.1"
    more=$(submit_sh more 1 1 "$(show_gpu more)" resources.gpu_type=h100)
    wait_for 30 is_waiting "$more"
    stat --gpus | tr -s ' ' | grep -q "^node1:0 h100 .* $any "
    stat --gpus | tr -s ' ' | grep -q "^node1:3 a100 .* $named "
    run stat --why "$more"
    [[ $output == *'may use    1 node with 2 GPUs, 0 free now'* ]]
    [[ $output == *' any '* && $output != *named* ]] # who has them
    ctld_kill
    ctld_start
    wait_for 60 is_waiting "$more"
    wait_for 30 nodes_like "a100 2 0 up .* 2,3 mgpu $named.1"
    job_runs "$named"
    job_runs "$any"
    [ "$(job_field "$named" place) $(job_field "$any" place)" = \
        'node1:2,3 node1:0,1' ]
    not has_slurm_job more # it is asked for nothing that is taken
    stat --why "$any" | grep 'type h100'
    touch "$go"
    for id in "$named" "$any" "$more"; do
        wait_for 60 job_is "$id" COMPLETED
    done
    [ "$(ran_lines)" = \
        'any.0 0 any.1 1 more.0 0 named.0 2 named.1 3 ' ] ||
        [ "$(ran_lines)" = 'any.0 0 any.1 1 more.0 1 named.0 2 named.1 3 ' ]
    [ "$(n_slurm_jobs named) $(n_slurm_jobs any)" = '1 1' ]
}

@test "memory of a GPU, by its type: which is asked for, or can never be" {
    conf_slurm='  gpu_memory: {h100: 80G, A100: 40G}'
    ctld_start
    wait_for 30 nodes_like 'a100 2 2 up'
    small=$(submit_sh small 1 1 "$(show_gpu small); $wait_go" \
        resources.gpu_memory=..50G)
    large=$(submit_sh large 1 1 "$(show_gpu large); $wait_go" \
        resources.gpu_memory=88G..)
    wait_for 60 has_place "$small"
    wait_for 60 has_place "$large"
    [[ $(job_field "$small" place) == node1:[23] ]]
    [[ $(job_field "$large" place) == node1:[01] ]]
    run stat --why "$small"
    [[ $output == *'GPU memory ..50G'*'may use    1 node with 2 GPUs'* ]]
    run submit_sh huge 1 1 true resources.gpu_memory=89G..
    [[ $output == *'no such node has GPUs of 89G.. each; there is: h100 80G, a100 40G; --force-queue keeps it pending [E201]'* ]]
    touch "$go"
    for id in "$small" "$large"; do
        wait_for 60 job_is "$id" COMPLETED
    done
}

@test "GPUs of other jobs count as taken by type, and a drain holds for the whole node" {
    conf_slurm='  submit_ahead: 0'
    ctld_start
    other=$(stranger --gpus-per-node=a100:1)
    wait_for 30 nodes_like "a100 2 1 up .* 2 $(id -un) $other"
    nodes_like 'h100 2 2 up'
    two=$(submit_sh two 1 2 "$(show_gpu two)" resources.gpu_type=a100)
    wait_for 30 is_waiting "$two"
    # Nobody waits for the others.
    any=$(submit_sh any 1 2 "$(show_gpu any)")
    wait_for 60 job_is "$any" COMPLETED
    alone=$(submit_sh alone 1 1 "$(show_gpu alone)" resources.gpu_type=a100 \
        resources.exclusive=true)
    wait_for 30 reason_like "$alone" '*'
    "$MGPU_BIN/mgpu-admin" --quiet drain --reason fan node1
    wait_for 30 nodes_like 'h100 2 2 draining .*fan'
    nodes_like 'a100 2 1 draining .*fan'
    scancel "$other"
    wait_for 30 nodes_like 'a100 2 2 drained'
    nodes_like 'h100 2 2 drained'
    "$MGPU_BIN/mgpu-admin" --quiet resume node1
    wait_for 60 job_is "$two" COMPLETED
    wait_for 60 job_is "$alone" COMPLETED
    # It has all GPUs of the node; its rank gets one of its type.
    [ "$(ran_lines)" = 'alone.0 2 any.0 0 any.1 1 two.0 2 two.1 3 ' ]
}

@test "the CPUs of the node are for both types" {
    conf_slurm='  submit_ahead: 0
  cpus_per_gpu: 20' # of 64: for 3 GPUs
    ctld_start
    first=$(submit_sh first 1 2 "$say_ran; $wait_go" resources.gpu_type=h100)
    wait_for 60 has_run "$first.1.1"
    wait_for 30 nodes_like 'a100 2 1 up'
    second=$(submit_sh second 1 1 "$say_ran; $wait_go")
    wait_for 60 has_run "$second.1.0"
    third=$(submit_sh third 1 1 "$say_ran" resources.gpu_type=a100)
    wait_for 30 nodes_like 'a100 2 0 up'
    wait_for 30 is_waiting "$third"
    not has_slurm_job third
    touch "$go"
    for id in "$first" "$second" "$third"; do
        wait_for 60 job_is "$id" COMPLETED
    done
}
