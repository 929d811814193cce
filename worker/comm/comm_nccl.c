/* comm_nccl.c - collectives by NCCL, on a stream of their own.
 *
 * Neither NCCL nor CUDA is linked: both are opened with dlopen, so that a
 * run on the host needs neither. The communicator is non-blocking: a call
 * may come back "in progress", and is then polled, so that a rank that is
 * gone ends in a timeout and not in a hang.
 *
 * Order: a collective waits, on the device, for what the compute stream had
 * been given when it was started; the compute stream waits for nothing, so
 * that the rest of the backward pass runs beside it. wait() polls the event
 * recorded after it. The unique id, the barrier and the abort go over MPI.
 */
#include <dlfcn.h>
#include <nccl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jobs/base/clock.h"
#include "kernels/cuda_fault.h"
#include "worker/comm/comm.h"

/* NCCL opens its connections inside the first calls: seconds on one node,
 * a minute on a cluster whose file system is busy. */
static const double init_deadline_s = 300;
/* A rank that has failed ends within five seconds, though what it started
 * may wait for ranks that will never come. */
static const double end_deadline_s = 2;
/* Polls for so long before it naps; a query of an event costs about 1 us. */
static const double spin_s = 500e-6;
enum { NAP_NS = 50 * 1000 };

/* Values of cuda.h, which is not included: a driver result is an int here. */
enum { CU_OK = 0, CU_NOT_READY = 600, CU_NON_BLOCKING = 1, CU_NO_TIMING = 2 };

/* Up to 2.23 nccl.h has ncclBfloat16 only where cuda_bf16.h has the type, and
 * in C it has none; 2.24 has it always, with the same number. */
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 24, 0)
#define ncclBfloat16 ((ncclDataType_t)9)
#endif

/* X(member, symbol, result, parameters) */
#define NCCL_CALLS(X)                                                         \
    X(unique_id, "ncclGetUniqueId", ncclResult_t, (ncclUniqueId *))           \
    X(init, "ncclCommInitRankConfig", ncclResult_t,                           \
      (ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *))                 \
    X(async_error, "ncclCommGetAsyncError", ncclResult_t,                     \
      (ncclComm_t, ncclResult_t *))                                           \
    X(text, "ncclGetErrorString", const char *, (ncclResult_t))               \
    X(all_reduce, "ncclAllReduce", ncclResult_t,                              \
      (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, \
       cudaStream_t))                                                         \
    X(all_gather, "ncclAllGather", ncclResult_t,                              \
      (const void *, void *, size_t, ncclDataType_t, ncclComm_t,              \
       cudaStream_t))                                                         \
    X(reduce_scatter, "ncclReduceScatter", ncclResult_t,                      \
      (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, \
       cudaStream_t))                                                         \
    X(broadcast, "ncclBroadcast", ncclResult_t,                               \
      (const void *, void *, size_t, ncclDataType_t, int, ncclComm_t,         \
       cudaStream_t))                                                         \
    X(reduce, "ncclReduce", ncclResult_t,                                     \
      (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int,        \
       ncclComm_t, cudaStream_t))                                             \
    X(send, "ncclSend", ncclResult_t,                                         \
      (const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))  \
    X(receive, "ncclRecv", ncclResult_t,                                      \
      (void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))        \
    X(group_start, "ncclGroupStart", ncclResult_t, (void))                    \
    X(group_end, "ncclGroupEnd", ncclResult_t, (void))                        \
    X(finalize, "ncclCommFinalize", ncclResult_t, (ncclComm_t))               \
    X(destroy, "ncclCommDestroy", ncclResult_t, (ncclComm_t))                 \
    X(abort, "ncclCommAbort", ncclResult_t, (ncclComm_t))
#define CUDA_CALLS(X)                                                  \
    X(priorities, "cuCtxGetStreamPriorityRange", int, (int *, int *))  \
    X(stream_create, "cuStreamCreateWithPriority", int,                \
      (cudaStream_t *, unsigned, int))                                 \
    X(stream_destroy, "cuStreamDestroy_v2", int, (cudaStream_t))       \
    X(stream_wait, "cuStreamWaitEvent", int,                           \
      (cudaStream_t, cudaEvent_t, unsigned))                           \
    X(event_create, "cuEventCreate", int, (cudaEvent_t *, unsigned))   \
    X(event_destroy, "cuEventDestroy_v2", int, (cudaEvent_t))          \
    X(event_record, "cuEventRecord", int, (cudaEvent_t, cudaStream_t)) \
    X(event_query, "cuEventQuery", int, (cudaEvent_t))

