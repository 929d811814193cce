/* llama_head.c - output layer and loss, some labelled tokens at a time.
 *
 * Logits are the largest array of a Llama: 128,256 for each token. They exist
 * for one chunk of labelled tokens; the loss turns them into their gradient in
 * place. The forward pass does both, and leaves the gradient of its input and,
 * where the output layer is trained, that of its weights: nothing else is
 * written to their place before the backward pass hands them out. So each
 * chunk's logits are made once, but where an output layer that is trained is
 * sharded, or learns from pairs: the backward pass makes them again.
 *
 * A sharded output layer may come in pieces (llama_shard.h). Each chunk goes
 * through all of them, once for the logits and once back for the gradient of
 * its input, so all ranks go through as many chunks. Where it is trained, the
 * forward pass leaves of each row of logits the largest one and the sum, with
 * which the backward pass makes the gradient of a piece's logits by themselves.
 * So it goes through the pieces once, and through all chunks with each.
 *
 * Of pairs, how much a token counts is known when all tokens have their loss.
 * So the gradients of the forward pass are those of the losses themselves, and
 * are multiplied by the factors behind it. Weights of the output layer have a
 * sum over tokens, which cannot be multiplied any more: their gradient is made
 * in the backward pass, with the factors.
 */
#include "worker/llm/llama_internal.h"
#include "worker/llm/llama_linear.h"

/* 2,048 rows keep a GPU busy: the gradient of 4,096 hidden values has 256 tiles
 * of 128 x 256, 1.9 for each of 132 multiprocessors. They are there where they
 * are a small part of what the job takes anyway; else there are as many as fit
 * into 256 MiB. A number of rows that fills the tiles of a product leaves no
 * multiprocessor with a part of one. */
enum { ROWS_MOST = 2048, ROWS_OF_TILES = 256, SMALL_PART = 10 };
static const int64_t bytes_least = 256 << 20;

int32_t llama_head_rows(const struct llama_conf *c, int64_t tokens,
                        int64_t rest)
{
    const int64_t row = c->shape.vocab * (int64_t)dtype_bytes(c->dt);
    const int64_t small = rest / SMALL_PART;
    int64_t rows = (small > bytes_least ? small : bytes_least) / row;
    if (rows > ROWS_MOST)
        rows = ROWS_MOST;
    if (rows > ROWS_OF_TILES)
        rows -= rows % ROWS_OF_TILES;
    if (c->head_rows > 0)
        rows = c->head_rows;
    if (rows > tokens)
        rows = tokens;
    return rows > 0 ? (int32_t)rows : 1;
}

int32_t llama_unit_rows(const struct llama_conf *conf,
                        const struct llama_shape *s, const struct llama_base *b)
{
    const int64_t vocab = s->c.vocab;
    const int64_t row = s->c.hidden * (int64_t)dtype_bytes(conf->dt);
    const int64_t layer =
        b->quantised > 0 ? llama_base_piece(b, conf->dt).bytes
                         : s->layer_weights * (int64_t)dtype_bytes(conf->dt);
    const int64_t least = (vocab + LLAMA_PIECES_MOST - 1) / LLAMA_PIECES_MOST;
    /* Beside a piece that is trained there is its gradient. */
    const int64_t room = s->is_full ? layer / 2 : layer;
    if (conf->shared_by <= 1)
        return s->c.vocab;
    /* The norm is with the first piece. */
    int64_t rows = conf->unit_rows > 0 ? conf->unit_rows : room / row - 1;
    if (rows > ROWS_OF_TILES)
        rows -= rows % ROWS_OF_TILES;
    if (rows < least)
        rows = least;
    return (int32_t)(rows < vocab ? rows : vocab);
}

bool llama_trains_head(const struct llama *m)
{
    return m->shape.is_full || m->shape.linear[PRODUCT_HEAD].parts > 0;
}

bool llama_head_is_again(const struct llama *m)
{
    return llama_trains_head(m) && (m->conf.pairs || llama_shares_grads(m));
}

int llama_head_begin(struct llama *m, struct error *err)
{
    const int32_t most = m->conf.head_rows;
    int64_t chunks = (m->n_labelled + (int64_t)most - 1) / most;
    if (llama_pieces(&m->shape) > 1 && llama_most_of(m, &chunks, err) < 0)
        return -1;
    m->chunks = (int32_t)chunks;
    return 0;
}

