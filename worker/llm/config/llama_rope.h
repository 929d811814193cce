/* llama_rope.h - the rotation that a config.json describes. */
#ifndef MGPU_WORKER_LLM_CONFIG_LLAMA_ROPE_H
#define MGPU_WORKER_LLM_CONFIG_LLAMA_ROPE_H

#include <jansson.h>

#include "worker/llm/config/llama_config.h"

/* rope_theta and scaling, from rope_parameters or rope_scaling; the sizes are
 * there.
 * err  ERR_INVAL another rope_type, a value that is missing or out of range */
int llama_rope_read(const json_t *o, struct llama_config *c,
                    struct error *err) MUST_CHECK;

/* ret [head_dim / 2]: the angle per position of each pair, in double, with
 * the scaling. */
void llama_frequencies(const struct llama_config *c, double *ret);
/* What sin and cos are multiplied with, of q and of k. */
double llama_rope_factor(const struct llama_config *c);

#endif
