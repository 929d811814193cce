/* adapter_config.c - libFuzzer: any text as an adapter_config.json. What is
 * accepted has a rank, and targets that have names, or an expression; and if
 * its patterns are for a model of three layers, each linear has a rank that is
 * possible. */
#include <math.h>
#include <stdlib.h>

#include "worker/llm/files/adapter_ranks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_ranks(const uint8_t *data, size_t size,
                        const struct adapter_config *c)
{
    static const struct safetensors none = {.n = 0};
    struct adapter_ranks r = {.layers = 0}, same = {.layers = 0};
    struct error err = ERROR_INIT;
    if (adapter_ranks_parse((const char *)data, size, c, 3, &none, &r, &err) <
        0) {
        if (err.code == ERR_NONE || err.msg[0] == '\0' || r.layer != NULL)
            abort();
        return;
    }
    for (int l = 0; l < 4 && r.layer != NULL; l++)
        for (int t = 0; t < LORA_TARGETS; t++)
            if (r.layer[l].rank[t] < 0 || r.layer[l].rank[t] > r.most ||
                !isfinite(r.layer[l].alpha[t]))
                abort();
    if (adapter_ranks_copy(&r, &same, &err) == 0)
        adapter_ranks_clear(&same);
    adapter_ranks_clear(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct adapter_config c = {.rank = -7};
    struct error err = ERROR_INIT;
    if (adapter_config_parse((const char *)data, size, &c, &err) < 0) {
        if (err.code == ERR_NONE || err.msg[0] == '\0' || c.rank != -7)
            abort();
        return 0;
    }
    if (c.rank < 1 || !isfinite(c.alpha) || !(c.dropout >= 0) ||
        !(c.dropout < 1) || c.targets >> LORA_TARGETS != 0)
        abort();
    check_ranks(data, size, &c);
    return 0;
}
