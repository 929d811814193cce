#!/usr/bin/env bats
# model.bats - mgpu-model as somebody who fine-tunes a model meets it.

bats_require_minimum_version 1.5.0
load helpers

model=$MGPU_BIN/mgpu-model
data=$MGPU_SRC/tests/data

setup() { cd "$BATS_TEST_TMPDIR" || return 1; }

# refused STATUS TEXT WORD...: mgpu-model with these words is.
refused() {
    local want=$1 text=$2
    shift 2
    run --separate-stderr "$model" "$@"
    echo "$stderr"
    [ "$status" -eq "$want" ] && [ -z "$output" ]
    [[ $stderr == "mgpu-model: "*"$text"* ]]
}

@test "a command, its operand and its options are checked" {
    refused 64 "expected a command"
    refused 64 "no command 'mix'" mix DIR
    refused 64 "expected merge DIR" merge
    refused 64 "merge needs --adapter OUT and --output MERGED" merge DIR
}

@test "merge: a model directory that says what it is" {
    "$model" merge "$data/llama-tied" --adapter "$data/llama-tied/adapter" \
        -o merged >said
    grep -qx '14 linears merged, 1 file of weights in merged' said
    cmp merged/config.json "$data/llama-tied/config.json"
    "$model" --json merge "$data/llama-tied" -o untied \
        --adapter "$data/llama-tied/adapter-output" >said
    [ "$(json '$.untied' <said)" = 1 ]
    [ "$(json '$.linears' <said)" = 15 ]
    grep -q '"tie_word_embeddings": false' untied/config.json
    grep -q lm_head.weight untied/model.safetensors
}

@test "merge: nothing is left of what is refused" {
    refused 65 "expected a tensor" merge "$data/llama-tied" -o merged \
        --adapter "$data/llama-untied/adapter"
    refused 66 "nowhere" merge nowhere --adapter a -o merged
    mkdir full && touch full/file
    refused 73 "name a new directory" merge "$data/llama-tied" -o full \
        --adapter "$data/llama-tied/adapter"
    [ ! -e merged ] && [ ! -e merged.partial ] && [ ! -e full.partial ]
}

@test "merge: a full disk leaves nothing" {
    run bash -c "ulimit -f 40; trap '' XFSZ; '$model' merge '$data/llama-tied' \
        --adapter '$data/llama-tied/adapter' -o merged"
    echo "$output"
    [ "$status" -eq 74 ]
    [ ! -e merged ] && [ ! -e merged.partial ]
}

# A base of 260,000 weights that was trained on stories.
stories=$MGPU_SRC/jobs/examples/stories260K

@test "generate: the same text with and without a cache, and as it is made" {
    "$model" generate "$stories" --prompt "One day, a boy named" \
        --precision fp32 --max-new-tokens 40 >text
    grep -q '^Tim went to the park with his mom\.' text
    "$model" generate "$stories" --prompt "One day, a boy named" --no-cache \
        --precision fp32 --max-new-tokens 40 | cmp - text
    "$model" --json generate "$stories" --prompt "One day, a boy named" \
        --precision fp32 --max-new-tokens 40 >json
    [ "$(json '$.text' <json)" = "$(cat text)" ]
    [ "$(json '$.end' <json)" = length ]
    [ "$(json '$.ids[39]' <json)" -ge 0 ]
}

@test "generate: what is drawn depends on the seed" {
    for seed in 1 1 2; do
        "$model" generate "$stories" --prompt "One day" --temperature 0.9 \
            --top-k 50 --top-p 0.95 --seed "$seed" --max-new-tokens 30 \
            --precision bf16 >>texts
        echo "--" >>texts
    done
    [ "$(awk 'BEGIN { RS = "--\n" } NR == 1 { a = $0 } NR == 2 { print a == $0 }
        NR == 3 { print a == $0 }' texts | tr '\n' ' ')" = "1 0 " ]
}

@test "generate: a row of a job, and the answer that it has" {
    run --separate-stderr "$model" generate "$stories" --row 3 \
        --data "$MGPU_SRC/jobs/examples/llama-lora.yaml" --max-new-tokens 8
    [ "$status" -eq 0 ]
    [ "$stderr" = "expected: The story is about Fin." ]
    refused 65 "the data has" generate "$stories" --row 100000 \
        --data "$MGPU_SRC/jobs/examples/llama-lora.yaml"
    refused 64 "either --prompt TEXT, or --row N and --data FILE" \
        generate "$stories" --row 3
    refused 64 "--device: 'gpu' is not auto, cuda or host" generate "$stories" \
        --prompt x --device gpu
    refused 64 "merge takes no --prompt" merge "$stories" --prompt x
}
