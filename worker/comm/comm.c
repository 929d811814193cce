/* comm.c - common parts of all communicators, and the answer of a build without
 * NCCL. */
#include "worker/comm/comm.h"

size_t comm_type_bytes(enum comm_type type)
{
    switch (type) {
    case COMM_F64:
        return sizeof(double);
    case COMM_F32:
        return sizeof(float);
    case COMM_F16:
    case COMM_BF16:
        return sizeof(uint16_t);
    case COMM_I64:
        return sizeof(int64_t);
    }
    return 0;
}

enum comm_type comm_type_of(enum dtype dt)
{
    static const enum comm_type types[DT_N] = {[DT_F64] = COMM_F64,
                                               [DT_F32] = COMM_F32,
                                               [DT_F16] = COMM_F16,
                                               [DT_BF16] = COMM_BF16};
    return types[dt];
}

cpu_set_t comm_own_cpus(void)
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
        CPU_ZERO(&cpus);
    return cpus;
}

int comm_check_root(const struct comm *c, int32_t root, const char *what,
                    struct error *err)
{
    if (root < 0 || root >= c->size)
        return error_set(err, ERR_INVAL, "%s rank %d of %d", what, root,
                         c->size);
    return 0;
}

int comm_all_reduce_now(struct comm *c, void *x, size_t n, enum comm_type type,
                        enum comm_op op, double deadline_s, struct error *err)
{
    int ticket = -1;
    if (c->ops->all_reduce(c, x, n, type, op, &ticket, err) < 0)
        return -1;
    return c->ops->wait(c, ticket, deadline_s, err);
}

int comm_broadcast_now(struct comm *c, void *x, size_t bytes, int32_t root,
                       double deadline_s, struct error *err)
{
    int ticket = -1;
    if (c->ops->broadcast(c, x, bytes, root, &ticket, err) < 0)
        return -1;
    return c->ops->wait(c, ticket, deadline_s, err);
}

int comm_reduce_now(struct comm *c, void *x, size_t n, enum comm_type type,
                    int32_t root, double deadline_s, struct error *err)
{
    int ticket = -1;
    if (c->ops->reduce(c, x, n, type, root, &ticket, err) < 0)
        return -1;
    return c->ops->wait(c, ticket, deadline_s, err);
}

int comm_scatter_now(struct comm *c, void *out, const void *in, size_t bytes,
                     int32_t root, double deadline_s, struct error *err)
{
    int ticket = -1;
    if (c->ops->scatter(c, out, in, bytes, root, &ticket, err) < 0)
        return -1;
    return c->ops->wait(c, ticket, deadline_s, err);
}

#if !HAVE_NCCL
int comm_nccl_create(struct device *dev, struct comm **ret, struct error *err)
{
    (void)dev;
    (void)ret;
    return error_set(err, ERR_UNAVAIL, "NCCL: not in this build (NCCL=0)");
}
#endif
