#!/usr/bin/env bats
# sim_cases.bats - single cases in which goodput can fail: those of
# tests/bench/sim/cases.sh that take little. MGPU_TEST_ALL=1: all of them.

cases=$BATS_TEST_DIRNAME/../bench/sim/cases.sh

@test "a case that can hurt does not under goodput" {
    if [ -n "${MGPU_TEST_ALL:-}" ]; then
        run sh "$cases"
    else
        CASES='equal limits cold thirds' SEEDS=1 HOURS=6 run sh "$cases"
    fi
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"mean / that of backfill"*"met"* ]]
    [[ $output == *"goodput less all GPUs at once"*"met"* ]]
}

@test "a case that hurts is told, and fails" {
    # Under fifo the job keeps its smallest size.
    cat >"$BATS_TEST_TMPDIR/mgpu-sim" <<END
#!/bin/bash
exec "$MGPU_BIN/mgpu-sim" "\$1" fifo "\${@:3}"
END
    chmod +x "$BATS_TEST_TMPDIR/mgpu-sim"
    MGPU_BIN=$BATS_TEST_TMPDIR CASES=cold run sh "$cases"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"goodput less all GPUs at once"*"missed by"* ]]
    [[ $output == *"a goal is missed"* ]]
}

@test "an unknown case is an error that names the known ones" {
    CASES=warm run sh "$cases"
    [ "$status" -eq 2 ]
    [[ $output == *"'warm' is none of: ranges "*thirds* ]]
}
