#!/usr/bin/env bats
# qlora.bats - adapters beside a base in four bits: the example, what is left,
# and what is said about it.

bats_require_minimum_version 1.5.0
load helpers
load llm

@test "the example of QLoRA ends on two ranks" {
    local id log
    ctld_start
    id=$("$MGPU_BIN/mgpu-submit" --parsable "$MGPU_SRC/jobs/examples/llama-qlora.yaml")
    "$MGPU_BIN/mgpu-stat" --wait "$id"
    job_is "$id" COMPLETED
    log=$ctld_dir/state/jobs/$id/1/log
    grep -q 'linears of the layers in NF4, 4.15 bits a value, .* 2 ranks' "$log"
}

@test "an adapter says that its base was in four bits, and merge says so" {
    llm_spec qlora fp32 1 "model: {lora_rank: 4}"
    run -0 worker 1
    jq -e '.mgpu_base_quantizer == "nf4" and .peft_type == "LORA"' \
        "$dir/out/adapter_config.json"
    run -0 "$MGPU_BIN/mgpu-model" merge "$data/llama-tied" \
        --adapter "$dir/out" -o "$BATS_TEST_TMPDIR/merged"
    [[ $output == *"was trained on $data/llama-tied in nf4; it is merged into the weights as they are there"* ]]
    # A base that is not in four bits is another base.
    change 's/method: qlora/method: lora/; s/epochs: 1/epochs: 2/'
    run -65 worker 1
    [[ $output == *"it was trained with other base weights"* ]]
}

@test "plan prints the bits of a value" {
    run -0 "$MGPU_BIN/mgpu-model" plan "$MGPU_SRC/jobs/examples/llama-qlora.yaml"
    [[ $output == *"base: 4.149 bits a value of the quantised linears"* ]]
    [[ $output == *fits ]]
}
