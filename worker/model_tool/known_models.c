/* known_models.c - see known_models.h.
 *
 * src  config.json of the models, of Mistral's that of v0.3, of Qwen2.5's those
 *      of the base models, 2026-11-29; Touvron et al. 2023, arXiv:2307.09288,
 *      and Grattafiori et al. 2024, arXiv:2407.21783, table 3 */
#include "worker/model_tool/known_models.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum llama_arch_id arch;
    int32_t hidden, ffn, layers, vocab, heads, kv_heads, head_dim, positions;
    bool tied;
} models[] = {
    {"llama2-7b", ARCH_LLAMA, 4096, 11008, 32, 32000, 32, 32, 128, 4096, false},
    {"llama2-13b", ARCH_LLAMA, 5120, 13824, 40, 32000, 40, 40, 128, 4096,
     false},
    {"llama2-70b", ARCH_LLAMA, 8192, 28672, 80, 32000, 64, 8, 128, 4096, false},
    {"llama3-8b", ARCH_LLAMA, 4096, 14336, 32, 128256, 32, 8, 128, 8192, false},
    {"llama3-70b", ARCH_LLAMA, 8192, 28672, 80, 128256, 64, 8, 128, 8192,
     false},
    {"llama3.1-8b", ARCH_LLAMA, 4096, 14336, 32, 128256, 32, 8, 128, 131072,
     false},
    {"llama3.1-70b", ARCH_LLAMA, 8192, 28672, 80, 128256, 64, 8, 128, 131072,
     false},
    {"llama3.2-1b", ARCH_LLAMA, 2048, 8192, 16, 128256, 32, 8, 64, 131072,
     true},
    {"llama3.2-3b", ARCH_LLAMA, 3072, 8192, 28, 128256, 24, 8, 128, 131072,
     true},
    {"tinyllama-1.1b", ARCH_LLAMA, 2048, 5632, 22, 32000, 32, 4, 64, 2048,
     false},
    {"smollm2-1.7b", ARCH_LLAMA, 2048, 8192, 24, 49152, 32, 32, 64, 8192, true},
    {"mistral-7b", ARCH_MISTRAL, 4096, 14336, 32, 32768, 32, 8, 128, 32768,
     false},
    {"qwen2.5-0.5b", ARCH_QWEN2, 896, 4864, 24, 151936, 14, 2, 64, 32768, true},
    {"qwen2.5-1.5b", ARCH_QWEN2, 1536, 8960, 28, 151936, 12, 2, 128, 131072,
     true},
    {"qwen2.5-3b", ARCH_QWEN2, 2048, 11008, 36, 151936, 16, 2, 128, 32768,
     true},
    {"qwen2.5-7b", ARCH_QWEN2, 3584, 18944, 28, 152064, 28, 4, 128, 131072,
     false},
    {"qwen2.5-14b", ARCH_QWEN2, 5120, 13824, 48, 152064, 40, 8, 128, 131072,
     false},
    {"qwen2.5-32b", ARCH_QWEN2, 5120, 27648, 64, 152064, 40, 8, 128, 131072,
     false},
    {"qwen3-0.6b", ARCH_QWEN3, 1024, 3072, 28, 151936, 16, 8, 128, 40960, true},
    {"qwen3-1.7b", ARCH_QWEN3, 2048, 6144, 28, 151936, 16, 8, 128, 40960, true},
    {"qwen3-4b", ARCH_QWEN3, 2560, 9728, 36, 151936, 32, 8, 128, 40960, true},
    {"qwen3-8b", ARCH_QWEN3, 4096, 12288, 36, 151936, 32, 8, 128, 40960, false},
};
enum { MODELS = sizeof(models) / sizeof(models[0]) };

int known_model_find(const char *name, struct llama_config *ret,
                     struct error *err)
{
    char names[400] = "";
    for (int i = 0; i < MODELS; i++) {
        const size_t n = strlen(names);
        if (strcmp(name, models[i].name) == 0) {
            const struct llama_arch *arch = llama_arch(models[i].arch);
            *ret = (struct llama_config){.arch = models[i].arch,
                                         .biases = arch->biases,
                                         .head_norms = arch->head_norms,
                                         .hidden = models[i].hidden,
                                         .ffn = models[i].ffn,
                                         .layers = models[i].layers,
                                         .vocab = models[i].vocab,
                                         .heads = models[i].heads,
                                         .kv_heads = models[i].kv_heads,
                                         .head_dim = models[i].head_dim,
                                         .max_positions = models[i].positions,
                                         .norm_eps = 1e-5,
                                         .rope_theta = 500000,
                                         .tied = models[i].tied,
                                         .bos_id = -1,
                                         .eos_id = -1};
            return 0;
        }
        (void)snprintf(names + n, sizeof(names) - n, "%s%s", i > 0 ? ", " : "",
                       models[i].name);
    }
    return error_set(err, ERR_USAGE, "--for: '%.30s' is none of %s", name,
                     names);
}
