#!/usr/bin/env bats
# goodput.bats - the policy goodput as administrators and users meet it: its
# keys, memory that a job has not got, the speed of each size, and slots with
# cores of their own.

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    mkdir -m 700 d
}
teardown() { ctld_stop; }

admin() { "$MGPU_BIN/mgpu-admin" "$@"; }
row() { admin policy show | grep "^$1 "; }

@test "keys of goodput and fair share: live, refused as in the file, logged" {
    printf '%s\n' 'version: 1' 'scheduler:' '  goodput: {idle_floor: 0.3}' >mgpu.yaml
    ctld_start --config mgpu.yaml
    [[ $(row scheduler.goodput.idle_floor) == *" 0.3 "*" now "*"mgpu.yaml:3 "* ]]
    [[ $(row scheduler.goodput.horizon) == *" 30m "*" now "*default* ]]
    admin policy set scheduler.goodput.efficiency_floor=0.5 \
        scheduler.goodput.aging=1 scheduler.fair_share.half_life=7d \
        scheduler.fair_share.weights='{vision: 2, speech: 0.5}'
    [[ $(row scheduler.goodput.efficiency_floor) == *" 0.5 "*"set by uid"* ]]
    [[ $(row scheduler.fair_share.weights) == *vision*"set by uid"* ]]
    [ "$(admin log --json --last 1 | json '$.actions[0].detail.set."scheduler.goodput.efficiency_floor".old')" = 0.4 ]

    # With what the file says: 0.3 is above 0.2.
    run admin policy set scheduler.goodput.efficiency_floor=0.2
    [ "$status" -eq 78 ]
    [[ $output == *"error[E023]"*"'scheduler.goodput.idle_floor' must be 0..0.2"* ]]
    run admin policy set scheduler.fair_share.weights='{vision: 0}'
    [ "$status" -eq 78 ]
    [[ $output == *"error[E023]"*"'vision' must be above 0"* ]]
    run admin policy set scheduler.goodput.explore=17
    [[ $output == *"error[E013]"*"1..16"* ]]
    run admin policy set scheduler.goodput.efficency_floor=0.3
    [[ $output == *"error[E010]"*"unknown key"*"efficency_floor"* ]]
    [[ $(row scheduler.goodput.efficiency_floor) == *" 0.5 "* ]]

    # A file that is wrong changes nothing, and its line is named.
    printf '%s\n' 'version: 1' 'scheduler:' '  goodput: {interval: 1s}' >mgpu.yaml
    run admin reload
    [ "$status" -ne 0 ]
    [[ $output == *"mgpu.yaml:3:23"*"5s..10m"* ]]
    [[ $(row scheduler.goodput.interval) == *" 1m "* ]]
}

# A training of a range, on CPU slots: of so many epochs.
training() { # NAME EPOCHS
    cat >"$1.yaml" <<EOT
version: 1
kind: cv
name: $1
model: {width_mult: 0.35}
dataset: {source: synthetic, image_size: 32, train_samples: 2048, eval_samples: 64}
train: {epochs: $2, batch_size: 16, global_batch_size: 64, device: host, precision: fp32}
resources: {gpus: 1..2}
EOT
    "$MGPU_BIN/mgpu-submit" --quiet "$1.yaml"
}
goodput_start() {
    printf '%s\n' 'version: 1' 'local: {cpu_slots: 2}' 'watchdog: {heartbeat: 1s}' \
        'scheduler: {policy: goodput, goodput: {interval: 5s, min_runtime: 2s, hysteresis: 0s}}' \
        >mgpu.yaml
    ctld_start --config mgpu.yaml
}
sql() { sqlite3 -readonly "$ctld_dir/state/$1.db" "$2"; }
gpus_of() { api GET "/v1/jobs/$1" | json '$.job.gpus'; }
has_gpus() { [ "$(gpus_of "$1")" = "$2" ]; }
is_in() { [ "$(api GET "/v1/jobs/$1" | json '$.job.state')" = "$2" ]; }

