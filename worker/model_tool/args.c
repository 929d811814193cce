/* args.c - see args.h. */
#include "worker/model_tool/args.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "jobs/text/scalar.h"
#include "jobs/text/text.h"
#include "kernels/dtype.h"
#include "worker/run_config.h"

/* A value that an option accepts. */
struct model_word {
    const char *name;
    int value;
};

static const struct opt opts[] = {
    {MODEL_ADAPTER, 0, "adapter", "DIR", "the output of a LoRA job"},
    {MODEL_OUTPUT, 'o', "output", "PATH",
     "merge: the new directory, which is absent or empty; export: the new "
     "file"},
    {MODEL_GGUF, 0, "gguf", "TYPE",
     "export: type of the matrices: f16, bf16 or q8_0"},
    {MODEL_PROMPT, 0, "prompt", "TEXT", "generate: continue TEXT"},
    {MODEL_DATA, 0, "data", "FILE",
     "generate: the job with the data of --row, or the format of --chat"},
    {MODEL_ROW, 0, "row", "N", "generate: answer row N of the data"},
    {MODEL_CHAT, 0, "chat", NULL,
     "generate: answer each line of standard input, as a conversation"},
    {MODEL_SYSTEM, 0, "system", "TEXT",
     "generate --chat: what the system says first"},
    {MODEL_CONTEXT, 0, "context", "N",
     "generate --chat: at most N tokens of the conversation (4096)"},
    {MODEL_MAX_NEW, 0, "max-new-tokens", "N",
     "generate: at most N tokens (256)"},
    {MODEL_TEMPERATURE, 0, "temperature", "T",
     "generate: draw tokens at T; 0: take the likeliest (0)"},
    {MODEL_TOP_K, 0, "top-k", "N", "generate: draw from the N likeliest"},
    {MODEL_TOP_P, 0, "top-p", "P",
     "generate: draw from the likeliest, of probability P in all"},
    {MODEL_SEED, 0, "seed", "N", "generate: seed of the draws (1)"},
    {MODEL_DEVICE, 0, "device", "DEVICE",
     "generate: auto, cuda or host (auto); plan: a GPU, such as H100, or its "
     "free memory, such as 40G"},
    {MODEL_FOR, 0, "for", "MODEL",
     "plan: a known model without its files, such as llama3-8b"},
    {MODEL_PRECISION, 0, "precision", "TYPE",
     "generate: fp32 or bf16 (bf16 on a GPU)"},
    {MODEL_NO_CACHE, 0, "no-cache", NULL,
     "generate: do not cache keys and values"},
    {MODEL_CACHE, 0, "cache", NULL, "tokenize: cache the tokens for jobs"},
    {MODEL_BESIDE, 0, "beside", NULL,
     "tokenize --cache: cache in .mgpu beside the data"},
    {MODEL_ROWS, 0, "rows", "N", "tokenize: print the first N rows (3)"},
    OPTION_ROW_JSON,
    OPTION_ROW_QUIET,
    {0, 0, NULL, NULL, NULL},
};

const struct tool model_tool = {
    .name = "mgpu-model",
    .synopsis = "[options] COMMAND OPERAND",
    .summary = "Looks at a language model and its data. The commands:\n\n"
               "  generate DIR     answer a prompt by the model in DIR\n"
               "  merge DIR        write the model in DIR with its adapter "
               "merged\n"
               "  export DIR       write the model in DIR as a GGUF file, for "
               "llama.cpp\n"
               "  plan JOB.YAML    print the memory that a job takes, and "
               "whether it fits\n"
               "  tokenize JOB.YAML print rows as the model gets them\n\n"
               "Needs no daemon and no MPI.",
    .opts = opts,
};

void model_args_init(struct model_args *a)
{
    *a = (struct model_args){
        .seed = 1, .rows = 3, .max_new_tokens = 256, .precision = -1};
}

static int bad(const struct opt *o, const char *value, const char *allowed,
               struct error *err)
{
    char quoted[TEXT_QUOTE_CAP];
    return error_set(err, ERR_USAGE, "--%s: '%s' is not %s", o->name,
                     text_quote(quoted, sizeof(quoted), value), allowed);
}

static int whole(const struct opt *o, const char *value, int64_t min,
                 int64_t max, int64_t *ret, struct error *err)
{
    char allowed[80];
    int64_t n;

    if (scalar_int(value, &n) == 0 && n >= min && n <= max) {
        *ret = n;
        return 0;
    }
    (void)snprintf(allowed, sizeof(allowed),
                   "a whole number in %" PRId64 "..%" PRId64, min, max);
    return bad(o, value, allowed, err);
}

