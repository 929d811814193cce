#!/usr/bin/env bats
# worker.bats - mgpu-worker without a daemon: how a run ends, and what a
# program of kind command meets.

bats_require_minimum_version 1.5.0
load helpers

dir=
setup() {
    dir=$BATS_TEST_TMPDIR/run
    export OMP_NUM_THREADS=1 GOMP_SPINCOUNT=2000
    # --quiet of Open MPI 4; later ones refuse the option.
    export OMPI_MCA_orte_execute_quiet=1
}

# Whatever a failed test left behind.
teardown() {
    local pid
    for pid in $(worker_pids); do kill -KILL "$pid" 2>/dev/null || true; done
}

# The ranks of this test, by its directory on their command line.
worker_pids() { pgrep -f "^[^ ]*mgpu-worker .*$BATS_TEST_TMPDIR"; }

# What trains for longest: under a sanitizer at night alone, which sets
# $MGPU_TEST_ALL.
trains_long() {
    [ "${MGPU_VARIANT:-release}" = release ] || [ -n "${MGPU_TEST_ALL-}" ] ||
        skip 'at night'
}

# ends_with STATUS PID: `run` has a shell of its own, which cannot wait.
ends_with() {
    local status=0
    wait "$2" || status=$?
    [ "$status" -eq "$1" ] || { echo "ended with $status"; false; }
}

spec() { cat >"$BATS_TEST_TMPDIR/spec.yaml"; }

# worker RANKS [OPTION...]: runs the specification.
worker() {
    timeout "$compute_s" mpirun -n "$1" --oversubscribe --bind-to none \
        "$MGPU_BIN/mgpu-worker" --standalone "$BATS_TEST_TMPDIR/spec.yaml" \
        --dir "$dir" "${@:2}" 3>&-
}

command_spec() { # the program is standard input
    {
        printf 'version: 1\nkind: command\nname: t\nresources: {gpus: 0}\n'
        printf 'checkpoint: {grace: 60s}\nenv: {GREETING: hello}\n'
        printf 'command:\n  - /bin/sh\n  - -c\n  - |\n'
        sed 's/^/    /'
    } | spec
}

cv_spec() { # cv_spec EPOCHS LR
    spec <<END
version: 1
kind: cv
name: t
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 32, train_samples: 64,
          eval_samples: 16}
train: {device: host, epochs: $1, batch_size: 4, seed: 1,
        optimizer: {name: sgd, lr: $2}}
retry: {resume: latest}
resources: {gpus: 0}
END
}

@test "a wrong command line is refused" {
    for args in "" "--launch" "--launch a --standalone b" "--dir x" "--other" \
        "--launch a operand" "--standalone a --device gpu"; do
        # shellcheck disable=SC2086
        run "$MGPU_BIN/mgpu-worker" $args
        [ "$status" -eq 64 ] || { echo "$args: $status"; false; }
    done
}

@test "a missing or invalid specification is an error of its own" {
    run worker 1 # there is none yet
    [ "$status" -eq 66 ]
    echo 'kind: nothing' | spec
    run worker 1
    [ "$status" -eq 65 ]
    [[ $output == *E0* ]]
}

@test "data that is not there is named" {
    spec <<'END'
version: 1
kind: cv
name: t
dataset: {source: mnist, path: /nonexistent}
train: {device: host}
resources: {gpus: 0}
END
    run worker 2
    [ "$status" -eq 66 ]
    [[ $output == */nonexistent* ]]
}

@test "data that is too large is wrong, not 'try again later'" {
    cv_spec 1 0.01
    sed -i 's/train_samples: 64/train_samples: 2147483647/' \
        "$BATS_TEST_TMPDIR/spec.yaml"
    run worker 1
    echo "$output"
    [ "$status" -eq 65 ]
}

@test "a job that exceeds the memory is refused before it begins, with a way out" {
    cv_spec 1 0.01
    sed -i -e 's/batch_size: 4/batch_size: 4096/' \
        -e 's/image_size: 32/image_size: 1024/' "$BATS_TEST_TMPDIR/spec.yaml"
    run worker 1
    echo "$output"
    [ "$status" -eq 71 ]
    [[ $output == *"memory per rank: "*" MiB (parameters "*", activations "* ]]
    [[ $output == *"MiB of the host's for batches to come"* ]]
    [[ $output == *"lower train.batch_size or dataset.image_size: 1 rank of "*" MiB do not fit in the "*" MiB that this "*" has left"* ]]
    [[ $output != *"epoch"* ]]
}

# mib_of 'REGEX': the number after it, at a line's start, in 1/10 MiB.
mib_of() {
    sed -n "s/^$1\([0-9]*\)\.\([0-9]\) MiB.*/\1\2/p" <<<"$output"
}

