/* spec_applies.c - which keys a job has, and which defaults: by its kind, its
 * method and other keys. See spec_table.h. */
#include "jobs/spec/spec_table.h"

#include <string.h>

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
    case WHEN_LLM:
    case WHEN_LORA:
    case WHEN_ALPACA:
    case WHEN_VAL:
    case WHEN_VAL_ALPACA:
    case WHEN_SAMPLE:
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
        return o == OPTIM_ADAMW;
    case WHEN_RMSPROP:
        return o == OPTIM_RMSPROP;
    case WHEN_MOMENTUM:
        return o != OPTIM_ADAMW;
    case WHEN_EPS:
        return o != OPTIM_SGD;
    case WHEN_STEP:
        return l == SCHEDULE_STEP;
    case WHEN_MULTISTEP:
        return l == SCHEDULE_MULTISTEP;
    case WHEN_BEST:
        return s->checkpoint.keep_best;
    case WHEN_NO_GLOBAL:
        return s->train.global_batch_size == 0;
    case WHEN_GAMMA:
        return l == SCHEDULE_STEP || l == SCHEDULE_MULTISTEP;
    default:
        return true;
    }
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
        return s->method == METHOD_LORA;
    case WHEN_ALPACA:
        return s->train.dataset.template == TEMPLATE_ALPACA;
    case WHEN_VAL:
        return s->train.dataset_val.path;
    case WHEN_VAL_ALPACA:
        return s->train.dataset_val.path &&
               s->train.dataset_val.template == TEMPLATE_ALPACA;
    case WHEN_SAMPLE:
        return s->train.sample.prompts.n > 0;
    case WHEN_NOTIFY:
        return s->notify.email || s->notify.webhook;
    default:
        return applies_to_training((enum spec_when)k->when, s);
    }
}

const char *const spec_case_names[] = {
    [CASE_LLM] = "llm",
    [CASE_LORA] = "lora",
    [CASE_FULL] = "full",
    [CASE_LORA_COSINE] = "lora with cosine",
    [CASE_LLM_16BIT] = "llm in 16 bits",
};

bool spec_case_holds(int when, const void *spec)
{
    const struct job_spec *s = spec;
    if (s->kind != SPEC_LLM)
        return false;
    switch ((enum spec_case)when) {
    case CASE_LORA:
        return s->method == METHOD_LORA;
    case CASE_FULL:
        return s->method == METHOD_FULL;
    case CASE_LORA_COSINE:
        return s->method == METHOD_LORA &&
               s->train.lr_scheduler.name == SCHEDULE_COSINE;
    case CASE_LLM_16BIT:
        return s->train.precision == PRECISION_BF16 ||
               s->train.precision == PRECISION_FP16;
    default:
        return true;
    }
}
