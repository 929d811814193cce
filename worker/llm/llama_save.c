/* llama_save.c - write the result of a job: PEFT's adapter, or a model
 * directory. */
#include <stdio.h>
#include <stdlib.h>

#include "worker/llm/files/hf_write.h"
#include "worker/llm/files/merge_dir.h"
#include "worker/llm/files/model_card.h"
#include "worker/llm/llama_internal.h"

static enum st_type type_of(enum dtype dt)
{
    static const enum st_type types[DT_N] = {[DT_F64] = ST_F64,
                                             [DT_F32] = ST_F32,
                                             [DT_F16] = ST_F16,
                                             [DT_BF16] = ST_BF16};
    return types[dt];
}

/* The weights that the files are written from. */
struct source {
    struct llama *m;
    const char *weights; /* device */
    enum dtype dt;
    void *host;    /* one tensor */
    int32_t calls; /* of the two below: the first one only declares */
};

static int fetch(const struct source *s, const struct llama_tensor *t,
                 struct error *err)
{
    const size_t size = dtype_bytes(s->dt);
    if (s->calls < 2)
        return 0;
    if (s->m->shape.is_full)
        return llama_fetch_params(s->m, t->at, t->n, s->host, err);
    return s->m->d->ops->to_host(s->m->d, s->host,
                                 s->weights + (size_t)t->at * size,
                                 (size_t)t->n * size, err);
}

static int each_adapter(void *arg,
                        int (*take)(void *to, const struct adapter_tensor *t,
                                    struct error *err),
                        void *to, struct error *err)
{
    struct source *s = arg;
    s->calls++;
    for (int32_t i = 0; i < llama_adapter_count(&s->m->shape); i++) {
        struct llama_tensor t;
        llama_adapter(&s->m->shape, i, &t);
        const struct adapter_tensor out = {.name = t.name,
                                           .type = type_of(s->dt),
                                           .shape = {t.shape[0], t.shape[1]},
                                           .data = s->host};
        if (fetch(s, &t, err) < 0 || take(to, &out, err) < 0)
            return -1;
    }
    return 0;
}

static int each_weight(void *arg,
                       int (*take)(void *to, const struct hf_tensor *t,
                                   struct error *err),
                       void *to, struct error *err)
{
    struct source *s = arg;
    s->calls++;
    for (int32_t i = 0; i < llama_weight_count(&s->m->shape); i++) {
        struct llama_tensor t;
        llama_weight(&s->m->shape, i, &t);
        const struct hf_tensor out = {.name = t.name,
                                      .type = type_of(s->dt),
                                      .dims = t.dims,
                                      .shape = {t.shape[0], t.shape[1]},
                                      .data = s->host};
        if (fetch(s, &t, err) < 0 || take(to, &out, err) < 0)
            return -1;
    }
    return 0;
}

static struct adapter_config config_of(const struct llama *m)
{
    const struct llama_shape *s = &m->shape;
    struct adapter_config c = {.keys = m->conf.ranks.keys,
                               .rank = s->rank,
                               .alpha = s->alpha,
                               .dropout = m->conf.dropout,
                               .targets = s->targets};
    (void)snprintf(c.quantizer, sizeof(c.quantizer), "%s",
                   llama_base_word(m->base.quantizer));
    return c;
}

bool llama_is_adapter(const struct model *model)
{
    return !((const struct llama *)model)->shape.is_full;
}

static struct hf_ends ends_of(const struct llama *m)
{
    return (struct hf_ends){.prompt = m->conf.prompt,
                            .tokenizer = m->conf.tokenizer};
}

/* What hf_write() and adapter_write() have beside their tensors. */
int llama_save_config(struct model *model, const char *dir, struct error *err)
{
    const struct llama *m = llama_of(model);
    const struct hf_ends ends = ends_of(m);
    if (!m->shape.is_full) {
        const struct adapter_config c = config_of(m);
        int rc = adapter_write_config(dir, &c, m->conf.dir, err);
        return rc < 0 ? rc : hf_write_ends(dir, m->conf.dir, &ends, err);
    }
    if (hf_write_config(dir, m->conf.dir, &ends, err) < 0)
        return -1;
    return m->shape.c.is_untied ? merge_dir_untie(dir, err) : 0;
}

int llama_save_card(struct model *model, const char *dir,
                    const struct model_facts *f, struct error *err)
{
    const struct llama *m = llama_of(model);
    const struct model_card c = {.base = m->conf.dir,
                                 .digest = m->digest,
                                 .type = dtype_name(m->conf.dt),
                                 .rank = m->shape.is_full ? 0 : m->shape.rank,
                                 .least_rank = m->conf.ranks.least,
                                 .pairs = m->conf.pairs,
                                 .quantizer =
                                     llama_base_word(m->conf.quantizer)};
    return model_card_write(dir, &c, f, err);
}

/* An adapter is kept as exact as it is; a model in the run's type. */
int llama_save(struct model *model, const char *dir, const void *weights,
               enum dtype dt, struct error *err)
{
    struct llama *m = llama_of(model);
    const struct llama_shape *s = &m->shape;
    struct source from = {
        .m = m, .weights = weights, .dt = s->is_full ? m->conf.dt : dt};
    const struct adapter_config c = config_of(m);
    const struct hf_ends ends = ends_of(m);
    from.host = malloc((size_t)llama_largest(s) * dtype_bytes(from.dt));
    if (from.host == NULL)
        return error_set(err, ERR_NOMEM, "model: a tensor on the host");
    int rc =
        s->is_full
            ? hf_write(dir, m->conf.dir, &ends, 0, each_weight, &from, err)
            : adapter_write(dir, &c, m->conf.dir, each_adapter, &from, err);
    free(from.host);
    if (rc == 0 && !s->is_full)
        rc = hf_write_ends(dir, m->conf.dir, &ends, err);
    return rc < 0 || !s->is_full || !s->c.is_untied ? rc
                                                    : merge_dir_untie(dir, err);
}
