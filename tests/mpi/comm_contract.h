/* comm_contract.h - the contract of worker/comm/comm.h, for a communicator on
 * any number of ranks.
 *
 * Sums are compared with ==: the inputs are small integers, whose sums are
 * exact in any order. That every rank holds the same bits is tested apart,
 * on inputs where the order of the sum shows.
 */
#ifndef MGPU_TESTS_COMM_CONTRACT_H
#define MGPU_TESTS_COMM_CONTRACT_H

#include <stdlib.h>
#include <string.h>

#include "tests/mpi/mpi_tap.h"
#include "worker/comm/comm.h"

enum { N = 5000, BIG = 700 * 1000 };
static const double wait_s = 300;

static double element(int rank, int i, enum comm_type type)
{
    int big = type == COMM_I64 ? 1 << 30 : 1;
    return (double)((i * 7 + rank * 13) % 101 - 50) * big;
}

static void put(void *x, int i, double v, enum comm_type type)
{
    if (type == COMM_F64)
        ((double *)x)[i] = v;
    else if (type == COMM_F32)
        ((float *)x)[i] = (float)v;
    else if (type == COMM_F16 || type == COMM_BF16)
        dtype_set(type == COMM_F16 ? DT_F16 : DT_BF16, x, i, v);
    else
        ((int64_t *)x)[i] = (int64_t)v;
}

static bool has(const void *x, int i, double v, enum comm_type type)
{
    if (type == COMM_F64)
        return ((const double *)x)[i] == v;
    if (type == COMM_F32)
        return ((const float *)x)[i] == (float)v;
    if (type == COMM_F16 || type == COMM_BF16)
        return dtype_get(type == COMM_F16 ? DT_F16 : DT_BF16, x, i) == v;
    return ((const int64_t *)x)[i] == (int64_t)v;
}

static double expected(int i, enum comm_type type, enum comm_op op)
{
    double sum = 0, max = element(0, i, type);
    for (int r = 0; r < mpi_size; r++) {
        double v = element(r, i, type);
        sum += v;
        max = v > max ? v : max;
    }
    return op == COMM_SUM ? sum : max;
}

static void test_all_reduce(struct comm *c, enum comm_type type,
                            enum comm_op op, const char *what)
{
    struct error err = ERROR_INIT;
    void *x = malloc(N * sizeof(double));
    for (int i = 0; i < N; i++)
        put(x, i, element(mpi_rank, i, type), type);
    int t = -1;
    int rc = c->ops->all_reduce(c, x, N, type, op, &t, &err);
    rc = rc < 0 ? rc : c->ops->wait(c, t, wait_s, &err);
    bool same = rc == 0;
    for (int i = 0; same && i < N; i++)
        same = has(x, i, expected(i, type, op), type);
    (void)mpi_ok(same, &err, what);
    free(x);
}

static void test_gather_scatter(struct comm *c, enum comm_type type,
                                const char *what)
{
    struct error err = ERROR_INIT;
    size_t all = (size_t)mpi_size * N;
    void *part = malloc(N * sizeof(double));
    void *full = malloc(all * sizeof(double));
    void *sum = malloc(N * sizeof(double));
    for (int i = 0; i < N; i++)
        put(part, i, element(mpi_rank, i, type), type);
    int t = -1;
    int rc = c->ops->all_gather(c, full, part, N, type, &t, &err);
    rc = rc < 0 ? rc : c->ops->wait(c, t, wait_s, &err);
    bool same = rc == 0;
    for (int i = 0; same && i < mpi_size * N; i++)
        same = has(full, i, element(i / N, i % N, type), type);
    (void)mpi_ok(same, &err, what);

    /* Every rank now holds the same `full`: part r sums to size times it. */
    rc = c->ops->reduce_scatter(c, sum, full, N, type, &t, &err);
    rc = rc < 0 ? rc : c->ops->wait(c, t, wait_s, &err);
    same = rc == 0;
    for (int i = 0; same && i < N; i++)
        same = has(sum, i, mpi_size * element(mpi_rank, i, type), type);
    (void)mpi_ok(same, &err, "reduce-scatter of it");
    free(part);
    free(full);
    free(sum);
}

