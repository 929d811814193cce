/* batch.c - mgpu-batch, the batch step of an attempt under Slurm.
 *
 *   mgpu-batch DIR
 *
 * Slurm runs it as the job's user on the first node; the batch script is a
 * constant text that execs it. DIR, the attempt's directory, has its input:
 * batch.json (batch_conf.h) and launch.json. It runs srun or mpirun, copies the
 * launcher's output into the bounded log, and at the end writes `exit`
 * (attempt_dir.h). Its own exit status is the launcher's, for sacct. Errors
 * before the log exists go to standard error, Slurm's slurm-<id>.out.
 *
 * One directory, one run. Slurm may start an attempt twice: a submission that
 * timed out was accepted after all, or slurmctld forgot that the script runs.
 * The step that holds `lock` runs the attempt; another exits with 76 and
 * changes nothing, and so does a step that finds `exit`. If the first step died
 * without an `exit`, the second takes over, and the daemon decides by its
 * ranks' claim. Its files name the job and the submission (attempt_dir.h).
 *
 * Signals. Under srun mgpu-batch forwards no signal: Slurm signals the steps
 * itself, and srun ends its step when it receives SIGTERM. scancel and Slurm's
 * time limit send SIGTERM to everything and SIGKILL after KillWait, so
 * mgpu-batch survives a SIGTERM and logs what the ranks print after theirs.
 * Under mpirun the ranks of this node are not a step of Slurm's: mgpu-batch
 * forwards SIGTERM, SIGUSR1 and SIGUSR2 to the batch step (scancel --batch) to
 * all ranks. When Slurm ends the job, mgpu-batch writes the cause to `told`
 * (end_cause.h): Slurm forgets jobs, and the daemon may need the cause later.
 * BATCH_CANCEL_SIGNAL says that the user has cancelled the job: at the end
 * mgpu-batch has Slurm cancel it, for sacct.
 *
 * If mgpu-batch is killed, Slurm ends the job, and there is no `exit`: the
 * attempt is lost. If the launcher is killed, slurmstepd kills the ranks. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/base/signals.h"
#include "jobs/log/shm_dir.h"
#include "slurm/alloc.h"
#include "slurm/batch/batch_argv.h"
#include "slurm/batch/cancel_own.h"
#include "slurm/batch/end_cause.h"
#include "slurm/launch/attempt_dir.h"
#include "slurm/launch/launcher.h"
#include "slurm/launch/mpirun_version.h"
#include "slurm/launch/proc.h"
#include "slurm/launch/rank_output.h"

/* A slurmctld that restarts, or fails over after SlurmctldTimeout of 120 s,
 * cannot create a step meanwhile: srun gives up after some seconds. Twice the
 * latter, and a minute for other delays. */
static const double RETRY_FOR_S = 300;
static const double PAUSE_FIRST_S = 1, PAUSE_MAX_S = 15;
/* Under mpirun, the interval between two looks for orphans of the ranks. */
static const double ORPHAN_TICK_S = 0.5;
/* From SIGTERM for too much output to SIGKILL. */
static const double FLOOD_GRACE_S = 10;
/* Delay between Slurm's messages to two steps of a job, on busy nodes. */
static const double WORD_S = 0.5;

enum { EXIT_SRUN_FAILED = 1, ID_CAP = 64 };

struct batch {
    const char *dir;
    const char *submission; /* its mark; "": of an earlier release */
    char ran[PATH_MAX];     /* exists once a rank was started */
    struct batch_conf conf;
    struct wire_launch launch;
    struct outputs *out;
    int signal_fd;
    struct launcher launcher;
    enum mpirun_kind kind; /* of mpirun */
    bool has_ended;        /* the launcher has */
    bool is_told;          /* SIGTERM was received */
    bool has_said;         /* `told` is written */
    bool is_cancelled;     /* by a user: BATCH_CANCEL_SIGNAL was received */
    double kill_at_s;      /* it printed too much; INFINITY: it did not */
    int status;            /* the launcher's */
};

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

