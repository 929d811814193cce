#!/usr/bin/env bats
# export.bats - mgpu-model export: a model directory as a GGUF file.
#
# tests/golden/gguf_check.py compares such files with the package gguf, and with
# llama.cpp, by hand; here their bytes are pinned. A digest may change only
# together with a run of that script.
# shellcheck disable=SC2094,SC2154 # run sets stderr

bats_require_minimum_version 1.5.0
load helpers

model=$MGPU_BIN/mgpu-model
data=$MGPU_SRC/tests/data
stories=$MGPU_SRC/jobs/examples/stories260K

setup() { cd "$BATS_TEST_TMPDIR" || return 1; }

# refused STATUS TEXT WORD...: mgpu-model with these words is, and leaves no file.
refused() {
    local want=$1 text=$2
    shift 2
    run --separate-stderr "$model" "$@"
    echo "$stderr"
    [ "$status" -eq "$want" ] && [ -z "$output" ]
    [[ $stderr == "mgpu-model: "*"$text"* ]]
    [ ! -e out.gguf ] && [ ! -e out.gguf.tmp ]
}

# digest FILE: the first 16 digits of its SHA-256.
digest() { sha256sum <"$1" | cut -c1-16; }

# small NAME [PRE_TOKENIZER]: a copy of tests/data/llama-NAME with a tokenizer of
# bytes, an added token and a chat template.
small() {
    local pre=${2:-'{"type": "ByteLevel", "add_prefix_space": false}'}
    rm -rf "$1"
    cp -r "$data/llama-$1" "$1"
    cat >"$1/tokenizer.json" <<END
{"model": {"type": "BPE", "vocab": {"a": 4, "b": 5, "\u0120": 6, "ab": 7, "\u0120a": 8},
           "merges": [["a", "b"], "\u0120 a"]},
 "added_tokens": [{"id": 1, "content": "<s>", "special": true},
                  {"id": 2, "content": "</s>", "special": true},
                  {"id": 9, "content": "<tool>", "special": false}],
 "pre_tokenizer": $pre,
 "post_processor": {"type": "TemplateProcessing", "single":
    [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]}}
END
    cat >"$1/tokenizer_config.json" <<END
{"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": "</s>",
 "chat_template": "{{ messages[0].content }}"}
END
}

