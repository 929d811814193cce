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

# ---- with a log that lost its end --------------------------------------------

submit_held() { # what waits has no directory that tells of it
    api POST /v1/jobs -d '{"hold":true,"spec":{"version":1,"kind":"command","command":["true"]}}' |
        json '$.id'
}

@test "F45: state.db-wal is cut: it is said, and no id is given twice" {
    state=$BATS_TEST_TMPDIR/d/state
    ctld_start
    [ "$(submit_held)" = 1 ]
    ctld_term
    ctld_start
    for id in 2 3 4; do
        [ "$(submit_held)" = "$id" ]
    done
    # A daemon that is killed loses nothing, and nothing is said.
    ctld_kill
    ctld_start
    [ "$(submit_held)" = 5 ]
    ctld_kill
    run "$MGPU_BIN/mgpu-ctld" --fsck "$state"
    [ "$output" = "$state: sound" ]
    not grep -q 'lacks events that were stored' "$ctld_dir/ctld.log"
    truncate -s 0 "$state/state.db-wal"
    run "$MGPU_BIN/mgpu-ctld" --fsck "$state"
    [ "$status" -eq 74 ]
    [[ $output == *"its log ends at event "*" and jobs up to 5 were stored"* ]]
    ctld_start
    grep -q ' err ctld: state.db lacks events that were stored: .* stored_job=5 ' "$ctld_dir/ctld.log"
    [ "$(submit_held)" -gt 5 ]
    # Once: from then on the log is what it is.
    ctld_term
    ctld_start
    [ "$(grep -c 'lacks events that were stored' "$ctld_dir/ctld.log")" = 1 ]
    run "$MGPU_BIN/mgpu-ctld" --fsck "$state"
    [ "$output" = "$state: sound" ]
}

# ---- beside a metrics.db that is damaged -------------------------------------

submit_rows() { # NAME: a job that reports three iterations
    # shellcheck disable=SC2016 # the job's shell expands it
    submit_command "$1" sh -c \
        'for i in 1 2 3; do echo {\\\"iteration\\\":$i}; done >>$MGPU_METRICS'
}
rows_of() { sql metrics "SELECT count(*) FROM v_iteration WHERE job = $1"; }
metrics_ready() { [ "$(api GET /readyz)" = "$1" ]; }
damage() { # SEEK of metrics.db: a page of noise there
    head -c 4096 /dev/urandom | dd of="$ctld_dir/state/metrics.db" bs=1 \
        seek="$1" conv=notrunc status=none
}

@test "F25: a daemon starts beside a metrics.db that is damaged" {
    ctld_start
    a=$(submit_rows a)
    wait_for 60 job_is "$a" COMPLETED
    ctld_term
    damage 0
    ctld_start
    metrics_ready "ok, but metrics.db was damaged: see mgpu-admin status"
    grep -q ' err metrics: metrics.db was damaged, it was put aside' "$ctld_dir/ctld.log"
    aside=$(cd "$ctld_dir/state" && ls metrics.db.damaged-*)
    "$MGPU_BIN/mgpu-admin" status | grep -q "metrics .* is put aside as $aside: "
    b=$(submit_rows b)
    wait_for 60 job_is "$b" COMPLETED
    [ "$(rows_of "$a") $(rows_of "$b")" = '0 3' ]
    # It is said as long as the file is there, by the next daemon as well.
    ctld_term
    ctld_start
    metrics_ready "ok, but metrics.db was damaged: see mgpu-admin status"
    mv "$ctld_dir/state/$aside" "$BATS_TEST_TMPDIR/kept"
    metrics_ready ok
    "$MGPU_BIN/mgpu-admin" status | not grep '^ metrics'
    job_is "$a" COMPLETED
}

