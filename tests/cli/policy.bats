#!/usr/bin/env bats
# policy.bats - mgpu-admin policy: what decides which job gets what, shown,
# changed while the daemon runs, and explained with the numbers of its queue.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    mkdir -m 700 d
    printf '%s\n' 'version: 1' 'limits: {max_gpus_per_user: 2}' \
        'watchdog: {heartbeat: 5s}' >mgpu.yaml
    ctld_start --config mgpu.yaml
}
teardown() { ctld_stop; }

admin() { "$MGPU_BIN/mgpu-admin" "$@"; }
row() { admin policy show | grep "^$1 "; }

@test "show: each key with its value, its type and where it comes from" {
    run admin policy show
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == "policy goodput: "* ]]
    [[ $(row limits.max_gpus_per_user) == *" 2 "*" now "*"mgpu.yaml:2 "*int ]]
    [[ $(row watchdog.heartbeat) == *" 5s "*"mgpu.yaml:3 "*" 10s "*duration ]]
    [[ $(row scheduler.interval) == *" 1s "*" now "*" default "* ]]
    [[ $(row slurm.submit_ahead) == *" restart "*" default "* ]]
    [ "$(grep -c '^[a-z]*\.' <<<"$output")" -ge 12 ]
    [[ $output != *slurm.partition* ]]
    # Whoever has 80 columns can type each key that stands there.
    command -v script >/dev/null || return 0
    admin policy show | sed 's/ .*//' >keys
    timeout 60 script -qec "stty cols 80; $MGPU_BIN/mgpu-admin --quiet policy show" \
        /dev/null </dev/null >seen
    tr -d '\r' <seen | sed 's/\x1b\[[0-9;]*m//g' >plain
    [ "$(sed 1d plain | wc -L)" -le 80 ]
    diff keys <(sed 's/ .*//' plain)
}

@test "set: at once, all or nothing, as the file would be refused, and logged" {
    run admin policy set limits.max_gpus_per_user=1 scheduler.policy=fifo
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == "policy fifo: "* ]]
    [[ $(row limits.max_gpus_per_user) == *" 1 "*"set by uid $(id -u)"* ]]
    run submit_gpus 2
    [[ $output == *"of 1 allowed"* ]]

    # The second is wrong: nothing of the first.
    run admin policy set limits.max_running_per_user=7 limits.max_gpus_per_user=x
    [ "$status" -eq 78 ]
    # The request is wrong, not the daemon.
    [ "$(curl --silent --unix-socket "$ctld_dir/sock" -o "$BATS_TEST_TMPDIR/reply" -w '%{http_code}' \
        -d '{"set":{"scheduler.policy":"nonsense"}}' http://mgpu/v1/admin/policy)" = 400 ]
    grep -q '"code":"CONFIG"' "$BATS_TEST_TMPDIR/reply"
    [[ $output == *"error[E013]"*"limits.max_gpus_per_user"* ]]
    [[ $(row limits.max_running_per_user) == *" null "*" default "* ]]
    # With what the file says.
    run admin policy set watchdog.node_lost_after=9s
    [ "$status" -eq 78 ]
    [[ $output == *"error[E023]"*"at least twice"* ]]
    run admin policy set limits.max_gpu_per_user=1
    [[ $output == *"error[E010]"*"unknown key"* ]]
    run admin policy set auth.admins='[eve]'
    [[ $output == *"'auth.admins' is no key of the policy"* ]]
    run admin policy set limits='{max_gpus_per_user: 9}'
    [[ $output == *"'limits' is no key of the policy"* ]]
    run admin policy set slurm.submit_ahead=3
    [[ $output == *"is read when the daemon starts"* ]]
    run admin policy set limits.max_gpus_per_user
    [ "$status" -eq 64 ]
    [ "$(admin log --json --last 100 | json '$.actions[0].detail.set."limits.max_gpus_per_user".old')" = 2 ]
    [ "$(admin log --json --last 100 | json '$.actions[0].detail.set."limits.max_gpus_per_user".value')" = 1 ]
    [ "$(admin log | grep -c policy)" -eq 1 ]
}

submit_gpus() {
    api POST /v1/jobs -d '{"spec":{"version":1,"kind":"command","name":"w",
        "command":["true"],"resources":{"gpus":'"$1"'}}}'
}

