#!/usr/bin/env bats
# batch.bats - mgpu-batch without Slurm: a script takes the launcher's place.
# shellcheck disable=SC2030,SC2031,SC2317 # bats: a test is a subshell

bats_require_minimum_version 1.5.0
load helpers

dir=
pids=
setup() {
    dir=$BATS_TEST_TMPDIR/a
    mkdir -p "$dir"
    export SLURM_JOB_ID=4711
}
teardown() {
    local pid
    for pid in $pids; do kill -KILL "$pid" 2>/dev/null || true; done
}

# launcher [srun|mpirun]: its program is standard input, run in $dir. An mpirun
# is asked for its version ($version) first. The job's `logs`: $logs.
logs='"max_bytes":"8K"'
version='mpirun (Open MPI) 4.1.4'
launcher() {
    {
        echo '#!/bin/bash'
        [ "${1:-srun}" = srun ] ||
            echo "[ \"\$*\" != --version ] || { echo '$version'; exit 0; }"
        cat
    } >"$BATS_TEST_TMPDIR/launcher"
    chmod +x "$BATS_TEST_TMPDIR/launcher"
    cat >"$dir/batch.json" <<END
{"launcher":"${1:-srun}","program":"$BATS_TEST_TMPDIR/launcher","mpi":"pmix",
 "worker":"/nonexistent/mgpu-worker","cpus_per_gpu":1}
END
    cat >"$dir/launch.json" <<END
{"version":1,"cluster":"c","job":1,"attempt":1,"token":"0","url":"unix:/none",
 "dir":"$dir","job_dir":"$dir","heartbeat_s":10,"nodes":1,"gpus_per_node":2,
 "spec":{"version":1,"name":"t","kind":"command","command":["true"],
 "resources":{"gpus":2},"logs":{$logs}}}
END
}

batch() { timeout "$compute_s" "$MGPU_BIN/mgpu-batch" "$dir" 3>&-; }

# batch_start: in the background; its pid in $batch.
batch_start() {
    "$MGPU_BIN/mgpu-batch" "$dir" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    batch=$!
    pids="$pids $batch"
}

ends_with() { # STATUS
    local status=0
    gone() { ! kill -0 "$batch" 2>/dev/null; }
    wait_for 60 gone
    wait "$batch" || status=$?
    [ "$status" -eq "$1" ] || { echo "ended with $status" && false; }
}

# has_ended_with CODE SIGNAL: so says the file.
has_ended_with() {
    grep -q "^{\"code\":$1,\"signal\":$2,\"when\":[0-9.]*,\"slurm_id\":471[12]}$" \
        "$dir/exit" ||
        { cat "$dir/exit" && false; }
}

@test "a wrong command line is refused, and does nothing" {
    for args in "" "relative" "$dir operand"; do
        # shellcheck disable=SC2086
        run "$MGPU_BIN/mgpu-batch" $args
        [ "$status" -eq 64 ] || { echo "$args: $status" && false; }
    done
    [ -z "$(ls "$dir")" ]
}

@test "output and exit code of the launcher, and who started it" {
    launcher <<<'touch ran; echo "one of $*"; echo two >&2; exit 7'
    run batch
    [ "$status" -eq 7 ]
    [ -z "$output" ]
    has_ended_with 7 0
    [ "$(sed -n 2p "$dir/log")" = two ]
    [[ $(head -n 1 "$dir/log") == "one of --quiet "* ]]
    [[ $(head -n 1 "$dir/log") == *" --launch $dir/launch.json" ]]
    [ "$(cat "$dir/started")" = 4711 ]
    [ "$(stat -c %a "$dir/exit" "$dir/log" | sort -u)" = 600 ]
}

