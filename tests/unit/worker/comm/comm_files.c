/* comm_files.c - ranks that talk through files: sums, what rank 0 says, and
 * what is left; one that is late, and launchers that number ranks. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap.h"
#include "worker/comm/comm.h"

enum { RANKS = 4, ROUNDS = 20 };
static char dir[] = "/tmp/mgpu-files.XXXXXX";

static void set(const char *name, int n)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", n);
    (void)setenv(name, text, 1);
}

static void be(int rank)
{
    (void)setenv("PMIX_NAMESPACE", "job/1", 1);
    set("OMPI_COMM_WORLD_RANK", rank);
    set("OMPI_COMM_WORLD_SIZE", RANKS);
    set("OMPI_COMM_WORLD_LOCAL_RANK", rank % 2);
    set("OMPI_COMM_WORLD_LOCAL_SIZE", 2);
}

/* Returns what is wrong, as an exit status. */
static int one_rank(int rank)
{
    struct comm *c = NULL;
    struct error err = ERROR_INIT;
    be(rank);
    if (comm_files_create(dir, &c, &err) < 0)
        return 1;
    if (c->rank != rank || c->size != RANKS || c->local_rank != rank % 2 ||
        c->local_size != 2)
        return 2;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t x[2] = {rank + i, -rank};
        char word[100] = "";
        if (comm_all_reduce_now(c, x, 2, COMM_I64, COMM_SUM, 60, &err) < 0)
            return 3;
        if (x[0] != 6 + 4 * i || x[1] != -6)
            return 4;
        x[0] = rank * i;
        if (comm_all_reduce_now(c, x, 1, COMM_I64, COMM_MAX, 60, &err) < 0)
            return 5;
        if (x[0] != 3 * i)
            return 6;
        if (rank == 0)
            (void)snprintf(word, sizeof(word), "round %d", i);
        if (comm_broadcast_now(c, word, sizeof(word), 0, 60, &err) < 0)
            return 7;
        if (atoi(word + 6) != i)
            return 8;
    }
    if (c->ops->barrier(c, 60, &err) < 0)
        return 9;
    c->ops->destroy(c);
    return 0;
}

static void test_ranks(void)
{
    pid_t pids[RANKS];
    for (int r = 0; r < RANKS; r++) {
        pids[r] = fork();
        if (pids[r] == 0)
            _exit(one_rank(r));
    }
    for (int r = 0; r < RANKS; r++) {
        int status = -1;
        (void)waitpid(pids[r], &status, 0);
        is_int(status, 0, "a rank has heard all the others");
    }
    char path[200];
    int n = 0;
    (void)snprintf(path, sizeof(path), "%s/ranks.job_1", dir);
    DIR *d = opendir(path);
    struct dirent *e;
    while (d && (e = readdir(d)))
        n += e->d_name[0] != '.';
    if (d)
        (void)closedir(d);
    ok(d != NULL && n == 1, "the last answer is left: %d files", n);
}

static void test_late(void)
{
    struct comm *c = NULL;
    struct error err = ERROR_INIT;
    int64_t x = 1;
    int ticket = -1;
    be(0);
    (void)setenv("PMIX_NAMESPACE", "late", 1);
    if (!ok(comm_files_create(dir, &c, &err) == 0, "rank 0 %s", err.msg))
        return;
    is_int(comm_all_reduce_now(c, &x, 1, COMM_I64, COMM_SUM, 0.05, &err), -1,
           "the others do not come");
    is_int(err.code, ERR_TIMEOUT, "in time");
    is_int(c->ops->all_reduce(c, &x, 1, COMM_F64, COMM_SUM, &ticket, &err), -1,
           "it adds counts only");
    is_int(c->ops->broadcast(c, &x, 8, 2, &ticket, &err), -1,
           "only rank 0 speaks to all");
    is_int(c->ops->wait(c, 0, 1, &err), -1, "nothing is under way");
    c->ops->destroy(c);
}

static void test_places(void)
{
    struct comm *c = NULL;
    struct error err = ERROR_INIT;
    int64_t x = 5;
    (void)unsetenv("OMPI_COMM_WORLD_RANK");
    (void)setenv("SLURM_PROCID", "5", 1);
    (void)setenv("SLURM_STEP_NUM_TASKS", "6", 1);
    (void)setenv("SLURM_LOCALID", "1", 1);
    (void)setenv("SLURM_STEP_TASKS_PER_NODE", "2(x3)", 1);
    if (ok(comm_files_create(dir, &c, &err) == 0, "srun %s", err.msg)) {
        ok(c->rank == 5 && c->size == 6 && c->local_rank == 1 &&
               c->local_size == 2,
           "numbers its ranks, too");
        c->ops->destroy(c);
    }
    (void)setenv("SLURM_STEP_NUM_TASKS", "5", 1);
    is_int(comm_files_create(dir, &c, &err), -1, "rank 5 of 5");
    is_int(err.code, ERR_CONFIG, "is none");
    (void)unsetenv("SLURM_PROCID");
    (void)unsetenv("SLURM_STEP_NUM_TASKS");
    (void)unsetenv("SLURM_LOCALID");
    (void)unsetenv("SLURM_STEP_TASKS_PER_NODE");
    if (!ok(comm_files_create("/nonexistent", &c, &err) == 0, "one rank %s",
            err.msg))
        return;
    ok(comm_all_reduce_now(c, &x, 1, COMM_I64, COMM_SUM, INFINITY, &err) == 0 &&
           comm_broadcast_now(c, &x, sizeof(x), 0, INFINITY, &err) == 0 &&
           x == 5,
       "needs no files");
    c->ops->destroy(c);
}

int main(void)
{
    if (!ok(mkdtemp(dir) != NULL, "a directory"))
        return tap_done();
    test_ranks();
    test_late();
    test_places();
    char command[100];
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    is_int(system(command), 0, "cleaned up"); // NOLINT(cert-env33-c)
    return tap_done();
}
