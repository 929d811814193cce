/* shepherd.c - mgpu-shepherd: run one local attempt; it outlives the daemon.
 *
 *   mgpu-shepherd DIR MPIRUN WORKER
 *
 * The local allocator starts it in a session of its own, with a clean
 * environment, every signal blocked, and two descriptors: 3 is the locked lock
 * file (attempt_dir.h), 4 a pipe on which it waits for one byte. If the pipe
 * closes without it, the daemon died between fork and its decision, and the
 * shepherd exits with 75: nothing has run.
 *
 * Then it runs the ranks that DIR/launch.json describes, copies their output
 * into the bounded log, and obeys the daemon's two signals (attempt_dir.h). It
 * is the subreaper of all its descendants, so none can escape, and it does not
 * exit before the last of them has ended: when it writes `exit`, the GPUs are
 * free. The engine enforces the time limit, not the shepherd.
 *
 * Several ranks are started by mpirun. A single rank is a child of the shepherd
 * and does not need MPI: mpirun and MPI_Init would cost it half a second.
 *
 * Release, step by step: SIGTERM to the ranks only, because mpirun would kill
 * them a second later and they may need the whole grace period for a
 * checkpoint; after the grace period, SIGKILL to all processes but mpirun,
 * which then has KILL_WAIT_S to clean up; then SIGKILL to all. If the shepherd
 * is killed, the kernel sends mpirun SIGTERM, which ends the ranks; a single
 * rank it kills. The daemon finds remaining processes by ATTEMPT_MARK. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/log/shm_dir.h"
#include "slurm/alloc.h"
#include "slurm/launch/attempt_dir.h"
#include "slurm/launch/launcher.h"
#include "slurm/launch/mpirun.h"
#include "slurm/launch/mpirun_version.h"
#include "slurm/launch/proc.h"
#include "slurm/launch/rank_output.h"

static const double KILL_WAIT_S = 2;
/* While processes have to be killed, the interval between two looks. */
static const double TICK_S = 0.05;
/* While ranks run, the interval between two looks for their orphans. */
static const double ORPHAN_TICK_S = 0.5;
/* For a SIGTERM that does not come from the daemon and has no grace period. */
static const double DEFAULT_GRACE_S = 10;

struct shepherd {
    const char *dir, *program, *worker;
    struct wire_launch launch;
    int32_t ranks;
    struct outputs *out;
    sigset_t signals;
    int signal_fd;
    bool is_alone;         /* one rank, and no mpirun */
    struct launcher first; /* mpirun, or that rank */
    bool has_ended;        /* `first` has */
    bool has_children;     /* the shepherd has any */
    bool is_mpirun_hit;
    int status; /* of `first` */
    double began_s;
    double kill_at_s; /* INFINITY: not released */
};

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

static int set_up(struct shepherd *s, struct error *err)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigemptyset(&s->signals);
    const int watched[] = {SIGCHLD, SIGTERM,         SIGINT,
                           SIGHUP,  SHEPHERD_SIGNAL, SHEPHERD_RELEASE};
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
        (void)sigaddset(&s->signals, watched[i]);
    (void)sigprocmask(SIG_SETMASK, &s->signals, NULL);
    s->signal_fd = signalfd(-1, &s->signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signal_fd < 0)
        return error_sys(err, errno, "wait for signals");
    if (fcntl(SHEPHERD_LOCK_FD, F_SETFD, FD_CLOEXEC) < 0 ||
        fcntl(SHEPHERD_GO_FD, F_SETFD, FD_CLOEXEC) < 0)
        return error_sys(err, errno, "check the inherited descriptors");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return error_sys(err, errno, "become the subreaper");
    struct attempt_pid self = {.pid = getpid()};
    if (proc_start_ticks(self.pid, &self.start_ticks, err) < 0)
        return -1;
    return attempt_pid_write(SHEPHERD_LOCK_FD, &self, err);
}

/* Whether the daemon let it go. */
static bool may_go(void)
{
    char byte;
    ssize_t n;
    do
        n = read(SHEPHERD_GO_FD, &byte, 1);
    while (n < 0 && errno == EINTR);
    (void)close(SHEPHERD_GO_FD);
    return n == 1;
}

/* The arguments of the first process.
 * err  ERR_CONFIG the mpirun cannot start ranks */