@test "F25: metrics.db is damaged in use: jobs end, the next start begins a new one" {
    ctld_start
    a=$(submit_rows a)
    wait_for 60 job_is "$a" COMPLETED
    ctld_term
    ctld_start
    damage 4096
    # SQLite keeps pages in memory until another writes.
    version=$(sql metrics "PRAGMA user_version")
    sqlite3 "$ctld_dir/state/metrics.db" "PRAGMA user_version = $version"
    b=$(submit_rows b)
    wait_for 60 job_is "$b" COMPLETED
    metrics_ready "ok, but metrics.db was damaged: see mgpu-admin status"
    "$MGPU_BIN/mgpu-admin" status | grep -q 'metrics .* is damaged, rows are not stored: restart'
    wait_for 60 grep -q ' err metrics: metrics.db is damaged, jobs go on' "$ctld_dir/ctld.log"
    ctld_term
    ctld_start
    "$MGPU_BIN/mgpu-admin" status | grep -q 'metrics .* is put aside as metrics.db.damaged-'
    c=$(submit_rows c)
    wait_for 60 job_is "$c" COMPLETED
    [ "$(rows_of "$c")" = 3 ]
}

# The worker reads the file five times a second; the program kills it first.
@test "a killed worker: the rows that its program had written are stored, once" {
    ctld_start
    cat >"$BATS_TEST_TMPDIR/job.yaml" <<'YAML'
version: 1
kind: command
retry: {max: 0}
command:
  - sh
  - -c
  - |
    for i in 1 2 3 4 5; do echo "{\"iteration\":$i}"; done >>$MGPU_METRICS
    printf '{"iteration' >>$MGPU_METRICS
    kill -9 $PPID
    sleep 600
YAML
    "$MGPU_BIN/mgpu-submit" --quiet "$BATS_TEST_TMPDIR/job.yaml"
    wait_for 60 job_is 1 FAILED
    [ "$(sql metrics "SELECT group_concat(iteration) FROM v_iteration")" = 1,2,3,4,5 ]
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
    pgrep -f -- "mgpu-worker --launch $1/launch.json"
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
    # shellcheck disable=SC2046 # several
    kill -KILL $(launched "$dir") || : # each ends the next
    wait_for 60 job_is 1 FAILED
    for file in $shared; do [ ! -e "$file" ]; done
}

# ---- one of them ------------------------------------------------------------

a_rank() { # ATTEMPT'S DIRECTORY
    pgrep -f -- "^[^ ]*mgpu-worker --launch $1/launch.json"
}
train_yaml() { # NAME
    cat >"$1.yaml" <<YAML
version: 1
kind: cv
name: $1
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 28, train_samples: 64, eval_samples: 8}
train: {device: host, epochs: 10000, batch_size: 8, seed: 7, output_dir: $PWD/$1}
resources: {gpus: 1}
checkpoint: {every: 5steps}
retry: {max: 1, on: [signal], backoff: 1s}
YAML
}
has_come() { # JOB ATTEMPT AFTER: all rows from there to $to
    [ "$(sql metrics "SELECT count(*) FROM v_iteration WHERE job = $1
        AND attempt = $2 AND iteration > $3 AND iteration <= $to")" \
        -eq $((to - $3)) ]
}

@test "a killed rank: again later, from a checkpoint, with the same figures" {
    export OMP_NUM_THREADS=1
    cd "$BATS_TEST_TMPDIR"
    ctld_start
    train_yaml hurt
    train_yaml calm
    "$MGPU_BIN/mgpu-submit" --quiet hurt.yaml
    # Beside it what nobody disturbs, which comes no later to any iteration.
    "$MGPU_BIN/mgpu-submit" --quiet --set checkpoint.every=10000epoch calm.yaml
    local dir=$ctld_dir/state/jobs/1 at to
    is_saved() { compgen -G 'hurt/ckpt/step-*[0-9]/model.safetensors' >/dev/null; }
    wait_for 60 is_saved
    kill -KILL "$(a_rank "$dir/1")"
    wait_for 90 grep -qs 'resumed at iteration' "$dir/2/log"
    at=$(sed -n 's/.*resumed at iteration \([0-9]*\) .*/\1/p' "$dir/2/log")
    [ "$at" -ge 5 ]
    to=$((at + 8))
    wait_for 90 has_come 1 2 "$at"
    "$MGPU_BIN/mgpu-stat" --events 1 |
        grep 'wait_ms=[1-9].*retry 1 of 1: killed by signal 9'
    wait_for 180 has_come 2 1 0
    "$MGPU_BIN/mgpu-cancel" --quiet 1 2
    # To the last bit, in either attempt; what both computed is there twice.
    [ "$(sql metrics "SELECT count(*) FROM v_iteration AS a
        JOIN v_iteration AS b USING (rank, iteration)
        WHERE a.job = 1 AND b.job = 2 AND a.loss IS NOT b.loss")" = 0 ]
    [ "$(sql metrics "SELECT min(iteration) FROM v_iteration
        WHERE job = 1 AND attempt = 2")" = $((at + 1)) ]
    [ "$(sql metrics "SELECT count(DISTINCT attempt) FROM v_iteration
        WHERE job = 1")" = 2 ]
}

