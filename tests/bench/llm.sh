#!/bin/bash
# llm.sh - a step of LoRA of a Llama, ours and PyTorch's, side by side.
#
#   llm.sh [THREADS [ROUNDS]]                       all cores, 3
#
# LLM_SHAPES (512,1376,4,8,4,4096), LLM_TOKENS (128 512; of a row, of which
# there are two) and LLM_TYPES (fp32 bf16) say what, PYTHON whose PyTorch
# (python3). On the host. The two take turns, so that what else this machine
# does meets both; the medians over the rounds and their ratio are printed.
# Without torch, transformers and peft ours is printed alone. Not a test:
# figures are printed, none is expected.
set -eu

bench=${MGPU_BENCH:?set MGPU_BENCH to the folder of llm_step}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
threads=${1:-$(nproc)} rounds=${2:-3}
export OMP_NUM_THREADS=$threads GOMP_SPINCOUNT=2000 CUDA_VISIBLE_DEVICES=
unset OPENBLAS_CORETYPE

version=$("$python" -c 'import peft, torch, transformers
print(torch.__version__)' 2>/dev/null) || {
    version='-'
    echo "llm.sh: $python lacks torch, transformers or peft; name another one:" \
        "make bench-llm PYTHON=VENV/bin/python" >&2
}
median() { tr ' ' '\n' | sed '/^$/d' | sort -n | awk '{ v[NR] = $1 }
    END { print v[int((NR + 1) / 2)] }'; }
torch_step() { # SHAPE TOKENS TYPE
    [ "$version" != - ] || return 0
    echo go | "$python" "$here/../gpu/torch_llm.py" cpu "$1" 2 "$2" "$3" keep 2>/dev/null |
        sed '/^-/d'
}

printf '%s threads, PyTorch %s, medians of %s rounds, tokens/s\n' \
    "$threads" "$version" "$rounds"
printf '%22s %7s %5s %9s %9s %7s\n' shape tokens type mgpu PyTorch ratio
one() { # SHAPE TOKENS TYPE
    local ours='' theirs='' a b
    for _ in $(seq "$rounds"); do
        ours+=" $(echo go | "$bench/llm_step" host "$1" 2 "$2" "$3" keep | cut -d' ' -f1)"
        theirs+=" $(torch_step "$@")"
    done
    a=$(median <<<"$ours") b=$(median <<<"$theirs")
    awk -v s="$1" -v n="$2" -v t="$3" -v a="$a" -v b="$b" 'BEGIN {
        printf "%22s %7s %5s %9.1f %9s %7s\n", s, "2x" n, t, a,
            b == "" ? "-" : b, b == "" ? "-" : sprintf("%.2f", a / b) }'
}
for shape in ${LLM_SHAPES:-512,1376,4,8,4,4096}; do
    for type in ${LLM_TYPES:-fp32 bf16}; do
        for tokens in ${LLM_TOKENS:-128 512}; do one "$shape" "$tokens" "$type"; done
    done
done
