#!/usr/bin/env bats
# accounting.bats - a Slurm with accounts, limits and a memory: slurmdbd. No
# size is requested above a quota, told or not.

bats_require_minimum_version 1.5.0
load helpers

# MinJobAge: what has ended is forgotten within seconds, but for slurmdbd.
setup_file() {
    export no_dbd=''
    slurm_up --nodes 2 --gpus 4 --dbd --extra MinJobAge=2 \
        2>"$BATS_FILE_TMPDIR/err" || {
        without_dbd
        return
    }
    me=$(id -un)
    export me
    sacctmgr -i add account physics,foreign cluster=testbed
    sacctmgr -i add user "$me" account=physics
    sacctmgr -i add qos tight set MaxTRESPerUser=gres/gpu=1
    sacctmgr -i add qos full set MaxSubmitJobsPerUser=0 Flags=DenyOnLimit
    sacctmgr -i add qos closed
    sacctmgr -i modify user "$me" set defaultaccount=default qos=normal,tight,full
} >/dev/null
# libmariadb 11.8.9 of Debian 13 refuses the answer to the first question that
# slurmdbd asks: 5027, more columns than allowed.
without_dbd() {
    cat "$BATS_FILE_TMPDIR/err" >&2
    grep -q '_check_mysql_concat_is_sane: null result' \
        "$BATS_FILE_TMPDIR/err" || return 1
    slurm_down
    no_dbd="slurmdbd does not work with this libmariadb"
}
teardown_file() { [ -n "$no_dbd" ] || slurm_down; }
setup() { [ -z "$no_dbd" ] || skip "$no_dbd"; }
teardown() {
    [ -z "$no_dbd" ] || return 0
    "$testbed" dbd "$TB" cont 3>&- 2>/dev/null ||
        "$testbed" dbd "$TB" start 3>&- 2>/dev/null || :
    [ -z "$quota" ] || quota gres/gpu=-1,gres/gpu:h100=-1
    [ -z "$quota" ] || own_quota gres/gpu=-1
    sacctmgr -i modify qos normal,closed set MaxWall=-1 >/dev/null || :
    scontrol update partitionname=batch maxtime=unlimited qos=
    slurm_calm
}

# What waits longest: $MGPU_TEST_ALL.
at_night() { [ -n "${MGPU_TEST_ALL-}" ] || skip 'at night'; }

# Of the account of jobs that name none.
quota=
quota() {
    quota=$1
    sacctmgr -i modify account default set "GrpTRES=$1" >/dev/null
}
own_quota() {
    sacctmgr -i modify user "$(id -un)" where account=default \
        set "GrpTRES=$1" >/dev/null
}
# People resize jobs in the tests of quotas: the default policy would, too.
backfill() {
    conf_more='scheduler: {policy: backfill}'
    conf_slurm='  limit_margin: 0s'
    conf_controller='  metrics_labels: [partition, account]'
}

# same_sizes JOB: the simulation of the recorded past gives the job the attempts
# that a worker claimed, with their numbers of GPUs: under the policy that ran,
# which repeats what people did, and under repeat, which decides nothing.
same_sizes() {
    local policy events=$BATS_TEST_TMPDIR/events.csv
    for policy in backfill repeat; do
        "$MGPU_BIN/mgpu-sim" --config "$ctld_dir/mgpu.yaml" --cluster 2x4 \
            --from-db "$ctld_dir/state" --policy $policy --events "$events" |
            grep -E '^(stranded|recorded)'
        [ "$(sql state "SELECT group_concat(gpus) FROM v_attempt
            WHERE job = $1 AND claimed_at > 0")" = \
            "$(sed -n "s/.*,$(job_field "$1" name),start,.*:\([0-9]*\)$/\1/p" \
                "$events" | paste -sd,)" ] || return 1
    done
}

