#!/usr/bin/env bats
# batch.bats - mgpu-batch and real ranks on a private cluster of two nodes:
# where they run, which GPU each has, what they hear, and how they end.
#
# sbatch takes the helper's place; the ranks need no daemon. KillWait is far
# beyond every deadline here, so that nothing ends because of it.
# shellcheck disable=SC2013,SC2016,SC2030,SC2031,SC2317 # programs; subshells

bats_require_minimum_version 1.5.0
load ../cli/helpers

testbed=$BATS_TEST_DIRNAME/testbed

setup_file() {
    TB=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-tb.XXXXXX")
    export TB
    "$testbed" up "$TB" --nodes 2 --gpus 4 --cpus 16 --owner "$$" \
        --extra KillWait=120 --extra SlurmdDebug=debug3 3>&-
    # Without a word in mpi.conf: mgpu-batch has to say it.
    : >"$TB/etc/mpi.conf"
    SLURM_CONF=$TB/etc/slurm.conf scontrol reconfigure
}
teardown_file() { "$testbed" down "$TB" --purge; }

dir=
setup() {
    eval "$("$testbed" env "$TB")"
    dir=$BATS_TEST_TMPDIR/a
}
teardown() {
    [ -n "${BATS_TEST_COMPLETED:-}" ] ||
        tail -n 30 "$BATS_TEST_TMPDIR"/*/log "$BATS_TEST_TMPDIR"/*/slurm*.out
    scancel --quiet --user "$(id -un)" || :
    "$testbed" ctld "$TB" start 3>&- 2>/dev/null || :
    kill_ranks
    wait_for 60 no_job || :
}

no_job() { [ -z "$(squeue -h)" ]; }

# Processes of the attempt in $dir, by their name.
pids_of() { # NAME
    local f
    for f in $(grep -slzxF "MGPU_ATTEMPT_DIR=$dir" /proc/[0-9]*/environ); do
        f=${f%/environ}
        [ "$(cat "$f/comm" 2>/dev/null)" != "$1" ] || echo "${f##*/}"
    done
}
no_rank() { [ -z "$(pids_of mgpu-worker)" ]; }
kill_ranks() {
    local pid
    for pid in $(pids_of mgpu-worker); do kill -KILL "$pid" 2>/dev/null || :; done
}

# submit LAUNCHER [NODES [GPUS]]: each rank of the job runs the shell program
# on standard input, or, with `spec` set, that specification. The job: $id.
spec=
launcher_program= # other than the launcher's name
submit() {
    local nodes=${2:-2} gpus=${3:-2}
    mkdir -p "$dir"
    cat >"$dir/batch.json" <<END
{"launcher":"$1","program":"${launcher_program:-$1}","mpi":"pmix",
 "worker":"$BATS_TEST_TMPDIR/rank","cpus_per_gpu":1}
END
    cat >"$dir/launch.json" <<END
{"version":1,"cluster":"c","job":1,"attempt":1,"token":"0","url":"unix:/none",
 "dir":"$dir","job_dir":"$dir","heartbeat_s":10,"nodes":$nodes,
 "gpus_per_node":$gpus,"spec":{"version":1,"name":"t","kind":"command",
 "command":["true"],"resources":{"gpus":$((nodes * gpus)),"nodes":$nodes},
 "logs":{"max_bytes":"1M"}}}
END
    chmod 600 "$dir/batch.json" "$dir/launch.json"
    # mgpu-worker as it is without a daemon, but for the pipe to the log that
    # it has with one; still the same process.
    cat >"$BATS_TEST_TMPDIR/rank" <<END
#!/bin/sh
d=\${2%/launch.json}
r=\${OMPI_COMM_WORLD_RANK:-\$PMIX_RANK}
[ ! -p "\$d/out.\$r" ] || exec >"\$d/out.\$r" 2>&1
exec "$MGPU_BIN/mgpu-worker" --standalone "\$d/spec.yaml" --dir "\$d/run"
END
    chmod +x "$BATS_TEST_TMPDIR/rank"
    if [ -n "$spec" ]; then
        echo "$spec" >"$dir/spec.yaml"
    else
        {
            printf 'version: 1\nkind: command\nname: t\ncheckpoint: '
            printf '{grace: 60s}\nresources: {gpus: %d}\n' $((nodes * gpus))
            printf 'command:\n  - /bin/bash\n  - -c\n  - |\n'
            sed 's/^/    /'
        } >"$dir/spec.yaml"
    fi
    printf '#!/bin/sh\nexec "$MGPU_BATCH" "$MGPU_ATTEMPT_DIR"\n' \
        >"$BATS_TEST_TMPDIR/script"
    id=$(env -i PATH="$PATH" HOME="$HOME" SLURM_CONF="$SLURM_CONF" \
        MGPU_BATCH="$MGPU_BIN/mgpu-batch" MGPU_ATTEMPT_DIR="$dir" \
        sbatch --parsable --no-requeue --nodes="$nodes" \
        --gres="gpu:h100:$gpus" --ntasks=$((nodes * gpus)) \
        --ntasks-per-node="$gpus" --cpus-per-task=1 --chdir="$dir" \
        --output='slurm-%j.out' "$BATS_TEST_TMPDIR/script")
}

