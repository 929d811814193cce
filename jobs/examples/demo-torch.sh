#!/bin/sh
# demo-torch.sh - a program of PyTorch as a job: DistributedDataParallel on one
# CPU slot, then on two, then on one again, while it trains.
#
# Needs PyTorch (Debian's python3-torch), but no root, no GPU and no Slurm.
# MGPU_BIN names the folder of the built programs. Ends what it started, also
# when interrupted, and keeps its directory for a look.
set -eu

# shellcheck source=jobs/examples/demo-daemon.sh
. "$(dirname "$0")/demo-daemon.sh"

python=
for p in python3 /usr/bin/python3; do
    if "$p" -c 'import torch' 2>/dev/null; then
        python=$p
        break
    fi
done
if [ -z "$python" ]; then
    echo "$demo: no python3 here has torch; Debian's package is python3-torch" >&2
    exit 77
fi

state_of() { "$bin/mgpu-stat" --no-header --format state "$job" 2>/dev/null; }
in_db() { sqlite3 -readonly -cmd '.timeout 5000' "$dir/state/$1.db" "$2"; }

# trains_on GPUS ATTEMPT: waits until that attempt has made 20 iterations on so
# many slots.
trains_on() {
    until [ "$(in_db metrics "SELECT count(*) >= 20 FROM v_iteration
            WHERE job = $job AND attempt = $2" 2>/dev/null)" = 1 ]; do
        case $(state_of) in
        COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL)
            fail 1 "the job ended before attempt $2 trained"
            ;;
        esac
        sleep 0.1
    done
    gpus=$(in_db state "SELECT gpus FROM v_attempt WHERE job = $job AND attempt = $2")
    [ "$gpus" = "$1" ] || fail 1 "attempt $2 has $gpus slots, not $1"
}

printf 'Starting a private daemon in %s\n' "$dir"
start_daemon --slots 2

# It trains until a file `stop` is there, so that it is resized in time on any
# machine.
cd "$here"
set -- --template torch-elastic --gpus 1..2 -- \
    "$python" torch-ddp.py --steps 1000000 --check 10
printf '\n$ mgpu-submit %s\n' "$*"
job=$("$bin/mgpu-submit" --parsable "$@")
out=$dir/state/jobs/$job/out
# The scheduler chooses the first number of slots.
until first=$(in_db state "SELECT gpus FROM v_attempt WHERE job = $job" \
    2>/dev/null) && [ -n "$first" ]; do
    sleep 0.1
done
trains_on "$first" 1
attempt=1
for gpus in $((3 - first)) "$first"; do
    show admin resize "$job" "$gpus"
    attempt=$((attempt + 1))
    trains_on "$gpus" "$attempt"
done
: >"$out/stop"
wait_for_job
show stat "$job"
printf '\nThe output of its three attempts:\n'
cat "$dir/state/jobs/$job"/[123]/log
show stat --metrics "$job"
ended=$job
job=

# The demo is also a test: each attempt compared its gradients, no iteration is
# missing or was done again, and the loss fell.
said=$(cat "$dir/state/jobs/$ended"/*/log |
    grep -c 'the gradients of [12] ranks agreed [1-9][0-9]* times')
odd=$(in_db metrics "SELECT count(*) - count(DISTINCT iteration)
    + max(iteration) - count(*) FROM v_iteration WHERE job = $ended AND rank = 0")
fell=$(in_db metrics "SELECT
    (SELECT loss FROM v_iteration WHERE job = $ended ORDER BY iteration LIMIT 1) >
    (SELECT loss FROM v_iteration WHERE job = $ended ORDER BY iteration DESC LIMIT 1)")
printf '\nGradients agreed in %s of 3 attempts. Remove everything with: rm -r %s\n' \
    "$said" "$dir"
if [ "$said" != 3 ] || [ "$odd" != 0 ] || [ "$fell" != 1 ]; then
    echo "$demo: compared in $said attempts, $odd iterations are odd, loss fell: $fell" >&2
    exit 1
fi
