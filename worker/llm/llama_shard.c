/* llama_shard.c - see llama_shard.h.
 *
 * Units are pieces of the embedding, each layer, and what is behind the layers:
 * the norm, and pieces of an output layer of its own. Pieces are no larger than
 * a layer, or than half of one where they are trained. Two units are whole at a
 * time, in two slots: the one that is computed with, and the next, which an
 * all-gather fills meanwhile. In the backward pass the gradient of a layer
 * takes the place of its weights, tensor by tensor. While the layer below is
 * computed, a reduce-scatter hands out the sum and then an all-gather fills the
 * slot with the weights of the layer after it. Only a piece of the output
 * layer, whose weights are read for every chunk of tokens, has its gradient
 * behind them, in the same slot.
 *
 * A collective reads and writes its slot behind all calls that the device was
 * given before; the calls behind llama_need() come after it is done.
 *
 * src  Zhao et al. 2023, arXiv:2304.11277 (fully sharded data parallel)
 */
#include <assert.h>

#include "worker/llm/llama_internal.h"

/* Ranks wait so long for one that reads or evaluates. */
static const double deadline_s = 3600;

size_t llama_share_size(const struct llama_base *b, enum dtype dt)
{
    return b->quantised > 0 ? 1 : dtype_bytes(dt);
}

int llama_shards_of(const struct llama_conf *conf, const struct llama_shape *s,
                    const struct llama_base *b, int32_t rank,
                    struct shards *ret, struct error *err)
{
    int64_t counts[LLAMA_LAYERS_MOST + 2 * LLAMA_PIECES_MOST];
    const int32_t layers = s->c.layers;
    /* Elements of a weight. */
    const int64_t each =
        (int64_t)(dtype_bytes(conf->dt) / llama_share_size(b, conf->dt));
    *ret = (struct shards){.n = 0};
    if (conf->shared_by <= 1)
        return 0;
    if (layers > LLAMA_LAYERS_MOST)
        return error_set(err, ERR_LIMIT, "%d layers, at most %d can be sharded",
                         layers, LLAMA_LAYERS_MOST);
    for (int32_t u = 0; u < llama_units(s); u++)
        counts[u] =
            (llama_unit_first(s, u + 1) - llama_unit_first(s, u)) * each;
    for (int32_t l = 0; l < layers && b->quantised > 0; l++)
        counts[llama_unit_of_layer(s, l)] = llama_base_piece(b, conf->dt).bytes;
    return shards_init(ret, rank, conf->shared_by, counts, llama_units(s), err);
}

int64_t llama_slot_elements(const struct llama_shape *s,
                            const struct shards *shards)
{
    const int32_t pieces[] = {llama_unit_of_embed(0), llama_unit_of_head(s, 0)};
    int64_t most = shards->largest;
    for (int i = 0; i < 2 && shards->n > 0 && s->is_full; i++) {
        const int64_t both = 2 * shards->units[pieces[i]].chunk * shards->ranks;
        most = both > most ? both : most;
    }
    return most;
}

static const struct shard_unit *unit_at(const struct llama *m, int32_t unit)
{
    return &m->shards.units[unit];
}

/* Element i of a share, or of a unit. */
static void *share_at(const struct llama *m, void *p, int64_t i)
{
    return (char *)p + (size_t)i * m->share_size;
}

/* Which slot holds the unit; -1: none. */
static int32_t slot_of(const struct llama *m, int32_t unit)
{
    for (int32_t i = 0; i < 2; i++)
        if (m->slots[i].unit == unit)
            return i;
    return -1;
}

static int32_t slot_of_grads(const struct llama *m, int32_t unit)
{
    for (int32_t i = 0; i < 2; i++)
        if (m->slots[i].grads == unit)
            return i;
    return -1;
}

void *llama_unit_whole(const struct llama *m, int32_t unit)
{
    const int32_t slot = slot_of(m, unit);
    assert(slot >= 0); /* llama_need(), llama_unit_begin() were called */
    return m->slots[slot].data;
}

void *llama_weight_at(const struct llama *m, int64_t offset)
{
    const struct llama_shape *s = &m->shape;
    const bool of_base =
        llama_has_base(&m->conf) && (!s->is_full || m->is_reference);
    if (m->shards.n > 0) {
        const int32_t unit = llama_unit_at(&m->shape, offset);
        return llama_at(m, llama_unit_whole(m, unit),
                        offset - llama_unit_first(&m->shape, unit));
    }
    if (m->base.quantised > 0 && offset > s->layers)
        offset -= s->c.layers * s->layer_weights; /* they are elsewhere */
    return llama_at(m, of_base ? m->mem.base : m->mem.params, offset);
}

