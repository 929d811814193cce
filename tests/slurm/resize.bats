#!/usr/bin/env bats
# resize.bats - a job in Slurm changes its number of GPUs: from one to two, on
# two nodes, and back, with the same losses.

bats_require_minimum_version 1.5.0
load helpers

setup_file() { slurm_up --nodes 2 --gpus 4; }
teardown_file() { slurm_down; }
teardown() { slurm_calm; }

runs_on() { # JOB GPUS NODES
    job_is "$1" RUNNING &&
        [ "$(sql state "SELECT gpus, nodes FROM v_attempt WHERE job = $1
            ORDER BY attempt DESC LIMIT 1")" = "$2|$3" ]
}
train() { # NAME GPUS EPOCHS
    cat >"$1.yaml" <<YAML
version: 1
kind: cv
name: $1
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 64, train_samples: 96, eval_samples: 8}
train: {device: host, epochs: $3, batch_size: 8, global_batch_size: 48, precision: fp64,
        seed: 3, output_dir: $PWD/$1, optimizer: {name: sgd, lr: 1e-6}}
resources: {gpus: $2, nodes: 1..2}
checkpoint: {every: 10000epoch}
retry: {max: 0}
YAML
    "$MGPU_BIN/mgpu-submit" --parsable "$1.yaml"
}

@test "from one GPU to two on two nodes, and back, with the same losses" {
    ctld_start
    cd "$BATS_TEST_TMPDIR"
    export OMP_NUM_THREADS=1
    whole=$(train whole 1 100)
    wait_for 240 job_is "$whole" COMPLETED
    id=$(train elastic 1..2 100)
    wait_for 120 runs_on "$id" 1 1
    "$MGPU_BIN/mgpu-admin" --quiet --nodes 2 resize "$id" 2
    wait_for 120 runs_on "$id" 2 2
    "$MGPU_BIN/mgpu-admin" --quiet resize "$id" 1
    wait_for 120 runs_on "$id" 1 1
    wait_for 240 job_is "$id" COMPLETED
    [ "$(n_slurm_jobs elastic)" = 3 ]
    [ "$(sql metrics "SELECT count(*) FROM v_iteration a JOIN v_iteration b USING (iteration)
        WHERE a.job = $id AND b.job = $whole AND a.rank = 0 AND b.rank = 0
        AND abs(a.loss - b.loss) <= 1e-10 * b.loss")" = 200 ]
    # What it costs; the target on this testbed is 15 s.
    sql state "SELECT printf('attempt %d: %.1f s', attempt, checkpoint_s + allocator_s + start_s)
        FROM v_attempt WHERE job = $id AND resized_from IS NOT NULL" >&3
    [ "$(sql state "SELECT count(*) FROM v_attempt WHERE job = $id AND resized_from IS NOT NULL")" = 2 ]
}