int llama_head_piece(struct llama *m, struct llama_piece *p, struct error *err)
{
    const struct llama_shape *s = &m->shape;
    const int32_t n = llama_pieces(s), last = n - 1;
    if (p->step == 0) {
        p->step = n > 1 && m->slots[m->slot].unit == llama_unit_of_head(s, last)
                      ? -1
                      : 1;
        p->i = p->step > 0 ? 0 : last;
    } else {
        p->i += p->step;
    }
    if (p->i < 0 || p->i > last)
        return 0;
    const int32_t next = p->i + p->step;
    if (n > 1 && (llama_need(m, llama_unit_of_head(s, p->i), err) < 0 ||
                  (next >= 0 && next <= last &&
                   llama_ahead(m, llama_unit_of_head(s, next), err) < 0)))
        return -1;
    if (llama_open_head(m, p->i, err) < 0)
        return -1;
    p->first = p->i * s->unit_rows;
    p->rows = llama_piece_rows(s, p->i);
    p->w = llama_head_weight(m, p->i);
    return 1;
}

/* Gathers the pieces as often as the ranks do that have tokens left. */
static int gather_alone(struct llama *m, bool grads, struct error *err)
{
    int rc = 0;
    for (int times = grads ? 2 : 1; times > 0 && rc == 0; times--) {
        struct llama_piece p = {.step = 0};
        while ((rc = llama_head_piece(m, &p, err)) > 0)
            continue;
    }
    return rc;
}

static int one_chunk(struct llama *m, const struct batch *b, int32_t first,
                     int32_t rows, bool train, bool grads, struct error *err)
{
    const struct device_ops *ops = m->d->ops;
    const struct llama_config *c = &m->shape.c;
    const enum dtype dt = m->conf.dt;
    const int32_t *labelled = b->arrays[TOKENS_LABELLED].data;
    const int32_t *label = b->arrays[TOKENS_LABEL].data;
    const struct llama_call call = {.product = PRODUCT_HEAD,
                                    .rows = rows,
                                    .first = first,
                                    .train = train,
                                    .adds = first > 0,
                                    .x = m->mem.chunk,
                                    .low = m->mem.head_low};
    const size_t ahead = (size_t)first * dtype_acc_bytes(dt);
    const bool pairs = m->conf.pairs;
    const struct row_part all = {.rows = m->tokens, .limit = m->tokens};
    void *loss = (char *)m->mem.loss + ahead;
    int32_t *hit = m->mem.hit + first;
    void *dx = llama_at(m, m->mem.labelled, (int64_t)first * c->hidden);
    if (ops->llm.take_rows(m->d, dt, m->mem.chunk, m->mem.normed,
                           labelled + first, rows, c->hidden, &all, err) < 0 ||
        llama_linear(m, &call, m->mem.logits, err) < 0 ||
        (pairs &&
         ops->llm.row_means(m->d, dt, (char *)m->mem.logits_mean + ahead,
                            m->mem.logits, rows, c->vocab, err) < 0))
        return -1;
    if (llama_shares_grads(m)) /* llama_head_back() makes them */
        return ops->llm.xent_sums(
            m->d, dt, loss, hit, (char *)m->mem.sums + 2 * ahead, m->mem.logits,
            label + first, rows, c->vocab, err);
    if (ops->xent(m->d, dt, loss, hit, m->mem.logits, label + first, rows,
                  c->vocab, m->mem.scale + pairs, 0, grads, err) < 0)
        return -1;
    if (!grads)
        return 0;
    if (pairs && llama_trains_head(m) &&
        ops->llm.scale_rows(m->d, dt, m->mem.logits,
                            (const char *)m->mem.factor + ahead, rows, c->vocab,
                            err) < 0)
        return -1;
    return llama_linear_back(m, &call, m->mem.logits, dx, err);
}

int llama_head(struct llama *m, const struct batch *b, bool train, bool grads,
               struct error *err)
{
    const int32_t most = m->conf.head_rows;
    for (int32_t i = 0; i < m->chunks; i++) {
        const int32_t first = i * most, left = m->n_labelled - first;
        const int32_t rows = left < most ? left : most;
        if ((rows > 0 ? one_chunk(m, b, first, rows, train, grads, err)
                      : gather_alone(m, grads, err)) < 0)
            return -1;
    }
    return 0;
}

/* ---- back through an output layer that is trained and sharded ------------
 */

/* Gradients of a piece and, in mem.labelled, of its input, from the labelled
 * tokens from `first` on. */
