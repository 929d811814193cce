#!/bin/bash
# cv.sh - a training step of MobileNetV2, ours and PyTorch's, side by side.
#
#   cv.sh [THREADS [ROUNDS]]                        all cores, 3
#
# CV_SIZES (28 100 224), CV_BATCHES (32 64) and CV_TYPES (fp32 bf16) say what,
# PYTHON whose PyTorch (/usr/bin/python3); Debian's 1.13 lacks ReLU6's gradient
# in bf16, which is then left out, and said so: a virtual environment with 2.x
# has it. On the host. The two take turns, so that what else this machine does
# meets both; the medians over the rounds and their ratio are printed. Ours
# includes loading, PyTorch's does not. Needs torch and torchvision. Not a
# test: figures are printed, none is expected.
set -eu

bench=${MGPU_BENCH:?set MGPU_BENCH to the folder of cv_step}
python=${PYTHON:-/usr/bin/python3}
here=$(cd "$(dirname "$0")" && pwd)
threads=${1:-$(nproc)} rounds=${2:-3}
export OMP_NUM_THREADS=$threads GOMP_SPINCOUNT=2000 CUDA_VISIBLE_DEVICES=
unset OPENBLAS_CORETYPE

version=$("$python" -c 'import torch, torchvision
print(torch.__version__)' 2>/dev/null) || {
    echo "cv.sh: $python has no torchvision; apt-get install" \
        "python3-torchvision, or name another one: make bench-cv" \
        "PYTHON=VENV/bin/python" >&2
    exit 69
}
median() { tr ' ' '\n' | sed '/^$/d' | sort -n | awk '{ v[NR] = $1 }
    END { print v[int((NR + 1) / 2)] }'; }
torch_step() { "$python" "$here/torch_step.py" "$threads" "$@"; }

printf '%s threads, PyTorch %s, medians of %s rounds, images/s\n' \
    "$threads" "$version" "$rounds"
printf '%6s %6s %5s %9s %9s %7s\n' size batch type mgpu PyTorch ratio
one() { # TYPE SIZE BATCH
    local ours='' theirs='' a b
    for _ in $(seq "$rounds"); do
        ours+=" $("$bench/cv_step" "$threads" "$2" "$3" "$1" |
            awk '/images\/s/ { print $1 }')"
        theirs+=" $(torch_step "$2" "$3" "$1")"
    done
    a=$(median <<<"$ours") b=$(median <<<"$theirs")
    awk -v t="$1" -v s="$2" -v n="$3" -v a="$a" -v b="$b" 'BEGIN {
        printf "%6d %6d %5s %9.1f %9.1f %7.2f\n", s, n, t, a, b, a / b }'
}
for type in ${CV_TYPES:-fp32 bf16}; do
    if ! torch_step 28 2 "$type" >/dev/null 2>&1; then
        echo "$type: this PyTorch cannot (make bench-cv PYTHON=...)"
        continue
    fi
    for size in ${CV_SIZES:-28 100 224}; do
        for batch in ${CV_BATCHES:-32 64}; do one "$type" "$size" "$batch"; done
    done
done
