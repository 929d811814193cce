/* llm_base.c - a frozen base in four bits: which tensors of a layer stay, how
 * many bits a value takes, and what a layer is when it is opened. */
#include <math.h>
#include <stdlib.h>

#include "tests/unit/worker/llm_drawn.h"
#include "worker/llm/llama_internal.h"

static const struct llama_config config = {.vocab = 32,
                                           .hidden = 24,
                                           .ffn = 41,
                                           .layers = 2,
                                           .heads = 3,
                                           .kv_heads = 3,
                                           .head_dim = 8,
                                           .max_positions = 64,
                                           .tied = true};

static void test_layout(void)
{
    struct error err = ERROR_INIT;
    struct llama_shape s;
    struct llama_base b;
    char text[80];
    struct llama_config c = config;
    must(llama_shape_init(&s, &c, false, 4, 8, 127, &err), &err);
    must(llama_base_init(&b, &s, QUANTIZER_NF4, &err), &err);
    llama_base_stays(&s, &b, text, sizeof(text));
    is_str(text, "gate_proj, up_proj, down_proj", "984 values are no blocks");
    is_int(b.quantised, 4L * 24 * 24, "q, k, v and o are");
    is_int(b.stays, 3L * 984 + 2L * 24, "the MLP and the norms stay");
    is_int(b.groups, 4, "a short group of scalers for each");
    llama_base_stays(&s, &b, text, 12);
    is_str(text, "gate_proj, ", "names are cut to the room that there is");

    c.hidden = 4;
    c.head_dim = 2;
    c.heads = c.kv_heads = 2;
    c.ffn = 5;
    must(llama_shape_init(&s, &c, false, 4, 8, 127, &err), &err);
    ok(llama_base_init(&b, &s, QUANTIZER_NF4, &err) < 0 &&
           err.code == ERR_INVAL && strstr(err.msg, "set method: lora"),
       "a base without blocks is refused: %s", err.msg);
    must(llama_base_init(&b, &s, QUANTIZER_NONE, &err), &err);
    is_int(b.quantised, 0, "but not without a quantizer");
}

/* ---- a model of such shapes ---------------------------------------------- */

static double value_at(const struct llama_tensor *t, int32_t tensor, int64_t i)
{
    (void)t;
    return (double)((i * 37 + (int64_t)tensor * 11) % 101 - 50) / 128;
}

static void test_open(const char *dir)
{
    struct error err = ERROR_INIT;
    struct llm_rig g;
    char text[256];
    const struct llama_conf conf = {.dt = DT_F64,
                                    .rank = 4,
                                    .alpha = 8,
                                    .targets = 127,
                                    .quantizer = QUANTIZER_NF4,
                                    .batch = 1,
                                    .batch_eval = 1,
                                    .row_tokens = 8,
                                    .dir = dir};
    llm_rig_open(&g, &conf, 1);
    struct llama *m = (struct llama *)g.m;
    m->model.ops->describe(g.m, text, sizeof(text));
    ok(strstr(text, "but not gate_proj, up_proj, down_proj, whose values are "
                    "no multiple of 64"),
       "%s", text);
    for (int32_t l = config.layers - 1; l >= 0; l--) {
        int64_t moved = 0, kept = 0, packed = 0, off = 0;
        must(llama_open_layer(m, l, &err), &err);
        for (int32_t k = 0; k < m->shape.inners; k++) {
            const struct llama_base_tensor *t = &m->base.tensor[k];
            const int32_t which = 1 + l * m->shape.inners + k;
            for (int64_t i = 0; i < t->n; i++) {
                const double want = value_at(NULL, which, i);
                const double got =
                    dtype_get(DT_F64, m->layer, m->base.tensor[k].at + i);
                packed += t->is_packed;
                kept += !t->is_packed;
                moved += !t->is_packed && got != want;
                /* Half of the widest gap of the book, of 50/128. */
                off += t->is_packed && fabs(got - want) > 0.16 * 50 / 128;
            }
        }
        ok(kept == 3 * 984 + 2 * 24 && moved == 0,
           "layer %d: what stays is as in the file", l);
        ok(packed == 4L * 24 * 24 && off == 0, "and the rest is near it");
    }
    const void *was = m->layer;
    must(llama_open_layer(m, 0, &err), &err);
    ok(m->layer == was && m->open == 0, "a layer that is open stays so");
    llm_rig_close(&g);
}

int main(void)
{
    char dir[] = "/tmp/mgpu-llm-base-XXXXXX";
    test_layout();
    if (mkdtemp(dir) == NULL)
        return 1;
    llm_write_model(dir, &config, value_at);
    test_open(dir);
    llm_remove_model(dir);
    return tap_done();
}