# drawn NAME: a Qwen3 of one layer in bf16, without biases, and its tokenizer.
drawn() {
    small qwen3
    jq '. + {attention_bias: false, hidden_size: 32, head_dim: 16, num_attention_heads: 2,
        num_key_value_heads: 1, intermediate_size: 32, num_hidden_layers: 1}' \
        "$data/llama-qwen3/config.json" >qwen3/config.json
    jq -jnc '[["embed_tokens", 80, 32], ["layers.0.input_layernorm", 32],
        ["layers.0.self_attn.q_proj", 32, 32], ["layers.0.self_attn.k_proj", 16, 32],
        ["layers.0.self_attn.v_proj", 16, 32], ["layers.0.self_attn.q_norm", 16],
        ["layers.0.self_attn.k_norm", 16], ["layers.0.self_attn.o_proj", 32, 32],
        ["layers.0.post_attention_layernorm", 32], ["layers.0.mlp.gate_proj", 32, 32],
        ["layers.0.mlp.up_proj", 32, 32], ["layers.0.mlp.down_proj", 32, 32],
        ["norm", 32], ["lm_head", 80, 32]] |
        reduce .[] as $t ({at: 0, all: {}}; (.at + 2 * ($t[1] * ($t[2] // 1))) as $to |
            .all[(if $t[0] == "lm_head" then "" else "model." end) + $t[0] + ".weight"] =
            {dtype: "BF16", shape: $t[1:], data_offsets: [.at, $to]} | .at = $to) | .all' >header
    {
        printf '%b' "$(printf '\\x%02x\\x%02x\\0\\0\\0\\0\\0\\0' \
            $(($(stat -c %s header) % 256)) $(($(stat -c %s header) / 256)))"
        cat header
        awk 'BEGIN { for (i = 0; i < 2000; i++) printf "0<1=2>3<4;5:6=7>8" }' |
            head -c "$(jq '[.[].data_offsets[1]] | max' header)"
    } >qwen3/model.safetensors
}

@test "a command, its operand and its options are checked" {
    refused 64 "expected export DIR" export
    refused 64 "export needs --gguf TYPE and --output FILE" export DIR --gguf f16
    refused 64 "export needs --gguf TYPE and --output FILE" export DIR -o out.gguf
    refused 64 "--gguf: 'q4_0' is not f16, bf16 or q8_0" \
        export DIR --gguf q4_0 -o out.gguf
    refused 64 "export takes no --adapter" export DIR --adapter a
}

@test "the bytes of a small Llama with a sentencepiece model" {
    for type in f16 bf16 q8_0; do
        "$model" export --gguf "$type" "$stories" -o "$type.gguf" >said 2>warned
        grep -qx "47 tensors, $(stat -c %s "$type.gguf") bytes in $type.gguf" said
        echo "$type $(digest "$type.gguf")"
    done >digests
    cat digests
    diff digests - <<'END'
f16 1a9b5bedef40dd6b
bf16 5272556ff68d292a
q8_0 9a372da29c1d6cff
END
    grep -qx 'warning: 5 matrices are f16: q8_0 needs rows of a multiple of 32 values' warned
}

@test "the bytes of other architectures, rotations and biases, with a BPE" {
    for name in tied untied biases mistral qwen2 qwen3; do
        small "$name"
        [ "$name" != qwen3 ] || drawn
        [ "$name" != qwen2 ] || jq '.rope_scaling.truncate = true' \
            "$data/llama-qwen2/config.json" >qwen2/config.json
        for type in bf16 q8_0; do
            "$model" -q export --gguf "$type" "$name" -o "$name.$type"
            echo "$name $type $(digest "$name.$type")"
        done
    done >digests
    cat digests
    diff digests - <<'END'
tied bf16 6eca3737994b6f09
tied q8_0 d9b2371597c22bd9
untied bf16 48559d035271f9d9
untied q8_0 486d02d6c407d2e8
biases bf16 66f4eb184aea7f78
biases q8_0 7c999aec49a3efd0
mistral bf16 8fec11ba75ec3b13
mistral q8_0 f3a82f6123bcd27b
qwen2 bf16 b7d73c6791b8eb20
qwen2 q8_0 3130ec3eeaa7bcbd
qwen3 bf16 4afb083ba9cbb6d9
qwen3 q8_0 18aed6d85fc24062
END
}

@test "what the tokenizer's files say is in the file" {
    drawn
    "$model" --json export --gguf f16 qwen3 -o out.gguf >said
    [ "$(json '$.tensors' <said)" = 14 ]
    [ "$(json '$.chat_template' <said)" = 1 ]
    [ "$(json '$.bytes' <said)" = "$(stat -c %s out.gguf)" ]
    strings -n 4 out.gguf >text
    for word in qwen3.attention.key_length tokenizer.ggml.merges gpt-2 '<tool>' \
        '\[PAD79\]' tokenizer.ggml.add_bos_token tokenizer.ggml.padding_token_id \
        '{{ messages\[0\].content }}' blk.0.attn_q_norm.weight output.weight; do
        grep -q "$word" text || { echo "no $word" && return 1; }
    done
    grep -q 'rope.dimension_count\|tokenizer.ggml.scores' text && return 1
    return 0
}

@test "a window is written, with a warning" {
    small mistral
    "$model" export --gguf f16 mistral -o out.gguf 2>warned
    grep -q '^warning: the model has a sliding window of 5 tokens: ' warned
    grep -aq llama.attention.sliding_window out.gguf
}

# scaled CHANGE: the Qwen2 with another yarn.
scaled() { jq ".rope_scaling.truncate = true | $1" "$data/llama-qwen2/config.json" >qwen2/config.json; }

@test "yarn is written as it is computed, or refused" {
    small qwen2
    scaled '.rope_scaling.attention_factor = 1.25'
    refused 65 "attention_factor 1.25 of yarn: readers of GGUF compute with 0.1 ln(factor) + 1 = 1.138629" \
        export --gguf f16 qwen2 -o out.gguf
    scaled '.rope_scaling.attention_factor = 1.1386294361119891'
    "$model" -q export --gguf f16 qwen2 -o equal.gguf
    scaled '.rope_scaling.beta_fast = 32 | .rope_scaling.beta_slow = 1'
    "$model" -q export --gguf f16 qwen2 -o usual.gguf
    # which a 0 stands for, as in transformers
    scaled '.rope_scaling.beta_fast = 0 | .rope_scaling.beta_slow = 0'
    "$model" -q export --gguf f16 qwen2 -o zero.gguf
    cmp usual.gguf zero.gguf
}

@test "what is no model, or one that llama.cpp does not have, is refused" {
    refused 66 "nowhere" export --gguf f16 nowhere -o out.gguf
    refused 65 "mgpu-model merge BASE --adapter $data/llama-tied/adapter -o MERGED" \
        export --gguf f16 "$data/llama-tied/adapter" -o out.gguf
    refused 66 "there is no tokenizer.model and no tokenizer.json" \
        export --gguf f16 "$data/llama-tied" -o out.gguf
    refused 65 "truncate: false of yarn has no key in GGUF" \
        export --gguf f16 "$data/llama-qwen2" -o out.gguf
    small qwen3
    jq '.architectures = ["GPT2LMHeadModel"]' "$data/llama-qwen3/config.json" >qwen3/config.json
    refused 65 "GPT2LMHeadModel: this version trains" \
        export --gguf f16 qwen3 -o out.gguf
    refused 65 "attention_bias: llama.cpp has no Qwen3 with biases" \
        export --gguf f16 "$data/llama-qwen3" -o out.gguf
    jq '.attention_bias = false | .rope_scaling = {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
        "high_freq_factor": 4, "original_max_position_embeddings": 64}' \
        "$data/llama-qwen3/config.json" >qwen3/config.json
    refused 65 'rope_type "llama3": llama.cpp has it for Llama, not for a Qwen3' \
        export --gguf f16 qwen3 -o out.gguf
}

@test "a tokenizer that llama.cpp would read otherwise is refused" {
    small untied '{"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": false},
        {"type": "ByteLevel", "add_prefix_space": false}]}'
    refused 65 "tokenizer.json: pre_tokenizer: llama.cpp has a name for" \
        export --gguf f16 untied -o out.gguf
    cp "$MGPU_SRC/tests/golden/hf_tokenizers/words/tokenizer.json" untied
    refused 65 "model.ignore_merges is set: llama.cpp merges" \
        export --gguf f16 untied -o out.gguf
    cp "$MGPU_SRC/tests/golden/hf_tokenizers/qwen2/tokenizer.json" untied
    refused 65 "vocab_size of config.json is 80" \
        export --gguf f16 untied -o out.gguf
}

