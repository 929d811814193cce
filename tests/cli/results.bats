#!/usr/bin/env bats
# results.bats - what a job of kind llm leaves, used by what can read it: its
# checkpoints, as the models that they are.
# shellcheck disable=SC2034,SC2154 # what llm.bash shares

bats_require_minimum_version 1.5.0
load helpers
load llm

setup() {
    dir=$BATS_TEST_TMPDIR/run
    export OMP_NUM_THREADS=1 GOMP_SPINCOUNT=2000
    cd "$BATS_TEST_TMPDIR" || return 1
}

prompt="Once upon a time"

# says MODEL [OPTION...]: what a model says behind the prompt.
says() {
    "$MGPU_BIN/mgpu-model" generate "$@" --prompt "$prompt" --max-new-tokens 12
}

@test "a checkpoint of adapters is an adapter: generate and merge take it" {
    local step=$dir/out/ckpt/step-20
    model=$stories
    llm_spec lora fp32 2 "optimizer: {lr: 1e-2}" "model: {lora_rank: 4}"
    run -0 worker 1
    cmp "$dir/out/adapter_config.json" "$step/adapter_config.json"
    [ "$(ls "$step")" = "$(printf '%s\n' adapter_config.json adapter_model.safetensors train)" ]
    [ "$(ls "$step/train")" = "$(printf '%s\n' optim.safetensors state.json)" ]
    says "$stories" --adapter "$dir/out" >result
    says "$stories" --adapter "$step" >checkpoint
    cmp result checkpoint
    says "$stories" >base
    not cmp -s base checkpoint
    "$MGPU_BIN/mgpu-model" merge "$stories" --adapter "$step" -o merged
    says merged >merged.text
    cmp result merged.text
}

@test "a checkpoint of all weights is a model, on two ranks that share them, too" {
    local ranks step=$dir/out/ckpt/step-20 own
    model=$stories
    for ranks in 1 2; do
        rm -rf "$dir"
        own=()
        [ "$ranks" -eq 1 ] || own=("distribution: fsdp")
        llm_spec full bf16 $((2 * ranks)) "optimizer: {lr: 1e-3}" \
            "lr_scheduler: {name: constant}" "${own[@]}"
        change '0,/lr_scheduler/{/lr_scheduler/d}'
        run -0 worker "$ranks"
        cmp "$dir/out/config.json" "$step/config.json"
        cmp "$stories/tokenizer.model" "$step/tokenizer.model"
        cmp "$dir/out/model.safetensors" "$step/model.safetensors"
        says "$dir/out" >result
        says "$step" >checkpoint
        cmp result checkpoint
        [ -s "$step/train/optim.safetensors" ] # and the weights in fp32
    done
}

# first_best METHOD [KEY: VALUE...]: the loss falls, and the highest is the best.
first_best() {
    model=$stories
    llm_spec "$1" fp32 3 "optimizer: {lr: 1e-3}" "dataset_val: {path: $data/llama-tied/rows.jsonl, template: tokens}" "${@:2}"
    change 's/^checkpoint: {/&keep_best: true, mode: max, keep_last: 9, /; s/every: 7steps/every: 1epoch/'
}

@test "keep_best: the output has the best, and last/ the last" {
    local method file ranks own
    for method in lora full fsdp; do
        rm -rf "$dir"
        ranks=1 own=() file=model.safetensors
        case $method in
        lora) file=adapter_model.safetensors own=("model: {lora_rank: 4}") ;;
        fsdp) ranks=2 own=("distribution: fsdp") ;;
        esac
        first_best "${method/fsdp/full}" "${own[@]}"
        run -0 worker "$ranks"
        echo "$output"
        [[ $output == *"saved the last in $dir/out/last"*"saved the best, of iteration $((10 / ranks)), in $dir/out"* ]]
        cmp "$dir/out/$file" "$dir/out/ckpt/best/$file"
        cmp "$dir/out/last/$file" "$dir/out/ckpt/step-$((30 / ranks))/$file"
        not cmp -s "$dir/out/$file" "$dir/out/last/$file"
    done
}