@test "retry.rules: one exit code is tried again, another is not" {
    cd "$BATS_TEST_TMPDIR"
    ctld_start
    # shellcheck disable=SC2016 # the job's own shell
    printf '%s\n' 'version: 1' 'kind: command' \
        'command: [sh, -c, "exit $((74 + MGPU_ATTEMPT))"]' \
        'retry: {max: 9, on: [exit], backoff: 0s, rules: ["exit:76 fail"]}' >a.yaml
    run "$MGPU_BIN/mgpu-submit" --quiet --wait a.yaml
    [ "$status" -eq 76 ]
    [ "$(api GET /v1/jobs/1 | json '$.job.attempt')" = 2 ]
    run "$MGPU_BIN/mgpu-submit" --quiet --wait --set 'retry.rules=["exit:75 retry"]' \
        --set 'retry.on=[signal]' a.yaml
    [ "$status" -eq 76 ]
    [ "$(api GET /v1/jobs/2 | json '$.job.attempt')" = 2 ]
    run "$MGPU_BIN/mgpu-submit" --quiet --wait --set retry.max=0 a.yaml
    [ "$status" -eq 75 ]
}

@test "all of an attempt dies with the daemon: who waits hears 125" {
    cd "$BATS_TEST_TMPDIR"
    ctld_start
    printf 'version: 1\nkind: command\ncommand: [sleep, "600"]\nretry: {max: 0}\n' >l.yaml
    id=$("$MGPU_BIN/mgpu-submit" --parsable l.yaml)
    wait_for 60 job_is "$id" RUNNING
    "$MGPU_BIN/mgpu-stat" --wait --timeout "${compute_s}s" "$id" >waited 2>&1 3>&- &
    waits=$!
    wait_for 60 grep -q RUNNING waited
    local dir=$ctld_dir/state/jobs/$id/1 shepherd
    shepherd=$(api GET "/v1/jobs/$id" | json '$.job.native_id')
    ctld_kill
    # shellcheck disable=SC2046 # several
    kill -KILL "${shepherd#pid:}" $(launched "$dir") || : # each ends the next
    ctld_start
    status=0
    wait "$waits" || status=$?
    [ "$status" -eq 125 ]
    grep -q "job $id NODE_FAIL  (lost: its shepherd died)" waited
    run "$MGPU_BIN/mgpu-stat" --wait "$id"
    [ "$status" -eq 125 ]
}

# ---- not killed, but stopped --------------------------------------------------

n_lines() { wc -l 2>/dev/null <"$1" || echo 0; }
lines_at_least() { [ "$(n_lines "$1")" -ge "$2" ]; }

slots_free_are() {
    [ "$("$MGPU_BIN/mgpu-stat" --nodes --json | json '$.nodes[0].gpus_free')" = "$1" ]
}

@test "another daemon shows what runs on its nodes, with nobody in the queue" {
    ctld_start
    id=$(submit_command long sleep 600)
    wait_for 30 job_is "$id" RUNNING
    wait_for 30 slots_free_are 1
    ctld_kill
    ctld_start
    wait_for 30 slots_free_are 1
    "$MGPU_BIN/mgpu-stat" | grep '2 GPUs or slots: 1 allocated, 1 idle | 1 running'
}

