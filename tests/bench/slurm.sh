#!/bin/bash
# slurm.sh - a large emulated cluster and a long queue: is the daemon's event
# loop ever blocked, how old is what it knows, how fast are submits?
#
#   slurm.sh [NODES [GPUS [JOBS [SECONDS]]]]             64 8 1000 30
#   MODE=system slurm.sh ...       as root: one daemon for all; another user's
#                                  jobs, for which Slurm is asked at submit
#
# Raises a private Slurm whose nodes exist in name only, lets a stranger hold
# all but four of them, queues JOBS jobs of one GPU, and measures for SECONDS
# while they are started, run and end; before that, on the empty cluster, what it
# costs to resize the MNIST example. The stall is measured twice: by the
# loop itself (mgpu_loop_stall_longest_seconds; ..._own_... is what is left of
# it without waiting for a core), and from outside as the longest answer to
# /livez. The nodes and their jobs would be other machines: they run in a
# cgroup that gets a core only when nobody else wants it. nice(1) alone does
# not do that: with sched_autogroup each session (every slurmd, every step) has
# the weight of the daemon's, whatever its niceness.
# Not a test: figures are printed, none is expected.
set -eu

bin=${MGPU_BIN:?set MGPU_BIN to the folder of the mgpu programs}
here=$(cd "$(dirname "$0")" && pwd)
testbed=$here/../slurm/testbed
mode=${MODE:-personal} user=
daemon_user=daemon owner=games # accounts that every Debian has
nodes=${1:-64} gpus=${2:-8} jobs=${3:-1000} seconds=${4:-30}
dir=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-scale.XXXXXX")
chmod 755 "$dir"
daemon=
probe=
group= # of the cluster's processes
run=$dir      # where the daemon's directory and socket are
for_all=      # lines of its configuration

leave_group() { # once the last process in it is gone
    for _ in $(seq 100); do
        ! rmdir "$group" 2>/dev/null || return 0
        sleep 0.1
    done
}
stop() {
    trap - EXIT INT TERM
    [ -z "$probe" ] || kill "$probe" 2>/dev/null || :
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || :
    [ -z "$daemon" ] || wait "$daemon" 2>/dev/null || :
    "$testbed" down "$dir/tb" --purge || :
    [ -z "$group" ] || leave_group
    rm -rf "${dir:?}"
}
trap stop EXIT
trap 'exit 130' INT TERM

now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.2f", b - a }'; }
# As the user whose jobs they are.
as_owner() {
    ${user:+setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups} \
        "$@"
}
api() {
    curl --silent --fail --max-time 30 --unix-socket "$sock" \
        "http://mgpu$1" "${@:2}"
}
metric() { api /metrics | awk -v name="$1" '$1 == name { print $2 }'; }
free() { api /v1/status | sed 's/.*"slots_free":\([0-9]*\).*/\1/'; }
until_free() { # N: GPUs that the daemon is to know of as free
    for _ in $(seq 1200); do
        [ "$(free)" != "$1" ] || return 0
        sleep 0.05
    done
    echo "slurm.sh: $1 free GPUs were never seen" >&2
    return 1
}
most() { sort -n | awk '{ v[NR] = $1 } END {
    printf "p50 %.2f ms, p99 %.2f ms, longest %.2f ms, %d asked\n",
        v[int((NR + 1) / 2)] * 1e3, v[int(NR * 0.99)] * 1e3, v[NR] * 1e3, NR }'; }

for base in /sys/fs/cgroup/cpu /sys/fs/cgroup; do
    mkdir "$base/mgpu-bench.$$" 2>/dev/null || continue
    group=$base/mgpu-bench.$$
    ! echo 1 2>/dev/null >"$group/cpu.idle" || break
    rmdir "$group"
    group=
done
[ -n "$group" ] ||
    echo "no cgroup to be had: the nodes compete for the daemon's cores"

t=$(now)
(
    [ -z "$group" ] || echo 0 >"$group/cgroup.procs"
    exec nice -n 19 "$testbed" up "$dir/tb" --nodes "$nodes" --gpus "$gpus" \
        --owner "$$" --for 900
)
eval "$("$testbed" env "$dir/tb")"
echo "cluster of $nodes x $gpus GPUs: up in $(since "$t") s"
if [ "$mode" = system ]; then
    user=$owner run=$dir/run
    for_all="  user: $daemon_user
  jobs_dir: $dir/jobs/%u"
    install -d -m 1777 "$dir/jobs"
    install -d -m 755 -o "$daemon_user" "$run"
