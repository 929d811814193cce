/* comm_files.c - a communicator for ranks whose programs use MPI: one rank of a
 * launcher can be one MPI process only.
 *
 * Ranks talk through files in a directory that all of them see. Of the n-th
 * collective, "n.r" is what rank r says and "n" is the answer of rank 0; each
 * is renamed into place when it is complete. Rank 0 removes what it has read,
 * and an answer once all ranks have said something later.
 *
 * Their few collectives are at the start and at the end of a program. Between
 * them a rank may wait for hours, so it looks less and less often. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/base/plain_file.h"
#include "worker/comm/comm.h"

static const double nap_min_s = 0.002, nap_max_s = 0.5;
enum { NAME_CAP = 40, NAMESPACE_CAP = 100 };

struct comm_files {
    struct comm base;
    int dir_fd;          /* -1: one rank, which needs no files */
    int64_t seq, oldest; /* the collective, and the first answer that is kept */
    /* The one under way. */
    bool is_under_way, is_gathered;
    void *x;
    size_t bytes;
    enum comm_op op;
};

static struct comm_files *self(struct comm *c)
{
    return (struct comm_files *)(void *)c;
}

/* ---- files ------------------------------------------------------------------
 */

static void name_of(const struct comm_files *m, int32_t rank, char *ret)
{
    (void)snprintf(ret, NAME_CAP, "%lld.%d", (long long)m->seq, rank);
}

static void name_answer(int64_t seq, char *ret)
{
    (void)snprintf(ret, NAME_CAP, "%lld", (long long)seq);
}