@test "a job grows onto idle slots; explain and --why have the measured sizes" {
    goodput_start
    training long 500
    # Its class has never run: two is twice the largest measured, once that is.
    wait_for 120 has_gpus 1 2
    wait_for 60 is_in 1 RUNNING
    [ "$(sql state "SELECT group_concat(resized_from) FROM v_attempt WHERE job = 1")" = 1 ]
    [ "$(sql state "SELECT DISTINCT gpu_type FROM v_attempt WHERE job = 1")" = slot ]
    is_measured() {
        [ "$(admin policy explain --json | json '$.sizes[1].basis')" = measured ]
    }
    wait_for 120 is_measured
    admin policy explain --json >plan.json
    [ "$(json '$.sizes[0].basis' <plan.json)" = measured ]
    [ "$(json '$.sizes[0].gpus' <plan.json)" = 1 ]
    [ "$(json '$.sizes[1].is_now' <plan.json)" = 1 ]
    run admin policy explain
    [[ $output == *"+1 GPU"*"measured ("*"has chosen"* ]]
    run "$MGPU_BIN/mgpu-stat" --why 1
    [[ $output == *" size       2 GPUs, the most that pays for it; "*" measured efficiency at 2 ("* ]]
    # Two slots had been assumed to be twice as fast as one.
    # It is compared after some iterations.
    is_compared() {
        api GET /metrics >metrics
        grep -qx 'mgpu_rate_predictions_total 1' metrics
    }
    wait_for 120 is_compared
    [ "$(awk '$1 == "mgpu_rate_prediction_error_total" { print ($2 > 0) }' metrics)" = 1 ]
    grep -qx 'mgpu_resizes_total 1' metrics
    # What a daemon knew, the next one knows again, once its policy asks for it.
    ctld_kill
    : >d/ctld.log
    ctld_start --config mgpu.yaml
    wait_for 60 is_measured
    ctld_kill
    : >d/ctld.log
    sed -i 's/policy: goodput/policy: backfill/' mgpu.yaml
    ctld_start --config mgpu.yaml
    admin policy set scheduler.goodput.interval=6s
    admin policy set scheduler.policy=goodput
    smaller_is_measured() {
        [ "$(admin policy explain --json | json '$.sizes[0].basis')" = measured ]
    }
    wait_for 60 smaller_is_measured
    admin policy set scheduler.goodput.interval=7s
    [ "$(grep -c 'speeds of earlier jobs' d/ctld.log)" = 1 ]
    "$MGPU_BIN/mgpu-cancel" 1
    wait_for 60 is_in 1 CANCELLED
    # Only a job with a range needs them.
    ctld_kill
    : >d/ctld.log
    ctld_start --config mgpu.yaml
    [[ $(admin policy show) == "policy goodput: "* ]]
    sed -i 's/1..2/1/' long.yaml
    "$MGPU_BIN/mgpu-submit" --quiet long.yaml
    wait_for 60 is_in 2 RUNNING
    not grep -q 'speeds of earlier jobs' d/ctld.log
    "$MGPU_BIN/mgpu-cancel" 2
    training long 500
    has_recalled() { [ "$(grep -c 'speeds of earlier jobs' d/ctld.log)" = 1 ]; }
    wait_for 60 has_recalled
    "$MGPU_BIN/mgpu-cancel" 3
}

@test "--scaling: measured sizes, and what the policy assumes of others" {
    # A size is chosen at the start alone, so this class runs on one slot.
    printf '%s\n' 'version: 1' 'local: {gpus: 0, cpu_slots: 4}' 'watchdog: {heartbeat: 1s}' \
        'scheduler: {policy: goodput, goodput: {max_resizes_per_hour: 0}}' >mgpu.yaml
    ctld_launch --local --config mgpu.yaml
    training one 500
    sed -i 's/1..2/1..4/' one.yaml
    "$MGPU_BIN/mgpu-submit" --quiet one.yaml
    shown() {
        run "$MGPU_BIN/mgpu-stat" --scaling 2
        [[ $output == *" assumed"* ]]
    }
    wait_for 120 shown
    [[ ${lines[1]} == *"GPUS "*" BASIS" ]]
    [[ ${lines[2]} =~ ^\ +1\ .*\ 1.00\ +100\ %.*\ measured$ ]]
    [[ ${lines[3]} =~ ^\ +2\ .*\ 2.00\ +100\ %.*\ 0\ +0\ +assumed$ ]]
    # Four would be more than twice the largest measured.
    [[ $output != *$'\n'*" 4 "*"assumed"*"assumed"* ]]
    "$MGPU_BIN/mgpu-stat" --json --scaling 2 >reply
    [ "$(json '$.rows[1][8]' <reply)" = assumed ]
    [ "$(json '$.columns[8]' <reply)" = basis ]
    # The view has it too, and keeps it while no daemon runs.
    in_view() {
        sqlite3 -readonly d/state/metrics.db "SELECT gpus, round(speedup, 6), n, runs
            FROM v_scaling WHERE basis = 'assumed'"
    }
    [ "$(in_view)" = "2|2.0|0|0" ]
    # Who asks for measurements gets no others.
    [ "$(api GET /v1/jobs/2/scaling | json '$.rows[1]')" = "" ]
    # A dry run tells the size that a further job would get.
    run "$MGPU_BIN/mgpu-submit" --dry-run one.yaml
    [[ $output == *" starts     now, with 2 GPUs"* ]]
    "$MGPU_BIN/mgpu-cancel" 1 2
    ctld_kill
    [ "$(in_view)" = "2|2.0|0|0" ]
}

