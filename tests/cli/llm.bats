#!/usr/bin/env bats
# llm.bats - jobs of kind llm as a user meets them: what is refused and how,
# that an interrupted job goes on with the same bits, what is left at the end.

bats_require_minimum_version 1.5.0
load helpers
load llm

# Whatever a failed test left behind.
teardown() {
    local pid
    ctld_stop
    for pid in $(worker_pids); do kill -KILL "$pid" 2>/dev/null || true; done
}

# ---- what is refused --------------------------------------------------------

@test "a model that is none of ours is refused by its config.json" {
    local key="train.checkpointer.checkpoint_dir: "
    other_model '.architectures = ["Gemma2ForCausalLM"]'
    llm_spec lora fp32 1
    refused 65 "$key" "config.json: Gemma2ForCausalLM: this version trains LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM"
    other_model '.attention_bias = true'
    refused 65 "$key" "8 tensors do not fit config.json: no 'model.layers.0.self_attn.q_proj.bias'"
    other_model '.architectures = ["Qwen2ForCausalLM"] | .use_sliding_window = true |
        .layer_types = ["full_attention"]'
    refused 65 "$key" "layer_types must be a list of num_hidden_layers 2 words"
    other_model '.architectures = ["Qwen2ForCausalLM"]'
    change 's/checkpointer: {/checkpointer: {model_type: LLAMA3, /'
    refused 65 "train.checkpointer.model_type: LLAMA3: the model is a Qwen2ForCausalLM: name one of QWEN2, or none"
    llm_spec lora fp32 1
    other_model '.num_key_value_heads = 3'
    refused 65 "$key" "num_attention_heads 4 must be a multiple of num_key_value_heads 3"
    other_model 'del(.head_dim) | .hidden_size = 30'
    refused 65 "$key" "hidden_size 30 must be a multiple of num_attention_heads 4"
    rm "$model/config.json"
    refused 66 "$key" "open '$model/config.json': No such file or directory"
}

@test "tensors that are missing, left over or misshapen are listed" {
    local key="train.checkpointer.checkpoint_dir: " names
    other_model '.num_hidden_layers = 3'
    llm_spec lora fp32 1
    refused 65 "$key" \
        "9 tensors do not fit config.json: no 'model.layers.2.input_layernorm.weight', no 'model.layers.2." " and 6 more"
    other_model '.num_hidden_layers = 1'
    refused 65 "$key" "9 tensors do not fit config.json: left over 'model.layers.1." " more"
    other_model '.vocab_size = 81'
    refused 65 "$key" "1 tensor does not fit config.json: 'model.embed_tokens.weight' is 96x32, not 81x32"
    other_model '.num_hidden_layers = 40'
    refused 65 "342 tensors do not fit config.json: no " " more"
    names=$(grep -o "'model[^']*'" <<<"$output" | wc -l)
    [ "$names" -ge 1 ] && [ "$names" -le 10 ]
    [[ $output == *" and $((342 - names)) more"* ]]
    rm "$model/model.safetensors"
    refused 66 "$key" "no model.safetensors and no model.safetensors.index.json in '$model'"
}

@test "rows that cannot be packed or teach nothing are refused, or skipped" {
    local key="train.dataset.path: "
    llm_spec lora fp32 1
    change 's/rows.jsonl/rows.jsonl, packed: true/'
    refused 65 "'train.dataset.packed' needs train.tokenizer.max_seq_len" \
        "hint: as in tokenizer: {max_seq_len: 2048}"
    own_rows '{"input_ids": [1, 2, 3]}' '{"input_ids": [1, 2, 3, 4, 5]}'
    llm_spec lora fp32 1 "tokenizer: {max_seq_len: 4}"
    change 's/rows.jsonl/rows.jsonl, packed: true/'
    refused 65 "$key" "rows.jsonl: row 2: line 2: its 5 tokens do not fit into a pack of train.tokenizer.max_seq_len 4: change it, or set on_bad_row: skip"
    change 's/packed: true/packed: true, on_bad_row: skip/; s/batch_size: 2/batch_size: 1/'
    run -0 worker 1
    [[ $output == *"left out 1 row: "*"row 2: line 2: its 5 tokens do not fit into a pack of train.tokenizer.max_seq_len 4"* ]]
    [[ $output != *"or set on_bad_row"* ]]
    [[ $output == *"data: 1 rows (1 packs of 4 tokens, 25.0 % padding; best_fit: 25.0 %)"* ]]
    grep -q '"exit_code":0,"why":"left out of the last epoch.*: 1 rows"' "$dir/report.json"

    own_rows '{"input_ids": [1, 2]}' '{"input_ids": [1, 2], "labels": [1, -100]}'
    llm_spec lora fp32 1
    refused 65 "$key" "row 2: line 2: none of its 2 tokens counts in the loss: change it, or set on_bad_row: skip"
    change 's/rows.jsonl/rows.jsonl, on_bad_row: skip/; s/batch_size: 2/batch_size: 1/'
    rm -rf "$dir"
    run -0 worker 1
    [[ $output == *"left out 1 row: "*"row 2: line 2: none of its 2 tokens counts in the loss"* ]]
}