@test "a key that was set survives reload and restart; reset returns it to the file" {
    admin --quiet policy set limits.max_gpus_per_user=1
    printf '%s\n' 'version: 1' 'limits: {max_gpus_per_user: 3}' >mgpu.yaml
    admin --quiet reload
    [[ $(row limits.max_gpus_per_user) == *" 1 "*"set by"* ]]
    [[ $(row watchdog.heartbeat) == *" 10s "*" default "* ]]
    ctld_kill
    ctld_start --config mgpu.yaml
    [[ $(row limits.max_gpus_per_user) == *" 1 "*"set by uid $(id -u)"* ]]
    run submit_gpus 2
    [[ $output == *"of 1 allowed"* ]]
    run admin policy reset scheduler.policy
    [[ $output == *"'scheduler.policy' is not set"* ]]
    admin --quiet policy reset
    [[ $(row limits.max_gpus_per_user) == *" 3 "*"mgpu.yaml:2 "* ]]
    ctld_kill
    ctld_start --config mgpu.yaml
    [[ $(row limits.max_gpus_per_user) == *" 3 "*"mgpu.yaml:2 "* ]]
}

@test "for a time only, also over a restart" {
    admin --quiet policy set limits.max_gpus_per_user=1 --for 1h
    [[ $(row limits.max_gpus_per_user) == *", until 20"* ]]
    admin --quiet policy set scheduler.policy=fifo --for 1s
    wait_for 60 policy_is goodput
    [[ $(admin log --last 1) == *policy*"its time is over"* ]]
    # One whose time is over while no daemon is there.
    admin --quiet policy set limits.max_running_per_user=5 --for 1s
    ctld_kill
    wait_for 60 second_is_over
    ctld_start --config mgpu.yaml
    [[ $(row limits.max_running_per_user) == *" null "*" default "* ]]
    [[ $(row limits.max_gpus_per_user) == *" 1 "*"set by"* ]]
}
policy_is() { admin policy show | grep -q "^policy $1:"; }
second_is_over() {
    # It may not be the last line: the time of a slow machine is over at once.
    until_s=$(grep max_running_per_user.*until_s d/state/admin.log | tail -1 |
        json '$.detail.set."limits.max_running_per_user".until_s')
    [ "$(date +%s)" -gt "${until_s%.*}" ]
}

@test "a setting that does not exist: its nearest name, and one name of the tool" {
    run admin policy set limits.max_gpus_per_usr=1
    [ "$status" -ne 0 ]
    [[ $output == "mgpu-admin: policy set: error[E010]: unknown key 'limits.max_gpus_per_usr'; did you mean 'max_gpus_per_user'?" ]]
    run admin policy set scheduler.interval=0
    [[ $output == *"has no unit"*"; write 90s, 15m or 8h" ]]
    printf '%s\n' 'version: 1' 'limits: {max_sweeps: 1}' >bad.yaml
    run "$MGPU_BIN/mgpu-ctld" --check-config bad.yaml
    [ "$status" -eq 78 ]
    [ "$(grep -c '1 error' <<<"$output")" -eq 1 ]
}

@test "a set key that a new file forbids is dropped, with a warning" {
    admin --quiet policy set watchdog.node_lost_after=11s
    # Something else is over at the same start.
    admin --quiet policy set --for 1s limits.max_running_per_user=5
    ctld_kill
    wait_for 30 second_is_over
    printf '%s\n' 'version: 1' 'watchdog: {heartbeat: 6s}' >mgpu.yaml
    ctld_start --config mgpu.yaml
    [[ $(row watchdog.node_lost_after) == *" 90s "*" default "* ||
        $(row watchdog.node_lost_after) == *" 1m30s "*" default "* ]]
    grep -q 'the configuration file refuses the policy settings' d/ctld.log
    [[ $(admin log --last 1) == *policy*"at least twice"* ]]
    [[ $(admin log --last 1) == *"node_lost_after: 11s -> 90s (reset)"* ]]
    # A reload that what is set does not go with changes nothing.
    admin --quiet policy set watchdog.node_lost_after=12s
    printf '%s\n' 'version: 1' 'watchdog: {heartbeat: 7s}' >mgpu.yaml
    run admin reload
    [ "$status" -ne 0 ]
    [[ $output == *"policy set: error[E023]"*node_lost_after* ]]
    [[ $(row watchdog.heartbeat) == *" 6s "* ]]
}

@test "S06: who asks too often is told when to ask again, and tools do" {
    submit_command one true >/dev/null
    admin --quiet policy set limits.rpc_rate=5 limits.rpc_burst=3
    limited() { # by 30 requests at once: more than 5 a second anywhere
        rm -f body.*
        curl --silent --unix-socket d/sock -D head -o 'body.#1' \
            'http://mgpu/v1/status#[1-30]'
        grep -q '^HTTP/1.1 429' head
    }
    wait_for 60 limited
    cp "$(grep -l '"BUSY"' body.* | head -n 1)" body
    grep -qi '^retry-after: 1' head
    [ "$(json '$.error.code' <body)" = BUSY ]
    [[ $(json '$.error.message' <body) == "too many requests of uid $(id -u): more than 5 a second"* ]]
    "$MGPU_BIN/../tests/unit/tools/schema" body
    # Six requests and a stream: more than the burst.
    for _ in 1 2 3 4 5 6; do admin --json status >/dev/null; done
    has_lines() { [ -s "$1" ]; }
    follow_until has_lines lines "$MGPU_BIN/mgpu-stat" --watch --json -t all
    admin --quiet policy reset
    api GET /metrics | grep -Eq '^mgpu_rate_limited_total [1-9]'
}