@test "memory that is printed is what a rank takes, with program and libraries" {
    cv_spec 2 0.01
    run worker 1
    echo "$output"
    [ "$status" -eq 0 ]
    local plan used all peak
    plan=$(mib_of 'memory per rank: ')
    used=$(mib_of 'host memory.* libraries and data: ')
    all=$(mib_of 'host memory per rank: ')
    peak=$(mib_of 'highest host memory of rank 0 in the first epoch: ')
    # Libraries of several MiB are loaded; what is planned is yet to be taken.
    [ "$used" -gt 50 ]
    [ "$all" -ge "$((plan + used - 2))" ]
    [ "$all" -le "$((plan + used + 12))" ] # and what is for batches to come
    [ "$peak" -gt "$used" ]
    [ "$(grep -c 'in the first epoch: ' <<<"$output")" -eq 1 ]
}

@test "memory that cannot be had is refused, too" {
    if [ "${MGPU_VARIANT:-release}" != release ]; then
        skip "a sanitizer takes more than there is"
    fi
    cv_spec 1 0.01
    sed -i -e 's/batch_size: 4/batch_size: 128/' \
        -e 's/image_size: 32/image_size: 224/' "$BATS_TEST_TMPDIR/spec.yaml"
    ulimit -v 1500000 # 3 GB are planned
    run worker 1
    echo "$output"
    [ "$status" -eq 71 ]
    [[ $output == *"lower train.batch_size or dataset.image_size: "* ]]
    [[ $output != *"epoch"* ]]
}

@test "a loss that is no number ends the job with 1" {
    cv_spec 4 1000
    run worker 2
    [ "$status" -eq 1 ]
    [[ $output == *"the loss is not a number"* ]]
    grep -q '"exit_code":1' "$dir/report.json"
}

@test "a run that goes on with a loss that is no number says so" {
    trains_long
    for on_nan in warn skip; do
        cv_spec 2 1000
        sed -i "s/seed: 1,/seed: 1, on_nan: $on_nan,/" \
            "$BATS_TEST_TMPDIR/spec.yaml"
        rm -rf "$dir"
        run worker 1
        [ "$status" -eq 0 ]
        [[ $output == *"epoch 2/2: "*", training loss not a number, "* ]]
        [[ $output != *", 0 samples/s"* && $output != *nan,* ]]
    done
}

@test "the log counts the samples of an epoch, without a last batch of one" {
    trains_long
    cv_spec 1 0.01
    sed -i 's/train_samples: 64/train_samples: 13/' "$BATS_TEST_TMPDIR/spec.yaml"
    run worker 1
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"the last batch of each epoch is left out: "*"1 sample per rank"* ]]
    [[ $output == *"data: 13 training samples, 12 of them in each epoch, and 16 evaluation samples at 32x32, 3 iterations per epoch"* ]]
    # One pixel more, and the last feature map has four values of a sample.
    sed -i 's/image_size: 32/image_size: 33/' "$BATS_TEST_TMPDIR/spec.yaml"
    rm -rf "$dir"
    run worker 1
    [[ $output == *"data: 13 training and 16 evaluation samples at 33x33, 4 iterations per epoch"* ]]
    sed -i 's/eval_samples: 16/eval_samples: 16, drop_last: true/' \
        "$BATS_TEST_TMPDIR/spec.yaml"
    rm -rf "$dir"
    run worker 1
    [[ $output == *"data: 13 training samples, 12 of them in each epoch, and"* ]]
}

@test "a mean of the weights that keeps too much of its start is warned of, and a long warm-up" {
    trains_long
    cv_spec 2 0.01 # 32 iterations
    sed -i "s/seed: 1,/seed: 1, ema: {decay: 0.95}, lr_scheduler: {num_warmup_steps: 16},/" \
        "$BATS_TEST_TMPDIR/spec.yaml"
    run worker 2 # 16: 0.95^16 is 0.44
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'train.ema.decay: after all iterations the mean of the weights still has 44 % of its start' <<<"$output")" -eq 1 ]
    [[ $output == *"num_warmup_steps is 16, the run has 16 iterations: the learning rate never gets to train.optimizer.lr"* ]]
    sed -i "s/decay: 0.95/decay: 0.8/; s/num_warmup_steps: 16/num_warmup_steps: 15/" \
        "$BATS_TEST_TMPDIR/spec.yaml"
    rm -rf "$dir"
    run worker 2 # 0.8^16 is 0.028
    [ "$status" -eq 0 ]
    [[ $output != *"train.ema.decay"* && $output != *"num_warmup_steps"* ]]
}

@test "SIGTERM to the ranks: checkpoint, 143, and the next run goes on" {
    cv_spec 1000 0.01
    worker 2 >"$BATS_TEST_TMPDIR/log" 2>&1 &
    local pid=$! n
    wait_for 60 grep -qs '"iteration":20,' "$dir/spool.0"
    # shellcheck disable=SC2046
    kill -TERM $(worker_pids)
    ends_with 143 "$pid"
    n=$(sed -n 's/^stopped by signal, checkpoint at iteration //p' \
        "$BATS_TEST_TMPDIR/log")
    [ "$n" -ge 20 ]
    [ -f "$dir/out/ckpt/step-$n/model.safetensors" ]
    grep -q '"exit_code":143' "$dir/report.json"
    cv_spec $((n / 8 + 1)) 0.01 # eight iterations are an epoch
    run worker 2
    [ "$status" -eq 0 ]
    [[ $output == *"resumed at iteration $n of"* ]]
}

