/* allocator_slurm.c - see allocator.h. The helper is started by fork and exec
 * while this process has one thread: once for a life of the daemon, because
 * a system's daemon gives up the privileges that a second one would need.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/base/signals.h"
#include "scheduler/ctld/startup/allocator.h"
#include "scheduler/ctld/startup/paths.h"
#include "slurm/protocol/helper_wire.h"

enum { ARGS_MAX = 48, NUMBER_CAP = 32, N_NUMBERS = 5, ABOVE = 16 };
/* A helper that is silent for so many rounds hangs, and Slurm counts as away. A
 * round is a pause and the helper's calls after it, and each may take long. */
static const double STALE_ROUNDS = 5;

/* ---- its command line -----------------------------------------------------
 */
struct line {
    const char *argv[ARGS_MAX + 1];
    int n;
    char numbers[N_NUMBERS][NUMBER_CAP];
    int n_numbers;
};

static void add(struct line *l, const char *option, const char *value)
{
    if (!value)
        return;
    l->argv[l->n++] = option;
    l->argv[l->n++] = value;
}

static void add_flag(struct line *l, const char *option, bool is_set)
{
    if (is_set)
        l->argv[l->n++] = option;
}

static void add_number(struct line *l, const char *option, double value)
{
    char *text = l->numbers[l->n_numbers++];
    (void)snprintf(text, NUMBER_CAP, "%.15g", value);
    add(l, option, text);
}

/* Writes at most 1 + 2 * 18 + 3 words: ARGS_MAX holds them. */
static void make_line(const struct conf *conf, enum slurm_mode mode,
                      const char *program, const char *batch,
                      const char *worker, struct line *l)
{
    l->argv[l->n++] = program;
    add(l, "--cluster", conf->cluster);
    add(l, "--conf", conf->slurm.conf);
    add_number(l, "--call-timeout", conf->slurm.call_timeout_s);
    add_number(l, "--poll", conf->slurm.poll_interval_s);
    add_number(l, "--limit-margin", conf->slurm.limit_margin_s);
    add(l, "--partition", conf->slurm.partition);
    add(l, "--account", conf->slurm.account);
    add(l, "--qos", conf->slurm.qos);
    add(l, "--constraint", conf->slurm.constraint);
    add(l, "--reservation", conf->slurm.reservation);
    add(l, "--gpu-type", conf->slurm.gpu_type);
    add_number(l, "--cpus-per-gpu", conf->slurm.cpus_per_gpu);
    if (conf->slurm.memory_per_gpu_bytes > 0)
        add_number(l, "--memory-per-gpu",
                   (double)conf->slurm.memory_per_gpu_bytes);
    add(l, "--launcher",
        conf->slurm.launcher == LAUNCHER_MPIRUN ? "mpirun" : "srun");
    add(l, "--srun", conf->slurm.srun);
    add(l, "--mpirun", conf->slurm.mpirun);
    add(l, "--mpi", conf->slurm.mpi);
    add(l, "--batch", batch);
    add(l, "--worker", worker);
    add_flag(l, "--exclusive", conf->slurm.exclusive);
    add_flag(l, "--system", mode == SLURM_SYSTEM);
    /* Root's own daemon runs root's jobs; a system's runs none of root's. */
    add_flag(l, "--allow-root", mode == SLURM_PERSONAL && geteuid() == 0);
}

/* ---- its process ----------------------------------------------------------
 */
/* Out of the way of the numbers that it is to have. */
static int lift(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, ABOVE);
}

static _Noreturn void exec_helper(const struct line *l, int rpc, int files,
                                  int verdict, int log_fd)
{
    int high_rpc = lift(rpc), high_files = lift(files);
    int high_verdict = lift(verdict), high_log = log_fd < 0 ? -1 : lift(log_fd);
    signals_plain();
    if (dup2(high_rpc, HELPER_RPC_FD) >= 0 &&
        dup2(high_files, HELPER_FILES_FD) >= 0 &&
        (high_log < 0 || dup2(high_log, STDERR_FILENO) >= 0))
        (void)execv(l->argv[0], (char *const *)l->argv);
    int saved = errno;
    ssize_t ignored = write(high_verdict, &saved, sizeof(saved));
    (void)ignored;
    _exit(127);
}

static void close_pair(const int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            (void)close(pair[i]);
}

static int start(const struct line *l, int log_fd, struct slurm_helper *ret,
                 struct error *err)
{
    int rpc[2] = {-1, -1}, files[2] = {-1, -1}, verdict[2] = {-1, -1};
    int failed = 0;
    pid_t pid = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, rpc) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, files) < 0 ||
        pipe2(verdict, O_CLOEXEC) < 0 || (pid = fork()) < 0)
        failed = errno;
    if (pid == 0)
        exec_helper(l, rpc[1], files[1], verdict[1], log_fd);
    if (pid > 0) {
        (void)close(verdict[1]);
        verdict[1] = -1;
        ssize_t n;
        do /* its end comes when exec has closed the pipe */
            n = read(verdict[0], &failed, sizeof(failed));
        while (n < 0 && errno == EINTR);
    }
    close_pair(verdict);
    if (failed != 0) {
        close_pair(rpc);
        close_pair(files);
        return error_sys(err, failed, "start '%s'", l->argv[0]);
    }
    (void)close(rpc[1]);
    (void)close(files[1]);
    *ret = (struct slurm_helper){
        .pid = pid, .rpc_fd = rpc[0], .files_fd = files[0]};
    return 0;
}

int slurm_helper_start(const struct conf *conf, enum slurm_mode mode,
                       const char *worker, int log_fd, struct slurm_helper *ret,
                       struct error *err)
{
    char program[COMPOSE_PATH_CAP], batch[COMPOSE_PATH_CAP];
    struct line l = {.n = 0};
    if (paths_program("mgpu-slurm-helper", program, sizeof(program), err) < 0 ||
        paths_program("mgpu-batch", batch, sizeof(batch), err) < 0)
        return -1;
    make_line(conf, mode, program, batch, worker, &l);
    return start(&l, log_fd, ret, err);
}

int compose_slurm(const struct conf *conf, struct slurm_helper *h,
                  struct compose *ret, struct error *err)
{
    double round_s = conf->slurm.poll_interval_s + conf->slurm.call_timeout_s;
    struct alloc_slurm_conf slurm = {.cluster = conf->cluster,
                                     .fd = h->rpc_fd,
                                     .reconcile_after_s =
                                         conf->slurm.reconcile_after_s,
                                     .stale_s = STALE_ROUNDS * round_s,
                                     .clock = &clock_real};
    struct compose c = {.helper = h->pid};
    int rc = alloc_slurm_create(&slurm, &c.alloc, err);
    if (rc == 0)
        rc = files_helper_create(h->files_fd, &c.files, err);
    else
        (void)close(h->files_fd);
    *h = (struct slurm_helper){.pid = 0};
    if (rc < 0) {
        compose_clear(&c);
        return -1;
    }
    *ret = c;
    return 0;
}
