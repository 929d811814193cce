#!/usr/bin/env bats
# goodput.bats - the policy goodput as administrators and users meet it: its
# keys, memory that a job has not got, and the speed of each size.

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
    [ "$(admin log --json --last 1 | json '$.deeds[0].detail.set."scheduler.goodput.efficiency_floor".old')" = 0.4 ]

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
