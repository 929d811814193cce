/* known_models.c - see known_models.h.
 *
 * src  config.json of the models; Touvron et al. 2023, arXiv:2307.09288, and
 *      Grattafiori et al. 2024, arXiv:2407.21783, table 3 */
#include "worker/model_tool/known_models.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int32_t hidden, ffn, layers, vocab, heads, kv_heads, positions;
    bool tied;
} models[] = {
    {"llama2-7b", 4096, 11008, 32, 32000, 32, 32, 4096, false},
    {"llama2-13b", 5120, 13824, 40, 32000, 40, 40, 4096, false},
    {"llama2-70b", 8192, 28672, 80, 32000, 64, 8, 4096, false},
    {"llama3-8b", 4096, 14336, 32, 128256, 32, 8, 8192, false},
    {"llama3-70b", 8192, 28672, 80, 128256, 64, 8, 8192, false},
    {"llama3.1-8b", 4096, 14336, 32, 128256, 32, 8, 131072, false},
    {"llama3.1-70b", 8192, 28672, 80, 128256, 64, 8, 131072, false},
    {"llama3.2-1b", 2048, 8192, 16, 128256, 32, 8, 131072, true},
    {"llama3.2-3b", 3072, 8192, 28, 128256, 24, 8, 131072, true},
};
enum { MODELS = sizeof(models) / sizeof(models[0]) };

int known_model_find(const char *name, struct llama_config *ret,
                     struct error *err)
{
    char names[200] = "";
    for (int i = 0; i < MODELS; i++) {
        const size_t n = strlen(names);
        if (strcmp(name, models[i].name) == 0) {
            *ret = (struct llama_config){.hidden = models[i].hidden,
                                         .ffn = models[i].ffn,
                                         .layers = models[i].layers,
                                         .vocab = models[i].vocab,
                                         .heads = models[i].heads,
                                         .kv_heads = models[i].kv_heads,
                                         .head_dim =
                                             models[i].hidden / models[i].heads,
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
