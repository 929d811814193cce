/* llama_arch.c - see llama_arch.h. */
#include "worker/llm/config/llama_arch.h"

#include <stdio.h>
#include <string.h>

/* Llama's names, which others took over. */
static const char *const names[LLAMA_INNERS] = {
    [INNER_NORM1] = "input_layernorm.weight",
    [INNER_Q] = "self_attn.q_proj.weight",
    [INNER_K] = "self_attn.k_proj.weight",
    [INNER_V] = "self_attn.v_proj.weight",
    [INNER_Q_BIAS] = "self_attn.q_proj.bias",
    [INNER_K_BIAS] = "self_attn.k_proj.bias",
    [INNER_V_BIAS] = "self_attn.v_proj.bias",
    [INNER_Q_NORM] = "self_attn.q_norm.weight",
    [INNER_K_NORM] = "self_attn.k_norm.weight",
    [INNER_O] = "self_attn.o_proj.weight",
    [INNER_O_BIAS] = "self_attn.o_proj.bias",
    [INNER_NORM2] = "post_attention_layernorm.weight",
    [INNER_GATE] = "mlp.gate_proj.weight",
    [INNER_UP] = "mlp.up_proj.weight",
    [INNER_GATE_BIAS] = "mlp.gate_proj.bias",
    [INNER_UP_BIAS] = "mlp.up_proj.bias",
    [INNER_DOWN] = "mlp.down_proj.weight",
    [INNER_DOWN_BIAS] = "mlp.down_proj.bias",
};

#define ATTENTION_BIAS (1u << PRODUCT_QKV | 1u << PRODUCT_O)
#define MLP_BIAS (1u << PRODUCT_GATE_UP | 1u << PRODUCT_DOWN)

static const struct llama_arch archs[LLAMA_ARCHS] = {
    [ARCH_LLAMA] = {.architecture = "LlamaForCausalLM",
                    .type = "llama",
                    .word = "Llama",
                    .recipes = "LLAMA2, LLAMA3 and LLAMA3_2",
                    .inner = names,
                    .bias_keys = ATTENTION_BIAS | MLP_BIAS,
                    .positions = 2048},
    [ARCH_QWEN2] = {.architecture = "Qwen2ForCausalLM",
                    .type = "qwen2",
                    .word = "Qwen2",
                    .recipes = "QWEN2",
                    .inner = names,
                    .biases = 1u << PRODUCT_QKV,
                    .window = WINDOW_IF_USED,
                    .kv_heads = 32,
                    .positions = 32768,
                    .windowed = 4096},
    [ARCH_QWEN3] = {.architecture = "Qwen3ForCausalLM",
                    .type = "qwen3",
                    .word = "Qwen3",
                    .recipes = "QWEN3",
                    .inner = names,
                    .bias_keys = ATTENTION_BIAS,
                    .head_norms = true,
                    .window = WINDOW_IF_USED,
                    .kv_heads = 32,
                    .head_dim = 128,
                    .positions = 32768,
                    .windowed = 4096},
    [ARCH_MISTRAL] = {.architecture = "MistralForCausalLM",
                      .type = "mistral",
                      .word = "Mistral",
                      .recipes = "MISTRAL",
                      .inner = names,
                      .window = WINDOW_ALWAYS,
                      .kv_heads = 8,
                      .positions = 131072,
                      .windowed = 4096},
};

const struct llama_arch *llama_arch(enum llama_arch_id id)
{
    return &archs[id];
}

struct llama_arch_words llama_arch_list(void)
{
    struct llama_arch_words w = {.text = ""};
    size_t n = 0;
    for (int i = 0; i < LLAMA_ARCHS && n < sizeof(w.text); i++)
        n += (size_t)snprintf(w.text + n, sizeof(w.text) - n, "%s%s",
                              i > 0 ? ", " : "", archs[i].architecture);
    return w;
}

bool llama_arch_find(const char *architecture, const char *type,
                     enum llama_arch_id *ret)
{
    for (int i = 0; i < LLAMA_ARCHS; i++) {
        const char *is = type != NULL ? archs[i].type : archs[i].architecture;
        if (strcmp(is, type != NULL ? type : architecture) != 0)
            continue;
        *ret = (enum llama_arch_id)i;
        return true;
    }
    return false;
}