@test "each damaged checkpoint is named; without a usable one it begins anew" {
    trains_long
    cv_spec 3 0.01
    run worker 1
    [ "$status" -eq 0 ]
    local old=$dir/out/ckpt/step-32 new=$dir/out/ckpt/step-48
    printf 'damage' >"$new/train/state.json"
    cp "$new/train/optim.safetensors" "$old/model.safetensors"
    run worker 1
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *'checkpoint is damaged, not used why="step-48: train/state.json: '* ]]
    [[ $output == *'checkpoint is damaged, not used why="step-32: model.safetensors: '* ]]
    [[ $output == *'no checkpoint can be used, training begins at iteration 1 '* ]]
    # With one that is whole: the others by name, and no new beginning.
    printf 'damage' >"$new/train/state.json"
    run worker 1
    echo "$output"
    [[ $output == *'not used why="step-48: train/state.json: '* ]]
    [[ $output == *"resumed at iteration 32 of 48"* ]]
    [[ $output != *"begins at iteration 1"* ]]
}

@test "resumed on other ranks: losses differ only if the batches do" {
    trains_long
    # resume RANKS BATCH STEPS: on what 2 ranks with batches of 4 have begun.
    resume() {
        cv_spec 1 0.01
        rm -rf "$dir"
        worker 2 >/dev/null
        cv_spec 2 0.01
        sed -i "s/batch_size: 4/batch_size: $2, gradient_accumulation_steps: $3/" \
            "$BATS_TEST_TMPDIR/spec.yaml"
        run worker "$1"
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *"resumed at iteration 8 of 16"* ]]
    }
    resume 1 4 2 # batch norm sees the same batches
    [[ $output != *"losses differ was="* ]]
    [[ $output == *"the checkpoint is of 2 ranks, this run has 1: the batches stay the same, so losses differ by rounding only"* ]]
    resume 1 8 1
    [[ $output == *"losses differ was=4 is=8"* ]]
    resume 2 2 2
    [[ $output == *"losses differ was=4 is=2"* ]]
}

@test "SIGUSR1: checkpoint, and training goes on" {
    trains_long
    cv_spec 1000 0.01
    worker 2 >"$BATS_TEST_TMPDIR/log" 2>&1 &
    local pid=$!
    wait_for 60 grep -qs '"iteration":5,' "$dir/spool.0"
    # shellcheck disable=SC2046
    kill -USR1 $(worker_pids)
    wait_for 60 grep -qs '^checkpoint at iteration' "$BATS_TEST_TMPDIR/log"
    # shellcheck disable=SC2046
    kill -TERM $(worker_pids)
    ends_with 143 "$pid"
}

@test "SIGUSR1 before the worker listens: it is heard when it does" {
    cv_spec 1000 0.01
    # As the shepherd starts a rank: what a user sends waits.
    env --block-signal=USR1 sh -c 'kill -USR1 $$; exec "$@"' sh \
        "$MGPU_BIN/mgpu-worker" --standalone "$BATS_TEST_TMPDIR/spec.yaml" \
        --dir "$dir" --alone >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
    local pid=$!
    wait_for 60 grep -qs '^checkpoint at iteration' "$BATS_TEST_TMPDIR/log"
    kill -TERM "$pid"
    ends_with 143 "$pid"
}

@test "a rank that is killed takes the job with it within five seconds" {
    cv_spec 1000 0.01
    worker 2 >"$BATS_TEST_TMPDIR/log" 2>&1 &
    local pid=$!
    # In the third epoch: of the first all has been said.
    wait_for 60 grep -qs '"iteration":17,' "$dir/spool.1"
    kill -KILL "$(worker_pids | tail -n 1)"
    gone() { [ -z "$(worker_pids)" ]; }
    wait_for 30 gone
    ends_with 137 "$pid"
    # What it said until then is there, in whole lines.
    grep -q '^epoch 1/1000: ' "$BATS_TEST_TMPDIR/log"
    tail -n 1 "$dir/spool.1" | grep -q '^{.*}$'
}

@test "memory that ranks share is removed, even when no rank is left" {
    export TMPDIR=$BATS_TEST_TMPDIR
    cv_spec 1000 0.01
    worker 2 >"$BATS_TEST_TMPDIR/log" 2>&1 &
    local pid=$! shared
    wait_for 60 grep -qs '"iteration":5,' "$dir/spool.1"
    shared=$(sed -n 's|.* \(/dev/shm/[^ /]*\).*|\1|p' \
        "/proc/$(worker_pids | head -n 1)/maps" | sort -u)
    [ -n "$shared" ] # else this proves nothing
    [[ $shared == /dev/shm/mgpu-rank.* ]]
    # shellcheck disable=SC2046
    kill -KILL $(pgrep -P "$pid") $(worker_pids)
    gone() { [ -z "$(worker_pids)" ]; }
    wait_for 30 gone
    wait "$pid" || true
    cv_spec 1 0.01
    rm -rf "$dir"
    run -0 worker 1
    for file in $shared; do [ ! -e "$file" ]; done
}

