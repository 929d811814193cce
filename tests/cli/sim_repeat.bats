#!/usr/bin/env bats
# sim_repeat.bats - a replay repeats each recorded attempt, whoever ended it.

bats_require_minimum_version 1.5.0
load helpers
load past

sim=$MGPU_BIN/mgpu-sim

setup() { cd "$BATS_TEST_TMPDIR" || return 1; }

teardown() { ctld_stop; }

figure() { json "$1" <out.json; }

# The past of the daemon, to be changed.
copy_past() { # DIR
    mkdir -p "$1"
    for db in state metrics; do
        sqlite3 -readonly "$ctld_dir/state/$db.db" ".backup $1/$db.db"
    done
}

@test "an attempt that a job of higher priority ended is repeated" {
    printf '%s\n' 'version: 1' 'scheduler:' '  policy: backfill' \
        '  preempt: {enabled: true, min_runtime: 0s}' >preempt.yaml
    ctld_start --config preempt.yaml
    low=$(saver 2 low)
    wait_for 30 runs_on "$low" 2
    high=$("$MGPU_BIN/mgpu-submit" --parsable --gpus 1 --name high \
        --priority 10 -- sleep 1)
    wait_for 30 job_is "$high" COMPLETED
    wait_for 30 runs_on "$low" 2
    : >done
    wait_for 30 job_is "$low" COMPLETED
    # The policy made this, and no person.
    [ "$(sqlite3 -readonly "$ctld_dir/state/state.db" "SELECT count(*) FROM
        event WHERE event = 'preempt' AND uid >= 0")" = 0 ]
    run -0 "$sim" --from-db "$ctld_dir/state" --cluster 1x2 --policy repeat \
        --events events.csv --json out.json
    same_sizes "$ctld_dir/state" events.csv
    grep '^low 2 2$' repeated
    [ "$(figure '$.runs[0].policy')" = repeat ]
    [ "$(figure '$.runs[0].completed')" = 2 ]
    [ "$(figure '$.runs[0].restarts_per_job')" = 0.5 ]
    [ "$(figure '$.runs[0].resizes_per_job')" = 0.0 ]
    [[ $output != *'did not apply'* ]]
}

@test "sizes and pauses of the policy are repeated, beside the policy itself" {
    ctld_start
    id=$(saver 1..2)
    wait_for 30 runs_on "$id" 1
    "$MGPU_BIN/mgpu-admin" --quiet resize "$id" 2
    wait_for 30 runs_on "$id" 2
    : >done
    wait_for 30 job_is "$id" COMPLETED
    # As if the policy had chosen it: no action of a person is left.
    copy_past past
    sqlite3 past/state.db "UPDATE event SET uid = -1 WHERE event = 'preempt'"
    run -0 "$sim" --from-db past --cluster 1x2 --policy repeat \
        --policy backfill --events events.csv
    [[ $output == *' recorded '*' repeat '*' backfill '* ]]
    same_sizes past events.1.csv
    grep '^saver 1 2$' repeated
    [ "$(grep -c ',start,' events.2.csv)" = 1 ]
    # One that let it wait for a minute, gave it both GPUs, and made it wait for
    # ten minutes, then on one.
    sqlite3 past/state.db "
        UPDATE event SET detail = '{\"why\":\"makes room\"}', at = at + 60
            WHERE event = 'preempt';
        UPDATE attempt SET gpus = 3 - attempt,
            intent_at = intent_at + 60 + 600 * (attempt - 1),
            claimed_at = claimed_at + 60 + 600 * (attempt - 1),
            running_at = running_at + 60 + 600 * (attempt - 1),
            ended_at = ended_at + 60 + 600 * (attempt - 1);
        UPDATE job SET ended_at = ended_at + 660"
    run -0 "$sim" --from-db past --cluster 1x2 --policy repeat \
        --events events.csv
    same_sizes past events.csv
    grep '^saver 2 1$' repeated
    sqlite3 past/state.db "SELECT printf('%.3f', a.intent_at - j.submitted_at)
        FROM attempt AS a JOIN job AS j USING (job) ORDER BY a.attempt" >due
    awk -F, '$3 == "start" { print $1 }' events.csv | paste due - | awk '
        { print $2, "for", $1; bad += $2 < $1 - 0.001 || $2 > $1 + 1 }
        END { exit bad || NR != 2 }'
}