/* ---- gradients in parts ---------------------------------------------------
 *
 * There is the largest unit alone, and each is handed over before the next one
 * takes its place. The gradient of an embedding that is the output layer, too,
 * is whole at the end, so its pieces have places of their own before that of
 * the others.
 */

int64_t llama_parts_of(const struct llama_conf *conf,
                       const struct llama_shape *s, const struct shards *shards)
{
    const int64_t head = s->weights - s->norm;
    int64_t embed = s->layers, most = s->layer_weights;
    if (!conf->in_bwd)
        return 0;
    if (shards->n > 0) {
        const struct shard_unit *layer =
            &shards->units[llama_unit_of_layer(s, 0)];
        return s->c.tied ? layer->at + layer->chunk
                         : shards->largest / shards->ranks;
    }
    most = most > head ? most : head;
    if (s->c.tied)
        return embed + most;
    return embed > most ? embed : most;
}

/* A piece of an embedding that is the output layer, too. */
static bool is_tied(const struct llama *m, int32_t unit)
{
    return m->shape.c.tied && unit < llama_unit_of_layer(&m->shape, 0);
}

/* Elements before the place that the unit shares with others. */
static int64_t place_of(const struct llama *m, int32_t unit, int64_t embed)
{
    return m->shape.c.tied && !is_tied(m, unit) ? embed : 0;
}

/* in  offset  among the weights, which are whole */
static void *part_at(const struct llama *m, int64_t offset)
{
    const int32_t unit = llama_unit_at(&m->shape, offset);
    return llama_at(m, m->mem.grads,
                    place_of(m, unit, m->shape.layers) + offset -
                        llama_unit_first(&m->shape, unit));
}

/* Address of the sum of a unit's gradient. */
static void *sum_at(const struct llama *m, int32_t unit)
{
    const struct shard_unit *u = m->shards.units;
    const bool has_place = !m->conf.in_bwd || is_tied(m, unit);
    return llama_at(
        m, m->mem.grads,
        has_place ? u[unit].at
                  : place_of(m, unit, u[llama_unit_of_layer(&m->shape, 0)].at));
}

void *llama_part(struct model *model, int64_t first)
{
    const struct llama *m = llama_of(model);
    return llama_shares_grads(m) ? sum_at(m, m->handed) : part_at(m, first);
}

void *llama_grad_at(const struct llama *m, int64_t offset)
{
    if (!llama_shares_grads(m))
        return m->conf.in_bwd ? part_at(m, offset)
                              : llama_at(m, m->mem.grads, offset);
    const int32_t unit = llama_unit_at(&m->shape, offset),
                  slot = slot_of_grads(m, unit);
    assert(slot >= 0); /* llama_grads_begin(), _beside(), _replace() */
    return llama_at(m, m->slots[slot].data,
                    m->slots[slot].grads_at + offset -
                        llama_unit_first(&m->shape, unit));
}

static int wait_for(struct llama *m, int *ticket, struct error *err)
{
    const int t = *ticket;
    *ticket = -1;
    return t < 0 ? 0
                 : m->conf.comm->ops->wait(m->conf.comm, t, deadline_s, err);
}

static int finish(struct llama *m, struct llama_slot *s, struct error *err)
{
    if (s->reduce < 0 && s->gather < 0)
        return 0;
    if (wait_times_begin(&m->waits, err) < 0)
        return -1;
    const int rc =
        wait_for(m, &s->reduce, err) < 0 || wait_for(m, &s->gather, err) < 0
            ? -1
            : 0;
    return wait_times_end(&m->waits, rc, err);
}

/* Around the start of a collective, which copies and sends by itself unless it
 * is put on a stream. */
static int starting(struct llama *m, bool begins, int rc, struct error *err)
{
    if (m->conf.comm->in_order)
        return rc;
    return begins ? wait_times_begin(&m->waits, err)
                  : wait_times_end(&m->waits, rc, err);
}

/* ---- weights --------------------------------------------------------------
 */

void llama_forget(struct llama *m)
{
    for (int32_t i = 0; i < 2; i++)
        m->slots[i].unit = m->slots[i].grads = -1;
}

void llama_drop(struct llama *m)
{
    m->slots[m->slot].unit = -1;
}