fi
sock=$run/sock
cat >"$dir/mgpu.yaml" <<YAML
version: 1
cluster: scale
allocator: slurm
controller:
  listen: "127.0.0.1:$MGPU_TEST_PORT"
  url: "http://127.0.0.1:$MGPU_TEST_PORT"
  state_dir: $run/state
  socket: $run/sock
$for_all
limits: {max_jobs_per_user: 1000000, rpc_rate: 1000000, rpc_burst: 1000000}
slurm: {conf: $SLURM_CONF, cpus_per_gpu: 1}
log: {level: notice}
YAML
t=$(now)
"$bin/mgpu-ctld" --config "$dir/mgpu.yaml" 2>"$dir/ctld.log" &
daemon=$!
until_free $((nodes * gpus)) 2>/dev/null
echo "the daemon knows all $((nodes * gpus)) GPUs after $(since "$t") s"

state_db=$run/state/state.db
# shellcheck source=tests/bench/resize.bash
. "$here/resize.bash"
if [ "$gpus" -ge 2 ]; then
    # What a job itself takes counts here: it gets its share of the cores.
    [ -z "$group" ] || echo 0 >"$group/cpu.idle"
    id=$(as_owner "$bin/mgpu-submit" --parsable --url "unix:$sock" \
        --set resources.gpus=1..2 --set train.global_batch_size=64 \
        --set train.epochs=100 \
        "$here/../../jobs/examples/mnist-mobilenet.yaml")
    until_runs "$id" 1
    as_owner "$bin/mgpu-admin" --quiet --url "unix:$sock" resize "$id" 2
    until_runs "$id" 2
    [ -z "$group" ] || echo 1 >"$group/cpu.idle"
    echo "MNIST resized from 1 to 2 GPUs (<= 15 s): $(resize_cost "$id")"
    as_owner "$bin/mgpu-cancel" --quiet --url "unix:$sock" "$id"
    until_free $((nodes * gpus))
fi

held=$((nodes > 4 ? nodes - 4 : 0))
if [ "$held" -gt 0 ]; then
    sbatch --quiet --chdir "$dir" --output /dev/null --nodes "$held" \
        --gpus-per-node "$gpus" --cpus-per-task 1 \
        --wrap 'sleep 900' >/dev/null
    t=$(now)
    until_free $(((nodes - held) * gpus))
    echo "a stranger's job on $held nodes is seen after $(since "$t") s"
fi

# One connection, one request after the other; each is durable when answered.
body='{"spec":{"version":1,"kind":"command","name":"scale","command":["sleep","1"],"resources":{"gpus":1}}}'
for i in $(seq "$jobs"); do
    printf 'next\nurl=http://mgpu/v1/jobs\nrequest=POST\ndata=%s\n' \
        "\"${body//\"/\\\"}\""
    printf 'header="Idempotency-Key: scale-%s"\noutput=/dev/null\n' "$i"
    printf 'unix-socket=%s\nwrite-out="%%{time_total}\\n"\n' "$sock"
done | tail -n +2 >"$dir/submits"
for _ in $(seq 100000); do
    printf 'next\nurl=http://mgpu/livez\noutput=/dev/null\nrate=100/s\n'
    printf 'unix-socket=%s\nwrite-out="%%{time_total}\\n"\n' "$sock"
done | tail -n +2 >"$dir/probes"
curl --silent --config "$dir/probes" >"$dir/probed" &
probe=$!

t=$(now)
as_owner curl --silent --config "$dir/submits" >"$dir/submitted"
s=$(since "$t")
awk -v n="$jobs" -v s="$s" 'BEGIN {
    printf "submits: %d in %s s, %.0f/s from one client; ", n, s, n / s }'
most <"$dir/submitted"
sleep "$seconds"
kill "$probe" 2>/dev/null || :
wait "$probe" 2>/dev/null || :
probe=

ended=$(api /metrics | awk '/^mgpu_jobs\{.*COMPLETED/ { print $2 }')
echo "after $seconds s more: ${ended:-0} jobs have completed"
printf 'event loop, seen from inside: longest turn '
metric mgpu_loop_stall_longest_seconds | awk '{ printf "%.1f ms", $1 * 1e3 }'
metric mgpu_loop_stall_own_longest_seconds |
    awk '{ printf ", without waiting for a core %.1f ms\n", $1 * 1e3 }'
sed -n 's/.*a callback delayed/a callback delayed/p' "$dir/ctld.log"
printf 'event loop, seen from outside (/livez): '
most <"$dir/probed"
printf 'memory of the daemon: '
awk '/^VmRSS/ { print $2, $3 }' "/proc/$daemon/status"
