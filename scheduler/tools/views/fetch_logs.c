/* fetch_logs.c - print the log of a job, and follow it while it grows.
 *
 * A restart of the daemon ends the stream of a log that is followed. The client
 * then reconnects, and skips the lines that it has already printed.
 */
#include "scheduler/tools/views/fetch.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "jobs/base/clock.h"
#include "jobs/state.h"
#include "scheduler/tools/common/job_query.h"

/* As in wait.c: a machine is back in minutes. */
static const double AWAY_S = 900;

static int on_log(void *arg, const char *text, size_t len, struct error *err)
{
    (void)arg;
    if (fwrite(text, 1, len, stdout) != len || fputc('\n', stdout) == EOF ||
        fflush(stdout) != 0)
        return error_set(err, ERR_IO, "write to standard output: %s",
                         strerror(errno));
    return 0;
}

/* Writes a log unchanged to a file; to a terminal without the characters that
 * could move the cursor. */
static int on_log_tty(void *arg, const char *text, size_t len,
                      struct error *err)
{
    char line[4096], safe[4 * sizeof(line)];
    (void)snprintf(line, sizeof(line), "%.*s", (int)len, text);
    for (char *p = line; (p = strchr(p, '\t')) != NULL;)
        *p = ' ';
    render_escape(line, safe, sizeof(safe));
    return on_log(arg, safe, strlen(safe), err);
}

/* ---- the last lines of a log -----------------------------------------------
 *
 * The log is read twice: to count its lines, and to show those at its end. It
 * is bounded (logs.max_bytes), and so nothing of it need be kept. */

static int count_line(void *arg, const char *text, size_t len,
                      struct error *err)
{
    unsigned long long *n = arg;
    (void)text;
    (void)len;
    (void)err;
    ++*n;
    return 0;
}

struct tail {
    unsigned long long skip;  /* lines before the requested ones */
    unsigned long long seen;  /* lines in this stream */
    unsigned long long known; /* lines in the stream that broke off */
    bool is_tty;
};

static int on_tail(void *arg, const char *text, size_t len, struct error *err)
{
    struct tail *t = arg;
    t->seen++;
    if (t->seen <= t->skip || t->seen <= t->known)
        return 0;
    return (t->is_tty ? on_log_tty : on_log)(NULL, text, len, err);
}

static int attempt_of(struct client *c, const char *word, int64_t *ret,
                      bool *ret_ended, struct error *err)
{
    json_t *reply = NULL;
    enum job_state state = JOB_NEW;
    if (client_get(c, &reply, err, "/v1/jobs/%s", word) < 0)
        return -1;
    const json_t *job = json_object_get(reply, "job");
    (void)job_state_from_name(field_str(job, "state"), &state);
    *ret = field_int(job, "attempt", 0);
    *ret_ended = job_state_is_final(state);
    json_decref(reply);
    return 0;
}

/* ---- following -------------------------------------------------------------
 */

/* Whether to reconnect after this error; not if standard output is broken. */
static bool may_pass(const struct error *why)
{
    return why->code == ERR_UNAVAIL || why->code == ERR_BUSY ||
           (why->code == ERR_IO && errno != EPIPE && !ferror(stdout));
}

static int follow(struct client *c, const struct fetch *f, const char *word,
                  const char *path, struct tail *t, struct error *err)
{
    const struct timespec pause = {.tv_nsec = 200000000};
    const struct clock *clk = &clock_real;
    double began_s = clk->now_s(clk), away_s = NAN;
    for (;;) {
        struct error why = ERROR_INIT;
        int64_t attempt;
        bool is_over = false;
        double left_s = f->timeout_s - (clk->now_s(clk) - began_s);
        if (f->timeout_s > 0 && left_s < 0.01)
            return error_set(err, ERR_TIMEOUT,
                             "job %s has not ended within %g s; it goes on",
                             word, f->timeout_s);
        t->seen = 0;
        errno = 0;
        int rc = client_stream(c, path, f->timeout_s > 0 ? left_s : 0, on_tail,
                               t, &why);
        t->known = t->seen > t->known ? t->seen : t->known;
        if (rc == 0)
            rc = attempt_of(c, word, &attempt, &is_over, &why);
        if (rc == 0 && is_over)
            return 0;
        if (rc < 0 && why.code == ERR_TIMEOUT && f->timeout_s > 0)
            continue;
        if (rc < 0 && !may_pass(&why)) {
            if (err)
                *err = why;
            return -1;
        }
        away_s = rc == 0 || isnan(away_s) ? clk->now_s(clk) : away_s;
        if (clk->now_s(clk) - away_s > AWAY_S)
            return error_set(err, ERR_UNAVAIL,
                             "the daemon has been away for %.0f s: %s", AWAY_S,
                             why.msg);
        (void)nanosleep(&pause, NULL);
    }
}

/* ---- the view --------------------------------------------------------------
 */

/* The query for the requested part: "&rank=1&since=1763712002.000". */
static int part_of(const struct fetch *f, char *ret, size_t cap,
                   struct error *err)
{
    double since_s = 0;
    int n = 0;
    *ret = '\0';
    if (f->since && job_query_time("since", f->since, &since_s, err) < 0)
        return -1;
    if (f->rank >= 0)
        n = snprintf(ret, cap, "&rank=%" PRId64, f->rank);
    if (f->since)
        (void)snprintf(ret + n, cap - (size_t)n, "&since=%.3f", since_s);
    return 0;
}

/* All requests name the same attempt, even if another starts meanwhile; a job
 * that has not started has no attempt number yet. */
int fetch_logs(struct client *c, const struct fetch *f, const char *word,
               struct error *err)
{
    struct tail t = {.is_tty = f->show.style.columns > 0};
    char part[80], attempt[40] = "", path[240];
    int64_t number = 0;
    bool is_over = false;
    unsigned long long n = 0;
    if (part_of(f, part, sizeof(part), err) < 0 ||
        attempt_of(c, word, &number, &is_over, err) < 0)
        return -1;
    if (number > 0)
        (void)snprintf(attempt, sizeof(attempt), "&attempt=%" PRId64, number);
    (void)snprintf(path, sizeof(path), "/v1/jobs/%s/logs?follow=0%s%s", word,
                   attempt, part);
    if (f->count > 0 && number > 0 &&
        client_stream(c, path, 0, count_line, &n, err) < 0)
        return -1;
    t.skip = n > f->count ? n - f->count : 0;
    if (f->follow)
        (void)snprintf(path, sizeof(path), "/v1/jobs/%s/logs?follow=1%s%s",
                       word, attempt, part);
    int rc = f->follow ? follow(c, f, word, path, &t, err)
                       : client_stream(c, path, 0, on_tail, &t, err);
    return rc < 0 && err->code == ERR_IO && errno == EPIPE ? 0 : rc;
}