/* This rank's share of the weights that the pass is with. */
static void *share_of(const struct llama *m)
{
    const bool of_base =
        llama_has_base(&m->conf) && (!m->shape.is_full || m->is_reference);
    return of_base ? m->mem.base : m->mem.params;
}

/* Bytes go from rank to rank, whatever they are: a chunk is a multiple of 8. */
static int gather(struct llama *m, int32_t unit, struct llama_slot *to,
                  struct error *err)
{
    const struct shard_unit *u = unit_at(m, unit);
    const size_t bytes = (size_t)u->chunk * m->share_size;
    if ((to->gather >= 0 || !m->conf.comm->in_order) && finish(m, to, err) < 0)
        return -1;
    to->unit = unit;
    if (starting(m, true, 0, err) < 0)
        return -1;
    const int rc = m->conf.comm->ops->all_gather(
        m->conf.comm, to->data, share_at(m, share_of(m), u->at),
        bytes / sizeof(int64_t), COMM_I64, &to->gather, err);
    return starting(m, false, rc, err);
}

/* The slot that is not computed with; that one, if it has been dropped. */
static struct llama_slot *spare(struct llama *m)
{
    struct llama_slot *s = &m->slots[m->slot];
    const bool is_free =
        s->unit < 0 && s->grads < 0 && s->reduce < 0 && s->gather < 0;
    return is_free ? s : &m->slots[1 - m->slot];
}

int llama_ahead(struct llama *m, int32_t unit, struct error *err)
{
    if (m->shards.n == 0 || slot_of(m, unit) >= 0)
        return 0;
    return gather(m, unit, spare(m), err);
}

int llama_soon(struct llama *m, int32_t unit, struct error *err)
{
    if (m->shards.n > 0 && spare(m)->reduce >= 0 && !m->conf.comm->in_order) {
        m->conf.comm->ops->poll(m->conf.comm);
        return 0;
    }
    return llama_ahead(m, unit, err);
}

int llama_need(struct llama *m, int32_t unit, struct error *err)
{
    if (m->shards.n == 0)
        return 0;
    if (llama_ahead(m, unit, err) < 0)
        return -1;
    llama_close_layers(m); /* its slot may have another unit now */
    m->slot = slot_of(m, unit);
    return finish(m, &m->slots[m->slot], err);
}

/* In a slot, where nothing is before a pass. */
int llama_most_of(struct llama *m, int64_t *x, struct error *err)
{
    struct comm *c = m->conf.comm;
    struct llama_slot *s = &m->slots[0];
    llama_forget(m);
    if (finish(m, s, err) < 0 ||
        m->d->ops->put(m->d, s->data, x, sizeof(*x), err) < 0 ||
        wait_times_begin(&m->waits, err) < 0)
        return -1;
    const int rc =
        c->ops->all_reduce(c, s->data, 1, COMM_I64, COMM_MAX, &s->gather, err);
    if (wait_times_end(&m->waits, rc < 0 ? rc : wait_for(m, &s->gather, err),
                       err) < 0)
        return -1;
    return m->d->ops->to_host(m->d, x, s->data, sizeof(*x), err);
}

/* ---- gradients ------------------------------------------------------------
 */

bool llama_shares_grads(const struct llama *m)
{
    return m->shards.n > 0 && m->shape.is_full;
}

int llama_grads_begin(struct llama *m, int32_t unit, struct error *err)
{
    if (!llama_shares_grads(m))
        return 0;
    m->slot = 1 - m->slot;
    m->slots[m->slot].unit = -1;
    llama_grads_replace(m, unit);
    return finish(m, &m->slots[m->slot], err);
}

void llama_grads_beside(struct llama *m, int32_t unit)
{
    if (!llama_shares_grads(m))
        return;
    llama_grads_replace(m, unit);
    m->slots[m->slot].grads_at = unit_at(m, unit)->chunk * m->shards.ranks;
}

void llama_grads_replace(struct llama *m, int32_t unit)
{
    if (!llama_shares_grads(m))
        return;
    m->slots[m->slot].grads = unit;
    m->slots[m->slot].grads_at = 0;
}

/* Zeros fill the unit up, so that none of what was there before is summed. */
static int fill_up(struct llama *m, struct llama_slot *from,
                   const struct shard_unit *u, struct error *err)
{
    const int64_t rest = u->chunk * m->shards.ranks - u->count;
    return m->d->ops->zero(m->d,
                           llama_at(m, from->data, from->grads_at + u->count),
                           (size_t)rest * dtype_bytes(m->conf.dt), err);
}

