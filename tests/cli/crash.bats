#!/usr/bin/env bats
# crash.bats - the daemon is killed, and nobody can tell afterwards.
#
# The first tests kill it at every call of the store (sweep.bash), the last
# one in the middle of a training.

bats_require_minimum_version 1.5.0
load helpers
load sweep

teardown() { ctld_stop; }

@test "killed before every call of the store" { sweep ""; }
@test "killed after every call of the store" { sweep :after; }

# ---- with a batch on its way ------------------------------------------------

submit_as() { # KEY NAME
    api POST /v1/jobs -H "Idempotency-Key: $1" \
        -d '{"spec":{"version":1,"kind":"command","name":"'"$2"'","command":["true"]}}'
}
in_the_background() { # NAME COMMAND...: its status goes to the file NAME
    ("${@:2}" >/dev/null 2>&1 3>&- && echo good || echo bad) \
        >"$BATS_TEST_TMPDIR/$1.part"
    mv "$BATS_TEST_TMPDIR/$1.part" "$BATS_TEST_TMPDIR/$1"
}
engine_knows() {
    api GET /metrics | grep -Fqx "mgpu_jobs{state=\"QUEUED\"} $1"
}
is_answered() { [ -e "$BATS_TEST_TMPDIR/$1" ]; }

@test "killed with a batch on its way: nobody was answered, nothing is there" {
    MGPU_FAIL_STORE=2:slow ctld_start
    in_the_background first submit_as key-1 first 3>&- &
    wait_for 60 step_or_died engine_knows 1
    in_the_background second submit_as key-2 second 3>&- &
    # While the disk works, unless this machine was too slow to ask in time.
    jobs=$(api GET /v1/jobs 2>/dev/null) || jobs='"jobs":[]'
    [[ $jobs == *'"jobs":[]'* ]]
    wait_for 60 daemon_died
    ctld_kill
    wait_for 60 is_answered first
    wait_for 60 is_answered second
    [ "$(cat "$BATS_TEST_TMPDIR/first" "$BATS_TEST_TMPDIR/second")" = $'bad\nbad' ]
    ctld_start
    [[ $(api GET /v1/jobs) == *'"jobs":[]'* ]]
    submit_as key-1 first >/dev/null
    submit_as key-2 second >/dev/null
    wait_for 60 job_has_ended 1
    wait_for 60 job_has_ended 2
    [ "$(sql state "SELECT group_concat(name||' '||state) FROM v_job")" \
        = 'first COMPLETED,second COMPLETED' ]
    ctld_term
}

# ---- in the middle of a training --------------------------------------------

n_rows() { sql metrics "SELECT count(*) FROM v_iteration"; }
rows_at_least() { [ "$(n_rows 2>/dev/null || echo 0)" -ge "$1" ]; }
# Or is as long as it ever gets: this machine was slow, not the ranks.
spool_grew() {
    [ -e "$ctld_dir/state/jobs/1/1/report.json" ] ||
        [ "$(stat -c %s "$ctld_dir/state/jobs/1/1/spool.0")" -gt "$1" ]
}

@test "killed in mid-training: it goes on, and every row is there once" {
    ctld_start
    api POST /v1/jobs -d '{"spec":{"version":1,"kind":"cv","name":"train",
        "model":{"width_mult":0.25},
        "dataset":{"source":"synthetic","image_size":64,"train_samples":3072,
                   "eval_samples":64},
        "train":{"epochs":2,"batch_size":8,"device":"host"},
        "resources":{"gpus":2}}}' >/dev/null
    wait_for 60 rows_at_least 6
    ctld_kill
    size=$(stat -c %s "$ctld_dir/state/jobs/1/1/spool.0")
    wait_for 60 spool_grew "$size" # nobody told the ranks
    ctld_start
    wait_for 120 job_has_ended 1
    [ "$(job_state 1)" = COMPLETED ]
    # 3072 samples, 2 ranks, 8 each: 192 iterations an epoch, 2 epochs.
    [ "$(n_rows)" = 768 ]
    [ "$(sql metrics 'SELECT count(*) FROM (SELECT DISTINCT rank, iteration
        FROM v_iteration WHERE iteration BETWEEN 1 AND 384)')" = 768 ]
    [ "$(sql metrics 'SELECT count(*) FROM v_epoch')" = 2 ]
    [ "$(sql state 'SELECT count(*) FROM v_attempt')" = 1 ]
    [ "$(sql state "SELECT count(*) FROM v_event
                    WHERE event IN ('claim', 'finish')")" = 2 ]
    ctld_term
}

# ---- the ranks with their launcher --------------------------------------------

# The launcher and the ranks of an attempt, by what they are told on their
# command line; the shepherd is not told that.
launched() { # ATTEMPT'S DIRECTORY
    local f
    for f in /proc/[0-9]*/cmdline; do
        if { tr '\0' ' ' <"$f"; } 2>/dev/null |
            grep -qF -- "mgpu-worker --launch $1/launch.json"; then
            f=${f%/cmdline}
            echo "${f##*/}"
        fi
    done
}

@test "killed ranks and launcher leave no shared memory to their shepherd" {
    export OMP_NUM_THREADS=1
    ctld_start
    cat >"$BATS_TEST_TMPDIR/job.yaml" <<'YAML'
version: 1
kind: cv
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 32, train_samples: 64, eval_samples: 16}
train: {device: host, epochs: 10000, batch_size: 4}
resources: {gpus: 2}
retry: {max: 0}
YAML
    "$MGPU_BIN/mgpu-submit" --quiet "$BATS_TEST_TMPDIR/job.yaml"
    local dir=$ctld_dir/state/jobs/1/1 pid shared
    wait_for 60 grep -qs '"iteration":5,' "$dir/spool.1"
    shared=$(for pid in $(launched "$dir"); do cat "/proc/$pid/maps"; done |
        sed -n 's|.* \(/dev/shm/[^ /]*\).*|\1|p' | sort -u)
    [ -n "$shared" ] # else this proves nothing
    [[ $shared == /dev/shm/mgpu-rank.* ]]
    # shellcheck disable=SC2046
    kill -KILL $(launched "$dir")
    wait_for 60 job_is 1 FAILED
    for file in $shared; do [ ! -e "$file" ]; done
}
