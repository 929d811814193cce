/* cancel.c - mgpu-cancel(1): end jobs, or send them a signal. */
#include "scheduler/tools/cancelling.h"
#include "scheduler/tools/client.h"
#include "scheduler/tools/filter.h"
#include "scheduler/tools/options.h"

enum { OPT_SIGNAL = 1, OPT_JSON, OPT_QUIET, OPT_URL };

static const struct opt opts[] = {
    {FILTER_USER, 'u', "user", "USER", "all jobs of USER ('me': your own)"},
    {FILTER_STATE, 't', "state", "STATE,...", "only jobs in these states"},
    {FILTER_NAME, 'n', "name", "GLOB", "only jobs with such a name"},
    {FILTER_ACCOUNT, 'A', "account", "ACCOUNT", "only jobs that it is charged"},
    {FILTER_PARTITION, 0, "partition", "PARTITION", "only jobs for it"},
    {FILTER_LABEL, 0, "label", "KEY[=VALUE]",
     "only jobs with this label, and the next"},
    {OPT_SIGNAL, 0, "signal", "SIG", "send every rank this signal, e.g. USR1"},
    {OPT_JSON, 0, "json", NULL, "print JSON, errors included"},
    {OPT_QUIET, 'q', "quiet", NULL, "say nothing of what went well"},
    {OPT_URL, 0, "url", "URL", "the daemon, as unix:PATH or http://HOST:PORT"},
    {0, 0, NULL, NULL, NULL},
};

static const struct tool tool = {
    .name = "mgpu-cancel",
    .synopsis = "[options] JOB... | -u USER [-t STATE,...] [-n GLOB] ...",
    .summary = "Ends jobs: 123, all of sweep 123, or its task 123_4. A running "
               "job gets the time of checkpoint.grace to "
               "write a checkpoint.",
    .opts = opts,
};

struct args {
    struct filter filter;
    const char *signal, *url;
    bool json, quiet;
};

static int on_option(void *arg, const struct opt *o, const char *value,
                     struct error *err)
{
    struct args *a = arg;
    if (o->id >= FILTER_USER)
        return filter_option(&a->filter, o->id, value, err);
    switch (o->id) {
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

static int run(void *arg, int n, char **words, int *ret_exit, struct error *err)
{
    const struct args *a = arg;
    const struct cancel_conf conf = {.tool = tool.name,
                                     .filter = &a->filter,
                                     .signal = a->signal,
                                     .json = a->json,
                                     .quiet = a->quiet};
    struct client *c = NULL;
    if (cancel_check(&conf, n, err) < 0 ||
        client_create(a->url, 5, &c, err) < 0)
        return -1;
    int rc = filter_check_user(&a->filter, c, err);
    if (rc == 0)
        rc = cancel_jobs(c, &conf, n, words, ret_exit, err);
    client_destroy(c);
    return rc;
}

int main(int argc, char **argv)
{
    struct args a = {.filter = {.user = NULL}};
    const struct tool_main m = {
        .tool = &tool,
        .on_option = on_option,
        .run = run,
        .arg = &a,
        .json = &a.json,
    };
    return tool_run(&m, argc, argv);
}
