#!/bin/bash
# check.sh - everything that has to be true on a GPU, in TAP.
#
#   DEVICE=cuda|host PARTS="kernels jobs llm faults nccl profile memcheck
#   racecheck initcheck synccheck" LIMIT=1800 check.sh
#
# Needs MGPU_BIN, MGPU_SRC and MGPU_TESTS, which make gpu-check sets. With
# DEVICE=host the same script runs what there is of it on the host, so that it
# is known to work before there is a GPU. There are no skips with cuda: what
# cannot be checked has not been. LIMIT ends a check that takes longer, in
# seconds. Ranks that share a GPU get 120 s at most: two processes take turns on
# it, a collective is milliseconds, a first connection can take seconds. What
# fails there says nothing about NVLink, and the log of the check says so.
set -u

device=${DEVICE:-cuda} limit=${LIMIT:-1800}
all='kernels jobs llm faults nccl profile memcheck racecheck initcheck synccheck'
parts=${PARTS:-$all}
bin=${MGPU_BIN:?} tests=${MGPU_TESTS:?} src=${MGPU_SRC:?}
case $device in cuda | host) ;; *)
    echo "check.sh: DEVICE is cuda or host, not '$device'" >&2
    exit 64
    ;;
esac
export MGPU_TEST_DEVICE=$device GOMP_SPINCOUNT=2000
export MGPU_CUDA_PLUGIN=${MGPU_CUDA_PLUGIN:-$bin/../lib/libmgpu-cuda.so}
[ "$device" = cuda ] || unset MGPU_CUDA_PLUGIN
for part in $parts; do
    case " $all " in
    *" $part "*) ;;
    *)
        echo "check.sh: there is no part '$part'" >&2
        exit 64
        ;;
    esac
done
has() { case " $parts " in *" $1 "*) ;; *) return 1 ;; esac }
dir=$(mktemp -d)
pid=
cleanup() {
    [ -z "$pid" ] || kill "$pid" 2>/dev/null
    rm -rf "$dir"
}
trap cleanup EXIT

n=0 failed=0 since=$SECONDS
result() { # status text
    n=$((n + 1))
    [ $((SECONDS - since)) -lt 5 ] || echo "# $((SECONDS - since)) s"
    since=$SECONDS
    if [ "$1" -eq 0 ]; then
        echo "ok $n - $2"
    else
        failed=$((failed + 1))
        echo "not ok $n - $2"
        tail -n 15 "$dir/log" | sed 's/^/# /'
    fi
}
one_gpu='ranks that share a GPU talk by sockets and take turns on it: this says nothing about NVLink'
# For a check with several ranks on the one GPU; a subshell's.
sharing() {
    [ "$device" = host ] || [ "$limit" -le 120 ] || limit=120
}
# A TAP program: all of it, and nothing skipped.
suite() { # text program...
    local text=$1 rc=0
    shift
    timeout -k 5 "$limit" "$@" >"$dir/log" 2>&1 || rc=$?
    [ "$rc" -ne 124 ] || echo "ended after $limit s" >>"$dir/log"
    [ "$rc" -ne 0 ] || ! grep -q '^not ok\|# SKIP' "$dir/log" || rc=1
    [ "$rc" -ne 0 ] || grep -q '^ok ' "$dir/log" || rc=1
    grep '^not ok\|# SKIP' "$dir/log" | head -n 10 | sed 's/^/# /'
    result "$rc" "$text"
}

# ---- kernels, the whole model ------------------------------------------------
if [ "$device" = cuda ] && { has kernels || has llm; }; then
    suite 'every kernel keeps the contract' "$tests/unit/kernels/cuda"
fi
if has kernels; then
    suite 'the same calls give the same bits' "$tests/unit/kernels/determinism"
    suite 'the model has the golden values' "$tests/unit/worker/cv_golden"
    suite 'fp16 and bf16 are as near as they can be' "$tests/unit/worker/cv_precision"
fi

