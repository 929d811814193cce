#!/bin/sh
# demo-elastic.sh - a long training makes room for six short ones, and grows
# back: under the policy goodput, beside the same seven jobs under backfill.
#
# usage: demo-elastic.sh [--slurm]
#
# Needs no root and no GPU. A slot is a core of this machine; there are at most
# four, and each rank runs on the cores of its job's slots. --slurm starts a
# private Slurm of one node, whose GPUs stand for the slots. MGPU_BIN names the
# folder of the built programs. Ends what it started, also when interrupted, and
# keeps its directory for a look.
#
# The policy measures how much faster the long job is on more slots. On a machine
# whose cores are busy it is no faster, because ranks wait for the slowest and the
# kernel shares the time among sessions, not among ranks. So as root the script
# gives its jobs the nice value MGPU_DEMO_NICE (-15), which takes time from other
# programs for a minute or two. Without root, status 77 means: all is right, but
# more slots were measured to be no faster, so the long job did not grow back.
#
# The time is scaled: the long job takes MGPU_DEMO_LONG seconds on all slots (25,
# with --slurm 50, where a resize takes longer) and a short one MGPU_DEMO_SHORT
# seconds on one (2), at the speed of a core that the script measures first. The
# short jobs come when the long one trains on all
# slots, and not after two minutes. An administrator gives it these: that a resize
# takes 30 s, as goodput assumes of a class that was never resized, would not pay
# for jobs this short. After it the policy knows what it took.
set -eu

bin=${MGPU_BIN:?set MGPU_BIN to the folder of the mgpu programs}
long_s=${MGPU_DEMO_LONG:-25}
least=5 # epochs of the long job
short_s=${MGPU_DEMO_SHORT:-2}
nice=${MGPU_DEMO_NICE:--15}
here=$(cd "$(dirname "$0")" && pwd)
spec=$here/mnist-mobilenet.yaml
testbed=$here/../../tests/slurm/testbed
dir=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-demo-elastic.XXXXXX")
slots=$(env -u OMP_NUM_THREADS nproc) # which else counts threads
[ "$slots" -le 4 ] || slots=4
daemon=
favourer=
slurm=

# A daemon leaves its jobs running, so they end first.
stop() {
    if [ -n "$favourer" ]; then
        kill "$favourer" 2>/dev/null || :
        wait "$favourer" 2>/dev/null || :
        favourer=
    fi
    if [ -n "$daemon" ]; then
        for job in $("$bin/mgpu-stat" --no-header --format id 2>/dev/null); do
            "$bin/mgpu-cancel" --quiet "$job" 2>/dev/null || :
            "$bin/mgpu-stat" --wait --timeout 30s "$job" >/dev/null 2>&1 || :
        done
        kill "$daemon" 2>/dev/null || :
        wait "$daemon" 2>/dev/null || :
        daemon=
    fi
}
leave() {
    trap - EXIT INT TERM HUP
    stop
    [ -z "$slurm" ] || "$testbed" down "$slurm" --purge
}
trap 'leave; exit 130' INT TERM HUP
trap leave EXIT

fail() {
    echo "demo-elastic: $*; see $dir" >&2
    exit 1
}

case ${1-} in
'') ;;
--slurm)
    slurm=$dir/slurm
    long_s=${MGPU_DEMO_LONG:-50}
    least=10
    ;;
*) fail "usage: demo-elastic.sh [--slurm]" ;;
esac
[ "$slots" -gt 1 ] || fail "this machine has one core, and a job cannot shrink below one slot"

# Runs a command in a session of its own, with the nice value if we may. With
# autogroups, sched(7), the kernel ranks sessions by a nice value of their own.
in_session() {
    # shellcheck disable=SC2016 # the inner shell expands them
    exec setsid -w sh -c '{ renice -n "$0" $$ && echo "$0" >/proc/$$/autogroup
        } >/dev/null 2>&1; exec "$@"' "$nice" "$@"
}
# The same for the attempts of the daemon, which are sessions too.
favour() { # POLICY
    while sleep 0.3; do
        for pid in $(pgrep -f "mgpu-worker --launch $dir/$1/"); do
            echo "$nice" >"/proc/$pid/autogroup" || : # it may have ended
        done
    done 2>/dev/null
}