static char **first_argv(const struct shepherd *s, struct error *err)
{
    enum mpirun_kind kind;
    if (s->is_alone)
        return mpirun_argv_alone(s->worker, s->dir, err);
    if (mpirun_version_ask(s->program, &kind, err) < 0)
        return NULL;
    return mpirun_argv(s->program, kind, s->ranks, s->worker, s->dir,
                       s->launch.spec.launch == LAUNCH_MPI, err);
}

/* End the attempt because no rank can be started; the log says why. */
static void refuse(struct shepherd *s, const struct error *why)
{
    char line[sizeof(why->msg) + 20];
    int n = snprintf(line, sizeof(line), "mgpu-shepherd: %s\n", why->msg);
    outputs_add(s->out, line, (size_t)n);
    s->has_ended = true;
    int code = why->code == ERR_CONFIG ? ALLOC_EXIT_NO_LAUNCHER
                                       : error_exit_status(why->code);
    s->status = code << 8; /* as wait(2) has it */
}

static int start(struct shepherd *s, struct error *err)
{
    struct error why = ERROR_INIT;
    char **argv = NULL;
    bool has_launch = attempt_launch_read(s->dir, &s->launch, &why) == 0;
    if (!has_launch && (why.code == ERR_NOMEM || why.code == ERR_IO))
        return error_set(err, why.code, "%s", why.msg);
    s->ranks = wire_launch_ranks(&s->launch);
    s->is_alone = s->ranks == 1;
    const struct outputs_conf conf = {.dir = s->dir,
                                      .logs = s->launch.spec.logs,
                                      .ranks = s->ranks,
                                      .here = s->ranks};
    if (attempt_exit_reserve(s->dir, err) < 0 ||
        outputs_create(&conf, &s->out, err) < 0)
        return -1;
    /* From here on the attempt counts as started. */
    if (attempt_write(s->dir, "started", "", err) < 0)
        return -1;
    s->began_s = now_s();
    if (has_launch)
        argv = first_argv(s, &why);
    if (!has_launch ||
        (!argv && (why.code == ERR_CONFIG || why.code == ERR_INVAL))) {
        refuse(s, &why);
        return 0;
    }
    if (!argv)
        return error_set(err, why.code, "%s", why.msg);
    int rc = launcher_start("mgpu-shepherd", argv,
                            s->is_alone ? IS_THE_RANK : LAUNCHES_RANKS,
                            &s->first, err);
    if (rc == 0)
        s->has_children = true;
    free(argv);
    return rc;
}

static void reap(struct shepherd *s)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            s->has_children = false;
        if (pid <= 0)
            return;
        if (pid == s->first.pid) {
            s->has_ended = true;
            s->status = status;
        }
    }
}

/* Returns how many there are. */
static int signal_ranks(const struct shepherd *s, int signo)
{
    if (!s->is_alone)
        return proc_signal_children(s->first.pid, 0, signo);
    return kill(s->first.pid, signo) == 0;
}

static void release(struct shepherd *s, double grace_s)
{
    bool is_first = isinf(s->kill_at_s);
    s->kill_at_s = fmin(s->kill_at_s, now_s() + grace_s);
    if (!is_first || s->has_ended)
        return;
    if (signal_ranks(s, SIGTERM) > 0) {
        /* A stopped process could not handle the signal. */
        (void)signal_ranks(s, SIGCONT);
    } else {
        s->is_mpirun_hit = true;
        (void)kill(s->first.pid, SIGTERM);
    }
}

