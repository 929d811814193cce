/* llama_config.h - the shape of a Llama, or of another architecture of
 * llama_arch.h, as its config.json says. */
#ifndef MGPU_WORKER_LLM_CONFIG_LLAMA_CONFIG_H
#define MGPU_WORKER_LLM_CONFIG_LLAMA_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "worker/llm/config/llama_arch.h"
#include "worker/llm/config/llama_scaling.h"

enum { LLAMA_LAYERS_MOST = 4096 };

struct llama_config {
    enum llama_arch_id arch;
    int32_t hidden, ffn, layers, vocab;
    int32_t heads, kv_heads, head_dim; /* head_dim: or hidden / heads */
    int32_t max_positions; /* max_position_embeddings; more with yarn */
    uint32_t biases;       /* 1 << enum llama_product of those that add one */
    bool head_norms;       /* RMSNorm of each head of q and k */
    int32_t window;        /* tokens that a token sees in the layers that have
                            * a window, itself among them; 0: none has */
    uint64_t windowed[LLAMA_LAYERS_MOST / 64]; /* a bit each: it has one */
    double norm_eps, rope_theta;
    bool tied; /* tie_word_embeddings: no lm_head.weight */
    /* It is tied by config.json, but the files have another output layer
     * (llama_check.h). */
    bool is_untied;
    struct llama_scaling scaling;
    /* Values of bos_token_id and eos_token_id, or the first of a list; -1:
     * absent, null or empty. */
    int32_t bos_id, eos_id;
};

/* Tokens that a token sees at most in layer l, itself among them; 0: all. */
static inline int32_t llama_config_window(const struct llama_config *c,
                                          int32_t l)
{
    return c->windowed[l / 64] >> (l % 64) & 1 ? c->window : 0;
}

/* The text of a config.json.
 * err  ERR_INVAL not JSON, another architecture, a value that is missing or
 *      out of range, heads that do not divide: named, with what is allowed */
int llama_config_parse(const char *text, size_t len, struct llama_config *ret,
                       struct error *err) MUST_CHECK;
/* Reads the one of a directory. err as above; ERR_NOTFOUND, ERR_IO */
int llama_config_read(const char *dir, struct llama_config *ret,
                      struct error *err) MUST_CHECK;

#endif
