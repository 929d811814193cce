#!/bin/bash
# bench.sh - how fast a training step is: ours, PyTorch's, and the device's
# limits; written to docs/results/DATE-DEVICE.md.
#
#   DEVICE=cuda|host SIZES= BATCHES= PRECISIONS= ROUNDS= RESULTS= bench.sh
#                    "100 224 300 500" "64 256" "fp32 fp16 bf16" 3 docs/results
#
# The two take turns on the same device, in one run, so that a clock or a
# neighbour that changes meets both; medians over the rounds are compared.
# PyTorch is the better of eager and torch.compile, channels last, with AMP in
# 16 bits. Where it cannot run its columns are empty and the file says why.
# What each is given is said in gpu_step.c and torch_step.py. Not a test:
# figures are printed, none is expected.
set -eu

bench=${MGPU_BENCH:?set MGPU_BENCH to the folder of gpu_step and kernels}
here=$(cd "$(dirname "$0")" && pwd)
device=${DEVICE:-cuda} sizes=${SIZES:-100 224 300 500} batches=${BATCHES:-64 256}
precisions=${PRECISIONS:-fp32 fp16 bf16} rounds=${ROUNDS:-3}
results=${RESULTS:-$here/../../docs/results}
python=${PYTHON:-python3}
export GOMP_SPINCOUNT=2000
unset OPENBLAS_CORETYPE

case $device in
cuda)
    torch=cuda
    name=$(nvidia-smi --query-gpu=name --format=csv,noheader -i 0 2>/dev/null |
        head -n 1) || true
    ;;
host)
    torch=cpu
    name=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
    ;;
*)
    echo "bench.sh: DEVICE is cuda or host, not '$device'" >&2
    exit 64
    ;;
esac
name=${name:-unknown}
slug=$(printf '%s' "$name" | tr '[:upper:]' '[:lower:]' | tr -cs '[:alnum:]' '-' | sed 's/^-//; s/-$//')
[ "$device" = cuda ] || slug=host
out=$results/$(date -u +%Y-%m-%d)-$slug-gpu-bench.md
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

median() { # of the numbers in a file; nothing for none
    sort -n "$1" | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'
}
ours() { # size batch precision data
    "$bench/gpu_step" "$device" "$1" "$2" "$3" "$4"
}
theirs() { # size batch precision data how
    "$python" "$here/torch_step.py" "$torch" "$@" 2>"$dir/why" && return
    # One reason is enough: the last line of the first failure.
    [ -s "$dir/reason" ] || tail -n 1 "$dir/why" >"$dir/reason"
}

compare() { # size batch precision data
    local f=$dir/$1-$2-$3-$4 a b how
    for _ in $(seq "$rounds"); do
        ours "$1" "$2" "$3" "$4" >>"$f.ours" 2>"$dir/why" || {
            tail -n 1 "$dir/why" >&2
            echo "$1 $2 $3 $4: $(tail -n 1 "$dir/why")" >>"$dir/failed"
        }
        for how in eager compile; do
            theirs "$1" "$2" "$3" "$4" "$how" >>"$f.$how" || true
        done
    done
    touch "$f.ours" "$f.eager" "$f.compile"
    a=$(median "$f.ours")
    b=$(printf '%s\n' "$(median "$f.eager")" "$(median "$f.compile")" |
        sed '/^$/d' | sort -n | tail -n 1)
    awk -v s="$1" -v n="$2" -v p="$3" -v d="$4" -v a="$a" -v b="$b" 'BEGIN {
        printf "| %s | %s | %s | %s | %s | %s | %s |\n", s, n, p,
            d == "data" ? "included" : "excluded", a == "" ? "-" : a,
            b == "" ? "-" : b, a == "" || b == "" ? "-" : sprintf("%.2f", a / b)
    }'
}

mkdir -p "$results"
{
    echo "# A training step on $name, $(date -u +%Y-%m-%d)"
    echo
    echo "MobileNetV2, 10 classes, SGD; images per second, medians of $rounds"
    echo "rounds in turns. PyTorch: the better of eager and torch.compile,"
    echo "channels last, AMP in 16 bits. Written by \`make gpu-bench\`; commit"
    echo "$(git -C "$here" describe --always --dirty 2>/dev/null || echo unknown)."
    echo
    echo "| size | batch | precision | loader | mgpu | PyTorch | ratio |"
    echo "|---|---|---|---|---|---|---|"
    for size in $sizes; do
        for batch in $batches; do
            for precision in $precisions; do
                compare "$size" "$batch" "$precision" nodata
                compare "$size" "$batch" "$precision" data
            done
        done
    done
    if [ -s "$dir/reason" ]; then
        echo
        echo "PyTorch, where it is missing: $(cat "$dir/reason")"
    fi
    if [ -s "$dir/failed" ]; then
        echo
        echo "mgpu, where it is missing:"
        sed 's/^/- /' "$dir/failed"
    fi
    echo
    echo "## Each kernel and its limit"
    echo
    echo "The limit is the longer of bytes / bandwidth and flops / rate, both"
    echo "measured on this device; share is limit / time. Bytes are what an"
    echo "operation has to read and write at least, flops its multiplications"
    echo "and additions, summed over the network."
    for precision in $precisions; do
        for size in $sizes; do
            batch=${batches%% *}
            echo
            echo "### $size x $size, batch $batch, $precision"
            echo
            "$bench/kernels" "$([ "$device" = cuda ] && echo cuda || nproc)" \
                "$size" "$batch" "$precision" table ||
                echo "(it does not run)"
        done
    done
} | tee "$dir/out.md"
mv "$dir/out.md" "$out"
echo "$out" >&2
