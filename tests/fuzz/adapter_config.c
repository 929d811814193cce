/* adapter_config.c - libFuzzer: any text as an adapter_config.json. What is
 * accepted has a rank, and targets that have names, or an expression. */
#include <math.h>
#include <stdlib.h>

#include "worker/llm/files/adapter_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    return 0;
}