static void test_broadcast(struct comm *c)
{
    struct error err = ERROR_INIT;
    char text[1001];
    for (int32_t root = 0; root < mpi_size; root++) {
        memset(text, mpi_rank == root ? 'a' + root : '-', sizeof(text));
        int rc = comm_broadcast_now(c, text, sizeof(text), root, wait_s, &err);
        bool same = rc == 0;
        for (size_t i = 0; i < sizeof(text); i++)
            same = same && text[i] == 'a' + root;
        (void)mpi_ok(same, &err, "broadcast from each root");
    }
    int rc = comm_broadcast_now(c, text, 1, mpi_size, wait_s, &err);
    (void)mpi_ok(rc < 0 && err.code == ERR_INVAL, &err, "no such root");
}

/* The sum is root's alone, and each rank has its own part of root's. */
static void test_root(struct comm *c, enum comm_type type)
{
    struct error err = ERROR_INIT;
    size_t size = comm_type_bytes(type);
    char *x = calloc(N, size), *was = calloc(N, size), *sum = calloc(N, size);
    char *all = calloc((size_t)N * (size_t)mpi_size, size);
    for (int32_t root = 0; root < mpi_size; root++) {
        for (int i = 0; i < N; i++) {
            double total = 0;
            for (int r = 0; r < mpi_size; r++) {
                total += element(r, i, type);
                put(all, r * N + i, element(r + root, i, type), type);
            }
            put(x, i, element(mpi_rank, i, type), type);
            put(sum, i, total, type);
        }
        memcpy(was, x, N * size);
        int rc = comm_reduce_now(c, x, N, type, root, wait_s, &err);
        (void)mpi_ok(rc == 0 &&
                         memcmp(x, mpi_rank == root ? sum : was, N * size) == 0,
                     &err, "reduced to a root, and left elsewhere");
        memset(x, 0, N * size);
        rc = comm_scatter_now(c, x, mpi_rank == root ? all : NULL, N * size,
                              root, wait_s, &err);
        (void)mpi_ok(rc == 0 && memcmp(x, all + (size_t)mpi_rank * N * size,
                                       N * size) == 0,
                     &err, "scattered from a root");
    }
    int rc = comm_reduce_now(c, x, 1, type, mpi_size, wait_s, &err);
    (void)mpi_ok(rc < 0 && err.code == ERR_INVAL, &err, "no such root");
    rc = comm_scatter_now(c, x, all, 1, -1, wait_s, &err);
    (void)mpi_ok(rc < 0 && err.code == ERR_INVAL, &err, "nor this one");
    free(x);
    free(was);
    free(sum);
    free(all);
}

/* Rounding depends on the order: 1e16 + 1 - 1e16 and the like. All ranks
 * must have rounded alike, and again the next time. */