@test "data that is empty, foreign or of another vocabulary is refused" {
    local key="train.dataset.path: "
    own_rows '{"input_ids": [1, 2]}' '{"input_ids": [1, 2, 96]}'
    llm_spec lora fp32 1
    refused 65 "$key" "rows.jsonl: row 2: token id 96, the model has 0 to 95: use its own tokenizer"
    : >"$rows"
    refused 65 "$key$rows: no rows, it needs one"
    own_rows '{"text": "Once"}'
    refused 65 "$key" "row 1: line 1: 'input_ids' is missing"
    rm "$rows"
    refused 66 "$key" "open '$rows': No such file or directory"
    llm_spec lora fp32 1 "dataset_val: {path: /nonexistent}"
    rows=$data/llama-tied/rows.jsonl
    change "s|path: .*/rows.jsonl|path: $rows|"
    refused 66 "train.dataset_val.path: open '/nonexistent'"
    llm_spec lora fp32 1
    change 's/template: tokens/template: alpaca/'
    refused 66 "train.tokenizer.path: " "$data/llama-tied has no tokenizer.model"
    llm_spec lora fp32 1 "tokenizer: {max_seq_len: 4000}"
    change 's/rows.jsonl/rows.jsonl, packed: true/'
    refused 65 "train.tokenizer.max_seq_len: rows have up to 4000 tokens, the model in $data/llama-tied has 2048 positions: set 2048 or less"
}

@test "keys that another method or kind has are refused, with a hint" {
    llm_spec full fp32 1 "model: {lora_rank: 4}"
    refused 65 "'train.model.lora_rank' is only for methods with adapters" \
        "hint: remove it, or set method: lora"
    llm_spec lora fp32 1 "optimizer: {name: rmsprop}"
    refused 65 "'train.optimizer.name: rmsprop' is only for kind: cv" \
        "hint: one of: adamw, sgd"
    llm_spec lora fp32 1 "optimizer: {name: lion}"
    refused 65 "'train.optimizer.name' must be one of: sgd, adamw" "'lion'"
    for word in ddp ddp-rr dp; do
        llm_spec lora fp32 1 "distribution: $word"
        refused 65 "'train.distribution: $word' is only for kind: cv" \
            "hint: one of: ddp-ds, fsdp"
    done
    llm_spec lora fp32 1 "model: {lora_attn_modules: [w_proj]}"
    refused 65 "'w_proj' is not a matrix of attention" \
        "hint: one of: q_proj, k_proj, v_proj, output_proj"
}

@test "a job that exceeds the memory is refused, with what each key saves" {
    llm_spec lora fp32 1 "tokenizer: {max_seq_len: 2048}"
    change 's/rows.jsonl/rows.jsonl, packed: true/; s/batch_size: 2/batch_size: 65536/'
    refused 71 "the model needs 499.5 GiB: activations 343.5, work 156.0; enable_activation_checkpointing saves 139.0, batch_size 1 saves 499.5: 1 rank of " \
        " MiB do not fit in the " " has left"
    llm_spec full fp32 1 "tokenizer: {max_seq_len: 2048}" "enable_activation_checkpointing: true"
    change 's/rows.jsonl/rows.jsonl, packed: true/; s/batch_size: 2/batch_size: 65536/'
    refused 71 "; batch_size 1 saves " " has left"
    [[ $output != *"checkpointing saves"* ]]
}