#define MEMBER(name, symbol, result, params) result(*name) params;
struct nccl_calls {
    NCCL_CALLS(MEMBER)
};
struct cuda_calls {
    CUDA_CALLS(MEMBER)
};
#undef MEMBER

struct comm_nccl {
    struct comm base;
    struct device *dev; /* borrowed */
    struct comm *boot;  /* owned; MPI on host memory */
    void *nccl_lib, *cuda_lib;
    struct nccl_calls nccl;
    struct cuda_calls cuda;
    ncclComm_t comm;
    cudaStream_t stream;
    cudaEvent_t ready; /* what the compute stream had been given */
    struct {
        cudaEvent_t done;
        bool is_used;
    } slots[COMM_INFLIGHT];
    bool is_dead;
};

static struct comm_nccl *self(struct comm *c)
{
    return (struct comm_nccl *)(void *)c;
}

/* The communicator is unusable; NCCL lets go of the other ranks. */
static void kill_comm(struct comm_nccl *m)
{
    m->is_dead = true;
    if (m->comm != NULL)
        (void)m->nccl.abort(m->comm);
    m->comm = NULL;
}

static int fail_nccl(struct comm_nccl *m, struct error *err, const char *what,
                     ncclResult_t code)
{
    const char *text = m->nccl.text(code);
    kill_comm(m);
    (void)error_set(err, ERR_EXTERN, "NCCL: %s on rank %d: %s", what,
                    m->base.rank, text);
    /* So it calls the end of the GPU's memory, among others. */
    if (code == ncclUnhandledCudaError)
        (void)error_wrap(err, "if GPU memory ran out, CUDA and NCCL of the "
                              "memory plan: lower train.batch_size");
    return -1;
}

static int fail_cuda(struct comm_nccl *m, struct error *err, const char *what,
                     int code)
{
    kill_comm(m);
    return error_set(err, cuda_is_fault(code) ? ERR_DEVICE : ERR_EXTERN,
                     "CUDA: %s on rank %d: error %d", what, m->base.rank, code);
}

static int fail_late(struct comm_nccl *m, struct error *err, double deadline_s)
{
    kill_comm(m);
    return error_set(err, ERR_TIMEOUT,
                     "rank %d waited %.1f s for the other ranks", m->base.rank,
                     deadline_s);
}

static void rest(double past_s)
{
    struct timespec nap = {.tv_nsec = NAP_NS};
    if (past_s < spin_s)
        (void)sched_yield();
    else
        (void)nanosleep(&nap, NULL);
}

/* A call came back with `code`: wait until NCCL has taken it. */
static int taken(struct comm_nccl *m, ncclResult_t code, const char *what,
                 double deadline_s, struct error *err)
{
    double start_s = clock_real.now_s(&clock_real);
    while (code == ncclInProgress) {
        ncclResult_t now = ncclSuccess;
        ncclResult_t rc = m->nccl.async_error(m->comm, &now);
        code = rc != ncclSuccess ? rc : now;
        double past_s = clock_real.now_s(&clock_real) - start_s;
        if (code == ncclInProgress && past_s > deadline_s)
            return fail_late(m, err, deadline_s);
        if (code == ncclInProgress)
            rest(past_s);
    }
    return code == ncclSuccess ? 0 : fail_nccl(m, err, what, code);
}

/* A free slot; the stream waits for what was computed so far. */
static int begin(struct comm_nccl *m, int *ret_slot, struct error *err)
{
    if (m->is_dead)
        return error_set(err, ERR_STATE, "the communicator is dead");
    int t = 0;
    while (t < COMM_INFLIGHT && m->slots[t].is_used)
        t++;
    if (t == COMM_INFLIGHT)
        return error_set(err, ERR_LIMIT, "more than %d collectives under way",
                         COMM_INFLIGHT);
    cudaStream_t compute = m->dev->ops->stream(m->dev);
    int code = m->cuda.event_record(m->ready, compute);
    if (code == CU_OK)
        code = m->cuda.stream_wait(m->stream, m->ready, 0);
    if (code != CU_OK)
        return fail_cuda(m, err, "event", code);
    *ret_slot = t;
    return 0;
}

