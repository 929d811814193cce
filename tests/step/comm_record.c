/* comm_record.c - collectives of sharded weights, written down as NCCL would do
 * them: in their order, on a stream of their own. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/step/step.h"
#include "worker/comm/comm.h"

struct comm_record {
    struct comm base;
    struct device *dev; /* borrowed */
    int32_t ticket;     /* of the next one */
};

static struct comm_record *self(struct comm *c)
{
    return (struct comm_record *)(void *)c;
}

static int begin(struct comm *c, const char *what, size_t n,
                 enum comm_type type, int *ret_ticket)
{
    struct comm_record *r = self(c);
    struct step_launch l = {.ticket = r->ticket++};
    (void)snprintf(l.kernel, sizeof(l.kernel), "%s", what);
    l.bytes = (int64_t)(n * comm_type_bytes(type)) * (c->size - 1);
    device_record_add(r->dev, &l);
    *ret_ticket = l.ticket;
    return 0;
}

static int all_gather(struct comm *c, void *out, const void *in, size_t n,
                      enum comm_type type, int *ret_ticket, struct error *err)
{
    (void)out;
    (void)in;
    (void)err;
    return begin(c, STEP_GATHER, n, type, ret_ticket);
}

static int reduce_scatter(struct comm *c, void *out, const void *in, size_t n,
                          enum comm_type type, int *ret_ticket,
                          struct error *err)
{
    (void)out;
    (void)in;
    (void)err;
    return begin(c, STEP_SCATTER, n, type, ret_ticket);
}

/* A number that the ranks agree on, which takes no time to send: it is there at
 * once. */
static int all_reduce(struct comm *c, void *buf, size_t n, enum comm_type type,
                      enum comm_op op, int *ret_ticket, struct error *err)
{
    (void)c;
    (void)buf;
    (void)type;
    (void)op;
    *ret_ticket = -1;
    return n == 1 ? 0
                  : error_set(err, ERR_INVAL,
                              "a sum of %zu values is not recorded", n);
}

static int wait(struct comm *c, int ticket, double deadline_s,
                struct error *err)
{
    struct step_launch l = {.kernel = STEP_AWAITED, .ticket = ticket};
    (void)deadline_s;
    (void)err;
    device_record_add(self(c)->dev, &l);
    return 0;
}

static void poll(struct comm *c)
{
    (void)c;
}

static void destroy(struct comm *c)
{
    free(c);
}

int comm_record_create(struct device *d, int32_t ranks, struct comm **ret,
                       struct error *err)
{
    static const struct comm_ops ops = {.name = "recorded",
                                        .all_gather = all_gather,
                                        .reduce_scatter = reduce_scatter,
                                        .all_reduce = all_reduce,
                                        .wait = wait,
                                        .poll = poll,
                                        .destroy = destroy};
    struct comm_record *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return error_set(err, ERR_NOMEM, "a communicator");
    r->base = (struct comm){.ops = &ops, .in_order = true, .size = ranks};
    r->dev = d;
    *ret = &r->base;
    return 0;
}