@test "a model that would be overwritten is refused" {
    other_model .
    ln -s model "$BATS_TEST_TMPDIR/link"
    llm_spec full fp32 1 "output_dir: $BATS_TEST_TMPDIR/link"
    refused 65 "train.output_dir: '$BATS_TEST_TMPDIR/link' is train.checkpointer.checkpoint_dir, whose model this job would overwrite: name another directory"
    cmp "$data/llama-tied/model.safetensors" "$model/model.safetensors"
    # An adapter takes nobody's place.
    llm_spec lora fp32 1 "output_dir: $BATS_TEST_TMPDIR/link"
    run -0 worker 1
    [ -s "$model/adapter_model.safetensors" ]
}

@test "an adapter of another rank, alpha or target is refused" {
    local key="train.checkpointer.adapter_checkpoint: "
    adapter_spec() { # KEY: VALUE... of train.model
        llm_spec lora fp32 1 "model: {$1}"
        change "s|llama-tied}|llama-tied, adapter_checkpoint: $data/llama-tied/adapter}|"
    }
    local all="lora_attn_modules: [q_proj, k_proj, v_proj, output_proj]"
    adapter_spec "lora_rank: 3, lora_alpha: 8, $all"
    refused 65 "${key}its rank is 4, the job's is 3: remove lora_rank, or set it to 4"
    adapter_spec "lora_rank: 4, lora_alpha: 2.5, $all"
    refused 65 "${key}its alpha is 8, the job's is 2.5: remove lora_alpha, or set it to 8"
    adapter_spec "lora_rank: 4, lora_alpha: 8, lora_attn_modules: [q_proj]"
    refused 65 "${key}it is for q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, the job's are for q_proj, gate_proj, up_proj, down_proj: remove lora_attn_modules"
    adapter_spec "lora_rank: 4, lora_alpha: 8, $all"
    run -0 worker 1
    adapter_spec "apply_lora_to_mlp: false"
    refused 65 "${key}it is for q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, the job's are for q_proj, k_proj, v_proj, o_proj: remove"
    adapter_spec "apply_lora_to_output: true"
    refused 65 "the job's are for q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, lm_head: remove"
    # What it does not name is the adapter's.
    adapter_spec ""
    run -0 worker 1
    jq -e '.r == 4 and .lora_alpha == 8 and (.target_modules | length) == 7' \
        "$dir/out/adapter_config.json"
    # A model that does not fit is not said to be the adapter's fault.
    other_model '.vocab_size = 81'
    change "s|checkpoint_dir: [^,]*|checkpoint_dir: $model|"
    refused 65 "train.checkpointer.checkpoint_dir: 1 tensor does not fit"
    [[ $output != *"$key"* ]]
}

@test "an adapter of many ranks is trained, saved and merged as it is" {
    local from=$data/llama-mistral/adapter-patterns
    model=$data/llama-mistral
    rows=$data/llama-untied/rows.jsonl
    llm_spec lora fp32 1 "optimizer: {lr: 1e-3}"
    change "s|llama-mistral}|llama-mistral, adapter_checkpoint: $from}|"
    run -0 worker 2
    [[ $output == *"of adapters of rank 1 to 6"* ]]
    grep -qx '# Adapters of rank 1 to 6 for llama-mistral' "$dir/out/README.md"
    grep -qx -- '- Result: no evaluation.' "$dir/out/README.md"
    local keys='{r, lora_alpha, use_rslora, rank_pattern, alpha_pattern, target_modules}'
    diff <(jq -S "$keys" "$from/adapter_config.json") \
        <(jq -S "$keys" "$dir/out/adapter_config.json")
    run -0 "$MGPU_BIN/mgpu-model" merge "$model" --adapter "$dir/out" --output "$BATS_TEST_TMPDIR/merged"
}

# ---- interrupted jobs -------------------------------------------------------

# same_curve RANKS FILE...: a run to the end that nobody disturbs has the
# losses of these spools.
same_curve() {
    local ranks=$1 file to
    shift
    rm -rf "$dir"
    worker "$ranks" >/dev/null
    losses "$dir/spool.0" | sort >"$BATS_TEST_TMPDIR/want"
    to=$(wc -l <"$BATS_TEST_TMPDIR/want")
    for file; do
        losses "$file" "$to" | sort >"$BATS_TEST_TMPDIR/got"
        [ -s "$BATS_TEST_TMPDIR/got" ]
        [ -z "$(comm -23 "$BATS_TEST_TMPDIR/got" "$BATS_TEST_TMPDIR/want")" ]
    done
}