@test "a rank that fails ends the others at once, and its last words are kept" {
    command_spec <<'END'
[ "$MGPU_RANK" = 0 ] && exec sleep 1000
echo '{"iteration":1,"loss":0.25}' >>"$MGPU_METRICS"
echo "rank $MGPU_RANK: out of luck" >&2
exit 3
END
    worker 2 >"$BATS_TEST_TMPDIR/log" 2>&1 &
    local pid=$!
    wait_for 60 grep -qs 'rank 1: out of luck' "$BATS_TEST_TMPDIR/log"
    gone() { [ -z "$(worker_pids)" ]; }
    wait_for 30 gone
    ends_with 3 "$pid"
    grep -q '"loss":0.25' "$dir/spool.1"
    grep -q '"exit_code":3' "$dir/report.json"
}

launch_for() { # URL
    mkdir -p "$dir"
    cat >"$dir/launch.json" <<END
{"version":1,"cluster":"local","job":12,"attempt":1,"token":"0123456789abcdef",
 "url":"$1","dir":"$dir","job_dir":"$dir","heartbeat_s":10,"nodes":1,
 "gpus_per_node":0,"spec":{"version":1,"kind":"command","name":"t",
 "command":["/usr/bin/touch","$dir/touched"],"resources":{"gpus":0}}}
END
    chmod 600 "$dir/launch.json"
}

@test "a claim that the daemon refuses: 76, and nothing runs" {
    ctld_start
    launch_for "$MGPU_URL"
    run timeout "$compute_s" mpirun -n 2 --oversubscribe "$MGPU_BIN/mgpu-worker" \
        --launch "$dir/launch.json"
    ctld_stop
    echo "$output"
    [ "$status" -eq 76 ]
    [ ! -e "$dir/touched" ]
}

@test "a launch file that others may write is not run" {
    launch_for http://127.0.0.1:1
    chmod 620 "$dir/launch.json"
    run timeout "$compute_s" mpirun -n 1 --oversubscribe \
        "$MGPU_BIN/mgpu-worker" --launch "$dir/launch.json"
    echo "$output"
    [ "$status" -eq 77 ]
    [[ $output == *"not a file that only this user can write"* ]]
}

# Says to each request that the disk fails; its port, then a line for each.
no_disk() {
    perl -MIO::Socket::INET -e '
        alarm 100;
        $| = 1;
        my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", Listen => 9)
            or die;
        print $l->sockport, "\n";
        while (my $c = $l->accept) {
            sysread $c, my $request, 65536;
            my $body = q({"error":{"code":"IO","message":"disk"}});
            print $c "HTTP/1.1 500 x\r\nContent-Length: ", length $body,
                "\r\nConnection: close\r\n\r\n$body";
            close $c;
            print "asked\n";
        }' 3>&-
}

@test "a claim that the daemon cannot store: 75, to be tried again" {
    local out=$BATS_TEST_TMPDIR/asked server pid
    no_disk >"$out" &
    server=$!
    wait_for 60 test -s "$out"
    launch_for "http://127.0.0.1:$(head -n 1 "$out")"
    timeout "$compute_s" mpirun -n 2 --oversubscribe --bind-to none \
        "$MGPU_BIN/mgpu-worker" --launch "$dir/launch.json" 3>&- &
    pid=$!
    asked_again() { [ "$(grep -c asked "$out")" -ge 2 ]; }
    wait_for 60 asked_again
    # shellcheck disable=SC2046 # several
    kill -TERM $(worker_pids) # instead of its ten minutes of patience
    ends_with 75 "$pid"
    kill "$server"
    [ ! -e "$dir/touched" ]
}

@test "S10: a program meets its environment, and nothing else" {
    export LEAKED=1
    command_spec <<'END'
test "$GREETING" = hello || exit 10
test -z "$LEAKED" || exit 11
test -z "$OMPI_COMM_WORLD_RANK" || exit 12
test "$MGPU_WORLD_SIZE" = 2 || exit 13
test -d "$MGPU_OUTPUT_DIR" || exit 14
test -z "$(cat)" || exit 15
echo "rank $MGPU_RANK of job $MGPU_JOB_ID.$MGPU_ATTEMPT"
printf '{"iteration":1,"loss":0.5}\nnonsense\n{"iteration":2,"x":%d}\n' \
    "$MGPU_RANK" >>"$MGPU_METRICS"
END
    run worker 2
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"rank 0 of job 0.1"* ]]
    [[ $output == *"rank 1 of job 0.1"* ]]
    [[ $output == *"is no row"* ]]
    [ "$(json '$.loss' <<<"$(head -n 1 "$dir/spool.1")")" = 0.5 ]
    grep -q '"x":1' "$dir/spool.1"
}