slurm_says() { scontrol show job "$id" | grep -q "$1"; }
has_ended() {
    scontrol show job "$id" |
        grep -Eq 'JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL) '
}

# ended CODE SIGNAL [SLURM'S EXIT CODE]: so says the attempt, so says Slurm.
ended() {
    wait_for 90 has_ended
    grep -q "^{\"code\":$1,\"signal\":$2,\"when\":.*\"slurm_id\":$id" \
        "$dir/exit" || { cat "$dir/exit" && false; }
    slurm_says "ExitCode=${3:-$1}:0"
}

# The log without labels. Those of ranks on the first node have one, under
# srun all.
unlabelled() { sed 's/^\[[0-9]\] //' "$dir/log"; }
# What the ranks printed, by rank; a sanitizer speaks there, too.
ranks_said() { unlabelled | grep '^[0-9] ' | sort; }
# are_labelled RANK...: each line of theirs, which begins with their number.
are_labelled() {
    local r
    for r in "$@"; do
        grep -q "^\[$r\] $r " "$dir/log" || return 1
        not grep -E "^(\[[^$r]\] )?$r " "$dir/log" || return 1
    done
}

# For programs: says that the rank is up.
say_up='echo "$MGPU_RANK" >>"$MGPU_OUTPUT_DIR/up"'
are_up() { [ "$(wc -l 2>/dev/null <"$dir/run/out/up")" = "$1" ]; }

@test "each rank runs where it should, and has its GPU, beside another job" {
    local say='echo "$MGPU_RANK $MGPU_LOCAL_RANK $CUDA_VISIBLE_DEVICES"
[ "$MGPU_WORLD_SIZE" = 4 ] || exit 1'
    local wait='until [ -e "$MGPU_OUTPUT_DIR/go" ]; do sleep 0.1; done'
    submit srun <<<"$say; $say_up; $wait"
    wait_for 60 are_up 4
    local first=$id
    dir=$BATS_TEST_TMPDIR/b
    submit mpirun <<<"$say"
    ended 0 0
    [ "$(ranks_said)" = $'0 0 2\n1 1 3\n2 0 2\n3 1 3' ]
    are_labelled 0 1
    dir=$BATS_TEST_TMPDIR/c
    submit srun <<<"$say"
    ended 0 0
    [ "$(ranks_said)" = $'0 0 2\n1 1 3\n2 0 2\n3 1 3' ]
    are_labelled 0 1 2 3
    dir=$BATS_TEST_TMPDIR/a id=$first
    touch "$dir/run/out/go"
    ended 0 0
    [ "$(ranks_said)" = $'0 0 0\n1 1 1\n2 0 0\n3 1 1' ]
}

@test "the fence is the ring, without a word in mpi.conf" {
    : >"$TB/log/slurmd-node1.log"
    submit srun <<<'true'
    ended 0 0
    grep -q 'COLL_FENCE_RING seq=0 is DONE' "$TB/log/slurmd-node1.log"
    run ! grep -q COLL_FENCE_TREE "$TB/log/slurmd-node1.log"
}

@test "exit codes and signals of one rank of four" {
    local launcher row
    for launcher in srun mpirun; do
        for row in 'exit 7|7|0|7' 'exit 255|255|0|255' 'kill -SEGV $$|0|11|139' \
            'kill -KILL $$|0|9|137' 'kill -ABRT $$|0|6|134'; do
            IFS='|' read -r program code signo slurm <<<"$row"
            dir=$BATS_TEST_TMPDIR/$launcher.${program//[^a-zA-Z0-9]/}
            submit "$launcher" <<<"[ \$MGPU_RANK != 2 ] || $program; sleep 600"
            ended "$code" "$signo" "$slurm"
            wait_for 60 no_rank
            run ! grep MPI_ABORT "$dir/log"
        done
    done
}

@test "a rank that is killed takes the job with it, long before KillWait" {
    local launcher
    for launcher in srun mpirun; do
        dir=$BATS_TEST_TMPDIR/$launcher
        submit "$launcher" <<<"trap '' TERM; $say_up; sleep 600"
        wait_for 60 are_up 4
        kill -KILL "$(pids_of mgpu-worker | tail -n 1)"
        wait_for 60 no_rank
        ended 0 9 137
    done
}

@test "training over two nodes; SIGTERM: a checkpoint, and 143" {
    spec='{version: 1, kind: cv, name: t, resources: {gpus: 4},
model: {width_mult: 0.25}, dataset: {source: synthetic, image_size: 32,
train_samples: 64, eval_samples: 16}, train: {device: host, epochs: 1000,
batch_size: 4, seed: 1, optimizer: {name: sgd, lr: 0.01}}}'
    submit srun
    trains() { grep -qs '"iteration":10,' "$dir/run/spool.3"; }
    wait_for 120 trains
    scancel --signal=TERM "$id"
    ended 0 15 143 # 128 + 15, as a shell says it
    grep -q '^\[0\] stopped by signal, checkpoint at iteration' "$dir/log"
}

