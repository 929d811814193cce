/* view.c - X-Mgpu-View: others: whoever asks, the reply has what any user sees
 * of the jobs of others (S20). The daemon is the caller's own, where without it
 * the caller sees everything. */
#include <sys/un.h>

#include "tests/unit/ctld/tcp.h"

#define HUSHED                                                              \
    "{\"spec\":{\"version\":1,\"kind\":\"command\",\"name\":\"seen\","      \
    "\"labels\":{\"team\":\"hush\"},\"env\":{\"A\":\"hush\"},\"command\":[" \
    "\"hush\"],\"resources\":{\"gpus\":1}}}"
#define OTHERS "X-Mgpu-View: others\r\n"

static struct rig r;

static int dial(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", r.socket);
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        tap_diag("connect failed");
    return fd;
}

static int ask(const char *method, const char *path, const char *headers)
{
    char all[256];
    int fd = dial();
    (void)snprintf(all, sizeof(all), "Connection: close\r\n%s", headers);
    tcp_say(fd, method, path, all, NULL);
    int status = tcp_hear(&r, fd, NULL);
    (void)close(fd);
    return status;
}

static void test_queue(void)
{
    is_int(ask("GET", "/v1/jobs", ""), 200, "the caller's own queue");
    ok(has(&r, "0.125") && has(&r, "hush") && !has(&r, "X-Mgpu-View"),
       "has all of the job");
    is_int(ask("GET", "/v1/jobs?values=*", OTHERS), 200, "that of others");
    ok(has(&r, "X-Mgpu-View: others"), "says whose it is");
    ok(has(&r, "\"name\":\"seen\"") && has(&r, "\"place\":\"n1:0\"") &&
           has(&r, "\"state\":\"RUNNING\""),
       "has the job as squeue would");
    ok(!has(&r, "0.125") && has(&r, "\"loss\":null") &&
           has(&r, "\"iteration\":null") && has(&r, "\"labels\":null") &&
           !has(&r, "hush"),
       "S20: and nothing of what it does");
    is_int(ask("GET", "/v1/jobs?label=team", OTHERS), 200, "by its label");
    ok(has(&r, "\"jobs\":[]"), "S20: it is not found, either");
    is_int(ask("GET", "/v1/jobs?user=me", OTHERS), 200, "user=me");
    ok(!has(&r, "hush"), "S20: shows no more");
    is_int(ask("GET", "/v1/nodes", OTHERS), 200, "nodes are everybody's");
    is_int(ask("GET", "/v1/gpus?since=1", OTHERS), 200, "so are GPUs");
    ok(has(&r, "\"computing\":null") && !has(&r, "hush"),
       "S20: not how well they are used");
}

static void test_watch(void)
{
    int fd = dial();
    tcp_say(fd, "GET", "/v1/watch", OTHERS, NULL);
    is_int(tcp_hear(&r, fd, "\"id\":1,"), 200, "the stream of others");
    ok(has(&r, "\"name\":\"seen\"") && !has(&r, "0.125") && !has(&r, "hush"),
       "S20: has no more than the queue");
    (void)close(fd);
}

static void test_closed(void)
{
    static const char *const closed[] = {"/v1/jobs/1",
                                         "/v1/jobs/1/events",
                                         "/v1/jobs/1/iterations",
                                         "/v1/jobs/1/epochs",
                                         "/v1/jobs/1/values",
                                         "/v1/jobs/1/curve?of=loss",
                                         "/v1/jobs/1/profile",
                                         "/v1/jobs/1/scaling",
                                         "/v1/jobs/1/efficiency",
                                         "/v1/jobs/1/logs",
                                         "/v1/jobs/1/logs?follow=1",
                                         "/v1/jobs/1/why",
                                         "/v1/watch?job=1",
                                         "/v1/admin/plan",
                                         "/v1/admin/log",
                                         "/v1/usage"};
    for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++) {
        is_int(ask("GET", closed[i], OTHERS), 403, closed[i]);
        ok(has(&r, "\"DENIED\"") && !has(&r, "hush"), "S20: is not shown");
    }
    is_int(ask("POST", "/v1/jobs/1/cancel", OTHERS), 403, "S20: a cancel");
    is_int(ask("POST", "/v1/admin/pause", OTHERS), 403, "S20: a pause");
    is_int(ask("GET", "/v1/jobs", "X-Mgpu-View: all\r\n"), 400,
           "another word is refused");
    is_int(ask("GET", "/v1/jobs/1", ""), 200, "the next request is the user's");
    ok(has(&r, "\"state\":\"RUNNING\"") && has(&r, "hush"),
       "and nothing was done to the job");
}

/* The connection stays; the rights of its next request are whole. */
static void test_connection(void)
{
    int fd = dial();
    tcp_say(fd, "GET", "/v1/jobs", OTHERS, NULL);
    is_int(tcp_hear(&r, fd, "]}"), 200, "others'");
    tcp_say(fd, "GET", "/v1/jobs/1", "", NULL);
    is_int(tcp_hear(&r, fd, "hush"), 200, "then one's own on one connection");
    (void)close(fd);
}

int main(void)
{
    rig_init(&r);
    rig_up(&r, NULL);
    is_int(call(&r, "POST", "/v1/jobs", HUSHED, NULL), 201, "a job");
    ok(becomes(&r, "/v1/jobs/1", "\"place\":\"n1:0\""), "is placed");
    is_int(as_worker(&r, "1/1/claim", "{\"holder\":\"h 1 1\"}"), 200,
           "claimed");
    is_int(as_worker(&r, "1/1/heartbeat", "{\"iteration\":3,\"loss\":0.125}"),
           200, "and runs");
    ok(becomes(&r, "/v1/jobs/1", "\"state\":\"RUNNING\""), "so it is seen");
    test_queue();
    test_watch();
    test_closed();
    test_connection();
    rig_down(&r);
    rig_clear(&r);
    return tap_done();
}