static int reduce(struct llama *m, struct llama_slot *from, void *to,
                  struct error *err)
{
    const struct shard_unit *u = unit_at(m, from->grads);
    if (fill_up(m, from, u, err) < 0)
        return -1;
    from->unit = from->grads = -1;
    if (starting(m, true, 0, err) < 0)
        return -1;
    const int rc = m->conf.comm->ops->reduce_scatter(
        m->conf.comm, to, llama_at(m, from->data, from->grads_at),
        (size_t)u->chunk, comm_type_of(m->conf.dt), &from->reduce, err);
    return starting(m, false, rc, err);
}

/* The unit that is on its way is there, and on_ready() has it. */
static int hand_over(struct llama *m, struct error *err)
{
    if (m->handed < 0)
        return 0;
    const struct shard_unit *u = unit_at(m, m->handed);
    int rc = wait_times_begin(&m->waits, err);
    for (int32_t i = 0; i < 2 && rc == 0; i++)
        rc = wait_for(m, &m->slots[i].reduce, err);
    if (wait_times_end(&m->waits, rc, err) < 0 ||
        (m->on_ready != NULL && m->on_ready(m->arg, u->at, u->chunk, err) < 0))
        return -1;
    m->handed = -1;
    return 0;
}

int llama_grads_end(struct llama *m, int32_t unit, struct error *err)
{
    if (!llama_shares_grads(m))
        return 0;
    if (hand_over(m, err) < 0 ||
        reduce(m, &m->slots[slot_of_grads(m, unit)], sum_at(m, unit), err) < 0)
        return -1;
    /* A tied embedding's sum is not complete before llama_grads_add(). */
    m->handed = m->conf.in_bwd && !is_tied(m, unit) ? unit : -1;
    return 0;
}

int llama_grads_add(struct llama *m, int32_t unit, struct error *err)
{
    if (!llama_shares_grads(m))
        return 0;
    const struct shard_unit *u = unit_at(m, unit);
    const int32_t at = slot_of_grads(m, unit);
    struct llama_slot *from = &m->slots[at], *to = &m->slots[1 - at];
    if (hand_over(m, err) < 0 || finish(m, to, err) < 0)
        return -1;
    to->unit = -1;
    if (reduce(m, from, to->data, err) < 0 || finish(m, from, err) < 0 ||
        m->d->ops->add(m->d, m->conf.dt, sum_at(m, unit), to->data, u->chunk,
                       err) < 0)
        return -1;
    m->handed = m->conf.in_bwd ? unit : -1;
    return 0;
}

int llama_grads_finish(struct llama *m, struct error *err)
{
    if (hand_over(m, err) < 0)
        return -1;
    return finish(m, &m->slots[0], err) < 0 || finish(m, &m->slots[1], err) < 0
               ? -1
               : 0;
}

/* ---- this rank's share ----------------------------------------------------
 */

int llama_unit_begin(struct llama *m, int32_t unit, struct error *err)
{
    if (m->shards.n == 0)
        return 0;
    m->slots[0].unit = unit;
    return m->d->ops->zero(m->d, m->slots[0].data,
                           (size_t)m->shards.largest * m->share_size, err);
}

int llama_unit_keep(struct llama *m, int32_t unit, struct error *err)
{
    if (m->shards.n == 0)
        return 0;
    const struct shard_unit *u = unit_at(m, unit);
    const void *own =
        share_at(m, llama_unit_whole(m, unit), m->shards.rank * u->chunk);
    m->slots[0].unit = -1;
    return m->d->ops->copy(m->d, share_at(m, m->mem.base, u->at), own,
                           (size_t)u->chunk * m->share_size, err);
}

void llama_shard_open(struct llama *m)
{
    wait_times_init(&m->waits, m->d, MODEL_MARK);
    m->share_size = llama_share_size(&m->base, m->conf.dt);
    for (int32_t i = 0; i < 2; i++)
        m->slots[i] = (struct llama_slot){
            .data = share_at(m, m->mem.gathered,
                             i * llama_slot_elements(&m->shape, &m->shards)),
            .unit = -1,
            .grads = -1,
            .reduce = -1,
            .gather = -1};
    /* Two units in the run's type have room for one in fp32. */
    m->exchange = (struct shard_exchange){.dev = m->d,
                                          .comm = m->conf.comm,
                                          .shards = &m->shards,
                                          .room = m->mem.gathered,
                                          .deadline_s = deadline_s,
                                          .unit = -1};
    m->exchange.arrays[m->exchange.n++] =
        (struct shard_array){m->mem.params, m->conf.dt};
}