# ---- jobs ----------------------------------------------------------------------
job() { # precision, epochs, batch, size, further train keys
    cat <<END
version: 1
kind: cv
name: gpu-check
model: {width_mult: 0.5, dropout: 0.2}
dataset: {source: synthetic, image_size: $4, train_samples: 300, eval_samples: 50}
train: {device: $device, epochs: $2, batch_size: $3, precision: $1, seed: 5,
        optimizer: {name: sgd, lr: 0.05}$5}
retry: {resume: "no"}
resources: {gpus: $([ "$device" = cuda ] && echo 1 || echo 0)}
END
}
worker() { # ranks directory; the job is standard input
    cat >"$dir/job.yaml"
    # --quiet of Open MPI 4; later ones refuse the option.
    export OMPI_MCA_orte_execute_quiet=1
    # Ranks that share a GPU have to be different machines for NCCL.
    # shellcheck disable=SC2016
    exec timeout -k 5 "$limit" mpirun -n "$1" --oversubscribe \
        --bind-to none sh -c '
        NCCL_HOSTID=gpu-check-$OMPI_COMM_WORLD_RANK NCCL_NET=Socket
        NCCL_SOCKET_IFNAME=lo NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1
        CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
        export NCCL_HOSTID NCCL_NET NCCL_SOCKET_IFNAME NCCL_P2P_DISABLE \
            NCCL_SHM_DISABLE CUDA_VISIBLE_DEVICES
        exec "$@"' sh "$bin/mgpu-worker" --standalone "$dir/job.yaml" --dir "$2" \
        --device "$device"
}
weights() { find "$1" -name '*model.safetensors' -exec sha256sum {} + | cut -d' ' -f1 | sort; }

# A job whose steps cannot be captured is right, and slow.
uses_graphs() { # 1, or 0 where it was not to
    [ "$device$1" = cuda1 ] || return 0
    grep -qx 'iterations run as CUDA graphs' "$dir/log" &&
        ! grep -q 'cannot be captured' "$dir/log" && return
    echo 'its iterations did not run as CUDA graphs' >>"$dir/log"
    return 1
}
# The same job twice; the second time as MGPU_CUDA_GRAPHS says.
twice() { # precision, further keys, ranks, graphs, text
    local i graphs=1 rc=0
    for i in 1 2; do
        [ $i -eq 1 ] || graphs=$4
        (
            [ "$3" -eq 1 ] || sharing
            export MGPU_CUDA_GRAPHS=$graphs
            job "$1" 2 16 32 "$2" | worker "$3" "$dir/$i"
        ) >"$dir/log" 2>&1 || rc=1
        uses_graphs "$graphs" || rc=1
    done
    [ "$rc" -ne 0 ] || { [ -n "$(weights "$dir/1")" ] &&
        [ "$(weights "$dir/1")" = "$(weights "$dir/2")" ]; } || rc=1
    [ "$device" = host ] || [ "$3" -eq 1 ] || echo "$one_gpu" >>"$dir/log"
    result "$rc" "$1$2: $5, bit by bit"
    rm -rf "${dir:?}/1" "${dir:?}/2"
}
# Marks on the device tell the times of a row, the host's clock t_iter. Of an
# iteration that keeps a GPU busy the two passes are the most, and no more than
# all. The first three are run, captured and launched for the first time.
phases() {
    local rc=0 size=32 batch=16
    [ "$device" = host ] || size=224 batch=64
    job fp32 2 "$batch" "$size" '' | worker 1 "$dir/phases" >"$dir/log" 2>&1 || rc=1
    cat "$dir/phases"/spool.* 2>/dev/null | awk '
        function of(name) {
            if (!match($0, "\"" name "\":[-+0-9.e]+")) return 0
            return substr($0, RSTART + length(name) + 3) + 0
        }
        /"t_forward"/ && of("iteration") > 3 {
            passes += of("t_forward") + of("t_backward"); all += of("t_iter"); n++
        }
        END { printf "%d iterations of %.6f s, passes of %.6f s\n", n, all, passes
            exit !(n > 0 && passes >= 0.5 * all && passes <= 1.02 * all) }' \
        >>"$dir/log" || rc=1
    result "$rc" 'the passes take what an iteration takes, by its marks and by the clock'
    rm -rf "${dir:?}/phases"
}
if has jobs; then
    for precision in fp64 fp32 tf32 'fp16, mixed: true' 'bf16, mixed: true'; do
        # All of them are tried on the host, too, by the unit tests.
        [ "$device" = cuda ] || [ "$precision" = fp32 ] || continue
        twice "${precision%%,*}" "${precision#"${precision%%,*}"}" 1 1 \
            'two runs end with the same weights'
    done
    twice fp32 '' 1 0 'a run without graphs ends as one with them'
    phases
