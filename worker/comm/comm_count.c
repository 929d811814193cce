/* comm_count.c - see comm_count.h. */
#include "worker/comm/comm_count.h"

#include <stdlib.h>

#include "jobs/base/clock.h"

struct comm_counted {
    struct comm base;
    struct comm_ops ops;
    struct comm *inner;
    bool is_owned;
    struct comm_count *to;              /* NULL: calls are not counted */
    enum comm_work work[COMM_INFLIGHT]; /* by ticket */
};

static struct comm_counted *self(struct comm *c)
{
    return (struct comm_counted *)(void *)c;
}

const char *comm_work_name(enum comm_work work)
{
    static const char *const names[COMM_WORK_N] = {
        "all_reduce", "all_gather", "reduce_scatter", "broadcast",
        "reduce",     "scatter",    "barrier"};
    return names[work];
}

static double now_s(const struct comm_counted *m)
{
    return m->to != NULL ? clock_real.now_s(&clock_real) : 0;
}

static int started(struct comm_counted *m, enum comm_work work, double begin_s,
                   size_t bytes, int rc, const int *ticket)
{
    if (rc == 0 && *ticket >= 0 && *ticket < COMM_INFLIGHT)
        m->work[*ticket] = work;
    if (rc == 0 && m->to != NULL) {
        m->to[work].calls++;
        m->to[work].bytes += (int64_t)bytes;
        m->to[work].total_s += now_s(m) - begin_s;
    }
    return rc;
}

static int counted_all_reduce(struct comm *c, void *x, size_t n,
                              enum comm_type type, enum comm_op op,
                              int *ret_ticket, struct error *err)
{
    struct comm_counted *m = self(c);
    double begin_s = now_s(m);
    int rc =
        m->inner->ops->all_reduce(m->inner, x, n, type, op, ret_ticket, err);
    return started(m, COMM_ALL_REDUCE, begin_s, n * comm_type_bytes(type), rc,
                   ret_ticket);
}

static int counted_all_gather(struct comm *c, void *out, const void *in,
                              size_t n, enum comm_type type, int *ret_ticket,
                              struct error *err)
{
    struct comm_counted *m = self(c);
    double begin_s = now_s(m);
    int rc =
        m->inner->ops->all_gather(m->inner, out, in, n, type, ret_ticket, err);
    return started(m, COMM_ALL_GATHER, begin_s, n * comm_type_bytes(type), rc,
                   ret_ticket);
}

static int counted_reduce_scatter(struct comm *c, void *out, const void *in,
                                  size_t n, enum comm_type type,
                                  int *ret_ticket, struct error *err)
{
    struct comm_counted *m = self(c);
    double begin_s = now_s(m);
    size_t bytes = n * (size_t)c->size * comm_type_bytes(type);
    int rc = m->inner->ops->reduce_scatter(m->inner, out, in, n, type,
                                           ret_ticket, err);
    return started(m, COMM_REDUCE_SCATTER, begin_s, bytes, rc, ret_ticket);
}

static int counted_broadcast(struct comm *c, void *x, size_t bytes,
                             int32_t root, int *ret_ticket, struct error *err)
{
    struct comm_counted *m = self(c);
    double begin_s = now_s(m);
    int rc =
        m->inner->ops->broadcast(m->inner, x, bytes, root, ret_ticket, err);
    return started(m, COMM_BROADCAST, begin_s, bytes, rc, ret_ticket);
}

static int counted_reduce(struct comm *c, void *x, size_t n,
                          enum comm_type type, int32_t root, int *ret_ticket,
                          struct error *err)
{
    struct comm_counted *m = self(c);
    double begin_s = now_s(m);
    int rc = m->inner->ops->reduce(m->inner, x, n, type, root, ret_ticket, err);
    return started(m, COMM_REDUCE, begin_s, n * comm_type_bytes(type), rc,
                   ret_ticket);
}

static int counted_scatter(struct comm *c, void *out, const void *in,
                           size_t bytes, int32_t root, int *ret_ticket,
                           struct error *err)
{
    struct comm_counted *m = self(c);
    double begin_s = now_s(m);
    int rc =
        m->inner->ops->scatter(m->inner, out, in, bytes, root, ret_ticket, err);
    return started(m, COMM_SCATTER, begin_s, bytes, rc, ret_ticket);
}

static int counted_wait(struct comm *c, int ticket, double deadline_s,
                        struct error *err)
{
    struct comm_counted *m = self(c);
    double begin_s = now_s(m);
    int rc = m->inner->ops->wait(m->inner, ticket, deadline_s, err);
    if (rc == 0 && m->to != NULL && ticket >= 0 && ticket < COMM_INFLIGHT)
        m->to[m->work[ticket]].total_s += now_s(m) - begin_s;
    return rc;
}

static int counted_barrier(struct comm *c, double deadline_s, struct error *err)
{
    struct comm_counted *m = self(c);
    double begin_s = now_s(m);
    int none = -1;
    int rc = m->inner->ops->barrier(m->inner, deadline_s, err);
    return started(m, COMM_BARRIER, begin_s, 0, rc, &none);
}

static void counted_poll(struct comm *c)
{
    self(c)->inner->ops->poll(self(c)->inner);
}

static void __attribute__((noreturn))
counted_abort(struct comm *c, int exit_code)
{
    self(c)->inner->ops->abort(self(c)->inner, exit_code);
}

static void counted_destroy(struct comm *c)
{
    if (c == NULL)
        return;
    if (self(c)->is_owned)
        self(c)->inner->ops->destroy(self(c)->inner);
    free(self(c));
}

int comm_count_create(struct comm *inner, bool owned, struct comm **ret,
                      struct error *err)
{
    struct comm_counted *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return error_set(err, ERR_NOMEM, "a communicator");
    m->base = *inner;
    m->base.ops = &m->ops;
    m->inner = inner;
    m->is_owned = owned;
    m->ops = (struct comm_ops){
        .name = inner->ops->name,
        .all_reduce = counted_all_reduce,
        .all_gather = counted_all_gather,
        .reduce_scatter = counted_reduce_scatter,
        .broadcast = counted_broadcast,
        .reduce = counted_reduce,
        .scatter = counted_scatter,
        .wait = counted_wait,
        .barrier = counted_barrier,
        .poll = counted_poll,
        .abort = counted_abort,
        .destroy = counted_destroy,
    };
    *ret = &m->base;
    return 0;
}

void comm_count_to(struct comm *c, struct comm_count *to)
{
    self(c)->to = to;
}
