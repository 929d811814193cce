/* comm_self.c - the communicator of a single rank.
 *
 * What is summed over one rank stays as it is, and what is gathered or
 * scattered is copied. So nothing is under way between start and wait; a
 * ticket only stands for the call, as callers have to wait for each.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/comm/comm.h"

struct comm_alone {
    struct comm base;
    struct device *dev; /* borrowed; NULL: host memory */
    bool is_used[COMM_INFLIGHT];
};

static struct comm_alone *self(struct comm *c)
{
    return (struct comm_alone *)(void *)c;
}

static int take_ticket(struct comm *c, int *ret_ticket, struct error *err)
{
    struct comm_alone *m = self(c);
    for (int t = 0; t < COMM_INFLIGHT; t++)
        if (!m->is_used[t]) {
            m->is_used[t] = true;
            *ret_ticket = t;
            return 0;
        }
    return error_set(err, ERR_LIMIT, "more than %d collectives under way",
                     COMM_INFLIGHT);
}

/* On a device the copy is ordered with its other operations. */
static int copy(struct comm *c, void *out, const void *in, size_t bytes,
                int *ret_ticket, struct error *err)
{
    struct device *dev = self(c)->dev;
    if (out != in && bytes > 0 && dev == NULL)
        memmove(out, in, bytes);
    else if (out != in && bytes > 0 &&
             dev->ops->copy(dev, out, in, bytes, err) < 0)
        return -1;
    return take_ticket(c, ret_ticket, err);
}

static int alone_all_reduce(struct comm *c, void *x, size_t n,
                            enum comm_type type, enum comm_op op,
                            int *ret_ticket, struct error *err)
{
    (void)x;
    (void)n;
    (void)type;
    (void)op;
    return take_ticket(c, ret_ticket, err);
}

static int alone_all_gather(struct comm *c, void *out, const void *in, size_t n,
                            enum comm_type type, int *ret_ticket,
                            struct error *err)
{
    return copy(c, out, in, n * comm_type_bytes(type), ret_ticket, err);
}

static int alone_reduce_scatter(struct comm *c, void *out, const void *in,
                                size_t n, enum comm_type type, int *ret_ticket,
                                struct error *err)
{
    return copy(c, out, in, n * comm_type_bytes(type), ret_ticket, err);
}

static int alone_broadcast(struct comm *c, void *x, size_t bytes, int32_t root,
                           int *ret_ticket, struct error *err)
{
    (void)x;
    (void)bytes;
    return comm_check_root(c, root, "broadcast from", err) < 0
               ? -1
               : take_ticket(c, ret_ticket, err);
}

static int alone_reduce(struct comm *c, void *x, size_t n, enum comm_type type,
                        int32_t root, int *ret_ticket, struct error *err)
{
    (void)x;
    (void)n;
    (void)type;
    return comm_check_root(c, root, "reduce to", err) < 0
               ? -1
               : take_ticket(c, ret_ticket, err);
}

static int alone_scatter(struct comm *c, void *out, const void *in,
                         size_t bytes, int32_t root, int *ret_ticket,
                         struct error *err)
{
    return comm_check_root(c, root, "scatter from", err) < 0
               ? -1
               : copy(c, out, in, bytes, ret_ticket, err);
}

static int alone_wait(struct comm *c, int ticket, double deadline_s,
                      struct error *err)
{
    struct comm_alone *m = self(c);
    (void)deadline_s;
    if (ticket < 0 || ticket >= COMM_INFLIGHT || !m->is_used[ticket])
        return error_set(err, ERR_INVAL, "no collective has ticket %d", ticket);
    m->is_used[ticket] = false;
    return 0;
}

static int alone_barrier(struct comm *c, double deadline_s, struct error *err)
{
    (void)c;
    (void)deadline_s;
    (void)err;
    return 0;
}

static void alone_poll(struct comm *c)
{
    (void)c;
}

static void __attribute__((noreturn)) alone_abort(struct comm *c, int exit_code)
{
    (void)c;
    _exit(exit_code);
}

static void alone_destroy(struct comm *c)
{
    if (c != NULL)
        free(self(c));
}

static const struct comm_ops alone_ops = {
    .name = "alone",
    .all_reduce = alone_all_reduce,
    .all_gather = alone_all_gather,
    .reduce_scatter = alone_reduce_scatter,
    .broadcast = alone_broadcast,
    .reduce = alone_reduce,
    .scatter = alone_scatter,
    .wait = alone_wait,
    .barrier = alone_barrier,
    .poll = alone_poll,
    .abort = alone_abort,
    .destroy = alone_destroy,
};

int comm_alone_create(struct device *dev, struct comm **ret, struct error *err)
{
    struct comm_alone *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return error_set(err, ERR_NOMEM, "communicator");
    m->base = (struct comm){.ops = &alone_ops,
                            .size = 1,
                            .local_size = 1,
                            .local_cpus = comm_own_cpus()};
    m->dev = dev;
    *ret = &m->base;
    return 0;
}
