/* spec_applies.c - which keys a job has, and which defaults: by its kind, its
 * method and other keys. See spec_table.h. */
#include "jobs/spec/spec_table.h"

#include <stdio.h>
#include <string.h>

#include "jobs/schema/json_schema.h"
#include "jobs/spec/spec_editor.h"

static const char *const kinds[] = {
    [SPEC_CV] = "cv", [SPEC_COMMAND] = "command", [SPEC_LLM] = "llm"};
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

const char *spec_kind_word(enum spec_kind kind)
{
    return kinds[kind];
}

bool spec_kind_of(const char *word, size_t len, enum spec_kind *ret)
{
    for (int i = 0; i < N_KINDS; i++)
        if (strlen(kinds[i]) == len && memcmp(kinds[i], word, len) == 0) {
            *ret = (enum spec_kind)i;
            return true;
        }
    return false;
}

enum { CV = 1 << SPEC_CV, COMMAND = 1 << SPEC_COMMAND, LLM = 1 << SPEC_LLM };

unsigned spec_kinds(int when)
{
    switch ((enum spec_when)when) {
    case WHEN_ALWAYS:
    case WHEN_NOTIFY:
        return CV | COMMAND | LLM;
    case WHEN_SWEEP:
        return 0;
    case WHEN_CV:
    case WHEN_FILES:
    case WHEN_FOLDER:
        return CV;
    case WHEN_COMMAND:
        return COMMAND;
    case WHEN_ENV:
        return COMMAND | LLM;
    case WHEN_LLM:
    case WHEN_LORA:
    case WHEN_QUANTIZER:
    case WHEN_PROMPTED:
    case WHEN_MESSAGES:
    case WHEN_PACKED:
    case WHEN_VAL:
    case WHEN_VAL_PROMPTED:
    case WHEN_VAL_PACKED:
    case WHEN_SAMPLE:
    case WHEN_DPO:
    case WHEN_FULL:
    case WHEN_QAT:
        return LLM;
    default:
        return CV | LLM;
    }
}

/* Keys of one optimizer, or of one schedule. */
static bool applies_to_training(enum spec_when when, const struct job_spec *s)
{
    enum spec_optimizer o = s->train.optimizer.name;
    enum spec_schedule l = s->train.lr_scheduler.name;
    switch (when) {
    case WHEN_SGD:
        return o == OPTIM_SGD;
    case WHEN_ADAMW:
        return o == OPTIM_ADAMW || o == OPTIM_ADAMW8;
    case WHEN_RMSPROP:
        return o == OPTIM_RMSPROP;
    case WHEN_MOMENTUM:
        return o == OPTIM_SGD || o == OPTIM_RMSPROP;
    case WHEN_EPS:
        return o != OPTIM_SGD;
    case WHEN_STEP:
        return l == SCHEDULE_STEP;
    case WHEN_MULTISTEP:
        return l == SCHEDULE_MULTISTEP;
    case WHEN_BEST:
        return s->checkpoint.keep_best;
    case WHEN_EARLY:
        return s->train.early_stopping.metric != WATCH_NONE;
    case WHEN_NO_GLOBAL:
        return s->train.global_batch_size == 0;
    case WHEN_GAMMA:
        return l == SCHEDULE_STEP || l == SCHEDULE_MULTISTEP;
    default:
        return true;
    }
}

/* Keys of rows that are conversations, and of rows that share packs. */
static bool applies_to_rows(enum spec_when when, const struct spec_text *t)
{
    const bool prompted =
        t->template != TEMPLATE_TOKENS && t->template != TEMPLATE_COMPLETION;
    if (when == WHEN_PACKED)
        return t->packed;
    return prompted &&
           (when == WHEN_PROMPTED || t->template != TEMPLATE_ALPACA);
}

