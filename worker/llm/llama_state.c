/* llama_state.c - the ranges of the trained tensors, and their export and
 * import, under the names of Hugging Face and PEFT.
 *
 * Rank 0 moves sharded parameters by the exchange.
 *
 * A frozen base is not in a checkpoint. A digest of its values is, as a mark,
 * so that an adapter is not trained on with another base.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "worker/llm/llama_internal.h"

/* ---- values of the parameters --------------------------------------------
 */

/* How many of `count` weights from `first` on are in its unit. */
static int64_t within_unit(const struct llama_shape *s, int64_t first,
                           int64_t count)
{
    const int32_t unit = llama_unit_at(s, first);
    const int64_t left = llama_unit_first(s, unit + 1) - first;
    return count < left ? count : left;
}

int llama_fetch_params(struct llama *m, int64_t first, int64_t count,
                       void *host, struct error *err)
{
    if (llama_shares_grads(m))
        return shard_fetch(&m->exchange, 0, first, count, host, err);
    return m->d->ops->to_host(m->d, host, llama_at(m, m->mem.params, first),
                              (size_t)count * dtype_bytes(m->conf.dt), err);
}

/* Rank 0 alone calls it for sharded parameters (shard_exchange.h). */
static int store_params(struct llama *m, int64_t first, int64_t count,
                        const void *host, struct error *err)
{
    if (llama_shares_grads(m))
        return shard_store(&m->exchange, 0, first, count, host, err);
    if (m->d->ops->to_device(m->d, llama_at(m, m->mem.params, first), host,
                             (size_t)count * dtype_bytes(m->conf.dt), err) < 0)
        return -1;
    return m->d->ops->sync(m->d, err);
}

/* As llama_put_weights(), of one unit. */
static int put_in_unit(struct llama *m, int32_t unit, int64_t first,
                       int64_t count, const char *host, struct error *err)
{
    void *to = m->shape.is_full ? m->mem.params : m->mem.base;
    const int64_t each = (int64_t)(dtype_bytes(m->conf.dt) / m->share_size);
    const int64_t at = m->shards.units[unit].first +
                       (first - llama_unit_first(&m->shape, unit)) * each;
    const struct shard_part part = shards_part(&m->shards, at, count * each);
    if (part.count == 0)
        return 0;
    if (m->d->ops->to_device(m->d, (char *)to + (size_t)part.at * m->share_size,
                             host + (size_t)(part.first - at) * m->share_size,
                             (size_t)part.count * m->share_size, err) < 0)
        return -1;
    return m->d->ops->sync(m->d, err);
}

int llama_put_weights(struct llama *m, int64_t first, int64_t count,
                      const void *host, struct error *err)
{
    const size_t size = dtype_bytes(m->conf.dt);
    for (int64_t done = 0, n = 0; done < count; done += n) {
        const int64_t at = first + done;
        n = within_unit(&m->shape, at, count - done);
        if (put_in_unit(m, llama_unit_at(&m->shape, at), at, n,
                        (const char *)host + (size_t)done * size, err) < 0)
            return -1;
    }
    return 0;
}

struct shard_exchange *llama_exchange(struct model *model)
{
    struct llama *m = llama_of(model);
    return llama_shares_grads(m) ? &m->exchange : NULL;
}

/* ---- ranges ---------------------------------------------------------------
 */

/* The first `cap` are in `at`, and the last one here. */
struct range_list {
    struct model_range *at, last;
    int32_t cap, n;
};

/* The next one; it `joins` the one before if that is of its kind. */
static void add_range(struct range_list *l, struct model_range r, bool joins)
{
    if (joins && l->n > 0 && l->last.is_norm_bias == r.is_norm_bias) {
        l->last.count += r.count;
    } else {
        l->last = r;
        l->n++;
    }
    if (l->n <= l->cap)
        l->at[l->n - 1] = l->last;
}

/* Neighbours of a kind are one range if each tensor's would be too many. */
static bool joins(const struct llama_shape *s)
{
    return llama_trained_count(s) > MODEL_RANGES;
}

/* Those of whole weights. Each ends with its unit, so that a unit whose
 * gradients are handed over alone has whole ranges. */
static void add_whole(const struct llama_shape *s, struct range_list *l)
{
    const bool all = joins(s);
    int32_t before = -1;
    for (int32_t i = 0; i < llama_trained_count(s); i++) {
        struct llama_tensor t;
        llama_trained(s, i, &t);
        const int32_t unit = s->is_full ? llama_unit_at(s, t.at) : -1;
        add_range(l, (struct model_range){t.at, t.n, t.is_norm},
                  all && unit == before);
        before = unit;
    }
}

/* Those of a rank's share, with the zeros that pad it. */
static void add_share(const struct llama *m, struct range_list *l)
{
    const struct llama_shape *s = &m->shape;
    const bool all = joins(s);
    int64_t at = 0;
    for (int32_t i = 0; i < llama_trained_count(s); i++) {
        struct llama_tensor t;
        bool same = all;
        llama_trained(s, i, &t);
        for (int64_t done = 0, part = 0; done < t.n; done += part) {
            part = within_unit(s, t.at + done, t.n - done);
            const struct shard_part p =
                shards_part(&m->shards, t.at + done, part);
            if (p.count == 0)
                continue;
            /* Includes the zeros that pad the chunk before. */
            const int64_t count = p.at + p.count - at;
            add_range(l, (struct model_range){at, count, t.is_norm}, same);
            at += count;
            same = true; /* with its other pieces */
        }
    }
    /* Those behind the last are of its kind. */
    const struct model_range end = {at, m->shards.elements - at,
                                    l->last.is_norm_bias};
    if (end.count > 0)
        add_range(l, end, true);
}

