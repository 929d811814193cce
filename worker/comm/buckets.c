/* buckets.c - see buckets.h. */
#include "worker/comm/buckets.h"

#include <assert.h>
#include <string.h>

void buckets_init(struct buckets *ret, struct comm *comm,
                  const struct clock *clock, void *grads, int64_t n,
                  enum dtype dt, double deadline_s)
{
    size_t size = dtype_bytes(dt);
    *ret = (struct buckets){
        .comm = comm->size > 1 ? comm : NULL,
        .clock = clock,
        .grads = grads,
        .n = n,
        .size = size,
        .type = comm_type_of(dt),
        .deadline_s = deadline_s,
        .first_elems = BUCKET_FIRST_BYTES / (int64_t)size,
        .elems = BUCKET_BYTES / (int64_t)size,
    };
}

void buckets_begin(struct buckets *b)
{
    b->low = b->high = b->n;
    b->n_tickets = b->n_started = 0;
    b->busy_s = 0;
}

/* The oldest first: they end in the order in which they were started. */
static int wait_oldest(struct buckets *b, struct error *err)
{
    if (b->comm->ops->wait(b->comm, b->tickets[0], b->deadline_s, err) < 0)
        return error_wrap(err, "gradients");
    b->n_tickets--;
    memmove(b->tickets, b->tickets + 1,
            (size_t)b->n_tickets * sizeof(b->tickets[0]));
    return 0;
}

static int start(struct buckets *b, struct error *err)
{
    if (b->n_tickets == COMM_INFLIGHT && wait_oldest(b, err) < 0)
        return -1;
    char *at = b->grads + (size_t)b->low * b->size;
    if (b->comm->ops->all_reduce(b->comm, at, (size_t)(b->high - b->low),
                                 b->type, COMM_SUM, &b->tickets[b->n_tickets],
                                 err) < 0)
        return error_wrap(err, "gradients");
    b->n_tickets++;
    b->n_started++;
    b->high = b->low;
    return 0;
}

bool buckets_are_due(const struct buckets *b, int64_t first)
{
    int64_t full = b->n_started == 0 ? b->first_elems : b->elems;
    return b->comm != NULL && b->high - first >= full;
}

void buckets_suppose(struct buckets *copy, int64_t first)
{
    copy->low = copy->high = first;
    copy->n_started++;
}

int buckets_on_ready(void *arg, int64_t first, int64_t count, struct error *err)
{
    struct buckets *b = arg;
    if (b->comm == NULL)
        return 0;
    double start_s = b->clock->now_s(b->clock);
    assert(first + count == b->low && first >= 0);
    b->low = first;
    int rc = 0;
    if (buckets_are_due(b, first))
        rc = start(b, err);
    else if (b->n_tickets > 0)
        b->comm->ops->poll(b->comm);
    b->busy_s += b->clock->now_s(b->clock) - start_s;
    return rc;
}

int buckets_flush(struct buckets *b, struct error *err)
{
    if (b->comm == NULL || b->high == 0)
        return 0;
    double start_s = b->clock->now_s(b->clock);
    assert(b->low == 0);
    int rc = start(b, err);
    b->busy_s += b->clock->now_s(b->clock) - start_s;
    return rc;
}

int buckets_finish(struct buckets *b, struct error *err)
{
    if (b->comm == NULL)
        return 0;
    if (buckets_flush(b, err) < 0)
        return -1;
    double start_s = b->clock->now_s(b->clock);
    while (b->n_tickets > 0)
        if (wait_oldest(b, err) < 0)
            return -1;
    b->busy_s += b->clock->now_s(b->clock) - start_s;
    return 0;
}