@test "F09: a daemon that is stopped loses nobody, and takes nobody for dead" {
    # It is told apart from silent ranks after a heartbeat; what the engine then
    # does is contract/engine_cluster_time.c's.
    printf 'version: 1\nwatchdog: {heartbeat: 1s, node_lost_after: 1h}\n' \
        >"$BATS_TEST_TMPDIR/mgpu.yaml"
    ctld_start --config "$BATS_TEST_TMPDIR/mgpu.yaml"
    beats="$BATS_TEST_TMPDIR/beats"
    id=$(submit_command long sh -c \
        "echo ran >>$BATS_TEST_TMPDIR/ran; until [ -e $BATS_TEST_TMPDIR/go ]; do echo >>$beats; sleep 0.1; done")
    wait_for 60 job_is "$id" RUNNING
    kill -STOP "$ctld_pid"
    printf '%s\n' 'version: 1' 'kind: command' 'name: late' \
        'resources: {gpus: 1}' 'command: ["true"]' >"$BATS_TEST_TMPDIR/late.yaml"
    # The job goes on: so long, 3 s at the least, does nobody hear it. Who asks
    # meanwhile has a patience of 10 s, and comes near the end of it.
    beaten=$(n_lines "$beats")
    wait_for 120 lines_at_least "$beats" $((beaten + 30))
    in_the_background late "$MGPU_BIN/mgpu-submit" --wait \
        "$BATS_TEST_TMPDIR/late.yaml" 3>&- &
    wait_for 120 lines_at_least "$beats" $((beaten + 32))
    kill -CONT "$ctld_pid"
    wait_for 60 grep -q 'the daemon was stopped and runs again' "$ctld_dir/ctld.log"
    wait_for 60 is_answered late
    [ "$(cat "$BATS_TEST_TMPDIR/late")" = good ]
    job_is "$id" RUNNING
    touch "$BATS_TEST_TMPDIR/go"
    wait_for 60 job_is "$id" COMPLETED
    [ "$(cat "$BATS_TEST_TMPDIR/ran")" = ran ]
    [ "$(sql state "SELECT group_concat(name||' '||state) FROM v_job")" \
        = 'long COMPLETED,late COMPLETED' ]
    [ "$(sql state "SELECT count(*) FROM v_event
        WHERE event IN ('stall', 'requeue')")" = 0 ]
}

@test "F09: the units have it started again when it stays so" {
    for unit in "$MGPU_SRC"/contrib/systemd/mgpu-ctld.{system,user}.service; do
        grep -Eqx 'WatchdogSec=[1-9][0-9]*' "$unit"
        grep -Eqx 'Restart=(always|on-failure)' "$unit"
        grep -qx 'Type=notify' "$unit"
        # But not for ever with a configuration that is wrong. Of what comes
        # before it systemd does not look at the status.
        grep -Eqx 'RestartPreventExitStatus=(.* )?78( .*)?' "$unit"
        not grep '^ExecStartPre=' "$unit"
    done
}

# ---- away for a while --------------------------------------------------------

seconds_of() { date -d "$1" +%s; }

# What is told within ten seconds of its end ended when it is told.
ended_long_ago() { # JOB
    local exit=$ctld_dir/state/jobs/$1/1/exit
    [ -e "$exit" ] && [ $(($(date +%s) - $(stat -c %Y "$exit"))) -gt 11 ]
}
@test "a job that ends while the daemon is down has the time of its end, not of the restart" {
    ctld_start
    mark=$BATS_TEST_TMPDIR/mark
    submit_command one sh -c "until [ -e $mark ]; do sleep 0.1; done"
    submit_command two sh -c "until [ -e $mark ]; do sleep 0.1; done; exit 3"
    wait_for 60 job_is 1 RUNNING
    wait_for 60 job_is 2 RUNNING
    ctld_kill
    date -u +%s >"$mark.new"
    mv "$mark.new" "$mark"
    wait_for 60 ended_long_ago 1
    wait_for 60 ended_long_ago 2
    ctld_start
    wait_for 60 job_is 1 COMPLETED
    wait_for 60 job_is 2 FAILED
    ended=$(cat "$mark")
    for id in 1 2; do
        at=$(seconds_of "$(api GET /v1/jobs/$id | json '$.job.ended')")
        [ "$at" -ge $((ended - 1)) ]
        wrote=$(stat -c %Y "$ctld_dir/state/jobs/$id/1/exit")
        [ "$at" -le $((wrote + 1)) ]
    done
    # Its attempt, too, and what is stored says so.
    one=$(api GET /v1/jobs/1)
    [ "$(json '$.attempts[0].ended' <<<"$one")" = "$(json '$.job.ended' <<<"$one")" ]
    run "$MGPU_BIN/mgpu-admin" fsck
    [ "$output" = sound ]
}
