/* comm_mpi.c - collectives by MPI's non-blocking ones.
 *
 * Each collective under way owns a slot; its index is the ticket. On host
 * memory MPI works in place on the caller's buffer. On a device whose memory
 * the CPU cannot see, the operands are copied to the slot's host buffer when
 * the collective starts and the result is copied back in wait().
 *
 * Same bits everywhere: Open MPI reduces each element along one tree or ring
 * whose shape depends on the number of ranks and the length alone, and hands
 * the one result to all ranks. tests/mpi/comm.c holds it to that.
 *
 * MPI moves data only inside its own calls (there is no progress thread), so
 * wait() tests in a loop: without pause for as long as the transfer itself
 * may take, giving the core away in between, and then with short naps, so
 * that ranks that wait for a late one leave it the machine. MPI_Wait would
 * spin for ever, with no deadline.
 *
 * A collective cannot be cancelled. After a timeout the slot's memory is
 * therefore never freed: MPI may still write to it.
 */
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "kernels/exec/half.h"
#include "worker/comm/comm.h"

/* A test that finds nothing to do costs about 1 us, a context switch about
 * 5: 100 us of spinning answers quick peers quickly and costs nothing beside
 * a step. Shared memory and 10 GbE both move about 1 GB/s. */
static const double spin_s = 100e-6, bytes_per_s = 1e9;
/* A nap is a thousandth of the time waited so far, within these: a late rank
 * is answered soon, and one that runs for hours costs nothing. */
static const double nap_min_s = 50e-6, nap_max_s = 10e-3;

struct slot {
    MPI_Request req;
    bool is_used;
    void *host; /* owned; operands of a device that the CPU cannot see */
    size_t cap;
    const void *from; /* what wait() copies to the device; NULL: nothing */
    void *to;
    size_t bytes;
};

struct comm_mpi {
    struct comm base;
    struct device *dev; /* borrowed; NULL: host memory */
    MPI_Comm mpi;
    bool is_dead;
    MPI_Op ops16[2][2]; /* [bf16][maximum]; MPI has none of its own */
    struct slot slots[COMM_INFLIGHT];
};

static struct comm_mpi *self(struct comm *c)
{
    return (struct comm_mpi *)(void *)c;
}

static int fail_mpi(struct comm_mpi *m, struct error *err, const char *what,
                    int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int n = 0;
    if (MPI_Error_string(code, text, &n) != MPI_SUCCESS)
        n = 0;
    m->is_dead = true;
    return error_set(err, ERR_EXTERN, "%s on rank %d: %.*s", what, m->base.rank,
                     n, text);
}

static MPI_Datatype type_of(enum comm_type type)
{
    switch (type) {
    case COMM_F64:
        return MPI_DOUBLE;
    case COMM_F32:
        return MPI_FLOAT;
    case COMM_F16:
    case COMM_BF16:
        return MPI_UINT16_T;
    case COMM_I64:
        return MPI_INT64_T;
    }
    return MPI_DATATYPE_NULL;
}

static MPI_Op op_of(const struct comm_mpi *m, enum comm_type type,
                    enum comm_op op)
{
    if (type == COMM_F16 || type == COMM_BF16)
        return m->ops16[type == COMM_BF16][op == COMM_MAX];
    return op == COMM_SUM ? MPI_SUM : MPI_MAX;
}

/* An MPI_User_function: y := y op x. */
// NOLINTBEGIN(readability-non-const-parameter): the type is MPI's
#define OP16(name, type, expr)                                       \
    static void name(void *in, void *inout, int *n, MPI_Datatype *t) \
    {                                                                \
        const uint16_t *xs = in;                                     \
        uint16_t *ys = inout;                                        \
        (void)t;                                                     \
        for (int i = 0; i < *n; i++) {                               \
            float x = type##_to_float(xs[i]);                        \
            float y = type##_to_float(ys[i]);                        \
            ys[i] = type##_of_float(expr);                           \
        }                                                            \
    }