@test "keep_best: where the best is damaged the output has the last" {
    first_best lora "model: {lora_rank: 4}"
    run -0 worker 1
    printf damage >"$dir/out/ckpt/best/train/state.json"
    rm -r "$dir/out/last" "$dir/out/adapter_model.safetensors"
    run -0 worker 1
    echo "$output"
    [[ $output == *"the best checkpoint is not used why="*"train/state.json"* ]]
    cmp "$dir/out/adapter_model.safetensors" "$dir/out/last/adapter_model.safetensors"
    grep -q 'train.output_dir has the last, the best cannot be read' "$dir/report.json"
}

@test "keep_best: one that is whole and does not fit is an error, not a mixture" {
    first_best lora "model: {lora_rank: 4}"
    change 's/lr: 1e-3/name: sgd, &/'
    run -0 worker 1
    mv "$dir/out/ckpt/best" other
    rm -r "$dir"
    first_best lora "model: {lora_rank: 4}"
    run -0 worker 1
    rm -r "$dir/out/ckpt/best" "$dir/out/last" "$dir/out/adapter_model.safetensors"
    mv other "$dir/out/ckpt/best"
    run worker 1
    echo "$output"
    [ "$status" -ne 0 ]
    [[ $output == *"the last is in last/, the best cannot be used: "*"another optimizer"* ]]
    [ ! -e "$dir/out/adapter_model.safetensors" ]
    cmp "$dir/out/last/adapter_model.safetensors" "$dir/out/ckpt/step-30/adapter_model.safetensors"
}

@test "keep_best: the reason and the card say that a better one could not be saved" {
    first_best lora "model: {lora_rank: 4}"
    change 's/mode: max/mode: min/'
    run -0 worker 1
    [[ $output == *"saved the best, of iteration 30, "* ]]
    # As after failures to save it at iterations 20 and 30.
    rm -r "$dir/out/ckpt/best"
    cp -r "$dir/out/ckpt/step-10" "$dir/out/ckpt/best"
    run -0 worker 1
    grep -q 'train.output_dir has an earlier best, of iteration 10: a better one could not be saved' "$dir/report.json"
    cat "$dir/out/README.md" "$dir/out/last/README.md"
    grep -qE '^- Result: validation loss [0-9.]+, the best evaluation that could be saved; the best had [0-9.]+\.$' "$dir/out/README.md"
    # The last evaluation is not known any more.
    not grep -q Result "$dir/out/last/README.md"
}

@test "README.md is a model card without a path or a user's name" {
    mkdir -p "models--org--tiny/snapshots/0abc"
    cp "$stories"/* models--org--tiny/snapshots/0abc/
    first_best lora "model: {lora_rank: 4}"
    change "s|checkpoint_dir: [^}]*|checkpoint_dir: $PWD/models--org--tiny/snapshots/0abc|"
    run -0 worker 1
    cat "$dir/out/README.md"
    [ "$(sed -n 1,6p "$dir/out/README.md")" = "---
# A model card of mgpu.
base_model: \"org/tiny\"
library_name: peft
pipeline_tag: text-generation
tags: [mgpu, lora]" ]
    grep -qx '# Adapters of rank 4 for org/tiny' "$dir/out/README.md"
    grep -qE '^- Data: 19 rows of up to 13 tokens, 19 for evaluation' "$dir/out/README.md"
    grep -qx -- '- Training: 10 iterations, of 3 epochs, in fp32.' "$dir/out/README.md"
    grep -qE '^- Result: validation loss [0-9.]+, the best evaluation.$' "$dir/out/README.md"
    grep -qE '^- Base: org/tiny, digest [0-9a-f]{16} of its values in fp32.$' "$dir/out/README.md"
    grep -qx -- '- Training: 30 iterations, of 3 epochs, in fp32.' "$dir/out/last/README.md"
    not grep -q -e / -e "$(id -un)" <(sed 's|org/tiny||g' "$dir/out/README.md")
    # A file of somebody else's stays.
    echo "my notes" >"$dir/out/README.md"
    run -0 worker 1
    [ "$(cat "$dir/out/README.md")" = "my notes" ]
}