static void test_same_bits(struct comm *c)
{
    struct error err = ERROR_INIT;
    double *x = malloc(BIG * sizeof(double));
    double *again = malloc(BIG * sizeof(double));
    double *zero = malloc(BIG * sizeof(double));
    for (int i = 0; i < BIG; i++)
        again[i] = x[i] = (mpi_rank % 2 ? -1.0 : 1.0) * (1e16 + i) / 3 +
                          1.0 / (i + 1 + mpi_rank);
    int rc = comm_all_reduce_now(c, x, BIG, COMM_F64, COMM_SUM, wait_s, &err);
    int rc2 =
        comm_all_reduce_now(c, again, BIG, COMM_F64, COMM_SUM, wait_s, &err);
    size_t bytes = BIG * sizeof(double);
    (void)mpi_ok(rc == 0 && rc2 == 0 && memcmp(x, again, bytes) == 0, &err,
                 "the same sum twice gives the same bits");
    memcpy(zero, x, bytes);
    (void)MPI_Bcast(zero, BIG, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    (void)mpi_ok(memcmp(x, zero, bytes) == 0, NULL, "and on every rank");
    free(x);
    free(again);
    free(zero);
}

/* As backward() uses it: all slots under way, waited for in order. */
static void test_inflight(struct comm *c)
{
    struct error err = ERROR_INIT;
    static int64_t x[COMM_INFLIGHT][N];
    int t[COMM_INFLIGHT], rc = 0, extra;
    for (int k = 0; k < COMM_INFLIGHT; k++) {
        for (int i = 0; i < N; i++)
            x[k][i] = mpi_rank + k + i;
        rc |= c->ops->all_reduce(c, x[k], N, COMM_I64, COMM_SUM, &t[k], &err);
        c->ops->poll(c);
    }
    int over = c->ops->all_reduce(c, x[0], 0, COMM_I64, COMM_SUM, &extra, &err);
    (void)mpi_ok(over < 0 && err.code == ERR_LIMIT, &err, "one too many");
    for (int k = 0; k < COMM_INFLIGHT; k++)
        rc |= c->ops->wait(c, t[k], wait_s, &err);
    bool same = rc == 0;
    int64_t ranks = (int64_t)mpi_size * (mpi_size - 1) / 2;
    for (int k = 0; k < COMM_INFLIGHT; k++)
        for (int i = 0; i < N; i++)
            same = same && x[k][i] == ranks + (int64_t)mpi_size * (k + i);
    (void)mpi_ok(same, &err, "all slots under way at once");
    (void)mpi_ok(c->ops->wait(c, t[0], wait_s, &err) < 0, &err,
                 "a ticket is good once");
    (void)mpi_ok(c->ops->barrier(c, wait_s, &err) == 0, &err, "barrier");
}

static void test_all(struct comm *c)
{
    struct error err = ERROR_INIT;
    (void)mpi_ok(c->rank == mpi_rank && c->size == mpi_size, NULL, "place");
    (void)mpi_ok(c->local_rank >= 0 && c->local_rank < c->local_size, NULL,
                 "place on the node");
    test_all_reduce(c, COMM_F64, COMM_SUM, "sum of f64");
    test_all_reduce(c, COMM_F32, COMM_SUM, "sum of f32");
    test_all_reduce(c, COMM_I64, COMM_SUM, "sum of i64");
    test_all_reduce(c, COMM_F16, COMM_SUM, "sum of f16");
    test_all_reduce(c, COMM_BF16, COMM_SUM, "sum of bf16");
    test_all_reduce(c, COMM_F16, COMM_MAX, "maximum of f16");
    test_all_reduce(c, COMM_BF16, COMM_MAX, "maximum of bf16");
    test_all_reduce(c, COMM_F64, COMM_MAX, "maximum of f64");
    test_all_reduce(c, COMM_F32, COMM_MAX, "maximum of f32");
    test_all_reduce(c, COMM_I64, COMM_MAX, "maximum of i64");
    test_gather_scatter(c, COMM_F64, "all-gather of f64");
    test_gather_scatter(c, COMM_F32, "all-gather of f32");
    test_gather_scatter(c, COMM_I64, "all-gather of i64");
    test_gather_scatter(c, COMM_F16, "all-gather of f16");
    test_gather_scatter(c, COMM_BF16, "all-gather of bf16");
    test_broadcast(c);
    test_root(c, COMM_F64);
    test_root(c, COMM_F32);
    test_same_bits(c);
    test_inflight(c);
    int rc = comm_all_reduce_now(c, NULL, 0, COMM_F64, COMM_SUM, wait_s, &err);
    (void)mpi_ok(rc == 0, &err, "a sum of nothing");
}

#endif