OP16(sum_f16, f16, x + y)
OP16(max_f16, f16, x > y ? x : y)
OP16(sum_bf16, bf16, x + y)
OP16(max_bf16, bf16, x > y ? x : y)
// NOLINTEND(readability-non-const-parameter)

static int make_ops16(struct comm_mpi *m, struct error *err)
{
    static MPI_User_function *const functions[2][2] = {{sum_f16, max_f16},
                                                       {sum_bf16, max_bf16}};
    for (int i = 0; i < 4; i++) {
        int code =
            MPI_Op_create(functions[i / 2][i % 2], 1, &m->ops16[i / 2][i % 2]);
        if (code != MPI_SUCCESS)
            return fail_mpi(m, err, "operation", code);
    }
    return 0;
}

/* A free slot, with `bytes` of host memory when the operands need staging.
 * The device is asked last, so that a failure leaves nothing started. */
static int open_slot(struct comm_mpi *m, size_t n, size_t stage_bytes,
                     int *ret_ticket, struct error *err)
{
    if (m->is_dead)
        return error_set(err, ERR_STATE, "the communicator is dead");
    if (n > INT_MAX)
        return error_set(err, ERR_LIMIT, "%zu elements in one collective", n);
    int t = 0;
    while (t < COMM_INFLIGHT && m->slots[t].is_used)
        t++;
    if (t == COMM_INFLIGHT)
        return error_set(err, ERR_LIMIT, "more than %d collectives under way",
                         COMM_INFLIGHT);
    struct slot *s = &m->slots[t];
    if (stage_bytes > s->cap) {
        void *p = malloc(stage_bytes);
        if (p == NULL)
            return error_set(err, ERR_NOMEM, "%zu bytes of staging memory",
                             stage_bytes);
        free(s->host);
        s->host = p;
        s->cap = stage_bytes;
    }
    s->from = NULL;
    *ret_ticket = t;
    return 0;
}

static bool is_staged(const struct comm_mpi *m)
{
    return m->dev != NULL && !m->dev->host_memory;
}

/* Gives an in-place collective its buffer: x itself, or the slot's copy of it.
 *
 * in  sends, receives  what x is to this rank
 */
static int in_place(struct comm_mpi *m, struct slot *s, void *x, bool sends,
                    bool receives, void **ret_at, struct error *err)
{
    *ret_at = x;
    if (!is_staged(m))
        return 0;
    if (sends && m->dev->ops->to_host(m->dev, s->host, x, s->bytes, err) < 0)
        return -1;
    *ret_at = s->host;
    s->from = receives ? s->host : NULL;
    s->to = x;
    return 0;
}

/* The slot is under way, or MPI refused. */
static int started(struct comm_mpi *m, int ticket, int code, const char *what,
                   int *ret_ticket, struct error *err)
{
    if (code != MPI_SUCCESS)
        return fail_mpi(m, err, what, code);
    m->slots[ticket].is_used = true;
    m->base.ops->poll(&m->base);
    *ret_ticket = ticket;
    return 0;
}

static int mpi_all_reduce(struct comm *c, void *x, size_t n,
                          enum comm_type type, enum comm_op op, int *ret_ticket,
                          struct error *err)
{
    struct comm_mpi *m = self(c);
    size_t bytes = n * comm_type_bytes(type);
    int t = -1;
    if (open_slot(m, n, is_staged(m) ? bytes : 0, &t, err) < 0)
        return -1;
    struct slot *s = &m->slots[t];
    s->bytes = bytes;
    void *at;
    if (in_place(m, s, x, true, true, &at, err) < 0)
        return -1;
    int code = MPI_Iallreduce(MPI_IN_PLACE, at, (int)n, type_of(type),
                              op_of(m, type, op), m->mpi, &s->req);
    return started(m, t, code, "all-reduce", ret_ticket, err);
}

