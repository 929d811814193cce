# helpers.bash - a private Slurm per file, and a daemon on it per test.
#
#   load helpers
#   setup_file() { slurm_up --nodes 2; }   # options of tests/slurm/testbed
#   teardown_file() { slurm_down; }
#   setup() { ctld_start; }
#   teardown() { slurm_calm; }
#
# Everything of tests/cli/helpers.bash is here, too. The daemon has the mark
# of the testbed: whatever happens to a test, both end together. Faults are
# named as in docs/reliability.md.
# shellcheck shell=bash
# shellcheck disable=SC2154 # ctld_dir is that of ../cli
# shellcheck disable=SC2034 # for the tests

load ../cli/helpers

testbed=$BATS_TEST_DIRNAME/testbed

# ---- Slurm -------------------------------------------------------------------
slurm_up() {
    # bats' own directories are closed to other users.
    TB=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-tb.XXXXXX")
    export TB
    "$testbed" up "$TB" --owner "$$" "$@" 3>&- || return
    eval "$("$testbed" env "$TB")"
}
# Whether Slurm is of this release or a later one.
slurm_is_from() { # YEAR MONTH
    local year month
    IFS=. read -r year month _ < <(slurmctld_version)
    ((10#$year * 100 + 10#$month >= $1 * 100 + $2))
}
# `sinfo -V` of 24.11 needs a cluster.
slurmctld_version() {
    PATH=$PATH:/usr/sbin command slurmctld -V | tr -dc '0-9.'
}
slurm_down() { "$testbed" down "$TB" --purge; }

slurmctld() { "$testbed" ctld "$TB" "$1" 3>&-; }
slurmd() { "$testbed" node "$TB" "$1" "$2" 3>&-; }

node_is() { [[ $(sinfo -h -p batch -N -n "$1" -o %T) == "$2" ]]; }
nodes_idle() { [ "$(sinfo -h -p batch -N -o %T | sort -u)" = idle ]; }

# A stranger's job, which has nothing to do with mgpu; prints its id.
stranger() { # OPTION... of sbatch
    sbatch --parsable -D "$TB/tmp" -o /dev/null -J stranger "$@" \
        --wrap 'exec sleep 600'
}

# Of the job with this id, in squeue's words.
slurm_state() { squeue -h -j "$1" -o %T 2>/dev/null; }
slurm_is() { [ "$(slurm_state "$1")" = "$2" ]; }
slurm_forgot() { ! scontrol show job "$1" >/dev/null 2>&1; }
slurm_show() { scontrol show job -d "$1"; }

# The slurmstepd of a job's batch step; other clusters have the same ids.
stepd_of() { # ID
    local pid
    for pid in $(pgrep slurmstepd); do
        if [ "/proc/$pid/cwd" -ef "$TB/run" ] &&
            grep -qF "[$1.batch]" "/proc/$pid/cmdline"; then
            echo "$pid"
        fi
    done
}

# Ids of the jobs with this name, those that have ended included.
slurm_ids() {
    {
        squeue -h -n "$1" -o %A
        sed -n "s/^JobId=\([0-9]*\) .* Name=$1 .*/\1/p" "$TB/log/jobcomp.log"
    } 2>/dev/null | sort -un
}
n_slurm_jobs() { slurm_ids "$1" | grep -c .; }
has_slurm_job() { [ "$(n_slurm_jobs "$1")" -gt 0 ]; }

# How it ended, from Slurm's own log.
slurm_end() { # ID
    sed -n "s/^JobId=$1 .* JobState=\([A-Z_]*\) .*/\1/p" "$TB/log/jobcomp.log"
}
slurm_ended() { [ -n "$(slurm_end "$1")" ]; }

# What a slurmctld does that is killed before it saves its state, made
# certain: it forgets all that came after slurm_save, and gives ids again.
slurm_save() {
    slurm_save_busy
    wait_for 60 nodes_idle
}
slurm_save_busy() {
    slurmctld stop
    cp -a "$TB/state" "$TB/tmp/saved"
    slurmctld start
}
slurm_lose() {
    slurmctld kill 2>/dev/null || : # it may be dead
    rm -rf "$TB/state"
    mv "$TB/tmp/saved" "$TB/state"
    slurmctld start
}

# As an administrator does. Slurm drains a node where a job's id is that of
# one that it has forgotten and the node has not.
resume_nodes() {
    local n
    for n in $(sinfo -h -p batch -N -o %N -t down,drain); do
        scontrol update nodename="$n" state=resume
    done
}

# For teardown: no job, no daemon, and a Slurm as it was.
slurm_calm() {
    local n
    if [ -z "${BATS_TEST_COMPLETED:-}" ]; then
        timeout 20 squeue || :
        timeout 20 sinfo -N -p batch -o '%N %T %E' || :
        tail -n 40 "$TB/log/slurmctld.log"
    fi
    slurmctld cont 2>/dev/null || slurmctld start 2>/dev/null || :
    for n in $(sinfo -h -p batch -N -o %N); do
        slurmd "$n" cont 2>/dev/null || slurmd "$n" start 2>/dev/null || :
    done
    [ -z "$ctld_pid" ] || kill -CONT "$ctld_pid" 2>/dev/null || :
    ctld_stop
    scancel --quiet --user "$(id -un)"
    resume_nodes
    wait_for 120 nodes_idle
}

# ---- the daemon --------------------------------------------------------------
# What a test adds to the configuration.
conf_controller=
conf_slurm=
conf_more=
worker_port= # where workers call
poll=        # how often the daemon looks at Slurm
lost_after=  # silence of a rank

write_conf() {
    mkdir -p "$BATS_TEST_TMPDIR/d"
    cat >"$BATS_TEST_TMPDIR/d/mgpu.yaml" <<YAML
version: 1
cluster: test
allocator: slurm
controller:
  listen: 127.0.0.1:$MGPU_TEST_PORT
  url: http://127.0.0.1:${worker_port:-$MGPU_TEST_PORT}
$conf_controller
slurm:
  conf: $SLURM_CONF
  poll_interval: ${poll:-1s}
  call_timeout: 2s
  reconcile_after: 5s
$conf_slurm
watchdog: {heartbeat: 1s, node_lost_after: ${lost_after:-20s}}
$conf_more
YAML
}

# As in ../cli, but on Slurm.
ctld_start() {
    set_scripts
    write_conf
    MGPU_TESTBED=$TB ctld_launch --config "$BATS_TEST_TMPDIR/d/mgpu.yaml" "$@"
}

sql() { sqlite3 -readonly -cmd '.timeout 5000' "$ctld_dir/state/$1.db" "$2"; }

job_field() { api GET "/v1/jobs/$1" | json "\$.job.$2"; }
native_id() { job_field "$1" native_id; }
# The claim may be heard before Slurm's word of where it runs.
has_place() { [ -n "$(job_field "$1" place)" ]; }
node_of() { # the first
    wait_for 30 has_place "$1"
    job_field "$1" place | sed 's/:.*//'
}
# shellcheck disable=SC2053 # a pattern
reason_like() { [[ $(job_field "$1" reason) == $2 ]]; }
job_runs() { job_is "$1" STARTING || job_is "$1" RUNNING; }

# "submit intent claim report finish", without those that a short job may not
# live to see.
events() {
    sql state "SELECT group_concat(event, ' ') FROM
        (SELECT event FROM v_event WHERE job = $1
         AND event NOT IN ('grant', 'run') ORDER BY seq)"
}

# submit_sh NAME NODES GPUS SCRIPT [KEY=VALUE...]: each rank runs the script;
# prints the job's id.
submit_sh() {
    local name=$1 nodes=$2 gpus=$3 file=$BATS_TEST_TMPDIR/$1 sets=() s
    printf '%s\n' "$4" >"$file.sh"
    shift 4
    cat >"$file.yaml" <<YAML
version: 1
kind: command
name: $name
command: [sh, $file.sh]
resources: {nodes: $nodes, gpus: $gpus}
checkpoint: {grace: 2s}
YAML
    for s in "$@"; do sets+=(--set "$s"); done
    "$MGPU_BIN/mgpu-submit" --parsable ${sets[@]+"${sets[@]}"} "$file.yaml"
}

# For scripts: each rank of each attempt leaves a line, then waits for go.
# Wherever the daemon or Slurm died, no line may be there twice.
set_scripts() {
    ran=$BATS_TEST_TMPDIR/ran go=$BATS_TEST_TMPDIR/go
    say_ran="echo \"\$MGPU_JOB_ID.\$MGPU_ATTEMPT.\$MGPU_RANK\" >>$ran"
    wait_go="until [ -e $go ]; do sleep 0.1; done"
}
has_run() { grep -qx "$1" "$ran" 2>/dev/null; }
ran_lines() { sort "$ran" | tr '\n' ' '; }

# The ranks of a job's attempt, "JOB/ATTEMPT".
ranks() {
    pgrep -f "^[^ ]*mgpu-worker .*$BATS_TEST_TMPDIR/.*/$1/launch.json"
}
no_ranks() { ! ranks "$1" >/dev/null; }

# The batch step runs, and starts no rank before the test makes the file gate.
gate_srun() {
    gate=$BATS_TEST_TMPDIR/gate
    cat >"$BATS_TEST_TMPDIR/srun" <<SH
#!/bin/sh
until [ -e "$gate" ]; do sleep 0.05; done
exec srun "\$@"
SH
    chmod +x "$BATS_TEST_TMPDIR/srun"
    conf_slurm="  srun: $BATS_TEST_TMPDIR/srun"
}
batch_began() { [ -e "$ctld_dir/state/jobs/$1/1/started" ]; } # JOB
attempt_is_over() { # JOB: its first, which has a Slurm job
    job_has_ended "$1" || job_is "$1" QUEUED ||
        [ "$(job_field "$1" attempt)" -gt 1 ]
}

# --events says what happened, and that the job is not to blame. For another
# loss it may be: where Slurm gives an id again whose old ranks are still being
# killed, the next attempt cannot be launched.
costs_no_retry() { # JOB WORDS
    "$MGPU_BIN/mgpu-stat" --events "$1" >"$BATS_TEST_TMPDIR/events"
    cat "$BATS_TEST_TMPDIR/events"
    grep "requeue.*$2" "$BATS_TEST_TMPDIR/events"
    not grep "retry 1 of.*$2" "$BATS_TEST_TMPDIR/events"
}
ran_once_at_no_cost() { # JOB
    wait_for 120 job_has_ended "$1"
    costs_no_retry "$1" 'slurmctld lost the attempt'
    not grep 'retry [0-9]* of' "$BATS_TEST_TMPDIR/events"
    job_is "$1" COMPLETED
    [ "$(ran_lines)" = "$1.2.0 " ]
}

# ---- jobs that are resized ---------------------------------------------------
runs_on() { # JOB GPUS
    job_is "$1" RUNNING &&
        [ "$(sql state "SELECT gpus FROM v_attempt WHERE job = $1
            ORDER BY attempt DESC LIMIT 1")" = "$2" ]
}
# A command that ends when it is told to stop, or when `go` is there.
spec() { # NAME GPUS
    cat >"$BATS_TEST_TMPDIR/$1.yaml" <<YAML
version: 1
kind: command
name: $1
command: [sh, -c, "trap 'exit 0' TERM; $wait_go"]
saves: true
resources: {gpus: $2, gpu_type: h100, time_limit: 10m}
checkpoint: {grace: 60s}
retry: {max: 0}
YAML
}
saver() { # NAME GPUS [KEY=VALUE...]
    local s sets=()
    spec "$1" "$2"
    for s in "${@:3}"; do sets+=(--set "$s"); done
    "$MGPU_BIN/mgpu-submit" --parsable ${sets[@]+"${sets[@]}"} \
        "$BATS_TEST_TMPDIR/$1.yaml"
}
resize() { "$MGPU_BIN/mgpu-admin" --quiet resize "$@"; }
# What a dry run says, on one line.
dry_says() { # NAME WORDS [OPTION...]
    "$MGPU_BIN/mgpu-submit" --dry-run "${@:3}" "$BATS_TEST_TMPDIR/$1.yaml" |
        grep -F "$2"
}
