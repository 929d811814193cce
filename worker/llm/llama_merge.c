/* llama_merge.c - see llama_merge.h.
 *
 * All that can be wrong with the files is looked for before the first byte is
 * written: that costs one more read of the base. */
#include "worker/llm/llama_merge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/llm/files/hf_write.h"
#include "worker/llm/files/merge_dir.h"
#include "worker/llm/llama_check.h"

enum { BLOCK = 4096 };

static const char head_name[] = "lm_head.weight";
static const char embed_name[] = "model.embed_tokens.weight";

struct merge {
    const struct llama_merge *conf;
    struct llama_shape shape;
    struct hf_dir *base;
    struct safetensors adapter;
    bool unties;
    char quantizer[ADAPTER_QUANTIZER_CAP];
    struct adapter_ranks ranks;
    bool writes;      /* the second pass over the tensors */
    void *out;        /* [largest tensor]: a merged one */
    double *a, *b;    /* of one linear */
    double *row, *wa; /* of its widest */
};

/* A tensor of the result. */
struct part {
    const char *name;
    const struct st_tensor *from;  /* of the base */
    const struct st_tensor *a, *b; /* NULL: it has no adapter */
};

/* ---- the two directories ------------------------------------------------- */

static int open_files(struct merge *m, struct error *err)
{
    const struct llama_merge *c = m->conf;
    struct llama_config config;
    struct adapter_config adapter;
    if (llama_read_dir(c->dir, NULL, &config, err) < 0)
        return -1;
    if (adapter_read(c->adapter, config.layers, &adapter, &m->ranks, err) < 0 ||
        llama_shape_init(&m->shape, &config, false, adapter.rank, adapter.alpha,
                         adapter.targets, err) < 0 ||
        adapter_open(c->adapter, &m->adapter, err) < 0)
        return -1;
    llama_shape_set_ranks(&m->shape, &m->ranks);
    memcpy(m->quantizer, adapter.quantizer, sizeof(m->quantizer));
    m->unties = config.tied && (adapter.targets & LORA_OUTPUT) != 0;
    if (hf_open(c->dir, NULL, &m->base, err) < 0)
        return -1;
    if (llama_check_adapters(&m->adapter, m->base, &m->shape, err) < 0)
        return error_wrap(err, "%s", c->adapter);
    if (llama_check_weights(m->base, &m->shape, err) < 0)
        return error_wrap(err, "%s", c->dir);
    return 0;
}

static int check_finite(const struct st_tensor *t, const char *where,
                        struct error *err)
{
    double block[BLOCK];
    if (hf_dtype(t->type) == DT_N)
        return 0;
    const int64_t n = (int64_t)t->bytes / st_types[t->type].bytes;
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        hf_copy(t, i, count, DT_F64, block);
        const int64_t k = hf_not_finite(DT_F64, block, count);
        if (k >= 0)
            return error_set(err, ERR_INVAL, "%s: value %lld of '%.100s' is %s",
                             where, (long long)(i + k), t->name,
                             isnan(block[k]) ? "NaN" : "infinite");
    }
    return 0;
}

static int check_values(const struct merge *m, struct error *err)
{
    for (size_t i = 0; i < m->adapter.n; i++)
        if (check_finite(&m->adapter.tensors[i], m->conf->adapter, err) < 0)
            return -1;
    for (size_t f = 0; f < hf_file_count(m->base); f++) {
        const struct safetensors *s = hf_file_tensors(m->base, f);
        for (size_t i = 0; i < s->n; i++)
            if (check_finite(&s->tensors[i], m->conf->dir, err) < 0)
                return -1;
    }
    return 0;
}

/* ---- one tensor ---------------------------------------------------------- */

static int64_t values_of(const struct st_tensor *t)
{
    return (int64_t)t->bytes / st_types[t->type].bytes;
}

/* "lora_A" or "lora_B" of a weight; NULL: it has none. */
static const struct st_tensor *adapter_of(const struct merge *m,
                                          const char *name, const char *which)
{
    char full[2 * LLAMA_NAME_CAP];
    const char *end = strrchr(name, '.');
    if (end == NULL || end - name > LLAMA_NAME_CAP ||
        strcmp(end, ".weight") != 0)
        return NULL;
    (void)snprintf(full, sizeof(full), "base_model.model.%.*s.%s.weight",
                   (int)(end - name), name, which);
    return safetensors_find(&m->adapter, full);
}

/* alpha / rank of an adapter. */
static double scale_of(const struct merge *m, const struct st_tensor *a)
{
    struct llama_tensor t = {.scale = 0};
    for (int32_t i = 0; i < llama_adapter_count(&m->shape); i++) {
        llama_adapter(&m->shape, i, &t);
        if (strcmp(t.name, a->name) == 0)
            break;
    }
    return t.scale;
}

/* Row i of W + scale B A. */
static int merge_row(const struct merge *m, const struct part *p, double scale,
                     int64_t i, struct error *err)
{
    const int64_t in = p->from->shape[1];
    const int32_t rank = (int32_t)p->a->shape[0];
    const enum dtype dt = hf_dtype(p->from->type);
    hf_copy(p->from, i * in, in, DT_F64, m->row);
    memset(m->wa, 0, (size_t)in * sizeof(*m->wa));
    for (int32_t k = 0; k < rank; k++) {
        const double b = m->b[i * rank + k];
        const double *a = m->a + k * in;
        for (int64_t j = 0; j < in; j++)
            m->wa[j] += b * a[j];
    }
    for (int64_t j = 0; j < in; j++) {
        dtype_set(dt, m->out, i * in + j, m->row[j] + scale * m->wa[j]);
        if (!isfinite(dtype_get(dt, m->out, i * in + j)))
            return error_set(err, ERR_INVAL,
                             "'%.100s' is not finite with its adapter in %s, "
                             "the type of the base",
                             p->name, st_types[p->from->type].word);
    }
    return 0;
}