static void take_signals(struct shepherd *s)
{
    struct signalfd_siginfo si;
    while (read(s->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
        int signo = (int)si.ssi_signo;
        if (signo == SHEPHERD_SIGNAL && !s->has_ended)
            (void)signal_ranks(s, si.ssi_int);
        else if (signo == SHEPHERD_RELEASE)
            release(s, si.ssi_int / 1e3);
        else if (signo == SIGTERM || signo == SIGINT || signo == SIGHUP)
            release(s, DEFAULT_GRACE_S);
    }
}

/* mpirun waits until no process holds its ranks' output open, so a process that
 * the ranks left behind would keep the attempt, and its GPUs, for ever. */
static bool has_only_orphans(const struct shepherd *s)
{
    return !s->is_alone && !s->has_ended && proc_n_own_children() > 1 &&
           proc_signal_children(s->first.pid, 0, 0) == 0;
}

/* Runs until `first` has ended and no process that it left behind is alive. */
static void watch(struct shepherd *s)
{
    for (;;) {
        double now = now_s();
        reap(s);
        if (!s->has_children)
            return;
        bool is_over = s->has_ended || now >= s->kill_at_s;
        if (is_over || has_only_orphans(s)) {
            bool spare = !s->is_alone && !s->has_ended &&
                         now < s->kill_at_s + KILL_WAIT_S;
            (void)proc_signal_tree(getpid(), spare ? s->first.pid : 0, SIGKILL);
        }
        double wait_s =
            is_over ? TICK_S : fmin(s->kill_at_s - now, ORPHAN_TICK_S);
        int wait_ms = (int)ceil(wait_s * 1e3), rest_ms = outputs_rest(s->out);
        if (rest_ms >= 0 && rest_ms < wait_ms)
            wait_ms = rest_ms;
        struct pollfd fds[] = {{.fd = s->signal_fd, .events = POLLIN},
                               {.fd = s->first.out_fd, .events = POLLIN},
                               {.fd = outputs_fd(s->out), .events = POLLIN},
                               {.fd = s->first.tty_fd, .events = POLLIN}};
        if (poll(fds, 4, wait_ms) < 0 && errno != EINTR)
            continue;
        if (fds[1].revents || fds[3].revents)
            launcher_copy(&s->first, s->out);
        if (fds[2].revents)
            outputs_copy(s->out);
        if (fds[0].revents)
            take_signals(s);
        if (outputs_are_over(s->out) && isinf(s->kill_at_s))
            release(s, DEFAULT_GRACE_S);
    }
}

/* The CPU time of all descendants, however they ended: each was reaped by its
 * parent or by us. */
static void used(const struct shepherd *s, struct attempt_exit *ret)
{
    struct rusage u;
    cpu_set_t set;
    if (getrusage(RUSAGE_CHILDREN, &u) < 0 ||
        sched_getaffinity(0, sizeof(set), &set) < 0)
        return;
    ret->cpu_ms = (int64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
                  (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
    ret->cores_ms =
        (int64_t)(CPU_COUNT(&set) * (now_s() - s->began_s) * 1000) + 1;
}

static int finish(struct shepherd *s, struct error *err)
{
    outputs_drain(s->out); /* a rank's last output before the launcher's */
    launcher_drain(&s->first, s->out);
    bool is_over = outputs_are_over(s->out);
    outputs_destroy(s->out);
    s->out = NULL;
    (void)shm_dir_sweep(SHM_DIR_BASE); /* files of killed ranks */
    struct attempt_exit x = {.when_s = clock_real.wall_s(&clock_real)};
    launcher_exit(s->status, &x);
    /* mpirun exits with 1 when it was ended by a signal. */
    if (s->is_mpirun_hit && x.code != 0)
        x = (struct attempt_exit){.signal = SIGTERM, .when_s = x.when_s};
    if (is_over)
        x = (struct attempt_exit){.code = ALLOC_EXIT_LOG, .when_s = x.when_s};
    used(s, &x);
    return attempt_exit_write(s->dir, &x, err);
}

static int run(struct shepherd *s, struct error *err)
{
    if (set_up(s, err) < 0)
        return -1;
    if (!may_go())
        return error_set(err, ERR_BUSY,
                         "the daemon died before it let the attempt start");
    if (start(s, err) < 0)
        return -1;
    watch(s);
    return finish(s, err);
}

int main(int argc, char **argv)
{
    struct shepherd s = {.signal_fd = -1,
                         .first = {.out_fd = -1, .tty_fd = -1},
                         .kill_at_s = INFINITY};
    struct error err = ERROR_INIT;
    if (argc != 4) {
        (void)fputs("usage: mgpu-shepherd DIR MPIRUN WORKER (the daemon starts "
                    "it)\n",
                    stderr);
        return error_exit_status(ERR_USAGE);
    }
    s.dir = argv[1];
    s.program = argv[2];
    s.worker = argv[3];
    int rc = run(&s, &err);
    if (rc < 0)
        (void)fprintf(stderr, "mgpu-shepherd: %s\n", err.msg);
    outputs_destroy(s.out);
    wire_launch_clear(&s.launch);
    /* The kernel releases the lock with the process; the descriptors need no
     * closing. */
    return rc < 0 ? error_exit_status(err.code) : 0;
}
