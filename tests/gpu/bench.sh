#!/bin/bash
# bench.sh - how fast a training step is: ours, PyTorch's, what was predicted,
# and the device's limits; written to RESULTS/DATE-CARD-gpu-bench.md.
#
#   DEVICE=cuda|host LLM= SIZES= PRECISIONS= BATCHES= ROUNDS= RESULTS= bench.sh
#                    steps of steps.txt, all; "224 100 300 500"
#                    "bf16 fp16 fp32" "256 64" 3 docs/gpu/DATE-CARD; that folder
#                    is made
#   LLM=NAMES     of these steps of a Llama, first of all; LLM=: none
#   LLM_SHAPE="SHAPE ROWS TOKENS TYPE"  in place of their own; on the host a
#                 small one
#   SIZES=        empty: no images
#   RANKS=        of the step `fsdp`: the GPUs that there are, on the host two;
#                 it is left out with one
#   PREDICTED=    table of make gpu-model, printed beside
#   BUDGET=SECONDS  each part has an estimate; one that does not fit into what
#                 is left is left out and named, and the smaller ones behind it
#                 get their turn. None is waited for beyond the budget.
#   RESUME=FILE   take what FILE, the .tsv of an earlier run, has already
#
# Images: the two take turns on the same device, in one run, so that a clock or
# a neighbour that changes meets both; medians over the rounds are compared.
# Ours is the job that says nothing of it (`mgpu`), and one with
# train.deterministic: false (`tuned`). PyTorch is the best of eager and
# torch.compile, channels last and contiguous, with AMP in 16 bits and fused
# SGD. A Llama fills the memory: all of ours come first, then PyTorch's eager,
# then those by torch.compile, with layers made again where they do not fit
# otherwise. Where it cannot run its columns are empty and the file says why.
# What each is given is said in gpu_step.c and torch_step.py, and of a Llama in
# llm_step.c and torch_llm.py. Not a test: figures are printed, none is
# expected. Each figure is in the .tsv as soon as it is known.
set -eu
trap '' PIPE # a process that has ended is noticed by what it does not say

bench=${MGPU_BENCH:?set MGPU_BENCH to the folder of gpu_step, llm_step and kernels}
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/gpu/steps.bash
. "$here/steps.bash"
device=${DEVICE:-cuda} sizes=${SIZES-224 100 300 500} batches=${BATCHES:-256 64}
precisions=${PRECISIONS:-bf16 fp16 fp32} rounds=${ROUNDS:-3}
budget=${BUDGET:-1000000}
python=${PYTHON:-python3} patience=${PATIENCE:-240}
export GOMP_SPINCOUNT=2000
unset OPENBLAS_CORETYPE

case $device in
cuda)
    torch=cuda
    ranks=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU') || true
    name=$(nvidia-smi --query-gpu=name --format=csv,noheader -i 0 2>/dev/null |
        head -n 1) || true
    ;;
host)
    torch=cpu ranks=2
    LLM_SHAPE=${LLM_SHAPE:-512,1376,4,8,4,4096 2 128 fp32}
    name=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
    ;;
*)
    echo "bench.sh: DEVICE is cuda or host, not '$device'" >&2
    exit 64
    ;;
esac
llm=${LLM-$(step_names)} name=${name:-unknown} ranks=${RANKS:-$ranks}
for step in $llm; do
    step_named "$step" >/dev/null || {
        echo "bench.sh: there is no step '$step', but $(step_names | paste -sd ' ')" >&2
        exit 64
    }