/* Writes one line to the log, where the user looks; without a log to Slurm's
 * file. */
static void say(const struct batch *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void say(const struct batch *b, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (!b->out) {
        (void)fprintf(stderr, "mgpu-batch: %s\n", text);
        return;
    }
    char line[440];
    int n = snprintf(line, sizeof(line), "mgpu-batch: %s\n", text);
    outputs_add(b->out, line, (size_t)n);
}

/* ---- set-up ---------------------------------------------------------------
 */

static int watch_signals(struct batch *b, struct error *err)
{
    static const int watched[] = {
        SIGCHLD, SIGTERM, SIGINT,  SIGHUP,
        SIGQUIT, SIGUSR1, SIGUSR2, BATCH_CANCEL_SIGNAL};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t set;
    signals_plain(); /* an ignored SIGCHLD would lose the exit code */
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
        (void)sigaddset(&set, watched[i]);
    (void)sigprocmask(SIG_SETMASK, &set, NULL);
    b->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return b->signal_fd < 0 ? error_sys(err, errno, "wait for signals") : 0;
}

/* Renames the log of an earlier run of this attempt. */
static void keep_old_log(const struct batch *b)
{
    char from[PATH_MAX];
    char to[PATH_MAX];
    int n = snprintf(from, sizeof(from), "%s/log", b->dir);
    int m = snprintf(to, sizeof(to), "%s/before.log", b->dir);
    if (n > 0 && n < PATH_MAX && m > 0 && m < PATH_MAX)
        (void)rename(from, to);
}

static uint32_t own_slurm_id(void)
{
    const char *id = getenv("SLURM_JOB_ID");
    return id ? (uint32_t)strtoul(id, NULL, 10) : 0;
}

static const char *own_submission(void)
{
    const char *mark = getenv(ATTEMPT_SUBMISSION);
    return mark && attempt_is_submission(mark) ? mark : "";
}

/* err  ERR_FENCED another step runs the attempt, or it is over */
static int take(const struct batch *b, struct error *err)
{
    struct error why = ERROR_INIT;
    int lock_fd = -1; /* held until the process ends */
    if (attempt_lock(b->dir, &lock_fd, &why) < 0) {
        if (why.code == ERR_BUSY)
            return error_set(err, ERR_FENCED,
                             "another process runs this attempt");
        /* A file system without locks; the claim still decides. */
        say(b, "not locked: %s", why.msg);
    }
    int has = attempt_has(b->dir, "exit", err);
    if (has > 0)
        return error_set(err, ERR_FENCED, "this attempt has ended");
    if (has < 0)
        return -1;
    if (attempt_has(b->dir, "started", NULL) > 0)
        keep_old_log(b);
    return attempt_started_write(b->dir, own_slurm_id(), b->submission, err);
}

static int read_conf(struct batch *b, struct error *err)
{
    char text[BATCH_CONF_MAX_BYTES + 1];
    if (attempt_read(b->dir, "batch.json", text, sizeof(text), err) < 0)
        return -1;
    if (batch_conf_parse(text, strlen(text), &b->conf, err) < 0)
        return -1;
    return attempt_launch_read(b->dir, &b->launch, err);
}

/* Ranks 0, 1, .. are on this node, the first one: both launchers fill it
 * before the next. */
static int create_outputs(struct batch *b, struct error *err)
{
    const struct wire_launch *l = &b->launch;
    int32_t here = wire_launch_ranks(l);
    if (l->nodes > INT32_MAX / here)
        return error_set(err, ERR_INVAL, "launch: %d nodes with %d ranks each",
                         l->nodes, here);
    const struct outputs_conf conf = {
        .dir = b->dir,
        .logs = l->spec.logs,
        .ranks = l->nodes * here,
        .here = here,
        .has_labels = batch_has_labels(&b->conf, l),
    };
    return outputs_create(&conf, &b->out, err);
}

static int prepare(struct batch *b, struct error *err)
{
    int n = snprintf(b->ran, sizeof(b->ran), "%s/ran", b->dir);
    if (n < 0 || n >= PATH_MAX)
        return error_set(err, ERR_INVAL, "'%s' is too long", b->dir);
    /* Slurm uses /tmp if it cannot enter the requested directory. */
    if (chdir(b->dir) < 0)
        return error_sys(err, errno, "change to '%s'", b->dir);
    (void)unlink("told"); /* of an earlier run */
    if (attempt_exit_reserve(b->dir, err) < 0 || read_conf(b, err) < 0 ||
        create_outputs(b, err) < 0 ||
        batch_env(&b->conf, &b->launch, b->ran, err) < 0)
        return -1;
    (void)unlink(b->ran);
    if (b->conf.launcher == BATCH_MPIRUN &&
        prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return error_sys(err, errno, "become the subreaper");
    return 0;
}

/* ---- run the launcher -----------------------------------------------------
 */

static void reap(struct batch *b)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0 ||
           (pid < 0 && errno == EINTR))
        if (pid > 0 && pid == b->launcher.pid) {
            b->has_ended = true;
            b->status = status;
        }
}