# put_value DIR TENSOR HEX: the first value of a tensor of stories260K.
put_value() {
    local file=$1/model.safetensors n at
    n=$(od -An -tu8 -N8 "$file")
    at=$(dd if="$file" bs=1 skip=8 count=$((n)) status=none |
        jq --arg t "$2" '.[$t].data_offsets[0]')
    printf '%b' "$3" | dd of="$file" bs=1 seek=$((8 + n + at)) conv=notrunc status=none
}

@test "a value that is not finite, or does not fit, is named" {
    cp -r "$stories" bad
    put_value bad model.layers.1.mlp.up_proj.weight '\x00\x24\x74\x49' # 1e6
    refused 65 "a value of 'blk.1.ffn_up.weight' is too large for f16: export it as bf16" \
        export --gguf f16 bad -o out.gguf
    "$model" -q export --gguf bf16 bad -o large.gguf
    put_value bad model.layers.1.mlp.up_proj.weight '\x00\x00\xc0\x7f'
    refused 65 "a value of 'blk.1.ffn_up.weight' is NaN" \
        export --gguf q8_0 bad -o out.gguf
}

@test "a file that is there stays, and a full disk leaves nothing" {
    echo kept >there
    run --separate-stderr "$model" export --gguf f16 "$stories" -o there
    [ "$status" -eq 73 ]
    [[ $stderr == *"'there' exists: name a new file, or remove it" ]]
    [ "$(cat there)" = kept ]
    run bash -c "ulimit -f 300; trap '' XFSZ; '$model' export --gguf f16 '$stories' \
        -o out.gguf"
    echo "$output"
    [ "$status" -eq 74 ]
    [ ! -e out.gguf ] && [ ! -e out.gguf.tmp ]
    refused 66 "no/out.gguf" export --gguf f16 "$stories" -o no/out.gguf
}
