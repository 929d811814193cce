#!/bin/sh
# demo-slurm.sh - a private Slurm of 2 nodes with 4 GPUs each, a daemon on it,
# and two training jobs: one over both nodes, one on a single GPU.
#
# The nodes are processes here and the GPUs are links to /dev/null: the ranks
# compute on the CPU. Needs no root. MGPU_BIN names the folder of the built
# programs. Ends what it started, also when interrupted, and keeps the
# databases for a look.
set -eu

bin=${MGPU_BIN:?set MGPU_BIN to the folder of the mgpu programs}
here=$(cd "$(dirname "$0")" && pwd)
testbed=$here/../../tests/slurm/testbed
spec=$here/mnist-mobilenet.yaml
dir=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-demo.XXXXXX")
MGPU_URL=unix:$dir/ctld.sock
export MGPU_URL
daemon=
live=

# The jobs first, while the daemon can still end them; Slurm last.
stop() {
    trap - EXIT INT TERM HUP
    if [ -n "$daemon" ]; then
        for job in $live; do
            "$bin/mgpu-cancel" --quiet "$job" >/dev/null 2>&1 || :
            "$bin/mgpu-stat" --wait --timeout 20s "$job" >/dev/null 2>&1 || :
        done
        kill "$daemon" 2>/dev/null || :
        wait "$daemon" 2>/dev/null || :
    fi
    "$testbed" down "$dir/slurm" --purge
}
trap 'stop; exit 130' INT TERM HUP
trap stop EXIT

fail() {
    echo "demo-slurm: $*" >&2
    tail -n 30 "$dir/ctld.log" >&2 || :
    exit 1
}

show() {
    printf '\n$ %s\n' "$*"
    tool=$1
    shift
    case $tool in
    mgpu-*) tool=$bin/$tool ;;
    esac
    "$tool" "$@"
}

# until_true SECONDS COMMAND...
until_true() {
    tries=$(($1 * 10))
    shift
    until "$@"; do
        tries=$((tries - 1))
        if [ "$tries" -eq 0 ] || ! kill -0 "$daemon" 2>/dev/null; then
            fail "not in time: $*"
        fi
        sleep 0.1
    done
}

submit() {
    printf '\n$ mgpu-submit %s mnist-mobilenet.yaml\n' "$*" >&2
    "$bin/mgpu-submit" --parsable --set train.device=host \
        --set dataset.train_samples=2048 --set dataset.eval_samples=256 \
        --set train.epochs=2 --set train.lr_scheduler.num_warmup_steps=4 \
        "$@" "$spec"
}

sql() { sqlite3 -readonly "$dir/state/$1.db" "$2"; }
answers() { "$bin/mgpu-stat" --status >/dev/null 2>&1; }
has_rows() {
    [ "$(sql metrics "SELECT count(*) FROM v_iteration WHERE job = $1")" -gt 0 ]
}
native() { sql state "SELECT native_id FROM v_attempt WHERE job = $1"; }

printf 'Starting a private Slurm in %s/slurm\n' "$dir"
# Everybody who runs a job passes through.
chmod 711 "$dir"
"$testbed" up "$dir/slurm" --nodes 2 --gpus 4 --owner $$
eval "$("$testbed" env "$dir/slurm")"
cat >"$dir/mgpu.yaml" <<YAML
version: 1
cluster: demo
allocator: slurm
controller:
  listen: 127.0.0.1:$MGPU_TEST_PORT
  url: http://127.0.0.1:$MGPU_TEST_PORT
slurm: {conf: $SLURM_CONF}
YAML
show sinfo -p batch -o '%N %t %G'

# In a session of its own: Ctrl-C is for this script, which still needs the
# daemon to end the jobs. With the testbed's mark both end together.
MGPU_TESTBED=$dir/slurm setsid "$bin/mgpu-ctld" --config "$dir/mgpu.yaml" \
    --state-dir "$dir/state" --socket "$dir/ctld.sock" 2>"$dir/ctld.log" &
daemon=$!
until_true 30 answers

wide=$(submit --set name=wide --set resources.nodes=2 --set resources.gpus=4)
live=$wide
one=$(submit --set name=one --set resources.gpus=1)
live="$wide $one"
# Ten times what two quiet cores need.
until_true 600 has_rows "$wide"
until_true 600 has_rows "$one"
show mgpu-stat
show mgpu-stat --nodes
show squeue -o '%.6i %.9P %.6j %.8u %.2t %.9l %.4D %R'
show scontrol show job -d "$(native "$wide")" |
    grep -E '^\$|JobId|UserId|TimeLimit|NodeList=n|Nodes=|Comment'

show mgpu-stat --wait --timeout 30m "$wide" "$one" || fail "a job failed"
live=
show mgpu-stat "$wide"
show mgpu-stat --events "$wide"

printf '\nRecorded, by rank:\n'
sqlite3 -readonly -header -column "$dir/state/metrics.db" \
    "SELECT job, rank, count(*) AS iterations, round(avg(t_iter), 4) AS t_iter,
            round(min(loss), 3) AS best_loss
     FROM v_iteration GROUP BY job, rank"

# The demo is also a test. 2048 images, 32 for each rank and iteration, twice.
rows=$(sql metrics "SELECT group_concat(n) FROM (SELECT count(*) AS n
    FROM v_iteration GROUP BY job, rank ORDER BY job, rank)")
[ "$rows" = 32,32,32,32,128 ] || fail "rows by rank: $rows"
states=$(sql state 'SELECT group_concat(DISTINCT state) FROM v_job')
[ "$states" = COMPLETED ] || fail "states: $states"
ended=$(grep -c 'JobState=COMPLETED' "$dir/slurm/log/jobcomp.log")
[ "$ended" = 2 ] || fail "Slurm completed $ended jobs"
printf '\nDatabases: %s/state/{state,metrics}.db\n' "$dir"
printf 'Remove everything with: rm -r %s\n' "$dir"
