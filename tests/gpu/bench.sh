#!/bin/bash
# bench.sh - how fast a training step is: ours, PyTorch's, and the device's
# limits; written to RESULTS/DATE-CARD-gpu-bench.md.
#
#   DEVICE=cuda|host SIZES= PRECISIONS= BATCHES= ROUNDS= RESULTS= bench.sh
#                    "224 100 300 500" "bf16 fp16 fp32" "256 64" 3
#                    docs/gpu/DATE-CARD; that folder is made
#   LLM="SHAPE ROWS TOKENS TYPE"   of the step of LoRA, see llm_step.c; an 8B
#                    Llama, 2 x 2048, bf16; on the host a small one; LLM=: none
#   BUDGET=SECONDS   begin nothing that may not be over by then
#   RESUME=FILE      take what FILE, the .tsv of an earlier run, has already
#
# The two take turns on the same device, in one run, so that a clock or a
# neighbour that changes meets both; medians over the rounds are compared.
# Ours is the job that says nothing of it (`mgpu`), and one with
# train.deterministic: false (`tuned`). PyTorch is the best of eager and
# torch.compile, channels last and contiguous, with AMP in 16 bits and fused
# SGD. Where it cannot run its columns are empty and the file says why.
# What each is given is said in gpu_step.c and torch_step.py, and for LoRA in
# llm_step.c and torch_llm.py. Not a test: figures are printed, none is
# expected.
#
# A machine that is lent for half an hour in calls of ten minutes gets the
# whole of it with BUDGET and RESUME: what matters most comes first, and each
# figure is in the .tsv as soon as it is known.
set -eu
trap '' PIPE # a process that has ended is noticed by what it does not say

bench=${MGPU_BENCH:?set MGPU_BENCH to the folder of gpu_step, llm_step and kernels}
here=$(cd "$(dirname "$0")" && pwd)
device=${DEVICE:-cuda} sizes=${SIZES:-224 100 300 500} batches=${BATCHES:-256 64}
precisions=${PRECISIONS:-bf16 fp16 fp32} rounds=${ROUNDS:-3}
budget=${BUDGET:-1000000}
python=${PYTHON:-python3} patience=${PATIENCE:-240}
export GOMP_SPINCOUNT=2000
unset OPENBLAS_CORETYPE

case $device in
cuda)
    torch=cuda llm='4096,14336,32,32,8,128256 2 2048 bf16'
    name=$(nvidia-smi --query-gpu=name --format=csv,noheader -i 0 2>/dev/null |
        head -n 1) || true
    ;;
host)
    torch=cpu llm='512,1376,4,8,4,4096 2 128 fp32'
    name=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
    ;;
*)
    echo "bench.sh: DEVICE is cuda or host, not '$device'" >&2
    exit 64
    ;;
esac
llm=${LLM-$llm} name=${name:-unknown}
slug=$(printf '%s' "$name" | tr '[:upper:]' '[:lower:]' | tr -cs '[:alnum:]' '-' | sed 's/^-//; s/-$//')
[ "$device" = cuda ] || slug=host
commit=${MGPU_COMMIT:-$(git -C "$here" describe --always --dirty 2>/dev/null || echo unknown)}
date=$(date -u +%Y-%m-%d)
results=${RESULTS:-$here/../../docs/gpu/$date-$slug}
mkdir -p "$results"
out=$results/$date-$slug-gpu-bench.md
raw=$results/$slug-gpu-bench.tsv

# ---- two programs that wait for their turn ----------------------------------------
dir=$(mktemp -d)
trap 'end ours; end theirs; rm -rf "$dir"' EXIT
declare -A in=() out_of=() pid=()
begin() { # who program...
    local who=$1 w r
    shift
    rm -f "$dir/$who.in" "$dir/$who.out"
    mkfifo "$dir/$who.in" "$dir/$who.out"
    ( # without the other's pipes, which would never end
        for w in "${in[@]}" "${out_of[@]}"; do
            [ -z "$w" ] || exec {w}>&-
        done
        exec "$@" <"$dir/$who.in" >"$dir/$who.out" 2>"$dir/$who.why"
    ) &
    pid[$who]=$!
    exec {w}>"$dir/$who.in" {r}<"$dir/$who.out"
    in[$who]=$w out_of[$who]=$r
}
end() { # who
    local w=${in[$1]:-} r=${out_of[$1]:-}
    [ -n "$w" ] || return 0
    exec {w}>&- {r}<&-
    in[$1]='' out_of[$1]=''
    # It ends when there is no more to read, unless it hangs.
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        kill -0 "${pid[$1]}" 2>/dev/null || break
        sleep 0.2
    done
    kill -KILL "${pid[$1]}" 2>/dev/null || true
    wait "${pid[$1]}" 2>/dev/null || true
}
# A figure in `answer`, or nothing and `why`.
turn() { # who line
    answer='' why=''
    { printf '%s\n' "$2" >&"${in[$1]}"; } 2>/dev/null || true
    if ! read -r -t "$patience" answer <&"${out_of[$1]}"; then
        why=$(tail -n 1 "$dir/$1.why")
        why=${why:-no answer within $patience s}
        end "$1"
        answer=''
        return 1
    fi
    case $answer in
    -*) why=${answer#- } answer='' ;;
    esac
    [ -n "$answer" ]
}