bool spec_applies(const struct schema_key *k, const void *spec)
{
    const struct job_spec *s = spec;
    if (!(spec_kinds(k->when) & 1u << s->kind))
        return false;
    switch ((enum spec_when)k->when) {
    case WHEN_FILES:
        return s->dataset.source != SOURCE_SYNTHETIC;
    case WHEN_FOLDER:
        return s->dataset.source == SOURCE_IMAGE_FOLDER;
    case WHEN_LORA:
        return spec_has_adapter(s);
    case WHEN_QUANTIZER:
        return s->method == METHOD_QLORA || s->method == METHOD_QAT;
    case WHEN_QAT:
        return s->method == METHOD_QAT;
    case WHEN_DPO:
        return s->method == METHOD_DPO;
    case WHEN_FULL:
        return s->method == METHOD_FULL;
    case WHEN_PROMPTED:
    case WHEN_MESSAGES:
    case WHEN_PACKED:
        return applies_to_rows((enum spec_when)k->when, &s->train.dataset);
    case WHEN_VAL:
        return s->train.dataset_val.path;
    case WHEN_VAL_PROMPTED:
        return s->train.dataset_val.path &&
               applies_to_rows(WHEN_PROMPTED, &s->train.dataset_val);
    case WHEN_VAL_PACKED:
        return s->train.dataset_val.path &&
               applies_to_rows(WHEN_PACKED, &s->train.dataset_val);
    case WHEN_SAMPLE:
        return s->train.sample.prompts.n > 0;
    case WHEN_NOTIFY:
        return s->notify.to != NULL;
    default:
        return applies_to_training((enum spec_when)k->when, s);
    }
}

const char *const spec_case_names[] = {
    [CASE_LLM] = "llm",
    [CASE_LORA] = "lora",
    [CASE_FULL] = "full",
    [CASE_QAT] = "qat",
    [CASE_ADAPTER] = "with adapter_checkpoint",
    [CASE_LORA_COSINE] = "lora with cosine",
    [CASE_PAPER] = "paper-2503",
    [CASE_PAPER_ALONE] = "paper-2503 on one GPU",
    [CASE_PAPER_ALPACA] = "paper-2503 with alpaca",
    [CASE_PAPER_GRAMMAR] = "paper-2503 with grammar",
    [CASE_PAPER_SAMSUM] = "paper-2503 with samsum",
    [CASE_PAPER_SLIMORCA] = "paper-2503 with slimorca",
    [CASE_ALPACA] = "template alpaca",
    [CASE_VAL_OTHER] = "with another template",
    [CASE_VAL_ALPACA] = "with alpaca as another template",
    [CASE_LLM_16BIT] = "llm in 16 bits",
};

/* The cases of a paper's preset. */
static bool paper_holds(enum spec_case when, const struct job_spec *s)
{
    const enum spec_template t = s->train.dataset.template;
    if (s->preset != PRESET_PAPER_2503 || s->method != METHOD_LORA)
        return false;
    switch (when) {
    case CASE_PAPER_ALONE:
        return s->resources.gpus.max <= 1 && s->resources.nodes.max <= 1 &&
               s->resources.gpus_per_node <= 1;
    case CASE_PAPER_ALPACA:
        return t == TEMPLATE_ALPACA;
    case CASE_PAPER_GRAMMAR:
        return t == TEMPLATE_GRAMMAR;
    case CASE_PAPER_SAMSUM:
        return t == TEMPLATE_SAMSUM;
    case CASE_PAPER_SLIMORCA:
        return t == TEMPLATE_SLIMORCA;
    default:
        return true;
    }
}

/* Before defaults by case are set, lora_rank is what the file says, or 0. */
static bool is_qat_of_all(const struct job_spec *s)
{
    return s->method == METHOD_QAT && s->train.model.lora_rank == 0;
}

bool spec_case_is_preset(int when)
{
    return when >= CASE_PAPER && when <= CASE_PAPER_SLIMORCA;
}

bool spec_case_holds(int when, const void *spec)
{
    const struct job_spec *s = spec;
    if (s->kind != SPEC_LLM)
        return false;
    if (spec_case_is_preset(when))
        return paper_holds((enum spec_case)when, s);
    switch ((enum spec_case)when) {
    case CASE_LORA:
        return spec_has_adapter(s) && !is_qat_of_all(s);
    case CASE_FULL:
        return s->method == METHOD_FULL || is_qat_of_all(s);
    case CASE_QAT:
        return s->method == METHOD_QAT;
    case CASE_ADAPTER:
        return spec_case_holds(CASE_LORA, s) &&
               s->train.checkpointer.adapter != NULL;
    case CASE_LORA_COSINE:
        return spec_case_holds(CASE_LORA, s) &&
               s->train.lr_scheduler.name == SCHEDULE_COSINE;
    case CASE_ALPACA:
        return s->train.dataset.template == TEMPLATE_ALPACA;
    case CASE_VAL_OTHER:
        return s->train.dataset_val.template != s->train.dataset.template;
    case CASE_VAL_ALPACA:
        return s->train.dataset_val.template == TEMPLATE_ALPACA &&
               s->train.dataset.template != TEMPLATE_ALPACA;
    case CASE_LLM_16BIT:
        return s->train.precision == PRECISION_BF16 ||
               s->train.precision == PRECISION_FP16;
    default:
        return true;
    }
}