# The specification of all: 12 micro-batches of 16 in each iteration, so 1, 2, 3,
# 4 slots are allowed. In fp64, and slowly, so that the losses can be compared:
# sums in another order round differently in the last bit, and at ten times the
# rate the batch norms make 1e-3 of that within 40 iterations.
options() { # NAME EPOCHS SAMPLES GPUS
    printf '%s\n' name="$1" train.epochs="$2" dataset.train_samples="$3" \
        resources.gpus="$4" resources.time_limit=2h train.device=host \
        dataset.path="$here/../../tests/data/mnist" dataset.eval_samples=16 \
        dataset.image_size=64 model.width_mult=0.25 train.precision=fp64 \
        train.optimizer.lr=1e-4 train.batch_size=16 \
        train.global_batch_size=192
}
train() { # NAME EPOCHS SAMPLES GPUS
    # shellcheck disable=SC2046 # no option has a blank
    "$bin/mgpu-submit" --parsable $(options "$@" | sed 's/^/--set /') "$spec"
}

start() { # POLICY
    mkdir -m 711 "$dir/$1"
    # Jobs of minutes and not of hours: a resize that pays within a minute is
    # made, and the policy looks often.
    cat >"$dir/$1/mgpu.yaml" <<END
version: 1
cluster: $1
watchdog: {heartbeat: 1s}
scheduler:
  policy: $1
  goodput: {interval: 5s, min_runtime: 5s, hysteresis: 0s, max_resizes_per_hour: 20}
END
    if [ -n "$slurm" ]; then
        cat >>"$dir/$1/mgpu.yaml" <<END
allocator: slurm
slurm: {conf: $SLURM_CONF, cpus_per_gpu: 1}
controller:
  listen: 127.0.0.1:$MGPU_TEST_PORT
  url: http://127.0.0.1:$MGPU_TEST_PORT
END
    else
        cat >>"$dir/$1/mgpu.yaml" <<END
allocator: local
local: {gpus: 0, cpu_slots: $slots, bind: true}
END
    fi
    MGPU_URL=unix:$dir/$1/sock
    export MGPU_URL
    # In a session of its own: Ctrl-C is for this script. With the testbed's mark
    # it ends with it.
    MGPU_TESTBED=$slurm in_session "$bin/mgpu-ctld" --config "$dir/$1/mgpu.yaml" \
        --state-dir "$dir/$1/state" --socket "$dir/$1/sock" 2>"$dir/$1/ctld.log" &
    daemon=$!
    until "$bin/mgpu-stat" --status >/dev/null 2>&1; do
        kill -0 "$daemon" 2>/dev/null || {
            cat "$dir/$1/ctld.log" >&2
            fail "the daemon did not start"
        }
        sleep 0.1
    done
    favour "$1" &
    favourer=$!
}

state() { sqlite3 -readonly "$dir/$1/state/state.db" "$2"; }
metrics() { sqlite3 -readonly "$dir/$1/state/metrics.db" "$2"; }

# has_run POLICY JOB SLOTS N: it runs on so many and has done N iterations there.
has_run() {
    attempt=$(state "$1" "SELECT max(attempt) FROM v_attempt WHERE job = $2
        AND gpus = $3 AND ended_at IS NULL")
    [ -n "$attempt" ] && [ "$(metrics "$1" "SELECT count(*) FROM v_iteration
        WHERE job = $2 AND attempt = $attempt AND rank = 0")" -ge "$4" ]
}
# until_run POLICY JOB SLOTS N [COMMAND...]: calls the command meanwhile.
until_run() {
    policy=$1 job=$2 on=$3 n=$4
    shift 4
    until has_run "$policy" "$job" "$on" "$n"; do
        case $("$bin/mgpu-stat" --no-header --format state "$job") in
        COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL)
            fail "job $job ended before it trained on $on slots"
            ;;
        esac
        "$@"
        sleep 0.2
    done
}
# After ten iterations on fewer, which tell their speed. Refused while the policy
# resizes it, and when it has them.
ask_for_all() {
    [ "$(metrics goodput "SELECT count(*) FROM v_iteration
        WHERE job = $job AND rank = 0")" -lt 10 ] ||
        "$bin/mgpu-admin" --quiet resize "$job" "$slots" 2>/dev/null || :
}

