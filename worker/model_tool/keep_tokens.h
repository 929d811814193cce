/* keep_tokens.h - tokenise rows before a job runs, into the cache of its
 * ranks. */
#ifndef MGPU_WORKER_MODEL_TOOL_KEEP_TOKENS_H
#define MGPU_WORKER_MODEL_TOOL_KEEP_TOKENS_H

#include <stdbool.h>

#include "worker/data/cache/token_cache.h"

struct keep_conf {
    const struct job_spec *spec;
    bool beside; /* makes the directory beside the data, and keeps them there */
    bool quiet;
};

/* out  ret  of the cache
 * err  ERR_IO they cannot be kept; as token_cache_open() */
int keep_tokens(const struct keep_conf *keep, const struct token_conf *tokens,
                struct token_data *ret, struct error *err) MUST_CHECK;

#endif
