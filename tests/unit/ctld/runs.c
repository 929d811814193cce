/* runs.c - runs over HTTP: opened, fed and finished by their programs, also
 * when a reply was lost, the daemon restarted or its store failed. */
#include "tests/unit/ctld/rig.h"

enum { LEVELS = 64, LOST_S = 6000 };

static int post(struct rig *r, const char *path, const char *body)
{
    return call(r, "POST", path, body, NULL);
}

static void says(struct rig *r, const char *what, const char *text)
{
    ok(has(r, text), "  %s: %s", what, buf_str(&r->body));
}

/* A run with so many objects in each other as its settings. */
static int post_deep(struct rig *r, int levels)
{
    struct buf b = BUF_INIT;
    int rc = buf_addstr(&b, "{\"name\":\"deep\",\"config\":", NULL);
    for (int i = 0; rc == 0 && i < levels; i++)
        rc = buf_addstr(&b, i % 2 ? "[" : "{\"a\":", NULL);
    rc = rc < 0 ? rc : buf_addstr(&b, "1", NULL);
    for (int i = levels; rc == 0 && i-- > 0;)
        rc = buf_addstr(&b, i % 2 ? "]" : "}", NULL);
    if (rc < 0 || buf_addstr(&b, "}", NULL) < 0)
        exit(1);
    rc = post(r, "/v1/runs", buf_str(&b));
    buf_clear(&b);
    return rc;
}

