/* main.c - mgpu-worker(8): one rank of a job.
 *
 *   start MPI unless alone, read the job, claim it, run it, flush, post the
 *   final report
 *
 * If all ranks end alike, rank 0 reports after all have flushed. If one rank
 * fails, it reports for itself and ends the whole job, because the others may
 * wait for it in a collective: within five seconds nothing is left.
 */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "jobs/base/log.h"
#include "jobs/base/signals.h"
#include "jobs/log/rank_pipe.h"
#include "jobs/spec/secrets_file.h"
#include "worker/args.h"
#include "worker/process/command.h"
#include "worker/process/cpu_usage.h"
#include "worker/process/rank_cores.h"
#include "worker/process/rendezvous.h"
#include "worker/run_config.h"
#include "worker/train/trainer.h"

/* A daemon that restarts comes back in seconds; one that is being repaired
 * may take minutes, and an allocation is worth waiting for. */
static const double claim_patience_s = 600;
static const double flush_s = 2, last_word_s = 2;
static const double agree_s = 120;  /* ranks that still start */
static const double stopping_s = 5; /* beyond the grace of the others */
/* Limits of a rank that fails: the job must be gone five seconds later. */
static const double failing_flush_s = 0.5, failing_word_s = 1;

enum {
    EXIT_LOSS = 1, /* the job's own failure: the loss is not a number */
    EXIT_NOT_NOW = 75,
    EXIT_FENCED = 76,
    EXIT_NO_SECRET = 78, /* held by the daemon for it */
    EXIT_SIGNAL = 128 + SIGTERM,
};

/* Open MPI unloads its modules when it ends, and their leaks then have no
 * name to be suppressed by: an ASan build looks for ours before that. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
const char *__asan_default_options(void);
const char *__lsan_default_suppressions(void);
const char *__asan_default_options(void)
{
    /* The thread-local blocks of modules that were loaded late it takes to have
     * the header of an older C library, and dies of what it reads there. */
    return "leak_check_at_exit=0:fast_unwind_on_malloc=0:"
           "protect_shadow_gap=0:intercept_tls_get_addr=0";
}
const char *__lsan_default_suppressions(void)
{
    return "leak:libopen-pal\nleak:libopen-rte\nleak:libmpi\nleak:libpmix\n"
           "leak:mca_\nleak:libhwloc\nleak:libevent\n";
}
#define leaks_now() (__lsan_do_recoverable_leak_check() != 0)
#else
#define leaks_now() false
#endif

/* ---- a run -----------------------------------------------------------------
 */

static volatile sig_atomic_t stop_signal; /* asked to end */
static volatile sig_atomic_t save_asked;  /* for a checkpoint, and go on */
static volatile sig_atomic_t child_group; /* kind command; 0: none */
static volatile sig_atomic_t child_heard; /* stop_signal, too */
static pid_t step_pid;                    /* of slurmstepd; 0: none */

/* Slurm signals all processes of a step. To pass that on would be to say it
 * twice, and many a program takes the second SIGTERM for "at once". */
static bool is_for_all(const siginfo_t *si)
{
    return child_group > 0 && step_pid > 0 && si->si_pid == step_pid;
}

static void on_stop(int signo, siginfo_t *si, void *context)
{
    (void)context;
    if (stop_signal == 0)
        child_heard = is_for_all(si);
    stop_signal = signo;
}

/* A program knows what its signals mean; training knows one. */
static void on_user(int signo, siginfo_t *si, void *context)
{
    (void)context;
    if (child_group == 0)
        save_asked |= signo == SIGUSR1;
    else if (!is_for_all(si))
        (void)kill(-(pid_t)child_group, signo);
}

/* The parent, if Slurm started this process itself; else 0. */
static pid_t find_step(void)
{
    const char *task = getenv("SLURM_TASK_PID");
    bool is_task = task != NULL && strtol(task, NULL, 10) == (long)getpid();
    return is_task ? getppid() : 0;
}