@test "SIGTERM by Slurm reaches each program once, and all of them" {
    local launcher
    for launcher in srun mpirun; do
        dir=$BATS_TEST_TMPDIR/$launcher
        submit "$launcher" <<END
trap 'echo "\$MGPU_RANK usr1"; echo >>"\$MGPU_OUTPUT_DIR/usr1"' USR1
trap 'echo "\$MGPU_RANK term"; : \$((n += 1))' TERM
n=0
$say_up
until [ -e "\$MGPU_OUTPUT_DIR/go" ]; do read -r -t 0.05 <><(:); done
exit \$((20 + n))
END
        wait_for 60 are_up 4
        heard() { [ "$(grep -c "$1" "$dir/log")" -ge 4 ]; }
        local flag=
        [ "$launcher" = srun ] || flag=--batch
        scancel $flag --signal=USR1 "$id"
        wait_for 30 heard usr1
        scancel $flag --signal=TERM "$id"
        wait_for 30 heard term
        touch "$dir/run/out/go"
        ended 21 0
        [ "$(unlabelled | grep -E 'usr1|term' | sort)" = "$(
            for r in 0 1 2 3; do printf '%d term\n%d usr1\n' $r $r; done)" ]
    done
}

@test "scancel: the ranks have their time, and their end is written" {
    submit srun <<END
trap 'sleep 3; echo "\$MGPU_RANK saved"; exit 4' TERM
$say_up
while :; do sleep 0.1; done
END
    wait_for 60 are_up 4
    scancel "$id"
    wait_for 90 has_ended
    slurm_says JobState=CANCELLED
    grep -q '"code":4,"signal":0' "$dir/exit"
    [ "$(grep -c saved "$dir/log")" = 4 ]
}

@test "srun is killed: the ranks too, and the attempt says so" {
    submit srun <<<"trap '' TERM; $say_up; sleep 600"
    wait_for 60 are_up 4
    kill -KILL "$(pids_of srun | head -n 1)" # the first of its two processes
    wait_for 60 no_rank
    ended 0 9 137
}

@test "mgpu-batch is killed: no end is written, and no rank left" {
    local launcher
    for launcher in srun mpirun; do
        dir=$BATS_TEST_TMPDIR/$launcher
        submit "$launcher" <<<"$say_up; sleep 600"
        wait_for 60 are_up 4
        kill -KILL "$(pids_of mgpu-batch)"
        wait_for 60 has_ended
        slurm_says JobState=FAILED
        wait_for 60 no_rank
        [ ! -e "$dir/exit" ]
    done
}

@test "processes that a program leaves on either node keep no allocation" {
    local launcher
    for launcher in srun mpirun; do
        dir=$BATS_TEST_TMPDIR/$launcher
        submit "$launcher" <<'END'
setsid sleep 600 & echo $! >>"$MGPU_OUTPUT_DIR/left"
END
        ended 0 0
        for left in $(cat "$dir/run/out/left"); do
            gone() { ! kill -0 "$left" 2>/dev/null; }
            wait_for 30 gone
        done
    done
}

@test "slurmctld restarts when the script has begun: srun is tried again" {
    launcher_program=$BATS_TEST_TMPDIR/srun
    cat >"$launcher_program" <<'END'
#!/bin/sh
touch "$MGPU_ATTEMPT_DIR/begun"
until [ -e "$MGPU_ATTEMPT_DIR/go" ]; do sleep 0.1; done
exec srun "$@"
END
    chmod +x "$launcher_program"
    submit srun <<<'echo ran'
    wait_for 60 test -e "$dir/begun"
    "$testbed" ctld "$TB" stop
    touch "$dir/go"
    again() { grep -qs 'no rank was started; retrying in' "$dir/log"; }
    wait_for 60 again
    "$testbed" ctld "$TB" start 3>&-
    ended 0 0
    [ "$(unlabelled | grep -c '^ran$')" = 4 ]
}
