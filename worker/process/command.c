/* command.c - see command.h.
 *
 * A pidfd says when the child has ended, so nothing polls for it; the loop
 * wakes up five times a second for the metrics, and at once for a signal,
 * which interrupts ppoll(). */
#include "worker/process/command.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/base/log.h"
#include "jobs/base/signals.h"
#include "worker/process/env_list.h"
#include "worker/process/gpu_select.h"
#include "worker/process/launch_env.h"
#include "worker/process/metrics_tail.h"
#include "worker/process/orphans.h"

static const long look_each_ns = 200000000;
static const double rest_s = 1;
/* The driver's own period is a sixth of a second to a second. */
static const int use_each_ms = 1000;
/* Between two signals of slurmstepd, on a busy node. */
static const double word_s = 0.5;
/* Something may hang in a driver. */
static const double strays_s = 2;
static const struct timespec moment = {.tv_nsec = 300000000};

struct child {
    pid_t pid;
    int pidfd;
    double killed_at_s; /* when SIGKILL is due; INFINITY: never */
    struct strays strays;
};

/* ---- its environment ------------------------------------------------------
 */

/* Gives the program the GPU of this rank, out of those that the node's ranks
 * share; or all, if the program learns which one is its own, or has all. */
static int env_gpu(struct env_list *e, const struct command_env *env,
                   struct error *err)
{
    char own[128];
    const struct wire_launch *l = &env->job->launch;
    if (l->gpus_per_node < 1 || launch_meets(l->spec.launch))
        return 0;
    if (gpu_own(getenv("CUDA_VISIBLE_DEVICES"), env->comm->local_rank, own,
                sizeof(own), err) < 0)
        return -1;
    return env_add(e, "CUDA_VISIBLE_DEVICES", own, err);
}

/* Samples the GPUs that are this rank's, whatever the program sees. */
static struct gpu_use *use_begin(const struct command_env *env)
{
    const struct wire_launch *l = &env->job->launch;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char own[128];
    struct gpu_use *u = NULL;
    struct error err = ERROR_INIT;

    if (l->gpus_per_node < 1 || visible == NULL)
        return NULL;
    if (l->spec.launch != LAUNCH_NODE) {
        if (gpu_own(visible, env->comm->local_rank, own, sizeof(own), &err) < 0)
            return NULL;
        visible = own;
    }
    if (gpu_use_begin(NULL, visible, use_each_ms, &u, &err) < 0)
        log_warn("worker", "cannot sample the use of GPUs why=\"%s\"", err.msg);
    return u;
}

static void use_end(struct gpu_use *u, struct command_result *r)
{
    struct error why;

    r->gpus = gpu_use_end(u, &why);
    if (why.code != ERR_NONE)
        log_warn("worker", "cannot sample the use of GPUs why=\"%s\"", why.msg);
}

/* Says which task of a sweep or of an array this is. */
static int env_task(struct env_list *e, const struct wire_launch *l,
                    struct error *err)
{
    if (l->sweep == 0)
        return 0;
    return env_number(e, "MGPU_SWEEP_ID", (int64_t)l->sweep, err) < 0 ||
                   env_number(e, "MGPU_TASK_ID", l->task, err) < 0 ||
                   env_number(e, "MGPU_TASK_COUNT", l->n_tasks, err) < 0
               ? -1
               : 0;
}

/* Adds the variables with priority first. */
static int env_fill(struct env_list *e, const struct command_env *env,
                    const char *metrics, const struct rendezvous *meet,
                    struct error *err)
{
    static const char *const passed[] = {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES", /* unless env_gpu() has set it */
        "MGPU_ATTEMPT_DIR",     /* by which the allocator finds strays */
    };
    const struct comm *c = env->comm;
    const struct wire_launch *l = &env->job->launch;
    const struct job_spec *s = &l->spec;
    if (env_number(e, "MGPU_RANK", c->rank, err) < 0 ||
        env_number(e, "MGPU_LOCAL_RANK", c->local_rank, err) < 0 ||
        env_number(e, "MGPU_WORLD_SIZE", c->size, err) < 0 ||
        env_number(e, "MGPU_JOB_ID", (int64_t)l->job, err) < 0 ||
        env_number(e, "MGPU_ATTEMPT", l->attempt, err) < 0 ||
        env_task(e, l, err) < 0 ||
        launch_env(s->launch, c, l->gpus_per_node, meet, e, err) < 0 ||
        env_add(e, "MGPU_OUTPUT_DIR", env->job->out_dir, err) < 0 ||
        env_add(e, "MGPU_METRICS", metrics, err) < 0)
        return -1;
    for (size_t i = 0; i < env->secrets->n; i++)
        if (env_add(e, env->secrets->pairs[i].key, env->secrets->pairs[i].value,
                    err) < 0)
            return -1;
    for (size_t i = 0; i < s->env.n; i++)
        if (env_add(e, s->env.pairs[i].key, s->env.pairs[i].value, err) < 0)
            return -1;
    if (env_gpu(e, env, err) < 0)
        return -1;
    for (size_t i = 0; i < s->env_passthrough.n; i++)
        if (env_pass(e, s->env_passthrough.items[i], err) < 0)
            return -1;
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
        if (env_pass(e, passed[i], err) < 0)
            return -1;
    return launch_env_below(s->launch, c, l->gpus_per_node, meet, e, err);
}