static void catch_signals(void)
{
    static const int user[] = {SIGUSR1, SIGUSR2, SIGHUP};
    struct sigaction act = {.sa_sigaction = on_stop, .sa_flags = SA_SIGINFO};
    (void)sigemptyset(&act.sa_mask);
    step_pid = find_step();
    (void)sigaction(SIGTERM, &act, NULL);
    (void)sigaction(SIGINT, &act, NULL);
    (void)sigaction(SIGXCPU, &act, NULL); /* mpirun can pass it on */
    act.sa_sigaction = on_user;
    for (size_t i = 0; i < sizeof(user) / sizeof(user[0]); i++)
        (void)sigaction(user[i], &act, NULL);
    act = (struct sigaction){.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &act, NULL);
    signals_let_users_in(); /* held by who started us */
}

/* Tells the program that started the launcher that a rank ran: a launcher that
 * cannot start ranks differs from ranks that fail. Comes before MPI_Init, which
 * may fail. */
static void say_that_we_ran(void)
{
    const char *path = getenv("MGPU_RAN");
    if (path == NULL || path[0] != '/')
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        (void)close(fd);
}

struct run {
    struct comm *comm;
    struct worker_job job;
    bool has_job;
    struct spec_map secrets;
    struct report_conf conf;
    struct reporter *reporter;
    struct used used;     /* by this rank */
    struct gpu_used gpus; /* likewise */
    struct used_since since;
    struct train_refusal refusal; /* of its plan, for memory */
    bool has_begun;               /* since and cores are set */
    double cores;                 /* that are this rank's */
    bool is_fenced;   /* this rank knows; its exit code is no verdict */
    bool was_stopped; /* this rank was told to stop before its work ended */
    int exit_code;
    char why[240];
};

/* The usage of other ranks cannot be asked for any more; a single rank knows
 * all. */
static struct report_extra known_alone(const struct run *r)
{
    struct report_extra extra = {.stopped = -1,
                                 .needed_bytes = r->refusal.needed_bytes,
                                 .available_bytes = r->refusal.available_bytes,
                                 .refused_by_host = r->refusal.is_host};
    if (r->comm->size == 1 && r->has_begun) {
        struct used u = cpu_usage_end(&r->since, r->cores);
        extra.cpu_ms = u.cpu_ms;
        extra.cores_ms = u.cores_ms;
        extra.gpu_busy_ms = r->gpus.busy_ms;
        extra.gpus_ms = r->gpus.gpus_ms;
    }
    if (r->reporter != NULL)
        reporter_saves_failed(r->reporter, &extra.failures);
    return extra;
}

/* This rank cannot go on, and so the job cannot.
 * in  fault_node  NULL: no device has failed */
static void __attribute__((noreturn))
fail_at(struct run *r, int exit_code, const char *why, const char *fault_node)
{
    if (r->is_fenced)
        exit_code = EXIT_FENCED;
    char who[20]; /* a reason may say so itself */
    int n = snprintf(who, sizeof(who), "rank %d:", r->comm->rank);
    if (strncmp(why, who, (size_t)n) == 0)
        log_err("worker", "%s", why);
    else
        log_err("worker", "rank %d of %d: %s", r->comm->rank, r->comm->size,
                why);
    if (r->reporter != NULL && !r->is_fenced) {
        /* The launcher of an MPI program has noticed, too, and kills us; the
         * daemon reads the rows that are left. */
        if (r->job.launch.spec.launch != LAUNCH_MPI)
            (void)reporter_flush(r->reporter, failing_flush_s);
        struct error err = ERROR_INIT;
        const struct report_extra extra = known_alone(r);
        if (report_final(&r->conf, exit_code, why, fault_node, &extra,
                         failing_word_s, &err) < 0)
            log_warn("worker",
                     "cannot post the final report rank=%d why=\"%s\"",
                     r->comm->rank, err.msg);
    }
    (void)fflush(NULL);
    r->comm->ops->abort(r->comm, exit_code);
}

