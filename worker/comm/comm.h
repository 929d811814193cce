/* comm.h - collectives among the ranks of one job.
 *
 * Implementations: mpi (host memory; device buffers are staged through it),
 * nccl (device memory) and alone, of one rank, with neither. All give every
 * rank the same bits, and sum in a fixed order for a given number of ranks.
 *
 * A collective is started and then waited for, so that it can overlap other
 * work; at most COMM_INFLIGHT are under way. Ranks must start them in the
 * same order. After an error only destroy() may be called: the rank reports
 * and exits.
 */
#ifndef MGPU_WORKER_COMM_COMM_H
#define MGPU_WORKER_COMM_COMM_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "kernels/device.h"

struct comm;

enum { COMM_INFLIGHT = 8 };
enum comm_op { COMM_SUM, COMM_MAX };
/* The type of what is summed; counts and flags travel as I64. Two values of 16
 * bits are added in fp32, and the sum is rounded: n ranks need n - 1
 * roundings. */
enum comm_type { COMM_F64, COMM_F32, COMM_F16, COMM_BF16, COMM_I64 };

struct comm_ops {
    const char *name;
    /* x[n] := op over all ranks of x[n]
     * out  ret_ticket  for wait() */
    int (*all_reduce)(struct comm *c, void *x, size_t n, enum comm_type type,
                      enum comm_op op, int *ret_ticket, struct error *err);
    /* out [size * n] := the ranks' in [n], by rank */
    int (*all_gather)(struct comm *c, void *out, const void *in, size_t n,
                      enum comm_type type, int *ret_ticket, struct error *err);
    /* out [n] := the sum over ranks of in [size * n], part `rank` of it */
    int (*reduce_scatter)(struct comm *c, void *out, const void *in, size_t n,
                          enum comm_type type, int *ret_ticket,
                          struct error *err);
    int (*broadcast)(struct comm *c, void *x, size_t bytes, int32_t root,
                     int *ret_ticket, struct error *err);
    /* x[n] on root := the sum over the ranks of x[n]; elsewhere x is as it
     * was */
    int (*reduce)(struct comm *c, void *x, size_t n, enum comm_type type,
                  int32_t root, int *ret_ticket, struct error *err);
    /* out [bytes] := part `rank` of root's in [size * bytes], which out is no
     * part of; in is not read elsewhere */
    int (*scatter)(struct comm *c, void *out, const void *in, size_t bytes,
                   int32_t root, int *ret_ticket, struct error *err);
    /* err  ERR_TIMEOUT not done after deadline_s: the communicator is dead */
    int (*wait)(struct comm *c, int ticket, double deadline_s,
                struct error *err);
    int (*barrier)(struct comm *c, double deadline_s, struct error *err);
    /* Lets collectives in flight advance; never waits. Without it a collective
     * on host memory moves only inside the other calls. */
    void (*poll)(struct comm *c);
    /* Ends the whole job now: the other ranks are killed by the launcher. */
    __attribute__((noreturn)) void (*abort)(struct comm *c, int exit_code);
    void (*destroy)(struct comm *c); /* NULL is fine */
};

struct comm {
    const struct comm_ops *ops;
    /* Collectives run one after the other, in the order in which they were
     * started: one may use the memory of those before it. Else wait() must come
     * in between. */
    bool in_order;
    int32_t rank, size;
    int32_t local_rank, local_size; /* among the ranks of this node */
    /* Processors that any rank of this node may run on, however the launcher
     * binds each of them; empty: not known. */
    cpu_set_t local_cpus;
};

size_t comm_type_bytes(enum comm_type type);
enum comm_type comm_type_of(enum dtype dt);

/* The processors that this thread may run on; empty where the kernel has more
 * than the set. */
cpu_set_t comm_own_cpus(void);

/* Checks `root` for implementations. err ERR_INVAL no rank; says `what` it is
 * for */
int comm_check_root(const struct comm *c, int32_t root, const char *what,
                    struct error *err) MUST_CHECK;

/* Start and wait in one step; for what overlaps nothing. */
int comm_all_reduce_now(struct comm *c, void *x, size_t n, enum comm_type type,
                        enum comm_op op, double deadline_s,
                        struct error *err) MUST_CHECK;
int comm_broadcast_now(struct comm *c, void *x, size_t bytes, int32_t root,
                       double deadline_s, struct error *err) MUST_CHECK;

int comm_reduce_now(struct comm *c, void *x, size_t n, enum comm_type type,
                    int32_t root, double deadline_s,
                    struct error *err) MUST_CHECK;
int comm_scatter_now(struct comm *c, void *out, const void *in, size_t bytes,
                     int32_t root, double deadline_s,
                     struct error *err) MUST_CHECK;

/* MPI_Init and MPI_Finalize: once per process, around everything else. Where
 * the latter crashes, the process ends with this code. */
int comm_mpi_start(struct error *err) MUST_CHECK;
void comm_mpi_end(int exit_code);
/* In place of both, for a program that is the MPI process: where its shared
 * memory is, so that it is removed even if the program is killed. */
void comm_mpi_lend(void);
void comm_mpi_take_back(void);

/* Communicators made after it are of the first `ranks` ranks, and of the
 * others, by themselves; 0: of all. Every rank calls it. For tests: a run on
 * fewer ranks can then be compared with one on more.
 * err  ERR_EXTERN */
int comm_mpi_use(int32_t ranks, struct error *err) MUST_CHECK;

/* Call it after comm_mpi_start(). `dev` NULL: host memory. */
int comm_mpi_create(struct device *dev, struct comm **ret,
                    struct error *err) MUST_CHECK;

/* A communicator of this rank alone; needs no MPI. `dev` as above. */
int comm_alone_create(struct device *dev, struct comm **ret,
                      struct error *err) MUST_CHECK;

/* A communicator of ranks whose programs use MPI themselves; a launcher started
 * the ranks and numbers them. It keeps files below `dir`, which it creates and
 * all ranks see. It has broadcast from rank 0, all_reduce of I64, one of them
 * at a time, and barrier. */
int comm_files_create(const char *dir, struct comm **ret,
                      struct error *err) MUST_CHECK;

/* The unique id travels over MPI. err ERR_UNAVAIL built without NCCL. */
int comm_nccl_create(struct device *dev, struct comm **ret,
                     struct error *err) MUST_CHECK;

#endif
