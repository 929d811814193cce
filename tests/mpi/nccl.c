/* nccl.c - the contract of worker/comm/comm.h, kept by NCCL on device memory.
 *
 * Without a GPU, on the fake one, whose NCCL is MPI (fake_gpu.h): what is
 * tested then is comm_nccl.c, with calls that are not taken at once. With
 * MGPU_TEST_DEVICE=cuda on the GPU that is there, which all ranks share: they
 * call themselves different machines (NCCL_HOSTID), because NCCL refuses two
 * ranks of one machine on one GPU, and talk over sockets.
 *
 * The contract's buffers are host memory: a communicator in between copies
 * them to the device and back.
 */
#include "tests/mpi/comm_contract.h"
#include "tests/mpi/fake_gpu.h"

struct between {
    struct comm base;
    struct comm *inner;
    struct device *d;
    struct {
        void *in, *out, *host; /* device; where out's bytes go */
        size_t bytes;
    } slots[COMM_INFLIGHT];
};

static struct between *self(struct comm *c)
{
    return (struct between *)(void *)c;
}

/* A buffer on the device, with what is at `host` when that is not NULL. */
static void *upload(struct between *b, const void *host, size_t bytes)
{
    void *p = NULL;
    if (b->d->ops->alloc(b->d, bytes, &p, NULL) < 0)
        abort();
    if (host != NULL && bytes > 0 &&
        (b->d->ops->to_device(b->d, p, host, bytes, NULL) < 0 ||
         b->d->ops->sync(b->d, NULL) < 0))
        abort();
    return p;
}

static int keep(struct between *b, int rc, int ticket, void *in, void *out,
                void *host, size_t bytes)
{
    if (rc < 0) {
        b->d->ops->release(b->d, in);
        b->d->ops->release(b->d, out);
        return rc;
    }
    b->slots[ticket].in = in;
    b->slots[ticket].out = out;
    b->slots[ticket].host = host;
    b->slots[ticket].bytes = bytes;
    return 0;
}

static int all_reduce(struct comm *c, void *x, size_t n, enum comm_type type,
                      enum comm_op op, int *ret, struct error *err)
{
    struct between *b = self(c);
    size_t bytes = n * comm_type_bytes(type);
    void *p = upload(b, x, bytes);
    int rc = b->inner->ops->all_reduce(b->inner, p, n, type, op, ret, err);
    return keep(b, rc, *ret, NULL, p, x, bytes);
}

static int all_gather(struct comm *c, void *out, const void *in, size_t n,
                      enum comm_type type, int *ret, struct error *err)
{
    struct between *b = self(c);
    size_t bytes = n * comm_type_bytes(type), all = bytes * (size_t)c->size;
    void *p = upload(b, in, bytes), *q = upload(b, NULL, all);
    int rc = b->inner->ops->all_gather(b->inner, q, p, n, type, ret, err);
    return keep(b, rc, *ret, p, q, out, all);
}

static int reduce_scatter(struct comm *c, void *out, const void *in, size_t n,
                          enum comm_type type, int *ret, struct error *err)
{
    struct between *b = self(c);
    size_t bytes = n * comm_type_bytes(type), all = bytes * (size_t)c->size;
    void *p = upload(b, in, all), *q = upload(b, NULL, bytes);
    int rc = b->inner->ops->reduce_scatter(b->inner, q, p, n, type, ret, err);
    return keep(b, rc, *ret, p, q, out, bytes);
}

static int broadcast(struct comm *c, void *x, size_t bytes, int32_t root,
                     int *ret, struct error *err)
{
    struct between *b = self(c);
    void *p = upload(b, x, bytes);
    int rc = b->inner->ops->broadcast(b->inner, p, bytes, root, ret, err);
    return keep(b, rc, *ret, NULL, p, x, bytes);
}

static int reduce(struct comm *c, void *x, size_t n, enum comm_type type,
                  int32_t root, int *ret, struct error *err)
{
    struct between *b = self(c);
    size_t bytes = n * comm_type_bytes(type);
    void *p = upload(b, x, bytes);
    int rc = b->inner->ops->reduce(b->inner, p, n, type, root, ret, err);
    return keep(b, rc, *ret, NULL, p, x, bytes);
}

static int scatter(struct comm *c, void *out, const void *in, size_t bytes,
                   int32_t root, int *ret, struct error *err)
{
    struct between *b = self(c);
    bool is_root = c->rank == root;
    void *p = is_root ? upload(b, in, bytes * (size_t)c->size) : NULL;
    void *q = upload(b, NULL, bytes);
    int rc = b->inner->ops->scatter(b->inner, q, p, bytes, root, ret, err);
    return keep(b, rc, *ret, p, q, out, bytes);
}