@test "policy try: the recorded jobs with other settings, side by side" {
    printf '%s\n' 'version: 1' 'scheduler: {policy: backfill}' >mgpu.yaml
    ctld_start --config mgpu.yaml
    printf '%s\n' 'version: 1' 'kind: command' 'command: [sleep, "0.1"]' >c.yaml
    "$MGPU_BIN/mgpu-submit" --quiet --wait c.yaml
    "$MGPU_BIN/mgpu-submit" --quiet --wait c.yaml
    run --separate-stderr admin policy try scheduler.policy=goodput \
        scheduler.goodput.idle_floor=0.1 --since 7d
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "now    backfill" ]
    [ "${lines[1]}" = "then   goodput:goodput.idle_floor=0.1" ]
    [[ $output == *"backfill"*"goodput"*"last/first"*"JCT average"* ]]
    [[ $output == *"completed "*" 2 "*" 2 "* ]]
    # Nothing is set, and the copy is gone.
    [[ $(admin policy show) == "policy backfill: "* ]]
    dir=$(admin log --json --last 1 | json '$.actions[0].detail.dir')
    [[ $dir == /tmp/mgpu-try.* ]]
    [ ! -e "$dir" ]

    run admin policy try
    [ "$status" -eq 64 ]
    run admin policy try limits.max_gpus_per_user=1
    [[ $output == *"expected KEY=VALUE with a key of scheduler"* ]]
    run admin policy try scheduler.goodput.idle_floor=7
    [ "$status" -ne 0 ]
    [[ $output == *"error[E013]"*"idle_floor"* ]]
    run admin status --since 1h
    [ "$status" -eq 64 ]
}

@test "local.bind: a job runs on the cores of its slots, and on no others" {
    unset OMP_NUM_THREADS # nproc and the daemon would obey it
    [ "$(nproc)" -ge 2 ] || skip "one core"
    printf '%s\n' 'version: 1' 'local: {cpu_slots: 2, bind: true}' >mgpu.yaml
    ctld_start --config mgpu.yaml
    for gpus in 1 1; do
        printf '%s\n' 'version: 1' 'kind: command' "resources: {gpus: $gpus}" \
            "command: [sh, -c, 'grep Cpus_allowed_list: /proc/self/status; echo threads: \$OMP_NUM_THREADS; while [ ! -e $PWD/go ]; do sleep 0.05; done']" >c.yaml
        "$MGPU_BIN/mgpu-submit" --quiet c.yaml
    done
    has_said() { "$MGPU_BIN/mgpu-stat" --logs "$1" 2>/dev/null | grep -q threads; }
    # Both run at a time.
    wait_for 60 has_said 1
    wait_for 60 has_said 2
    touch go
    cores() { "$MGPU_BIN/mgpu-stat" --logs "$1" | sed -n 's/.*Cpus_allowed_list:[[:space:]]*//p'; }
    first=$(cores 1) second=$(cores 2)
    [ -n "$first" ] && [ -n "$second" ]
    [ "$first" != "$second" ]
    [ "$("$MGPU_BIN/mgpu-stat" --logs 1 | sed -n 's/.*threads: //p')" = $(($(nproc) / 2)) ]
    # The ranks of one job divide its cores.
    printf '%s\n' 'version: 1' 'kind: command' 'launch: ranks' 'resources: {gpus: 2}' \
        "command: [grep, 'Cpus_allowed_list:', /proc/self/status]" >c.yaml
    "$MGPU_BIN/mgpu-submit" --quiet --wait c.yaml
    [ "$(cores 3 | sort)" = "$(printf '%s\n' "$first" "$second" | sort)" ]
    ctld_stop
    printf '%s\n' 'version: 1' 'local: {gpus: 0, cpu_slots: 256, bind: true}' >mgpu.yaml
    [ "$(nproc)" -lt 256 ] || return 0
    run "$MGPU_BIN/mgpu-ctld" --config mgpu.yaml --state-dir d/other --socket d/sock
    [ "$status" -ne 0 ]
    [[ $output == *"local.bind: 256 slots need as many cores, and "* ]]
}
