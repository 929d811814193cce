#!/usr/bin/env bats
# F38: a GPU fails while the daemon runs; and how busy GPUs were. The driver is a
# fake one, which says what a file has it say (tests/fake_nvml.h).
# shellcheck disable=SC2154 # $output is bats' own
load helpers

setup() {
    local build=$MGPU_BIN/../tests/unit/slurm/local/nvml
    [ -x "$build" ] || skip "built without the tests"
    mkdir "$BATS_TEST_TMPDIR/lib"
    "$build" "$BATS_TEST_TMPDIR/lib" || skip "no C compiler"
    mv "$BATS_TEST_TMPDIR/lib/nvml.so" "$BATS_TEST_TMPDIR/lib/libnvidia-ml.so.1"
    export FAKE_NVML_SAYS=$BATS_TEST_TMPDIR/says
    export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    ctld_launch --local
}
teardown() {
    touch "$BATS_TEST_TMPDIR/go"
    ctld_stop
}

stat() { "$MGPU_BIN/mgpu-stat" "$@"; }
admin() { "$MGPU_BIN/mgpu-admin" "$@"; }
drained() { [ "$(api GET /v1/nodes | json '$.nodes[0].gpus_drained')" = "$1" ]; }

@test "F38: a GPU that fails is drained, and so told; its job has NODE_FAIL" {
    local node a b c fails why='xid 79: GPU has fallen off the bus'
    node=$(api GET /v1/nodes | json '$.nodes[0].name')
    fails="while ! [ -e $BATS_TEST_TMPDIR/go ]; do sleep 0.1; done; exit 3"
    a=$(api POST /v1/jobs -d "{\"spec\":{\"version\":1,\"kind\":\"command\",
        \"name\":\"a\",\"command\":[\"sh\",\"-c\",\"$fails\"],
        \"resources\":{\"gpus\":1},\"retry\":{\"max\":0}}}" | json '$.id')
    wait_for 60 job_is "$a" RUNNING
    b=$(submit_command b sh -c "${fails%3}0")
    wait_for 60 job_is "$b" RUNNING
    echo 'xid 0 79' >>"$FAKE_NVML_SAYS"
    wait_for 60 drained 1

    run stat --nodes
    [[ $output == *"up, 1 drained"*"GPU 0: $why"* ]]
    run stat --gpus
    [[ $output == *"$node:0 "*", drained"* ]]
    grep -q "GPU 0 is drained: $why" "$ctld_dir/ctld.log"
    api GET /metrics | grep -qx 'mgpu_gpus_drained 1'
    [ "$(job_state "$a")" = RUNNING ] # as long as it can

    touch "$BATS_TEST_TMPDIR/go"
    wait_for 60 job_has_ended "$a"
    wait_for 60 job_has_ended "$b"
    [ "$(job_state "$a") $(job_state "$b")" = "NODE_FAIL COMPLETED" ]
    [ "$(api GET "/v1/jobs/$a" | json '$.job.reason')" = "GPU 0 of $node: $why" ]
    run stat --gpus
    [[ $output == *"$node:0 "*"drained"* ]]

    # What needs both waits, and its user learns for what.
    c=$(api POST /v1/jobs -d '{"spec":{"version":1,"kind":"command","name":"c",
        "command":["true"],"resources":{"gpus":2}}}' | json '$.id')
    says_why() { stat --why "$c" | grep -q "GpusDrained: $node (GPU 0: $why)"; }
    wait_for 60 says_why
    b=$(submit_command b true)
    wait_for 60 job_is "$b" COMPLETED
    [[ $(api GET "/v1/jobs/$b" | json '$.job.place') == *:1 ]]
    job_is "$c" QUEUED

    rm "$FAKE_NVML_SAYS" # it was seated anew
    admin --quiet resume "$node"
    wait_for 60 job_is "$c" COMPLETED
    drained 0
    admin log | grep -q "resume *$node"
}

@test "the GPUs of a command: how busy they were" {
    local id busy
    id=$(api POST /v1/jobs -d "{\"spec\":{\"version\":1,\"kind\":\"command\",
        \"command\":[\"sh\",\"-c\",
        \"while ! [ -e $BATS_TEST_TMPDIR/go ]; do sleep 0.1; done\"],
        \"resources\":{\"gpus\":2}}}" | json '$.id')
    asked() { grep -qs "$1" "$BATS_TEST_TMPDIR/lib/libnvidia-ml.so.1.asked"; }
    wait_for 60 asked a
    wait_for 60 asked b
    touch "$BATS_TEST_TMPDIR/go"
    wait_for 60 job_is "$id" COMPLETED
    # One for a quarter, the other for three quarters, each from its first
    # sample to its last.
    busy=$(stat --eff "$id" | sed -n 's/^ GPUs busy .* \([0-9]*\) %$/\1/p')
    [ "$busy" -ge 25 ]
    [ "$busy" -le 75 ]
    [ "$(stat --eff --json "$id" | json '$.jobs[0].gpus_busy')" != null ]
}