const char *spec_needs(int when)
{
    switch ((enum spec_when)when) {
    case WHEN_FOLDER:
        return "dataset.source: image_folder";
    case WHEN_ADAMW:
        return "train.optimizer.name: adamw and adamw8bit";
    case WHEN_RMSPROP:
        return "train.optimizer.name: rmsprop";
    case WHEN_MOMENTUM:
        return "train.optimizer.name: sgd and rmsprop";
    case WHEN_EPS:
        return "train.optimizer.name: adamw, adamw8bit and rmsprop";
    case WHEN_STEP:
        return "train.lr_scheduler.name: step";
    case WHEN_MULTISTEP:
        return "train.lr_scheduler.name: multistep";
    case WHEN_BEST:
        return "checkpoint.keep_best: true";
    case WHEN_EARLY:
        return "train.early_stopping.metric";
    case WHEN_NO_GLOBAL:
        return "jobs without train.global_batch_size";
    case WHEN_GAMMA:
        return "train.lr_scheduler.name: step and multistep";
    case WHEN_LORA:
        return "methods with adapters";
    case WHEN_QUANTIZER:
        return "method: qlora and qat";
    case WHEN_QAT:
        return "method: qat";
    case WHEN_DPO:
        return "method: dpo";
    case WHEN_FULL:
        return "method: full";
    case WHEN_PROMPTED:
        return "templates with a prompt";
    case WHEN_MESSAGES:
        return "templates with a prompt of their own words";
    case WHEN_PACKED:
        return "train.dataset.packed: true";
    case WHEN_VAL:
        return "train.dataset_val.path";
    case WHEN_VAL_PROMPTED:
        return "train.dataset_val.path and templates with a prompt";
    case WHEN_VAL_PACKED:
        return "train.dataset_val.path and packed: true";
    case WHEN_SAMPLE:
        return "train.sample.prompts";
    case WHEN_NOTIFY:
        return "notify.to";
    default:
        return "train.optimizer.name: sgd";
    }
}

/* "kind: cv, llm with train.optimizer.name: adamw" */
static void only_for(int when, char *out, size_t cap)
{
    unsigned bits = spec_kinds(when);
    bool is_whole = when == WHEN_CV || when == WHEN_COMMAND ||
                    when == WHEN_ENV || when == WHEN_FILES ||
                    when == WHEN_TRAIN || when == WHEN_LLM;
    size_t len = 0;
    out[0] = '\0';
    if (when == WHEN_ALWAYS || when == WHEN_SWEEP)
        return;
    for (int i = 0; bits != (CV | COMMAND | LLM) && i < N_KINDS; i++)
        if (bits & 1u << i && len < cap)
            len += (size_t)snprintf(out + len, cap - len, "%s%s",
                                    len > 0 ? ", " : "kind: ", kinds[i]);
    if (!is_whole && len < cap)
        (void)snprintf(out + len, cap - len, "%s%s", len > 0 ? " with " : "",
                       spec_needs(when));
}

int spec_json_schema(struct buf *out, struct error *err)
{
    return json_schema(&spec_schema, "mgpu job specification", only_for, out,
                       err);
}

/* ---- a stored specification, for a person ---------------------------------
 */
struct brief {
    struct job_spec spec; /* first: the filter is given its address; borrowed */
    struct job_spec usual;
};

static bool is_own(const struct schema_key *k, const void *spec)
{
    const struct brief *b = spec;
    return spec_applies(k, spec) &&
           (strcmp(k->path, "version") == 0 || strcmp(k->path, "kind") == 0 ||
            !schema_same(k, &b->spec, &b->usual));
}

int spec_brief(const struct job_spec *spec, struct buf *out, struct error *err)
{
    struct brief b = {.spec = *spec};
    int rc = schema_defaults(&spec_schema, &b.usual, err);
    if (rc == 0)
        rc = schema_yaml(&spec_schema, &b, is_own, NULL, NULL, out, err);
    schema_clear(&spec_schema, &b.usual);
    return rc;
}