static int mpi_all_gather(struct comm *c, void *out, const void *in, size_t n,
                          enum comm_type type, int *ret_ticket,
                          struct error *err)
{
    struct comm_mpi *m = self(c);
    size_t part = n * comm_type_bytes(type);
    size_t all = part * (size_t)c->size;
    int t = -1;
    if (open_slot(m, n, is_staged(m) ? all : 0, &t, err) < 0)
        return -1;
    struct slot *s = &m->slots[t];
    s->bytes = all;
    int code;
    if (is_staged(m)) {
        char *mine = (char *)s->host + part * (size_t)c->rank;
        if (m->dev->ops->to_host(m->dev, mine, in, part, err) < 0)
            return -1;
        s->from = s->host;
        s->to = out;
        code = MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, s->host,
                              (int)n, type_of(type), m->mpi, &s->req);
    } else {
        code = MPI_Iallgather(in, (int)n, type_of(type), out, (int)n,
                              type_of(type), m->mpi, &s->req);
    }
    return started(m, t, code, "all-gather", ret_ticket, err);
}

static int mpi_reduce_scatter(struct comm *c, void *out, const void *in,
                              size_t n, enum comm_type type, int *ret_ticket,
                              struct error *err)
{
    struct comm_mpi *m = self(c);
    size_t part = n * comm_type_bytes(type);
    size_t all = part * (size_t)c->size;
    int t = -1;
    if (open_slot(m, n, is_staged(m) ? all + part : 0, &t, err) < 0)
        return -1;
    struct slot *s = &m->slots[t];
    s->bytes = part;
    const void *src = in;
    void *dst = out;
    if (is_staged(m)) {
        if (m->dev->ops->to_host(m->dev, s->host, in, all, err) < 0)
            return -1;
        src = s->host;
        s->from = dst = (char *)s->host + all;
        s->to = out;
    }
    int code =
        MPI_Ireduce_scatter_block(src, dst, (int)n, type_of(type),
                                  op_of(m, type, COMM_SUM), m->mpi, &s->req);
    return started(m, t, code, "reduce-scatter", ret_ticket, err);
}

static int mpi_broadcast(struct comm *c, void *x, size_t bytes, int32_t root,
                         int *ret_ticket, struct error *err)
{
    struct comm_mpi *m = self(c);
    int t = -1;
    if (comm_check_root(c, root, "broadcast from", err) < 0 ||
        open_slot(m, bytes, is_staged(m) ? bytes : 0, &t, err) < 0)
        return -1;
    struct slot *s = &m->slots[t];
    s->bytes = bytes;
    bool is_root = c->rank == root;
    void *at;
    if (in_place(m, s, x, is_root, !is_root, &at, err) < 0)
        return -1;
    int code = MPI_Ibcast(at, (int)bytes, MPI_BYTE, root, m->mpi, &s->req);
    return started(m, t, code, "broadcast", ret_ticket, err);
}

static int mpi_reduce(struct comm *c, void *x, size_t n, enum comm_type type,
                      int32_t root, int *ret_ticket, struct error *err)
{
    struct comm_mpi *m = self(c);
    size_t bytes = n * comm_type_bytes(type);
    int t = -1;
    if (comm_check_root(c, root, "reduce to", err) < 0 ||
        open_slot(m, n, is_staged(m) ? bytes : 0, &t, err) < 0)
        return -1;
    struct slot *s = &m->slots[t];
    s->bytes = bytes;
    bool is_root = c->rank == root;
    void *at;
    if (in_place(m, s, x, true, is_root, &at, err) < 0)
        return -1;
    int code = MPI_Ireduce(is_root ? MPI_IN_PLACE : at, is_root ? at : NULL,
                           (int)n, type_of(type), op_of(m, type, COMM_SUM),
                           root, m->mpi, &s->req);
    return started(m, t, code, "reduce", ret_ticket, err);
}

static int mpi_scatter(struct comm *c, void *out, const void *in, size_t bytes,
                       int32_t root, int *ret_ticket, struct error *err)
{
    struct comm_mpi *m = self(c);
    size_t all = c->rank == root ? bytes * (size_t)c->size : 0;
    int t = -1;
    if (comm_check_root(c, root, "scatter from", err) < 0 ||
        open_slot(m, bytes, is_staged(m) ? all + bytes : 0, &t, err) < 0)
        return -1;
    struct slot *s = &m->slots[t];
    s->bytes = bytes;
    const void *src = in;
    void *dst = out;
    if (is_staged(m)) {
        if (c->rank == root &&
            m->dev->ops->to_host(m->dev, s->host, in, all, err) < 0)
            return -1;
        src = s->host;
        s->from = dst = (char *)s->host + all;
        s->to = out;
    }
    int code = MPI_Iscatter(src, (int)bytes, MPI_BYTE, dst, (int)bytes,
                            MPI_BYTE, root, m->mpi, &s->req);
    return started(m, t, code, "scatter", ret_ticket, err);
}

