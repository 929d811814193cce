/* cancel_jobs.c - cancel or signal the jobs that operands and filters choose;
 * see cancel_jobs.h.
 *
 * Each job is one request. A failure for one job does not stop the others; the
 * exit status is the worst one.
 */
#include "scheduler/tools/cancel/cancel_jobs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/base/signals.h"
#include "jobs/state.h"
#include "scheduler/tools/common/options.h"
#include "scheduler/tools/common/render.h"

/* A job in the form of a request. */
struct word {
    char text[40];
};

static int add_word(struct buf *words, const char *text, struct error *err)
{
    struct word w;
    (void)snprintf(w.text, sizeof(w.text), "%s", text);
    return buf_add(words, &w, sizeof(w), err);
}

/* Collects the jobs: the operands, or those that the filters match. */
static int collect(struct client *c, const struct cancel_conf *a, int n,
                   char **words, struct buf *ret, struct error *err)
{
    for (int i = 0; i < n; i++) {
        if (options_job_word(words[i], err) < 0 ||
            add_word(ret, words[i], err) < 0)
            return -1;
    }
    if (!a->filter->user)
        return 0;
    struct buf query = BUF_INIT;
    json_t *reply = NULL;
    int rc = filter_query(a->filter, &query, err);
    if (rc == 0) /* a query begins with '&' */
        rc = client_get(c, &reply, err, "/v1/jobs?%s", buf_str(&query) + 1);
    buf_clear(&query);
    if (rc < 0)
        return -1;
    size_t i;
    json_t *job;
    json_array_foreach(json_object_get(reply, "jobs"), i, job)
    {
        /* Of the first task of a sweep use the display id: its id is also that
         * of the sweep. */
        if (rc == 0)
            rc = add_word(ret, field_str(job, "display_id"), err);
    }
    json_decref(reply);
    return rc;
}

static int act(struct client *c, const struct cancel_conf *a, const char *word,
               json_t **ret, struct error *err)
{
    char path[80];
    json_t *body = NULL;
    if (a->signal) {
        body = json_pack("{s:s}", "signal", a->signal);
        if (!body)
            return error_set(err, ERR_NOMEM, "request");
    }
    (void)snprintf(path, sizeof(path), "/v1/jobs/%s/cancel", word);
    int rc = client_post(c, path, body, NULL, ret, err);
    json_decref(body);
    return rc;
}

/* The result for a whole sweep; NULL if the word names one job. */
static const json_t *sweep_of(const char *word, const json_t *reply)
{
    const json_t *sweep = json_object_get(reply, "sweep");
    return json_is_object(sweep) && !strchr(word, '_') ? sweep : NULL;
}

static void tell_sweep(const struct cancel_conf *a, const char *word,
                       const json_t *sweep)
{
    const char *state;
    json_t *count;
    int64_t live = 0;
    json_t *states = json_object_get(sweep, "states");
    json_object_foreach(states, state, count)
    {
        enum job_state s;
        if (job_state_from_name(state, &s) == 0 && job_state_is_live(s))
            live += json_integer_value(count);
    }
    if (a->signal)
        printf("sweep %s: sent %s to %" PRId64 " jobs\n", word, a->signal,
               live);
    else if (live > 0)
        printf("sweep %s: %" PRId64 " jobs cancelled, %" PRId64
               " are being cancelled\n",
               word, field_int(states, "CANCELLED", 0), live);
    else
        printf("sweep %s: %" PRId64 " jobs cancelled\n", word,
               field_int(states, "CANCELLED", 0));
}

static json_t *outcome(const char *word, const json_t *reply,
                       const struct error *err)
{
    const json_t *job = json_object_get(reply, "job");
    json_int_t id = field_int(job, "id", strtoll(word, NULL, 10));
    json_t *o = err ? json_pack("{s:I, s:s, s:s}", "id", id, "code",
                                error_word(err->code), "message", err->msg)
                    : json_pack("{s:I, s:s}", "id", id, "state",
                                field_str(job, "state"));
    const json_t *sweep = sweep_of(word, reply);
    if (!o || json_object_set_new(o, "display_id", json_string(word)) < 0 ||
        (sweep && json_object_set(o, "sweep", (json_t *)sweep) < 0)) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* Adds the result to the JSON report, or prints it. */
static void tell(const struct cancel_conf *a, const char *word,
                 const json_t *reply, const struct error *err, json_t *report)
{
    char safe[600];
    const json_t *job = json_object_get(reply, "job");
    if (a->json)
        (void)json_array_append_new(report, outcome(word, reply, err));
    else if (err)
        (void)fprintf(stderr, "%s: %s\n", a->tool,
                      render_escape(err->msg, safe, sizeof(safe)));
    else if (!a->quiet && sweep_of(word, reply))
        tell_sweep(a, word, sweep_of(word, reply));
    else if (!a->quiet && a->signal)
        printf("job %s: sent %s\n", word, a->signal);
    else if (!a->quiet)
        printf("job %s: %s\n", word,
               strcmp(field_str(job, "state"), "CANCELLED") == 0
                   ? "cancelled"
                   : "is being cancelled");
}

int cancel_signal(const char *value, const char **ret, struct error *err)
{
    struct error why = ERROR_INIT;
    return signals_of_job(value, ret, &why) < 0
               ? error_set(err, ERR_USAGE, "--%s", why.msg)
               : 0;
}

int cancel_check(const struct cancel_conf *conf, int n, struct error *err)
{
    if (n == 0 && !conf->filter->user)
        return error_set(err, ERR_USAGE, "which job? see %s --help",
                         conf->tool);
    if (!conf->filter->user && !job_query_is_any(conf->filter))
        return error_set(err, ERR_USAGE,
                         "--state, --name, --account, --partition and --label "
                         "go with --user");
    return 0;
}

int cancel_jobs(struct client *c, const struct cancel_conf *a, int n,
                char **words, int *ret_exit, struct error *err)
{
    struct buf found = BUF_INIT;
    json_t *report = json_array();
    int rc = report ? collect(c, a, n, words, &found, err)
                    : error_set(err, ERR_NOMEM, "report");
    for (size_t i = 0; rc == 0 && i < found.len / sizeof(struct word); i++) {
        struct word w;
        struct error why = ERROR_INIT;
        json_t *reply = NULL;
        memcpy(&w, found.data + i * sizeof(w), sizeof(w));
        int bad = act(c, a, w.text, &reply, &why);
        if (bad < 0 && why.code == ERR_UNAVAIL) {
            *err = why;
            rc = -1;
            break;
        }
        tell(a, w.text, reply, bad < 0 ? &why : NULL, report);
        json_decref(reply);
        if (bad < 0 && error_exit_status(why.code) > *ret_exit)
            *ret_exit = error_exit_status(why.code);
    }
    if (rc == 0 && found.len == 0 && !a->json && !a->quiet)
        printf("no matching job is pending or running\n");
    if (rc == 0 && a->json) {
        json_t *o =
            json_pack("{s:s, s:O}", "schema", "mgpu.cancel/1", "jobs", report);
        rc = client_print(o, err);
        json_decref(o);
    }
    json_decref(report);
    buf_clear(&found);
    return rc;
}
