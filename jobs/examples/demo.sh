#!/bin/sh
# demo.sh - a private daemon, one real training job, and what was recorded.
#
# Needs no root, no GPU and no Slurm. MGPU_BIN names the folder of the built
# programs. Ends what it started, also when interrupted, and keeps its
# directory for a look.
#
# One rank with two micro-batches adds up what two ranks add up, so the losses
# of both jobs are the same bits, on any processor and with any number of
# threads. OMP_NUM_THREADS, by default half of the cores, keeps the speeds of
# one rank and of two comparable.
set -eu

# shellcheck source=jobs/examples/demo-daemon.sh
. "$(dirname "$0")/demo-daemon.sh"
spec=$here/mnist-mobilenet.yaml
threads=$(($(env -u OMP_NUM_THREADS nproc) / 2))
[ "$threads" -gt 0 ] || threads=1
OMP_NUM_THREADS=${OMP_NUM_THREADS:-$threads}
export OMP_NUM_THREADS

printf 'Starting a private daemon in %s, threads of each rank: %s\n' "$dir" \
    "$OMP_NUM_THREADS"
# The default policy may grow the second job by itself. Here a person does.
printf '%s\n' 'version: 1' 'scheduler: {policy: backfill}' >"$dir/mgpu.yaml"
start_daemon --slots 2 --config "$dir/mgpu.yaml"

printf '\n$ mgpu-submit --set train.global_batch_size=64 %s\n' "$spec"
job=$("$bin/mgpu-submit" --parsable --set train.global_batch_size=64 "$spec")
show stat
wait_for_job
show stat "$job"
show stat --metrics "$job"
finished=$job
job=

# The same job once more, on one slot, with two micro-batches. Half way it grows
# to two: its losses are those of the job that nobody disturbed.
state_of() { "$bin/mgpu-stat" --no-header --format "$1" "$job" 2>/dev/null; }
printf '\n$ mgpu-submit --set name=mnist-elastic --set train.global_batch_size=64 --set resources.gpus=1..2 %s\n' "$spec"
job=$("$bin/mgpu-submit" --parsable --set name=mnist-elastic \
    --set train.global_batch_size=64 --set resources.gpus=1..2 "$spec")
half() {
    at=$(sqlite3 -readonly "$dir/state/metrics.db" \
        "SELECT coalesce(max(iteration), 0) FROM v_iteration WHERE job = $job")
    [ "$at" -ge 314 ]
}
until half; do
    case $(state_of state) in
    COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL) break ;;
    esac
    sleep 0.2
done
show admin resize "$job" 2
wait_for_job
show stat "$job"
grown=$job
job=
show stat --plot "$dir/losses.svg" "$finished" "$grown"
printf 'Both curves of the loss: %s/losses.svg\n' "$dir"

db=$dir/state/metrics.db
query="SELECT max(eval_accuracy) FROM v_epoch WHERE job = $finished"
printf '\n$ sqlite3 -readonly %s "%s"\n' "$db" "$query"
accuracy=$(sqlite3 -readonly "$db" "$query")
rows=$(sqlite3 -readonly "$db" \
    "SELECT count(*) FROM v_iteration WHERE job = $finished")
printf '%s\n' "$accuracy"
show sim --config "$dir/mgpu.yaml" --policy fifo --policy backfill \
    --from-db "$dir/state" --json "$dir/sim.json"
printf '\nRecorded %s iteration rows. Databases: %s/state/{state,metrics}.db\n' \
    "$rows" "$dir"
printf 'See both jobs in a browser:\n  %s/mgpu-ctld --local --slots 2 --state-dir %s/state --socket %s/ctld.sock --background\n  %s/mgpu-web --url unix:%s/ctld.sock\n' \
    "$bin" "$dir" "$dir" "$bin" "$dir"
printf 'Remove everything with: rm -r %s\n' "$dir"

# The demo is also a test: the job has grown, and each of its iterations has the
# loss of the other job, bit for bit.
same=$(sqlite3 -readonly "$db" "SELECT count(*) FROM v_iteration a
    JOIN v_iteration b USING (iteration, rank)
    WHERE a.job = $grown AND b.job = $finished AND rank = 0 AND a.loss = b.loss")
all=$(sqlite3 -readonly "$db" "SELECT count(*) FROM v_iteration
    WHERE job = $finished AND rank = 0")
grew=$(sqlite3 -readonly "$dir/state/state.db" \
    "SELECT count(*) FROM v_attempt WHERE job = $grown AND resized_from = 1 AND gpus = 2")
printf 'Training losses of both jobs are the same bits in %s of %s iterations.\n' \
    "$same" "$all"
if [ "$grew" != 1 ] || [ "$same" != "$all" ] || [ "$all" != 628 ]; then
    echo "$demo: the job that grew has other losses, or did not grow" >&2
    exit 1
fi
# The replay of what the daemon did, with its policy. How near its time is
# depends on how steady this machine is; that the job was restarted does not.
sqlite3 :memory: "SELECT printf('Recorded makespan %.1f s, replayed %.1f s.',
        json_extract(d, '$.recorded_makespan_s'),
        json_extract(d, '$.runs[1].makespan_s'))
    FROM (SELECT CAST(readfile('$dir/sim.json') AS TEXT) AS d)"
if [ "$(sqlite3 :memory: "SELECT json_extract(
        CAST(readfile('$dir/sim.json') AS TEXT), '$.runs[1].restarts_per_job')")" != 0.5 ]; then
    echo "$demo: mgpu-sim did not repeat the resize" >&2
    exit 1
fi
# Both jobs are far beyond it: a run that learns nothing has 0.11.
if ! awk -v a="$accuracy" 'BEGIN { exit !(a >= 0.9) }'; then
    echo "$demo: test accuracy $accuracy is below 0.9" >&2
    exit 1
fi
