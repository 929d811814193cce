#!/bin/sh
# demo-elastic.sh - a long training makes room for six short ones, and grows
# back: under the policy goodput, beside the same seven jobs under backfill.
#
# Needs no root, no GPU and no Slurm: the slots are cores of this machine, at
# most four. MGPU_BIN names the folder of the built programs. The short jobs come
# MGPU_DEMO_AFTER seconds after the long one, which then has all slots; an epoch
# has MGPU_DEMO_SAMPLES images. Ends what it started, also when interrupted, and
# keeps its directory for a look.
set -eu

bin=${MGPU_BIN:?set MGPU_BIN to the folder of the mgpu programs}
after=${MGPU_DEMO_AFTER:-120}
epochs=${MGPU_DEMO_EPOCHS:-16}
samples=${MGPU_DEMO_SAMPLES:-9600}
here=$(cd "$(dirname "$0")" && pwd)
spec=$here/mnist-mobilenet.yaml
dir=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-demo-elastic.XXXXXX")
slots=$(nproc)
[ "$slots" -le 4 ] || slots=4
daemon=

# A daemon leaves its jobs running, so they end first.
stop() {
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
trap 'trap - EXIT; stop; exit 130' INT TERM HUP
trap stop EXIT

start() { # POLICY
    mkdir -m 700 "$dir/$1"
    # Jobs of minutes and not of hours: what pays within a minute is done.
    cat >"$dir/$1/mgpu.yaml" <<END
version: 1
local: {cpu_slots: $slots}
watchdog: {heartbeat: 1s}
scheduler:
  policy: $1
  goodput: {interval: 5s, min_runtime: 5s, hysteresis: 0s, max_resizes_per_hour: 20}
END
    MGPU_URL=unix:$dir/$1/sock
    export MGPU_URL
    setsid "$bin/mgpu-ctld" --local --config "$dir/$1/mgpu.yaml" \
        --state-dir "$dir/$1/state" --socket "$dir/$1/sock" 2>"$dir/$1/ctld.log" &
    daemon=$!
    tries=100
    until "$bin/mgpu-stat" --status >/dev/null 2>&1; do
        tries=$((tries - 1))
        if [ "$tries" -eq 0 ] || ! kill -0 "$daemon" 2>/dev/null; then
            echo "demo: the daemon did not start:" >&2
            cat "$dir/$1/ctld.log" >&2
            exit 1
        fi
        sleep 0.1
    done
}

# In fp64 and slowly, so that the losses can be compared: at a higher rate, norms
# over 8 images make differences of rounding larger.
train() { # NAME EPOCHS GPUS
    "$bin/mgpu-submit" --parsable --set name="$1" --set train.epochs="$2" \
        --set resources.gpus="$3" --set resources.time_limit=1h \
        --set dataset.image_size=64 --set dataset.train_samples="$samples" \
        --set model.width_mult=0.25 --set train.precision=fp64 \
        --set train.optimizer.lr=1e-4 --set train.batch_size=8 \
        --set train.global_batch_size=96 "$spec"
}

sql() { sqlite3 -readonly "$dir/$1/state/state.db" "$2"; }

# The seven jobs under one policy, until all have ended.
play() { # POLICY GPUS
    start "$1"
    printf '\nPolicy %s, %s GPUs (here: slots) for each job\n' "$1" "$2"
    long=$(train long "$epochs" "$2")
    sleep "$after"
    until "$bin/mgpu-stat" --no-header --format state,gpus "$long" |
        grep -qE "RUNNING +$slots\$|COMPLETED|FAILED"; do
        sleep 0.5
    done
    for i in 1 2 3 4 5 6; do
        train "short$i" 1 "$2" >/dev/null
    done
    for job in $("$bin/mgpu-stat" --no-header --format id -t all); do
        "$bin/mgpu-stat" --wait "$job" >/dev/null || :
    done
    gantt "$1"
    stop
}

# A line for each job: a digit says how many slots it has, a dot that it waits.
gantt() { # POLICY
    sql "$1" "SELECT j.job, j.name, j.submitted_at, j.ended_at, a.running_at,
                  a.ended_at, a.gpus,
                  (SELECT min(submitted_at) FROM v_job),
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

play goodput "1..$slots"
play backfill "$slots"

# The demo is also a test. Under backfill nobody disturbs the long job.
fail() {
    echo "demo: $*; see $dir" >&2
    exit 1
}
for policy in goodput backfill; do
    [ "$(sql $policy "SELECT count(*) FROM v_job WHERE state = 'COMPLETED'")" = 7 ] ||
        fail "not all jobs completed under $policy"
done
# Each word to stop that left it with fewer slots, or none, for a while.
shrank=$(sql goodput "SELECT count(*) FROM v_event e JOIN v_attempt a
    ON a.job = e.job AND a.attempt = e.attempt
    WHERE e.job = $long AND e.event = 'preempt'
      AND coalesce(json_extract(e.detail, '\$.to_gpus'), 0) < a.gpus")
grew=$(sql goodput "SELECT count(*) FROM v_attempt a JOIN v_attempt b
    ON b.job = a.job AND b.attempt > a.attempt
    WHERE a.job = $long AND b.gpus = $slots AND b.attempt > 2")
[ "$shrank" -ge 1 ] || fail "the long job did not shrink"
[ "$grew" -ge 1 ] || fail "the long job did not grow back"
# Sums in another order round differently, in the last digits of fp64.
apart=$(sqlite3 -readonly "$dir/goodput/state/metrics.db" \
    "ATTACH 'file:$dir/backfill/state/metrics.db?mode=ro' AS other;
     SELECT max(abs(a.train_loss / b.train_loss - 1))
     FROM v_epoch a JOIN other.v_epoch b USING (job, epoch) WHERE a.job = $long")
printf '\nThe long job gave slots away %s times, and grew back.\n' "$shrank"
printf 'Its training losses of an epoch are at most %s apart from those undisturbed.\n' \
    "$apart"
awk -v a="$apart" 'BEGIN { exit !(a != "" && a <= 0.001) }' ||
    fail "the long job has other losses"
printf 'Remove everything with: rm -r %s\n' "$dir"