@test "F23: what it writes names its submission" {
    local mark=00c0ffee00c0ffee
    launcher <<<'touch ran; exit 3'
    MGPU_SUBMISSION=$mark run batch
    [ "$(cat "$dir/started")" = "4711 $mark" ]
    grep -q ",\"slurm_id\":4711,\"submission\":\"$mark\"}\$" "$dir/exit"
    # 17 digits are none.
    rm "${dir:?}"/*
    launcher <<<'touch ran; exit 3'
    MGPU_SUBMISSION=${mark}0 run batch
    has_ended_with 3 0
}

@test "exit codes and signals, as Slurm and the daemon read them" {
    local row
    # program | exit status | code | signal
    for row in 'exit 0|0|0|0' 'exit 255|255|255|0' 'exit 128|128|128|0' \
        'exit 139|139|0|11' 'kill -SEGV $$|139|0|11' 'kill -KILL $$|137|0|9'; do
        IFS='|' read -r program want code signo <<<"$row"
        rm -rf "${dir:?}"/*
        launcher <<<"$program"
        run batch
        [ "$status" -eq "$want" ] || { echo "$row: $status" && false; }
        has_ended_with "$code" "$signo"
    done
}

@test "a launcher that cannot be started: 127, and why" {
    launcher <<<'exit 0'
    sed -i 's|"program":"[^"]*"|"program":"/nonexistent/srun"|' "$dir/batch.json"
    run -127 batch
    has_ended_with 127 0
    grep -q "cannot run '/nonexistent/srun': No such file" "$dir/log"
}

@test "a batch.json that is none ends the attempt, and is named" {
    launcher <<<'exit 0'
    echo '{"launcher":"srun"}' >"$dir/batch.json"
    run batch
    [ "$status" -eq 65 ]
    has_ended_with 65 0
    grep -q "batch.json: 'program'" "$dir/log"
    rm "${dir:?}"/*
    run batch
    [ "$status" -eq 66 ]
    has_ended_with 66 0
}

@test "much output is bounded, its head and tail are kept" {
    launcher <<<'touch ran; seq 100000; exit 3'
    run batch
    [ "$status" -eq 3 ]
    [ "$(cat "$dir"/log* | wc -c)" -le 8192 ]
    [ "$(head -n 1 "$dir/log")" = 1 ]
    [ "$(cat "$dir"/log* | tail -n 1)" = 100000 ]
}

@test "a launch.json that is none ends the attempt, and is named" {
    launcher <<<'exit 0'
    sed -i 's/"nodes":1/"nodes":0/' "$dir/launch.json"
    run batch
    [ "$status" -eq 65 ]
    has_ended_with 65 0
    grep -q "launch: 'nodes'" "$dir/log"
    rm "${dir:?}"/*
    launcher <<<'exit 0'
    chmod 666 "$dir/launch.json"
    run batch
    [ "$status" -eq 77 ]
    grep -q "launch.json' may have been written by others" "$dir/log"
    rm "${dir:?}"/*
    launcher <<<'exit 0'
    sed -i 's/"nodes":1/"nodes":2147483647/' "$dir/launch.json"
    run batch
    [ "$status" -eq 65 ]
    grep -q "launch: 2147483647 nodes with 2 ranks each" "$dir/log"
}

@test "F27: too much output ends it where the job says so, also one that was done" {
    logs=$logs,'"on_limit":"fail"'
    launcher <<<'touch ran; exec yes'
    run batch
    [ "$status" -eq 122 ]
    has_ended_with 122 0
    [ "$(cat "$dir"/log* | wc -c)" -le 8192 ]
    rm "$dir/exit"
    launcher <<<'touch ran; seq 100000'
    run batch
    [ "$status" -eq 122 ]
    rm "$dir/exit"
    launcher <<<'touch ran; seq 1000; exit 3'
    run batch
    [ "$status" -eq 3 ]
}

@test "the launcher has no signal blocked or ignored" {
    launcher <<<'grep -E "^Sig(Blk|Ign)" /proc/self/status'
    trap '' HUP INT QUIT PIPE CHLD
    run batch
    trap - HUP INT QUIT PIPE CHLD
    [ "$status" -eq 0 ]
    cat "$dir/log"
    # 32 and 33 are libc's own: its posix_spawn(3), as in make(1), ignores them.
    [ "$(grep -cE ':.0000000(00|18)0000000$' "$dir/log")" -eq 2 ]
}

@test "SIGTERM: srun is left alone, and waited for" {
    launcher <<'END'
trap 'echo hit' TERM USR1
touch ran
until [ -e go ] || [ $SECONDS -gt 60 ]; do read -r -t 0.05 <><(:); done
echo end
exit 5
END
    batch_start
    wait_for 30 test -e "$dir/ran"
    kill -TERM "$batch"
    kill -USR1 "$batch"
    kill -TERM "$batch"
    touch "$dir/go"
    ends_with 5
    [ "$(cat "$dir/log")" = end ]
    has_ended_with 5 0
}

@test "SIGTERM, SIGUSR1: mpirun is told once, in signals that it passes on" {
    launcher mpirun <<'END'
trap 'echo stop' XCPU
trap 'echo user' USR1
trap 'echo hit' TERM
touch ran
until [ -e go ]; do
    [ $SECONDS -lt 60 ] || exit 9
    sleep 0.05
done
exit 1
END
    heard() { grep -q "$1" "$dir/log"; }
    taken() { grep -q '^ShdPnd:.0*$' "/proc/$batch/status"; }
    batch_start
    wait_for 30 test -e "$dir/ran"
    kill -TERM "$batch"
    wait_for 30 heard stop
    kill -TERM "$batch"
    wait_for 30 taken
    kill -USR1 "$batch"
    wait_for 30 heard user
    touch "$dir/go"
    ends_with 143
    has_ended_with 0 15 # mpirun's 1 is its word for having been told
    [ "$(cat "$dir/log")" = "$(printf 'stop\nuser')" ]
}

@test "mpirun gets the options of its version, and that of another MPI none" {
    launcher mpirun <<<'echo "$*"'
    run batch
    [ "$status" -eq 0 ]
    [[ $(<"$dir/log") == "--quiet --bind-to none "* ]]
    rm "$dir/exit" "$dir/log"

    version='mpirun (Open MPI) 5.0.7'
    launcher mpirun <<<'echo "$*"'
    run batch
    [ "$status" -eq 0 ]
    [[ $(<"$dir/log") == "--pmixmca plog ^stdfd --bind-to none "* ]]
    rm "$dir/exit" "$dir/log"

    version='HYDRA build details:'
    launcher mpirun <<<'touch started-ranks'
    run -127 batch
    has_ended_with 127 0
    [ "$(<"$dir/log")" = "mgpu-batch: '$BATS_TEST_TMPDIR/launcher' is not mpirun\
 of Open MPI 4 or 5: --version prints 'HYDRA build details:'" ]
    [ ! -e "$dir/started-ranks" ]
}

@test "a process that a rank of mpirun left does not keep the allocation" {
    launcher mpirun <<'END'
( setsid sleep 1000 & echo $! >orphan )
while kill -0 "$(<orphan)" 2>/dev/null; do
    [ $SECONDS -lt 60 ] || exit 9
    read -r -t 0.05 <><(:)
done
echo gone
END
    batch_start
    wait_for 30 test -s "$dir/orphan"
    pids="$pids $(cat "$dir/orphan")"
    ends_with 0
    grep -q gone "$dir/log"
}

@test "srun that gets no step is tried again; a rank that failed is not" {
    launcher <<'END'
echo try >>tries
[ "$(wc -l <tries)" -ge 2 ] || { echo no controller && exit 1; }
touch "$MGPU_RAN"
exit 1
END
    run batch
    [ "$status" -eq 1 ]
    [ "$(wc -l <"$dir/tries")" -eq 2 ]
    [ "$(sed -n 1p "$dir/log")" = "no controller" ]
    grep -q "no rank was started; retrying in 1 s" "$dir/log"
}

@test "SIGTERM ends the waiting for a step" {
    launcher <<<'echo try >>tries; exit 1'
    batch_start
    waits() { [ "$(cat "$dir/log" 2>/dev/null | grep -c retrying)" -ge 2 ]; }
    wait_for 30 waits
    kill -TERM "$batch"
    ends_with 1
    has_ended_with 1 0
}

@test "a second run in a directory that is in use touches nothing" {
    launcher <<<'echo first; touch ran; until [ -e go ] || [ $SECONDS -gt 60 ]; do sleep 0.05; done'
    batch_start
    wait_for 30 grep -qsx first "$dir/log"
    SLURM_JOB_ID=4712 run batch
    [ "$status" -eq 76 ]
    [[ $output == *"another process runs this attempt"* ]]
    [ "$(cat "$dir/started")" = 4711 ]
    [ "$(cat "$dir/log")" = first ]
    touch "$dir/go"
    ends_with 0
    run batch
    [ "$status" -eq 76 ]
    [[ $output == *"has ended"* ]]
    [ "$(cat "$dir/log")" = first ]
    has_ended_with 0 0
}

@test "kill -9: no end is written, and the next may take over" {
    launcher <<'END'
echo "in $SLURM_JOB_ID"
echo $$ >launcher
touch ran
[ "$SLURM_JOB_ID" != 4711 ] || exec sleep 1000
END
    batch_start
    wait_for 30 test -e "$dir/ran"
    wait_for 30 grep -qsx 'in 4711' "$dir/log"
    pids="$pids $(cat "$dir/launcher")"
    kill -KILL "$batch"
    ends_with 137
    [ ! -e "$dir/exit" ]
    # Without its parent the launcher is told to end.
    gone() { ! kill -0 "$(cat "$dir/launcher")" 2>/dev/null; }
    wait_for 30 gone
    SLURM_JOB_ID=4712 run batch
    [ "$status" -eq 0 ]
    [ "$(cat "$dir/started")" = 4712 ]
    [ "$(cat "$dir/log")" = "in 4712" ]
    [ "$(cat "$dir/before.log")" = "in 4711" ]
    has_ended_with 0 0
}

@test "ranks find threads, the order of GPUs, and the fence" {
    launcher <<'END'
echo "$OMP_NUM_THREADS $CUDA_DEVICE_ORDER $SLURM_PMIX_FENCE $MGPU_RAN $PWD"
END
    run batch
    [ "$status" -eq 0 ]
    [ "$(cat "$dir/log")" = "1 PCI_BUS_ID ring $dir/ran $dir" ]
}