/* Tests until done; see the head of the file. */
static int finish(struct comm_mpi *m, struct slot *s, double deadline_s,
                  struct error *err)
{
    double start_s = clock_real.now_s(&clock_real);
    double eager_s = spin_s + (double)s->bytes / bytes_per_s;
    for (;;) {
        int done = 0;
        int code = MPI_Test(&s->req, &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS)
            return fail_mpi(m, err, "collective", code);
        if (done)
            return 0;
        double past_s = clock_real.now_s(&clock_real) - start_s;
        if (past_s >= deadline_s) {
            m->is_dead = true;
            return error_set(err, ERR_TIMEOUT,
                             "rank %d waited %.1f s for the other ranks",
                             m->base.rank, deadline_s);
        }
        double nap_s = past_s / 1000;
        nap_s = nap_s < nap_min_s   ? nap_min_s
                : nap_s > nap_max_s ? nap_max_s
                                    : nap_s;
        struct timespec nap = {.tv_nsec = (long)(nap_s * 1e9)};
        if (past_s < eager_s)
            (void)sched_yield();
        else
            (void)nanosleep(&nap, NULL);
    }
}

static int mpi_wait(struct comm *c, int ticket, double deadline_s,
                    struct error *err)
{
    struct comm_mpi *m = self(c);
    if (m->is_dead)
        return error_set(err, ERR_STATE, "the communicator is dead");
    if (ticket < 0 || ticket >= COMM_INFLIGHT || !m->slots[ticket].is_used)
        return error_set(err, ERR_INVAL, "no collective has ticket %d", ticket);
    struct slot *s = &m->slots[ticket];
    if (finish(m, s, deadline_s, err) < 0)
        return -1;
    s->is_used = false;
    if (s->from == NULL)
        return 0;
    /* to_device() may return before the copy is done, and the slot's memory
     * is for the next collective. */
    if (m->dev->ops->to_device(m->dev, s->to, s->from, s->bytes, err) < 0 ||
        m->dev->ops->sync(m->dev, err) < 0) {
        m->is_dead = true;
        return -1;
    }
    return 0;
}

static void mpi_poll(struct comm *c)
{
    struct comm_mpi *m = self(c);
    for (int t = 0; t < COMM_INFLIGHT; t++) {
        int done;
        /* A request that is done becomes MPI_REQUEST_NULL, which wait()
         * finds done again; an error comes up there too. */
        if (m->slots[t].is_used && m->slots[t].req != MPI_REQUEST_NULL) {
            (void)MPI_Test(&m->slots[t].req, &done, MPI_STATUS_IGNORE);
            return; /* one test moves everything */
        }
    }
}

static int mpi_barrier(struct comm *c, double deadline_s, struct error *err)
{
    struct comm_mpi *m = self(c);
    int t = -1, ticket = -1;
    if (open_slot(m, 0, 0, &t, err) < 0)
        return -1;
    m->slots[t].bytes = 0;
    int code = MPI_Ibarrier(m->mpi, &m->slots[t].req);
    if (started(m, t, code, "barrier", &ticket, err) < 0)
        return -1;
    return mpi_wait(c, ticket, deadline_s, err);
}

static void __attribute__((noreturn)) mpi_abort(struct comm *c, int exit_code)
{
    /* If a job fails, Open MPI prints eight lines about MPI_Abort for each
     * rank, after the one that says why. mpirun --quiet is a remedy, but under
     * srun only silence about everything. */
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)dup2(fd, STDERR_FILENO);
    (void)MPI_Abort(self(c)->mpi, exit_code);
    _exit(exit_code);
}

