#!/bin/sh
# text_rows.sh - how long 52,000 rows of alpaca take to be tokenised and kept, on
# all cores and on one.
#
# usage: text_rows.sh DIR    MGPU_BIN names the folder of the built programs
#
# DIR has alpaca/alpaca_random_9k.json, which is repeated, and
# llama3-tokenizer/tokenizer.model. Fails if all cores take more than 5 s.
set -eu
bin=${MGPU_BIN:?}
dir=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
rows=52000
limit_s=5
work=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-text.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM

# One array of six: the file has nothing but white space around its own.
tr -d '\r' <"$dir/alpaca/alpaca_random_9k.json" |
    sed -e '1s/^[[:space:]]*\[//' -e '$s/\][[:space:]]*$//' >"$work/once"
{
    printf '['
    for i in 1 2 3 4 5 6; do
        if [ "$i" -gt 1 ]; then
            printf ','
        fi
        cat "$work/once"
    done
    printf ']\n'
} >"$work/rows.json"
# Of the model tokenising asks only how many tokens there are.
mkdir "$work/model"
sed 's/"vocab_size": *[0-9]*/"vocab_size": 128256/' \
    "$here/../../jobs/examples/stories260K/config.json" >"$work/model/config.json"
cat >"$work/job.yaml" <<END
version: 1
kind: llm
method: lora
train:
  checkpointer: {checkpoint_dir: model}
  tokenizer: {path: $dir/llama3-tokenizer/tokenizer.model}
  dataset: {template: alpaca, path: rows.json, samples: $rows, on_bad_row: skip}
END

# measure NAME COMMAND...: the best of three; leaves it in $best.
measure() {
    name=$1
    shift
    best=
    for i in 1 2 3; do
        rm -rf "$work/cache"
        mkdir "$work/cache"
        begin=$(date +%s.%N)
        XDG_CACHE_HOME=$work/cache "$@" "$bin/mgpu-model" -q tokenize \
            "$work/job.yaml" --rows 0 --cache >"$work/said"
        best=$(echo "$begin $(date +%s.%N) ${best:-1e9}" |
            awk '{ s = $2 - $1; printf "%.2f", s < $3 ? s : $3 }')
    done
    printf '%-12s %s s: %s\n' "$name" "$best" "$(grep ' tokens, ' "$work/said")"
}

measure 'one core' taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')"
measure "$(nproc) cores" env
if echo "$best $limit_s" | awk '{ exit !($1 > $2) }'; then
    echo "text_rows: $rows rows take $best s, more than $limit_s s" >&2
    exit 1
fi