@test "explain: who gets what, and by which numbers" {
    a=$(submit_command runs sleep 600)
    wait_for 60 job_is "$a" RUNNING
    admin --quiet policy set limits.max_running_per_user=1
    b=$(submit_gpus 2 | json '$.id')
    c=$(submit_command small true)
    run admin policy explain
    [ "$status" -eq 0 ]
    [[ $output == *"order: the higher priority"*" 1 of 2 GPUs are free"* ]]
    grep -Eq "^ +- +$a .* runs .* 1 on 1 " <<<"$output"
    grep -Eq "^ +1 +$b .* out .* 2 .*LimitUserJobs: 1 run, of 1 allowed" <<<"$output"
    run admin policy explain "$b"
    grep -q 'its user .*GPUs: 1 in use, 2 allowed' <<<"$output"
    grep -q 'its user .*jobs: 1 in use, 1 allowed' <<<"$output"
    not grep -q " $c " <<<"$output"

    # A pause is told, and what would start but for it; nothing of it happens.
    admin --quiet pause
    admin --quiet policy reset
    run admin policy explain
    [[ $output == *"paused: nothing is started"* ]]
    grep -Eq "^ +1 +$b .* out .* 2 .*LimitUserGpus: 1 in use, needs 2, of 2" <<<"$output"
    grep -Eq "^ +2 +$c .* start .* 1 on 1 .*starts now" <<<"$output"
    job_is "$c" QUEUED
    run admin policy explain --json "$b"
    [ "$(json '$.schema' <<<"$output")" = mgpu.plan/1 ]
    [ "$(json '$.jobs[0].use.user_gpus_max' <<<"$output")" = 2 ]
    [ "$(json '$.jobs[1]' <<<"$output")" = "" ]
    run admin policy explain 99
    [ "$status" -ne 0 ]
}

@test "limits of a user and of an account: refused, or waits and says why" {
    submit() { "$MGPU_BIN/mgpu-submit" --parsable "$@" job.yaml; }
    why_says() { "$MGPU_BIN/mgpu-stat" --why "$1" | grep -q "because *$2\$"; }
    limits() { # KEYS
        printf '%s\n' 'version: 1' "limits: {$1}" >mgpu.yaml
        admin --quiet reload
    }
    printf 'version: 1\nkind: command\ncommand: [sleep, "600"]\n' >job.yaml
    limits 'max_jobs_per_user: 4, max_gpus_per_user: 1, max_running_per_account: 1'
    run submit --set resources.gpus=2
    [ "$status" -eq 65 ]
    [[ $output == *"needs 2 GPUs, of 1 allowed (limits.max_gpus_per_user) [E201]"* ]]
    run submit --force-queue --set resources.gpus=2
    [ "$status" -eq 65 ]
    a=$(submit)
    wait_for 60 job_is "$a" RUNNING
    b=$(submit)
    c=$(submit --set resources.gpus=0 --set policy.account=bio)
    wait_for 60 job_is "$c" RUNNING
    d=$(submit --set resources.gpus=0 --set policy.account=bio)
    wait_for 60 why_says "$b" 'LimitUserGpus: 1 in use, needs 1, of 1 allowed'
    wait_for 60 why_says "$d" \
        'LimitAccountJobs: 1 run, of 1 allowed to account bio'
    run submit --set resources.gpus=0
    [ "$status" -eq 75 ]
    [[ $output == *"you have 4 jobs, of 4 allowed (max_jobs_per_user)"* ]]
    limits 'max_jobs_per_user: 5, max_gpus_per_user: 2, max_running_per_account: 2'
    wait_for 60 job_is "$b" RUNNING
    wait_for 60 job_is "$d" RUNNING
    e=$(submit)
    # Who lowers a limit ends nothing.
    limits 'max_gpus_per_user: 1'
    wait_for 60 why_says "$e" 'LimitUserGpus: 2 in use, needs 1, of 1 allowed'
    job_is "$a" RUNNING && job_is "$b" RUNNING
    # Hours are used up while a job runs, which goes on.
    limits "gpu_hours: {$(id -un): 0.0001 per 1h}"
    wait_for 60 why_says "$e" "LimitGpuHours: $(id -un) used .* of 0.0001 \
GPU-hours per 1h, free again at 20.* UTC or later"
    job_is "$a" RUNNING && job_is "$b" RUNNING
    "$MGPU_BIN/mgpu-cancel" --quiet "$a"
    wait_for 60 job_is "$a" CANCELLED
    admin --quiet policy set limits.gpu_hours="{$(id -un): 100 per 7d}"
    wait_for 60 job_is "$e" RUNNING
}
