#!/bin/bash
# cv.sh - a training step of MobileNetV2, ours and PyTorch's, side by side.
#
#   cv.sh [THREADS [ROUNDS]]                        all cores, 3
#
# fp32 on the host. The two take turns, so that what else this machine does
# meets both; the medians over the rounds and their ratio are printed. Ours
# includes loading, PyTorch's does not. Needs python3-torch and
# python3-torchvision. Not a test: figures are printed, none is expected.
set -eu

bench=${MGPU_BENCH:?set MGPU_BENCH to the folder of cv_step}
python=${PYTHON:-/usr/bin/python3}
here=$(cd "$(dirname "$0")" && pwd)
threads=${1:-$(nproc)} rounds=${2:-3}
export OMP_NUM_THREADS=$threads GOMP_SPINCOUNT=2000
unset OPENBLAS_CORETYPE

"$python" -c 'import torchvision' 2>/dev/null || {
    echo "cv.sh: $python has no torchvision (apt-get install python3-torchvision)" >&2
    exit 69
}
median() { tr ' ' '\n' | sed '/^$/d' | sort -n | awk '{ v[NR] = $1 }
    END { print v[int((NR + 1) / 2)] }'; }

printf '%s threads, medians of %s rounds, images/s\n' "$threads" "$rounds"
printf '%6s %6s %9s %9s %7s\n' size batch mgpu PyTorch ratio
for size in 28 100 224; do
    for batch in 32 64; do
        ours='' theirs=''
        for _ in $(seq "$rounds"); do
            ours+=" $("$bench/cv_step" "$threads" "$size" "$batch" fp32 |
                awk '/images\/s/ { print $1 }')"
            theirs+=" $("$python" "$here/torch_step.py" "$threads" "$size" \
                "$batch")"
        done
        a=$(median <<<"$ours") b=$(median <<<"$theirs")
        awk -v s="$size" -v n="$batch" -v a="$a" -v b="$b" 'BEGIN {
            printf "%6d %6d %9.1f %9.1f %7.2f\n", s, n, a, b, a / b }'
    done
done
