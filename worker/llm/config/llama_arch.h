/* llama_arch.h - the architectures that are trained: what each has beside a
 * Llama's linears and norms, what its tensors are called, and what its
 * config.json means where a key is absent.
 *
 * A pass asks the shape of a model (llama_config.h), never its architecture.
 *
 * src  transformers 5.24, configuration_*.py and modeling_*.py
 */
#ifndef MGPU_WORKER_LLM_CONFIG_LLAMA_ARCH_H
#define MGPU_WORKER_LLM_CONFIG_LLAMA_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The products of a layer, and that with the output layer. */
enum llama_product {
    PRODUCT_QKV,
    PRODUCT_O,
    PRODUCT_GATE_UP,
    PRODUCT_DOWN,
    PRODUCT_HEAD,
    PRODUCTS
};

/* The tensors that a layer can have, in the order of the weights. */
enum llama_inner {
    INNER_NORM1,
    INNER_Q,
    INNER_K,
    INNER_V,
    INNER_Q_BIAS,
    INNER_K_BIAS,
    INNER_V_BIAS,
    INNER_Q_NORM,
    INNER_K_NORM,
    INNER_O,
    INNER_O_BIAS,
    INNER_NORM2,
    INNER_GATE,
    INNER_UP,
    INNER_GATE_BIAS,
    INNER_UP_BIAS,
    INNER_DOWN,
    INNER_DOWN_BIAS,
    LLAMA_INNERS
};

/* Which keys of config.json give a token a window. */
enum llama_window {
    WINDOW_NEVER,
    WINDOW_IF_USED, /* sliding_window, where use_sliding_window is true */
    WINDOW_ALWAYS,  /* sliding_window, in every layer */
};

enum llama_arch_id {
    ARCH_LLAMA,
    ARCH_QWEN2,
    ARCH_QWEN3,
    ARCH_MISTRAL,
    LLAMA_ARCHS
};

struct llama_arch {
    const char *architecture; /* in architectures of config.json */
    const char *type;         /* model_type there */
    const char *word;         /* for messages */
    const char *recipes;      /* torchtune's words for it, for messages */
    const char *const *inner; /* [LLAMA_INNERS] names, behind the layer's */
    uint32_t biases;          /* 1 << enum llama_product: it always has them */
    uint32_t bias_keys;       /* those that attention_bias and mlp_bias add */
    bool head_norms;          /* RMSNorm of each head of q and k */
    enum llama_window window;
    /* Keys that are absent: kv_heads 0: as many as heads; head_dim 0: hidden /
     * heads; window 0: none. */
    int32_t kv_heads, head_dim, positions, windowed;
};

const struct llama_arch *llama_arch(enum llama_arch_id id);
/* "LlamaForCausalLM, Qwen2ForCausalLM ...": those that are trained. */
struct llama_arch_words {
    char text[LLAMA_ARCHS * 32];
};
struct llama_arch_words llama_arch_list(void);

/* in   architecture, type  one of them is NULL
 * out  ret                 untouched if there is none */
bool llama_arch_find(const char *architecture, const char *type,
                     enum llama_arch_id *ret);

#endif