done
column=$([ "$device" = host ] || card_column "$name")
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
    # It ends when there is no more to read, unless it hangs; mpirun takes its
    # ranks along at a SIGTERM.
    local i
    for i in {1..25}; do
        kill -0 "${pid[$1]}" 2>/dev/null || break
        [ "$i" -ne 15 ] || kill -TERM "${pid[$1]}" 2>/dev/null || true
        sleep 0.2
    done
    kill -KILL "${pid[$1]}" 2>/dev/null || true
    wait "${pid[$1]}" 2>/dev/null || true
}
# A figure in `answer`, or nothing and `why`.
turn() { # who line
    local wait=$((budget - SECONDS))
    [ "$wait" -gt 1 ] || wait=1
    [ "$wait" -lt "$patience" ] || wait=$patience
    answer='' why=''
    { printf '%s\n' "$2" >&"${in[$1]}"; } 2>/dev/null || true
    local rc=0
    read -r -t "$wait" answer <&"${out_of[$1]}" || rc=$?
    if [ "$rc" -ne 0 ]; then
        why=$(tail -n 1 "$dir/$1.why")
        [ -n "$why" ] || why='it ended without an answer'
        [ "$rc" -le 128 ] || why="no answer within $wait s"
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

left=()
# Whether a part of so many seconds fits into what is left; else it is named.
may_begin() { # seconds name
    [ $((SECONDS + $1)) -gt "$budget" ] || return 0
    left+=("$2 ($1 s)")
    return 1
}

median() { # of numbers; nothing for none
    printf '%s\n' "$@" | sed '/^$/d' | sort -n |
        awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'
}

compare() { # size batch precision data
    local -A got=()
    local bad='' no='' ours='default tuned' how
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
    echo "$SECONDS s: $*: default${got[default]:- -}, tuned${got[tuned]:- -}, PyTorch ${medians[*]:2}" >&2
}

roof() { # size batch precision
    local line wait=$((budget - SECONDS))
    end theirs # its memory, and a device to ourselves
    timeout "$((wait < patience ? wait : patience))" "$bench/kernels" \
        "$([ "$device" = cuda ] && echo cuda || nproc)" "$@" table \
        </dev/null >"$dir/roof" 2>&1 || echo '(it does not run)' >>"$dir/roof"
    while IFS= read -r line; do keep roof "$@" "$line"; done <"$dir/roof"
}

# ---- steps of a Llama ------------------------------------------------------------
# Into the .tsv: llm NAME BY SHAPE ROWS TOKENS TYPE DOCUMENTS HOW GIB TOKENS_S,
# of BY ours, eager, compile; and why there is none.
turns() { # who: the median of its turns into `rate`, what else it says into `rest`
    local -a rates=()
    local said='' x
    rate='' rest=''
    for _ in $(seq "$rounds"); do
        turn "$1" go || break
        read -r x said <<<"$answer"
        rates+=("$x") rest=$said
    done
    end "$1"
    rate=$(median "${rates[@]}")
    [ -n "$rate" ]
}
ours() { # name method shape rows tokens type how documents
    local -a run=("$bench/llm_step" "$device" "${@:3:4}" "$7" "$2" "$8") gib_how
    [ "$2" != fsdp ] || run=(env OMPI_MCA_orte_execute_quiet=1 mpirun -n "$ranks"
        --oversubscribe --bind-to none "${run[@]}")
    begin ours "${run[@]}"
    turns ours || keep llm-no "$1" ours "$why"
    read -ra gib_how <<<"$rest"
    keep llm "$1" ours "${@:3:4}" "$8" "${gib_how[1]:-}" "${gib_how[0]:-}" "$rate"
}
theirs() { # eager|compile name method shape rows tokens type how documents
    local how
    # As ours, and if that does not fit with less memory.
    how=$(awk -F '\t' -v name="$2" '$1 == "llm" && $2 == name && $3 == "ours" {
        print $9 }' "$raw" | tail -n 1)
    for how in ${how:-keep} again; do
        begin theirs "$python" "$here/torch_llm.py" "$torch" "${@:4:4}" "$how" \
            "$3" "$9" "$1"
        ! turns theirs || break
        case $how$why in keep*[Mm]emory*) ;; *) break ;; esac
    done
    [ -n "$rate" ] || keep llm-no "$2" "$1" "$why"
    keep llm "$2" "$1" "${@:4:4}" "$9" "$how" '' "$rate"
}
# All steps, one way.
llm_by() { # ours|eager|compile
    local step x s
    for step in $llm; do
        read -ra x <<<"$(step_named "$step")"
        s=${x[7]}
        [ "$1" = ours ] || s=${x[8]}
        [ "$s" -gt 0 ] || continue # PyTorch has none
        [ "${x[0]}" != fsdp ] || [ "$ranks" -gt 1 ] || continue
        [ "$1" != compile ] || s=$((s + 75))
        known llm "$step" "$1" "${x[@]:1:4}" "${x[6]}" || ! may_begin "$s" "$step, $1" || {
            local why='' rate='' rest=''
            if [ "$1" = ours ]; then
                ours "$step" "${x[@]:0:7}"
            else
                theirs "$1" "$step" "${x[@]:0:7}"
            fi
            echo "$SECONDS s: $step, $1: ${rate:-- $why} tokens/s" >&2
        }
    done
}