int32_t llama_range_count(const struct llama_shape *s)
{
    struct range_list l = {.at = NULL};
    add_whole(s, &l);
    return l.n;
}

int32_t llama_ranges(const struct model *model, struct model_range *ret,
                     int32_t cap)
{
    const struct llama *m = (const struct llama *)model;
    struct range_list l = {.at = ret, .cap = cap};
    if (llama_shares_grads(m))
        add_share(m, &l);
    else
        add_whole(&m->shape, &l);
    return l.n;
}

/* ---- export and import ---------------------------------------------------
 */

static const char digest_name[] = "base_model.digest";

int llama_export(struct model *model,
                 int (*each)(void *arg, const struct model_tensor *t,
                             struct error *err),
                 void *arg, struct error *err)
{
    struct llama *m = llama_of(model);
    const struct llama_shape *s = &m->shape;
    const size_t size = dtype_bytes(m->conf.dt);
    void *host = malloc((size_t)llama_largest(s) * size);
    int rc = 0;
    if (host == NULL)
        return error_set(err, ERR_NOMEM, "model: export");
    for (int32_t i = 0; i < llama_trained_count(s) && rc == 0; i++) {
        struct llama_tensor t;
        llama_trained(s, i, &t);
        const struct model_tensor out = {.name = t.name,
                                         .dt = m->conf.dt,
                                         .dims = t.dims,
                                         .shape = {t.shape[0], t.shape[1]},
                                         .data = host,
                                         .bytes = (size_t)t.n * size};
        rc = llama_fetch_params(m, t.at, t.n, host, err);
        rc = rc < 0 ? rc : each(arg, &out, err);
    }
    free(host);
    return rc;
}

int64_t llama_digest(const struct model *model)
{
    return ((const struct llama *)model)->digest;
}

int llama_export_marks(struct model *model,
                       int (*each)(void *arg, const struct model_tensor *t,
                                   struct error *err),
                       void *arg, struct error *err)
{
    struct llama *m = llama_of(model);
    if (m->shape.is_full)
        return 0;
    const struct model_tensor digest = {.name = digest_name,
                                        .dt = DT_N,
                                        .data = &m->digest,
                                        .bytes = sizeof(m->digest)};
    return each(arg, &digest, err);
}

static int find(const struct llama_shape *s, const char *name,
                struct llama_tensor *ret, struct error *err)
{
    for (int32_t i = 0; i < llama_trained_count(s); i++) {
        llama_trained(s, i, ret);
        if (strcmp(ret->name, name) == 0)
            return 0;
    }
    return error_set(err, ERR_NOTFOUND, "the model trains no tensor '%.100s'",
                     name);
}

static int check(const struct llama_tensor *want, const struct model_tensor *t,
                 struct error *err)
{
    bool same = t->dims == want->dims;
    for (int32_t i = 0; same && i < want->dims; i++)
        same = t->shape[i] == want->shape[i];
    if (!same && want->dims == 1)
        return error_set(err, ERR_INVAL, "%s: the shape must be [%d]", t->name,
                         want->shape[0]);
    if (!same)
        return error_set(err, ERR_INVAL, "%s: the shape must be [%d, %d]",
                         t->name, want->shape[0], want->shape[1]);
    if ((int)t->dt < 0 || t->dt >= DT_N)
        return error_set(err, ERR_INVAL,
                         "%s: the type must be f64, f32, f16 or bf16", t->name);
    if (t->bytes != (size_t)want->n * dtype_bytes(t->dt))
        return error_set(err, ERR_INVAL,
                         "%s: %zu bytes for %" PRId64 " elements", t->name,
                         t->bytes, want->n);
    return 0;
}

static int check_digest(const struct llama *m, const struct model_tensor *t,
                        struct error *err)
{
    if (t->dt != DT_N || t->dims != 0 || t->bytes != sizeof(m->digest))
        return error_set(err, ERR_INVAL, "%s: the type must be int64", t->name);
    if (memcmp(t->data, &m->digest, sizeof(m->digest)) != 0)
        return error_set(err, ERR_INVAL,
                         "it was trained with other base weights than those "
                         "in %s, or in another train.precision",
                         m->conf.dir);
    return 0;
}

int llama_import(struct model *model, const struct model_tensor *t,
                 struct error *err)
{
    struct llama *m = llama_of(model);
    const enum dtype dt = m->conf.dt;
    struct llama_tensor want;
    if (!m->shape.is_full && strcmp(t->name, digest_name) == 0)
        return check_digest(m, t, err);
    if (find(&m->shape, t->name, &want, err) < 0 || check(&want, t, err) < 0)
        return -1;
    void *host = malloc((size_t)want.n * dtype_bytes(dt));
    if (host == NULL)
        return error_set(err, ERR_NOMEM, "model: import of %s", t->name);
    for (int64_t j = 0; j < want.n; j++)
        dtype_set(dt, host, j, dtype_get(t->dt, t->data, j));
    int rc = store_params(m, want.at, want.n, host, err);
    free(host);
    return rc < 0 ? error_wrap(err, "%s", t->name) : 0;
}
