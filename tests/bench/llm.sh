#!/bin/bash
# llm.sh - steps of a Llama on the host, ours and PyTorch's, side by side.
#
#   llm.sh [THREADS [ROUNDS]]                       1, 5
#
# LLM_CASES says which of the cases below, as d512 or d512-bf16 (all), PYTHON
# whose PyTorch (python3), PARTS=0 leaves out where the time of our steps goes.
# d512-qlora is beside our own LoRA in place of PyTorch, answers are tokens that
# a model says in place of a step; d512-memory is below the table.
# The two take turns, so that what else this machine does meets both; medians
# over the rounds are printed, of tokens per second and per second of CPU time
# (getrusage), and the ratio of the latter, which a busy machine distorts least.
# First come the libraries whose code each takes. OPENBLAS_CORETYPE,
# MGPU_HOST_SIMD, DNNL_MAX_CPU_ISA and ATEN_CPU_CAPABILITY are as the caller set
# them. Without torch, transformers and peft ours is printed alone. Not a test:
# figures are printed, none is expected.
set -eu

# name type shape rows tokens method; answers: a model, prompt and new tokens
cases='
stories     fp32 64,172,5,8,4,512      8 256
stories     bf16 64,172,5,8,4,512      8 256
d512        fp32 512,1376,8,8,4,32000  4 256
d512        bf16 512,1376,8,8,4,32000  4 256
d512-full   fp32 512,1376,8,8,4,32000  4 256 full
d512-qlora  fp32 512,1376,8,8,4,32000  4 256 qlora
answers     fp32 stories260K           16 256 answers
'
job_shape=512,1376,8,8,4,32000
bench=${MGPU_BENCH:?set MGPU_BENCH to the folder of llm_step}
python=${PYTHON:-python3}
src=$(cd "$(dirname "$0")/../.." && pwd)
torch=$src/tests/gpu/torch_llm.py
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
        BEGIN { printf "%-11s %4s %6s %9s %9s %9s %9s %6s %6s %6s\n", name,
            type, batch, a, of(b), c, of(d),
            d == "" ? "-" : sprintf("%.2f", c / d), e, of(f) }'
}
one() { # NAME TYPE SHAPE ROWS TOKENS [METHOD]
    local ours='' theirs='' line name=$1 type=$2 goes=$has_torch own=''
    shift 2
    local -a job=("$1" "$2" "$3" "$type" keep ${4:+"$4"})
    local -a left=("$bench/llm_step" host "${job[@]}")
    local -a right=("$python" "$torch" cpu "${job[@]}")
    case ${4:-} in
        qlora) goes=1 own=1 right=("${left[@]/%qlora/lora}") ;;
        answers)
            left=("$bench/llm_generate" "$src/jobs/examples/$1" "$2" "$3" "$type")
            right=("$python" "$src/tests/bench/torch_generate.py" "${left[@]:1}")
            ;;
    esac
    begin 4 5 "${left[@]}"
    [ -z "$goes" ] || begin 6 7 "${right[@]}"
    for _ in $(seq "$rounds"); do
        echo go >&4
        read -r line <&5 || { cat "$dir/said" >&2 && exit 1; }
        ours+="$line"$'\n'
        [ "$goes" ] || continue
        echo go >&6
        read -r line <&7 || line='- it ended'
        [ -z "$own" ] || line=$(cut -d' ' -f1,4,5 <<<"$line")
        case $line in
            -*)
                echo "llm.sh: PyTorch: $name $type: ${line#- }" >&2
                goes=
                ;;
            *) theirs+="$line"$'\n' ;;
        esac
    done
    print "$name" "$type" "$2" "$3" "$ours" "$theirs"
    [ "$name" != d512 ] || [ "$type" != fp32 ] || lora_mib=$(median 3 <<<"$theirs")
    if [ "${4:-}" = answers ]; then
        [ -z "$theirs" ] || [ "$(cut -d' ' -f6 <<<"${ours%%$'\n'*}")" = \
            "$(cut -d' ' -f4 <<<"${theirs%%$'\n'*}")" ] || echo '    not the same tokens'
    elif [ "${PARTS:-1}" != 0 ]; then
        echo parts >&4
        while IFS= read -r line <&5 && [ "$line" ]; do echo "    $line"; done
    fi
    exec 4>&- 5<&- 6>&- 7<&-
}

# A job of the worker with the shape of d512: the most that it had in memory
# beside what its plan says, and beside PyTorch's step.
memory() {
    local worker=${MGPU_BIN:-$bench/../../bin}/mgpu-worker
    "$python" "$src/tests/bench/llm_dir.py" "$dir/model" "$job_shape" || return
    cp "$src/jobs/examples/stories260K/tokenizer.model" "$dir/model"
    cat >"$dir/job.yaml" <<END
version: 1
name: memory
kind: llm
method: lora
train:
  checkpointer: {checkpoint_dir: model}
  model: {lora_rank: 8, lora_alpha: 16, lora_attn_modules: [q_proj, v_proj, output_proj], apply_lora_to_mlp: true}
  tokenizer: {max_seq_len: 256}
  dataset: {template: tokens, path: $src/jobs/examples/story-names/val.jsonl, packed: true}
  epochs: 1
  batch_size: 4
  precision: fp32
  seed: 1
  optimizer: {name: adamw, lr: 1e-4}
resources: {gpus: 0, time_limit: 1h}
END
    "$worker" --standalone "$dir/job.yaml" --dir "$dir/job" --device host >"$dir/log" 2>&1 || {
        tail -n 5 "$dir/log" >&2
        return 1
    }
    awk -v torch="${lora_mib:-}" '
        /^memory per rank/ { lines = $0 }
        /^host memory per rank/ { lines = lines "\n    " $0; planned = $5 }
        /^highest host memory/ { for (i = 1; i < NF; i++) if ($(i + 1) ~ /^MiB/) most = $i }
        END {
            printf "d512-memory: %s MiB at most, %.2f of the plan", most, most / planned
            printf torch == "" ? "\n" : ", %.2f of the %s MiB of PyTorch\n", most / torch, torch
            print "    " lines
        }' "$dir/log"
}

begin 4 5 "$bench/llm_step" host 64,172,1,8,4,512 1 32
echo code >&4
read -r code <&5
exec 4>&- 5<&-
echo "$threads threads, medians of $rounds rounds; per CPU second but where it says wall"
echo "mgpu: $code"
[ -z "$has_torch" ] || "$python" "$torch" code
printf '%-11s %4s %6s %9s %9s %9s %9s %6s %6s %6s\n' tokens/s '' batch 'mgpu wall' \
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
case " ${LLM_CASES:-d512-memory} " in *" d512-memory "*) memory || exit ;; esac