static int real(const struct opt *o, const char *value, double max, double *ret,
                struct error *err)
{
    char allowed[64];
    double x;

    if (scalar_float(value, &x) == 0 && x >= 0 && x <= max) {
        *ret = x;
        return 0;
    }
    (void)snprintf(allowed, sizeof(allowed), "a number in 0..%g", max);
    return bad(o, value, allowed, err);
}

static int word(const struct opt *o, const char *value,
                const struct model_word *words, int *ret, struct error *err)
{
    char allowed[80] = "";

    for (const struct model_word *w = words; w->name != NULL; w++) {
        if (strcmp(value, w->name) == 0) {
            *ret = w->value;
            return 0;
        }
        const size_t n = strlen(allowed);
        (void)snprintf(allowed + n, sizeof(allowed) - n, "%s%s",
                       w == words          ? ""
                       : w[1].name == NULL ? " or "
                                           : ", ",
                       w->name);
    }
    return bad(o, value, allowed, err);
}

/* Options whose value is kept as it is; NULL: another one. */
static const char **text_of(struct model_args *a, int id)
{
    switch (id) {
    case MODEL_ADAPTER:
        return &a->adapter;
    case MODEL_OUTPUT:
        return &a->output;
    case MODEL_PROMPT:
        return &a->prompt;
    case MODEL_DATA:
        return &a->data;
    case MODEL_DEVICE:
        return &a->device;
    case MODEL_FOR:
        return &a->model;
    case MODEL_SYSTEM:
        return &a->system;
    case MODEL_GGUF:
        return &a->gguf;
    default:
        return NULL;
    }
}

static int number(struct model_args *a, const struct opt *o, const char *value,
                  struct error *err)
{
    int64_t n = 0;
    int rc = whole(
        o, value,
        o->id == MODEL_SEED || o->id == MODEL_TOP_K || o->id == MODEL_ROWS ? 0
                                                                           : 1,
        o->id == MODEL_SEED ? UINT32_MAX : INT32_MAX / 2, &n, err);

    if (rc < 0)
        return -1;
    if (o->id == MODEL_ROW)
        a->row = n;
    else if (o->id == MODEL_ROWS)
        a->rows = n;
    else if (o->id == MODEL_TOP_K)
        a->top_k = (int32_t)n;
    else if (o->id == MODEL_CONTEXT)
        a->context = (int32_t)n;
    else if (o->id == MODEL_SEED)
        a->seed = (uint32_t)n;
    else
        a->max_new_tokens = (int32_t)n;
    return 0;
}

int model_args_option(void *arg, const struct opt *o, const char *value,
                      struct error *err)
{
    static const struct model_word types[] = {
        {"fp32", DT_F32}, {"bf16", DT_BF16}, {NULL, 0}};
    struct model_args *a = arg;
    const char **text = text_of(a, o->id);

    if (options_common(&a->common, o->id, value))
        return 0;
    a->given |= MODEL_BIT(o->id);
    if (text != NULL) {
        *text = value;
        return 0;
    }
    switch (o->id) {
    case MODEL_TEMPERATURE:
        return real(o, value, 100, &a->temperature, err);
    case MODEL_TOP_P:
        return real(o, value, 1, &a->top_p, err);
    case MODEL_PRECISION:
        return word(o, value, types, &a->precision, err);
    case MODEL_NO_CACHE:
        a->no_cache = true;
        return 0;
    case MODEL_CHAT:
        a->chat = true;
        return 0;
    case MODEL_CACHE:
        a->cache = true;
        return 0;
    case MODEL_BESIDE:
        a->beside = true;
        return 0;
    default:
        return number(a, o, value, err);
    }
}

int model_args_check(const struct model_args *a, const struct model_command *c,
                     int operands, struct error *err)
{
    if (operands != 1)
        return error_set(err, ERR_USAGE, "expected %s %s", c->name, c->operand);
    for (const struct opt *o = opts; o->id > 0; o++)
        if (o->id < MODEL_OPTIONS && (a->given & MODEL_BIT(o->id)) &&
            !(c->options & MODEL_BIT(o->id)))
            return error_set(err, ERR_USAGE, "%s takes no --%s", c->name,
                             o->name);
    return 0;
}

int model_args_job(const char *file, struct job_spec *ret, struct error *err)
{
    struct job_spec s;
    if (run_config_read_job(file, &s, err) < 0)
        return error_wrap(err, "%s", file);
    if (s.kind != SPEC_LLM) {
        spec_clear(&s);
        return error_set(err, ERR_INVAL, "%s: not a job of kind: llm", file);
    }
    *ret = s;
    return 0;
}