static void test_open(struct rig *r)
{
    static const char run[] =
        "{\"name\":\"r1\",\"project\":\"p\",\"holder\":\"login1 7\","
        "\"config\":{\"lr\":0.5,\"deep\":{\"a\":[1,null,\"x\"]}}}";
    const struct {
        const char *body;
        int status;
        const char *text;
    } bad[] = {
        {"{}", 400, "expected {\\\"name\\\""},
        {"{\"name\":1}", 400, "expected {\\\"name\\\""},
        {"{\"name\":\"a b\"}", 400, "is no name of a job"},
        {"{\"name\":\"a\",\"gpus\":1}", 400, "gpus: expected"},
        {"{\"name\":\"a\",\"config\":[1]}", 400, "expected {\\\"name\\\""},
        {"{\"name\":\"a\",\"holder\":\"\"}", 400, "expected {\\\"name\\\""},
        {"{\"name\":\"a\"", 400, "INVAL"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        is_int(post(r, "/v1/runs", bad[i].body), bad[i].status, bad[i].body);
        says(r, "it says why", bad[i].text);
    }
    size_t n = 70000, at = 0;
    char *large = calloc(1, n + 64);
    at = (size_t)snprintf(large, n, "{\"name\":\"a\",\"config\":{\"k\":\"");
    memset(large + at, 'x', n - at);
    memcpy(large + n, "\"}}", 4);
    is_int(post(r, "/v1/runs", large), 429, "a config that is too large");
    says(r, "it names the limit", "limits.max_spec_bytes");
    free(large);
    is_int(post_deep(r, LEVELS + 1), 400, "a config that is too deep");
    says(r, "it says how deep", "more than 64 levels");
    is_int(call(r, "POST", "/v1/runs", run, "key"), 201, "a run");
    says(r, "it runs", "\"state\":\"RUNNING\"");
    says(r, "it is a run", "\"kind\":\"run\"");
    is_int(call(r, "POST", "/v1/runs", run, "key"), 200, "the same key again");
    says(r, "the same run", "\"id\":1,");
    is_int(get(r, "/v1/jobs/1"), 200, "its view");
    says(r, "its settings",
         "\"spec\":{\"version\":1,\"kind\":\"run\",\"name\":\"r1\","
         "\"project\":\"p\",\"config\":{\"lr\":0.5,\"deep\":{\"a\":[1,null,"
         "\"x\"]}}}");
    is_int(r->alloc.n_requests, 0, "nothing is asked of the allocator");
}

static void test_values(struct rig *r)
{
    static const char first[] = "{\"step\":1,\"loss\":0.5,\"acc\":0.25}\n"
                                "{\"step\":2,\"loss\":1e999,\"acc\":\"x\","
                                "\"iterations_total\":9}\n"
                                "no row\n";
    static const char second[] = "{\"iteration\":3,\"acc\":null}\n"
                                 "{\"epoch\":2,\"eval_loss\":0.25}\n"
                                 "{\"best\":7}\n";
    char path[80], want[40];

    is_int(post(r, "/v1/jobs/1/values", first), 200, "values");
    (void)snprintf(want, sizeof(want), "\"acked\":%zu,\"dropped\":1,",
                   strlen(first));
    says(r, "all bytes, but one line", want);
    says(r, "which one", "\"line\":3,\"why\":\"metrics: ");
    says(r, "what is no number",
         "\"ignored\":[{\"key\":\"acc\",\"why\":\"is a text, not a number\"}]");
    is_int(post(r, "/v1/jobs/1/values?offset=0", first), 200, "once more");
    says(r, "is known", "\"dropped\":0,");
    (void)snprintf(path, sizeof(path), "/v1/jobs/1/values?offset=%zu",
                   strlen(first) + 1);
    is_int(post(r, path, second), 200, "a gap");
    (void)snprintf(want, sizeof(want), "\"acked\":%zu,", strlen(first));
    says(r, "go back", want);
    (void)snprintf(path, sizeof(path), "/v1/jobs/1/values?offset=%zu",
                   strlen(first));
    is_int(post(r, path, ""), 200, "a sign of life");
    is_int(post(r, path, second), 200, "what follows");
    is_int(get(r, "/v1/jobs/1"), 200, "its view");
    says(r, "progress", "\"iteration\":3,\"iterations_total\":9,\"epoch\":2,");
    says(r, "evaluation", "\"eval_loss\":0.25");
    is_int(get(r, "/v1/jobs/1/values"), 200, "its values");
    says(r, "each is there once",
         "\"rows\":[[1,0,null,\"best\",7],[1,0,1,\"acc\",0.25],"
         "[1,0,3,\"acc\",null]]");
    is_int(get(r, "/v1/jobs/1/iterations"), 200, "its iterations");
    says(r, "infinity is kept", "\"Infinity\"");
    is_int(post(r, "/v1/jobs/99/values", ""), 404, "of no job");
    is_int(post(r, "/v1/jobs/1/values?offset=-1", ""), 400, "before the start");
}

static void test_restart(struct rig *r)
{
    rig_down(r);
    rig_up(r, NULL);
    is_int(get(r, "/v1/jobs/1"), 200, "---- a daemon that is new");
    says(r, "it runs", "\"state\":\"RUNNING\"");
    says(r, "what its rows say", "\"iteration\":2,");
    is_int(post(r, "/v1/jobs/1/values?offset=5000", "{\"step\":4,\"a\":1}\n"),
           200, "takes what follows, wherever that is");
    says(r, "is stored", "\"acked\":5017,");
    is_int(r->alloc.n_requests, 0, "nothing is asked of the allocator");
}

static void test_ends(struct rig *r)
{
    is_int(post(r, "/v1/jobs/1/hold", ""), 409, "it cannot be held");
    says(r, "it is a run", "is a run");
    is_int(post(r, "/v1/jobs/1/finish", "{\"exit_code\":\"1\"}"), 400,
           "an exit code that is a text");
    is_int(post(r, "/v1/jobs/1/finish", "{\"exit_code\":256}"), 400,
           "an exit code of 256");
    is_int(post(r, "/v1/jobs/1/finish", "{\"exit_code\":3,\"why\":\"w\"}"), 200,
           "it fails");
    says(r, "with this", "\"state\":\"FAILED\",\"reason\":\"w\"");
    is_int(post(r, "/v1/jobs/1/finish", "{\"exit_code\":3,\"why\":\"w\"}"), 200,
           "said again");
    is_int(post(r, "/v1/jobs/1/finish", "{}"), 409, "another end");
    is_int(post(r, "/v1/jobs/1/values", "{\"step\":9,\"a\":1}\n"), 409,
           "values after the end");
    says(r, "it has ended", "has ended: FAILED, w");
    is_int(post(r, "/v1/runs", "{\"name\":\"r2\"}"), 201, "another");
    is_int(post(r, "/v1/jobs/2/cancel", ""), 200, "is cancelled");
    says(r, "at once", "\"state\":\"CANCELLED\"");
    is_int(post(r, "/v1/jobs/2/values", ""), 409, "and its program hears it");
    says(r, "why", "has ended: CANCELLED, cancelled by its user");
}

static void test_refusing(struct rig *r)
{
    rig_down(r);
    r->refuses_rows = true;
    rig_up(r, NULL);
    is_int(post(r, "/v1/runs", "{\"name\":\"r3\"}"), 201,
           "---- a store that fails");
    is_int(post(r, "/v1/jobs/3/values", "{\"step\":1,\"a\":1}\n"), 500,
           "values are not acknowledged");
    rig_down(r);
    r->refuses_rows = false;
    rig_up(r, NULL);
    is_int(post(r, "/v1/jobs/3/values", "{\"step\":1,\"a\":1}\n"), 200,
           "the program sends them again");
    is_int(get(r, "/v1/jobs/3/values"), 200, "its values");
    says(r, "they are there", "[[1,0,1,\"a\",1]]");
    /* The daemon keeps curves that it has read. */
    is_int(post(r, "/v1/jobs/3/values?offset=17", "{\"step\":9,\"b\":1}\n"),
           200, "a value");
    is_int(get(r, "/v1/jobs/3/curve?of=b"), 200, "its curve");
    is_int(post(r, "/v1/jobs/3/values?offset=34", "{\"step\":2,\"b\":7}\n"),
           200, "a value that comes late");
    is_int(get(r, "/v1/jobs/3/curve?of=b"), 200, "its curve again");
    says(r, "it has both", "\"n\":2,\"cursor\"");
    rig_down(r);
}

/* Those who wait for GPUs to be free do not wait for runs. */
static void test_counts(struct rig *r)
{
    static const char job[] =
        "{\"spec\":{\"version\":1,\"kind\":\"command\",\"name\":\"c\","
        "\"command\":[\"true\"]}}";
    rig_up(r, NULL);
    is_int(post(r, "/v1/jobs", job), 201, "---- a job beside a run");
    for (int i = 0; i < 3000 && get(r, "/v1/jobs/4") == 200 &&
                    !has(r, "\"place\":\"n1:0\"");
         i++)
        (void)poll(NULL, 0, 20);
    is_int(as_worker(r, "4/1/claim", "{\"holder\":\"h 1 1\"}"), 200, "runs");
    is_int(get(r, "/v1/jobs?limit=1"), 200, "the queue");
    says(r, "tells them apart", "\"running\":2,\"runs\":1,");
    is_int(post(r, "/v1/jobs/4/cancel", ""), 200, "it is cancelled");
    rig_down(r);
}

/* The real clock, moved on by as much as the test says. */
static _Atomic double moved_s;

static double moved_now(const struct clock *c)
{
    return clock_real.now_s(c) + moved_s;
}

static double moved_wall(const struct clock *c)
{
    return clock_real.wall_s(c) + moved_s;
}

static void lose_soon(struct ctld_conf *conf)
{
    conf->run_lost_s = LOST_S;
    conf->heartbeat_s = 1e6; /* no step of the clock is a stop of the daemon */
}

/* A program whose values cannot be stored is not silent. */
static void test_alive(struct rig *r)
{
    static const struct clock own = {.now_s = moved_now, .wall_s = moved_wall};
    r->clock = &own;
    r->tweak = lose_soon;
    r->refuses_rows = true;
    rig_up(r, NULL);
    is_int(post(r, "/v1/runs", "{\"name\":\"r5\"}"), 201,
           "---- a store that fails for longer than a run may be silent");
    for (int i = 0; i < 3; i++) {
        moved_s = moved_s + LOST_S * 2.0 / 3;
        is_int(post(r, "/v1/jobs/5/values", "{\"step\":1,\"a\":1}\n"), 500,
               "values are not acknowledged");
    }
    /* Its reply comes after a step of the engine. */
    is_int(post_deep(r, LEVELS), 201, "another run");
    is_int(get(r, "/v1/jobs/5"), 200, "the first one");
    says(r, "goes on", "\"state\":\"RUNNING\"");
    moved_s = moved_s + LOST_S + 1;
    is_int(post(r, "/v1/runs", "{\"name\":\"r7\"}"), 201, "---- silence");
    is_int(get(r, "/v1/jobs/5"), 200, "the first one");
    says(r, "has failed", "\"state\":\"FAILED\"");
    rig_down(r);
    r->clock = NULL;
    r->tweak = NULL;
    r->refuses_rows = false;
}

int main(void)
{
    struct rig r;
    (void)signal(SIGPIPE, SIG_IGN);
    rig_init(&r);
    rig_up(&r, NULL);
    test_open(&r);
    test_values(&r);
    test_restart(&r);
    test_ends(&r);
    test_refusing(&r);
    test_counts(&r);
    test_alive(&r);
    rig_clear(&r);
    return tap_done();
}
