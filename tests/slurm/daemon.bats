#!/usr/bin/env bats
# daemon.bats - mgpu-ctld or its helper dies; Slurm and the jobs do not.

bats_require_minimum_version 1.5.0
load helpers
load ../cli/sweep

setup_file() { slurm_up --nodes 2 --gpus 4; }
teardown_file() { slurm_down; }
teardown() { slurm_calm; }

helper_pids() { # those of this daemon: the supervisor, then its children
    pgrep -P "$1" -f mgpu-slurm-helper
}

# ---- each call of the store --------------------------------------------------

# The daemon was dead while Slurm knew the job and the store did not, or the
# reverse: there is one Slurm job in each life.
lives=0
check_more() {
    lives=$((lives + 1))
    [ "$(n_slurm_jobs once)" = "$lives" ]
}

@test "F02 F04: killed after every call of the store" {
    scontrol show config >/dev/null
    lives=$(n_slurm_jobs once || :)
    sweep :after
}
@test "F03 F04: killed before every call of the store" {
    lives=$(n_slurm_jobs once || :)
    sweep ""
}

# A slurmctld that is paused has been sent something of a submit's size; what
# the daemon only asks has some 100 bytes. DISPATCHING comes before that.
submit_is_unread() {
    local port where queues
    port=$(sed -n 's/^SlurmctldPort=//p' "$SLURM_CONF")
    while read -r _ where _ _ queues _; do
        [[ $where != *:$(printf %04X "$port") ]] ||
            [ $((16#${queues#*:})) -lt 700 ] || return 0
    done </proc/net/tcp
    return 1
}

slurm_was_seen() { [ "$(api GET /v1/status | json '$.slots_total')" = 8 ]; }

# ---- at certain moments ------------------------------------------------------

@test "F04: Slurm has accepted, and the daemon dies before it knows the id" {
    poll=60s
    ctld_start
    for name in once4 once5 once6 once7; do
        wait_for 30 slurm_was_seen
        slurmctld pause
        id=$(submit_sh "$name" 1 1 "$say_ran")
        wait_for 30 submit_is_unread && break
        # A look at Slurm hung first, and nothing is submitted meanwhile.
        slurmctld cont
        wait_for 90 job_has_ended "$id"
        : >"$ran"
    done
    ctld_kill
    slurmctld cont
    wait_for 30 has_slurm_job "$name"
    poll=
    ctld_start
    wait_for 60 job_has_ended "$id"
    [ "$(job_state "$id")" = COMPLETED ]
    [ "$(n_slurm_jobs "$name")" = 1 ]
    [ "$(ran_lines)" = "$id.1.0 " ]
    [ "$(native_id "$id")" = "$(slurm_ids "$name")" ]
}

@test "F05: the helper dies, and nothing is lost or done twice" {
    ctld_start
    long=$(submit_sh long 1 1 "$say_ran; $wait_go")
    wait_for 60 has_run "$long.1.0"
    supervisor=$(helper_pids "$ctld_pid")
    child=$(helper_pids "$supervisor" | head -n 1)
    kill -KILL "$child"
    id=$(submit_sh after 1 1 "$say_ran")
    wait_for 60 job_has_ended "$id"
    [ "$(job_state "$id")" = COMPLETED ]
    touch "$go"
    wait_for 60 job_has_ended "$long"
    [ "$(job_state "$long")" = COMPLETED ]
    [ "$(n_slurm_jobs after) $(n_slurm_jobs long)" = '1 1' ]
    [ "$(ran_lines)" = "$long.1.0 $id.1.0 " ]
    helper_pids "$ctld_pid" # and the supervisor is still that of the daemon
}

@test "F05: without its helper the daemon ends, and the next one goes on" {
    ctld_start
    id=$(submit_sh long 1 1 "$say_ran; $wait_go")
    wait_for 60 has_run "$id.1.0"
    kill -KILL "$(helper_pids "$ctld_pid")"
    wait_for 30 daemon_died
    ctld_end TERM || :
    ctld_start
    wait_for 60 job_runs "$id"
    touch "$go"
    wait_for 60 job_has_ended "$id"
    [ "$(job_state "$id")" = COMPLETED ]
    [ "$(ran_lines)" = "$id.1.0 " ]
}

@test "taken back, then held, and killed before Slurm hears of it: ended there" {
    ctld_start
    holder=$(stranger -N 2 --gpus-per-node=4)
    wait_for 60 slurm_is "$holder" RUNNING
    # Else the second one starts where nobody is seen, and takes nothing back.
    is_full() {
        [ "$("$MGPU_BIN/mgpu-stat" --nodes |
            grep -c " 0-3 $(id -un) $holder")" = 2 ]
    }
    wait_for 60 is_full
    low=$(submit_sh low 2 8 "$say_ran")
    wait_for 60 reason_like "$low" 'Slurm(*'
    first=$(slurm_ids low)
    # What the daemon says from here on nobody passes on.
    pids=$(helper_pids "$ctld_pid")
    pids="$pids $(helper_pids "$pids")"
    # shellcheck disable=SC2086 # several
    kill -STOP $pids
    high=$(submit_sh high 2 8 "$say_ran" policy.priority=high)
    is_taken() {
        [ "$(sql state "SELECT count(*) FROM v_event
            WHERE job = $low AND event = 'requeue'")" = 1 ]
    }
    wait_for 60 is_taken
    "$MGPU_BIN/mgpu-admin" --quiet hold "$low"
    ctld_kill
    # shellcheck disable=SC2086
    kill -KILL $pids
    slurm_is "$first" PENDING
    ctld_start
    wait_for 60 slurm_ended "$first"
    [ "$(slurm_end "$first")" = CANCELLED ]
    slurm_is "$holder" RUNNING # it was not only fenced at its start
    job_is "$low" HELD
    scancel "$holder"
    wait_for 60 job_is "$high" COMPLETED
    "$MGPU_BIN/mgpu-admin" --quiet release "$low"
    wait_for 60 job_is "$low" COMPLETED
    not grep "^$low\.1\." "$ran"
}

# ---- at random moments -------------------------------------------------------

# A client that does not give up, for each of six jobs.
client() {
    local n name=$1
    cat >"$BATS_TEST_TMPDIR/$name.json" <<JSON
{"spec":{"version":1,"kind":"command","name":"$name","resources":{"gpus":1},
"command":["sh","-c","$(sed 's/"/\\"/g' <<<"$say_ran"); sleep 1"]}}
JSON
    for ((n = 0; n < 600; n++)); do
        api POST /v1/jobs -H "Idempotency-Key: $name" \
            -d "@$BATS_TEST_TMPDIR/$name.json" >/dev/null 2>&1 && return
        sleep 0.1
    done
}
all_ended() {
    [ "$(sql state "SELECT count(*) FROM v_job
                    WHERE ended_at IS NOT NULL")" = "$1" ]
}

@test "F01: killed at random moments, ten times: every job once" {
    ctld_start
    clients=
    for n in 1 2 3 4 5 6; do
        client "random$n" 3>&- &
        clients="$clients $!"
    done
    for round in 1 2 3 4 5 6 7 8 9 10; do
        sleep "$((RANDOM % 2)).$((RANDOM % 10))" # the fault's moment
        if [ "$round" = 5 ]; then
            kill -KILL "$(helper_pids "$(helper_pids "$ctld_pid")" |
                head -n 1)" || :
        fi
        ctld_kill
        ctld_start
    done
    # shellcheck disable=SC2086 # several
    wait $clients
    wait_for 120 all_ended 6
    [ "$(sql state "SELECT group_concat(DISTINCT state || ' ' || attempt)
        FROM v_job")" = 'COMPLETED 1' ]
    for n in 1 2 3 4 5 6; do [ "$(n_slurm_jobs "random$n")" = 1 ]; done
    [ "$(ran_lines)" = '1.1.0 2.1.0 3.1.0 4.1.0 5.1.0 6.1.0 ' ]
}

# ---- for long ----------------------------------------------------------------

@test "F08: away while a job trains: every row is there once afterwards" {
    id=0
    rows() { sql metrics "SELECT count(*) FROM v_iteration WHERE job = $id"; }
    rows_at_least() { [ "$(rows 2>/dev/null || echo 0)" -ge "$1" ]; }
    # 1024 samples, 2 ranks, 8 each: 64 iterations an epoch. Once more, for
    # longer, where this machine was too slow to be away for some of them.
    for epochs in 2 8 32; do
        id=$((id + 1)) all=$((128 * epochs))
        ctld_start
        api POST /v1/jobs -d '{"spec":{"version":1,"kind":"cv",
            "name":"train'$id'","model":{"width_mult":0.25},
            "dataset":{"source":"synthetic","image_size":64,
                       "train_samples":1024,"eval_samples":16},
            "train":{"epochs":'$epochs',"batch_size":8,"device":"host"},
            "resources":{"nodes":2,"gpus":2}}}' >/dev/null
        wait_for 120 rows_at_least 2
        ctld_kill
        [ "$(rows)" -ge "$all" ] || break
    done
    wait_for 300 slurm_ended "$(slurm_ids "train$id")"
    [ "$(slurm_end "$(slurm_ids "train$id")")" = COMPLETED ]
    [ "$(rows)" -lt "$all" ]
    ctld_start
    wait_for 60 job_has_ended "$id"
    [ "$(job_state "$id")" = COMPLETED ]
    [ "$(rows)" = "$all" ]
    [ "$(sql metrics "SELECT count(*) FROM (SELECT DISTINCT rank, iteration
        FROM v_iteration WHERE job = $id
        AND iteration BETWEEN 1 AND 64 * $epochs)")" = "$all" ]
    [ "$(sql metrics "SELECT count(*) FROM v_epoch WHERE job = $id")" \
        = "$epochs" ]
    [ "$(events "$id")" = 'submit intent claim report finish' ]
}