/* ---- the child ------------------------------------------------------------
 */

/* Why the child failed before it became the program. */
struct failure {
    int code; /* errno */
    bool is_dir;
};

/* In the child, after fork: only async-signal-safe calls. An exec that
 * succeeds closes the pipe; what fails before is sent through it. */
static void __attribute__((noreturn))
become(char *const *argv, char **envp, const char *dir, pid_t parent,
       int fail_fd)
{
    struct failure f = {.is_dir = true};
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(126);
    signals_plain();
    int null_fd = open("/dev/null", O_RDONLY);
    if (null_fd >= 0)
        (void)dup2(null_fd, STDIN_FILENO);
    /* MPI keeps its sockets open across exec: a program that outlives this
     * process would hold the launcher's connection to it open. */
    (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    environ = envp; /* whose PATH is searched */
    if (chdir(dir) == 0) {
        f.is_dir = false;
        (void)execvp(argv[0], argv);
    }
    f.code = errno;
    ssize_t n = write(fail_fd, &f, sizeof(f));
    _exit(n == (ssize_t)sizeof(f) && f.code == ENOENT ? 127 : 126);
}

static int child_start(struct child *c, char *const *argv, char **envp,
                       const char *dir, struct error *err)
{
    int ends[2];
    struct failure f = {.code = 0};
    pid_t self = getpid();
    orphans_adopt(&c->strays);
    if (argv[0] == NULL)
        return error_set(err, ERR_INVAL, "command: nothing to run");
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_sys(err, errno, "make a pipe");
    (void)fflush(NULL); /* or what waits in stdout is written twice */
    c->pid = fork();
    if (c->pid == 0)
        become(argv, envp, dir, self, ends[1]);
    int fork_errno = errno;
    (void)close(ends[1]);
    if (c->pid < 0) {
        (void)close(ends[0]);
        return error_sys(err, fork_errno, "start a process");
    }
    (void)setpgid(c->pid, c->pid); /* parent and child: the first counts */
    ssize_t n;
    do
        n = read(ends[0], &f, sizeof(f));
    while (n < 0 && errno == EINTR);
    (void)close(ends[0]);
    if (n == (ssize_t)sizeof(f)) {
        (void)waitpid(c->pid, NULL, 0);
        return error_sys(err, f.code, "cannot %s '%s'",
                         f.is_dir ? "start in" : "run",
                         f.is_dir ? dir : argv[0]);
    }
    c->killed_at_s = INFINITY;
    c->pidfd = pidfd_open(c->pid, 0);
    if (c->pidfd < 0) {
        int why = errno;
        (void)kill(-c->pid, SIGKILL);
        (void)waitpid(c->pid, NULL, 0);
        return error_sys(err, why, "watch '%s'", argv[0]);
    }
    return 0;
}

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

/* has_heard: the sender of our signal has signalled the program as well. */
static void child_stop(struct child *c, double grace_s, bool has_heard)
{
    if (c->killed_at_s < INFINITY)
        return;
    if (!has_heard)
        (void)kill(-c->pid, SIGTERM);
    c->killed_at_s = now_s() + grace_s;
}

/* Slurm signals the processes of a step one after the other, the program
 * perhaps before us. If the program exits with 0 at once, and a signal tells us
 * to stop a moment later, it has not finished. */
static void hear_the_same(const struct command_env *env, int status)
{
    const struct timespec slice = {.tv_nsec = 20000000};
    double until_s = now_s() + word_s;
    while (env->is_slurm && status == 0 && *env->stop == 0 && now_s() < until_s)
        (void)nanosleep(&slice, NULL);
}

/* Waits until the child has ended; *ret_status is waitpid's. */
static void child_wait(struct child *c, const struct command_env *env,
                       struct tail *tail, int *ret_status,
                       struct command_result *r)
{
    double grace_s = env->job->launch.spec.checkpoint.grace_s;
    const struct timespec look = {.tv_nsec = look_each_ns}, at_once = {0};
    bool is_behind = false;
    struct error why = ERROR_INIT;
    *env->group = c->pid;
    for (;;) {
        struct pollfd p = {.fd = c->pidfd, .events = POLLIN};
        if (ppoll(&p, 1, is_behind ? &at_once : &look, NULL) > 0)
            break;
        is_behind = tail_read(tail, env->reporter);
        orphans_reap(c->pid);
        if (*env->stop != 0) {
            r->was_stopped = true;
            child_stop(c, grace_s, *env->has_heard != 0);
        }
        if (!r->was_fenced && reporter_is_fenced(env->reporter, &why)) {
            r->was_fenced = true;
            (void)snprintf(r->why, sizeof(r->why),
                           "the daemon refused this attempt: %.150s", why.msg);
            child_stop(c, grace_s, false);
        }
        if (now_s() >= c->killed_at_s)
            (void)kill(-c->pid, SIGKILL);
    }
    /* The child is not reaped yet, so no other group has its number. */
    *env->group = 0;
    (void)kill(-c->pid, SIGKILL);
    while (waitpid(c->pid, ret_status, 0) < 0 && errno == EINTR)
        continue;
    hear_the_same(env, *ret_status);
    /* The signal may have reached both, and ended the program first. But the
     * launcher of an MPI program sends it because the program has failed. */
    if (env->job->launch.spec.launch != LAUNCH_MPI || *ret_status == 0)
        r->was_stopped = r->was_stopped || *env->stop != 0;
    (void)close(c->pidfd);
    orphans_kill(&c->strays, strays_s);
    /* A sender that kills one rank of a job kills the others at the same
     * moment: if this rank survives, its program alone was killed. */
    if (WIFSIGNALED(*ret_status) && WTERMSIG(*ret_status) == SIGKILL &&
        c->killed_at_s == INFINITY)
        (void)nanosleep(&moment, NULL);
}

/* Reads what is there now and no more: a process that cannot be killed may
 * write for ever. After a request to stop it reads for a second at most. */
static void take_rest(const struct command_env *env, struct tail *tail)
{
    int64_t end = tail_size(tail);
    double until_s = INFINITY;
    while (tail->at < end && now_s() < until_s) {
        if (!tail_read(tail, env->reporter))
            break;
        if (until_s == INFINITY &&
            (*env->stop != 0 || reporter_is_fenced(env->reporter, NULL)))
            until_s = now_s() + rest_s;
    }
    if (tail->at < end) {
        buf_reset(&tail->rest); /* half a line, cut by us */
        log_warn("worker",
                 "the end of $MGPU_METRICS was not read rank=%d bytes=%lld",
                 env->comm->rank, (long long)(end - tail->at));
    }
    tail_end(tail, env->reporter);
}

/* A program whose port is taken often fails with an unclear message. It has
 * ended: if a program listens there, it is another. */
static void explain_port(const struct command_env *env,
                         const struct rendezvous *meet,
                         struct command_result *r)
{
    size_t len = strlen(r->why);
    if (len > 0 && env->comm->rank == 0 && meet->port > 0 && !r->was_stopped &&
        rendezvous_in_use(meet->port))
        (void)snprintf(r->why + len, sizeof(r->why) - len,
                       "; another program listens on MASTER_PORT %d",
                       meet->port);
}

static void explain(const struct command_env *env, int status,
                    struct command_result *r)
{
    const char *name = env->job->launch.spec.command.items[0];
    if (WIFSIGNALED(status)) {
        r->exit_code = 128 + WTERMSIG(status);
        if (!r->was_fenced)
            (void)snprintf(r->why, sizeof(r->why),
                           "rank %d: '%.150s' ended by signal %d (%s)",
                           env->comm->rank, name, WTERMSIG(status),
                           strsignal(WTERMSIG(status)));
        return;
    }
    r->exit_code = WEXITSTATUS(status);
    if (r->exit_code != 0 && !r->was_fenced)
        (void)snprintf(r->why, sizeof(r->why),
                       "rank %d: '%.150s' exited with %d", env->comm->rank,
                       name, r->exit_code);
}

int command_run(const struct command_env *env, struct command_result *ret,
                struct error *err)
{
    const struct wire_launch *l = &env->job->launch;
    struct command_result r = {.exit_code = 0};
    struct env_list e = {.array = NULL};
    struct child c = {.pid = -1, .pidfd = -1};
    struct tail tail = {.fd = -1, .mark_fd = -1};
    struct rendezvous meet = {.port = 0};
    int status = 0, rc = -1;
    if (launch_check(l->spec.launch, env->comm, err) < 0 ||
        (launch_meets(l->spec.launch) &&
         rendezvous_agree(env->comm, &meet, err) < 0))
        return -1;
    char **argv = calloc(l->spec.command.n + 1, sizeof(*argv));
    if (argv == NULL)
        return error_set(err, ERR_NOMEM, "command");
    for (size_t i = 0; i < l->spec.command.n; i++)
        argv[i] = l->spec.command.items[i];
    if (tail_open(&tail, l->dir, env->comm->rank, err) == 0 &&
        env_fill(&e, env, buf_str(&tail.path), &meet, err) == 0 &&
        env_finish(&e, err) == 0 &&
        child_start(&c, argv, e.array,
                    l->spec.workdir ? l->spec.workdir : l->dir, err) == 0) {
        env_clear(&e); /* it has its own */
        struct gpu_use *use = use_begin(env);
        child_wait(&c, env, &tail, &status, &r);
        use_end(use, &r);
        take_rest(env, &tail);
        explain(env, status, &r);
        explain_port(env, &meet, &r);
        r.bad_lines = tail.bad;
        *ret = r;
        rc = 0;
    }
    tail_close(&tail);
    env_clear(&e);
    free(argv);
    return rc;
}