/* slurmstepd, our parent, ends the job. Write at once: SIGKILL follows, perhaps
 * before the ranks have ended. */
static void note_told(struct batch *b, const struct signalfd_siginfo *si)
{
    struct error err = ERROR_INIT;
    char id[ID_CAP];
    bool is_parent = (pid_t)si->ssi_pid == getppid() || si->ssi_pid == 0;
    if (b->has_said || si->ssi_signo != SIGTERM || si->ssi_code != SI_USER ||
        !is_parent || own_slurm_id() == 0)
        return;
    b->has_said = true;
    (void)snprintf(id, sizeof(id), "%" PRIu32, own_slurm_id());
    if (attempt_told_write(b->dir, end_cause_read(b->dir, id), own_slurm_id(),
                           b->submission, &err) < 0)
        say(b, "%s", err.msg);
}

static void take_signals(struct batch *b)
{
    struct signalfd_siginfo si;
    while (read(b->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
        int signo = (int)si.ssi_signo;
        note_told(b, &si);
        b->is_cancelled |= signo == BATCH_CANCEL_SIGNAL;
        bool is_end = signo == SIGTERM || signo == SIGINT;
        bool is_first = is_end && !b->is_told;
        b->is_told |= is_end;
        if (b->conf.launcher != BATCH_MPIRUN || b->has_ended ||
            b->launcher.pid <= 0)
            continue;
        if (is_first)
            (void)kill(b->launcher.pid, BATCH_STOP_SIGNAL);
        else if (signo == SIGUSR1 || signo == SIGUSR2)
            (void)kill(b->launcher.pid, signo);
    }
}

/* mpirun waits until no process holds its ranks' output open, so a process that
 * the ranks left behind would keep the allocation. One of mpirun's children is
 * the srun that started its daemons on other nodes. Slurm has to find orphans
 * on those. */
static void kill_orphans(const struct batch *b)
{
    int others = b->launch.nodes > 1 ? 1 : 0;
    if (proc_n_own_children() > 1 &&
        proc_signal_children(b->launcher.pid, 0, 0) <= others)
        (void)proc_signal_children(getpid(), b->launcher.pid, SIGKILL);
}

/* Ends it like a SIGTERM: srun ends its step, mpirun its ranks. Processes that
 * do not end go with the launcher. */
static void end_flood(struct batch *b)
{
    bool is_mpirun = b->conf.launcher == BATCH_MPIRUN;
    if (!outputs_are_over(b->out))
        return;
    if (isinf(b->kill_at_s)) {
        b->kill_at_s = now_s() + FLOOD_GRACE_S;
        b->is_told = true;
        (void)kill(b->launcher.pid, is_mpirun ? BATCH_STOP_SIGNAL : SIGTERM);
    } else if (now_s() >= b->kill_at_s) {
        (void)kill(b->launcher.pid, SIGKILL);
    }
}

static void watch(struct batch *b)
{
    bool is_mpirun = b->conf.launcher == BATCH_MPIRUN;
    for (;;) {
        reap(b);
        if (b->has_ended)
            return;
        end_flood(b);
        bool has_tick = is_mpirun || isfinite(b->kill_at_s);
        int tick_ms = has_tick ? (int)(ORPHAN_TICK_S * 1e3) : -1;
        int rest_ms = outputs_rest(b->out);
        bool is_tick = rest_ms < 0 || (tick_ms >= 0 && tick_ms < rest_ms);
        struct pollfd fds[] = {{.fd = b->signal_fd, .events = POLLIN},
                               {.fd = b->launcher.out_fd, .events = POLLIN},
                               {.fd = outputs_fd(b->out), .events = POLLIN}};
        int n = poll(fds, 3, is_tick ? tick_ms : rest_ms);
        if (n == 0 && is_tick && is_mpirun)
            kill_orphans(b);
        if (n <= 0)
            continue;
        if (fds[1].revents)
            launcher_copy(&b->launcher, b->out);
        if (fds[2].revents)
            outputs_copy(b->out);
        if (fds[0].revents)
            take_signals(b);
    }
}

static int run_once(struct batch *b, struct error *err)
{
    char **argv = batch_argv(&b->conf, &b->launch, b->kind, b->dir, err);
    if (!argv)
        return -1;
    b->has_ended = false;
    int rc =
        launcher_start("mgpu-batch", argv, LAUNCHES_RANKS, &b->launcher, err);
    free(argv);
    if (rc < 0)
        return -1;
    watch(b);
    outputs_drain(b->out);
    launcher_drain(&b->launcher, b->out);
    return 0;
}

/* srun exits with 1 when it gets no step, and also when a rank does. */
static bool has_run(const struct batch *b)
{
    return b->conf.launcher != BATCH_SRUN || !WIFEXITED(b->status) ||
           WEXITSTATUS(b->status) != EXIT_SRUN_FAILED ||
           access(b->ran, F_OK) == 0;
}

static void pause_for(struct batch *b, double s)
{
    double until_s = now_s() + s;
    while (!b->is_told && now_s() < until_s) {
        struct pollfd p = {.fd = b->signal_fd, .events = POLLIN};
        if (poll(&p, 1, (int)((until_s - now_s()) * 1e3) + 1) > 0)
            take_signals(b);
    }
}

/* Ask mpirun for its version. If it cannot start ranks, the attempt ends as if
 * it were missing, and the log says why.
 * Returns 1: ranks can be started, 0: they cannot. */
static int know_mpirun(struct batch *b, struct error *err)
{
    struct error why = ERROR_INIT;
    if (b->conf.launcher != BATCH_MPIRUN ||
        mpirun_version_ask(b->conf.program, &b->kind, &why) == 0)
        return 1;
    if (why.code != ERR_CONFIG)
        return error_set(err, why.code, "%s", why.msg);
    say(b, "%s", why.msg);
    b->status = ALLOC_EXIT_NO_LAUNCHER << 8; /* as wait(2) has it */
    return 0;
}

static int run(struct batch *b, struct error *err)
{
    double since_s = now_s();
    double pause_s = PAUSE_FIRST_S;
    int can = know_mpirun(b, err);
    if (can <= 0)
        return can;
    for (;;) {
        if (run_once(b, err) < 0)
            return -1;
        if (has_run(b) || b->is_told || now_s() - since_s > RETRY_FOR_S)
            return 0;
        say(b, "no rank was started; retrying in %.0f s", pause_s);
        pause_for(b, pause_s);
        if (b->is_told)
            return 0;
        pause_s = fmin(2 * pause_s, PAUSE_MAX_S);
    }
}

/* ---- finish ---------------------------------------------------------------
 */

/* Slurm informs each step of the job by itself, and ours not always first:
 * ranks that died of a signal may have received it from Slurm. */
static void wait_for_word(struct batch *b, const struct attempt_exit *x)
{
    double until_s = now_s() + WORD_S;
    bool is_mpirun = b->conf.launcher == BATCH_MPIRUN && x->code == 1;
    if (x->signal != SIGTERM && x->signal != SIGKILL && !is_mpirun)
        return;
    while (!b->has_said && !b->is_cancelled && now_s() < until_s) {
        struct pollfd p = {.fd = b->signal_fd, .events = POLLIN};
        if (poll(&p, 1, (int)((until_s - now_s()) * 1e3) + 1) > 0)
            take_signals(b);
    }
}

/* The end is written; what Slurm then does to this step changes nothing. */
static void cancel_job(const struct batch *b)
{
    const char *id = getenv("SLURM_JOB_ID");
    bool is_srun = b->conf.launcher == BATCH_SRUN;
    struct error err = ERROR_INIT;
    if (!b->is_cancelled || b->has_said || !id)
        return;
    if (cancel_own(is_srun ? b->conf.program : NULL, id, &err) < 0)
        (void)fprintf(stderr, "mgpu-batch: %s\n", err.msg);
}

/* Records how it ended, for `exit` and for Slurm; overwrites the reserved
 * space. */
static int finish(struct batch *b, int rc, const struct error *why)
{
    struct attempt_exit x = {.when_s = clock_real.wall_s(&clock_real)};
    struct error err = ERROR_INIT;
    if (rc < 0) {
        const struct outputs_conf one = {.dir = b->dir, .ranks = 1};
        if (!b->out && outputs_create(&one, &b->out, NULL) < 0)
            b->out = NULL; /* messages go to standard error from now on */
        say(b, "%s", why->msg);
        x.code = error_exit_status(why->code);
    } else {
        (void)shm_dir_sweep(SHM_DIR_BASE); /* files of killed ranks */
        launcher_exit(b->status, &x);
        wait_for_word(b, &x);
    }
    bool is_over = rc == 0 && outputs_are_over(b->out);
    /* mpirun exits with 1 when it was ended by a signal. */
    if (b->conf.launcher == BATCH_MPIRUN && b->is_told && x.code == 1)
        x = (struct attempt_exit){.signal = SIGTERM, .when_s = x.when_s};
    if (is_over)
        x = (struct attempt_exit){.code = ALLOC_EXIT_LOG, .when_s = x.when_s};
    x.slurm_id = own_slurm_id();
    (void)snprintf(x.submission, sizeof(x.submission), "%s", b->submission);
    if (attempt_exit_write(b->dir, &x, &err) < 0)
        (void)fprintf(stderr, "mgpu-batch: %s\n", err.msg);
    cancel_job(b);
    return x.signal ? 128 + x.signal : x.code;
}

int main(int argc, char **argv)
{
    struct batch b = {.signal_fd = -1,
                      .launcher = {.out_fd = -1, .tty_fd = -1},
                      .kill_at_s = INFINITY};
    struct error err = ERROR_INIT;
    if (argc != 2 || argv[1][0] != '/') {
        (void)fputs("usage: mgpu-batch DIR (Slurm runs it for mgpu-ctld)\n",
                    stderr);
        return error_exit_status(ERR_USAGE);
    }
    b.dir = argv[1];
    b.submission = own_submission();
    if (watch_signals(&b, &err) < 0 || take(&b, &err) < 0) {
        say(&b, "%s: %s", b.dir, err.msg);
        return error_exit_status(err.code);
    }
    int rc = prepare(&b, &err);
    if (rc == 0)
        rc = run(&b, &err);
    int status = finish(&b, rc, &err);
    outputs_destroy(b.out);
    wire_launch_clear(&b.launch);
    /* The kernel releases the lock with the process. */
    return status;
}