# Images a second on one core.
speed() {
    # shellcheck disable=SC2046 # no option has a blank
    "$bin/mgpu-submit" --show $(options speed 1 3840 1 | sed 's/^/--set /') \
        "$spec" >"$dir/speed.yaml"
    (
        OMP_NUM_THREADS=1 in_session "$bin/mgpu-worker" --standalone \
            "$dir/speed.yaml" --dir "$dir/speed" --alone
    ) >"$dir/speed.log" 2>&1 ||
        fail "the training alone failed"
    sed -n 's/^epoch 1\/1: .* \([0-9]*\) samples\/s$/\1/p' "$dir/speed.log" |
        tail -n 1
}

# The seven jobs under one policy, until all have ended.
play() { # POLICY GPUS
    start "$1"
    printf '\nPolicy %s, %s slots for each job\n' "$1" "$2"
    long=$(train long "$epochs" 9600 "$2")
    if [ "$1" = goodput ]; then
        until_run "$1" "$long" "$slots" 30 ask_for_all
    else
        until_run "$1" "$long" "$slots" 30 :
    fi
    for i in 1 2 3 4 5 6; do
        train "short$i" 1 "$samples" "$2" >/dev/null
    done
    for job in $(state "$1" "SELECT job FROM v_job"); do
        "$bin/mgpu-stat" --wait "$job" >/dev/null || fail "job $job failed under $1"
    done
    stop
    gantt "$1"
}

# A line for each job: a digit says how many slots it has, a dot that it waits.
gantt() { # POLICY
    state "$1" "SELECT j.job, j.name, j.submitted_at, j.ended_at, a.running_at,
                    a.ended_at, a.gpus, (SELECT min(submitted_at) FROM v_job),
                    (SELECT max(ended_at) FROM v_job)
                FROM v_job j JOIN v_attempt a USING (job)
                ORDER BY j.job, a.attempt" | awk -F'|' -v width=64 '
        function cell(t) { return int((t - $8) / ($9 - $8) * (width - 1)) + 1 }
        !($1 in name) { name[$1] = $2; order[++n] = $1; took[$1] = $4 - $3
            for (i = cell($3); i <= cell($4); i++) at[$1, i] = "." }
        $5 != "" { for (i = cell($5); i <= cell($6); i++) at[$1, i] = $7 }
        { span = $9 - $8 }
        END {
            for (k = 1; k <= n; k++) {
                line = ""
                for (i = 1; i <= width; i++)
                    line = line (at[order[k], i] == "" ? " " : at[order[k], i])
                printf "  %-7s %s %5.0f s\n", name[order[k]], line, took[order[k]]
                sum += took[order[k]]
            }
            printf "  mean of the seven: %.0f s; all done after %.0f s\n",
                sum / n, span
        }'
}

if [ -n "$slurm" ]; then
    # Everybody who runs a job passes through.
    chmod 711 "$dir"
    "$testbed" up "$slurm" --nodes 1 --gpus "$slots" --owner $$
    eval "$("$testbed" env "$slurm")"
fi
rate=$(speed)
# Epochs of 9,600 images, 50 iterations each. When the short jobs are done, so
# much must be left that growing is worth what a resize costs.
epochs=$((rate * slots * long_s / 9600))
[ "$epochs" -ge "$least" ] || epochs=$least
samples=$((rate * short_s / 192 * 192))
[ "$samples" -le 9600 ] || samples=9600
[ "$samples" -ge 1920 ] || samples=1920
printf '%s slots; a core trains %s images/s: the long job has %s epochs of 9600 images, a short one has %s images\n' \
    "$slots" "$rate" "$epochs" "$samples"

play goodput "1..$slots"
play backfill "$slots"

