#!/usr/bin/env bats
# run.bats - jobs on Slurm when nothing goes wrong, and what people see.

bats_require_minimum_version 1.5.0
load helpers

setup_file() { slurm_up --nodes 2 --gpus 4; }
teardown_file() { slurm_down; }
teardown() { slurm_calm; }

stat() { "$MGPU_BIN/mgpu-stat" "$@"; }

# The command's environment is clean; its worker's has what Slurm says.
show_place="tr '\\0' '\\n' </proc/\$PPID/environ |
    sed -n \"s/^SLURMD_NODENAME=/\$MGPU_RANK \$CUDA_VISIBLE_DEVICES /p\" >>"

@test "2 nodes x 2 GPUs: each rank has its own GPU" {
    ctld_start
    id=$(submit_sh wide 2 4 "$show_place $ran")
    wait_for 60 job_has_ended "$id"
    [ "$(job_state "$id")" = COMPLETED ]
    [ "$(ran_lines)" = '0 0 node1 1 1 node1 2 0 node2 3 1 node2 ' ]
    [ "$(events "$id")" = 'submit intent claim report finish' ]
}

@test "mpirun instead of srun: the same" {
    conf_slurm='  launcher: mpirun'
    ctld_start
    id=$(submit_sh wide 2 4 "$show_place $ran")
    wait_for 60 job_has_ended "$id"
    [ "$(job_state "$id")" = COMPLETED ]
    [ "$(ran_lines)" = '0 0 node1 1 1 node1 2 0 node2 3 1 node2 ' ]
}

@test "a job without a GPU" {
    ctld_start
    id=$(submit_sh none 1 0 "echo \"\${CUDA_VISIBLE_DEVICES-unset}\" >>$ran")
    wait_for 60 job_has_ended "$id"
    [ "$(job_state "$id")" = COMPLETED ]
    [ "$(wc -l <"$ran")" = 1 ]
    not grep '[0-9]' "$ran"
}

@test "squeue and mgpu-stat name each other's job" {
    ctld_start
    id=$(submit_sh shown 2 2 "$say_ran; $wait_go" resources.time_limit=10m \
        policy.account=physics)
    wait_for 60 has_run "$id.1.0"
    native=$(native_id "$id")
    [ "$(squeue -h -j "$native" -o '%j %a %l %D')" = 'shown physics 12:00 2' ]
    slurm_show "$native" | grep -q "Comment=mgpu:test:$id:1:"
    stat "$id" | grep -qw "$native"
    touch "$go"
    wait_for 60 job_has_ended "$id"
    wait_for 60 grep -q "^JobId=$native .* Name=shown .*Account=physics" \
        "$TB/log/jobcomp.log"
    stat "$id" | grep -qw "$native"
}

@test "the plan counts GPUs of other users' jobs as taken" {
    conf_slurm='  submit_ahead: 0'
    ctld_start
    other=$(stranger -w node1 --gpus-per-node=3)
    wait_for 30 slurm_is "$other" RUNNING
    seen() { stat --nodes | grep -q "^node1 .* 0-2 $(id -un) $other"; }
    wait_for 30 seen
    two=$(submit_sh two 1 2 "$show_place $ran")
    wait_for 60 job_has_ended "$two"
    [ "$(cut -d ' ' -f 3 "$ran" | sort -u)" = node2 ]
    wide=$(submit_sh wider 2 4 true)
    one=$(submit_sh one 1 1 true resources.time_limit=1m)
    wait_for 60 job_is "$one" COMPLETED # it delays nobody
    job_is "$wide" QUEUED
    not has_slurm_job wider # Slurm is not asked for what it does not have
    scancel "$other"
    wait_for 60 job_is "$wide" COMPLETED
}

# Where others wait in Slurm, so must ours, or it never has its turn.
@test "a wide job stands in Slurm's line before who comes after it" {
    ctld_start
    holder=$(stranger -N 2 --gpus-per-node=4)
    wait_for 30 slurm_is "$holder" RUNNING
    full() { [ "$(stat --nodes | grep -c " 0-3 $(id -un) $holder")" = 2 ]; }
    wait_for 30 full
    wide=$(submit_sh ahead 2 8 "$say_ran")
    wait_for 60 reason_like "$wide" 'Slurm(*'
    more=$(submit_sh behind 2 8 true)
    later=$(stranger -N 2 --gpus-per-node=4)
    wait_for 30 reason_like "$more" 'WaitingForGpus*'
    job_is "$more" QUEUED # one ahead, not all
    not has_slurm_job behind
    stat --why "$wide" | grep "needs 8, 0 free; stands in Slurm's queue as job"
    stat "$wide" | grep -w "$(slurm_ids ahead)"
    scancel "$holder"
    wait_for 60 job_is "$wide" COMPLETED
    wait_for 60 slurm_is "$later" RUNNING
    wait_for 60 has_slurm_job behind # behind it
    scancel "$later"
    wait_for 60 job_is "$more" COMPLETED
    [ "$(n_slurm_jobs ahead) $(n_slurm_jobs behind)" = '1 1' ]
}

