/* wait.c - see wait.h.
 *
 * The daemon pushes each change of the job as one line; nothing is polled.
 * When the stream breaks before the job's end, the daemon was restarted: it
 * is looked for again, and its first line is the job as it is now.
 * Ctrl-C ends the waiting, never the job.
 */
#include "scheduler/tools/wait.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/state.h"

/* A daemon that is upgraded is back in seconds, a machine in minutes. */
static const double AWAY_S = 900;

struct follow {
    const struct wait_conf *conf;
    uint64_t id;
    char name[40]; /* "12", or "12_3" of a sweep */
    bool final;
    int exit_code;
    char state[24]; /* as last shown */
    int64_t tenth, epoch_shown;
    bool line_open; /* a moving line stands on the terminal */
    char reason[200];
};

static char detached[160]; /* composed before the signal can come */

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
    double loss = field_real(job, "loss"), t = field_real(job, "t_iter_s");
    double acc = field_real(job, "eval_accuracy");
    double eta = field_real(job, "eta_s");
    char word[32];
    struct buf b = BUF_INIT;
    int bad = 0;

    if (epoch > 0)
        bad |= buf_addf(&b, NULL, "  epoch %" PRId64 "/%" PRId64, epoch,
                        field_int(job, "epochs_total", epoch));
    if (it > 0)
        bad |= buf_addf(&b, NULL, "  iteration %" PRId64, it);
    if (it > 0 && total > 0)
        bad |= buf_addf(&b, NULL, "/%" PRId64, total);
    if (isfinite(loss))
        bad |= buf_addf(&b, NULL, "  loss %.4f", loss);
    if (t > 0)
        bad |= buf_addf(&b, NULL, "  %.1f it/s", 1 / t);
    if (isfinite(acc))
        bad |= buf_addf(&b, NULL, "  test accuracy %.2f %%", 100 * acc);
    if (isfinite(eta))
        bad |= buf_addf(&b, NULL, "  left %s",
                        render_duration(eta, word, sizeof(word)));
    (void)snprintf(out, cap, "%s", bad ? "" : buf_str(&b));
    buf_clear(&b);
}

static void show_line(struct follow *f, const char *state, const char *text)
{
    FILE *out = f->conf->out;
    if (f->conf->style.columns) {
        (void)fprintf(out, "\r\033[Kjob %s %s%.*s", f->name, state,
                      f->conf->style.columns > 40 ? f->conf->style.columns - 30
                                                  : 10,
                      text);
        f->line_open = true;
    } else
        (void)fprintf(out, "job %s %s%s\n", f->name, state, text);
    (void)fflush(out);
}

static void end_line(struct follow *f)
{
    if (f->line_open)
        (void)fputc('\n', f->conf->out);
    f->line_open = false;
}

/* On a terminal each change is worth showing, in a file only the steps. */
static bool worth_a_line(struct follow *f, const json_t *job, const char *state)
{
    int64_t it = field_int(job, "iteration", 0);
    int64_t total = field_int(job, "iterations_total", 0);
    int64_t tenth = total > 0 ? 10 * it / total : 0;
    bool changed = strcmp(state, f->state) != 0;
    bool step = tenth > f->tenth;

    if (step)
        f->tenth = tenth;
    return changed || step || f->conf->style.columns;
}

static void show(struct follow *f, const json_t *job)
{
    const char *state = field_str(job, "state");
    char text[400], safe[400];

    if (f->conf->quiet || !worth_a_line(f, job, state))
        return;
    if (strcmp(state, f->state) != 0)
        end_line(f);
    (void)snprintf(f->state, sizeof(f->state), "%s", state);
    (void)snprintf(f->name, sizeof(f->name), "%s",
                   field_str(job, "display_id"));
    wait_progress_text(job, text, sizeof(text));
    const char *reason = field_str(job, "reason");
    size_t len = strlen(text);
    bool waits =
        strcmp(state, "QUEUED") == 0 || strcmp(state, "DISPATCHING") == 0;
    if (*reason && (f->final || waits))
        (void)snprintf(text + len, sizeof(text) - len, "  (%s)",
                       render_escape(reason, safe, sizeof(safe) / 2));
    show_line(f, state, text);
    if (f->final)
        end_line(f);
}

