/* llama_sample.c - greedy answers: the likeliest token each time, one prompt,
 * no cache of keys and values.
 */
#include <stdlib.h>
#include <string.h>

#include "worker/data/text/tokenizer.h"
#include "worker/llm/llama_internal.h"

/* Logits of the last of n tokens, which are one document, to m->host in T. */
static int last_logits(struct llama *m, const int32_t *ids, int32_t n,
                       int32_t row, struct error *err)
{
    const struct device_ops *ops = m->d->ops;
    const struct llama_call call = {
        .product = PRODUCT_HEAD,
        .rows = 1,
        .x = llama_at(m, m->mem.normed, (int64_t)row * m->shape.c.hidden),
        .low = m->mem.head_low};
    int32_t *pos = m->host; /* room for a token's result is more */
    for (int32_t i = 0; i < n; i++)
        pos[i] = i;
    m->n = 0;
    m->train = false;
    m->tokens = n;
    if (ops->to_device(m->d, m->mem.pos, pos, (size_t)n * sizeof(*pos), err) <
            0 ||
        ops->to_device(m->d, m->mem.ids, ids, (size_t)n * sizeof(*ids), err) <
            0 ||
        ops->sync(m->d, err) < 0 ||
        llama_layers(m, m->mem.ids, m->mem.pos, false, err) < 0 ||
        llama_linear(m, &call, m->mem.logits, err) < 0)
        return -1;
    return ops->to_host(m->d, m->host, m->mem.logits,
                        (size_t)m->shape.c.vocab * dtype_bytes(m->conf.dt),
                        err);
}

static int check_ids(const struct llama *m, const int32_t *ids, int32_t n,
                     struct error *err)
{
    if (n < 1 || n > m->conf.row_tokens)
        return error_set(err, ERR_INVAL,
                         "a prompt of %d tokens, expected 1..%d", n,
                         m->conf.row_tokens);
    for (int32_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= m->shape.c.vocab)
            return error_set(err, ERR_INVAL,
                             "token %d is %d, the vocabulary has %d", i, ids[i],
                             m->shape.c.vocab);
    return 0;
}

int llama_logits(struct model *model, const int32_t *ids, int32_t n,
                 int32_t row, double *ret, struct error *err)
{
    struct llama *m = llama_of(model);
    if (check_ids(m, ids, n, err) < 0 || last_logits(m, ids, n, row, err) < 0)
        return -1;
    for (int32_t i = 0; i < m->shape.c.vocab; i++)
        ret[i] = dtype_get(m->conf.dt, m->host, i);
    return 0;
}

/* Of equal ones the first. */
static int32_t likeliest(const struct llama *m)
{
    int32_t best = 0;
    double most = dtype_get(m->conf.dt, m->host, 0);
    for (int32_t i = 1; i < m->shape.c.vocab; i++) {
        const double v = dtype_get(m->conf.dt, m->host, i);
        if (v > most) {
            most = v;
            best = i;
        }
    }
    return best;
}

int llama_answer(struct model *model, int32_t *ids, int32_t n, int32_t most,
                 int32_t end, int32_t *ret_n, struct error *err)
{
    struct llama *m = llama_of(model);
    if (check_ids(m, ids, n, err) < 0)
        return -1;
    while (n < most && n < m->conf.row_tokens) {
        if (last_logits(m, ids, n, n - 1, err) < 0)
            return -1;
        const int32_t next = likeliest(m);
        if (next == end)
            break;
        ids[n++] = next;
    }
    *ret_n = n;
    return 0;
}

static int ask(struct llama *m, struct buf *ids, int32_t max_new,
               struct buf *out, struct error *err)
{
    const struct tokenizer_ids *t = tokenizer_ids(m->tokenizer);
    const int32_t n = (int32_t)(ids->len / sizeof(int32_t));
    const int32_t end = m->shape.c.eos_id >= 0 ? m->shape.c.eos_id : t->eos;
    int32_t all = n;
    if (buf_reserve(ids, ids->len + (size_t)max_new * sizeof(int32_t), err) < 0)
        return -1;
    int32_t *list = (void *)ids->data;
    if (llama_answer(&m->model, list, n, n + max_new, end, &all, err) < 0)
        return -1;
    return tokenizer_decode(m->tokenizer, list + n, (size_t)(all - n), out,
                            err);
}

int llama_sample(struct model *model, const char *prompt, int32_t max_new,
                 struct buf *out, struct error *err)
{
    struct llama *m = llama_of(model);
    struct buf ids = BUF_INIT;
    const char *path =
        m->conf.tokenizer != NULL ? m->conf.tokenizer : m->conf.dir;
    if (m->tokenizer == NULL && tokenizer_open(path, &m->tokenizer, err) < 0)
        return -1;
    int rc = tokenizer_encode(m->tokenizer, prompt, strlen(prompt),
                              TOKENIZER_BOS, &ids, err);
    rc = rc < 0 ? rc : ask(m, &ids, max_new, out, err);
    buf_clear(&ids);
    return rc;
}