@test "taken back from Slurm's line for one that goes first" {
    ctld_start
    holder=$(stranger -N 2 --gpus-per-node=4)
    wait_for 30 slurm_is "$holder" RUNNING
    full() { [ "$(stat --nodes | grep -c " 0-3 $(id -un) $holder")" = 2 ]; }
    wait_for 30 full
    low=$(submit_sh low 2 8 "$say_ran")
    wait_for 60 reason_like "$low" 'Slurm(*'
    high=$(submit_sh high 2 8 "$say_ran" policy.priority=high)
    wait_for 60 reason_like "$high" 'Slurm(*'
    wait_for 60 job_is "$low" QUEUED
    wait_for 60 slurm_ended "$(slurm_ids low | head -n 1)"
    "$MGPU_BIN/mgpu-stat" --events "$low" | grep "TakenBack: job $high goes first"
    scancel "$holder"
    wait_for 60 job_is "$low" COMPLETED
    job_is "$high" COMPLETED
    [ "$(ran_lines | tr ' ' '\n' | grep -c "^$low\.2\.")" = 8 ]
    not grep "^$low\.1\." "$ran"
}

@test "a cancelled job ends in Slurm, too" {
    ctld_start
    id=$(submit_sh hog 2 4 "$say_ran; sleep 600")
    wait_for 60 has_run "$id.1.3"
    "$MGPU_BIN/mgpu-cancel" "$id"
    wait_for 60 job_is "$id" CANCELLED
    wait_for 30 slurm_ended "$(native_id "$id")"
    [ "$(job_field "$id" exit_code)" = 130 ]
    scontrol show job "$(native_id "$id")" | grep -q JobState=CANCELLED
}

@test "exit codes and signals are the ranks'" {
    ctld_start
    code=$(submit_sh code 2 2 '[ "$MGPU_RANK" = 0 ] || exit 7')
    sig=$(submit_sh sig 1 1 'kill -SEGV $$' retry.max=0)
    wait_for 60 job_has_ended "$code"
    [ "$(job_state "$code") $(job_field "$code" exit_code)" = 'FAILED 7' ]
    wait_for 60 job_has_ended "$sig"
    [ "$(job_state "$sig") $(job_field "$sig" exit_code)" = 'FAILED 139' ]
}

@test "the rows that a rank had written when its worker was killed, once" {
    ctld_start
    # shellcheck disable=SC2016 # the ranks' shells expand it
    id=$(submit_sh killed 2 2 'for i in 1 2 3 4 5; do
            echo "{\"iteration\":$i}"; done >>$MGPU_METRICS
        [ "$MGPU_RANK" = 1 ] || sleep 600; kill -9 $PPID; sleep 600' retry.max=0)
    wait_for 60 job_has_ended "$id"
    [ "$(job_state "$id")" = FAILED ]
    [ "$(sql metrics "SELECT group_concat(iteration) FROM v_iteration
        WHERE job = $id AND rank = 1")" = 1,2,3,4,5 ]
}

@test "each rank is warned of the time limit, once" {
    ctld_start
    # After 20 s: the trap is set by then.
    id=$(submit_sh warned 2 2 "trap 'echo warned.\$MGPU_RANK >>$ran' USR1
        $say_ran; $wait_go" resources.time_limit=1h \
        resources.warn_signal=USR1 resources.warn_before=3580s)
    wait_for 60 has_run warned.0
    wait_for 60 has_run warned.1
    : >"$go"
    wait_for 60 job_has_ended "$id"
    [ "$(job_state "$id")" = COMPLETED ]
    [ "$(ran_lines)" = "$id.1.0 $id.1.1 warned.0 warned.1 " ]
    [ "$(events "$id")" = 'submit intent claim warn report finish' ]
}

# Slurm's own is 28 s later, and Slurm warns half a minute sooner than it is
# told: a warning of the grace period would come before the job's limit.
@test "the time limit is the daemon's, to the second" {
    conf_slurm='  limit_margin: 0s'
    ctld_start
    id=$(submit_sh late 1 1 "$say_ran; exec sleep 600" \
        resources.time_limit=32s checkpoint.grace=2m)
    wait_for 120 job_has_ended "$id"
    [ "$(job_state "$id") $(job_field "$id" exit_code)" = 'TIMEOUT 124' ]
    [ "$(ran_lines)" = "$id.1.0 " ]
}