# ---- the file ---------------------------------------------------------------------
# A row for each step: what is known of it, by whom.
llm_rows() {
    local step x how gib a e c ec cc p careful best
    field() { awk -F '\t' -v name="$step" -v w="$1" -v f="$2" '
        $1 == "llm" && $2 == name && $3 == w { x = $f } END { print x }' "$raw"; }
    for step in $llm; do
        grep -q "^llm"$'\t'"$step"$'\t' "$raw" || continue
        read -ra x <<<"$(step_named "$step")"
        how=$(field ours 9) gib=$(field ours 10) a=$(field ours 11)
        e=$(field eager 11) ec=$(field eager 9) c=$(field compile 11) cc=$(field compile 9)
        p='' careful=''
        read -r p careful < <(predicted "$column" step \
            "${x[*]:0:5} ${how:-keep} ${x[6]}") || true
        best=$(printf '%s\n' "$e" "$c" | sort -n | tail -n 1)
        [ "$ec" != again ] || [ -z "$e" ] || e+=' (again)'
        [ "$cc" != again ] || [ -z "$c" ] || c+=' (again)'
        [ "${x[0]}" != fsdp ] || step+=", $ranks ranks"
        printf '| %s ' "$step" "${x[1]}" "${x[2]} x ${x[3]}" "${x[4]}" "${x[6]}" \
            "$(case $how in again) echo made again ;; keep) echo kept ;; *) echo - ;; esac)" \
            "${gib:--}" "${a:--}" "${p:--}" "${careful:--}" \
            "$(by "$a" "$p" | grep . || echo -)" "${e:--}" "${c:--}" \
            "$(by "$a" "$best" | grep . || echo -)"
        printf '|\n'
    done
}
write_llm() {
    echo
    echo "## Steps of a Llama"
    echo
    echo "Tokens per second; predicted: by \`make gpu-model\`, and carefully. A"
    echo "shape is hidden, ffn, layers, heads, kv_heads, vocabulary; documents are"
    echo "those of a row; GiB are planned. PyTorch: transformers and PEFT, SDPA,"
    echo "eager and by torch.compile, the same documents."
    echo
    echo "| step | shape | rows | precision | documents | activations | GiB | mgpu | predicted | carefully | of it | PyTorch | compiled | ratio |"
    echo "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    llm_rows
    ! grep -q '^llm-no'$'\t' "$raw" || printf '\nMissing:\n\n'
    awk -F '\t' '$1 == "llm-no" { printf "- %s, %s: %s\n", $2, $3, $4 }' "$raw"
}
write_images() {
    echo
    echo "## Steps of MobileNetV2"
    echo
    echo "10 classes, SGD; images per second, medians of $rounds"
    echo "rounds in turns. mgpu: a job as it is by default; tuned: one with"
    echo "train.deterministic: false. PyTorch: the best of eager and torch.compile,"
    echo "channels last (nhwc) and contiguous (nchw), AMP in 16 bits, fused SGD."
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

write() {
    local part
    echo "# A training step on $name, $(date -u +%Y-%m-%d)"
    echo
    echo "Written by \`make gpu-bench\`; commit $commit. Medians of $rounds rounds."
    [ "${#left[@]}" -eq 0 ] || printf '\nNot measured, for want of time:\n\n'
    for part in "${left[@]}"; do echo "- $part"; done
    ! grep -q '^llm'$'\t' "$raw" || write_llm
    ! grep -q '^\(cell\|roof\)'$'\t' "$raw" || write_images
}

for way in ours eager compile; do llm_by "$way"; done
# Seconds: a first cell, with what PyTorch compiles of its four; one with data;
# the limits.
for size in $sizes; do
    for precision in $precisions; do
        for batch in $batches; do
            for data in nodata data; do
                known cell "$size" "$batch" "$precision" "$data" ||
                    ! may_begin "$([ "$data" = data ] && echo 40 || echo 130)" \
                        "$size, $batch, $precision, $data" ||
                    compare "$size" "$batch" "$precision" "$data"
            done
        done
        known roof "$size" "${batches%% *}" "$precision" ||
            ! may_begin 20 "the limits of $size, $precision" ||
            roof "$size" "${batches%% *}" "$precision"
    done
done
end theirs
write | tee "$out"
[ "${#left[@]}" -eq 0 ] || echo "bench.sh: ${#left[@]} not measured; RESUME=$raw goes on" >&2
echo "$out" >&2
