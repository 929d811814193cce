/* comm.c - the contract of worker/comm/comm.h over MPI: on host memory, and
 * staged for a device's; and deadlines; and by one rank alone. nccl.c is the
 * other one. */
#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "tests/mpi/comm_contract.h"
#include "worker/process/rank_cores.h"

/* A device whose memory the CPU may not touch, as far as comm knows. */
static int copies;

static int far_copy(struct device *d, void *dst, const void *src, size_t bytes,
                    struct error *err)
{
    (void)d;
    (void)err;
    copies++;
    if (bytes > 0)
        memcpy(dst, src, bytes);
    return 0;
}

static int far_sync(struct device *d, struct error *err)
{
    (void)d;
    (void)err;
    return 0;
}

static const struct device_ops far_ops = {
    .name = "far",
    .to_host = far_copy,
    .to_device = far_copy,
    .copy = far_copy,
    .sync = far_sync,
};
static struct device far_device = {.ops = &far_ops, .host_memory = false};

/* One rank stays away: the others time out, and the communicator is dead.
 * It stays reachable, for its memory is MPI's until the end. */
static struct comm *dead;

static void test_deadline(void)
{
    struct error err = ERROR_INIT;
    if (mpi_size == 1 ||
        !mpi_ok(comm_mpi_create(NULL, &dead, &err) == 0, &err, "create"))
        return;
    bool good = true;
    if (mpi_rank > 0) {
        double start_s = clock_real.now_s(&clock_real);
        good = dead->ops->barrier(dead, 0.2, &err) < 0;
        double took_s = clock_real.now_s(&clock_real) - start_s;
        good = good && err.code == ERR_TIMEOUT && took_s >= 0.2 && took_s < 60;
    }
    (void)mpi_ok(good, &err, "ERR_TIMEOUT when a rank stays away");
    int64_t x = 1;
    int rc = 0;
    if (mpi_rank > 0)
        rc = comm_all_reduce_now(dead, &x, 1, COMM_I64, COMM_SUM, 1, &err);
    (void)mpi_ok(mpi_rank == 0 || (rc < 0 && err.code == ERR_STATE), &err,
                 "dead after that");
    /* Let the barrier end, so that MPI_Finalize finds nothing under way. */
    if (mpi_rank == 0)
        good = dead->ops->barrier(dead, wait_s, &err) == 0;
    (void)mpi_ok(good, &err, "the late rank");
    dead->ops->destroy(dead);
    if (mpi_rank == 0)
        dead = NULL;
}

/* Everything twice, on memory of the host and of a device. */
static void test_alone(void)
{
    struct device *const where[] = {NULL, &far_device};
    for (size_t i = 0; i < sizeof(where) / sizeof(where[0]); i++) {
        struct error err = ERROR_INIT;
        struct comm *c = NULL;
        int before = copies, ticket = -1;
        if (!mpi_ok(comm_alone_create(where[i], &c, &err) == 0, &err, "alone"))
            continue;
        test_all(c);
        (void)mpi_ok((copies > before) == (where[i] != NULL), NULL,
                     "copies are made where the memory is");
        int rc = 0;
        for (int n = 0; n < COMM_INFLIGHT && rc == 0; n++)
            rc = c->ops->all_reduce(c, NULL, 0, COMM_F64, COMM_SUM, &ticket,
                                    &err);
        (void)mpi_ok(rc == 0, &err, "so many may be under way");
        rc = c->ops->broadcast(c, NULL, 0, 0, &ticket, &err);
        (void)mpi_ok(rc < 0 && err.code == ERR_LIMIT, &err, "and no more");
        rc = c->ops->wait(c, 0, wait_s, &err);
        (void)mpi_ok(rc == 0, &err, "one that was waited for");
        rc = c->ops->wait(c, 0, wait_s, &err);
        (void)mpi_ok(rc < 0 && err.code == ERR_INVAL, &err, "is over");
        c->ops->destroy(c);
    }
}

/* Ranks that are bound to a processor each, as many as there are, know those of
 * all of them. */
static void test_bound(void)
{
    struct error err = ERROR_INIT;
    struct comm *c = NULL;
    cpu_set_t was, own, want;
    size_t at = 0;
    int nth = 0;
    CPU_ZERO(&want);
    (void)mpi_ok(sched_getaffinity(0, sizeof(was), &was) == 0, NULL, "set");
    const int n = CPU_COUNT(&was);
    for (size_t i = 0; i < CPU_SETSIZE && nth < n; i++) {
        if (!CPU_ISSET(i, &was))
            continue;
        at = nth == mpi_rank % n ? i : at;
        if (nth++ < mpi_size)
            CPU_SET(i, &want);
    }
    CPU_ZERO(&own);
    CPU_SET(at, &own);
    (void)mpi_ok(sched_setaffinity(0, sizeof(own), &own) == 0, NULL, "bound");
    if (mpi_ok(comm_mpi_create(NULL, &c, &err) == 0, &err, "bound ranks")) {
        (void)mpi_ok(CPU_EQUAL(&c->local_cpus, &want), NULL,
                     "know the processors of all of them");
        const double share = (double)CPU_COUNT(&want) / c->local_size;
        (void)mpi_ok(rank_cores_share(c) == share, NULL,
                     "of which each has its share");
        /* One that is bound later has no other share. */
        (void)mpi_ok(sched_setaffinity(0, sizeof(was), &was) == 0 &&
                         rank_cores_share(c) == share,
                     NULL, "however it is bound");
        (void)mpi_ok(sched_setaffinity(0, sizeof(own), &own) == 0, NULL,
                     "bound again");
        c->ops->destroy(c);
    }
    if (mpi_size == 1 &&
        mpi_ok(comm_alone_create(NULL, &c, &err) == 0, &err, "alone")) {
        (void)mpi_ok(CPU_EQUAL(&c->local_cpus, &own), NULL, "its own");
        c->ops->destroy(c);
    }
    (void)mpi_ok(sched_setaffinity(0, sizeof(was), &was) == 0, NULL, "free");
}

int main(int argc, char **argv)
{
    mpi_tap_start(&argc, &argv);
    struct error err = ERROR_INIT;
    struct comm *c = NULL;
    if (mpi_ok(comm_mpi_create(NULL, &c, &err) == 0, &err, "host memory")) {
        test_all(c);
        c->ops->destroy(c);
    }
    c = NULL;
    if (mpi_ok(comm_mpi_create(&far_device, &c, &err) == 0, &err, "staged")) {
        test_all(c);
        (void)mpi_ok(copies > 0, NULL, "device memory was copied");
        c->ops->destroy(c);
    }
    c = NULL;
    int rc = comm_nccl_create(&far_device, &c, &err);
    (void)mpi_ok(rc < 0 && err.code == ERR_UNAVAIL, &err,
                 "no NCCL on a device without a stream");
    test_bound();
    test_deadline();
    if (mpi_size == 1)
        test_alone();
    return mpi_tap_done();
}