static int merge_part(const struct merge *m, const struct part *p,
                      struct error *err)
{
    const double scale = scale_of(m, p->a);
    hf_copy(p->a, 0, values_of(p->a), DT_F64, m->a);
    hf_copy(p->b, 0, values_of(p->b), DT_F64, m->b);
    for (int64_t i = 0; i < p->from->shape[0]; i++)
        if (merge_row(m, p, scale, i, err) < 0)
            return -1;
    return 0;
}

static int each_part(const struct merge *m, const struct part *p,
                     const char *file,
                     int (*take)(void *to, const struct hf_tensor *t,
                                 struct error *err),
                     void *to, struct error *err)
{
    struct hf_tensor t = {.name = p->name,
                          .type = p->from->type,
                          .dims = p->from->dims,
                          .data = p->from->data,
                          .file = file};
    for (int32_t i = 0; i < t.dims && i < 4; i++)
        t.shape[i] = p->from->shape[i];
    if (p->a != NULL && p->b != NULL && m->writes) {
        if (merge_part(m, p, err) < 0)
            return -1;
        t.data = m->out;
    }
    return take(to, &t, err);
}

/* ---- all of them --------------------------------------------------------- */

static int each(void *arg,
                int (*take)(void *to, const struct hf_tensor *t,
                            struct error *err),
                void *to, struct error *err)
{
    struct merge *m = arg;
    const size_t files = hf_file_count(m->base);
    for (size_t f = 0; f < files; f++) {
        const struct safetensors *s = hf_file_tensors(m->base, f);
        for (size_t i = 0; i < s->n; i++) {
            const char *name = s->tensors[i].name;
            const bool is_head = strcmp(name, head_name) == 0;
            /* A tied model may have a copy of its embeddings. */
            const bool has = !(is_head && m->shape.c.tied);
            const struct part p = {name, &s->tensors[i],
                                   has ? adapter_of(m, name, "lora_A") : NULL,
                                   has ? adapter_of(m, name, "lora_B") : NULL};
            if (is_head && m->unties)
                continue;
            if (each_part(m, &p, hf_file_name(m->base, f), take, to, err) < 0)
                return -1;
        }
    }
    const struct part head = {head_name, hf_find(m->base, embed_name),
                              adapter_of(m, head_name, "lora_A"),
                              adapter_of(m, head_name, "lora_B")};
    if (m->unties && each_part(m, &head, hf_file_name(m->base, files - 1), take,
                               to, err) < 0)
        return -1;
    m->writes = true;
    return 0;
}

static int take_memory(struct merge *m, struct error *err)
{
    size_t out = 1, in = 1, a = 1, b = 1;
    for (int32_t i = 0; i < llama_adapter_count(&m->shape); i++) {
        struct llama_tensor t;
        llama_adapter(&m->shape, i, &t);
        size_t *most = t.fan_in > 0 ? &a : &b;
        *most = (size_t)t.n > *most ? (size_t)t.n : *most;
        in = (size_t)t.fan_in > in ? (size_t)t.fan_in : in;
    }
    for (int32_t i = 0; i < llama_weight_count(&m->shape); i++) {
        struct llama_tensor t;
        llama_weight(&m->shape, i, &t);
        const struct st_tensor *from = hf_find(m->base, t.name);
        out = from != NULL && from->bytes > out ? from->bytes : out;
    }
    m->out = malloc(out);
    m->a = calloc(a, sizeof(*m->a));
    m->b = calloc(b, sizeof(*m->b));
    m->row = calloc(in, sizeof(*m->row));
    m->wa = calloc(in, sizeof(*m->wa));
    if (m->out == NULL || m->a == NULL || m->b == NULL || m->row == NULL ||
        m->wa == NULL)
        return error_set(err, ERR_NOMEM, "the largest tensor of the model");
    return 0;
}

static int write_all(struct merge *m, struct error *err)
{
    struct merge_dir dir = MERGE_DIR_INIT;
    const struct hf_ends ends = {.prompt = PROMPT_AUTO,
                                 .first = m->conf->adapter};
    int rc = merge_dir_create(&dir, m->conf->out, err);
    rc = rc < 0 ? rc
                : hf_write(buf_str(&dir.partial), m->conf->dir, &ends, 0, each,
                           m, err);
    if (rc == 0 && (m->unties || m->shape.c.is_untied))
        rc = merge_dir_untie(buf_str(&dir.partial), err);
    rc = rc < 0 ? rc : merge_dir_finish(&dir, err);
    merge_dir_clear(&dir);
    return rc;
}

int llama_merge(const struct llama_merge *conf, struct llama_merged *ret,
                struct error *err)
{
    struct merge m = {.conf = conf};
    int rc = open_files(&m, err);
    rc = rc < 0 ? rc : check_values(&m, err);
    rc = rc < 0 ? rc : take_memory(&m, err);
    rc = rc < 0 ? rc : write_all(&m, err);
    if (rc == 0) {
        *ret =
            (struct llama_merged){.linears = llama_adapter_count(&m.shape) / 2,
                                  .files = hf_file_count(m.base),
                                  .is_untied = m.unties,
                                  .has_own_head = m.shape.c.is_untied};
        (void)snprintf(ret->quantizer, sizeof(ret->quantizer), "%s",
                       m.quantizer);
    }
    adapter_ranks_clear(&m.ranks);
    safetensors_close(&m.adapter);
    hf_close(m.base);
    free(m.out);
    free(m.a);
    free(m.b);
    free(m.row);
    free(m.wa);
    return rc;
}
