/* llama_config.c - libFuzzer: any text as a config.json, and as a
 * generation_config.json. What is accepted is a network that can be built, with
 * frequencies that are numbers, and ids of its vocabulary. */
#include "worker/llm/config/llama_config.h"
#include "worker/llm/config/llama_rope.h"

#include <math.h>
#include <stdlib.h>

#include "worker/llm/llama_ends.h"
#include "worker/llm/llama_shape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_id(int32_t id, int32_t vocab)
{
    return id >= -1 && id < vocab;
}

/* Of all weights, and of the widest adapters: no sum of sizes overflows. */
static void check_shape(const struct llama_config *c)
{
    struct llama_shape s = {.params = 0};
    struct error err = ERROR_INIT;
    if (llama_shape_init(&s, c, true, 0, 0, 0, &err) < 0 || s.params < 1 ||
        s.params != s.weights)
        abort();
    if (llama_shape_init(&s, c, false, 65536, 1, LORA_OUTPUT * 2 - 1, &err) <
            0 ||
        s.params < 1 || s.params != s.adapters)
        abort();
}

/* One of the layers has the window, if there is one. */
static void check_windows(const struct llama_config *c)
{
    int32_t n = 0;
    for (int32_t l = 0; l < c->layers; l++)
        n += llama_config_window(c, l) > 0;
    if (c->window < 0 || (c->window > 0) != (n > 0))
        abort();
}

static void check(const struct llama_config *c)
{
    if (c->hidden < 1 || c->ffn < 1 || c->layers < 1 || c->vocab < 1 ||
        c->heads < 1 || c->kv_heads < 1 || c->heads % c->kv_heads != 0 ||
        c->head_dim < 2 || c->head_dim % 2 != 0 || c->max_positions < 1 ||
        !(c->norm_eps > 0 && c->norm_eps <= 1) || !is_id(c->bos_id, c->vocab) ||
        !is_id(c->eos_id, c->vocab))
        abort();
    double *f = calloc((size_t)c->head_dim / 2, sizeof(*f));
    if (f == NULL)
        return;
    llama_frequencies(c, f);
    for (int32_t i = 0; i < c->head_dim / 2; i++)
        if (!(f[i] > 0 && f[i] <= 1))
            abort();
    free(f);
    check_windows(c);
    check_shape(c);
}

static void check_ends(const char *text, size_t size)
{
    enum { VOCAB = 1000 };
    struct llama_ends e = {.n = -7};
    struct error err = ERROR_INIT;
    if (llama_ends_parse(text, size, VOCAB, &e, &err) < 0) {
        if (err.code == ERR_NONE || err.msg[0] == '\0' || e.n != -7)
            abort();
        return;
    }
    for (int32_t i = 0; i < e.n; i++)
        if (!is_id(e.id[i], VOCAB) || e.id[i] < 0)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_ends((const char *)data, size);

    struct llama_config c = {.hidden = -7};
    struct error err = ERROR_INIT;
    if (llama_config_parse((const char *)data, size, &c, &err) == 0)
        check(&c);
    else if (err.code == ERR_NONE || err.msg[0] == '\0' || c.hidden != -7)
        abort();
    return 0;
}