@test "a specification's env wins over what is passed on" {
    export LANG=C
    command_spec <<'END'
env | grep -c '^LANG='
sh -c 'echo "$LANG $OMP_NUM_THREADS $MGPU_RANK"'
END
    sed -i 's/^env:.*/env: {LANG: xx, OMP_NUM_THREADS: "7"}/' \
        "$BATS_TEST_TMPDIR/spec.yaml"
    run worker 1
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = 1 ]
    [ "${lines[1]}" = "xx 7 0" ]
}

@test "a program is looked for in its own PATH" {
    mkdir "$BATS_TEST_TMPDIR/bin"
    printf '#!/bin/sh\necho found\n' >"$BATS_TEST_TMPDIR/bin/mine"
    chmod +x "$BATS_TEST_TMPDIR/bin/mine"
    spec <<END
version: 1
kind: command
name: t
command: [mine]
env: {PATH: "$BATS_TEST_TMPDIR/bin:/usr/bin:/bin"}
resources: {gpus: 0}
END
    run worker 1
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *found* ]]
}

# The worker, whose libraries would read them, is the program's parent.
@test "S10: what env sets reaches the program alone" {
    command_spec <<'END'
of='^(PATH=/own|GLIBC_TUNABLES=|GCONV_PATH=|OMPI_MCA_x=)'
env | grep -c -E "$of" || :
tr '\0' '\n' <"/proc/$PPID/environ" | grep -c -E "$of" || :
END
    sed -i 's|^env:.*|env: {PATH: "/own:/usr/bin:/bin", GCONV_PATH: /own, OMPI_MCA_x: y,\
  GLIBC_TUNABLES: glibc.malloc.check=0}|' "$BATS_TEST_TMPDIR/spec.yaml"
    run worker 1
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[0]} ${lines[1]}" = "4 0" ]
}

@test "a program has none of MPI's sockets" {
    command_spec <<<'for f in /proc/$$/fd/*; do readlink "$f" || :; done'
    run worker 1
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == */dev/null* ]]
    [[ $output != *socket:* ]]
}

@test "a worker that starts a program loads no OpenBLAS, and needs little address space" {
    run ldd "$MGPU_BIN/mgpu-worker"
    [ "$status" -eq 0 ]
    [[ $output != *openblas* ]]
    [[ $output != *gfortran* ]]
    [ "${MGPU_VARIANT:-release}" = release ] || return 0 # a sanitizer needs more
    echo 'echo "$GREETING"' | command_spec
    # Its constructor would try for ever to have a buffer.
    ulimit -v 250000
    run timeout "$compute_s" "$MGPU_BIN/mgpu-worker" --alone \
        --standalone "$BATS_TEST_TMPDIR/spec.yaml" --dir "$dir"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *hello* ]]
}

@test "a program's exit status is the job's" {
    command_spec <<<'[ "$MGPU_RANK" = 0 ] || exit 7; sleep 1000'
    run worker 2 # for 100 s at most
    [ "$status" -eq 7 ]
    grep -q "exited with 7" "$dir/report.json"
}

@test "a program that a signal ends is 128 and the signal" {
    command_spec <<<'kill -KILL $$'
    run worker 1
    [ "$status" -eq 137 ]
    grep -q "signal 9" "$dir/report.json"
}

@test "a program that does not exist is 127, one that is none 126" {
    spec <<'END'
version: 1
kind: command
name: t
command: [/nonexistent/program]
resources: {gpus: 0}
END
    run -127 worker 1
    [[ $output == *"cannot run '/nonexistent/program'"* ]]
    sed -i 's|/nonexistent/program|/etc/passwd|' "$BATS_TEST_TMPDIR/spec.yaml"
    run worker 1
    [ "$status" -eq 126 ]
}

@test "a program starts in workdir, by default the specification's" {
    spec <<'END'
version: 1
kind: command
name: t
command: [sh, -c, "pwd -P; ls spec.yaml"]
resources: {gpus: 0}
END
    run -0 worker 1
    [[ $output == *"$(cd "$BATS_TEST_TMPDIR" && pwd -P)"*spec.yaml* ]]
    echo 'workdir: nowhere' >>"$BATS_TEST_TMPDIR/spec.yaml"
    run -127 worker 1
    [[ $output == *"cannot start in '$BATS_TEST_TMPDIR/nowhere': No such file"* ]]
    sed -i 's|nowhere|/|' "$BATS_TEST_TMPDIR/spec.yaml"
    run worker 1
    [ "$status" -ne 0 ]
    [[ $output == *"cannot access 'spec.yaml'"* ]]
}

@test "SIGTERM reaches the program's whole group; what ignores it is killed" {
    command_spec <<'END'
trap 'echo "term $MGPU_RANK"; exit 5' TERM
sh -c 'trap "" TERM; echo $$ >>"$MGPU_OUTPUT_DIR/deaf"; while :; do sleep 1; done' &
echo '{"iteration":1}' >>"$MGPU_METRICS"
while :; do sleep 0.1; done
END
    worker 2 >"$BATS_TEST_TMPDIR/log" 2>&1 &
    local pid=$! deaf
    deaf_are_two() { [ "$(cat "$dir/out/deaf" 2>/dev/null | wc -l)" = 2 ]; }
    wait_for 30 deaf_are_two
    wait_for 60 grep -qs iteration "$dir/spool.1"
    # shellcheck disable=SC2046
    kill -TERM $(worker_pids)
    ends_with 5 "$pid"
    grep -q 'term 0' "$BATS_TEST_TMPDIR/log"
    grep -q 'term 1' "$BATS_TEST_TMPDIR/log"
    for deaf in $(cat "$dir/out/deaf"); do
        gone() { ! kill -0 "$deaf" 2>/dev/null; }
        wait_for 30 gone
    done
}

