/* cancel.c - mgpu-cancel(1): end jobs, or send them a signal. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "scheduler/tools/client.h"
#include "scheduler/tools/options.h"
#include "scheduler/tools/render.h"

enum { OPT_USER = 1, OPT_STATE, OPT_SIGNAL, OPT_JSON, OPT_QUIET, OPT_URL };

static const struct opt opts[] = {
    {OPT_USER, 'u', "user", "USER", "all jobs of USER ('me': your own)"},
    {OPT_STATE, 't', "state", "STATE,...", "only jobs in these states"},
    {OPT_SIGNAL, 0, "signal", "SIG", "send every rank this signal, e.g. USR1"},
    {OPT_JSON, 0, "json", NULL, "print JSON, errors included"},
    {OPT_QUIET, 'q', "quiet", NULL, "say nothing of what went well"},
    {OPT_URL, 0, "url", "URL", "the daemon, as unix:PATH or http://HOST:PORT"},
    {0, 0, NULL, NULL, NULL},
};

static const struct tool tool = {
    .name = "mgpu-cancel",
    .synopsis = "[options] JOB... | -u USER [-t STATE,...]",
    .summary = "Ends jobs. A running job gets the time of checkpoint.grace to "
               "write a checkpoint.",
    .opts = opts,
};

struct args {
    const char *user, *state, *signal, *url;
    bool json, quiet;
};

static int on_option(void *arg, const struct opt *o, const char *value,
                     struct error *err)
{
    struct args *a = arg;
    (void)err;
    switch (o->id) {
    case OPT_USER:
        a->user = value;
        break;
    case OPT_STATE:
        a->state = value;
        break;
    case OPT_SIGNAL:
        a->signal = value;
        break;
    case OPT_JSON:
        a->json = true;
        break;
    case OPT_QUIET:
        a->quiet = true;
        break;
    default:
        a->url = value;
    }
    return 0;
}

/* The ids to act on: the operands, or what the filters match. */
static int collect(struct client *c, const struct args *a, int n, char **words,
                   struct buf *ids, struct error *err)
{
    for (int i = 0; i < n; i++) {
        unsigned long long id;
        if (options_job_id(words[i], &id, err) < 0 ||
            buf_add(ids, &id, sizeof(id), err) < 0)
            return -1;
    }
    if (!a->user)
        return 0;
    char user[128], state[256];
    json_t *reply = NULL;
    client_quote(a->user, user, sizeof(user));
    client_quote(a->state ? a->state
                          : "QUEUED,HELD,DISPATCHING,UNKNOWN,STARTING,"
                            "RUNNING,CHECKPOINTING,STALLED",
                 state, sizeof(state));
    int rc =
        client_get(c, &reply, err, "/v1/jobs?user=%s&state=%s", user, state);
    if (rc < 0)
        return -1;
    size_t i;
    json_t *job;
    json_array_foreach(json_object_get(reply, "jobs"), i, job)
    {
        unsigned long long id = (unsigned long long)field_int(job, "id", 0);
        if (rc == 0)
            rc = buf_add(ids, &id, sizeof(id), err);
    }
    json_decref(reply);
    return rc;
}

static int act(struct client *c, const struct args *a, unsigned long long id,
               json_t **ret, struct error *err)
{
    char path[64];
    json_t *body = NULL;
    if (a->signal) {
        body = json_pack("{s:s}", "signal", a->signal);
        if (!body)
            return error_set(err, ERR_NOMEM, "request");
    }
    (void)snprintf(path, sizeof(path), "/v1/jobs/%llu/cancel", id);
    int rc = client_post(c, path, body, NULL, ret, err);
    json_decref(body);
    return rc;
}

/* Adds the outcome to the JSON report, or prints it. */
static void tell(const struct args *a, unsigned long long id, const json_t *job,
                 const struct error *err, json_t *report)
{
    char safe[600];
    if (a->json) {
        json_t *o =
            err ? json_pack("{s:I, s:s, s:s}", "id", (json_int_t)id, "code",
                            error_word(err->code), "message", err->msg)
                : json_pack("{s:I, s:s}", "id", (json_int_t)id, "state",
                            field_str(job, "state"));
        (void)json_array_append_new(report, o);
    } else if (err)
        (void)fprintf(stderr, "%s: %s\n", tool.name,
                      render_escape(err->msg, safe, sizeof(safe)));
    else if (!a->quiet && a->signal)
        printf("job %llu: sent %s\n", id, a->signal);
    else if (!a->quiet)
        printf("job %llu: %s\n", id,
               strcmp(field_str(job, "state"), "CANCELLED") == 0
                   ? "cancelled"
                   : "is being cancelled");
}

static int run(void *arg, int n, char **words, int *ret_exit, struct error *err)
{
    const struct args *a = arg;
    if (n == 0 && !a->user)
        return error_set(err, ERR_USAGE, "which job? see %s --help", tool.name);
    if (a->state && !a->user)
        return error_set(err, ERR_USAGE, "--state goes with --user");
    struct client *c = NULL;
    struct buf ids = BUF_INIT;
    json_t *report = json_array();
    int rc = client_create(a->url, 5, &c, err);
    if (rc == 0)
        rc = collect(c, a, n, words, &ids, err);
    for (size_t i = 0; rc == 0 && i < ids.len / sizeof(unsigned long long);
         i++) {
        unsigned long long id;
        struct error why = ERROR_INIT;
        json_t *reply = NULL;
        memcpy(&id, ids.data + i * sizeof(id), sizeof(id));
        int bad = act(c, a, id, &reply, &why);
        if (bad < 0 && why.code == ERR_UNAVAIL) {
            *err = why;
            rc = -1;
            break;
        }
        tell(a, id, json_object_get(reply, "job"), bad < 0 ? &why : NULL,
             report);
        json_decref(reply);
        if (bad < 0 && error_exit_status(why.code) > *ret_exit)
            *ret_exit = error_exit_status(why.code);
    }
    if (rc == 0 && a->json) {
        json_t *o =
            json_pack("{s:s, s:O}", "schema", "mgpu.cancel/1", "jobs", report);
        char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
        (void)puts(text ? text : "{}");
        free(text);
        json_decref(o);
    }
    json_decref(report);
    buf_clear(&ids);
    client_destroy(c);
    return rc;
}

int main(int argc, char **argv)
{
    struct args a = {.user = NULL};
    const struct tool_main m = {
        .tool = &tool,
        .on_option = on_option,
        .run = run,
        .arg = &a,
        .json = &a.json,
    };
    return tool_run(&m, argc, argv);
}
