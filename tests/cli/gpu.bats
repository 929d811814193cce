#!/usr/bin/env bats
# gpu.bats - what make gpu-check and make gpu-bench run on a GPU, on the host:
# the scripts work, and say no where there is none.

bats_require_minimum_version 1.5.0

setup() {
    tests=$(cd "$MGPU_BIN/../tests" && pwd)
    export MGPU_TESTS=$tests MGPU_BENCH=$tests/bench OMP_NUM_THREADS=1
    [ -x "$tests/bench/gpu_step" ] || skip "built without the benchmarks"
}

@test "gpu-check: the same checks on the host" {
    run timeout 280 env DEVICE=host "$MGPU_SRC/tests/gpu/check.sh"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ok' <<<"$output")" -eq 6 ]
    ! grep -q '^not ok' <<<"$output"
    grep -qx '1..6' <<<"$output"
}

@test "gpu-check: a check that fails is told, and fails" {
    mkdir "$BATS_TEST_TMPDIR/unit" "$BATS_TEST_TMPDIR/unit/kernels" \
        "$BATS_TEST_TMPDIR/unit/worker" "$BATS_TEST_TMPDIR/bin"
    for t in kernels/determinism worker/cv_golden worker/cv_precision; do
        printf '#!/bin/sh\necho "1..1"\necho "ok 1 # SKIP no GPU"\n' \
            >"$BATS_TEST_TMPDIR/unit/$t"
        chmod +x "$BATS_TEST_TMPDIR/unit/$t"
    done
    printf '#!/bin/sh\nexit 3\n' >"$BATS_TEST_TMPDIR/bin/mgpu-worker"
    chmod +x "$BATS_TEST_TMPDIR/bin/mgpu-worker"
    run timeout 280 env DEVICE=host MGPU_TESTS="$BATS_TEST_TMPDIR" \
        MGPU_BIN="$BATS_TEST_TMPDIR/bin" MGPU_CHECK_PATIENCE=1 \
        "$MGPU_SRC/tests/gpu/check.sh"
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(grep -c '^not ok' <<<"$output")" -eq 6 ]
    grep -q 'gpu-check: 6 of 6 failed on host' <<<"$output"
}

@test "gpu-bench: a table of ours, PyTorch's and the limits, in a file" {
    printf '#!/bin/sh\necho no torch here >&2\nexit 1\n' \
        >"$BATS_TEST_TMPDIR/python"
    chmod +x "$BATS_TEST_TMPDIR/python"
    run --separate-stderr timeout 280 env DEVICE=host SIZES=28 BATCHES=4 \
        PRECISIONS=fp32 ROUNDS=1 RESULTS="$BATS_TEST_TMPDIR/results" \
        PYTHON="$BATS_TEST_TMPDIR/python" "$MGPU_SRC/tests/gpu/bench.sh"
    echo "$output" "$stderr"
    [ "$status" -eq 0 ]
    [ -s "$stderr" ] || [ -f "${stderr##*$'\n'}" ]
    cmp <(printf '%s\n' "$output") "$BATS_TEST_TMPDIR"/results/*-host-gpu-bench.md
    grep -qE '^\| 28 \| 4 \| fp32 \| excluded \| [0-9.]+ \| - \| - \|$' <<<"$output"
    grep -qE '^\| 28 \| 4 \| fp32 \| included \| [0-9.]+ \| - \| - \|$' <<<"$output"
    grep -q 'PyTorch, where it is missing: no torch here' <<<"$output"
    grep -qE '^\| dw_bwd \|.* % \|$' <<<"$output"
}

@test "gpu-bench: the faster of PyTorch's two is compared" {
    cat >"$BATS_TEST_TMPDIR/python" <<'END'
#!/bin/sh
case $* in
*compile) echo 2.0 ;;
*) echo 1.0 ;;
esac
END
    chmod +x "$BATS_TEST_TMPDIR/python"
    mkdir "$BATS_TEST_TMPDIR/bench"
    for f in gpu_step kernels; do
        printf '#!/bin/sh\necho 5.0\n' >"$BATS_TEST_TMPDIR/bench/$f"
        chmod +x "$BATS_TEST_TMPDIR/bench/$f"
    done
    run timeout 60 env DEVICE=host SIZES=28 BATCHES='4 8' PRECISIONS=bf16 ROUNDS=2 \
        RESULTS="$BATS_TEST_TMPDIR/results" MGPU_BENCH="$BATS_TEST_TMPDIR/bench" \
        PYTHON="$BATS_TEST_TMPDIR/python" "$MGPU_SRC/tests/gpu/bench.sh"
    [ "$status" -eq 0 ]
    grep -qxF '| 28 | 8 | bf16 | included | 5.0 | 2.0 | 2.50 |' <<<"$output"
}
