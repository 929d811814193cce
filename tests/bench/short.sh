#!/bin/bash
# short.sh - what starting costs: jobs that do nothing, one alone and many at a
# time, of one rank, which the shepherd starts itself, and of two under mpirun;
# and what a resize costs, from the word to stop to the next iteration.
#
#   short.sh [JOBS [SLOTS]]                    400 16
#
# ALONE=N: so many one after the other; 20. A tenth of JOBS have two ranks.
# Times are from the events, so they end when an end is stored; the cores' are
# those of the daemon and of all that it started. Not a test: figures are
# printed beside their targets, none is expected. On a busy machine compare the
# two kinds, and the milliseconds of a core.
set -eu

jobs=${1:-400} slots=${2:-16} alone=${ALONE:-20}
# shellcheck source=tests/bench/daemon.bash
. "${0%/*}/daemon.bash"
state=$dir/state

# Of the daemon and of all its children that have ended, theirs included.
tree_ms() { awk '{ print ($14 + $15 + $16 + $17) * 10 }' "/proc/$daemon/stat"; }
state_db=$state/state.db
# shellcheck source=tests/bench/resize.bash
. "${0%/*}/resize.bash"
submit() { # RANKS JOBS
    "$bin/mgpu-submit" --quiet --url "unix:$socket" --array "1-$2" - <<YAML
version: 1
kind: command
name: short
command: ["true"]
resources: {gpus: $1}
YAML
}
ended() { metric 'mgpu_jobs{state="COMPLETED"}'; }
until_ended() { # ALL
    for _ in $(seq 6000); do
        [ "$(ended)" -lt "$1" ] || return 0
        read -rt 0.05 <>"$dir/never" || :
    done
    echo "${0##*/}: $1 jobs do not end" >&2
    exit 1
}
figures() { # FIRST-SEQ JOBS CORE-MS: a second, and of each
    sql "SELECT max(at) - min(at) FROM v_event WHERE seq > $1
        AND event IN ('intent', 'finish')" |
        awk -v n="$2" -v ms="$3" '{ printf "%.1f/s, %.1f ms of a core each",
            n / $1, ms / n }'
}
last_seq() { sql 'SELECT coalesce(max(seq), 0) FROM v_event'; }

many() { # RANKS JOBS
    local from ms all=$(($(ended) + $2))
    from=$(last_seq) ms=$(tree_ms)
    submit "$1" "$2" >/dev/null
    until_ended "$all"
    figures "$from" "$2" "$(($(tree_ms) - ms))"
}
one_by_one() { # RANKS JOBS: from submit to end
    local from at
    from=$(last_seq) at=$(ended)
    for _ in $(seq "$2"); do
        api /v1/jobs -d '{"spec":{"version":1,"kind":"command","name":"one",
            "command":["true"],"resources":{"gpus":'"$1"'}}}' >/dev/null
        at=$((at + 1))
        until_ended "$at"
    done
    sql "SELECT (f.at - s.at) * 1e3 FROM v_event s JOIN v_event f USING (job)
        WHERE s.seq > $from AND s.event = 'submit' AND f.event = 'finish'
        ORDER BY 1" |
        awk '{ t[NR] = $1 } END { printf "median %.0f ms, at most %.0f ms",
            t[int((NR + 1) / 2)], t[NR] }'
}

# resize: the MNIST example, from one slot to two
resize() {
    local id
    id=$("$bin/mgpu-submit" --parsable --url "unix:$socket" \
        --set resources.gpus=1..2 --set train.global_batch_size=64 \
        --set train.epochs=100 "${0%/*}/../../jobs/examples/mnist-mobilenet.yaml")
    until_runs "$id" 1
    "$bin/mgpu-admin" --quiet --url "unix:$socket" resize "$id" 2
    until_runs "$id" 2
    resize_cost "$id"
    "$bin/mgpu-cancel" --quiet --url "unix:$socket" "$id"
}

cat >"$dir/mgpu.yaml" <<YAML
version: 1
limits: {max_jobs_per_user: 1000000}
log: {level: notice}
YAML
mkdir -m 700 "$state"
mkfifo "$dir/never"
start "$state"
say id load target figure
say '' 'one alone, one rank' '< 100 ms' "$(one_by_one 1 "$alone")"
say '' 'one alone, two ranks' '' "$(one_by_one 2 "$alone")"
say '' "$jobs jobs of one rank, $slots slots" '>= 60/s' "$(many 1 "$jobs")"
say '' "$((jobs / 10)) jobs of two ranks, $slots slots" '' \
    "$(many 2 "$((jobs / 10))")"
say '' 'MNIST resized from 1 to 2 slots' '<= 2 s' "$(resize)"