static void __attribute__((noreturn))
fail(struct run *r, int exit_code, const char *why)
{
    fail_at(r, exit_code, why, NULL);
}

/* No fault of the job: the daemon tries it again, and not here. */
static void __attribute__((noreturn))
fail_device(struct run *r, const struct error *err)
{
    char node[HOST_NAME_MAX + 1] = "", why[sizeof(err->msg)];
    rendezvous_node(node);
    (void)snprintf(why, sizeof(why), "GPU of rank %d on %.64s: %.140s",
                   r->comm->rank, node, err->msg);
    fail_at(r, error_exit_status(err->code), why, node);
}

/* Each rank reads the secrets as the user on its own node. If one rank lacks a
 * secret, no rank begins; nothing is claimed yet, so the job can start once
 * they are mended. */
static bool take_secrets(struct run *r)
{
    struct error why = ERROR_INIT, err = ERROR_INIT;
    const struct spec_list *names = &r->job.launch.spec.secrets;
    if (names->n == 0)
        return true;
    int64_t is_bad = secrets_read(names, NULL, &r->secrets, &why) < 0;
    if (is_bad)
        log_err("worker", "cannot start the job rank=%d why=\"%s\"",
                r->comm->rank, why.msg);
    if (comm_all_reduce_now(r->comm, &is_bad, 1, COMM_I64, COMM_MAX, agree_s,
                            &err) < 0)
        fail(r, error_exit_status(err.code), err.msg);
    r->exit_code = is_bad ? EXIT_NO_SECRET : 0;
    return !is_bad;
}

/* All ranks know how rank 0's claim went. Returns false when refused. */
static bool claim(struct run *r)
{
    struct error why = ERROR_INIT, err = ERROR_INIT;
    int64_t code = ERR_NONE;
    if (r->conf.url[0] == '\0')
        return true;
    if (r->comm->rank == 0 &&
        report_claim(&r->conf, claim_patience_s, &stop_signal, &why) < 0)
        code = why.code;
    if (comm_broadcast_now(r->comm, &code, sizeof(code), 0,
                           claim_patience_s + 60, &err) < 0)
        fail(r, error_exit_status(err.code), err.msg);
    if (code == ERR_NONE)
        return true;
    if (r->comm->rank == 0)
        log_err("worker", "cannot start the job why=\"%s\"", why.msg);
    r->exit_code =
        report_may_pass((enum err_code)code) ? EXIT_NOT_NOW : EXIT_FENCED;
    return false;
}

/* EXIT_NOT_NOW is for a job that has not begun: data that is too large now will
 * be too large next time. */
static int status_of_training(enum err_code code)
{
    return code == ERR_STATE   ? EXIT_LOSS
           : code == ERR_LIMIT ? error_exit_status(ERR_INVAL)
                               : error_exit_status(code);
}

static void run_training(struct run *r)
{
    struct train_env env = {.spec = &r->job.launch.spec,
                            .ckpt_dir = r->job.ckpt_dir,
                            .out_dir = r->job.out_dir,
                            .parent = r->job.launch.parent,
                            .comm = r->comm,
                            .reporter = r->reporter,
                            .clock = &clock_real,
                            .gpus_per_node = r->job.launch.gpus_per_node,
                            .stop = &stop_signal,
                            .save = &save_asked,
                            .refusal = &r->refusal};
    struct train_result t;
    struct error err = ERROR_INIT;
    if (model_kind_find(env.spec, &env.kind, &err) < 0 ||
        trainer_run(&env, &t, &err) < 0) {
        if (err.code == ERR_DEVICE)
            fail_device(r, &err);
        fail(r, status_of_training(err.code), err.msg);
    }
    r->is_fenced = t.end == TRAIN_FENCED;
    r->was_stopped = t.end != TRAIN_DONE;
    r->exit_code = t.end == TRAIN_DONE      ? 0
                   : t.end == TRAIN_STOPPED ? EXIT_SIGNAL
                                            : EXIT_FENCED;
    memcpy(r->why, t.why, sizeof(r->why));
}