@test "SIGTERM to one rank only ends them all" {
    command_spec <<<'echo "{\"iteration\":1}" >>"$MGPU_METRICS"; sleep 1000'
    sed -i 's/grace: 60s/grace: 2s/' "$BATS_TEST_TMPDIR/spec.yaml"
    worker 2 >"$BATS_TEST_TMPDIR/log" 2>&1 &
    local pid=$!
    wait_for 60 grep -qs iteration "$dir/spool.0"
    wait_for 60 grep -qs iteration "$dir/spool.1"
    kill -TERM "$(worker_pids | tail -n 1)"
    gone() { [ -z "$(worker_pids)" ]; }
    wait_for 60 gone
    ends_with 143 "$pid"
    grep -q "signal 15" "$dir/report.json"
}

# gpus_seen [LIST]: what each of two programs with a GPU each sees, by rank.
gpus_seen() {
    command_spec <<<'echo "rank $MGPU_RANK: $CUDA_VISIBLE_DEVICES"'
    sed -i 's/gpus: 0/gpus: 2/' "$BATS_TEST_TMPDIR/spec.yaml"
    if [ $# -gt 0 ]; then
        export CUDA_VISIBLE_DEVICES=$1
    else
        unset CUDA_VISIBLE_DEVICES
    fi
    run worker 2
    [ "$status" -eq 0 ] || { echo "$output" && false; }
    grep '^rank' <<<"$output" | sort | paste -sd ' '
}

@test "each program sees the GPU of its rank, and no other" {
    [ "$(gpus_seen 2,3)" = "rank 0: 2 rank 1: 3" ]
    [ "$(gpus_seen GPU-aa,GPU-bb)" = "rank 0: GPU-aa rank 1: GPU-bb" ]
    [ "$(gpus_seen 4)" = "rank 0: 4 rank 1: 4" ] # by who started it
    [ "$(gpus_seen "")" = "rank 0:  rank 1: " ]  # slots without one
    [ "$(gpus_seen)" = "rank 0: 0 rank 1: 1" ]
}

@test "a program of a job without GPUs sees what there was to see" {
    command_spec <<<'echo "seen $CUDA_VISIBLE_DEVICES"'
    CUDA_VISIBLE_DEVICES=6,7 run worker 1
    [ "${lines[0]}" = "seen 6,7" ]
}

@test "a rank for which there is no GPU is told so" {
    command_spec <<<'sleep 100'
    sed -i 's/gpus: 0/gpus: 3/' "$BATS_TEST_TMPDIR/spec.yaml"
    CUDA_VISIBLE_DEVICES=0,1 run worker 3
    echo "$output"
    [ "$status" -eq 69 ]
    [[ $output == *"CUDA_VISIBLE_DEVICES is '0,1'"* ]]
}

# A plug-in whose GPUs are as many as CUDA_VISIBLE_DEVICES has, and which says
# which one was opened. That of the number FAKE_FAULT has failed, and the others
# have not.
fake_plugin() {
    cat >"$BATS_TEST_TMPDIR/fake.c" <<'END'
#include <stdint.h>
#include <stdlib.h>
#include "kernels/device.h"
int mgpu_cuda_count(int32_t *ret, struct error *err);
int mgpu_cuda_open(int32_t index, void **ret, struct error *err);
int mgpu_cuda_count(int32_t *ret, struct error *err)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    (void)err;
    *ret = list && *list;
    for (; list && *list; list++)
        *ret += *list == ',';
    return 0;
}
static void destroy(struct device *d)
{
    (void)d;
}
static const struct device_ops ops = {.destroy = destroy};
static struct device device = {.ops = &ops};
int mgpu_cuda_open(int32_t index, void **ret, struct error *err)
{
    const char *fault = getenv("FAKE_FAULT");
    *ret = &device;
    if (fault && atoi(fault) == index)
        return error_set(err, ERR_DEVICE, "an ECC error");
    if (fault)
        return 0;
    return error_set(err, ERR_UNAVAIL, "opened %s[%d]",
                     getenv("CUDA_VISIBLE_DEVICES"), index);
}
END
    cc -shared -fPIC -I"$MGPU_SRC" -o "$BATS_TEST_TMPDIR/fake.so" \
        "$BATS_TEST_TMPDIR/fake.c" "$MGPU_SRC/jobs/base/error.c"
}