static int on_line(void *arg, const char *text, size_t len, struct error *err)
{
    struct follow *f = arg;
    json_error_t why;
    json_t *o = json_loadb(text, len, 0, &why);
    if (!o)
        return error_set(err, ERR_EXTERN, "watch: not JSON: %s", why.text);
    const json_t *job = json_object_get(o, "job");
    enum job_state state;
    int rc = 0;
    if (job && job_state_from_name(field_str(job, "state"), &state) == 0) {
        bool is_vain = strcmp(field_str(job, "held_by"), "dependency") == 0;
        f->final = job_state_is_final(state) || is_vain;
        f->exit_code = (int)field_int(job, "exit_code", 125);
        show(f, job);
        /* The daemon ends the stream of a job that has ended, no other. */
        if (is_vain)
            rc = error_set(err, ERR_STATE, "held");
    }
    json_decref(o);
    return rc;
}

static int follow(struct client *c, struct follow *f, double deadline,
                  struct error *err)
{
    const struct clock *clk = &clock_real;
    const struct timespec pause = {.tv_nsec = 200000000};
    double away_since = NAN;
    char path[64];

    (void)snprintf(path, sizeof(path), "/v1/watch?job=%" PRIu64, f->id);
    while (!f->final) {
        double left = deadline - clk->now_s(clk);
        if (left <= 0)
            return error_set(err, ERR_TIMEOUT,
                             "job %" PRIu64 " has not ended within %g s; it "
                             "goes on",
                             f->id, f->conf->timeout_s);
        struct error why = ERROR_INIT;
        int rc =
            client_stream(c, path, isfinite(left) ? left : 0, on_line, f, &why);
        if (f->final || (rc < 0 && why.code == ERR_TIMEOUT))
            continue;
        if (rc < 0 && why.code != ERR_UNAVAIL && why.code != ERR_IO &&
            why.code != ERR_BUSY) {
            if (err)
                *err = why;
            return -1;
        }
        double now = clk->now_s(clk);
        if (rc == 0)
            away_since = NAN; /* it answered, then closed: a restart */
        else if (!isfinite(away_since))
            away_since = now;
        if (now - away_since > AWAY_S)
            return error_set(err, ERR_UNAVAIL,
                             "the daemon has been away for %.0f s; job "
                             "%" PRIu64 " may go on: %s",
                             now - away_since, f->id, why.msg);
        (void)nanosleep(&pause, NULL);
    }
    return 0;
}

int wait_for_jobs(struct client *c, const uint64_t *ids, size_t n,
                  const struct wait_conf *conf, int *ret_exit,
                  struct error *err)
{
    const struct clock *clk = &clock_real;
    double deadline =
        conf->timeout_s > 0 ? clk->now_s(clk) + conf->timeout_s : INFINITY;
    int worst = 0;

    for (size_t i = 0; i < n; i++) {
        struct follow f = {.conf = conf, .id = ids[i]};
        (void)snprintf(detached, sizeof(detached),
                       "\n%s: detached; job %" PRIu64 " goes on. "
                       "mgpu-cancel %" PRIu64 " ends it.\n",
                       conf->tool, ids[i], ids[i]);
        struct sigaction sa = {.sa_handler = on_interrupt}, old;
        (void)sigaction(SIGINT, &sa, &old);
        int rc = follow(c, &f, deadline, err);
        (void)sigaction(SIGINT, &old, NULL);
        end_line(&f);
        if (rc < 0)
            return -1;
        worst = f.exit_code > worst ? f.exit_code : worst;
    }
    *ret_exit = worst;
    return 0;
}
