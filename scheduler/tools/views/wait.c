/* wait.c - wait for jobs, and print their progress; see wait.h.
 *
 * The daemon sends each change of a job as one line; there is no polling. One
 * stream serves all jobs: for one job its own stream, for several that of the
 * ids from the first to the last, where the tool skips the ids that were not
 * asked for. If the stream breaks before the end, the daemon was restarted: the
 * tool reconnects, and the first lines are the jobs as they are now. Ctrl-C
 * ends the waiting, never the job.
 */
#include "scheduler/tools/views/wait.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/state.h"
#include "jobs/text/text.h"
#include "scheduler/tools/common/job_query.h"

/* A daemon is back in seconds after an upgrade, a machine in minutes. */
static const double AWAY_S = 900;

struct waited {
    uint64_t id;
    char name[40];  /* "12", or "12_3" of a sweep */
    char state[24]; /* as printed last */
    int64_t tenth;
    bool is_over;          /* reached one of the states, or ended */
    bool was_stopped;      /* ended with its sweep, before it ran */
    enum job_state missed; /* final state that was not asked for; JOB_NEW:
                              none */
    int exit_code;
};

struct follow {
    const struct wait_conf *conf;
    struct waited *jobs; /* by id */
    size_t n, n_over;
    bool line_open; /* a progress line is open on the terminal */
};

static char detached[160]; /* composed in advance, for the signal handler */

static void on_interrupt(int signo)
{
    (void)signo;
    ssize_t ignored = write(STDERR_FILENO, detached, strlen(detached));
    (void)ignored;
    _exit(130);
}

void wait_progress_text(const json_t *job, char *out, size_t cap)
{
    int64_t it = field_int(job, "iteration", 0);
    int64_t total = field_int(job, "iterations_total", 0);
    int64_t epoch = field_int(job, "epoch", 0);
    int64_t epochs = field_int(job, "epochs_total", 0);
    double loss = field_real(job, "loss"), t = field_real(job, "t_iter_s");
    double acc = field_real(job, "eval_accuracy");
    double eta = field_real(job, "eta_s");
    double tokenised = field_real(job, "tokenised");
    char word[32];
    struct buf b = BUF_INIT;
    int bad = 0;

    if (epoch > 0)
        bad |= buf_addf(&b, NULL, "  epoch %" PRId64, epoch);
    if (epoch > 0 && epochs > 0)
        bad |= buf_addf(&b, NULL, "/%" PRId64, epochs);
    if (it > 0)
        bad |= buf_addf(&b, NULL, "  iteration %" PRId64, it);
    else if (tokenised > 0)
        bad |= buf_addf(&b, NULL, "  tokenising %.0f %%", 100 * tokenised);
    if (it > 0 && total > 0)
        bad |= buf_addf(&b, NULL, "/%" PRId64, total);
    if (isfinite(loss))
        bad |= buf_addf(&b, NULL, "  loss %.4f", loss);
    if (t > 0)
        bad |= buf_addf(&b, NULL, "  %.1f it/s", 1 / t);
    if (isfinite(eta))
        bad |= buf_addf(&b, NULL, "  left %s",
                        render_duration(eta, word, sizeof(word)));
    if (isfinite(acc))
        bad |= buf_addf(&b, NULL, "  test accuracy %s",
                        render_accuracy(acc, word, sizeof(word)));
    (void)snprintf(out, cap, "%s", bad ? "" : buf_str(&b));
    buf_clear(&b);
}

static void end_line(struct follow *f)
{
    if (f->line_open)
        (void)fputc('\n', f->conf->out);
    f->line_open = false;
}

/* Whether to update one line in place; with several jobs, each change has its
 * own line. */
static bool moves(const struct follow *f)
{
    return f->conf->style.columns > 0 && f->n == 1;
}

/* A line that is updated must fit: words at its end are dropped whole, except
 * those of a reason, where any part is useful. A permanent line may take two
 * lines. */
