#!/usr/bin/env bats
# threads.bats - 20 iterations of small jobs on 1, 2 and 4 threads: the same
# losses and results, bit by bit. MGPU_TEST_ALL=1: on 3 and 8 as well, and more
# jobs.

bats_require_minimum_version 1.5.0
load helpers
load llm

# Sanitizers look at memory, not at bits.
is_slow() { [ "${MGPU_VARIANT:-release}" != release ]; }
tests_all() { [ -n "${MGPU_TEST_ALL-}" ] && not is_slow; }

# What a run on so many threads leaves: its losses, all digits, and the bytes
# of its results.
left_by() { # THREADS
    rm -rf "$dir"
    OMP_NUM_THREADS=$1 worker 1 >"$BATS_TEST_TMPDIR/log" 2>&1 || {
        cat "$BATS_TEST_TMPDIR/log"
        return 1
    }
    losses "$dir/spool.0" | sort -n
    find "$dir/out" -name '*.safetensors' -exec sha256sum {} + |
        sed 's, .*/, ,' | sort
}

# The run of spec.yaml on each number of threads.
same_bits() { # NAME
    local n all=(2)
    is_slow || all+=(4)
    not tests_all || all+=(3 8)
    left_by 1 >"$BATS_TEST_TMPDIR/one"
    [ "$(grep -c '^[0-9]* [0-9.e+-]*$' "$BATS_TEST_TMPDIR/one")" -eq 20 ]
    grep -q 'safetensors$' "$BATS_TEST_TMPDIR/one"
    for n in "${all[@]}"; do
        left_by "$n" >"$BATS_TEST_TMPDIR/more"
        diff "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/more" || {
            echo "$1: $n threads are not as one"
            return 1
        }
    done
}

cv_job() { # PRECISION OPTIMIZER
    cat >"$BATS_TEST_TMPDIR/spec.yaml" <<END
version: 1
kind: cv
name: t
model: {width_mult: 0.25}
dataset: {source: synthetic, image_size: 36, train_samples: 160, eval_samples: 16}
train: {device: host, epochs: 1, batch_size: 8, seed: 1, precision: $1,
        optimizer: {name: $2, lr: 0.02}}
resources: {gpus: 0}
END
}

# Packs of 256 tokens of the shipped model: its products are cut.
llm_job() { # METHOD PRECISION OPTIMIZER
    local -a more=('clip_grad_norm: 1' 'max_steps_per_epoch: 10'
        "optimizer: {name: $3, lr: 1e-3}" 'tokenizer: {max_seq_len: 256}')
    [ "$1" = full ] || more+=('model: {lora_rank: 8, apply_lora_to_mlp: true}')
    model=$stories rows=$MGPU_SRC/jobs/examples/story-names/train.jsonl
    llm_spec "$1" "$2" 2 "${more[@]}"
    change 's/template: tokens,/template: tokens, packed: true,/'
    change '/^checkpoint:/d; /^retry:/d'
}

@test "cv on 1, 2 and 4 threads: the same bits in every precision" {
    local precision optimizer optimizers=(sgd)
    not tests_all || optimizers=(sgd adamw rmsprop)
    for precision in fp64 fp32 fp16 bf16; do
        for optimizer in "${optimizers[@]}"; do
            cv_job "$precision" "$optimizer"
            same_bits "cv $precision $optimizer"
        done
    done
}

@test "llm on 1, 2 and 4 threads: the same bits in every precision" {
    local job method precision optimizer
    local -a jobs=('lora fp32 adamw' 'full fp32 sgd' 'full bf16 adamw8bit'
        'qlora bf16 adamw' 'lora fp64 adamw8bit' 'full fp16 adamw')
    not tests_all || jobs+=('full fp64 adamw' 'full fp32 adamw8bit'
        'lora fp16 sgd' 'lora bf16 adamw8bit' 'qlora fp64 sgd'
        'qlora fp32 adamw8bit' 'qlora fp16 adamw')
    for job in "${jobs[@]}"; do
        read -r method precision optimizer <<<"$job"
        llm_job "$method" "$precision" "$optimizer"
        same_bits "$job"
    done
}