static int started(struct comm_nccl *m, int slot, ncclResult_t code,
                   const char *what, int *ret_ticket, struct error *err)
{
    if (taken(m, code, what, init_deadline_s, err) < 0)
        return -1;
    int rc = m->cuda.event_record(m->slots[slot].done, m->stream);
    if (rc != CU_OK)
        return fail_cuda(m, err, what, rc);
    m->slots[slot].is_used = true;
    *ret_ticket = slot;
    return 0;
}

static ncclDataType_t type_of(enum comm_type type)
{
    switch (type) {
    case COMM_F64:
        return ncclFloat64;
    case COMM_F32:
        return ncclFloat32;
    case COMM_F16:
        return ncclFloat16;
    case COMM_BF16:
        return ncclBfloat16;
    case COMM_I64:
        break;
    }
    return ncclInt64;
}

static int nccl_all_reduce(struct comm *c, void *x, size_t n,
                           enum comm_type type, enum comm_op op,
                           int *ret_ticket, struct error *err)
{
    struct comm_nccl *m = self(c);
    int t = -1;
    if (begin(m, &t, err) < 0)
        return -1;
    ncclResult_t code = m->nccl.all_reduce(x, x, n, type_of(type),
                                           op == COMM_SUM ? ncclSum : ncclMax,
                                           m->comm, m->stream);
    return started(m, t, code, "all-reduce", ret_ticket, err);
}

static int nccl_all_gather(struct comm *c, void *out, const void *in, size_t n,
                           enum comm_type type, int *ret_ticket,
                           struct error *err)
{
    struct comm_nccl *m = self(c);
    int t = -1;
    if (begin(m, &t, err) < 0)
        return -1;
    ncclResult_t code =
        m->nccl.all_gather(in, out, n, type_of(type), m->comm, m->stream);
    return started(m, t, code, "all-gather", ret_ticket, err);
}

static int nccl_reduce_scatter(struct comm *c, void *out, const void *in,
                               size_t n, enum comm_type type, int *ret_ticket,
                               struct error *err)
{
    struct comm_nccl *m = self(c);
    int t = -1;
    if (begin(m, &t, err) < 0)
        return -1;
    ncclResult_t code = m->nccl.reduce_scatter(in, out, n, type_of(type),
                                               ncclSum, m->comm, m->stream);
    return started(m, t, code, "reduce-scatter", ret_ticket, err);
}

static int nccl_broadcast(struct comm *c, void *x, size_t bytes, int32_t root,
                          int *ret_ticket, struct error *err)
{
    struct comm_nccl *m = self(c);
    int t = -1;
    if (comm_check_root(c, root, "broadcast from", err) < 0 ||
        begin(m, &t, err) < 0)
        return -1;
    ncclResult_t code =
        m->nccl.broadcast(x, x, bytes, ncclUint8, root, m->comm, m->stream);
    return started(m, t, code, "broadcast", ret_ticket, err);
}

static int nccl_reduce(struct comm *c, void *x, size_t n, enum comm_type type,
                       int32_t root, int *ret_ticket, struct error *err)
{
    struct comm_nccl *m = self(c);
    int t = -1;
    if (comm_check_root(c, root, "reduce to", err) < 0 || begin(m, &t, err) < 0)
        return -1;
    ncclResult_t code = m->nccl.reduce(x, x, n, type_of(type), ncclSum, root,
                                       m->comm, m->stream);
    return started(m, t, code, "reduce", ret_ticket, err);
}

/* ncclScatter() is not in every libnccl.so.2. */
static int nccl_scatter(struct comm *c, void *out, const void *in, size_t bytes,
                        int32_t root, int *ret_ticket, struct error *err)
{
    struct comm_nccl *m = self(c);
    int t = -1;
    if (comm_check_root(c, root, "scatter from", err) < 0 ||
        begin(m, &t, err) < 0)
        return -1;
    ncclResult_t code = m->nccl.group_start();
    for (int32_t r = 0; c->rank == root && r < c->size && code == ncclSuccess;
         r++)
        code = m->nccl.send((const char *)in + (size_t)r * bytes, bytes,
                            ncclUint8, r, m->comm, m->stream);
    if (code == ncclSuccess)
        code = m->nccl.receive(out, bytes, ncclUint8, root, m->comm, m->stream);
    ncclResult_t end = m->nccl.group_end();
    return started(m, t, code != ncclSuccess ? code : end, "scatter",
                   ret_ticket, err);
}