static int fitting(const struct follow *f, const struct waited *j,
                   const char *text)
{
    size_t n = strlen(text), columns = (size_t)f->conf->style.columns,
           head = strlen("job  ") + strlen(j->name) + strlen(j->state);
    if (j->is_over || head + n < columns)
        return (int)n;
    size_t room = head + 1 < columns ? columns - 1 - head : 0;
    for (n = room; n > 0 && strncmp(text + n, "  ", 2) != 0;)
        n--;
    return (int)(n == 0 || strstr(text, "  (") ? room : n);
}

static void show_line(struct follow *f, const struct waited *j,
                      const char *text)
{
    FILE *out = f->conf->out;
    if (moves(f)) {
        (void)fprintf(out, "\r\033[Kjob %s %s%.*s", j->name, j->state,
                      fitting(f, j, text), text);
        f->line_open = true;
    } else if (f->n > 1 && j->is_over)
        (void)fprintf(out, "job %s %s%s  [%zu of %zu]\n", j->name, j->state,
                      text, f->n_over, f->n);
    else
        (void)fprintf(out, "job %s %s%s\n", j->name, j->state, text);
    (void)fflush(out);
}

/* On a terminal print each change, in a file only the main steps. */
static bool worth_a_line(const struct follow *f, struct waited *j,
                         const json_t *job, const char *state)
{
    int64_t it = field_int(job, "iteration", 0);
    int64_t total = field_int(job, "iterations_total", 0);
    int64_t tenth = total > 0 ? 10 * it / total : 0;
    bool changed = strcmp(state, j->state) != 0;
    bool step = tenth > j->tenth;

    if (step)
        j->tenth = tenth;
    return changed || step || moves(f);
}

static void show(struct follow *f, struct waited *j, const json_t *job)
{
    const char *state = field_str(job, "state");
    char text[400], safe[400];

    if (f->conf->quiet || !worth_a_line(f, j, job, state))
        return;
    if (strcmp(state, j->state) != 0)
        end_line(f);
    (void)snprintf(j->state, sizeof(j->state), "%s", state);
    (void)snprintf(j->name, sizeof(j->name), "%s",
                   field_str(job, "display_id"));
    wait_progress_text(job, text, sizeof(text));
    const char *reason = field_str(job, "reason");
    size_t len = strlen(text);
    bool waits =
        strcmp(state, "QUEUED") == 0 || strcmp(state, "DISPATCHING") == 0;
    if (*reason && (j->is_over || waits))
        (void)snprintf(text + len, sizeof(text) - len, "  (%s)",
                       render_escape(reason, safe, sizeof(safe) / 2));
    show_line(f, j, text);
    if (j->is_over)
        end_line(f);
}

/* ---- when it is over ------------------------------------------------------
 */

int wait_states(const char *text, uint32_t *ret, struct error *err)
{
    if (text)
        return job_query_states("wait", text, ret, err);
    *ret = 0;
    return 0;
}

/* Position of a state on the way from the queue through a run; 0: not on it. */
static int way_of(enum job_state s)
{
    switch (s) {
    case JOB_QUEUED:
        return 1;
    case JOB_DISPATCHING:
    case JOB_UNKNOWN:
        return 2;
    case JOB_STARTING:
        return 3;
    case JOB_RUNNING:
        return 4;
    case JOB_STALLED:
    case JOB_CHECKPOINTING:
    case JOB_COMPLETED:
        return 5;
    default:
        return 0;
    }
}

static bool has_reached(uint32_t states, enum job_state s)
{
    static const enum job_state passed[] = {JOB_QUEUED, JOB_DISPATCHING,
                                            JOB_STARTING, JOB_RUNNING};
    if (states >> s & 1u)
        return true;
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
        if ((states >> passed[i] & 1u) && way_of(s) >= way_of(passed[i]))
            return true;
    return false;
}