fi
if has nccl; then
    twice fp32 '' 2 1 'two ranks, twice, end with the same weights'
fi

# ---- a Llama ---------------------------------------------------------------------
# The example as it is, twice. Its loss starts at 3.1.
lora() { # ranks
    local i rc=0 on="fp32 on $device ("
    [ "$device$1" != cuda2 ] || on+='nccl)'
    for i in 1 2; do
        (
            [ "$1" -eq 1 ] || sharing
            worker "$1" "$dir/lora$i" <"$src/jobs/examples/llama-lora.yaml"
        ) >"$dir/log" 2>&1 || rc=1
        [ "$rc" -ne 0 ] || awk '/evaluation loss/ { sub(/.*evaluation loss /, "")
            last = $0 + 0 } END { exit !(last > 0 && last < 1) }' "$dir/log" || rc=1
        grep -qF "$on" "$dir/log" || rc=1
        tail -n 1 "$dir/lora$i/out/samples.jsonl" 2>>"$dir/log" |
            grep -qF '"answer":"The story is about ' || rc=1
        [ -s "$dir/lora$i/out/adapter_model.safetensors" ] || rc=1
    done
    [ "$rc" -ne 0 ] || [ "$(weights "$dir/lora1")" = "$(weights "$dir/lora2")" ] || rc=1
    [ "$device" = host ] || [ "$1" -eq 1 ] || echo "$one_gpu" >>"$dir/log"
    result "$rc" "llama-lora.yaml learns, ranks: $1, and twice ends with the same bits"
    rm -rf "${dir:?}/lora1" "${dir:?}/lora2"
}
if has llm; then
    suite 'a Llama has the golden logits, gradients and losses' \
        "$tests/unit/worker/llm_golden"
    suite 'packing, checkpointing and chunks change nothing' "$tests/unit/worker/llm_step"
    suite 'a trained Llama says what it is known to say' "$tests/unit/worker/llm_stories"
    cp -r "$src/jobs/examples/stories260K" "$src/jobs/examples/story-names" "$dir"
    lora 1
    lora 2
fi

used_mib() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0; }
before=
[ "$device" = host ] || before=$(used_mib)
freed() { # what the driver keeps for itself may change by some
    local now
    now=$(used_mib) && [ -n "$before" ] && [ "$now" -le $((before + 16)) ]
}

# ---- how it fails ---------------------------------------------------------------
# One line that says it, from one rank.
errors() { grep -c ' err worker: ' "$dir/log"; }
# The ranks of a job that is in a directory.
ranks_of() {
    local f
    for f in /proc/[0-9]*/cmdline; do
        tr '\0' ' ' 2>/dev/null <"$f" | grep -q "^[^ ]*mgpu-worker .*$1" || continue
        f=${f%/cmdline}
        echo "${f##*/}"
    done
}