# interrupt SIGNAL STATUS RANKS METHOD PRECISION: in mid run, then resumed.
interrupt() {
    local extra=("gradient_accumulation_steps: 2") pid n first=$BATS_TEST_TMPDIR/first
    [ "$4" = full ] || extra+=("model: {lora_dropout: 0.1}")
    rm -rf "$dir"
    llm_spec "$4" "$5" 10000 "${extra[@]}"
    change '/^  gradient_accumulation_steps: 1$/d'
    worker "$3" >"$BATS_TEST_TMPDIR/log" 2>&1 &
    pid=$!
    has_begun() { [ "$(newest "$dir/out")" -ge 14 ] || ! kill -0 "$pid"; }
    wait_for 60 has_begun
    kill -0 "$pid" || { cat "$BATS_TEST_TMPDIR/log"; return 1; }
    # shellcheck disable=SC2046
    kill "-$1" $(worker_pids)
    ends_with "$2" "$pid"
    gone() { [ -z "$(worker_pids)" ]; }
    wait_for 30 gone
    n=$(newest "$dir/out")
    mv "$dir/spool.0" "$first"
    llm_spec "$4" "$5" $((n / 2 + 5)) "${extra[@]}"
    change '/^  gradient_accumulation_steps: 1$/d'
    run -0 worker "$3"
    [[ $output == *"resumed at iteration $n of"* ]]
    [ "$(losses "$dir/spool.0" | head -n 1 | cut -d' ' -f1)" -eq $((n + 1)) ]
    mv "$dir/spool.0" "$BATS_TEST_TMPDIR/second"
    same_curve "$3" "$first" "$BATS_TEST_TMPDIR/second"
}

@test "ranks that are killed: the next run has the same losses to the last bit" {
    interrupt KILL 137 2 lora fp32
    interrupt KILL 137 1 lora bf16
    interrupt KILL 137 1 full fp32
    interrupt KILL 137 2 full bf16
}

@test "SIGTERM: checkpoint, 143, and the same losses afterwards" {
    interrupt TERM 143 2 lora bf16
    grep -q "^stopped by signal, checkpoint at iteration $(sed -n 's/^resumed at iteration \([0-9]*\) .*/\1/p' <<<"$output")" "$BATS_TEST_TMPDIR/log"
    interrupt TERM 143 1 full bf16
}

@test "SIGTERM without checkpoint.on_signal: no checkpoint" {
    llm_spec lora fp32 10000
    change 's/every: 7steps/every: 10000epoch, on_signal: false/'
    worker 1 >"$BATS_TEST_TMPDIR/log" 2>&1 &
    local pid=$!
    wait_for 60 grep -qs '"iteration":5,' "$dir/spool.0"
    # shellcheck disable=SC2046
    kill -TERM $(worker_pids)
    ends_with 143 "$pid"
    [ "$(newest "$dir/out")" -eq 0 ]
    grep -q '^stopped by signal, no checkpoint at iteration' "$BATS_TEST_TMPDIR/log"
}

# daemon_spec: to be given to a daemon, on one slot.
daemon_spec() {
    llm_spec "$@" "output_dir: $dir/out"
    change 's/gpus: 0/gpus: 1/'
}

sql() { sqlite3 -readonly "$ctld_dir/state/${2:-metrics}.db" "$1"; }