static void run_command(struct run *r)
{
    struct command_env env = {.job = &r->job,
                              .secrets = &r->secrets,
                              .comm = r->comm,
                              .reporter = r->reporter,
                              .stop = &stop_signal,
                              .has_heard = &child_heard,
                              .is_slurm = getenv("SLURM_JOB_ID") != NULL,
                              .group = &child_group};
    struct command_result c;
    struct error err = ERROR_INIT;
    if (command_run(&env, &c, &err) < 0)
        fail(r,
             err.code == ERR_NOTFOUND  ? 127
             : err.code == ERR_UNAVAIL ? error_exit_status(err.code)
                                       : 126,
             err.msg);
    r->gpus = c.gpus;
    /* Others may still run and need the time to stop; but a child that
     * fails by itself is the end of the job. */
    if (c.exit_code != 0 && !c.was_stopped && !c.was_fenced)
        fail(r, c.exit_code, c.why);
    r->is_fenced = c.was_fenced;
    r->was_stopped = c.was_stopped;
    r->exit_code = c.was_fenced ? EXIT_FENCED : c.exit_code;
    memcpy(r->why, c.why, sizeof(r->why));
}

/* How long to wait for the other ranks. A program may run as long as the job;
 * but once one ended because it was told to stop, the others were told too, or
 * never will be. Ranks that train have agreed to stop, and rank 0 may be
 * writing a checkpoint. */
static double patience_s(const struct run *r)
{
    if (r->job.launch.spec.kind != SPEC_COMMAND)
        return INFINITY;
    if (r->exit_code == EXIT_FENCED)
        return stopping_s;
    if (r->exit_code != 0 || stop_signal != 0)
        return r->job.launch.spec.checkpoint.grace_s + stopping_s;
    return INFINITY;
}

static void settle(struct run *r)
{
    struct error err = ERROR_INIT;
    int64_t worst = r->exit_code;
    if (comm_all_reduce_now(r->comm, &worst, 1, COMM_I64, COMM_MAX,
                            patience_s(r), &err) < 0)
        fail(r, r->exit_code != 0 ? r->exit_code : error_exit_status(err.code),
             r->why[0] != '\0' ? r->why : err.msg);
    if (r->why[0] == '\0' && worst != 0)
        (void)snprintf(r->why, sizeof(r->why), "another rank ended with %d",
                       (int)worst);
    r->exit_code = (int)worst;
}

static void say_drops(const struct run *r)
{
    struct report_stats s;
    reporter_stats(r->reporter, &s);
    if (s.dropped > 0)
        log_warn("worker",
                 "metric rows were dropped, the spool was full rank=%d "
                 "rows=%lld kept=%lld",
                 r->comm->rank, (long long)s.dropped, (long long)s.rows);
}

static void last_word(struct run *r)
{
    struct error err = ERROR_INIT;
    (void)reporter_flush(r->reporter, flush_s);
    say_drops(r);
    /* Rank 0 speaks after the rows of all are in. */
    int64_t sums[] = {r->used.cpu_ms, r->used.cores_ms, r->is_fenced,
                      r->was_stopped, r->gpus.busy_ms,  r->gpus.gpus_ms};
    if (comm_all_reduce_now(r->comm, sums, 6, COMM_I64, COMM_SUM, 60, &err) < 0)
        fail(r, error_exit_status(err.code), err.msg);
    if (sums[2] > 0) {
        r->exit_code = EXIT_FENCED; /* the daemon knows why, and ranks that
                                       their peers ended do not */
        return;
    }
    struct report_extra extra = {.cpu_ms = sums[0],
                                 .cores_ms = sums[1],
                                 .stopped = sums[3] > 0,
                                 .gpu_busy_ms = sums[4],
                                 .gpus_ms = sums[5]};
    reporter_saves_failed(r->reporter, &extra.failures);
    if (r->comm->rank == 0 && report_final(&r->conf, r->exit_code, r->why, NULL,
                                           &extra, last_word_s, &err) < 0)
        log_warn("worker", "cannot post the final report why=\"%s\"", err.msg);
}

