/* spec_text.h - the part of a specification that says what rows of text are,
 * with the lists that it is made of: train.dataset of kind llm. */
#ifndef MGPU_JOBS_SPEC_SPEC_TEXT_H
#define MGPU_JOBS_SPEC_SPEC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spec_pair { /* labels, env */
    char *key, *value;
};
struct spec_map {
    struct spec_pair *pairs;
    size_t n;
};
struct spec_list {
    char **items;
    size_t n;
};
enum spec_template {
    TEMPLATE_ALPACA,
    TEMPLATE_GRAMMAR,
    TEMPLATE_SAMSUM,
    TEMPLATE_SLIMORCA,
    TEMPLATE_CHAT,
    TEMPLATE_COMPLETION,
    TEMPLATE_PREFERENCE,
    TEMPLATE_TOKENS,
    TEMPLATE_PROMPT_COMPLETION
};
/* train.tokenizer.prompt_template: words around the messages, or from
 * PROMPT_HERMES on the chat format of published models. */
enum spec_prompt {
    PROMPT_NONE,
    PROMPT_LLAMA2_CHAT,
    PROMPT_CHATML,
    PROMPT_GRAMMAR,
    PROMPT_SUMMARIZE,
    PROMPT_QUESTION_ANSWER,
    PROMPT_AUTO, /* that of the model's chat_template; without one NONE */
    PROMPT_HERMES,
    PROMPT_HERMES3,
    PROMPT_QWEN2,
    PROMPT_QWEN2_5,
    PROMPT_QWEN3,
    PROMPT_SMOLLM2,
    PROMPT_LLAMA2,
    PROMPT_LLAMA3,
    PROMPT_LLAMA3_1,
    PROMPT_MISTRAL,
    PROMPT_MISTRAL_V0_1,
    PROMPT_MISTRAL_V0_3,
    PROMPT_MISTRAL_V1,
    PROMPT_MISTRAL_V3,
    PROMPT_MISTRAL_NEMO,
    PROMPT_ZEPHYR
};
enum spec_method {
    METHOD_LORA,
    METHOD_FULL,
    METHOD_QLORA,
    METHOD_DPO,
    METHOD_QAT
};
enum spec_preset { PRESET_TORCHTUNE_06, PRESET_PAPER_2503 };
enum spec_normalize { NORMALIZE_TOKENS, NORMALIZE_MICRO_BATCH };
enum spec_packing { PACKING_IN_ORDER, PACKING_BEST_FIT };
enum spec_bad_row { BAD_ROW_FAIL, BAD_ROW_SKIP };

/* train.tokenizer */
struct spec_tokenizer {
    char *path;          /* NULL: in checkpointer.dir */
    int32_t max_seq_len; /* 0: as long as rows are */
    enum spec_prompt prompt_template;
    int32_t pad_id; /* -1: the tokenizer's, or 0 */
};

/* train.checkpointer */
struct spec_checkpointer {
    char *dir;              /* checkpoint_dir; absolute */
    struct spec_list files; /* checkpoint_files; none: all */
    char *adapter;          /* adapter_checkpoint; NULL: a new one */
    char *model_type;       /* NULL: as config.json says */
};

/* train.quantizer */
enum spec_quantizer {
    QUANTIZER_NONE,
    QUANTIZER_NF4,
    QUANTIZER_NF4_SINGLE,
    QUANTIZER_8DA4W
};
struct spec_quantizing {
    enum spec_quantizer name;
    int32_t groupsize;        /* of weights; 8da4w */
    int32_t fake_quant_after; /* iterations; 0: from the first; 8da4w */
};
struct job_spec;
/* How the frozen base is stored, or with 8da4w how weights and activations are
 * rounded in a pass; QUANTIZER_NONE: neither. */
enum spec_quantizer spec_quantizer_of(const struct job_spec *s);
/* kind: llm: its method may train adapters. */
bool spec_has_adapter(const struct job_spec *s);
/* Its weights are all trained, and there are no adapters: also methods dpo and
 * qat with lora_rank 0. */
bool spec_trains_all(const struct job_spec *s);
/* The linears, as bits of spec_lora_targets(), that it decides about; the
 * others are as in the adapter that it begins with. */
uint32_t spec_lora_named(const struct job_spec *s);

/* train.loss */
struct spec_loss {
    enum spec_normalize normalize;
    double beta, label_smoothing; /* method: dpo */
    bool precompute_reference;    /* likewise */
};

/* train.dataset, train.dataset_val */
struct spec_text {
    enum spec_template template;
    char *path; /* absolute; NULL: none, of dataset_val alone */
    struct spec_list data_files; /* below path; none: path is the file */
    struct spec_map column_map;  /* of dataset, for dataset_val as well */
    char *new_system_prompt;     /* likewise; NULL: that of the row */
    char *split;                 /* spec_split() reads it */
    bool packed;
    enum spec_packing packing;
    bool split_across_pack;
    bool train_on_input;
    int32_t samples; /* 0: all; the first n rows of the split */
    enum spec_bad_row on_bad_row;
    bool drop_last; /* train.dataset alone */
};

#endif
