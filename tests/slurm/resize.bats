#!/usr/bin/env bats
# resize.bats - a job in Slurm changes its number of GPUs: from one to two, on
# two nodes, and back, with the same losses; and while slurmctld is restarted.

bats_require_minimum_version 1.5.0
load helpers

setup_file() { slurm_up --nodes 2 --gpus 4; }
# People resize jobs here: the default policy would, too.
conf_more='scheduler: {policy: backfill}'
# A size stays in Slurm's queue, however long a restart of slurmctld takes.
conf_slurm='  resize_patience: 1h'
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

# saver NAME GPUS: a command each of whose ranks leaves a line when it starts
# and when it is told to stop, then waits until `hold` is gone; it ends when
# `go` is there. Prints the job's id. It names a type of GPU: until a node has
# registered again with a slurmctld that came back, Slurm 22.05 starts jobs that
# name none on it, and refuses them every step.
saver() {
    cat >"$BATS_TEST_TMPDIR/$1.sh" <<SH
$say_ran
trap 'echo "\$MGPU_JOB_ID.\$MGPU_ATTEMPT.\$MGPU_RANK" >>$BATS_TEST_TMPDIR/told
      while [ -e $hold ]; do sleep 0.1; done; exit 0' TERM
$wait_go
SH
    cat >"$BATS_TEST_TMPDIR/$1.yaml" <<YAML
version: 1
kind: command
name: $1
command: [sh, $BATS_TEST_TMPDIR/$1.sh]
saves: true
resources: {gpus: $2, nodes: 1..2, gpu_type: h100}
checkpoint: {grace: 120s}
retry: {max: 0}
YAML
    "$MGPU_BIN/mgpu-submit" --parsable "$BATS_TEST_TMPDIR/$1.yaml"
}
was_told() { grep -qx "$1" "$BATS_TEST_TMPDIR/told" 2>/dev/null; }
resize() { "$MGPU_BIN/mgpu-admin" --quiet resize "$@"; }

@test "slurmctld is restarted before it is told, while it leaves, before it starts" {
    ctld_start
    hold=$BATS_TEST_TMPDIR/hold
    id=$(saver restarts 1..8)
    wait_for 60 has_run "$id.1.0"
    # Before: the daemon cannot reach the attempt.
    slurmctld stop
    resize "$id" 2
    wait_for 30 job_is "$id" CHECKPOINTING
    not was_told "$id.1.0"
    slurmctld start
    wait_for 120 runs_on "$id" 2 1
    was_told "$id.1.0"
    # Meanwhile: it ends while slurmctld is away.
    touch "$hold"
    resize "$id" 1
    wait_for 60 was_told "$id.2.1"
    slurmctld stop
    rm "$hold"
    wait_for 60 no_ranks "$id/2"
    slurmctld start
    wait_for 120 runs_on "$id" 1 1
    # Afterwards: it is in Slurm's queue, behind a stranger.
    other=$(stranger -N 1 -w node2 --gpus-per-node=4)
    wait_for 60 slurm_is "$other" RUNNING
    # Nodes are down until they have registered again.
    wait_for 60 resize "$id" 8 --nodes 2
    wait_for 60 reason_like "$id" "Slurm(Resources)"
    slurmctld stop
    slurmctld start
    scancel "$other"
    wait_for 120 runs_on "$id" 8 2
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
    [ "$(job_field "$id" attempt) $(n_slurm_jobs restarts)" = '4 4' ]
    [ -z "$(sort "$ran" | uniq -d)" ]
    [ "$(wc -l <"$ran")" = 12 ]
    not grep 'retry [0-9]* of' <("$MGPU_BIN/mgpu-stat" --events "$id")
    [ "$(sql state "SELECT group_concat(resized_from || '>' || gpus) FROM
        (SELECT * FROM v_attempt WHERE job = $id ORDER BY attempt)")" = '1>2,2>1,1>8' ]
}
