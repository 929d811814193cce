/* cancel.c - mgpu-cancel(1): end jobs, or send them a signal. */
#include "scheduler/tools/cancel/cancel_jobs.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/job_query.h"
#include "scheduler/tools/common/options.h"

enum { OPT_SIGNAL = 1 };

static const struct opt opts[] = {
    {FILTER_USER, 'u', "user", "USER", "all jobs of USER ('me': your own)"},
    {FILTER_STATE, 't', "state", "STATE,...", "only jobs in these states"},
    {FILTER_NAME, 'n', "name", "GLOB", "only jobs whose name matches GLOB"},
    {FILTER_ACCOUNT, 'A', "account", "ACCOUNT", "only jobs charged to ACCOUNT"},
    {FILTER_PARTITION, 0, "partition", "PARTITION", "only jobs in PARTITION"},
    {FILTER_LABEL, 0, "label", "KEY[=VALUE]",
     "only jobs with this label; repeat it to require several"},
    {OPT_SIGNAL, 0, "signal", "SIG", "send every rank this signal, e.g. USR1"},
    OPTION_ROW_JSON,
    OPTION_ROW_QUIET,
    OPTION_ROW_URL,
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
    struct option_common common;
    const char *signal;
};

static int on_option(void *arg, const struct opt *o, const char *value,
                     struct error *err)
{
    struct args *a = arg;
    if (o->id >= FILTER_USER)
        return job_query_option(&a->filter, o->id, value, err);
    return options_common(&a->common, o->id, value)
               ? 0
               : cancel_signal(value, &a->signal, err);
}

static int run(void *arg, int n, char **words, int *ret_exit, struct error *err)
{
    const struct args *a = arg;
    const struct cancel_conf conf = {.tool = tool.name,
                                     .filter = &a->filter,
                                     .signal = a->signal,
                                     .json = a->common.json,
                                     .quiet = a->common.quiet};
    struct client *c = NULL;
    if (cancel_check(&conf, n, err) < 0 ||
        client_create(a->common.url, 5, &c, err) < 0)
        return -1;
    int rc = job_query_check_user(&a->filter, c, err);
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
        .json = &a.common.json,
    };
    return tool_run(&m, argc, argv);
}
