/* main.c - mgpu-web(1): the queue, the cluster and the jobs in a browser. */
#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/wire/wire.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/options.h"
#include "scheduler/web/web_server.h"

enum { OPT_LISTEN = 1, OPT_READ_ONLY };

static const struct opt opts[] = {
    {OPT_LISTEN, 'l', "listen", "WHERE",
     "unix:PATH or HOST:PORT; default: 127.0.0.1:0, any free port"},
    {OPT_READ_ONLY, 'r', "read-only", NULL, "show everything, change nothing"},
    OPTION_ROW_URL,
    {0, 0, NULL, NULL, NULL},
};

static const struct tool tool = {
    .name = "mgpu-web",
    .synopsis = "[options]",
    .summary = "Serves the queue, the cluster and the jobs as a page for your "
               "browser, with your rights. Prints its URL, and ends with "
               "Ctrl-C.",
    .opts = opts,
};

struct args {
    struct option_common common;
    const char *listen;
    bool is_read_only;
};

static int on_option(void *arg, const struct opt *o, const char *value,
                     struct error *err)
{
    struct args *a = arg;
    (void)err;
    if (o->id == OPT_LISTEN)
        a->listen = value;
    else if (o->id == OPT_READ_ONLY)
        a->is_read_only = true;
    else
        (void)options_common(&a->common, o->id, value);
    return 0;
}

static void on_signal(evutil_socket_t fd, short what, void *base)
{
    (void)fd;
    (void)what;
    (void)event_base_loopbreak(base);
}

/* The URL alone on standard output, so that a script can read it. */
static int announce(const struct web_server *w, const char *where,
                    struct error *err)
{
    (void)printf("%s\n", web_server_url(w));
    if (fflush(stdout) != 0)
        return error_sys(err, errno, "write the URL to standard output");
    if (strncmp(where, "unix:", 5) == 0) {
        char *path = realpath(where + 5, NULL); /* ssh is not started here */
        (void)fprintf(
            stderr,
            "%s: on your computer, 'ssh -NL %d:%s THIS-HOST' leads to "
            "it\n",
            tool.name, WEB_SERVER_PORT, path ? path : where + 5);
        free(path);
    }
    return 0;
}

static int serve(struct event_base *base, const struct web_server_conf *conf,
                 struct error *err)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    enum { N = sizeof(ends) / sizeof(ends[0]) };
    struct event *signals[N] = {NULL};
    struct web_server *w = NULL;
    int rc = 0;
    (void)signal(SIGPIPE, SIG_IGN); /* a client that left ends nothing else */
    for (size_t i = 0; i < N && rc == 0; i++) {
        signals[i] = evsignal_new(base, ends[i], on_signal, base);
        if (!signals[i] || evsignal_add(signals[i], NULL) < 0)
            rc = error_set(err, ERR_NOMEM, "signals");
    }
    if (rc == 0)
        rc = web_server_create(base, conf, &w, err);
    if (rc == 0)
        rc = announce(w, conf->listen, err);
    if (rc == 0)
        web_server_learn(w);
    if (rc == 0 && event_base_dispatch(base) < 0)
        rc = error_set(err, ERR_INTERNAL, "the event loop failed");
    web_server_destroy(w);
    for (size_t i = 0; i < N; i++)
        if (signals[i])
            event_free(signals[i]);
    return rc;
}

static int run(void *arg, int n, char **words, int *ret_exit, struct error *err)
{
    const struct args *a = arg;
    char found[256];
    *ret_exit = 0;
    if (n > 0)
        return error_set(err, ERR_USAGE, "unexpected argument '%.100s'",
                         words[0]);
    if (!a->common.url && wire_default_url(found, sizeof(found), err) < 0)
        return -1;
    const struct web_server_conf conf = {
        .listen = a->listen ? a->listen : "127.0.0.1:0",
        .daemon = a->common.url ? a->common.url : found,
        .is_read_only = a->is_read_only,
    };
    struct event_base *base = event_base_new();
    if (!base)
        return error_set(err, ERR_NOMEM, "event loop");
    int rc = serve(base, &conf, err);
    event_base_free(base);
    return rc;
}

int main(int argc, char **argv)
{
    struct args a = {.listen = NULL};
    const struct tool_main m = {
        .tool = &tool,
        .on_option = on_option,
        .run = run,
        .arg = &a,
        .json = &a.common.json,
    };
    return tool_run(&m, argc, argv);
}
