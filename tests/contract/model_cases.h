/* model_cases.h - the small jobs that model.c runs its contract on, one or
 * more of each kind of model. */
#ifndef MGPU_TESTS_CONTRACT_MODEL_CASES_H
#define MGPU_TESTS_CONTRACT_MODEL_CASES_H

/* '@' stands for the tree. */
static const struct model_case {
    const char *name, *yaml;
} cases[] = {
    {"mobilenet",
     "version: 1\n"
     "kind: cv\n"
     "name: t\n"
     "model: {width_mult: 0.25, dropout: 0.3, num_classes: 5}\n"
     "dataset: {source: synthetic, image_size: 32, train_samples: 12,\n"
     "          eval_samples: 7}\n"
     "train: {device: host, batch_size: 4, precision: fp64, seed: 3,\n"
     "        label_smoothing: 0.1}\n"
     "resources: {gpus: 0}\n"},
#define LLAMA(method, model, more) LLAMA_OF(method, model, model, more)
#define LLAMA_OF(method, model, rows, more)                              \
    "version: 1\n"                                                       \
    "kind: llm\n"                                                        \
    "name: t\n"                                                          \
    "method: " method "\n"                                               \
    "train:\n"                                                           \
    "  checkpointer: {checkpoint_dir: @/tests/data/" model "}\n"         \
    "  dataset: {template: tokens,\n"                                    \
    "            path: @/tests/data/" rows "/rows.jsonl, samples: 12}\n" \
    "  dataset_val: {template: tokens,\n"                                \
    "            path: @/tests/data/" rows "/rows.jsonl, samples: 7}\n"  \
    "  device: host\n"                                                   \
    "  batch_size: 4\n"                                                  \
    "  precision: fp64\n"                                                \
    "  seed: 3\n" more "resources: {gpus: 0}\n"
    {"llama, lora with dropout",
     LLAMA("lora", "llama-tied",
           "  model: {lora_rank: 3, lora_dropout: 0.2}\n")},
    {"llama, lora on all with checkpointing",
     LLAMA("lora", "llama-untied",
           "  enable_activation_checkpointing: true\n"
           "  model: {lora_attn_modules: [q_proj, k_proj, v_proj, o_proj],\n"
           "          apply_lora_to_output: true, lora_dropout: 0.1}\n")},
    {"llama, qlora", LLAMA("qlora", "llama-tied",
                           "  model: {lora_rank: 3, lora_dropout: 0.2}\n")},
    {"llama, qlora on all with checkpointing",
     LLAMA("qlora", "llama-untied",
           "  enable_activation_checkpointing: true\n"
           "  quantizer: {name: nf4_single}\n"
           "  model: {lora_attn_modules: [q_proj, k_proj, v_proj, o_proj],\n"
           "          apply_lora_to_output: true, lora_alpha: 256}\n")},
    {"llama, qat",
     LLAMA("qat", "llama-tied", "  quantizer: {groupsize: 16}\n")},
    {"llama, qat, output layer rounded, no checkpointing",
     LLAMA("qat", "llama-untied",
           "  enable_activation_checkpointing: false\n"
           "  quantizer: {groupsize: 8}\n")},
    {"llama, qat of adapters",
     LLAMA("qat", "llama-untied",
           "  quantizer: {groupsize: 12}\n"
           "  model: {lora_rank: 3, lora_dropout: 0.2}\n")},
    {"llama, full, tied", LLAMA("full", "llama-tied", "")},
    {"llama, full, untied", LLAMA("full", "llama-untied", "")},
    {"qwen2, lora with dropout",
     LLAMA_OF("lora", "llama-qwen2", "llama-untied",
              "  model: {lora_rank: 3, lora_dropout: 0.2}\n")},
    {"qwen2, qlora", LLAMA_OF("qlora", "llama-qwen2", "llama-untied",
                              "  model: {lora_rank: 3}\n")},
    {"qwen2, full", LLAMA_OF("full", "llama-qwen2", "llama-untied", "")},
    {"mistral, full", LLAMA_OF("full", "llama-mistral", "llama-untied", "")},
/* A job that begins with the adapter of a directory. */
#define RANKED(name) \
    "llama-mistral, adapter_checkpoint: @/tests/data/llama-mistral/" name
    {"mistral, lora of many ranks with dropout",
     LLAMA_OF("lora", RANKED("adapter-patterns"), "llama-untied",
              "  model: {lora_dropout: 0.2}\n")},
    {"mistral, qlora of some layers with checkpointing",
     LLAMA_OF("qlora", RANKED("adapter-layers"), "llama-untied",
              "  enable_activation_checkpointing: true\n")},
    {"qwen3, lora with checkpointing",
     LLAMA_OF("lora", "llama-qwen3", "llama-untied",
              "  enable_activation_checkpointing: true\n"
              "  model: {lora_rank: 3, lora_dropout: 0.2}\n")},
    {"qwen3, full", LLAMA_OF("full", "llama-qwen3", "llama-untied", "")},
    {"qwen3, qat", LLAMA_OF("qat", "llama-qwen3", "llama-untied",
                            "  quantizer: {groupsize: 8}\n")},
    {"llama with biases, qat", LLAMA_OF("qat", "llama-biases", "llama-untied",
                                        "  quantizer: {groupsize: 8}\n")},
    {"llama with biases, full with checkpointing",
     LLAMA_OF("full", "llama-biases", "llama-untied",
              "  enable_activation_checkpointing: true\n")},
#define PAIRS(model, more)                                            \
    "version: 1\n"                                                    \
    "kind: llm\n"                                                     \
    "name: t\n"                                                       \
    "method: dpo\n"                                                   \
    "train:\n"                                                        \
    "  checkpointer: {checkpoint_dir: @/tests/data/" model "}\n"      \
    "  dataset: {template: tokens, path: @/tests/data/pairs.jsonl,\n" \
    "            samples: 11}\n"                                      \
    "  dataset_val: {path: @/tests/data/pairs.jsonl, samples: 7}\n"   \
    "  device: host\n"                                                \
    "  batch_size: 4\n"                                               \
    "  precision: fp64\n"                                             \
    "  seed: 3\n" more "resources: {gpus: 0}\n"
    {"llama, dpo with dropout",
     PAIRS("llama-tied", "  model: {lora_rank: 3, lora_dropout: 0.2}\n")},
    {"llama, dpo, precomputed, output layer trained",
     PAIRS("llama-untied", "  enable_activation_checkpointing: true\n"
                           "  loss: {precompute_reference: true}\n"
                           "  model: {apply_lora_to_output: true}\n")},
    {"llama with biases, dpo of all weights",
     PAIRS("llama-biases", "  model: {lora_rank: 0}\n")},
    {"mistral, dpo of some linears", PAIRS(RANKED("adapter-named"), "")},
    {"llama, dpo of all weights",
     PAIRS("llama-tied", "  model: {lora_rank: 0}\n"
                         "  loss: {label_smoothing: 0.1}\n")},
};

#undef RANKED
#undef PAIRS
#undef LLAMA
#undef LLAMA_OF
#endif