static int nccl_wait(struct comm *c, int ticket, double deadline_s,
                     struct error *err)
{
    struct comm_nccl *m = self(c);
    if (m->is_dead)
        return error_set(err, ERR_STATE, "the communicator is dead");
    if (ticket < 0 || ticket >= COMM_INFLIGHT || !m->slots[ticket].is_used)
        return error_set(err, ERR_INVAL, "no collective has ticket %d", ticket);
    double start_s = clock_real.now_s(&clock_real);
    for (;;) {
        int code = m->cuda.event_query(m->slots[ticket].done);
        if (code == CU_OK)
            break;
        if (code != CU_NOT_READY)
            return fail_cuda(m, err, "collective", code);
        ncclResult_t now = ncclSuccess;
        ncclResult_t rc = m->nccl.async_error(m->comm, &now);
        if (rc != ncclSuccess || (now != ncclSuccess && now != ncclInProgress))
            return fail_nccl(m, err, "collective",
                             rc != ncclSuccess ? rc : now);
        double past_s = clock_real.now_s(&clock_real) - start_s;
        if (past_s >= deadline_s)
            return fail_late(m, err, deadline_s);
        rest(past_s);
    }
    m->slots[ticket].is_used = false;
    return 0;
}

static int nccl_barrier(struct comm *c, double deadline_s, struct error *err)
{
    struct comm_nccl *m = self(c);
    if (m->is_dead)
        return error_set(err, ERR_STATE, "the communicator is dead");
    return m->boot->ops->barrier(m->boot, deadline_s, err);
}

static void nccl_poll(struct comm *c)
{
    (void)c; /* the device moves on by itself */
}

static void __attribute__((noreturn)) nccl_abort(struct comm *c, int exit_code)
{
    struct comm *boot = self(c)->boot;
    boot->ops->abort(boot, exit_code);
}

static void nccl_destroy(struct comm *c)
{
    if (c == NULL)
        return;
    struct comm_nccl *m = self(c);
    if (m->comm != NULL) {
        struct error ignored;
        /* A failed finalize has already aborted it. */
        if (taken(m, m->nccl.finalize(m->comm), "finalize", end_deadline_s,
                  &ignored) == 0)
            (void)m->nccl.destroy(m->comm);
    }
    for (int t = 0; t < COMM_INFLIGHT; t++)
        if (m->slots[t].done != NULL)
            (void)m->cuda.event_destroy(m->slots[t].done);
    if (m->ready != NULL)
        (void)m->cuda.event_destroy(m->ready);
    if (m->stream != NULL)
        (void)m->cuda.stream_destroy(m->stream);
    if (m->boot != NULL)
        m->boot->ops->destroy(m->boot);
    /* NCCL leaves threads behind that run its code: it stays loaded. */
    free(m);
}

static const struct comm_ops nccl_ops = {
    .name = "nccl",
    .all_reduce = nccl_all_reduce,
    .all_gather = nccl_all_gather,
    .reduce_scatter = nccl_reduce_scatter,
    .broadcast = nccl_broadcast,
    .reduce = nccl_reduce,
    .scatter = nccl_scatter,
    .wait = nccl_wait,
    .barrier = nccl_barrier,
    .poll = nccl_poll,
    .abort = nccl_abort,
    .destroy = nccl_destroy,
};

/* POSIX lets a data pointer from dlsym() be a function; ISO C wants the
 * detour through its bytes. */
static int find_call(void *lib, const char *symbol, void *ret,
                     struct error *err)
{
    void *p = dlsym(lib, symbol);
    if (p == NULL)
        return error_set(err, ERR_UNAVAIL, "NCCL: no '%s' in the library",
                         symbol);
    *(void **)ret = p;
    return 0;
}