static void judge(struct follow *f, struct waited *j, const json_t *job,
                  enum job_state state)
{
    /* Only a release ends that hold. */
    const char *held = field_str(job, "held_by");
    bool is_vain = strcmp(held, "dependency") == 0 ||
                   strcmp(held, "corrupt") == 0 || strcmp(held, "refused") == 0;
    int code = (int)field_int(job, "exit_code", 125);
    if (has_reached(f->conf->states, state)) {
        j->is_over = true;
        j->exit_code = 0;
    } else if (job_state_is_final(state) || is_vain) {
        j->is_over = true;
        j->missed = state;
        (void)snprintf(j->name, sizeof(j->name), "%s",
                       field_str(job, "display_id"));
        j->exit_code = f->conf->states && code == 0 ? 125 : code;
        /* A job that its user cancelled has another exit code. */
        j->was_stopped = state == JOB_CANCELLED && code == 125;
    }
    f->n_over += j->is_over;
}

static int by_id(const void *a, const void *b)
{
    const struct waited *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static int on_line(void *arg, const char *text, size_t len, struct error *err)
{
    struct follow *f = arg;
    json_error_t why;
    json_t *o = json_loadb(text, len, 0, &why);
    if (!o)
        return error_set(err, ERR_EXTERN, "watch: not JSON: %s", why.text);
    const json_t *job = json_object_get(o, "job");
    const struct waited key = {.id = (uint64_t)field_int(job, "id", 0)};
    struct waited *j = bsearch(&key, f->jobs, f->n, sizeof(key), by_id);
    enum job_state state;
    if (j && !j->is_over &&
        job_state_from_name(field_str(job, "state"), &state) == 0) {
        judge(f, j, job, state);
        show(f, j, job);
    }
    json_decref(o);
    /* The daemon ends the stream of a single job, but not that of several. */
    return f->n_over == f->n ? error_set(err, ERR_STATE, "over") : 0;
}

/* ---- the stream -----------------------------------------------------------
 */

static int fail_late(const struct follow *f, struct error *err)
{
    size_t i = 0;
    while (i < f->n - 1 && f->jobs[i].is_over)
        i++;
    if (f->n > 1)
        return error_set(err, ERR_TIMEOUT,
                         "%zu of %zu jobs are not so far within %g s, job "
                         "%" PRIu64 " the first; they go on",
                         f->n - f->n_over, f->n, f->conf->timeout_s,
                         f->jobs[i].id);
    return error_set(
        err, ERR_TIMEOUT, "job %" PRIu64 " %s within %g s; it goes on",
        f->jobs[0].id, f->conf->states ? "is not so far" : "has not ended",
        f->conf->timeout_s);
}

static int follow(struct client *c, struct follow *f, double deadline,
                  struct error *err)
{
    const struct clock *clk = &clock_real;
    const struct timespec pause = {.tv_nsec = 200000000};
    double away_since = NAN;
    char path[100];

    if (f->n == 1)
        (void)snprintf(path, sizeof(path), "/v1/watch?job=%" PRIu64,
                       f->jobs[0].id);
    else
        (void)snprintf(path, sizeof(path),
                       "/v1/watch?id_min=%" PRIu64 "&id_max=%" PRIu64,
                       f->jobs[0].id, f->jobs[f->n - 1].id);
    while (f->n_over < f->n) {
        double left = deadline - clk->now_s(clk);
        if (left <= 0)
            return fail_late(f, err);
        struct error why = ERROR_INIT;
        int rc =
            client_stream(c, path, isfinite(left) ? left : 0, on_line, f, &why);
        if (f->n_over == f->n || (rc < 0 && why.code == ERR_TIMEOUT))
            continue;
        if (rc < 0 && why.code != ERR_UNAVAIL && why.code != ERR_IO &&
            why.code != ERR_BUSY) {
            if (err)
                *err = why;
            return -1;
        }
        double now = clk->now_s(clk);
        if (rc == 0)
            away_since = NAN; /* it answered and then closed: a restart */
        else if (!isfinite(away_since))
            away_since = now;
        if (now - away_since > AWAY_S)
            return error_set(err, ERR_UNAVAIL,
                             "the daemon has been away for %.0f s; the jobs "
                             "may go on: %s",
                             now - away_since, why.msg);
        (void)nanosleep(&pause, NULL);
    }
    return 0;
}

static void compose_detached(const struct follow *f)
{
    if (f->n == 1)
        (void)snprintf(detached, sizeof(detached),
                       "\n%s: detached; job %" PRIu64 " goes on. "
                       "mgpu-cancel %" PRIu64 " ends it.\n",
                       f->conf->tool, f->jobs[0].id, f->jobs[0].id);
    else
        (void)snprintf(detached, sizeof(detached),
                       "\n%s: detached; %zu jobs go on.\n", f->conf->tool,
                       f->n);
}

/* Prints which jobs ended without reaching the awaited state: the exit code
 * alone does not show it. */
static void tell_missed(const struct follow *f)
{
    const struct waited *first = NULL;
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++) {
        if (f->jobs[i].missed == JOB_NEW)
            continue;
        first = first ? first : &f->jobs[i];
        n++;
    }
    if (n == 0 || f->conf->states == 0)
        return;
    (void)fprintf(stderr, "%s: waited for", f->conf->tool);
    const char *before = " ";
    for (int s = 0; s < 32; s++)
        if (f->conf->states >> s & 1u) {
            (void)fprintf(stderr, "%s%s", before,
                          job_state_name((enum job_state)s));
            before = " or ";
        }
    if (f->n == 1)
        (void)fprintf(stderr, ", and job %s is %s\n", first->name,
                      job_state_name(first->missed));
    else
        (void)fprintf(stderr,
                      ", and %zu of %zu jobs are not, job %s, which is %s, "
                      "the first\n",
                      n, f->n, first->name, job_state_name(first->missed));
}

