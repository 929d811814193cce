#!/usr/bin/env bats
# qat.bats - training for 4-bit weights: the example, what is left, and what is
# said about it.

bats_require_minimum_version 1.5.0
load helpers
load llm

@test "the example of QAT ends on two ranks, and names what is rounded" {
    local id log
    ctld_start
    id=$("$MGPU_BIN/mgpu-submit" --parsable "$MGPU_SRC/jobs/examples/llama-qat.yaml")
    "$MGPU_BIN/mgpu-stat" --wait "$id"
    job_is "$id" COMPLETED
    log=$ctld_dir/state/jobs/$id/1/log
    # q, k, v, o, gate and up of five layers.
    grep -q "fake-quantised from iteration 9 on: $((6 * 5)) linears to 8da4w in groups of 32, but not down_proj (172 inputs), lm_head (the embedding), .* 2 ranks" "$log"
}

@test "QAT leaves a model directory that can be trained like any other" {
    llm_spec qat fp32 1 "quantizer: {groupsize: 16}"
    run -0 worker 1
    [[ $output == *"; fake-quantised: 14 linears to 8da4w in groups of 16, but not lm_head (the embedding),"* ]]
    [ -f "$dir/out/model.safetensors" ]
    [ ! -e "$dir/out/adapter_config.json" ]
    model=$dir/out llm_spec full fp32 1
    dir=$BATS_TEST_TMPDIR/again
    run -0 worker 1
}

@test "with lora_rank an adapter is left, which says what it was trained beside" {
    llm_spec qat fp32 1 "quantizer: {groupsize: 16}" "model: {lora_rank: 4}"
    run -0 worker 1
    [[ $output == *"of adapters of rank 4; fake-quantised: 14 linears"* ]]
    jq -e '.mgpu_base_quantizer == "8da4w" and .peft_type == "LORA"' \
        "$dir/out/adapter_config.json"
    # A base that is not rounded is another base.
    change 's/method: qat/method: lora/; s/epochs: 1/epochs: 2/; /quantizer/d'
    run -65 worker 1
    [[ $output == *"it was trained with other base weights"* ]]
}

@test "a groupsize that divides no linear's inputs is refused" {
    llm_spec qat fp32 1
    refused 65 "train.quantizer.groupsize: 256 divides the inputs of no linear" \
        "q_proj, k_proj, v_proj (32 inputs)" "down_proj (48 inputs)"
}

@test "rounding changes the loss from the iteration on that is named" {
    llm_spec full fp64 1
    run -0 worker 1
    mv "$dir" "$BATS_TEST_TMPDIR/full"
    llm_spec qat fp64 1 "quantizer: {groupsize: 16, fake_quant_after_n_steps: 3}"
    run -0 worker 1
    losses "$BATS_TEST_TMPDIR/full/spool.0" 3 >"$BATS_TEST_TMPDIR/a"
    losses "$dir/spool.0" 3 >"$BATS_TEST_TMPDIR/b"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/a")" = 3 ]
    diff "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/b"
    losses "$BATS_TEST_TMPDIR/full/spool.0" 4 >"$BATS_TEST_TMPDIR/a"
    losses "$dir/spool.0" 4 >"$BATS_TEST_TMPDIR/b"
    run -1 diff "$BATS_TEST_TMPDIR/a" "$BATS_TEST_TMPDIR/b"
}

@test "plan counts the rounded weights and inputs" {
    run -0 "$MGPU_BIN/mgpu-model" plan "$MGPU_SRC/jobs/examples/llama-qat.yaml"
    [[ $output == *"MiB of it rounded weights and inputs: 30 linears to 8da4w in groups of 32, but not down_proj (172 inputs), lm_head (the embedding)"* ]]
    [[ $output == *fits ]]
    run -0 "$MGPU_BIN/mgpu-model" plan --json "$MGPU_SRC/jobs/examples/llama-qat.yaml"
    jq -e '.rounded > 0 and .rounded < .work' <<<"$output"
    jq -e '[.distributions[].distribution] == ["ddp-ds", "fsdp"]' <<<"$output"
}