@test "an account or a QOS that is not one's own: refused, and what to do" {
    ctld_start
    a=$(submit_sh a 1 1 "$say_ran" policy.account=foreign)
    b=$(submit_sh b 1 1 "$say_ran" policy.account=nowhere)
    c=$(submit_sh c 1 1 "$say_ran" policy.qos=closed)
    for id in $a $b $c; do
        wait_for 60 job_is "$id" HELD
        job_field "$id" reason
    done
    reason_like "$a" '*could not be started: Slurm: Invalid account*sacctmgr*'
    reason_like "$b" '*could not be started: Slurm: Invalid account*sacctmgr*'
    reason_like "$c" '*could not be started: Slurm: Invalid qos*sacctmgr*'
    [ ! -e "$ran" ]
}

@test "limits of a QOS: waits, in Slurm's words; or is tried again later" {
    ctld_start
    wide=$(submit_sh wide 1 2 "$say_ran" policy.qos=tight)
    full=$(submit_sh full 1 1 "$say_ran" policy.qos=full)
    fits=$(submit_sh fits 1 1 "$say_ran" policy.qos=tight)
    wait_for 60 reason_like "$wide" 'Slurm(QOSMaxGRESPerUser)'
    wait_for 60 reason_like "$full" 'could not be started: Slurm: *limit*'
    job_is "$full" QUEUED
    "$MGPU_BIN/mgpu-stat" --why "$wide" | grep QOSMaxGRESPerUser
    "$MGPU_BIN/mgpu-cancel" "$wide" "$full"
    wait_for 60 job_is "$wide" CANCELLED
    wait_for 60 job_is "$fits" COMPLETED
    [ "$(ran_lines)" = "$fits.1.0 " ]
}