static int back_chunk(struct llama *m, const struct batch *b,
                      const struct llama_piece *p, int32_t first, int32_t rows,
                      struct error *err)
{
    const struct device_ops *ops = m->d->ops;
    const struct llama_config *c = &m->shape.c;
    const enum dtype dt = m->conf.dt;
    const size_t acc = dtype_acc_bytes(dt);
    const struct llama_call call = {.product = PRODUCT_HEAD,
                                    .rows = rows,
                                    .adds = first > 0,
                                    .x = m->mem.chunk};
    const struct row_part all = {.rows = m->tokens, .limit = m->tokens};
    const struct row_part columns = {
        .first = p->first, .rows = p->rows, .limit = c->vocab};
    const int32_t *labelled = b->arrays[TOKENS_LABELLED].data;
    const int32_t *label = b->arrays[TOKENS_LABEL].data;
    const bool pairs = m->conf.pairs,
               is_first = p->i == llama_pieces(&m->shape) - 1;
    void *dx = llama_at(m, m->mem.labelled, (int64_t)first * c->hidden);
    if (ops->llm.take_rows(m->d, dt, m->mem.chunk, m->mem.normed,
                           labelled + first, rows, c->hidden, &all, err) < 0 ||
        llama_linear_piece(m, &call, p, m->mem.logits, err) < 0 ||
        ops->llm.xent_part(m->d, dt, m->mem.logits,
                           (char *)m->mem.sums + 2 * (size_t)first * acc,
                           label + first, rows, &columns, m->mem.scale + pairs,
                           err) < 0 ||
        (pairs &&
         ops->llm.scale_rows(m->d, dt, m->mem.logits,
                             (const char *)m->mem.factor + (size_t)first * acc,
                             rows, p->rows, err) < 0))
        return -1;
    return llama_linear_piece_back(m, &call, p, m->mem.logits, is_first, dx,
                                   err);
}

/* The unit behind a piece, of those that the backward pass needs. */
static int32_t unit_behind(const struct llama_shape *s, int32_t piece)
{
    if (piece > 0)
        return llama_unit_of_head(s, piece - 1);
    return s->c.tied ? llama_unit_of_norm(s)
                     : llama_unit_of_layer(s, s->c.layers - 1);
}

static int back_piece(struct llama *m, const struct batch *b, int32_t i,
                      struct error *err)
{
    const struct llama_shape *s = &m->shape;
    const int32_t unit = llama_unit_of_head(s, i), next = unit_behind(s, i);
    struct llama_piece p = {
        .i = i, .first = i * s->unit_rows, .rows = llama_piece_rows(s, i)};
    if (llama_need(m, unit, err) < 0 || llama_open_head(m, i, err) < 0)
        return -1;
    p.w = llama_head_weight(m, i);
    llama_grads_beside(m, unit);
    const int64_t weight =
        s->linear[PRODUCT_HEAD].weight + (int64_t)p.first * s->c.hidden;
    const size_t bytes =
        (size_t)p.rows * (size_t)s->c.hidden * dtype_bytes(m->conf.dt);
    /* All ranks gather the next unit before they hand this one out. */
    if (m->n_labelled == 0 &&
        (llama_ahead(m, next, err) < 0 ||
         m->d->ops->zero(m->d, llama_grad_at(m, weight), bytes, err) < 0))
        return -1;
    for (int32_t first = 0; first < m->n_labelled; first += m->conf.head_rows) {
        const int32_t left = m->n_labelled - first;
        const int32_t rows =
            left < m->conf.head_rows ? left : m->conf.head_rows;
        if ((rows < left ? llama_soon(m, next, err)
                         : llama_ahead(m, next, err)) < 0 ||
            back_chunk(m, b, &p, first, rows, err) < 0)
            return -1;
    }
    return i > 0 ? llama_grads_end(m, unit, err) : 0;
}

int llama_head_back(struct llama *m, const struct batch *b, struct error *err)
{
    for (int32_t i = llama_pieces(&m->shape) - 1; i >= 0; i--)
        if (back_piece(m, b, i, err) < 0)
            return -1;
    return 0;
}

/* ---- what is read of a pass ------------------------------------------------
 */

int llama_result(struct model *model, const struct batch *b,
                 struct model_result *ret, struct error *err)
{
    struct llama *m = llama_of(model);
    const enum dtype acc = dtype_acc(m->conf.dt);
    if (m->n == 0 || b->n != m->n)
        return error_set(err, ERR_STATE,
                         "model: the last forward pass had %d rows, not %d",
                         m->n, b->n);
    /* Both at once: each copy waits for the device. */
    const size_t apart = (size_t)((char *)m->mem.hit - (char *)m->mem.loss);
    if (m->d->ops->to_host(m->d, m->host, m->mem.loss,
                           apart + (size_t)m->n_labelled * sizeof(*m->mem.hit),
                           err) < 0)
        return -1;
    const int32_t *hit = (const void *)((const char *)m->host + apart);
    struct model_result sum = {.loss_sum = 0};
    for (int32_t i = 0; i < m->n_labelled; i++) {
        sum.loss_sum += dtype_get(acc, m->host, i);
        sum.hits += hit[i];
    }
    *ret = sum;
    return 0;
}
