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
#include "scheduler/web/web_service.h"

enum { OPT_LISTEN = 1, OPT_READ_ONLY, OPT_CLUSTER, OPT_CONFIG };
static const char usual_config[] = "/etc/mgpu/mgpu.yaml";

static const struct opt opts[] = {
    {OPT_LISTEN, 'l', "listen", "WHERE",
     "unix:PATH or HOST:PORT; default: 127.0.0.1:0, any free port"},
    {OPT_READ_ONLY, 'r', "read-only", NULL, "show everything, change nothing"},
    {OPT_CLUSTER, 0, "cluster", NULL,
     "the page of a cluster for many: controller.web_listen of mgpu.yaml"},
    {OPT_CONFIG, 0, "config", "FILE",
     "with --cluster: mgpu.yaml; default: /etc/mgpu/mgpu.yaml"},
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
    const char *listen, *config;
    bool is_read_only, is_cluster;
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
    else if (o->id == OPT_CLUSTER)
        a->is_cluster = true;
    else if (o->id == OPT_CONFIG)
        a->config = value;
    else
        (void)options_common(&a->common, o->id, value);
    return 0;
}

/* One of both is there. */
struct served {
    struct event_base *base;
    struct web_server *own;
    struct web_service *service;
    int rc;
    struct error *err;
};

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
    const struct served *s = arg;
    (void)fd;
    (void)what;
    (void)event_base_loopbreak(s->base);
}

/* A service that listens nowhere any more ends. */
static void on_reload(evutil_socket_t fd, short what, void *arg)
{
    struct served *s = arg;
    struct buf text = BUF_INIT;
    struct error err = ERROR_INIT;
    (void)fd;
    (void)what;
    int rc = web_service_reload(s->service, &text, &err);
    (void)fprintf(stderr, "%s%s: %s\n", buf_str(&text), tool.name,
                  rc < 0 ? err.msg : "mgpu.yaml was read again");
    buf_clear(&text);
    if (!web_service_is_down(s->service))
        return;
    s->rc = error_set(s->err, err.code, "%s", err.msg);
    (void)event_base_loopbreak(s->base);
}

/* The URL alone on standard output, so that a script can read it. */
static int announce(const char *url, const char *where, struct error *err)
{
    (void)printf("%s\n", url);
    if (fflush(stdout) != 0)
        return error_sys(err, errno, "write the URL to standard output");
    if (where && strncmp(where, "unix:", 5) == 0) {
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

static int begin_own(struct served *s, const struct args *a, struct error *err)
{
    char found[256];
    if (!a->common.url && wire_default_url(found, sizeof(found), err) < 0)
        return -1;
    const struct web_server_conf conf = {
        .listen = a->listen ? a->listen : "127.0.0.1:0",
        .daemon = a->common.url ? a->common.url : found,
        .is_read_only = a->is_read_only,
    };
    if (web_server_create(s->base, &conf, &s->own, err) < 0 ||
        announce(web_server_url(s->own), conf.listen, err) < 0)
        return -1;
    web_server_learn(s->own);
    return 0;
}

static int begin_service(struct served *s, const struct args *a,
                         struct error *err)
{
    struct buf text = BUF_INIT;
    const char *config = a->config ? a->config : usual_config;
    int rc = web_service_create(s->base, config, a->common.url, &s->service,
                                &text, err);
    (void)fputs(buf_str(&text), stderr);
    buf_clear(&text);
    return rc < 0 ? -1 : announce(web_service_url(s->service), NULL, err);
}

static int serve(struct served *s, const struct args *a, struct error *err)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    enum { N = sizeof(ends) / sizeof(ends[0]) };
    struct event *signals[N] = {NULL};
    int rc = 0;
    (void)signal(SIGPIPE, SIG_IGN); /* a client that left ends nothing else */
    for (size_t i = 0; i < N && rc == 0; i++) {
        bool is_reload = a->is_cluster && ends[i] == SIGHUP;
        signals[i] = evsignal_new(s->base, ends[i],
                                  is_reload ? on_reload : on_signal, s);
        if (!signals[i] || evsignal_add(signals[i], NULL) < 0)
            rc = error_set(err, ERR_NOMEM, "signals");
    }
    if (rc == 0)
        rc = a->is_cluster ? begin_service(s, a, err) : begin_own(s, a, err);
    if (rc == 0 && event_base_dispatch(s->base) < 0)
        rc = error_set(err, ERR_INTERNAL, "the event loop failed");
    web_server_destroy(s->own);
    web_service_destroy(s->service);
    for (size_t i = 0; i < N; i++)
        if (signals[i])
            event_free(signals[i]);
    return rc < 0 ? rc : s->rc;
}

static int check_args(const struct args *a, int n, char **words,
                      struct error *err)
{
    if (n > 0)
        return error_set(err, ERR_USAGE, "unexpected argument '%.100s'",
                         words[0]);
    if (a->is_cluster && a->listen)
        return error_set(err, ERR_USAGE,
                         "--listen and --cluster exclude each other: "
                         "controller.web_listen of mgpu.yaml is the address");
    if (!a->is_cluster && a->config)
        return error_set(err, ERR_USAGE, "--config needs --cluster");
    return 0;
}

static int run(void *arg, int n, char **words, int *ret_exit, struct error *err)
{
    const struct args *a = arg;
    struct served s = {.err = err};
    *ret_exit = 0;
    if (check_args(a, n, words, err) < 0)
        return -1;
    s.base = event_base_new();
    if (!s.base)
        return error_set(err, ERR_NOMEM, "event loop");
    int rc = serve(&s, a, err);
    event_base_free(s.base);
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
