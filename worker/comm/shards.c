/* shards.c - see shards.h. */
#include "worker/comm/shards.h"

#include <stdlib.h>

int shards_init(struct shards *ret, int32_t rank, int32_t ranks,
                const int64_t *counts, int32_t n, struct error *err)
{
    struct shards s = {.rank = rank, .ranks = ranks, .n = n};
    int64_t first = 0;
    s.units = calloc((size_t)n, sizeof(*s.units));
    if (s.units == NULL)
        return error_set(err, ERR_NOMEM, "shards of %d units", n);
    for (int32_t i = 0; i < n; i++) {
        const int64_t part = (counts[i] + ranks - 1) / ranks;
        const int64_t chunk =
            (part + SHARD_ALIGN - 1) / SHARD_ALIGN * SHARD_ALIGN;
        s.units[i] = (struct shard_unit){.first = first,
                                         .count = counts[i],
                                         .chunk = chunk,
                                         .at = s.elements};
        first += counts[i];
        s.elements += chunk;
        if (chunk * ranks > s.largest)
            s.largest = chunk * ranks;
    }
    *ret = s;
    return 0;
}

void shards_clear(struct shards *s)
{
    free(s->units);
    *s = (struct shards){.n = 0};
}

int64_t shards_whole(const struct shards *s)
{
    const struct shard_unit *last = &s->units[s->n - 1];
    return last->first + last->count;
}

int32_t shards_find(const struct shards *s, int64_t element)
{
    int32_t low = 0, high = s->n - 1;
    while (low < high) {
        const int32_t mid = low + (high - low + 1) / 2;
        if (s->units[mid].first <= element)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

struct shard_part shards_part(const struct shards *s, int64_t first,
                              int64_t count)
{
    const struct shard_unit *u = &s->units[shards_find(s, first)];
    const int64_t own = u->first + s->rank * u->chunk, end = own + u->chunk;
    const int64_t from = first > own ? first : own;
    const int64_t to = first + count < end ? first + count : end;
    if (to <= from)
        return (struct shard_part){.first = first, .at = u->at, .count = 0};
    return (struct shard_part){
        .first = from, .at = u->at + from - own, .count = to - from};
}