# opened LIST: which GPU each of two ranks that train opens.
opened() {
    CUDA_VISIBLE_DEVICES=$1 MGPU_CUDA_PLUGIN=$BATS_TEST_TMPDIR/fake.so \
        run worker 2
    [ "$status" -eq 69 ] || { echo "$output" && false; }
    grep -o 'rank [01] of 2: .*' <<<"$output" | sed 's/device cuda: //' |
        sort -u | paste -sd ' '
}

@test "training opens the GPU of its rank, or the only one it sees" {
    fake_plugin
    cv_spec 1 0.01
    sed -i 's/device: host/device: cuda/; s/gpus: 0/gpus: 2/' \
        "$BATS_TEST_TMPDIR/spec.yaml"
    # The first to fail may be faster than the other with its word.
    [[ $(opened 2,3) =~ ^rank\ (0\ of\ 2:\ opened\ 2,3\[0\]|1\ of\ 2:\ opened\ 2,3\[1\]) ]]
    [[ $(opened 5) =~ opened\ 5\[0\] ]]
    [[ $(opened 5) != *"[1]"* ]]
    [[ $(opened "") =~ "sees 0 GPUs" ]]
}

@test "F38: the rank whose GPU has failed says so, and on which node" {
    fake_plugin
    cv_spec 1 0.01
    sed -i 's/device: host/device: auto/; s/gpus: 0/gpus: 2/' \
        "$BATS_TEST_TMPDIR/spec.yaml"
    export CUDA_VISIBLE_DEVICES=2,3 MGPU_CUDA_PLUGIN=$BATS_TEST_TMPDIR/fake.so
    SLURMD_NODENAME=n7 FAKE_FAULT=1 run worker 2
    echo "$output"
    [ "$status" -eq 71 ]
    grep -q '"fault_node":"n7"' "$dir/report.json"
    grep -q '"GPU of rank 1 on n7: device cuda: an ECC error"' "$dir/report.json"
    FAKE_FAULT=0 run worker 2
    [ "$status" -eq 71 ]
    grep -q "\"fault_node\":\"$(hostname)\"" "$dir/report.json"
    grep -q '"GPU of rank 0 on ' "$dir/report.json"
}

@test "--device goes before train.device, and says what is missing" {
    cv_spec 1 0.01
    sed -i 's/gpus: 0/gpus: 1/' "$BATS_TEST_TMPDIR/spec.yaml" # device: host
    export MGPU_CUDA_PLUGIN=/nonexistent/plug-in.so
    run worker 1 --device cuda
    echo "$output"
    [ "$status" -eq 69 ]
    [ "$(grep -c ' err worker: ' <<<"$output")" -eq 1 ]
    grep -q "device cuda: no plug-in at '/nonexistent/plug-in.so'" <<<"$output"
    run worker 1 --device auto
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q "device auto uses the host: device cuda: no plug-in" <<<"$output"
    fake_plugin
    CUDA_VISIBLE_DEVICES='' MGPU_CUDA_PLUGIN=$BATS_TEST_TMPDIR/fake.so \
        run worker 1 --device auto
    [ "$status" -eq 0 ]
    grep -q 'device auto uses the host: .* sees 0 GPUs' <<<"$output"
    sed -i 's/device: host/device: cuda/' "$BATS_TEST_TMPDIR/spec.yaml"
    run worker 1 --device host
    echo "$output"
    [ "$status" -eq 0 ]
    not grep -q 'device cuda' <<<"$output"
}

alone() { # [OPTION...]: as worker(), one rank and no launcher
    timeout "$compute_s" "$MGPU_BIN/mgpu-worker" \
        --standalone "$BATS_TEST_TMPDIR/spec.yaml" --alone --dir "$dir" "$@" 3>&-
}

@test "--alone: a program and its exit status, and no part of Open MPI" {
    command_spec <<'END'
! grep mca_ "/proc/$PPID/maps" || exit 1 # modules are loaded by MPI_Init
echo "$MGPU_RANK $MGPU_LOCAL_RANK of $MGPU_WORLD_SIZE"
echo '{"iteration":1,"loss":0.25}' >>"$MGPU_METRICS"
exit 9
END
    run -9 alone
    [[ $output == *"0 0 of 1"* ]]
    grep -q '"loss":0.25' "$dir/spool.0"
    grep -q '"exit_code":9' "$dir/report.json"
}

@test "--alone: SIGTERM, a checkpoint, and the same numbers as under mpirun" {
    cv_spec 2 0.01
    worker 1 >/dev/null 2>&1
    mv "$dir" "$dir.mpi"
    cv_spec 1000 0.01
    alone >"$BATS_TEST_TMPDIR/log" 2>&1 &
    local pid=$!
    wait_for 60 grep -qs '"iteration":3,' "$dir/spool.0"
    # shellcheck disable=SC2046
    kill -TERM $(worker_pids)
    ends_with 143 "$pid"
    grep -q '^stopped by signal, checkpoint at ' "$BATS_TEST_TMPDIR/log"
    rm -rf "$dir"
    cv_spec 2 0.01
    alone >"$BATS_TEST_TMPDIR/log" 2>&1
    grep -q ' on host (alone), 1 rank, ' "$BATS_TEST_TMPDIR/log"
    cmp "$dir.mpi/out/ckpt/step-32/model.safetensors" \
        "$dir/out/ckpt/step-32/model.safetensors"
    cmp "$dir.mpi/out/ckpt/step-32/train/optim.safetensors" \
        "$dir/out/ckpt/step-32/train/optim.safetensors"
}

