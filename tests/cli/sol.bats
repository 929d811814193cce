#!/usr/bin/env bats
# sol.bats - the share of a GPU's limit, from a worker that trains on a fake GPU
# (tests/mpi/fake_gpu.h) to all that shows it.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    fake=$(cd "$MGPU_BIN/../tests/fake" && pwd)/mgpu-worker
    mkdir "$BATS_TEST_TMPDIR/bin"
    cp "$MGPU_BIN"/mgpu-* "$BATS_TEST_TMPDIR/bin"
    MGPU_BIN=$BATS_TEST_TMPDIR/bin
}

teardown() { ctld_stop; }

# trains CARD: a job of 2 epochs of 8 iterations. A daemon starts the worker
# that lies beside it.
trains() {
    printf '#!/bin/sh\nMGPU_TEST_CARD="%s" exec "%s" "$@"\n' "$1" "$fake" \
        >"$MGPU_BIN/mgpu-worker"
    ctld_start
    cat >"$BATS_TEST_TMPDIR/job.yaml" <<END
version: 1
kind: cv
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 32, train_samples: 64, eval_samples: 8}
train: {device: cuda, epochs: 2, batch_size: 8, precision: fp32}
resources: {gpus: 1}
END
    timeout "$compute_s" "$MGPU_BIN/mgpu-submit" --wait "$BATS_TEST_TMPDIR/job.yaml"
}

# How many iterations have a share, and whether all of them are shares.
shares() {
    sqlite3 -cmd '.timeout 600000' "$ctld_dir/state/metrics.db" \
        "SELECT count(*), min(value) > 0, max(value) < 1 FROM v_metric
         WHERE job = 1 AND name = 'sol' AND rank = 0 AND iteration > 0"
}

own_is_stored() {
    [ "$(sqlite3 -cmd '.timeout 600000' "$ctld_dir/state/metrics.db" \
        "SELECT value FROM v_metric WHERE job = 2 AND name = 'sol'")" = 0.5 ]
}

@test "sol: log, database, curves, advice, report and /metrics" {
    local row=' % of the GPU idle while it computes:'
    trains "NVIDIA H200"
    run "$MGPU_BIN/mgpu-stat" --logs 1
    echo "$output"
    grep -q '^limits of NVIDIA H200 in fp32: 66.9 TFLOP/s, 4.80 TB/s; train.batch_size 64 fits$' \
        <<<"$output"
    grep -Eq '^epoch 2/2: .* samples/s, [0-9.e-]+ % of the GPU.s limit$' <<<"$output"
    # The second iteration captures a graph.
    [ "$(shares)" = "15|1|1" ]
    run "$MGPU_BIN/mgpu-stat" --metrics 1
    echo "$output"
    grep -Eq '^ sol  +[0-9.e-]+ ' <<<"$output"
    grep -Eq '^ batch_fits  +64 ' <<<"$output"
    run "$MGPU_BIN/mgpu-stat" --eff 1
    echo "$output"
    grep -q "^ GPU's limit reached  \[" <<<"$output"
    grep -A1 "Batch 8 leaves [0-9]*$row" <<<"$output" | grep -q 'train.batch_size 64 fits\.'
    "$MGPU_BIN/mgpu-stat" --eff --json 1 >"$BATS_TEST_TMPDIR/eff.json"
    [ "$(sqlite3 :memory: "SELECT json_extract(readfile('$BATS_TEST_TMPDIR/eff.json'),
        '\$.jobs[0].sol') BETWEEN 1e-12 AND 1")" = 1 ]
    # What fits is the first value of an attempt, however many come behind it.
    sqlite3 -cmd '.timeout 600000' "$ctld_dir/state/metrics.db" "
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2100)
        INSERT INTO metric SELECT 1, 1, 1, 0, 'own' || i, 0.5 FROM n"
    "$MGPU_BIN/mgpu-stat" --eff --count 1 --json >"$BATS_TEST_TMPDIR/all.json"
    grep -q 'train.batch_size 64 fits' "$BATS_TEST_TMPDIR/all.json"
    "$MGPU_BIN/mgpu-stat" --report "$BATS_TEST_TMPDIR/job.html" 1
    grep -q 'GPU.*s limit reached' "$BATS_TEST_TMPDIR/job.html"
    grep -q '>sol<' "$BATS_TEST_TMPDIR/job.html"
    api GET /metrics >"$BATS_TEST_TMPDIR/m"
    grep -qx 'mgpu_sol_ratio_count 15' "$BATS_TEST_TMPDIR/m"
    grep -qx 'mgpu_sol_ratio_bucket{le="+Inf"} 15' "$BATS_TEST_TMPDIR/m"
    awk -f "$MGPU_SRC/tests/cli/openmetrics.awk" "$BATS_TEST_TMPDIR/m"
}

@test "sol: not of a card that is not known, which the log says" {
    trains "a card of its own"
    run "$MGPU_BIN/mgpu-stat" --logs 1
    echo "$output"
    grep -qx "sol is not reported: no limits are known of 'a card of its own' in fp32" \
        <<<"$output"
    not grep -q "of the GPU's limit" <<<"$output"
    [ "$(shares)" = "0||" ]
    run "$MGPU_BIN/mgpu-stat" --eff 1
    [ "$status" -eq 0 ]
    not grep -q 'limit reached' <<<"$output"
    # Nor what a program calls so.
    run "$MGPU_BIN/mgpu-submit" --wait --gpus 1 -- \
        sh -c 'echo "{\"iteration\": 1, \"sol\": 0.5}" >>"$MGPU_METRICS"'
    [ "$status" -eq 0 ]
    wait_for 60 own_is_stored
    api GET /metrics | grep -qx 'mgpu_sol_ratio_count 0'
}
