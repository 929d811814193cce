#!/bin/sh
# processors.sh - the same promises on other processors: the instructions that
# our kernels, OpenBLAS and oneDNN may use, the number of threads, and oneDNN.
#
# usage: [PARTS="units demos"] [CORES=] [SIMDS=] [THREADS="1 2 4"] [DNNLS="1"]
#        processors.sh TEST...
#
# The bits of a result depend on three things: MGPU_HOST_SIMD (256, or all that
# the processor has), which oneDNN follows here, OPENBLAS_CORETYPE, and
# MGPU_DNNL: 0 leaves oneDNN out; OMP_NUM_THREADS must not change them. Each
# combination of the four runs the tests that are named, and the demos. A core type of OpenBLAS
# is another set of kernels, whose sums are in another order:
#
#   Prescott  SSE3, what OpenBLAS takes for a processor that it does not know
#   Haswell, Zen  AVX2, with other blocks
#   SkylakeX  AVX-512, where the processor has that
#
# Without AVX-512 MGPU_HOST_SIMD changes nothing, and one value of it is tried.
# Goes on after a failure, and names all of them at the end. MGPU_BIN,
# MGPU_SRC as for any test. JOBS= tests at a time.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
src=${MGPU_SRC:-$here/../..}
if grep -qw avx512vl /proc/cpuinfo; then
    cores=${CORES:-Prescott Haswell Zen SkylakeX} simds=${SIMDS:-all 256}
else
    cores=${CORES:-Prescott Haswell Zen} simds=${SIMDS:-256}
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
unset DNNL_MAX_CPU_ISA ONEDNN_MAX_CPU_ISA
failed=
n=0

# Shows what it wrote if it fails. 77: a machine that is too busy for the demo.
try() { # NAME COMMAND...
    name=$1
    shift
    status=0
    start=$(date +%s)
    "$@" >"$log" 2>&1 </dev/null || status=$?
    took="$(($(date +%s) - start)) s"
    n=$((n + 1))
    case $status in
    0) printf 'passed   %s, %s\n' "$name" "$took" ;;
    77) printf 'left out %s: %s\n' "$name" "$(tail -n 1 "$log")" ;;
    *)
        printf 'FAILED   %s, %s\n' "$name" "$took"
        cat "$log"
        failed="$failed
  $name"
        ;;
    esac
}

units() { # NAME
    name=$1
    shift
    try "$name units" prove -j"${JOBS:-2}" --failures \
        --exec "$src/tests/run" "$@"
}

# With one combination, which the environment has.
parts() { # NAME TEST...
    at=$1
    shift
    for part in ${PARTS:-units demos}; do
        case $part in
        units) units "$at" "$@" ;;
        demos)
            for demo in demo demo-elastic demo-llm; do
                try "$at $demo" sh "$src/jobs/examples/$demo.sh"
            done
            ;;
        *)
            echo "processors.sh: PARTS= has '$part', not units or demos" >&2
            exit 64
            ;;
        esac
    done
}

for threads in ${THREADS:-1 2 4}; do
    for core in $cores; do
        for simd in $simds; do
            for dnnl in ${DNNLS:-1}; do
                export OMP_NUM_THREADS="$threads" OPENBLAS_CORETYPE="$core"
                export MGPU_HOST_SIMD="$simd" MGPU_DNNL="$dnnl"
                [ "$simd" != all ] || unset MGPU_HOST_SIMD
                without=
                [ "$dnnl" != 0 ] || without=', without oneDNN'
                parts "$core, $simd bits, $threads threads$without:" "$@"
            done
        done
    done
done
if [ -n "$failed" ]; then
    printf 'Of %s failed:%s\n' "$n" "$failed" >&2
    exit 1
fi
printf 'All %s passed, or are left out above.\n' "$n"