if has faults; then
    rc=0
    (job fp32 1 4096 1024 '' | worker 1 "$dir/big") >"$dir/log" 2>&1 && rc=1
    [ "$(errors)" -eq 1 ] && grep -q 'do not fit in the\|of memory' "$dir/log" || rc=1
    result "$rc" 'too large a batch is refused before it starts, in one line'

    (job fp32 10000 16 32 '' | worker 2 "$dir/killed") >"$dir/log" 2>&1 &
    pid=$!
    deadline=$((SECONDS + ${MGPU_CHECK_PATIENCE:-120})) rank=
    until [ -n "$rank" ] || [ $SECONDS -gt $deadline ]; do
        sleep 0.1
        kill -0 "$pid" 2>/dev/null || break
        grep -q '^epoch 1/' "$dir/log" || continue
        rank=$(ranks_of "$dir/killed" | tail -n 1)
    done
    rc=1
    if [ -n "$rank" ] && kill -KILL "$rank"; then
        end=$((SECONDS + 30))
        while kill -0 "$pid" 2>/dev/null && [ $SECONDS -lt $end ]; do sleep 0.1; done
        kill -0 "$pid" 2>/dev/null || { wait "$pid" || rc=0; }
    fi
    pid=
    [ -z "$(ranks_of "$dir/killed")" ] || rc=1
    # The rank that is left says nothing, or in one line that it waited.
    [ "$(errors)" -le 1 ] || rc=1
    result "$rc" 'a rank that is killed ends the job, and every other rank'

    if [ "$device" = cuda ]; then
        deadline=$((SECONDS + 30))
        until freed || [ $SECONDS -gt $deadline ]; do sleep 0.2; done 2>/dev/null
        echo "$before MiB before, $(used_mib) MiB after" >"$dir/log"
        freed
        result $? 'the GPU has its memory back'
    fi
fi

# ---- the profile ------------------------------------------------------------------
if has profile; then
    rc=0
    (job fp32 2 16 32 ', profile: epoch' | worker 1 "$dir/profile") >"$dir/log" 2>&1 || rc=1
    grep -q 'cost of profiling' "$dir/log" || rc=1
    case $device in
    cuda) set -- cudaGraphLaunch cudaStreamSynchronize 'CUDA memcpy Host-to-Device' \
        'CUDA kernels' 'memory of the GPU, in use' ;;
    host) set -- 'host kernel launch' 'host GEMM' 'memory planned' ;;
    esac
    for metric; do
        find "$dir/profile" -name 'spool.*' -exec cat {} + | grep -qF "\"$metric\"" || {
            echo "the rows have no '$metric'" >>"$dir/log"
            rc=1
        }
    done
    result "$rc" "what an epoch consists of is recorded, and what looking costs"
fi

# ---- what needs a GPU ------------------------------------------------------------
if [ "$device" = cuda ]; then
    all_limit=$limit
    for ranks in 1 2 3; do
        has nccl || break
        [ "$ranks" -eq 1 ] || sharing
        suite "NCCL keeps the contract of the collectives, $ranks on one GPU" \
            mpirun -n "$ranks" --oversubscribe --bind-to none "$tests/mpi/nccl"
        [ "$ranks" -eq 1 ] || echo "# $one_gpu"
    done
    limit=$all_limit

    sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
    # Of our kernels, whose first parameter is a blk: what cuBLASLt does with
    # its workspace and its barriers is not ours to judge, and takes most of
    # the time. Without the option everything is watched, and a finding may be
    # cuBLASLt's.
    only=()
    if { has memcheck || has racecheck || has initcheck || has synccheck; } &&
        "$sanitizer" --help 2>/dev/null | grep -q -- '--kernel-name arg'; then
        only=(--kernel-name kernel_substring=NS_3blkE)
    fi
    for tool in memcheck racecheck initcheck synccheck; do
        has "$tool" || continue
        [ "${#only[@]}" -gt 0 ] || echo "# $tool also watches cuBLASLt's kernels"
        MGPU_TEST_SMALL=1 suite "compute-sanitizer $tool finds nothing" \
            "$sanitizer" --tool "$tool" "${only[@]}" --error-exitcode 9 \
            --report-api-errors no --print-limit 5 "$tests/unit/kernels/cuda"
    done
fi

echo "1..$n"
[ "$failed" -eq 0 ] || {
    echo "gpu-check: $failed of $n failed on $device" >&2
    exit 1
}
