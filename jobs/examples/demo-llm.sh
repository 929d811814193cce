#!/bin/sh
# demo-llm.sh - teach a small Llama to answer a question, by LoRA on two ranks,
# and export the best adapter: merged, and as a file for llama.cpp.
#
# Needs no root, no GPU, no Slurm and no download. MGPU_BIN names the folder
# of the built programs. Ends what it started, also when interrupted, and
# keeps its directory for a look.
set -eu

# shellcheck source=jobs/examples/demo-daemon.sh
. "$(dirname "$0")/demo-daemon.sh"
spec=$here/llama-lora.yaml
out=$dir/out
model=$here/stories260K
merged=$dir/merged
gguf=$dir/merged.gguf
prompt='### Instruction:
Who is the story about?

### Input:
One day, a boy named Tom saw a big red ball.

### Response:
'

# The answer of a model to the prompt; options are added.
answer() {
    "$bin/mgpu-model" -q generate "$@" --prompt "$prompt" \
        --max-new-tokens 32
}

printf 'Starting a private daemon in %s\n' "$dir"
start_daemon --slots 2

printf '\n$ mgpu-submit --set train.output_dir=%s --set checkpoint.keep_best=true %s\n' \
    "$out" "$spec"
job=$("$bin/mgpu-submit" --parsable --set "train.output_dir=$out" \
    --set checkpoint.keep_best=true "$spec")
wait_for_job
show stat --metrics "$job"
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
before=$(answer "$model")
printf '%s\n' "$before"
printf '\n$ mgpu-model generate %s --adapter %s --prompt ...\n' "$model" "$out"
after=$(answer "$model" --adapter "$out")
printf '%s\n' "$after"
printf '\nThe adapter of the best evaluation, for PEFT and others: %s\n' \
    "$out/adapter_model.safetensors"
printf 'That of the last iteration: %s\n' "$out/last"
printf '\n$ mgpu-model merge %s --adapter %s -o %s\n' "$model" "$out" "$merged"
"$bin/mgpu-model" merge "$model" --adapter "$out" -o "$merged"
printf '\n$ mgpu-model generate %s --prompt ...\n' "$merged"
alone=$(answer "$merged")
printf '%s\n' "$alone"
printf '\n$ mgpu-model export --gguf f16 %s -o %s\n' "$merged" "$gguf"
"$bin/mgpu-model" export --gguf f16 "$merged" -o "$gguf"
printf 'With llama.cpp: llama-cli -m %s\n' "$gguf"
printf '\nRemove everything with: rm -r %s\n' "$dir"

# The demo is also a test. The first loss is that of the model as it came.
last=$(printf '%s\n' "$losses" | awk 'END { print $2 }')
if ! awk -v f="$first" -v l="$last" 'BEGIN { exit !(l > 0 && l < f / 2) }'; then
    echo "$demo: the validation loss $last is not below half of $first" >&2
    exit 1
fi
if [ "$after" != "The story is about Tom." ] || [ "$before" = "$after" ]; then
    echo "$demo: the tuned model answers '$after'" >&2
    exit 1
fi
if [ "$alone" != "$after" ]; then
    echo "$demo: the merged model answers '$alone'" >&2
    exit 1
fi
if [ "$(head -c 4 "$gguf")" != GGUF ]; then
    echo "$demo: $gguf is no GGUF file" >&2
    exit 1
fi
if [ ! -s "$out/adapter_model.safetensors" ] ||
    [ ! -s "$out/adapter_config.json" ] ||
    [ ! -s "$out/last/adapter_model.safetensors" ]; then
    echo "$demo: there is no adapter in $out, or none in $out/last" >&2
    exit 1
fi
# The adapter in $out is that of the lowest validation loss.
best=$(printf '%s\n' "$losses" | sort -g -k 2 | awk 'NR == 1 { print $1 }')
if ! grep -q "saved the best, of iteration $best, in " \
    "$dir/state/jobs/$finished/1/log"; then
    echo "$demo: $out is not of iteration $best, which was the best" >&2
    exit 1
fi
