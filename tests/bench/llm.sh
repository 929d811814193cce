#!/bin/bash
# llm.sh - steps of a Llama on the host, ours and PyTorch's, side by side.
#
#   llm.sh [THREADS [ROUNDS]]                       1, 5
#
# LLM_CASES says which of the cases below, as d512 or d512-bf16 (all), PYTHON
# whose PyTorch (python3), PARTS=0 leaves out where the time of our steps goes.
# The two take turns, so that what else this machine does meets both; medians
# over the rounds are printed, of tokens per second and per second of CPU time
# (getrusage), and the ratio of the latter, which a busy machine distorts least.
# First come the libraries whose code each takes. OPENBLAS_CORETYPE,
# MGPU_HOST_SIMD, DNNL_MAX_CPU_ISA and ATEN_CPU_CAPABILITY are as the caller set
# them. Without torch, transformers and peft ours is printed alone. Not a test:
# figures are printed, none is expected.
set -eu

# name type shape rows tokens full
cases='
stories     fp32 64,172,5,8,4,512      8 256
stories     bf16 64,172,5,8,4,512      8 256
d512        fp32 512,1376,8,8,4,32000  4 256
d512        bf16 512,1376,8,8,4,32000  4 256
d512-full   fp32 512,1376,8,8,4,32000  4 256 full
'
bench=${MGPU_BENCH:?set MGPU_BENCH to the folder of llm_step}
python=${PYTHON:-python3}
torch=$(cd "$(dirname "$0")/../gpu" && pwd)/torch_llm.py
threads=${1:-1} rounds=${2:-5}
export OMP_NUM_THREADS=$threads GOMP_SPINCOUNT=2000 CUDA_VISIBLE_DEVICES=

dir=$(mktemp -d)
pids=()
# They end by themselves when nobody can write to them any more.
trap 'exec 4>&- 6>&-; wait "${pids[@]}" 2>/dev/null || :; rm -r "$dir"' EXIT

# Starts a side: it reads from descriptor TO, which is written to, and is read
# from FROM.
begin() { # TO FROM COMMAND...
    local to=$1 from=$2
    shift 2
    mkfifo "$dir/in" "$dir/out"
    "$@" <"$dir/in" >"$dir/out" 2>"$dir/said" 4>&- 5<&- 6>&- 7<&- &
    pids+=($!)
    eval "exec $to>'$dir/in' $from<'$dir/out'"
    rm "$dir/in" "$dir/out"
}
# The middle one of the words in column N of the lines.
median() { # N
    awk -v n="$1" 'NF { print $n }' | sort -n |
        awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'
}

has_torch=1
"$python" -c 'import peft, torch, transformers' 2>/dev/null || {
    has_torch=
    echo "llm.sh: $python lacks torch, transformers or peft; name another one:" \
        "make bench-llm PYTHON=VENV/bin/python" >&2
}

print() { # NAME TYPE ROWS TOKENS OURS THEIRS
    awk -v name="$1" -v type="$2" -v batch="$3x$4" \
        -v a="$(median 1 <<<"$5")" -v b="$(median 1 <<<"$6")" \
        -v c="$(median 4 <<<"$5")" -v d="$(median 2 <<<"$6")" \
        -v e="$(median 5 <<<"$5")" -v f="$(median 3 <<<"$6")" '
        function of(x) { return x == "" ? "-" : x }
        BEGIN { printf "%-9s %4s %6s %9s %9s %9s %9s %6s %6s %6s\n", name,
            type, batch, a, of(b), c, of(d),
            d == "" ? "-" : sprintf("%.2f", c / d), e, of(f) }'
}
one() { # NAME TYPE SHAPE ROWS TOKENS [full]
    local ours='' theirs='' line name=$1 type=$2 goes=$has_torch
    shift 2
    local -a job=("$1" "$2" "$3" "$type" keep ${4:+"$4"})
    begin 4 5 "$bench/llm_step" host "${job[@]}"
    [ -z "$goes" ] || begin 6 7 "$python" "$torch" cpu "${job[@]}"
    for _ in $(seq "$rounds"); do
        echo go >&4
        read -r line <&5 || { cat "$dir/said" >&2 && exit 1; }
        ours+="$line"$'\n'
        [ "$goes" ] || continue
        echo go >&6
        read -r line <&7 || line='- it ended'
        case $line in
            -*)
                echo "llm.sh: PyTorch: $name $type: ${line#- }" >&2
                goes=
                ;;
            *) theirs+="$line"$'\n' ;;
        esac
    done
    print "$name" "$type" "$2" "$3" "$ours" "$theirs"
    if [ "${PARTS:-1}" != 0 ]; then
        echo parts >&4
        while IFS= read -r line <&5 && [ "$line" ]; do echo "    $line"; done
    fi
    exec 4>&- 5<&- 6>&- 7<&-
}

begin 4 5 "$bench/llm_step" host 64,172,1,8,4,512 1 32
echo code >&4
read -r code <&5
exec 4>&- 5<&-
echo "$threads threads, medians of $rounds rounds; per CPU second but where it says wall"
echo "mgpu: $code"
[ -z "$has_torch" ] || "$python" "$torch" code
printf '%-9s %4s %6s %9s %9s %9s %9s %6s %6s %6s\n' tokens/s '' batch 'mgpu wall' \
    'PyT. wall' mgpu PyTorch ratio 'MiB' 'MiB'
while read -r name type rest; do
    [ "$name" ] || continue
    case " ${LLM_CASES:-$name} " in
        *" $name "* | *" $name-$type "*) ;;
        *) continue ;;
    esac
    # shellcheck disable=SC2086 # words
    one "$name" "$type" $rest
done <<<"$cases"