# ---- what is known already -----------------------------------------------------
of="# $commit on $name"
if [ -n "${RESUME:-}" ]; then
    [ "$(head -n 1 "$RESUME")" = "$of" ] || {
        echo "bench.sh: '$RESUME' is of '$(head -n 1 "$RESUME")', this is '$of'" >&2
        exit 65
    }
    cp "$RESUME" "$dir/raw" && cp "$dir/raw" "$raw" # they may be one file
else
    printf '%s\n' "$of" >"$raw"
fi
keep() { (IFS=$'\t'; printf '%s\n' "$*") >>"$raw"; }
known() { grep -q "^$(IFS=$'\t'; printf '%s' "$*")"$'\t' "$raw"; }

longest=0 left=0
# Whether there is time for one more; what there was none for is counted.
may_begin() {
    [ $((SECONDS + longest)) -lt "$budget" ] && return
    left=$((left + 1))
    return 1
}
took() { [ $((SECONDS - $1)) -le "$longest" ] || longest=$((SECONDS - $1)); }

median() { # of numbers; nothing for none
    printf '%s\n' "$@" | sed '/^$/d' | sort -n |
        awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'
}

compare() { # size batch precision data
    local -A got=()
    local bad='' no='' start=$SECONDS ours='default tuned' how
    local theirs='eager-nhwc eager-nchw compile-nhwc compile-nchw'
    begin ours "$bench/gpu_step" "$device" "$@"
    for _ in $(seq "$rounds"); do
        for how in $ours; do
            [ -n "${in[ours]:-}" ] || break
            if turn ours "$how"; then
                got[$how]+=" $answer"
                continue
            fi
            ours=${ours/$how/}
            # What a device has not is no fault of a job.
            [ "$how" = tuned ] && [ -n "${in[ours]:-}" ] || bad=${bad:-$why}
        done
        for how in $theirs; do
            [ -n "${in[theirs]:-}" ] ||
                begin theirs "$python" "$here/torch_step.py" "$torch"
            if turn theirs "$* ${how/-/ }"; then
                got[$how]+=" $answer"
            else
                no=${no:-${how/-/ }: $why}
                theirs=${theirs/$how/} # once is enough
            fi
        done
    done
    end ours
    [ -z "$bad" ] || keep bad "$@" "$bad"
    [ -z "$no" ] || keep no "$@" "$no"
    local -a medians=()
    for how in default tuned eager-nhwc eager-nchw compile-nhwc compile-nchw; do
        # shellcheck disable=SC2086 # numbers
        medians+=("$(median ${got[$how]:-})")
    done
    keep cell "$@" "${medians[@]}"
    took "$start"
    echo "$SECONDS s: $*: default${got[default]:- -}, tuned${got[tuned]:- -}, PyTorch ${medians[*]:2}" >&2
}

roof() { # size batch precision
    local start=$SECONDS line
    end theirs # its memory, and a device to ourselves
    timeout "$patience" "$bench/kernels" \
        "$([ "$device" = cuda ] && echo cuda || nproc)" "$@" table \
        </dev/null >"$dir/roof" 2>&1 || echo '(it does not run)' >>"$dir/roof"
    while IFS= read -r line; do keep roof "$@" "$line"; done <"$dir/roof"
    took "$start"
}

# A step of LoRA. PyTorch keeps of the forward pass what ours keeps.
lora() { # shape rows tokens precision
    local -a a=() e=()
    local bad='' no='' start=$SECONDS gib='' how='' rest
    end theirs # its memory
    begin ours "$bench/llm_step" "$device" "$@" auto
    for _ in $(seq "$rounds"); do
        if [ -z "$bad" ]; then
            if turn ours go; then
                read -r answer gib how rest <<<"$answer"
                a+=("$answer")
            else
                bad=$why
            fi
        fi
        [ -z "$no" ] || continue
        [ -n "${in[theirs]:-}" ] ||
            begin theirs "$python" "$here/torch_llm.py" "$torch" "$@" "${how:-keep}"
        if turn theirs go; then e+=("${answer%% *}"); else no=$why; fi
    done
    end ours
    end theirs
    [ -z "$bad" ] || keep llm-bad "$@" "$bad"
    [ -z "$no" ] || keep llm-no "$@" "$no"
    keep llm "$@" "$(median "${a[@]}")" "$(median "${e[@]}")" "$gib" "$how"
    took "$start"
    echo "$SECONDS s: LoRA, $*: ours ${a[*]:--}, PyTorch ${e[*]:--}" >&2
}