@test "a job of the daemon that is killed goes on; one that is cancelled stops" {
    local id log at calm
    ctld_start
    daemon_spec lora bf16 10000 "model: {lora_dropout: 0.1}"
    change 's/resume: latest/max: 1, on: [signal], backoff: 1s, resume: latest/'
    id=$("$MGPU_BIN/mgpu-submit" --parsable "$BATS_TEST_TMPDIR/spec.yaml")
    log=$ctld_dir/state/jobs/$id
    has_begun() { [ "$(newest "$dir/out")" -ge 14 ]; }
    wait_for 60 has_begun
    # shellcheck disable=SC2046
    kill -KILL $(worker_pids)
    wait_for 60 grep -qs 'resumed at iteration' "$log/2/log"
    at=$(sed -n 's/.*resumed at iteration \([0-9]*\) .*/\1/p' "$log/2/log")
    has_gone_on() { [ "$(newest "$dir/out")" -ge $((at + 14)) ]; }
    wait_for 60 has_gone_on
    "$MGPU_BIN/mgpu-cancel" --quiet "$id"
    wait_for 60 job_is "$id" CANCELLED
    grep -q "stopped by signal, checkpoint at iteration $(newest "$dir/out")" "$log/2/log"
    # What was computed twice is the same, as is what nobody disturbs.
    [ "$(sql "SELECT count(*) FROM (SELECT iteration FROM v_iteration WHERE job = $id
        GROUP BY iteration HAVING min(loss) != max(loss))")" -eq 0 ]
    daemon_spec lora bf16 $((at / 10 + 2)) "model: {lora_dropout: 0.1}"
    change "s|$dir/out|$dir/calm|"
    calm=$("$MGPU_BIN/mgpu-submit" --parsable "$BATS_TEST_TMPDIR/spec.yaml")
    "$MGPU_BIN/mgpu-stat" --wait "$calm"
    [ "$(sql "SELECT count(*) > $at AND count(*) = sum(hurt.loss = calm.loss)
        FROM v_iteration AS calm JOIN v_iteration AS hurt USING (iteration)
        WHERE hurt.job = $id AND calm.job = $calm")" -eq 1 ]
}

# ---- what is left -----------------------------------------------------------

# In a list of mgpu-worker's output, the last evaluation loss.
eval_loss() { sed -n 's/.*evaluation loss \([0-9.]*\).*/\1/p' | tail -n 1; }