@test "a job that never ran does not run, and repeat needs a past" {
    ctld_start
    id=$(saver 2 whole)
    wait_for 30 runs_on "$id" 2
    never=$("$MGPU_BIN/mgpu-submit" --parsable --gpus 1 --name never -- true)
    copy_past past
    : >done
    wait_for 30 job_is "$id" COMPLETED
    # The daemon's copy is from when one ran and the other was pending.
    run "$sim" --from-db past --cluster 1x2 --policy repeat --jobs jobs.csv \
        --events events.csv
    grep -E "^never,[^,]*,[^,]*,[0-9.]+,,[0-9.]+,0," jobs.csv
    not grep never events.csv
    grep -E '^[0-9.]+,whole,start,n1:2$' events.csv
    [ -n "$never" ]
    printf '0,100,1\n' >one.csv
    run -2 "$sim" --policy repeat --cluster 1x1 --trace csv:one.csv
    [[ $output == *'--policy repeat needs --from-db'* ]]
    run -2 "$sim" --policy repeat:depth=1 --from-db past
    [[ $output == *'--policy: repeat has no keys'* ]]
}

@test "a sweep that a person let run side by side is repeated so" {
    ctld_start
    cat >sweep.yaml <<'END'
version: 1
name: sweep
kind: command
command: [sh, -c, 'while [ ! -e done ]; do sleep 0.05; done']
resources: {gpus: 1}
sweep: {grid: {env.I: ["1", "2"]}, max_parallel: 1}
END
    id=$("$MGPU_BIN/mgpu-submit" --parsable sweep.yaml)
    wait_for 30 job_is "${id}_0" RUNNING
    "$MGPU_BIN/mgpu-admin" --quiet update "$id" sweep.max_parallel=2
    wait_for 30 job_is "${id}_1" RUNNING
    : >done
    wait_for 30 job_is "${id}_0" COMPLETED
    wait_for 30 job_is "${id}_1" COMPLETED
    copy_past past
    # Both ran for ten minutes more, at the same time.
    sqlite3 past/state.db "UPDATE attempt SET ended_at = ended_at + 600;
        UPDATE job SET ended_at = ended_at + 600"
    run -0 "$sim" --from-db past --cluster 1x2 --policy repeat \
        --events events.csv
    [ "$(cut -d, -f3 events.csv | sed -n 2,3p | tr '\n' ' ')" = 'start start ' ]
}

@test "a job that a person let go without its dependency is repeated" {
    ctld_start
    a=$("$MGPU_BIN/mgpu-submit" --parsable --gpus 1 --hold -- true)
    b=$("$MGPU_BIN/mgpu-submit" --parsable --gpus 1 --name freed \
        --dependency "afterok:$a" -- true)
    "$MGPU_BIN/mgpu-cancel" --quiet "$a"
    wait_for 30 job_is "$b" HELD
    "$MGPU_BIN/mgpu-admin" --quiet release "$b"
    wait_for 30 job_is "$b" COMPLETED
    copy_past past
    run -0 "$sim" --from-db past --cluster 1x2 --policy repeat \
        --events events.csv
    grep -E '^[0-9.]+,freed,start,' events.csv
}

@test "an attempt that has not begun when it should stop is told" {
    ctld_start
    first=$("$MGPU_BIN/mgpu-submit" --parsable --gpus 2 --name first -- true)
    wait_for 30 job_is "$first" COMPLETED
    id=$(saver 2)
    wait_for 30 runs_on "$id" 2
    "$MGPU_BIN/mgpu-admin" --quiet requeue "$id"
    wait_for 30 runs_on "$id" 2
    : >done
    wait_for 30 job_is "$id" COMPLETED
    copy_past past
    run -0 "$sim" --from-db past --cluster 1x2 --policy repeat \
        --events events.csv
    same_sizes past events.csv
    [[ $output != *'did not apply'* ]]
    # The simulated one before it keeps the GPUs for longer than all of this.
    sqlite3 past/state.db "UPDATE attempt SET ended_at = ended_at + 600
            WHERE job = $first;
        UPDATE job SET ended_at = ended_at + 600 WHERE job = $first"
    run -0 "$sim" --from-db past --cluster 1x2 --policy repeat \
        --events events.csv
    [ "$(grep -c ',saver,start,' events.csv)" = 1 ]
    [[ $output == *'under repeat 1 action that did not apply then'* ]]
}

@test "attempts of a job that does not save are as many as recorded" {
    ctld_start
    id=$(saver 1..2)
    wait_for 30 runs_on "$id" 1
    "$MGPU_BIN/mgpu-admin" --quiet resize "$id" 2
    wait_for 30 runs_on "$id" 2
    : >done
    wait_for 30 job_is "$id" COMPLETED
    copy_past past
    # As if it had failed, and the retry had another size.
    sqlite3 past/state.db "UPDATE event SET uid = -1 WHERE event = 'preempt';
        UPDATE job SET spec = json_remove(spec, '\$.saves')"
    run -0 "$sim" --from-db past --cluster 1x2 --policy repeat \
        --events events.csv
    [ "$(grep -c ',saver,start,' events.csv)" = 2 ]
    [[ $output == *'that did not apply then'* ]]
}