# ---- the file ---------------------------------------------------------------------
write_lora() {
    echo
    echo "## A step of LoRA"
    echo
    echo "Rank 8 at q, v, o and the MLP, AdamW; tokens per second, and GiB that"
    echo "are planned. A shape is hidden, ffn, layers, heads, kv_heads,"
    echo "vocabulary. PyTorch: transformers and PEFT, eager, SDPA."
    echo
    echo "| shape | rows | precision | activations | GiB | mgpu | PyTorch | ratio |"
    echo "|---|---|---|---|---|---|---|---|"
    awk -F '\t' '$1 == "llm" {
        printf "| %s | %s x %s | %s | %s | %s | %s | %s | %s |\n", $2, $3, $4,
            $5, $9 == "again" ? "made again" : $9 == "" ? "-" : "kept",
            $8 == "" ? "-" : $8, $6 == "" ? "-" : $6, $7 == "" ? "-" : $7,
            $6 == "" || $7 == "" ? "-" : sprintf("%.2f", $6 / $7)
    }' "$raw"
    awk -F '\t' '$1 == "llm-no" { printf "\nPyTorch is missing: %s\n", $6 }
        $1 == "llm-bad" { printf "\nmgpu is missing: %s\n", $6 }' "$raw"
}
write() {
    echo "# A training step on $name, $(date -u +%Y-%m-%d)"
    echo
    echo "MobileNetV2, 10 classes, SGD; images per second, medians of $rounds"
    echo "rounds in turns. mgpu: a job as it is by default; tuned: one with"
    echo "train.deterministic: false. PyTorch: the best of eager and torch.compile,"
    echo "channels last (nhwc) and contiguous (nchw), AMP in 16 bits, fused SGD."
    echo "Written by \`make gpu-bench\`; commit $commit."
    echo
    echo "| size | batch | precision | loader | mgpu | tuned | PyTorch | which | ratio | tuned ratio |"
    echo "|---|---|---|---|---|---|---|---|---|---|"
    awk -F '\t' '
    function of(x) { return x == "" ? "-" : x }
    function by(x, y) { return x == "" || y == "" ? "-" : sprintf("%.2f", x / y) }
    BEGIN { split("eager nhwc,eager nchw,compile nhwc,compile nchw", names, ",") }
    $1 == "cell" {
        best = which = ""
        for (i = 8; i <= 11; i++)
            if ($i != "" && $i + 0 > best + 0) { best = $i; which = names[i - 7] }
        printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", $2, $3, $4,
            $5 == "data" ? "included" : "excluded", of($6), of($7), of(best),
            of(which), by($6, best), by($7, best)
    }' "$raw"
    for what in "no:PyTorch, where it is missing" "bad:mgpu, where it is missing"; do
        ! grep -q "^${what%%:*}"$'\t' "$raw" || printf '\n%s:\n\n' "${what#*:}"
        awk -F '\t' -v w="${what%%:*}" '$1 == w {
            printf "- %s, %s, %s, %s: %s\n", $2, $3, $4, $5, $6 }' "$raw"
    done
    ! grep -q '^llm'$'\t' "$raw" || write_lora
    [ "$left" -eq 0 ] || printf '\nNot measured, for want of time: %s.\n' "$left"
    echo
    echo "## Each kernel and its limit"
    echo
    echo "The limit is the longer of bytes / bandwidth and flops / rate, both"
    echo "measured on this device; share is limit / time. Bytes are what an"
    echo "operation has to read and write at least, flops its multiplications"
    echo "and additions, summed over the network. What its kernels move, and the"
    echo "share by that, tell slow kernels from an operation of several kernels."
    awk -F '\t' '$1 == "roof" {
        of = $2 " x " $2 ", batch " $3 ", " $4
        if (of != last)
            printf "\n### %s\n\n", of
        last = of
        print $5
    }' "$raw"
}

for size in $sizes; do
    for precision in $precisions; do
        for batch in $batches; do
            for data in nodata data; do
                known cell "$size" "$batch" "$precision" "$data" || ! may_begin ||
                    compare "$size" "$batch" "$precision" "$data"
            done
        done
        known roof "$size" "${batches%% *}" "$precision" || ! may_begin ||
            roof "$size" "${batches%% *}" "$precision"
    done
done
# shellcheck disable=SC2086 # four words
[ -z "$llm" ] || known llm $llm || ! may_begin || lora $llm
end theirs
write | tee "$out"
[ "$left" -eq 0 ] || echo "bench.sh: $left not measured; RESUME=$raw goes on" >&2
echo "$out" >&2