@test "MGPU_RAN exists once a rank has started" {
    command_spec <<<'test -e "$MGPU_OUTPUT_DIR/../ran"'
    mkdir -p "$dir"
    MGPU_RAN=$dir/ran run worker 1
    echo "$output"
    [ "$status" -eq 0 ]
    [ -f "$dir/ran" ]
}

@test "SIGXCPU, which mpirun can pass on, stops as SIGTERM does" {
    cv_spec 1000 0.01
    timeout "$compute_s" mpirun -n 2 --oversubscribe --bind-to none \
        --mca ess_base_forward_signals SIGXCPU "$MGPU_BIN/mgpu-worker" \
        --standalone "$BATS_TEST_TMPDIR/spec.yaml" --dir "$dir" \
        >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
    local pid=$! mpirun
    wait_for 60 grep -qs '"iteration":5,' "$dir/spool.0"
    mpirun=$(tr -d ' ' <"/proc/$pid/task/$pid/children") # of timeout
    kill -XCPU "$mpirun"
    ends_with 143 "$pid"
    grep -q '^stopped by signal, checkpoint at' "$BATS_TEST_TMPDIR/log"
}

@test "processes that a program leaves are killed, in its group or not" {
    command_spec <<'END'
setsid sh -c 'setsid sleep 1000 & echo $! >>"$MGPU_OUTPUT_DIR/left"'
(exec sleep 1000) & echo $! >>"$MGPU_OUTPUT_DIR/left"
END
    run worker 2
    [ "$status" -eq 0 ]
    [ "$(wc -l <"$dir/out/left")" -eq 4 ]
    for left in $(cat "$dir/out/left"); do
        gone() { ! kill -0 "$left" 2>/dev/null; }
        wait_for 30 gone
    done
}

@test "orphans of a program that runs do not stay as zombies" {
    command_spec <<'END'
setsid sh -c 'true & echo $! >"$MGPU_OUTPUT_DIR/orphan"; kill -9 $$'
read -r orphan <"$MGPU_OUTPUT_DIR/orphan"
i=0
while [ -e "/proc/$orphan" ]; do
    i=$((i + 1))
    [ $i -lt 600 ] || exit 1
    sleep 0.05
done
END
    run worker 1
    [ "$status" -eq 0 ]
}

# As Slurm signals the processes of a step, one after the other. Whoever sends
# the second signal waits until the program is gone.
@test "told to stop just after its program was: that had not finished" {
    command_spec <<'END'
setsid sh -c 'touch "$MGPU_OUTPUT_DIR/there"
    while grep -q "^State:[[:space:]]*[^Z]" "/proc/$1/status"; do :; done
    kill -TERM "$2"' sh $$ $PPID 2>/dev/null &
until [ -e "$MGPU_OUTPUT_DIR/there" ]; do :; done
END
    SLURM_JOB_ID=1 "$MGPU_BIN/mgpu-worker" \
        --standalone "$BATS_TEST_TMPDIR/spec.yaml" --dir "$dir" --alone
    cat "$dir/report.json"
    grep -q '"exit_code":0,.*"stopped":true' "$dir/report.json"
}

@test "a signal to everybody is heard once by a program" {
    command_spec <<'END'
trap 'echo usr1' USR1
trap 'echo term' TERM
echo $$ >"$MGPU_OUTPUT_DIR/up"
while :; do sleep 0.05; done
END
    sed -i 's/grace: 60s/grace: 2s/' "$BATS_TEST_TMPDIR/spec.yaml"
    # As slurmstepd starts a rank, and as it signals a step: all of it. Here
    # one after the other, so that no two of them become one.
    cat >"$BATS_TEST_TMPDIR/stepd" <<'END'
#!/bin/bash
exec >"$DIR/log" 2>&1
bash -c 'SLURM_TASK_PID=$$ exec "$@"' rank "$@" &
rank=$!
until [ -s "$DIR/out/up" ]; do sleep 0.05; done
program=$(<"$DIR/out/up")
for signo in USR1 TERM; do
    kill -s $signo "$program"
    until grep -qix "$signo" "$DIR/log"; do sleep 0.05; done
    kill -s $signo $rank
done
wait $rank # which kills the program after the grace
END
    chmod +x "$BATS_TEST_TMPDIR/stepd"
    mkdir -p "$dir"
    DIR=$dir run -137 timeout "$compute_s" "$BATS_TEST_TMPDIR/stepd" \
        "$MGPU_BIN/mgpu-worker" --standalone "$BATS_TEST_TMPDIR/spec.yaml" \
        --dir "$dir"
    cat "$dir/log"
    [ "$(grep -cx usr1 "$dir/log")" = 1 ]
    [ "$(grep -cx term "$dir/log")" = 1 ]
}
