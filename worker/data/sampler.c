/* sampler.c - see sampler.h. */
#include "worker/data/sampler.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/rng.h"

int sampler_init(struct sampler *ret, int32_t n, int32_t rank, int32_t size,
                 int64_t seed, uint32_t flags, struct error *err)
{
    if (n < 1 || size < 1 || rank < 0 || rank >= size)
        return error_set(err, ERR_INVAL, "sampler: %d samples, rank %d of %d",
                         n, rank, size);
    if ((flags & SAMPLER_DROP_LAST) && n < size)
        return error_set(err, ERR_INVAL,
                         "sampler: %d samples for %d ranks, and the rest is "
                         "to be dropped",
                         n, size);
    int32_t *order = malloc((size_t)n * sizeof(*order));
    if (!order)
        return error_set(err, ERR_NOMEM, "sampler: %d samples", n);
    *ret = (struct sampler){
        .n = n,
        .rank = rank,
        .size = size,
        .per_rank = flags & SAMPLER_DROP_LAST ? n / size : (n - 1) / size + 1,
        .seed = seed,
        .flags = flags,
        .order = order,
    };
    sampler_epoch(ret, 0);
    return 0;
}

void sampler_clear(struct sampler *s)
{
    if (!s)
        return;
    free(s->order);
    memset(s, 0, sizeof(*s));
}

void sampler_epoch(struct sampler *s, int64_t epoch)
{
    s->epoch = epoch;
    if (s->flags & SAMPLER_SHUFFLE) {
        struct rng r; /* as torch, which seeds MT19937 with the low 32 bits */
        rng_seed(&r, (uint32_t)((uint64_t)s->seed + (uint64_t)epoch));
        rng_permutation(&r, s->order, s->n);
    } else {
        for (int32_t i = 0; i < s->n; i++)
            s->order[i] = i;
    }
}

int32_t sampler_batches(const struct sampler *s, int32_t batch)
{
    return (s->per_rank - 1) / batch + 1;
}

int32_t sampler_batch(const struct sampler *s, int32_t i, int32_t batch,
                      int32_t *ret_index)
{
    int64_t first = (int64_t)i * batch;
    int64_t last = first + batch;
    if (last > s->per_rank)
        last = s->per_rank;
    for (int64_t j = first; j < last; j++) {
        int64_t at = s->rank + j * s->size;
        bool none = at >= s->n && (s->flags & SAMPLER_EVAL);
        ret_index[j - first] = none ? SAMPLER_NONE : s->order[at % s->n];
    }
    return last > first ? (int32_t)(last - first) : 0;
}