static int load(struct comm_nccl *m, struct error *err)
{
    m->cuda_lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    m->nccl_lib = m->cuda_lib != NULL
                      ? dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL)
                      : NULL;
    if (m->nccl_lib == NULL) {
        const char *why = dlerror();
        return error_set(err, ERR_UNAVAIL, "NCCL: %s",
                         why != NULL ? why : "not found");
    }
#define FIND(name, symbol, result, params)                   \
    if (find_call(from, symbol, (void *)&to->name, err) < 0) \
        return -1;
    {
        void *from = m->nccl_lib;
        struct nccl_calls *to = &m->nccl;
        NCCL_CALLS(FIND)
    }
    {
        void *from = m->cuda_lib;
        struct cuda_calls *to = &m->cuda;
        CUDA_CALLS(FIND)
    }
#undef FIND
    return 0;
}

/* All ranks or none: one without NCCL would leave the others waiting. */
static int load_all(struct comm_nccl *m, struct error *err)
{
    int64_t missing;
    struct error mine = ERROR_INIT;
    if (m->dev == NULL || m->dev->ops->stream == NULL)
        (void)error_set(&mine, ERR_UNAVAIL, "NCCL: the device has no stream");
    else
        (void)load(m, &mine);
    missing = mine.code != ERR_NONE;
    if (comm_all_reduce_now(m->boot, &missing, 1, COMM_I64, COMM_MAX,
                            init_deadline_s, err) < 0)
        return -1;
    if (missing == 0)
        return 0;
    if (mine.code == ERR_NONE)
        return error_set(err, ERR_UNAVAIL, "NCCL: not there on another rank");
    if (err != NULL)
        *err = mine;
    return -1;
}

/* The stream has the greatest priority: blocks of a collective, which are few,
 * start as soon as a multiprocessor has room, and not behind all blocks of the
 * kernels that were enqueued before them. */
static int open_device(struct comm_nccl *m, struct error *err)
{
    int least = 0, greatest = 0; /* numbers fall as priorities rise */
    int code = m->cuda.priorities(&least, &greatest);
    if (code == CU_OK)
        code = m->cuda.stream_create(&m->stream, CU_NON_BLOCKING, greatest);
    if (code == CU_OK)
        code = m->cuda.event_create(&m->ready, CU_NO_TIMING);
    for (int t = 0; t < COMM_INFLIGHT && code == CU_OK; t++)
        code = m->cuda.event_create(&m->slots[t].done, CU_NO_TIMING);
    return code == CU_OK ? 0 : fail_cuda(m, err, "stream", code);
}

static int join(struct comm_nccl *m, struct error *err)
{
    ncclUniqueId id = {.internal = {0}};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t code = ncclSuccess;
    if (m->base.rank == 0)
        code = m->nccl.unique_id(&id);
    /* A failed id is broadcast too: all zero, which no real one is. */
    if (comm_broadcast_now(m->boot, &id, sizeof(id), 0, init_deadline_s, err) <
        0)
        return -1;
    if (code != ncclSuccess)
        return fail_nccl(m, err, "unique id", code);
    static const ncclUniqueId none;
    if (memcmp(&id, &none, sizeof(id)) == 0)
        return error_set(err, ERR_EXTERN, "NCCL: rank 0 has no unique id");
    config.blocking = 0;
    code = m->nccl.init(&m->comm, m->base.size, id, m->base.rank, &config);
    return taken(m, code, "init", init_deadline_s, err);
}

int comm_nccl_create(struct device *dev, struct comm **ret, struct error *err)
{
    struct comm_nccl *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return error_set(err, ERR_NOMEM, "communicator");
    m->base.ops = &nccl_ops;
    m->base.in_order = true; /* they are on one stream */
    m->dev = dev;
    if (comm_mpi_create(NULL, &m->boot, err) < 0)
        goto fail;
    m->base.rank = m->boot->rank;
    m->base.size = m->boot->size;
    m->base.local_rank = m->boot->local_rank;
    m->base.local_size = m->boot->local_size;
    m->base.local_cpus = m->boot->local_cpus;
    if (load_all(m, err) < 0 || open_device(m, err) < 0 || join(m, err) < 0)
        goto fail;
    *ret = &m->base;
    return 0;
fail:
    nccl_destroy(&m->base);
    return -1;
}
