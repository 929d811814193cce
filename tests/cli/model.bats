#!/usr/bin/env bats
# model.bats - mgpu-model as somebody who fine-tunes a model meets it.
# shellcheck disable=SC2094,SC2154 # json is a function and a file; run sets stderr

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

@test "merge: a base that says that it is tied, and is not" {
    cp -r "$data/llama-untied" own
    jq '.tie_word_embeddings = true' "$data/llama-untied/config.json" >own/config.json
    for base in own "$data/llama-untied"; do
        "$model" merge "$base" -o "merged.${base##*/}" \
            --adapter "$data/llama-untied/adapter-output" 2>"said.${base##*/}"
    done
    cmp merged.own/model.safetensors merged.llama-untied/model.safetensors
    jq -e '.tie_word_embeddings == false' merged.own/config.json
    grep -qx 'warning: config.json says tie_word_embeddings: true, but .*' said.own
    [ ! -s said.llama-untied ]
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

# named_eot [ID]: a tokenizer of bytes and of words without use, in "turns"; the
# token of this id ends a message of Llama 3.
named_eot() {
    bytes_json "[{\"id\": 510, \"content\": \"<|start_header_id|>\"},
    {\"id\": 511, \"content\": \"<|end_header_id|>\"},
    {\"id\": ${1:-509}, \"content\": \"<|eot_id|>\"}]" >turns/tokenizer.json
}

@test "generate: stops where Llama 3 ends a message" {
    mkdir turns
    cp "$stories/config.json" "$stories/model.safetensors" turns
    named_eot
    "$model" --json generate turns --prompt "One day" --max-new-tokens 20 >all
    [ "$(json '$.end' <all)" = length ]
    named_eot "$(json '$.ids[7]' <all)"
    "$model" --json generate turns --prompt "One day" --max-new-tokens 20 >some
    [ "$(json '$.end' <some)" = token ]
    [ -z "$(json '$.ids[7]' <some)" ]
    [ "$(json '$.ids[0]' <some)" = "$(json '$.ids[0]' <all)" ]
}

# The id of <|im_end|> is in the prompt, too: some of the answers have it.
@test "generate: stops where the format of the row's job ends an answer" {
    mkdir turns
    cp "$stories/model.safetensors" turns
    jq '.eos_token_id = 511' "$stories/config.json" >turns/config.json
    cat >rows.jsonl <<END
{"messages": [{"role": "user", "content": "One day, a boy named"},
    {"role": "assistant", "content": "Tim"}]}
END
    tr -d '\n' <rows.jsonl >row.jsonl
    cat >job.yaml <<END
version: 1
name: turns
kind: llm
method: lora
train:
  checkpointer: {checkpoint_dir: turns}
  tokenizer: {prompt_template: hermes}
  dataset: {template: chat, path: row.jsonl}
END
    answer() {
        named_eot "$1"
        sed -i 's/start_header_id/im_start/; s/eot_id/im_end/' \
            turns/tokenizer.json
        "$model" --json generate turns --row 1 --data job.yaml \
            --precision fp32 --max-new-tokens 20
    }
    answer 509 >all
    [ "$(json '$.end' <all)" = length ]
    for id in $(jq '.ids[] | select(. > 255 and . < 508)' all | sort -u); do
        answer "$id" | jq -r .end >>ends
    done
    grep -qx token ends
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

@test "generate: a model with a window shorter than the prompt" {
    local all=(--prompt "One day, a boy named" --max-new-tokens 30) whole
    whole=$("$model" generate "$stories" "${all[@]}")
    cp -r "$stories" windowed
    for window in 3 400; do
        jq ".architectures = [\"MistralForCausalLM\"] | .model_type = \"mistral\" |
            .sliding_window = $window" "$stories/config.json" \
            >windowed/config.json
        run --separate-stderr "$model" generate windowed "${all[@]}"
        [ "$status" -eq 0 ]
        [ "$window" -eq 3 ] || [ "$output" = "$whole" ]
        [ "$window" -eq 400 ] || [ "$output" != "$whole" ]
    done
}

@test "generate: a row of a job, and the answer that it has" {
    run --separate-stderr "$model" generate "$stories" --row 3 \
        --data "$MGPU_SRC/jobs/examples/llama-lora.yaml" --max-new-tokens 8
    [ "$status" -eq 0 ]
    [ "${stderr_lines[0]}" = "expected: The story is about Fin." ]
    [[ ${stderr_lines[1]} == "prompt: "*"; generation: 8 tokens"* ]]
    refused 65 "the data has" generate "$stories" --row 100000 \
        --data "$MGPU_SRC/jobs/examples/llama-lora.yaml"
    refused 64 "either --prompt TEXT, or --row N and --data FILE" \
        generate "$stories" --row 3
    refused 64 "--device: 'gpu' is not auto, cuda or host" generate "$stories" \
        --prompt x --device gpu
    refused 64 "merge takes no --prompt" merge "$stories" --prompt x
}

@test "plan: what the worker prints before it takes memory" {
    job=$MGPU_SRC/jobs/examples/llama-lora.yaml
    "$model" plan "$job" >plan
    grep '^memory per rank: ' plan >said
    [ "$(tail -n 1 plan)" = fits ]
    timeout "$compute_s" "$MGPU_BIN/mgpu-worker" --standalone "$job" --dir run --alone \
        --device host >log
    grep -m 1 '^memory per rank: ' log | cmp - said
}

# big_job KEY: VALUE...: a job whose model and data are not here.
big_job() {
    {
        printf 'version: 1\nname: big\nkind: llm\nmethod: lora\ntrain:\n'
        printf '  checkpointer: {checkpoint_dir: %s}\n' "$PWD/model"
        printf '  dataset: {template: alpaca, path: %s}\n' "$PWD/rows.json"
        printf '  %s\n' "$@"
        printf 'resources: {gpus: 1}\n'
    } >big.yaml
}

@test "plan: a card and a model that are not here, and what would fit" {
    big_job 'tokenizer: {max_seq_len: 2048}' 'batch_size: 16' 'precision: bf16'
    run -71 "$model" plan big.yaml --for llama3-8b --device 80G
    grep -q 'does not fit: .* 80998.4 MiB that this GPU has left' <<<"$output"
    grep -q 'enable_activation_checkpointing: true .*, fits$' <<<"$output"
    batch=$(sed -n 's/^  train.batch_size: \([0-9]*\) .*, fits$/\1/p' <<<"$output")
    # That batch fits, and one more does not.
    big_job 'tokenizer: {max_seq_len: 2048}' "batch_size: $batch" 'precision: bf16'
    "$model" plan big.yaml --for llama3-8b --device 80G | grep -qx fits
    big_job 'tokenizer: {max_seq_len: 2048}' "batch_size: $((batch + 1))" 'precision: bf16'
    run -71 "$model" --json plan big.yaml --for llama3-8b --device 80G
    [ "$(json '$.fits' <<<"$output")" = 0 ]
    [ "$(json '$.changes[1].change' <<<"$output")" = "train.batch_size: $batch" ]

    # What CUDA takes, and with several ranks NCCL, is in the plan.
    "$model" --json plan big.yaml --for llama3.2-1b --device 80G >plan
    [ "$(json '$.runtime' <plan)" = $((400 << 20)) ]
    sed 's/gpus: 1/gpus: 2/' big.yaml >two.yaml
    "$model" --json plan two.yaml --for llama3.2-1b --device 80G >plan
    [ "$(json '$.runtime' <plan)" = $((1536 << 20)) ]
    run "$model" plan two.yaml --for llama3.2-1b --device 80G
    grep -q ', CUDA and NCCL 1536.0), and' <<<"$output"

    # config.json is enough.
    mkdir model
    cp "$data/llama-tied/config.json" model
    "$model" plan big.yaml --device 80G | grep -qx fits
    big_job 'batch_size: 16'
    refused 65 "set train.tokenizer.max_seq_len" plan big.yaml --device 80G
    refused 64 "none of llama2-7b, " plan big.yaml --for gpt2
}

@test "plan: --for knows models by the number of their parameters" {
    big_job 'tokenizer: {max_seq_len: 1024}' 'batch_size: 1' 'precision: bf16'
    local name values base
    # As the files of the models say, which hold so many values.
    while read -r name values; do
        run "$model" --json plan big.yaml --for "$name" --device 80G
        base=$(json '$.base' <<<"$output")
        # 16 bits each; tensors begin at multiples of 256 bytes.
        [ "$base" -ge $((2 * values)) ] && [ "$base" -lt $((2 * values + (1 << 20))) ] || {
            echo "$name: $base"
            false
        }
    done <<'END'
llama3-8b 8030261248
tinyllama-1.1b 1100048384
smollm2-1.7b 1711376384
mistral-7b 7248023552
qwen2.5-0.5b 494032768
qwen2.5-1.5b 1543714304
qwen2.5-3b 3085938688
qwen2.5-7b 7615616512
qwen2.5-14b 14770033664
qwen2.5-32b 32763876352
qwen3-0.6b 596049920
qwen3-1.7b 1720574976
qwen3-4b 4022468096
qwen3-8b 8190735360
END
}

@test "plan: two slots of a sharded base take two layers, not two embeddings" {
    big_job 'tokenizer: {max_seq_len: 2048}' 'batch_size: 1' 'precision: bf16' \
        'distribution: fsdp'
    sed -i 's/^method: lora/method: qlora/; s/gpus: 1/gpus: 8/' big.yaml
    # A layer of 70B has 855,638,016 values: 4.125 bits each, and its norms. The
    # embedding has 1,050,673,152 of 16 bits: two of them are 4008 MiB.
    "$model" plan big.yaml --for llama3-70b --device 80G >plan
    grep -q '^memory per rank: .* gathered 841\.8, ' plan
    # All of 8B is trained: 218,112,000 values a layer, and a piece of the
    # embedding has half of them, beside its gradient. Two embeddings: 2004 MiB.
    sed -i 's/^method: qlora/method: full/' big.yaml
    "$model" plan big.yaml --for llama3-8b --device 80G >plan
    grep -q '^memory per rank: .* gathered 832\.0, ' plan
}

@test "plan: --device is a card, with what such a card has free, or a size" {
    big_job 'tokenizer: {max_seq_len: 2048}' 'batch_size: 1' 'precision: bf16'
    while read -r card free; do
        "$model" plan big.yaml --for llama3.2-1b --device "$card" >plan
        grep -qx "left on the GPU: $free MiB" plan
    done <<'EOF'
80G 80998.4
H100 80998.4
h100 80998.4
96G 96768.0
H200 143073.3
40G 40960.0
81920M 81920.0
EOF
    for card in host H300 80X 0 -80G ''; do
        refused 64 "'$card' is none of 80G, 96G, H100, H200, and not the free memory of a GPU, such as 40G" \
            plan big.yaml --for llama3.2-1b --device "$card"
    done
}

# alpaca_job KEY: VALUE...: a job over rows.jsonl with the model of stories.
alpaca_job() {
    {
        printf 'version: 1\nkind: llm\nname: t\nmethod: lora\ntrain:\n'
        printf '  checkpointer: {checkpoint_dir: %s}\n' "$stories"
        printf '  dataset: {template: alpaca, path: rows.jsonl, %s}\n' "$1"
        shift
        printf '  %s\n' "$@"
        printf 'resources: {gpus: 0}\n'
    } >job.yaml
    printf '%s\n' '{"instruction": "Say it.", "output": "It, \u00e4\u20ac."}' \
        '{"instruction": "More.", "input": "Words.", "output": "So it is."}' \
        >rows.jsonl
}

@test "tokenize: which tokens have labels, and characters of several tokens" {
    alpaca_job 'train_on_input: false' 'batch_size: 1'
    "$model" tokenize job.yaml --rows 1 >text
    grep -qxF '[[It, ä€.<|1|>]]' text
    grep -q '^row 1: [0-9]* tokens, [0-9]* labelled$' text
    grep -q '^<|1|> \{0,1\}Below is an instruction' text
    grep -q '^ids: 1 .* \[\[[0-9 ]* 1\]\]$' text
    [ "$(grep -c '^row ' text)" -eq 1 ]
    grep -q '^2 rows, .*, 0 cut at max_seq_len$' text
    "$model" --json tokenize job.yaml >json
    [ "$(json '$.rows' <json)" = 2 ]
    [ "$(json '$.first[1].row' <json)" = 2 ]
    [ "$(json '$.first[0].tokens[0].labelled' <json)" = 0 ]
    [ "$(json '$.first[0].tokens[#-1].labelled' <json)" = 1 ]
    [ "$(json '$.first[0].tokens[#-1].id' <json)" = 1 ]
}

@test "tokenize: rows that are cut, and what the job would refuse" {
    alpaca_job 'train_on_input: true' 'batch_size: 1' 'tokenizer: {max_seq_len: 60}'
    "$model" tokenize job.yaml --rows 0 >text
    grep -q 'the longest has 60, 2 cut at max_seq_len, which takes [1-9][0-9]* of [0-9]* labelled tokens$' text
    [ "$(wc -l <text)" -eq 1 ]
    "$model" --json tokenize job.yaml >json
    [ "$(json '$.lost' <json)" = "$(sed 's/.*takes \([0-9]*\) of.*/\1/' text)" ]
    printf '%s\n' '{"instruction": "Say it."}' >>rows.jsonl
    refused 65 "row 3: line 3: " tokenize job.yaml
}

@test "tokenize: prompts and completions; keys that are not read" {
    alpaca_job 'train_on_input: false' 'batch_size: 1'
    sed -i 's/template: alpaca/template: prompt_completion/' job.yaml
    printf '%s\n' '{"prompt": "So it", "completion": " is."}' >rows.jsonl
    "$model" tokenize job.yaml >text
    grep -qxF '<|1|> So it[[ is.<|1|>]]' text || grep -qxF '<|1|>So it[[ is.<|1|>]]' text
    printf '%s\n' '{"prompt": [{"role": "user", "content": "a", "name": "x"}], "completion": [{"role": "assistant", "content": "It."}]}' >>rows.jsonl
    "$model" tokenize job.yaml --rows 0 >text
    grep -q "rows.jsonl:2: a message has the key 'name', which is not read (1 row)$" text
}

@test "tokenize --cache: a job maps what was tokenised ahead" {
    alpaca_job 'train_on_input: false' 'batch_size: 1' \
        'dataset_val: {path: rows.jsonl, split: "train[:1]"}'
    refused 64 "--beside needs --cache" tokenize job.yaml --beside
    export XDG_CACHE_HOME=$PWD/xdg
    mkdir xdg
    "$model" tokenize job.yaml --rows 0 --cache >text 2>said
    grep -q '^2 rows, ' text
    [ "$(grep -c "tokenised rows are cached in '$PWD/xdg/mgpu/" said)" -eq 2 ]
    [ "$(find xdg -name '*.tokens' | wc -l)" -eq 2 ]
    "$model" tokenize job.yaml --rows 0 --cache >again 2>said
    cmp text again
    [ ! -s said ]
    "$model" -q tokenize job.yaml --rows 0 --cache --beside >again 2>said
    cmp text again
    [ ! -s said ]
    [ "$(find .mgpu -name '*.tokens' | wc -l)" -eq 2 ]
    # The ranks of a job with that data, which is large enough, have the name.
    "$BASH" -c 'for ((i = 0; i < 60; i++)); do
        printf "{\"input_ids\": ["
        printf "%s, " {100..400} {100..400} {100..400} {100..400} {100..400} \
            {100..400} {100..400} {100..400} {100..400} {100..400} \
            {100..400} {100..400} {100..400} {100..400} {100..400}
        printf "7]}\n"
    done' >long.jsonl
    cat long.jsonl long.jsonl long.jsonl long.jsonl >rows.jsonl
    [ "$(stat -c %s rows.jsonl)" -ge 4194304 ]
    sed -i 's/alpaca/tokens/; s/, train_on_input: false//; /dataset_val/d' job.yaml
    printf '  tokenizer: {max_seq_len: 8}\n  max_steps_per_epoch: 1\n' >more
    sed -i '/batch_size/r more' job.yaml
    rm -r .mgpu
    "$model" -q tokenize job.yaml --rows 0 --cache
    [ "$(find xdg -name '*.tokens' | wc -l)" -eq 3 ]
    timeout "$compute_s" "$MGPU_BIN/mgpu-worker" --standalone job.yaml --dir run \
        --alone >log 2>&1
    cat log
    not grep -q 'tokenised rows are cached' log
    [ "$(find xdg -name '*.tokens' | wc -l)" -eq 3 ]
}