# Each word to stop that left the long job with fewer slots, or with none.
times_shrunk() {
    state goodput "SELECT count(*) FROM v_event e JOIN v_attempt a
        ON a.job = e.job AND a.attempt = e.attempt
        WHERE e.job = $long AND e.event = 'preempt'
          AND coalesce(json_extract(e.detail, '\$.to_gpus'), 0) < a.gpus"
}
# Attempts on all slots after one that was told to leave all of them.
times_grown() {
    state goodput "SELECT count(DISTINCT a.attempt) FROM v_attempt a
        JOIN v_event e ON e.job = a.job AND e.event = 'preempt'
        JOIN v_attempt was ON was.job = e.job AND was.attempt = e.attempt
        WHERE a.job = $long AND a.gpus = $slots AND a.running_at > 0
          AND was.gpus = $slots AND was.attempt < a.attempt"
}
# All slots were measured to be less than a tenth faster than fewer: other
# programs had the cores, and then growing does not pay.
is_busy() {
    [ "$(metrics goodput "SELECT avg(t_iter) FILTER (WHERE gpus = $slots) >
            0.9 * avg(t_iter) FILTER (WHERE gpus < $slots)
        FROM v_iteration JOIN run USING (job, attempt)
        WHERE job = $long AND rank = 0")" = 1 ]
}

# The demo is also a test. Under backfill nobody disturbs the long job.
for policy in goodput backfill; do
    [ "$(state $policy "SELECT count(*) FROM v_job WHERE state = 'COMPLETED'")" = 7 ] ||
        fail "not all jobs completed under $policy"
done
[ "$(state backfill "SELECT count(*) FROM v_attempt WHERE job = $long")" = 1 ] ||
    fail "somebody disturbed the long job under backfill"
shrank=$(times_shrunk)
[ "$shrank" -ge 1 ] || fail "the long job did not shrink"
# Every iteration was counted once, and has the loss of the undisturbed run. The
# sums of other numbers of ranks round differently, by 2^-53 of a value. What the
# job makes of that is its own property: a learning rate that is 2^-30 of itself
# larger moves its first 50 losses by 1.6e-11, so some epochs by 1e-10, and 2^-30
# is 2^23 times a rounding. A resume without the momentum of the optimizer was
# 1e-2 off.
query="ATTACH 'file:$dir/backfill/state/metrics.db?mode=ro' AS other;
    SELECT printf('%d %d %d %.2g', count(*), count(DISTINCT a.iteration),
        (SELECT count(*) FROM v_iteration WHERE job = $long AND rank = 0),
        max(abs(a.loss / b.loss - 1)))
    FROM v_iteration a JOIN other.v_iteration b USING (job, iteration, rank)
    WHERE job = $long AND rank = 0"
# shellcheck disable=SC2046 # four numbers
set -- $(metrics goodput "$query")
printf '\nThe long job gave slots away %s times. Its %s losses are at most %s apart from those of the undisturbed run.\n' \
    "$shrank" "$1" "${4-?}"
n=$((epochs * 50))
[ "$1 $2 $3" = "$n $n $n" ] ||
    fail "the long job left iterations out, or repeated some: $*"
awk -v a="$4" 'BEGIN { exit !(a != "" && a <= 1e-10) }' ||
    fail "the long job has other losses"
metrics goodput "SELECT printf('Measured on %d of %d slots: %.0f images/s, %.2f times one slot.',
    gpus, $slots, samples_per_s, speedup) FROM v_scaling WHERE basis = 'measured'"
# What is left between recorded and repeat is the error of the simulator.
printf '\nThese jobs in the simulator: their attempts at their sizes (repeat), and the policy again\n'
"$bin/mgpu-sim" --config "$dir/goodput/mgpu.yaml" --from-db "$dir/goodput/state" \
    --policy repeat --policy goodput >"$dir/sim.txt" ||
    fail "the simulator does not repeat the jobs"
sed -n '1p; /^JCT average/p; /^makespan/p; /^restarts per job/p' "$dir/sim.txt"
printf 'Remove everything with: rm -r %s\n' "$dir"
if [ "$(times_grown)" -eq 0 ]; then
    is_busy || fail "the long job did not grow back"
    echo "demo-elastic: not seen: that the long job grows back. Other programs have the cores: all slots were measured to be no faster than fewer" >&2
    exit 77
fi
