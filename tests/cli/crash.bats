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

# ---- in the middle of a training --------------------------------------------

n_rows() { sql metrics "SELECT count(*) FROM v_iteration"; }
rows_at_least() { [ "$(n_rows 2>/dev/null || echo 0)" -ge "$1" ]; }
spool_grew() { [ "$(stat -c %s "$ctld_dir/state/jobs/1/1/spool.0")" -gt "$1" ]; }

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
