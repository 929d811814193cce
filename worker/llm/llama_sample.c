/* llama_sample.c - answer a prompt, with the likeliest token each time or a
 * drawn one.
 *
 * The first pass is over the prompt. What it leaves in qkv of each layer is
 * kept, and each pass behind it is over one token (attention_step), or over
 * what a conversation has more. With activation checkpointing the layers share
 * qkv, and each pass is over all.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/rng.h"
#include "worker/data/chat/chat_tokenizer.h"
#include "worker/data/text/chat_format.h"
#include "worker/llm/llama_internal.h"
#include "worker/llm/llama_linear.h"
#include "worker/llm/token_choice.h"

/* Logits of token `row` of ids [first, n), which are of one document, to
 * m->host in T. The first of them have been seen. */
static int last_logits(struct llama *m, const int32_t *ids, int32_t first,
                       int32_t n, int32_t row, struct error *err)
{
    const struct device_ops *ops = m->d->ops;
    const struct llama_call call = {
        .product = PRODUCT_HEAD,
        .rows = 1,
        .x = llama_at(m, m->mem.normed,
                      (int64_t)(row - first) * m->shape.c.hidden),
        .low = m->mem.head_low};
    const size_t bytes = (size_t)(n - first) * sizeof(*ids);
    int32_t *pos = m->host; /* room for a token's result is more */
    for (int32_t i = first; i < n; i++)
        pos[i - first] = i;
    m->n = 0;
    m->train = false;
    m->tokens = n - first;
    m->first = first;
    int rc = -1;
    if (ops->to_device(m->d, m->mem.pos, pos, bytes, err) == 0 &&
        ops->to_device(m->d, m->mem.ids, ids + first, bytes, err) == 0 &&
        ops->sync(m->d, err) == 0 &&
        llama_layers(m, m->mem.ids, m->mem.pos, false, err) == 0 &&
        llama_linear(m, &call, m->mem.logits, err) == 0)
        rc = ops->to_host(m->d, m->host, m->mem.logits,
                          (size_t)m->shape.c.vocab * dtype_bytes(m->conf.dt),
                          err);
    m->first = 0;
    return rc;
}

/* Tokens that a prompt and its answer can have. */
static int32_t most_tokens(const struct llama *m)
{
    const struct llama_config *c = &m->shape.c;
    return c->max_positions < m->conf.row_tokens ? c->max_positions
                                                 : m->conf.row_tokens;
}

static int check_ids(const struct llama *m, const int32_t *ids, int32_t n,
                     struct error *err)
{
    if (n < 1 || n > most_tokens(m))
        return error_set(err, ERR_INVAL,
                         "a prompt of %d tokens, expected 1..%d", n,
                         most_tokens(m));
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
    if (check_ids(m, ids, n, err) < 0 ||
        last_logits(m, ids, 0, n, row, err) < 0)
        return -1;
    for (int32_t i = 0; i < m->shape.c.vocab; i++)
        ret[i] = dtype_get(m->conf.dt, m->host, i);
    return 0;
}

static bool is_end(const struct llama_choice *c, int32_t id)
{
    for (int32_t i = 0; i < c->n_ends; i++)
        if (c->ends[i] == id)
            return true;
    return false;
}

static void set_kept(const struct llama_choice *c, int32_t n)
{
    if (c->kept != NULL)
        *c->kept = n;
}

static int generate(struct llama *m, const struct llama_choice *c,
                    struct token_choice *choice, int32_t *ids, int32_t *n,
                    int32_t most, struct error *err)
{
    const bool keeps =
        !c->no_cache && (m->conf.generates || !m->conf.recomputes);
    int32_t first = keeps && c->kept != NULL ? *c->kept : 0;
    if (first < 0 || first >= *n)
        return error_set(err, ERR_INVAL, "%d of %d tokens have keys", first,
                         *n);
    while (*n < most && *n < most_tokens(m)) {
        set_kept(c, 0);
        if (last_logits(m, ids, first, *n, *n - 1, err) < 0)
            return -1;
        set_kept(c, keeps ? *n : 0);
        for (int32_t i = 0; i < m->shape.c.vocab; i++)
            choice->logits[i] = dtype_get(m->conf.dt, m->host, i);
        const int32_t next = token_choice_next(choice);
        if (is_end(c, next))
            break;
        first = keeps ? *n : 0;
        ids[(*n)++] = next;
        if (c->each != NULL && c->each(c->arg, next, err) < 0)
            return -1;
    }
    return 0;
}

int llama_generate(struct model *model, const struct llama_choice *c,
                   int32_t *ids, int32_t n, int32_t most, int32_t *ret_n,
                   struct error *err)
{
    struct llama *m = llama_of(model);
    struct token_choice choice;
    int32_t all = n;
    if (check_ids(m, ids, n, err) < 0 ||
        token_choice_init(&choice, m->shape.c.vocab, c->temperature, c->top_k,
                          c->top_p, c->seed, err) < 0)
        return -1;
    int rc = generate(m, c, &choice, ids, &all, most, err);
    token_choice_clear(&choice);
    if (rc == 0)
        *ret_n = all;
    return rc;
}

static int ask(struct llama *m, struct buf *ids, const struct model_choice *by,
               struct buf *out, struct error *err)
{
    const int32_t n = (int32_t)(ids->len / sizeof(int32_t));
    const struct llama_choice c = {.temperature = by->temperature,
                                   .top_k = by->top_k,
                                   .top_p = by->top_p,
                                   .seed = by->seed,
                                   .ends = m->ends.id,
                                   .n_ends = m->ends.n};
    int32_t all = n;
    if (buf_reserve(ids, ids->len + (size_t)by->max_new * sizeof(int32_t),
                    err) < 0)
        return -1;
    int32_t *list = (void *)ids->data;
    if (llama_generate(&m->model, &c, list, n, n + by->max_new, &all, err) < 0)
        return -1;
    return tokenizer_decode(m->tokenizer, list + n, (size_t)(all - n), out,
                            err);
}

/* The tokenizer, and what ends an answer. */
static int open_text(struct llama *m, struct error *err)
{
    const char *path =
        m->conf.tokenizer != NULL ? m->conf.tokenizer : m->conf.dir;
    if (m->tokenizer != NULL)
        return 0;
    if (llama_ends_read(m->conf.adapter, m->conf.dir, m->shape.c.vocab,
                        &m->ends, err) < 0 ||
        chat_tokenizer_open(m->conf.prompt, path, &m->tokenizer, err) < 0)
        return -1;
    if (m->ends.n == 0)
        llama_ends_add(&m->ends, tokenizer_ids(m->tokenizer)->eos);
    llama_ends_add(&m->ends, chat_format_answer_end(m->conf.prompt, m->conf.dir,
                                                    m->tokenizer));
    return 0;
}

int llama_sample(struct model *model, const char *prompt,
                 const struct model_choice *c, struct buf *out,
                 struct error *err)
{
    struct llama *m = llama_of(model);
    struct buf ids = BUF_INIT;
    if (open_text(m, err) < 0)
        return -1;
    int rc = tokenizer_encode(m->tokenizer, prompt, strlen(prompt),
                              TOKENIZER_BOS, &ids, err);
    rc = rc < 0 ? rc : ask(m, &ids, c, out, err);
    buf_clear(&ids);
    return rc;
}
