/* launch_env.c - what a process is told of the others. */
#include "worker/process/launch_env.h"

#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

static const struct rendezvous meet = {.host = "node1", .port = 4711};
/* The second rank on the second of two nodes. */
static const struct comm_ops ops = {.name = "mpi"};
static const struct comm second = {
    .ops = &ops, .rank = 3, .size = 4, .local_rank = 1, .local_size = 2};

static void is_env(enum spec_launch launch, const struct comm *c,
                   const char *want)
{
    struct env_list e = {.array = NULL};
    struct buf got = BUF_INIT;
    struct error err = ERROR_INIT;
    ok(launch_env(launch, c, 8, &meet, &e, &err) == 0 &&
           env_finish(&e, &err) == 0,
       "made %s", err.msg);
    int rc = 0;
    for (char **v = e.array; rc == 0 && v && *v; v++)
        rc = buf_addf(&got, &err, "%s ", *v);
    is_str(rc == 0 ? buf_str(&got) : err.msg, want, "its variables");
    buf_clear(&got);
    env_clear(&e);
}

static void test_check(void)
{
    const struct comm alone = {.size = 2, .local_size = 1};
    struct error err = ERROR_INIT;
    ok(launch_check(LAUNCH_RANKS, &second, &err) == 0 &&
           launch_check(LAUNCH_TORCH, &second, &err) == 0,
       "several ranks on a node");
    is_int(launch_check(LAUNCH_NODE, &alone, &err), 0, "one on each");
    is_int(launch_check(LAUNCH_NODE, &second, &err), -1, "two on each");
    is_int(err.code, ERR_CONFIG, "is a mistake of who started them");
    ok(strstr(err.msg, "one process per node"), "%s", err.msg);
    is_int(launch_check(LAUNCH_MPI, &second, &err), -1,
           "a rank of MPI, and so its program is none");
    const struct comm_ops files = {.name = "files"};
    const struct comm other = {.ops = &files, .size = 2, .local_size = 2};
    is_int(launch_check(LAUNCH_MPI, &other, &err), 0, "a rank that is not");
}

static bool has(char *const *list, const char *word)
{
    for (; list && *list; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

static void test_mpi(void)
{
    struct env_list e = {.array = NULL};
    struct error err = ERROR_INIT;
    (void)setenv("PMIX_RANK", "3", 1);
    (void)setenv("OMPI_MCA_btl", "self,tcp", 1);
    (void)setenv("SLURM_PROCID", "3", 1);
    (void)setenv("PMIXED", "x", 1);
    ok(env_add(&e, "OMPI_MCA_btl", "self", &err) == 0 &&
           launch_env_below(LAUNCH_MPI, &second, 2, &meet, &e, &err) == 0 &&
           env_finish(&e, &err) == 0,
       "what the launcher said %s", err.msg);
    ok(has(e.array, "PMIX_RANK=3") && has(e.array, "SLURM_PROCID=3"),
       "is passed on");
    ok(has(e.array, "OMPI_MCA_btl=self") && !has(e.array, "PMIXED=x"),
       "the job's own value stays, and nothing else is passed");
    env_clear(&e);
    ok(launch_env_below(LAUNCH_TORCH, &second, 2, &meet, &e, &err) == 0 &&
           e.text.len == 0,
       "nothing of it without MPI");
    env_clear(&e);
}

/* A job may say --nproc_per_node with PET_NPROC_PER_NODE itself. */
static void test_torchrun(void)
{
    const struct comm one = {
        .ops = &ops, .rank = 1, .size = 2, .local_size = 1};
    struct env_list e = {.array = NULL};
    struct error err = ERROR_INIT;
    ok(env_add(&e, "PET_NNODES", "1", &err) == 0 &&
           launch_env_below(LAUNCH_NODE, &one, 0, &meet, &e, &err) == 0 &&
           env_finish(&e, &err) == 0,
       "for torchrun %s", err.msg);
    ok(has(e.array, "PET_NNODES=1") && has(e.array, "PET_NODE_RANK=1") &&
           has(e.array, "PET_NPROC_PER_NODE=1") &&
           has(e.array, "PET_MASTER_ADDR=node1") &&
           has(e.array, "PET_MASTER_PORT=4711"),
       "its options, below the job's own; one process without GPUs");
    env_clear(&e);
}

int main(void)
{
    const struct comm node = {.rank = 1, .size = 2, .local_size = 1};
    is_env(LAUNCH_RANKS, &second, "");
    is_env(LAUNCH_TORCH, &second,
           "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 "
           "MASTER_ADDR=node1 MASTER_PORT=4711 ");
    is_env(LAUNCH_NODE, &node,
           "MGPU_NODES=2 MGPU_NODE_RANK=1 MGPU_GPUS_PER_NODE=8 "
           "MASTER_ADDR=node1 MASTER_PORT=4711 ");
    test_check();
    test_mpi();
    test_torchrun();
    return tap_done();
}
