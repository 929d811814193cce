/* sweep.c - a submit of several jobs, as tools see it: the same replies
 * whatever thread looks at it. */
#include "tests/unit/ctld/rig.h"

static int count(const struct rig *r, const char *text)
{
    int n = 0;
    for (const char *p = buf_str(&r->body); (p = strstr(p, text)); p++)
        n++;
    return n;
}

/* Read on a thread, entered at once: all of it, or nothing. */
static void test_sweep(struct rig *r)
{
#define SWEEP(values, more)                                        \
    "{\"hold\":true,\"spec\":{\"version\":1,\"kind\":\"command\"," \
    "\"name\":\"swept\",\"command\":[\"true\"]," more              \
    "\"sweep\":{\"grid\":{\"retry.max\":[" values "]}}}}"
    is_int(call(r, "POST", "/v1/jobs", SWEEP("0,1,-1", ""), "sweep"), 400,
           "a sweep with a bad value");
    ok(has(r, "spec: ") && has(r, "retry.max") && has(r, "[E013]"),
       "  names it: %s", buf_str(&r->body));
    is_int(call(r, "POST", "/v1/jobs",
                SWEEP("0,1", "\"logs\":{\"max_bytes\":\"2GiB\"},"), "sweep"),
           429, "one whose logs may be too long");
    ok(get(r, "/v1/jobs?name=swept") == 200 && !has(r, "\"swept\""),
       "nothing of them is there");
    is_int(call(r, "POST", "/v1/jobs", SWEEP("0,1,2", ""), "sweep"), 201,
           "a sweep");
    ok(has(r, "\"n_tasks\":3"), "  of three jobs: %s", buf_str(&r->body));
    is_int(call(r, "POST", "/v1/jobs", SWEEP("0,1,2", ""), "sweep"), 200,
           "the same key again");
    ok(get(r, "/v1/jobs?name=swept") == 200 && count(r, "\"swept\"") == 3,
       "  is the same sweep");
#undef SWEEP
}

/* What is being read when the daemon is asked to stop is entered or refused,
 * and answered. */
static void *submit_slowly(void *arg)
{
    struct rig *r = arg;
    static char text[8192];
    size_t at = (size_t)snprintf(
        text, sizeof(text),
        "{\"hold\":true,\"spec\":{\"version\":1,\"kind\":\"command\","
        "\"name\":\"late\",\"command\":[\"true\"],"
        "\"sweep\":{\"grid\":{\"env.I\":[0");
    for (int i = 1; i < 1000; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, ",%d", i);
    (void)snprintf(text + at, sizeof(text) - at, "]}}}}");
    struct http_client_conf conf = {
        .url = r->url, .connect_timeout_s = 60, .timeout_s = RIG_WAIT_S};
    struct http_request req = {.method = "POST",
                               .path = "/v1/jobs",
                               .body = text,
                               .body_len = strlen(text)};
    struct http_client *mine = NULL;
    static int status;
    struct buf reply = BUF_INIT;
    if (http_client_create(&conf, &mine, NULL) < 0 ||
        http_client_call(mine, &req, &status, &reply, NULL) < 0)
        status = -1;
    http_client_destroy(mine);
    buf_clear(&reply);
    return &status;
}

static void test_stopping(struct rig *r)
{
    pthread_t asking;
    void *status = NULL;
    (void)pthread_create(&asking, NULL, submit_slowly, r);
    (void)poll(NULL, 0, 30); /* it may be any way ahead, or not yet */
    rig_down(r);
    (void)pthread_join(asking, &status);
    int got = *(int *)status;
    rig_up(r, NULL);
    ok(get(r, "/v1/jobs?name=late") == 200, "up again");
    int n = count(r, "\"late\"");
    ok(n == 0 || n == 1000, "a stop leaves all or nothing: %d", n);
    ok(got != 201 || n == 1000, "what was acknowledged is there: %d", got);
    rig_down(r);
}

int main(void)
{
    struct rig r;
    (void)signal(SIGPIPE, SIG_IGN);
    rig_init(&r);
    rig_up(&r, NULL);
    test_sweep(&r);
    test_stopping(&r);
    rig_clear(&r);
    return tap_done();
}