static void run_job(struct run *r, const struct args *a)
{
    struct error err = ERROR_INIT;
    int rc = a->launch != NULL
                 ? job_from_launch(a->launch, r->comm, &r->job, &err)
                 : job_from_spec(a->standalone, a->dir, r->comm, &r->job, &err);
    if (rc < 0)
        fail(r, error_exit_status(err.code), err.msg);
    r->has_job = true;
    if (a->device >= 0)
        r->job.launch.spec.train.device = (enum spec_device)a->device;
    r->conf = job_report_conf(&r->job, r->comm->rank);
    trainer_prepare(&r->job.launch.spec, r->job.launch.gpus_per_node);
    if (!take_secrets(r) || !claim(r))
        return;
    if (reporter_create(&r->conf, &r->reporter, &err) < 0 ||
        job_make_dirs(&r->job, &err) < 0 ||
        (r->comm->rank == 0 && job_own_dirs(&r->job, &err) < 0))
        fail(r, error_exit_status(err.code), err.msg);
    bool is_command = r->job.launch.spec.kind == SPEC_COMMAND;
    r->cores = rank_cores_share(r->comm);
    (void)rank_cores_bind(r->comm->local_rank, r->comm->local_size);
    r->since = cpu_usage_begin(is_command);
    r->has_begun = true;
    if (is_command)
        run_command(r);
    else
        run_training(r);
    r->used = cpu_usage_end(&r->since, r->cores);
    settle(r);
    last_word(r);
}

/* Beside launch.json, in the attempt's directory. */
static int join_by_files(const struct args *a, struct run *r, struct error *err)
{
    char dir[PATH_MAX];
    const char *slash = a->launch ? strrchr(a->launch, '/') : NULL;
    const char *at = a->launch ? a->launch : a->dir;
    int len = slash ? (int)(slash - a->launch) : (int)strlen(at);
    int n = snprintf(dir, sizeof(dir), "%.*s", a->launch && !slash ? 1 : len,
                     a->launch && !slash ? "." : at);
    if (n < 0 || (size_t)n >= sizeof(dir))
        return error_set(err, ERR_LIMIT, "'%.60s...' is too long", at);
    comm_mpi_lend();
    return comm_files_create(dir, &r->comm, err);
}

static int join_ranks(const struct args *a, struct run *r, struct error *err)
{
    if (a->program_mpi)
        return join_by_files(a, r, err);
    if (a->is_alone)
        return comm_alone_create(NULL, &r->comm, err);
    return comm_mpi_start(err) < 0 ? -1 : comm_mpi_create(NULL, &r->comm, err);
}

int main(int argc, char **argv)
{
    struct args a;
    struct run r = {.exit_code = 0};
    struct error err = ERROR_INIT;
    int status = args_parse(argc, argv, &a);
    if (status >= 0)
        return status;
    if (a.launch != NULL)
        rank_pipe_join(a.launch);
    catch_signals();
    say_that_we_ran();
    if (join_ranks(&a, &r, &err) < 0) {
        log_err("worker", "%s", err.msg);
        return error_exit_status(err.code);
    }
    run_job(&r, &a);
    reporter_destroy(r.reporter);
    secrets_clear(&r.secrets);
    if (r.has_job)
        job_clear(&r.job);
    r.comm->ops->destroy(r.comm);
    if (leaks_now())
        r.exit_code = error_exit_status(ERR_INTERNAL);
    /* If a rank exits with 0 without MPI_Finalize, the launcher reports a
     * failure. The daemon has the final report, and ignores the code of a
     * signal. */
    bool is_known = a.launch != NULL && r.exit_code == 0;
    if (a.program_mpi)
        comm_mpi_take_back();
    else if (!a.is_alone)
        comm_mpi_end(is_known ? 128 + SIGSEGV : r.exit_code);
    return r.exit_code;
}