static void mpi_destroy(struct comm *c)
{
    if (c == NULL)
        return;
    struct comm_mpi *m = self(c);
    for (int t = 0; t < COMM_INFLIGHT; t++) {
        struct slot *s = &m->slots[t];
        if (s->is_used) /* MPI may write to it until the process ends */
            return;
    }
    for (int t = 0; t < COMM_INFLIGHT; t++)
        free(m->slots[t].host);
    for (int i = 0; i < 4; i++)
        if (m->ops16[i / 2][i % 2] != MPI_OP_NULL)
            (void)MPI_Op_free(&m->ops16[i / 2][i % 2]);
    if (m->mpi != MPI_COMM_NULL && !m->is_dead)
        (void)MPI_Comm_free(&m->mpi);
    free(m);
}

static const struct comm_ops mpi_ops = {
    .name = "mpi",
    .all_reduce = mpi_all_reduce,
    .all_gather = mpi_all_gather,
    .reduce_scatter = mpi_reduce_scatter,
    .broadcast = mpi_broadcast,
    .reduce = mpi_reduce,
    .scatter = mpi_scatter,
    .wait = mpi_wait,
    .barrier = mpi_barrier,
    .poll = mpi_poll,
    .abort = mpi_abort,
    .destroy = mpi_destroy,
};

/* See comm_mpi_use(). */
static MPI_Comm among;
static bool is_among;

int comm_mpi_use(int32_t ranks, struct error *err)
{
    int rank = 0;
    if (is_among)
        (void)MPI_Comm_free(&among);
    is_among = false;
    if (ranks == 0)
        return 0;
    if (MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
        MPI_Comm_split(MPI_COMM_WORLD, rank < ranks, rank, &among) !=
            MPI_SUCCESS)
        return error_set(err, ERR_EXTERN, "split into %d ranks and the rest",
                         ranks);
    is_among = true;
    return 0;
}

static int find_place(struct comm_mpi *m, struct error *err)
{
    int rank = 0, size = 0, local_rank = 0, local_size = 0;
    MPI_Comm node = MPI_COMM_NULL;
    cpu_set_t cpus = comm_own_cpus();
    int code = MPI_Comm_dup(is_among ? among : MPI_COMM_WORLD, &m->mpi);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_set_errhandler(m->mpi, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_rank(m->mpi, &rank);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_size(m->mpi, &size);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_split_type(m->mpi, MPI_COMM_TYPE_SHARED, rank,
                                   MPI_INFO_NULL, &node);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_rank(node, &local_rank);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_size(node, &local_size);
    if (code == MPI_SUCCESS)
        code = MPI_Allreduce(MPI_IN_PLACE, &cpus, sizeof(cpus), MPI_BYTE,
                             MPI_BOR, node);
    if (node != MPI_COMM_NULL)
        (void)MPI_Comm_free(&node);
    m->base.rank = rank;
    m->base.size = size;
    m->base.local_rank = local_rank;
    m->base.local_size = local_size;
    m->base.local_cpus = cpus;
    if (code != MPI_SUCCESS)
        return fail_mpi(m, err, "communicator", code);
    return 0;
}

int comm_mpi_create(struct device *dev, struct comm **ret, struct error *err)
{
    int is_up = 0;
    if (MPI_Initialized(&is_up) != MPI_SUCCESS || !is_up)
        return error_set(err, ERR_STATE, "MPI_Init has not been called");
    struct comm_mpi *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return error_set(err, ERR_NOMEM, "communicator");
    m->base.ops = &mpi_ops;
    m->dev = dev;
    m->mpi = MPI_COMM_NULL;
    for (int i = 0; i < 4; i++)
        m->ops16[i / 2][i % 2] = MPI_OP_NULL;
    /* The default handler would end the process at the first error, before it
     * could tell the daemon. */
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    /* The default slack of 50 us would double each nap. */
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    if (find_place(m, err) < 0 || make_ops16(m, err) < 0) {
        mpi_destroy(&m->base);
        return -1;
    }
    *ret = &m->base;
    return 0;
}
