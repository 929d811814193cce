/* shard_exchange.c - see shard_exchange.h. */
#include "worker/comm/shard_exchange.h"

enum what { GATHER, SCATTER, END };

/* Rank 0 sends a request before each step that needs the other ranks. */
struct request {
    int32_t what, array, unit;
};

static int ask(struct shard_exchange *x, enum what what, int32_t array,
               int32_t unit, struct error *err)
{
    struct request r = {(int32_t)what, array, unit};
    return comm_broadcast_now(x->host, &r, sizeof(r), 0, x->deadline_s, err);
}

static void *chunk_of(const struct shard_exchange *x, int32_t array,
                      int32_t unit)
{
    const struct shard_array *a = &x->arrays[array];
    return (char *)a->data +
           (size_t)x->shards->units[unit].at * dtype_bytes(a->dt);
}

static int gather(struct shard_exchange *x, int32_t array, int32_t unit,
                  struct error *err)
{
    const size_t n = (size_t)x->shards->units[unit].chunk;
    int ticket;
    if (x->comm->ops->all_gather(x->comm, x->room, chunk_of(x, array, unit), n,
                                 comm_type_of(x->arrays[array].dt), &ticket,
                                 err) < 0)
        return -1;
    return x->comm->ops->wait(x->comm, ticket, x->deadline_s, err);
}

static int scatter(struct shard_exchange *x, int32_t array, int32_t unit,
                   struct error *err)
{
    const size_t bytes =
        (size_t)x->shards->units[unit].chunk * dtype_bytes(x->arrays[array].dt);
    return comm_scatter_now(x->comm, chunk_of(x, array, unit), x->room, bytes,
                            0, x->deadline_s, err);
}

/* Scatters a unit that was stored to its ranks. */
static int flush(struct shard_exchange *x, struct error *err)
{
    if (!x->is_changed)
        return 0;
    x->is_changed = false;
    if (ask(x, SCATTER, x->array, x->unit, err) < 0)
        return -1;
    return scatter(x, x->array, x->unit, err);
}

/* The unit of the array is whole in room. */
static int have(struct shard_exchange *x, int32_t array, int32_t unit,
                struct error *err)
{
    if (x->unit == unit && x->array == array)
        return 0;
    if (flush(x, err) < 0 || ask(x, GATHER, array, unit, err) < 0 ||
        gather(x, array, unit, err) < 0)
        return -1;
    x->array = array;
    x->unit = unit;
    return 0;
}

/* Gathers the unit of `first`, and gives the part of [first, first + count)
 * that lies in it. */
static int next(struct shard_exchange *x, int32_t array, int64_t first,
                int64_t count, void **ret_at, int64_t *ret_n, struct error *err)
{
    const int32_t unit = shards_find(x->shards, first);
    const struct shard_unit *u = &x->shards->units[unit];
    const int64_t left = u->first + u->count - first;
    if (have(x, array, unit, err) < 0)
        return -1;
    *ret_at = (char *)x->room +
              (size_t)(first - u->first) * dtype_bytes(x->arrays[array].dt);
    *ret_n = count < left ? count : left;
    return 0;
}

int shard_fetch(struct shard_exchange *x, int32_t array, int64_t first,
                int64_t count, void *host, struct error *err)
{
    const size_t size = dtype_bytes(x->arrays[array].dt);
    char *to = host;
    for (int64_t done = 0, n = 0; done < count; done += n) {
        void *at;
        if (next(x, array, first + done, count - done, &at, &n, err) < 0 ||
            x->dev->ops->to_host(x->dev, to + (size_t)done * size, at,
                                 (size_t)n * size, err) < 0)
            return -1;
    }
    return 0;
}

int shard_store(struct shard_exchange *x, int32_t array, int64_t first,
                int64_t count, const void *host, struct error *err)
{
    const size_t size = dtype_bytes(x->arrays[array].dt);
    const char *from = host;
    for (int64_t done = 0, n = 0; done < count; done += n) {
        void *at;
        if (next(x, array, first + done, count - done, &at, &n, err) < 0 ||
            x->dev->ops->to_device(x->dev, at, from + (size_t)done * size,
                                   (size_t)n * size, err) < 0 ||
            x->dev->ops->sync(x->dev, err) < 0)
            return -1;
        x->is_changed = true;
    }
    return 0;
}

int shard_end(struct shard_exchange *x, struct error *err)
{
    if (flush(x, err) < 0)
        return -1;
    x->unit = -1;
    return ask(x, END, 0, 0, err);
}

int shard_serve(struct shard_exchange *x, struct error *err)
{
    for (;;) {
        struct request r = {END, 0, 0};
        int rc = 0;
        if (comm_broadcast_now(x->host, &r, sizeof(r), 0, x->deadline_s, err) <
            0)
            return -1;
        switch ((enum what)r.what) {
        case GATHER:
            rc = gather(x, r.array, r.unit, err);
            break;
        case SCATTER:
            rc = scatter(x, r.array, r.unit, err);
            break;
        case END:
            return 0;
        }
        if (rc < 0)
            return -1;
    }
}