static int wait_for(struct comm *c, int ticket, double deadline_s,
                    struct error *err)
{
    struct between *b = self(c);
    int rc = b->inner->ops->wait(b->inner, ticket, deadline_s, err);
    if (ticket < 0 || ticket >= COMM_INFLIGHT || b->slots[ticket].out == NULL)
        return rc;
    if (rc == 0)
        rc = b->d->ops->to_host(b->d, b->slots[ticket].host,
                                b->slots[ticket].out, b->slots[ticket].bytes,
                                err);
    b->d->ops->release(b->d, b->slots[ticket].in);
    b->d->ops->release(b->d, b->slots[ticket].out);
    b->slots[ticket].in = b->slots[ticket].out = NULL;
    return rc;
}

static int barrier(struct comm *c, double deadline_s, struct error *err)
{
    struct comm *inner = self(c)->inner;
    return inner->ops->barrier(inner, deadline_s, err);
}

static void poll_it(struct comm *c)
{
    struct comm *inner = self(c)->inner;
    inner->ops->poll(inner);
}

static const struct comm_ops ops = {
    .name = "nccl, copied",
    .all_reduce = all_reduce,
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .broadcast = broadcast,
    .reduce = reduce,
    .scatter = scatter,
    .wait = wait_for,
    .barrier = barrier,
    .poll = poll_it,
};

static bool open_between(struct between *b, struct device *d)
{
    struct error err = ERROR_INIT;
    *b = (struct between){.d = d};
    if (!mpi_ok(comm_nccl_create(d, &b->inner, &err) == 0, &err, "NCCL"))
        return false;
    b->base = *b->inner;
    b->base.ops = &ops;
    return true;
}

/* What NCCL does wrong ends in an error, and in ncclCommAbort(): after that
 * the communicator is dead. */
static void test_failure(struct device *d, enum fake_nccl how,
                         enum err_code code, const char *what)
{
    struct between b;
    struct error err = ERROR_INIT;
    double x = 1;
    if (!open_between(&b, d))
        return;
    memset(&fake, 0, sizeof(fake));
    fake_nccl = how;
    int rc = comm_all_reduce_now(&b.base, &x, 1, COMM_F64, COMM_SUM, 0.1, &err);
    (void)mpi_ok(rc < 0 && err.code == code && fake.aborts == 1, &err, what);
    (void)mpi_ok((strstr(err.msg, "CUDA and NCCL of the memory plan: lower "
                                  "train.batch_size") != NULL) ==
                     (how == NCCL_LACKS_MEMORY),
                 &err, "and says what to lower only if that may help");
    err = (struct error)ERROR_INIT;
    rc = comm_all_reduce_now(&b.base, &x, 1, COMM_F64, COMM_SUM, 0.1, &err);
    (void)mpi_ok(rc < 0 && err.code == ERR_STATE, &err, "dead after that");
    fake_nccl = NCCL_WORKS;
    b.inner->ops->destroy(b.inner);
    (void)mpi_ok(fake.aborts == 1, NULL, "aborted once");
    fake_end();
}

static void share_one_gpu(void)
{
    char id[32];
    (void)snprintf(id, sizeof(id), "mgpu-test-%d", mpi_rank);
    (void)setenv("NCCL_HOSTID", id, 1);
    (void)setenv("NCCL_NET", "Socket", 1);
    (void)setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    (void)setenv("NCCL_P2P_DISABLE", "1", 1);
    (void)setenv("NCCL_SHM_DISABLE", "1", 1);
}

int main(int argc, char **argv)
{
    const char *want = getenv("MGPU_TEST_DEVICE");
    bool is_real = want != NULL && strcmp(want, "cuda") == 0;
    struct error err = ERROR_INIT;
    struct device *d = NULL;
    struct between b;
    mpi_tap_start(&argc, &argv);
    if (!HAVE_NCCL) {
        (void)mpi_ok(true, NULL, "the contract # SKIP a build without NCCL");
        return mpi_tap_done();
    }
    if (is_real)
        share_one_gpu();
    if (mpi_ok(device_cuda_create(0, &d, &err) == 0, &err, "a GPU")) {
        if (open_between(&b, d)) {
            (void)mpi_ok(is_real || fake.priority == FAKE_GREATEST_PRIORITY,
                         NULL, "its stream has the greatest priority");
            test_all(&b.base);
            b.inner->ops->destroy(b.inner);
        }
        if (!is_real) {
            test_failure(d, NCCL_HANGS, ERR_TIMEOUT,
                         "what does not end is late");
            test_failure(d, NCCL_LOSES_RANK, ERR_EXTERN,
                         "a rank of another node is lost");
            test_failure(d, NCCL_LACKS_MEMORY, ERR_EXTERN,
                         "its buffers do not fit");
        }
        d->ops->destroy(d);
    }
    return mpi_tap_done();
}