@test "LoRA leaves an adapter as PEFT writes it, and a job goes on from it" {
    local val="dataset_val: {path: $data/llama-tied/rows.jsonl}" last
    llm_spec lora fp32 2 "$val" "optimizer: {lr: 1e-2}" \
        "model: {lora_rank: 4, lora_alpha: 6, lora_dropout: 0.25, lora_attn_modules: [q_proj, output_proj]}"
    run -0 worker 1
    last=$(eval_loss <<<"$output")
    [[ $output =~ epoch\ 2/2:\ .*,\ evaluation\ loss\ [0-9.]+,\ [0-9]+\ tokens/s ]]
    [[ $output != *accuracy* && $output != *samples/s* ]]
    [[ $output == *"saved in $dir/out"* ]]
    jq -e --arg base "$data/llama-tied" '.peft_type == "LORA" and .r == 4
        and .task_type == "CAUSAL_LM" and .lora_alpha == 6
        and .lora_dropout == 0.25 and .bias == "none"
        and .base_model_name_or_path == $base
        and .target_modules == ["q_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]' \
        "$dir/out/adapter_config.json"
    # A file of safetensors: the length of a JSON text, which names tensors.
    tail -c +9 "$dir/out/adapter_model.safetensors" |
        head -c "$(od -An -t u8 -N 8 "$dir/out/adapter_model.safetensors" | tr -d ' ')" |
        jq -e 'del(.__metadata__) | length == 20 and
            .["base_model.model.model.layers.1.self_attn.o_proj.lora_B.weight"].shape == [32, 4]
            and .["base_model.model.model.layers.0.mlp.down_proj.lora_A.weight"].shape == [4, 48]'
    [ ! -e "$dir/out/model.safetensors" ]
    # Its first evaluation, behind an update that is too small to be seen.
    mv "$dir" "$dir.first"
    llm_spec lora fp32 1 "$val" "optimizer: {lr: 1e-30, weight_decay: 0}" \
        "model: {lora_rank: 4, lora_alpha: 6, lora_attn_modules: [q_proj, output_proj]}"
    change "s|llama-tied}|llama-tied, adapter_checkpoint: $dir.first/out}|"
    run -0 worker 1
    [ -n "$last" ]
    [ "$(eval_loss <<<"$output")" = "$last" ]
}

@test "full leaves a model that a job can start from" {
    local val="dataset_val: {path: $data/llama-tied/rows.jsonl, template: tokens}" last
    model=$stories
    rows=$data/llama-tied/rows.jsonl
    llm_spec full fp32 2 "$val" "optimizer: {lr: 1e-3}"
    run -0 worker 1
    last=$(eval_loss <<<"$output")
    [ -n "$last" ]
    cmp "$stories/config.json" "$dir/out/config.json" ||
        jq -e '.architectures == ["LlamaForCausalLM"]' "$dir/out/config.json"
    cmp "$stories/tokenizer.model" "$dir/out/tokenizer.model"
    [ -s "$dir/out/model.safetensors" ]
    [ ! -e "$dir/out/adapter_config.json" ]
    mv "$dir" "$dir.first"
    model=$dir.first/out
    llm_spec full fp32 1 "$val" "optimizer: {lr: 1e-30, weight_decay: 0}"
    run -0 worker 1
    [ "$(eval_loss <<<"$output")" = "$last" ]
}

@test "an output layer of its own is used, whatever config.json says" {
    local val="dataset_val: {path: $data/llama-untied/rows.jsonl, template: tokens}" k
    local losses=()
    rows=$data/llama-untied/rows.jsonl
    for k in true false; do
        model=$BATS_TEST_TMPDIR/$k
        cp -r "$data/llama-untied" "$model"
        jq ".tie_word_embeddings = $k" "$data/llama-untied/config.json" >"$model/config.json"
        llm_spec full fp64 1 "$val"
        run -0 worker 1
        losses+=("$(eval_loss <<<"$output")")
        [ "$(grep -c 'warning: config.json says tie_word_embeddings: true' <<<"$output")" \
            = "$([ "$k" = true ] && echo 1 || echo 0)" ]
        jq -e '.tie_word_embeddings == false' "$dir/out/config.json"
        mv "$dir" "$dir.$k"
    done
    [ -n "${losses[0]}" ]
    [ "${losses[0]}" = "${losses[1]}" ]
    cmp "$dir.true/out/model.safetensors" "$dir.false/out/model.safetensors"
}

@test "answers before and after, with the iteration of each" {
    model=$stories
    llm_spec lora fp32 1 "optimizer: {lr: 1e-2}" \
        'sample: {prompts: ["Once upon a time", "A \"red\" ball"], max_new_tokens: 8}'
    run -0 worker 1
    jq -se 'map(.iteration) == [0, 0, 10, 10]
        and (map(.prompt) == ["Once upon a time", "A \"red\" ball",
                              "Once upon a time", "A \"red\" ball"])
        and all(.answer | type == "string")
        and .[0].answer != .[2].answer' "$dir/out/samples.jsonl"
}

@test "answers during training take little of its time" {
    model=$stories
    llm_spec lora fp32 3 "optimizer: {lr: 1e-3}" \
        'sample: {prompts: [A ball], max_new_tokens: 8, every: 2steps, temperature: 0.7, top_k: 40}'
    run -0 worker 1
    jq -se 'map(.iteration) | .[0:2] == [0, 2] and .[-1] == 30
        and all(. % 2 == 0) and . == unique' "$dir/out/samples.jsonl"
    n=$(wc -l <"$dir/out/samples.jsonl")
    # 16 are asked for. The log says when some are left out, and only then.
    said=$(grep -c 'train.sample.every would take more than 5 %' <<<"$output" || :)
    [ "$said" -eq $((n < 16 ? 1 : 0)) ]
    change 's/every: 2steps/every: 2parsecs/'
    refused 65 "train.sample.every"
}

# Keys of torchtune's recipe lora_finetune_single_device.
torchtune_spec() {
    cat >"$BATS_TEST_TMPDIR/spec.yaml" <<END
version: 1
kind: llm
name: t
method: lora
train:
  model:
    _component_: torchtune.models.llama2.lora_llama2_7b
    lora_attn_modules: ['q_proj', 'v_proj']
    apply_lora_to_mlp: False
    lora_rank: 4
    lora_alpha: 8
  tokenizer:
    _component_: torchtune.models.llama2.llama2_tokenizer
    path: $stories/tokenizer.model
    max_seq_len: 512
  checkpointer:
    _component_: torchtune.training.FullModelHFCheckpointer
    checkpoint_dir: $stories
    checkpoint_files: [model.safetensors]
    model_type: LLAMA2
  dataset:
    _component_: torchtune.datasets.alpaca_dataset
    path: $BATS_TEST_TMPDIR/alpaca.json
  seed: 1
  batch_size: 1
  optimizer:
    _component_: torch.optim.AdamW
    fused: True
    lr: 3e-4
  lr_scheduler:
    _component_: torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup
    num_warmup_steps: 1
  loss:
    _component_: torchtune.modules.loss.LinearCrossEntropyLoss
  epochs: 1
  gradient_accumulation_steps: 1
  compile: False
  dtype: fp32
  metric_logger:
    _component_: torchtune.training.metric_logging.DiskLogger
    log_dir: /tmp/logs
resources: {gpus: 0}
END
    cat >"$BATS_TEST_TMPDIR/alpaca.json" <<'END'
[{"instruction": "Who is it?", "input": "Tom ran.", "output": "Tom."},
 {"instruction": "Say yes.", "output": "Yes."}]
END
}

@test "a configuration of torchtune runs, and says what it ignores" {
    torchtune_spec
    run -0 worker 1
    for key in optimizer.fused compile metric_logger; do
        [[ $output == *"warning[W113]: 'train.$key' has no effect here"* ]]
    done
    [[ $output != *_component_* ]]
    [[ $output == *"data: 2 rows of up to "*", none for evaluation, 2 iterations per epoch"* ]]
    jq -e '.target_modules == ["q_proj", "v_proj"]' "$dir/out/adapter_config.json"
}

@test "evaluations of a job are rows; without data for them there is none" {
    local id
    ctld_start
    daemon_spec lora fp32 2 "dataset_val: {path: $data/llama-tied/rows.jsonl}" \
        "run_val_every_n_steps: 4"
    id=$("$MGPU_BIN/mgpu-submit" --parsable "$BATS_TEST_TMPDIR/spec.yaml")
    "$MGPU_BIN/mgpu-stat" --wait "$id"
    [ "$(sql "SELECT group_concat(iteration) FROM (SELECT iteration FROM v_metric
        WHERE job = $id AND name = 'val_loss' AND value > 0 ORDER BY iteration)")" = 4,8,10,12,16,20 ]
    [ "$(sql "SELECT count(*) FROM v_epoch WHERE job = $id AND eval_loss > 0
        AND eval_accuracy IS NULL")" -eq 2 ]
    run -0 "$MGPU_BIN/mgpu-stat" --metrics "$id"
    [[ $output == *tokens/s* || $output == *TOKENS/S* ]]
    [[ $(sql "SELECT class FROM v_attempt WHERE job = $id" state) == llm/llama-tied/lora-r8-*/fp32/* ]]
    rm -rf "$dir"
    daemon_spec lora fp32 2
    id=$("$MGPU_BIN/mgpu-submit" --parsable "$BATS_TEST_TMPDIR/spec.yaml")
    "$MGPU_BIN/mgpu-stat" --wait "$id"
    not grep -q 'evaluation loss' "$ctld_dir/state/jobs/$id/1/log"
    [ "$(sql "SELECT count(*) FROM v_epoch WHERE job = $id AND eval_loss IS NULL
        AND tokens_per_s > 0")" -eq 2 ]
    [ "$(sql "SELECT count(*) FROM v_metric WHERE job = $id AND name = 'val_loss'")" -eq 0 ]
}

@test "the example of DPO ends COMPLETED on two ranks, and tells its rewards" {
    local job
    ctld_start
    job=$("$MGPU_BIN/mgpu-submit" --parsable "$MGPU_SRC/jobs/examples/llama-dpo.yaml")
    run -0 "$MGPU_BIN/mgpu-stat" --wait --timeout "${compute_s}s" "$job"
    [ "$(sql "SELECT count(DISTINCT iteration) FROM v_metric
        WHERE job = $job AND name = 'rewards/margins'")" -eq 24 ]
    [ "$(sql "SELECT value > 1 FROM v_metric
        WHERE job = $job AND name = 'rewards/margins' AND iteration = 24")" -eq 1 ]
}

@test "pairs: accuracies and margins rise, another run reads the reference" {
    export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache
    mkdir "$XDG_CACHE_HOME"
    model=$data/llama-tied rows=$data/pairs.jsonl
    llm_spec dpo fp64 6 "loss: {precompute_reference: true, beta: 0.5}" "optimizer: {lr: 1e-2}"
    run -0 worker 1
    [[ $output == *"log p of the reference: 24 pairs, computed"* ]]
    [[ $output == *"data: 24 pairs of up to "*" 12 iterations per epoch"* ]]
    local name
    for name in rewards/chosen rewards/rejected rewards/accuracies rewards/margins \
        log_probs/chosen log_probs/rejected logits/chosen logits/rejected; do
        [ "$(grep -c "\"$name\"" "$dir/spool.0")" -ge 72 ] || { echo "$name"; return 1; }
    done
    rm -rf "$dir"
    run -0 worker 1
    [[ $output == *"log p of the reference: 24 pairs, from the cache"* ]]
    printf x >>"$(ls "$XDG_CACHE_HOME"/mgpu/*.reference)"
    rm -rf "$dir"
    run -0 worker 1
    [[ $output == *"computed again: "*".reference: damaged"* ]]
}

@test "pairs: the reference is that of this config.json, not of the weights alone" {
    local change
    export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache
    mkdir "$XDG_CACHE_HOME"
    rows=$data/pairs.jsonl
    other_model .
    llm_spec dpo fp64 1 "loss: {precompute_reference: true}"
    change 's/, path: /, samples: 4, path: /'
    run -0 worker 1
    for change in .rms_norm_eps=1e-3 '.rope_scaling = {type: "yarn", factor: 4}' \
        '.num_attention_heads = 2 | .num_key_value_heads = 1 | .head_dim = 16'; do
        other_model "$change"
        rm -rf "$dir"
        run -0 worker 1
        echo "$change: $output"
        [[ $output == *"the reference: 4 pairs, computed"* ]]
    done
}

@test "the example with sharded weights ends on two ranks, and can be resumed on one" {
    local id spec=$MGPU_SRC/jobs/examples/llama-full-fsdp.yaml shares
    ctld_start
    id=$("$MGPU_BIN/mgpu-submit" --parsable "$spec")
    "$MGPU_BIN/mgpu-stat" --wait "$id"
    grep -q 'Llama: 260032 parameters, all trained, sharded over 2 ranks' \
        "$ctld_dir/state/jobs/$id/1/log"
    cmp <(jq -S 'del(.torch_dtype)' "$stories/config.json") \
        <(jq -S 'del(.torch_dtype)' "$ctld_dir/state/jobs/$id/out/config.json")
    shares=$("$MGPU_BIN/mgpu-model" --json plan "$spec" |
        jq -c '[.distributions[] | [.distribution, .parameters]]')
    [ "$shares" = '[["ddp-ds",1040128],["fsdp",521728]]' ]
    # The same checkpoint goes on with whole weights on one rank.
    sed "s|checkpoint_dir: .*|checkpoint_dir: $stories|
        s|path: story|path: $MGPU_SRC/jobs/examples/story|
        s/distribution: fsdp/distribution: ddp-ds/; s/epochs: 2/epochs: 3/
        s/gpus: 2 .*/gpus: 0/; s/^resources/retry: {resume: latest}\nresources/" \
        "$spec" >"$BATS_TEST_TMPDIR/spec.yaml"
    mkdir -p "$dir/out"
    cp -r "$ctld_dir/state/jobs/$id/out/ckpt" "$dir/out/"
    cp "$dir/out/ckpt/.mgpu-owner" "$dir/" # this run is that job's next attempt
    run -0 worker 1
    [[ $output == *"resumed at iteration "*" of "*", epoch 3"* ]]
}

@test "killed in the middle of a save, sharded weights go on from the checkpoint before" {
    local gate=$BATS_TEST_TMPDIR/gate pid i ckpt=$dir/out/ckpt
    model=$data/llama-tied llm_spec full fp64 40 "distribution: fsdp"
    LD_PRELOAD=$MGPU_BIN/../tests/contract/preload/slow_sync.so \
        MGPU_SYNC_GATE=$gate MGPU_SYNC_OF=.tmp/ \
        worker 2 >"$BATS_TEST_TMPDIR/log" 2>&1 &
    pid=$!
    wait_for 60 compgen -G "$ckpt/step-*[0-9]"
    : >"$gate" # from here on a save does not end
    wait_for 60 test -e "$gate.held"
    for i in $(worker_pids); do kill -KILL "$i" 2>/dev/null || true; done
    wait "$pid" || true
    rm "$gate"
    compgen -G "$ckpt/step-*.tmp" >/dev/null
    run -0 worker 4
    [[ $output == *"resumed at iteration "* ]]
    [[ $output != *"is damaged"* ]]
}