/* Skip tasks that ended with their sweep: the failed task has the cause. */
static int worst_code(const struct follow *f)
{
    int worst = 0, stopped = 0;
    for (size_t i = 0; i < f->n; i++) {
        const struct waited *j = &f->jobs[i];
        int *most = j->was_stopped ? &stopped : &worst;
        *most = j->exit_code > *most ? j->exit_code : *most;
    }
    return worst > 0 ? worst : stopped;
}

int wait_for_jobs(struct client *c, const uint64_t *ids, size_t n,
                  const struct wait_conf *conf, int *ret_exit,
                  struct error *err)
{
    const struct clock *clk = &clock_real;
    double deadline =
        conf->timeout_s > 0 ? clk->now_s(clk) + conf->timeout_s : INFINITY;
    struct sigaction sa = {.sa_handler = on_interrupt}, old;
    struct follow f = {.conf = conf, .jobs = calloc(n + 1, sizeof(*f.jobs))};

    if (!f.jobs)
        return error_set(err, ERR_NOMEM, "%zu jobs", n);
    for (size_t i = 0; i < n; i++)
        f.jobs[i].id = ids[i];
    qsort(f.jobs, n, sizeof(*f.jobs), by_id);
    for (size_t i = 0; i < n; i++) /* a job may be named twice */
        if (f.n == 0 || f.jobs[i].id != f.jobs[f.n - 1].id)
            f.jobs[f.n++] = f.jobs[i];
    compose_detached(&f);
    (void)sigaction(SIGINT, &sa, &old);
    int rc = f.n > 0 ? follow(c, &f, deadline, err) : 0;
    (void)sigaction(SIGINT, &old, NULL);
    end_line(&f);
    if (rc == 0) {
        tell_missed(&f);
        *ret_exit = worst_code(&f);
    }
    free(f.jobs);
    return rc;
}