@test "name, comment, account and limit in sacct, the way there and back" {
    ctld_start
    id=$(submit_sh mnist 1 1 "$say_ran" policy.account=physics \
        resources.time_limit=20m)
    wait_for 60 job_is "$id" COMPLETED
    native=$(native_id "$id")
    row() {
        sacct -nPX -j "$native" -o JobName,Account,TimelimitRaw,State,Comment
    }
    has_row() { [[ $(row) == "mnist|physics|2"?"|COMPLETED|mgpu:test:$id:1:"* ]]; }
    wait_for 30 has_row
    "$MGPU_BIN/mgpu-stat" "$id" | grep "$native"
    # A job that mgpu-cancel ends is no failure there, and no success either.
    id=$(submit_sh ended 2 2 "trap 'exit 0' TERM; $say_ran
        while :; do sleep 0.1; done" policy.account=physics)
    wait_for 60 has_run "$id.1.1"
    native=$(native_id "$id")
    "$MGPU_BIN/mgpu-cancel" --quiet "$id"
    wait_for 60 job_is "$id" CANCELLED
    is_cancelled() { [[ $(row) == "ended|physics|"*"|CANCELLED by $(id -u)|"* ]]; }
    wait_for 30 is_cancelled
}

@test "scancelled and forgotten while the daemon was away: slurmdbd knows" {
    ctld_start
    other=$(stranger -N 2 --gpus-per-node=3)
    wait_for 30 slurm_is "$other" RUNNING
    runs=$(submit_sh runs 1 1 "$say_ran; $wait_go")
    waits=$(submit_sh waits 2 8 "$say_ran")
    wait_for 60 has_run "$runs.1.0"
    wait_for 60 has_slurm_job waits
    native=$(native_id "$runs")
    ctld_kill
    scancel "$native" "$(slurm_ids waits)"
    wait_for 90 slurm_forgot "$native"
    wait_for 90 slurm_forgot "$(slurm_ids waits)"
    # What it left of its own: accounting is the only witness.
    find "$ctld_dir/state/jobs" \( -name exit -o -name told \) -delete
    # Asked until it answers.
    "$testbed" dbd "$TB" stop
    ctld_start
    wait_for 60 reason_like "$waits" 'SlurmUnknown: accounting*'
    "$testbed" dbd "$TB" start 3>&-
    for id in $runs $waits; do
        wait_for 60 job_has_ended "$id"
        job_field "$id" reason
        job_is "$id" CANCELLED
        reason_like "$id" "cancelled in Slurm by $me, its accounting reports*"
    done
    [ "$(n_slurm_jobs runs) $(n_slurm_jobs waits)" = '1 1' ]
    [ "$(ran_lines)" = "$runs.1.0 " ]
}

@test "a quota: no larger size is asked for, and a dry run says so" {
    quota gres/gpu=3
    backfill
    ctld_start
    spec four 4
    wait_for 30 dry_says four 'starts     not now: Slurm grants at most 3 GPUs now: 3 GPUs in all for account default, 0 in use'
    own_quota gres/gpu=2
    wait_for 30 dry_says four '2 GPUs in all for the user in account default, 0 in use'
    own_quota gres/gpu=-1
    wait_for 30 dry_says four '3 GPUs in all for account default, 0 in use'
    dry_says four "not now: Slurm refuses it: $(id -un) has no association with account 'nowhere'" \
        --set policy.account=nowhere
    dry_says four "Slurm shows no reservation 'never'" \
        --set resources.reservation=never
    id=$(saver elastic 1..4)
    wait_for 60 runs_on "$id" 1
    # Slurm's count may come after the start.
    why_says() { "$MGPU_BIN/mgpu-stat" --why "$1" | grep -F "$2"; }
    wait_for 30 why_says "$id" 'for account default, 1 in use'
    run resize "$id" 4
    [ "$status" -ne 0 ]
    [[ $output == *"cannot have 4 GPUs in Slurm: 3 GPUs in all for account default"* ]]
    why_says "$id" 'Slurm      grants at most 3 GPUs now'
    resize "$id" 3
    wait_for 60 runs_on "$id" 3
    [ "$(job_field "$id" attempt)" = 2 ]
    # The default account of who names none.
    [ "$(job_field "$id" account)" = default ]
    has_gpus() { api GET /metrics | grep -qFx "$1"; }
    wait_for 30 has_gpus \
        'mgpu_group_gpus{partition="batch",account="default"} 3'
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
    "$MGPU_BIN/mgpu-stat" --usage --by account --no-header >"$BATS_TEST_TMPDIR/use"
    grep -E '^default +1 +0 ' "$BATS_TEST_TMPDIR/use"
    [ "$("$MGPU_BIN/mgpu-stat" -h -t all -A default -o id)" = "$id" ]
    same_sizes "$id"
}

@test "a quota that is not told: the old size again, and not the other one" {
    quota gres/gpu:h100=2
    backfill
    ctld_start
    id=$(saver typed 1..4)
    wait_for 60 runs_on "$id" 1
    resize "$id" 4
    "$MGPU_BIN/mgpu-admin" resize "$id" 4 |
        grep 'Resizing: from 1 to 4 GPUs is under way already'
    three() { [ "$(job_field "$id" attempt)" = 3 ]; }
    wait_for 120 three
    wait_for 60 runs_on "$id" 1
    sql state "SELECT detail FROM event WHERE job = $id AND event = 'preempt'" |
        grep 'back to 1 GPU, 4 not granted, nor tried for 5 min: Slurm(AssocGrpGRES)'
    "$MGPU_BIN/mgpu-stat" --why "$id" | grep '4 GPUs or more were not granted'
    touch "$go"
    wait_for 60 job_is "$id" COMPLETED
    [ "$(job_field "$id" attempt)" = 3 ]
    same_sizes "$id" >"$BATS_TEST_TMPDIR/sim"
    grep "stranded: job $id .*; repeated as a requeue" "$BATS_TEST_TMPDIR/sim"
}

# max_wall MINUTES: of the QOS of who names none, half of what the partition
# takes.
max_wall() {
    sacctmgr -i modify qos normal set "MaxWall=$1" >/dev/null
    scontrol update partitionname=batch "maxtime=$((2 * $1))"
}

@test "the MaxWall of a QOS is the limit of a job that names none" {
    conf_slurm='  limit_margin: 200s'
    max_wall 20
    ctld_start
    spec plain 1
    sed -i 's/, time_limit: 10m//' "$BATS_TEST_TMPDIR/plain.yaml"
    wait_for 60 dry_says plain 'starts     now'
    id=$("$MGPU_BIN/mgpu-submit" --parsable "$BATS_TEST_TMPDIR/plain.yaml")
    wait_for 40 runs_on "$id" 1
    limit_of() { [ "$(job_field "$id" limit_s)" = 1200.0 ]; }
    wait_for 30 limit_of
    # It is still Slurm's for the next attempt.
    "$MGPU_BIN/mgpu-admin" --quiet requeue "$id"
    second_runs() { [ "$(job_field "$id" attempt)" = 2 ] && runs_on "$id" 1; }
    wait_for 60 second_runs
    scontrol show job "$(native_id "$id")" | grep 'TimeLimit=00:20:00 '
}

@test "a MaxWall below the grace period: no warning when the job begins" {
    at_night
    max_wall 1
    ctld_start
    spec short 1
    sed -i 's/, time_limit: 10m//' "$BATS_TEST_TMPDIR/short.yaml"
    wait_for 60 dry_says short 'starts     now'
    id=$("$MGPU_BIN/mgpu-submit" --parsable "$BATS_TEST_TMPDIR/short.yaml")
    wait_for 180 job_has_ended "$id"
    [ "$(job_state "$id")" = TIMEOUT ]
    # Not before 60 s by Slurm's clock, which counts whole seconds.
    [ "$(sacct -nPX -j "$(native_id "$id")" -o ElapsedRaw)" -ge 59 ]
}

# wall_runs [KEY=VALUE]: a job of ten minutes does, and has no more in Slurm.
wall_runs() {
    conf_slurm='  limit_margin: 200s'
    ctld_start
    spec walled 1
    wait_for 60 dry_says walled 'starts     now'
    id=$(saver walled 1 "$@")
    wait_for 60 runs_on "$id" 1
    scontrol show job "$(native_id "$id")" | grep 'TimeLimit=00:10:00 '
}

@test "the margin makes no limit longer than the MaxWall of a QOS" {
    max_wall 10
    wall_runs
}

@test "nor than that of a partition's QOS" {
    at_night
    sacctmgr -i modify qos closed set MaxWall=10 >/dev/null
    scontrol update partitionname=batch qos=closed
    wall_runs policy.qos=normal
}

@test "mgpu-sim reads what this Slurm's sacct and scontrol print" {
    cd "$BATS_TEST_TMPDIR"
    # Its second run counts. Slurm begins it when its first credential has
    # expired: sooner the node refuses it.
    again=$(stranger --gpus-per-node=3)
    wait_for 60 slurm_is "$again" RUNNING
    scontrol requeue "$again"
    first=$(stranger --gpus-per-node=2)
    array=$(stranger --gpus-per-node=1 --array 1-2)
    none=$(stranger)
    for id in "$first" "${array}_1" "${array}_2" "$none" "$again"; do
        recorded() { sacct -nPX -j "$id" -o State,End | grep -v -E 'RUNNING|PENDING|Unknown'; }
        wait_for 60 slurm_is "$id" RUNNING
        scancel "$id"
        wait_for 60 recorded
    done
    sacct --allusers --allocations --duplicates --parsable2 \
        --starttime=now-1days --format=JobID,User,State,Submit,Eligible,Start,End,Elapsed,Timelimit,NNodes,AllocTRES,ReqTRES,JobName >past.txt
    scontrol show node >nodes.txt
    "$MGPU_BIN/mgpu-sim" --trace sacct:past.txt --cluster slurm:nodes.txt \
        --jobs jobs.csv --json out.json 2>err
    cat err
    not grep 'is wrong' err
    grep 'without GPUs' err
    [ "$(grep -c "^$again|" past.txt)" = 2 ]
    [ "$(grep -c "^$again,.*/stranger/3," jobs.csv)" = 1 ]
    grep "^$first,.*/stranger/2," jobs.csv
    grep "^${array}_1,.*/stranger/1," jobs.csv
    grep "^${array}_2,.*/stranger/1," jobs.csv
    not grep "^$none," jobs.csv
    # Each has its recorded GPUs, also the attempts of mgpu's own jobs.
    tail -n +2 jobs.csv | awk -F, '{ n = split($2, class, "/") }
        $7 != class[n] { print; bad = 1 } END { exit bad || NR < 4 }'
}
