#!/bin/sh
# demo-llm.sh - teach a small Llama to answer a question, by LoRA on two ranks.
#
# Needs no root, no GPU, no Slurm and no download. MGPU_BIN names the folder
# of the built programs. Ends what it started, also when interrupted, and
# keeps its directory for a look.
set -eu

bin=${MGPU_BIN:?set MGPU_BIN to the folder of the mgpu programs}
here=$(cd "$(dirname "$0")" && pwd)
spec=$here/llama-lora.yaml
dir=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-demo-llm.XXXXXX")
out=$dir/out
model=$here/stories260K
prompt='### Instruction:
Who is the story about?

### Input:
One day, a boy named Tom saw a big red ball.

### Response:
'
MGPU_URL=unix:$dir/ctld.sock
export MGPU_URL
daemon=
job=

# Ends the job first, then the daemon: a daemon leaves its jobs running.
stop() {
    trap - EXIT INT TERM HUP
    if [ -n "$daemon" ]; then
        if [ -n "$job" ] && "$bin/mgpu-cancel" --quiet "$job" 2>/dev/null; then
            "$bin/mgpu-stat" --wait --timeout 30s "$job" >/dev/null 2>&1 || :
        fi
        kill "$daemon" 2>/dev/null || :
        wait "$daemon" 2>/dev/null || :
    fi
}
trap 'stop; exit 130' INT TERM HUP
trap stop EXIT

# The answer of the model to the prompt; options are added.
answer() {
    "$bin/mgpu-model" generate "$model" "$@" --prompt "$prompt" \
        --max-new-tokens 32
}

printf 'Starting a private daemon in %s\n' "$dir"
setsid "$bin/mgpu-ctld" --local --state-dir "$dir/state" --socket "$dir/ctld.sock" \
    --slots 2 2>"$dir/ctld.log" &
daemon=$!
tries=100
until "$bin/mgpu-stat" --status >/dev/null 2>&1; do
    tries=$((tries - 1))
    if [ "$tries" -eq 0 ] || ! kill -0 "$daemon" 2>/dev/null; then
        echo "demo-llm: the daemon did not start:" >&2
        cat "$dir/ctld.log" >&2
        exit 1
    fi
    sleep 0.1
done

printf '\n$ mgpu-submit --set train.output_dir=%s %s\n' "$out" "$spec"
job=$("$bin/mgpu-submit" --parsable --set "train.output_dir=$out" "$spec")
printf '\n$ mgpu-stat --wait %s\n' "$job"
"$bin/mgpu-stat" --wait "$job" || {
    code=$?
    "$bin/mgpu-stat" "$job" || :
    "$bin/mgpu-stat" --logs "$job" | tail -n 30 || :
    echo "demo-llm: the job ended with $code" >&2
    exit "$code"
}
printf '\n$ mgpu-stat --metrics %s\n' "$job"
"$bin/mgpu-stat" --metrics "$job"
finished=$job
job=

query="SELECT iteration, value FROM v_metric WHERE job = $finished
       AND name = 'val_loss' ORDER BY iteration"
first=$(sqlite3 -readonly "$dir/state/metrics.db" "SELECT loss FROM v_iteration
    WHERE job = $finished AND rank = 0 AND iteration = 1")
losses=$(sqlite3 -readonly -separator ' ' "$dir/state/metrics.db" "$query")
printf '\nValidation loss by iteration:\n%s\n' "$losses"
printf '\nOne day, a boy named Tom saw a big red ball.\nWho is the story about?\n'
printf '\n$ mgpu-model generate %s --prompt ...\n' "$model"
before=$(answer)
printf '%s\n' "$before"
printf '\n$ mgpu-model generate %s --adapter %s --prompt ...\n' "$model" "$out"
after=$(answer --adapter "$out")
printf '%s\n' "$after"
printf '\nAdapter, for PEFT and others: %s\n' "$out/adapter_model.safetensors"
printf 'Remove everything with: rm -r %s\n' "$dir"

# The demo is also a test. The first loss is that of the model as it came.
last=$(printf '%s\n' "$losses" | awk 'END { print $2 }')
if ! awk -v f="$first" -v l="$last" 'BEGIN { exit !(l > 0 && l < f / 2) }'; then
    echo "demo-llm: the validation loss $last is not below half of $first" >&2
    exit 1
fi
if [ "$after" != "The story is about Tom." ] || [ "$before" = "$after" ]; then
    echo "demo-llm: the tuned model answers '$after'" >&2
    exit 1
fi
if [ ! -s "$out/adapter_model.safetensors" ] ||
    [ ! -s "$out/adapter_config.json" ]; then
    echo "demo-llm: there is no adapter in $out" >&2
    exit 1
fi