static int put(const struct comm_files *m, const char *name, struct error *err)
{
    char tmp[NAME_CAP + 8];
    (void)snprintf(tmp, sizeof(tmp), "%s.new", name);
    int fd =
        openat(m->dir_fd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_sys(err, errno, "tell the other ranks");
    size_t done = 0;
    bool is_ok = true;
    while (is_ok && done < m->bytes) {
        ssize_t n = write(fd, (const char *)m->x + done, m->bytes - done);
        is_ok = n > 0 || (n < 0 && errno == EINTR);
        done += n > 0 ? (size_t)n : 0;
    }
    is_ok = close(fd) == 0 && is_ok;
    if (is_ok && renameat(m->dir_fd, tmp, m->dir_fd, name) == 0)
        return 0;
    return error_sys(err, errno, "tell the other ranks");
}

/* Opening the directory makes a client of NFS ask the server for names that it
 * did not find before. */
static void look_anew(const struct comm_files *m)
{
    int fd = openat(m->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        (void)close(fd);
}

/* Returns 1: read, 0: it is not there yet. */
static int get(const struct comm_files *m, const char *name, void *x,
               struct error *err)
{
    look_anew(m);
    struct error why = ERROR_INIT;
    int fd = plain_file_open_at(m->dir_fd, name, O_NOFOLLOW, NULL, &why);
    if (fd < 0 && why.code == ERR_NOTFOUND)
        return 0;
    if (fd < 0)
        return error_set(err, why.code, "hear the other ranks: %s", why.msg);
    size_t done = 0;
    ssize_t n = 1;
    while (done < m->bytes && n != 0) {
        n = read(fd, (char *)x + done, m->bytes - done);
        if (n < 0 && errno != EINTR)
            break;
        done += n > 0 ? (size_t)n : 0;
    }
    (void)close(fd);
    if (done < m->bytes)
        return error_set(err, ERR_EXTERN, "another rank said %zu of %zu bytes",
                         done, m->bytes);
    return 1;
}

static int await(const struct comm_files *m, const char *name, void *x,
                 double until_s, double deadline_s, struct error *err)
{
    double nap_s = nap_min_s;
    for (;;) {
        int rc = get(m, name, x, err);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
        if (clock_real.now_s(&clock_real) >= until_s)
            return error_set(err, ERR_TIMEOUT,
                             "rank %d waited %.1f s for the other ranks",
                             m->base.rank, deadline_s);
        struct timespec nap = {.tv_nsec = (long)(nap_s * 1e9)};
        (void)nanosleep(&nap, NULL);
        nap_s = nap_s * 1.2 < nap_max_s ? nap_s * 1.2 : nap_max_s;
    }
}

/* ---- collectives ------------------------------------------------------------
 */

static int start(struct comm_files *m, void *x, size_t bytes, int *ret_ticket,
                 struct error *err)
{
    if (m->is_under_way)
        return error_set(err, ERR_LIMIT, "a collective is under way");
    m->x = x;
    m->bytes = bytes;
    m->is_under_way = true;
    *ret_ticket = 0;
    return 0;
}

static int files_all_reduce(struct comm *c, void *x, size_t n,
                            enum comm_type type, enum comm_op op,
                            int *ret_ticket, struct error *err)
{
    struct comm_files *m = self(c);
    char name[NAME_CAP];
    if (type != COMM_I64)
        return error_set(err, ERR_INVAL, "ranks of an MPI program add counts");
    if (start(m, x, n * comm_type_bytes(type), ret_ticket, err) < 0)
        return -1;
    m->op = op;
    m->is_gathered = true;
    name_of(m, c->rank, name);
    return c->rank == 0 ? 0 : put(m, name, err);
}

static int files_broadcast(struct comm *c, void *x, size_t bytes, int32_t root,
                           int *ret_ticket, struct error *err)
{
    struct comm_files *m = self(c);
    char name[NAME_CAP];
    if (root != 0)
        return error_set(err, ERR_INVAL, "rank 0 speaks to all, not rank %d",
                         root);
    if (start(m, x, bytes, ret_ticket, err) < 0)
        return -1;
    m->is_gathered = false;
    name_answer(m->seq, name);
    return c->rank == 0 && m->dir_fd >= 0 ? put(m, name, err) : 0;
}

static void combine(struct comm_files *m, const int64_t *from)
{
    int64_t *x = m->x;
    for (size_t i = 0; i < m->bytes / sizeof(*x); i++)
        if (m->op == COMM_SUM)
            x[i] += from[i];
        else if (from[i] > x[i])
            x[i] = from[i];
}

/* Everybody has said something, and so has read all earlier answers. */
static void forget(struct comm_files *m)
{
    char name[NAME_CAP];
    for (; m->oldest < m->seq; m->oldest++) {
        name_answer(m->oldest, name);
        (void)unlinkat(m->dir_fd, name, 0);
    }
}

/* Rank 0 combines what all ranks sent, and writes the answer. */
static int gather(struct comm_files *m, double until_s, double deadline_s,
                  struct error *err)
{
    char name[NAME_CAP];
    int64_t *from = malloc(m->bytes);
    int rc = from ? 0 : error_set(err, ERR_NOMEM, "counts");
    for (int32_t r = 1; rc == 0 && r < m->base.size; r++) {
        name_of(m, r, name);
        rc = await(m, name, from, until_s, deadline_s, err);
        if (rc == 0) {
            combine(m, from);
            (void)unlinkat(m->dir_fd, name, 0);
        }
    }
    free(from);
    if (rc < 0)
        return -1;
    forget(m);
    name_answer(m->seq, name);
    return put(m, name, err);
}

static int files_wait(struct comm *c, int ticket, double deadline_s,
                      struct error *err)
{
    struct comm_files *m = self(c);
    double until_s = clock_real.now_s(&clock_real) + deadline_s;
    char name[NAME_CAP];
    int rc = 0;
    if (ticket != 0 || !m->is_under_way)
        return error_set(err, ERR_INVAL, "no collective has ticket %d", ticket);
    name_answer(m->seq, name);
    if (m->dir_fd >= 0 && c->rank != 0)
        rc = await(m, name, m->x, until_s, deadline_s, err);
    else if (m->dir_fd >= 0 && m->is_gathered)
        rc = gather(m, until_s, deadline_s, err);
    m->is_under_way = false;
    m->seq++;
    return rc;
}

static int files_barrier(struct comm *c, double deadline_s, struct error *err)
{
    int64_t none = 0;
    return comm_all_reduce_now(c, &none, 1, COMM_I64, COMM_MAX, deadline_s,
                               err);
}

static void files_poll(struct comm *c)
{
    (void)c;
}

/* The launcher ends the other ranks when one fails. */
static void __attribute__((noreturn)) files_abort(struct comm *c, int exit_code)
{
    (void)c;
    _exit(exit_code);
}

static void files_destroy(struct comm *c)
{
    if (c == NULL)
        return;
    struct comm_files *m = self(c);
    if (m->dir_fd >= 0)
        (void)close(m->dir_fd);
    free(m);
}

static const struct comm_ops files_ops = {
    .name = "files",
    .all_reduce = files_all_reduce,
    .broadcast = files_broadcast,
    .wait = files_wait,
    .barrier = files_barrier,
    .poll = files_poll,
    .abort = files_abort,
    .destroy = files_destroy,
};

/* ---- who we are -------------------------------------------------------------
 */

static int32_t number(const char *name, int32_t otherwise)
{
    const char *value = getenv(name);
    long n = value ? strtol(value, NULL, 10) : -1; /* "2(x3)" is 2 */
    return n >= 0 && n < INT32_MAX ? (int32_t)n : otherwise;
}

/* mpirun's variables come first: mpirun may run below srun, but not srun below
 * mpirun. */
static void find_place(struct comm *c)
{
    static const char *const names[][4] = {
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
         "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
        {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
         "SLURM_STEP_TASKS_PER_NODE"}};
    size_t i = getenv(names[0][0]) ? 0 : 1;
    c->rank = number(names[i][0], 0);
    c->size = number(names[i][1], 1);
    c->local_rank = number(names[i][2], 0);
    c->local_size = number(names[i][3], 1);
}

/* A name that all ranks of this start share, and no other start has. */
static void find_namespace(char ret[NAMESPACE_CAP])
{
    const char *job = getenv("PMIX_NAMESPACE");
    const char *id = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    if (job)
        (void)snprintf(ret, NAMESPACE_CAP, "ranks.%s", job);
    else
        (void)snprintf(ret, NAMESPACE_CAP, "ranks.%s.%s", id ? id : "",
                       step ? step : "");
    for (char *p = ret; *p; p++)
        if (*p == '/')
            *p = '_';
}

static int open_dir(const char *dir, struct error *err)
{
    char name[NAMESPACE_CAP];
    find_namespace(name);
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return error_sys(err, errno, "make '%s'", dir);
    int top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        return error_sys(err, errno, "open '%s'", dir);
    bool is_made = mkdirat(top, name, 0700) == 0 || errno == EEXIST;
    int fd = is_made ? openat(top, name,
                              O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                     : -1;
    int code = errno;
    (void)close(top);
    return fd >= 0 ? fd : error_sys(err, code, "make '%s/%s'", dir, name);
}

int comm_files_create(const char *dir, struct comm **ret, struct error *err)
{
    struct comm_files *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return error_set(err, ERR_NOMEM, "communicator");
    m->base.ops = &files_ops;
    m->dir_fd = -1;
    find_place(&m->base);
    if (m->base.rank >= m->base.size || m->base.local_size < 1) {
        free(m);
        return error_set(err, ERR_CONFIG,
                         "the launcher gives a rank no number below its size");
    }
    if (m->base.size > 1 && (m->dir_fd = open_dir(dir, err)) < 0) {
        free(m);
        return -1;
    }
    *ret = &m->base;
    return 0;
}
