/* args.h - the command line of mgpu-model(1). */
#ifndef MGPU_WORKER_MODEL_TOOL_ARGS_H
#define MGPU_WORKER_MODEL_TOOL_ARGS_H

#include <stdint.h>

#include "jobs/spec/spec.h"
#include "scheduler/tools/common/options.h"

struct model_args {
    struct option_common common;
    /* Borrowed; NULL: not given. */
    const char *adapter, *output, *prompt, *data, *device, *model, *system;
    const char *gguf;
    int64_t row, rows; /* row: from 1 on */
    double temperature, top_p;
    int32_t top_k, max_new_tokens;
    int32_t context; /* tokens; 0: not given */
    uint32_t seed;
    int precision; /* enum dtype; -1: not given */
    bool no_cache, cache, beside, chat;
    uint64_t given; /* a bit for each option's id */
};

/* A command, for the table in main.c. */
struct model_command {
    const char *name;
    const char *operand; /* its one word, for messages */
    uint64_t options;    /* bits of those that it takes */
    int (*run)(const struct model_args *a, const char *operand,
               struct error *err);
};

/* Ids of options. */
enum {
    MODEL_ADAPTER = 1,
    MODEL_OUTPUT,
    MODEL_PROMPT,
    MODEL_ROW,
    MODEL_DATA,
    MODEL_MAX_NEW,
    MODEL_TEMPERATURE,
    MODEL_TOP_K,
    MODEL_TOP_P,
    MODEL_SEED,
    MODEL_DEVICE,
    MODEL_PRECISION,
    MODEL_NO_CACHE,
    MODEL_FOR,
    MODEL_ROWS,
    MODEL_CACHE,
    MODEL_BESIDE,
    MODEL_CHAT,
    MODEL_SYSTEM,
    MODEL_CONTEXT,
    MODEL_GGUF,
    MODEL_OPTIONS
};
#define MODEL_BIT(id) ((uint64_t)1 << (id))

extern const struct tool model_tool;

void model_args_init(struct model_args *a);
/* Implements tool_main.on_option. err  ERR_USAGE */
int model_args_option(void *arg, const struct opt *o, const char *value,
                      struct error *err) MUST_CHECK;
/* Requires one operand, and options of the command alone. err  ERR_USAGE */
int model_args_check(const struct model_args *a, const struct model_command *c,
                     int operands, struct error *err) MUST_CHECK;

/* A job of kind llm, of the file that is an operand or a value. Findings are
 * printed on standard error, with their lines.
 * out  ret  end it with spec_clear()
 * err  ERR_INVAL it is no such job; ERR_NOTFOUND, ERR_IO */
int model_args_job(const char *file, struct job_spec *ret,
                   struct error *err) MUST_CHECK;

#endif
