/* commit.c - the daemon while the disk takes its time: it answers, what is
 * asked gathers, and nothing is said to be done before it is.
 */
#include "tests/unit/ctld/rig.h"

static struct rig r;

/* ---- a disk with a gate ---------------------------------------------------
 */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    struct event_store_ops ops;
    int (*append)(struct store *s, const struct store_batch *batch,
                  struct error *err);
    int n_waiting, n_let, n_events; /* events: of the last batch */
    bool is_open, fails;
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .moved = PTHREAD_COND_INITIALIZER,
          .is_open = true};

static int gated_append(struct store *s, const struct store_batch *batch,
                        struct error *err)
{
    pthread_mutex_lock(&disk.lock);
    disk.n_events = (int)batch->n_events;
    disk.n_waiting++;
    pthread_cond_broadcast(&disk.moved);
    while (!disk.is_open && disk.n_let == 0)
        pthread_cond_wait(&disk.moved, &disk.lock);
    disk.n_let -= disk.n_let > 0;
    disk.n_waiting--;
    bool fails = disk.fails;
    pthread_cond_broadcast(&disk.moved);
    pthread_mutex_unlock(&disk.lock);
    return fails ? error_set(err, ERR_LIMIT, "the disk is full")
                 : disk.append(s, batch, err);
}

static void gate(bool is_open, bool fails)
{
    pthread_mutex_lock(&disk.lock);
    disk.is_open = is_open;
    disk.fails = fails;
    pthread_cond_broadcast(&disk.moved);
    pthread_mutex_unlock(&disk.lock);
}

/* One batch passes, well or not; those behind it wait. */
static void let_one(bool fails)
{
    pthread_mutex_lock(&disk.lock);
    disk.fails = fails;
    disk.n_let = 1;
    pthread_cond_broadcast(&disk.moved);
    while (disk.n_let > 0)
        pthread_cond_wait(&disk.moved, &disk.lock);
    pthread_mutex_unlock(&disk.lock);
}

/* Until a batch waits at the gate; how many events it has. */
static int waits(void)
{
    pthread_mutex_lock(&disk.lock);
    while (disk.n_waiting == 0)
        pthread_cond_wait(&disk.moved, &disk.lock);
    int n = disk.n_events;
    pthread_mutex_unlock(&disk.lock);
    return n;
}

static const struct event_store_ops *with_gate(
    const struct event_store_ops *ops)
{
    disk.ops = *ops;
    disk.append = ops->append;
    disk.ops.append = gated_append;
    return &disk.ops;
}

/* ---- users who wait -------------------------------------------------------
 */
struct user {
    pthread_t thread;
    const char *path, *body, *key;
    int status;
    _Atomic bool is_done;
};

static void *user_main(void *arg)
{
    struct user *u = arg;
    struct http_client_conf conf = {
        .url = r.url, .connect_timeout_s = 60, .timeout_s = RIG_WAIT_S};
    struct http_request req = {.method = "POST",
                               .path = u->path,
                               .body = u->body,
                               .body_len = strlen(u->body),
                               .idempotency_key = u->key};
    struct http_client *http;
    struct error err = ERROR_INIT;
    struct buf body = BUF_INIT;
    if (http_client_create(&conf, &http, &err) < 0)
        exit(1);
    if (http_client_call(http, &req, &u->status, &body, &err) < 0)
        u->status = -1;
    http_client_destroy(http);
    buf_clear(&body);
    u->is_done = true;
    return NULL;
}

static void asks(struct user *u, const char *path, const char *body,
                 const char *key)
{
    *u = (struct user){.path = path, .body = body, .key = key};
    if (pthread_create(&u->thread, NULL, user_main, u) != 0)
        exit(1);
}

static int answer(struct user *u)
{
    (void)pthread_join(u->thread, NULL);
    return u->status;
}

/* So many connections, that of the test among them, have been heard. */
static void heard(const char *counted, const char *at_least)
{
    ok(becomes(&r, "/metrics", counted), "%s", at_least);
}

/* ---- tests ----------------------------------------------------------------
 */
static void test_gather(void)
{
    struct user a, b, c;

    gate(false, false);
    asks(&a, "/v1/jobs", SPEC("a"), "ka");
    is_int(waits(), 1, "a submit waits for the disk");
    is_int(get(&r, "/livez"), 200, "the daemon answers");
    is_int(get(&r, "/v1/jobs"), 200, "also about jobs");
    ok(has(&r, "\"jobs\":[]"), "  of which there is none yet");
    is_int(get(&r, "/v1/jobs/1"), 404, "nor is there one with that number");
    asks(&b, "/v1/jobs", SPEC("b"), "kb");
    asks(&c, "/v1/jobs", SPEC("a"), "ka");
    heard("mgpu_jobs{state=\"QUEUED\"} 2\n", "two are known to the engine");
    ok(!a.is_done && !b.is_done && !c.is_done, "nobody was answered");
    let_one(false);
    is_int(answer(&a), 201, "the first is answered when it is durable");
    is_int(waits(), 3, "the second and both starts are the next batch");
    is_int(get(&r, "/v1/jobs"), 200, "the first job");
    ok(has(&r, "\"id\":1") && !has(&r, "\"id\":2"), "  is there alone");
    is_int(r.alloc.n_requests, 0, "nothing was asked of the allocator");
    ok(!b.is_done, "the other waits");
    gate(true, false);
    is_int(answer(&b), 201, "and is answered");
    is_int(answer(&c), 200, "he who asked twice has one job");
    ok(becomes(&r, "/v1/jobs", "\"id\":2"), "two jobs");
    is_int(get(&r, "/metrics"), 200, "metrics");
    ok(has(&r, "mgpu_commit_seconds_count ") &&
           !has(&r, "mgpu_commit_seconds_count 0\n"),
       "  count commits");
}

static void test_lost(void)
{
    struct user d, e, f;

    gate(false, false);
    asks(&d, "/v1/jobs", SPEC("d"), "kd");
    ok(waits() >= 1, "another submit waits");
    asks(&e, "/v1/jobs", SPEC("e"), "ke");
    heard("mgpu_jobs{state=\"QUEUED\"} 2\n", "and one behind it");
    let_one(true);
    is_int(answer(&d), 429, "the disk is full");
    is_int(answer(&e), 429, "for both");
    gate(true, false);
    asks(&f, "/v1/jobs", SPEC("d"), "kd");
    is_int(answer(&f), 201, "there is room again");
    is_int(get(&r, "/v1/jobs"), 200, "the jobs");
    ok(!has(&r, "\"name\":\"e\""), "  are those that were said to be there");
}

/* ---- who watches ----------------------------------------------------------
 */
struct watching {
    pthread_t thread;
    char path[40], states[200];
};

static int on_line(void *arg, const char *text, size_t len, struct error *err)
{
    struct watching *w = arg;
    json_t *o = json_loadb(text, len, 0, NULL);
    const char *s =
        json_string_value(json_object_get(json_object_get(o, "job"), "state"));
    size_t have = strlen(w->states);
    (void)err;
    (void)snprintf(w->states + have, sizeof(w->states) - have, " %s",
                   s ? s : "?");
    json_decref(o);
    return 0;
}

static void *watch_main(void *arg)
{
    struct watching *w = arg;
    struct http_client_conf conf = {
        .url = r.url, .connect_timeout_s = 60, .timeout_s = RIG_WAIT_S};
    struct http_client *http;
    struct error err = ERROR_INIT;
    struct buf bad = BUF_INIT;
    int status;
    if (http_client_create(&conf, &http, &err) < 0)
        exit(1);
    if (http_client_stream(http, w->path, on_line, w, &status, &bad, &err) < 0)
        (void)snprintf(w->states, sizeof(w->states), "%.100s", err.msg);
    http_client_destroy(http);
    buf_clear(&bad);
    return NULL;
}

/* An end that is undone was no end for who waits for it. */
static void test_watch(void)
{
    static const char held[] =
        "{\"hold\":true,\"spec\":{\"version\":1,\"kind\":\"command\","
        "\"name\":\"held\",\"command\":[\"true\"]}}";
    struct watching w = {.states = ""};
    struct user cancel;
    char path[60], cancel_path[60];

    is_int(call(&r, "POST", "/v1/jobs", held, NULL), 201, "a held job");
    json_t *o = json_loads(buf_str(&r.body), 0, NULL);
    long long id = json_integer_value(json_object_get(o, "id"));
    json_decref(o);
    (void)snprintf(w.path, sizeof(w.path), "/v1/watch?job=%lld", id);
    (void)snprintf(cancel_path, sizeof(cancel_path), "/v1/jobs/%lld/cancel",
                   id);
    (void)snprintf(path, sizeof(path), "/v1/jobs/%lld", id);
    gate(false, false);
    asks(&cancel, cancel_path, "{}", NULL);
    ok(waits() >= 1, "the disk is waited for"); /* other jobs start, too */
    heard("mgpu_jobs{state=\"CANCELLED\"} 1\n", "by its end, among others");
    if (pthread_create(&w.thread, NULL, watch_main, &w) != 0)
        exit(1);
    heard("mgpu_watchers 1\n", "somebody watches");
    is_int(get(&r, path), 200, "who asks");
    ok(has(&r, "\"HELD\""), "  is told what is durable");
    let_one(true);
    is_int(answer(&cancel), 429, "the end is undone");
    gate(true, false);
    heard("mgpu_watchers 1\n", "he still watches");
    is_int(call(&r, "POST", cancel_path, "{}", NULL), 200, "cancel it again");
    (void)pthread_join(w.thread, NULL);
    const char *last = strrchr(w.states, ' ');
    ok(last && strcmp(last, " CANCELLED") == 0 &&
           strstr(w.states, "CANCELLED") == last + 1,
       "he is told of one end:%s", w.states);
}

/* SIGTERM: what was asked before it is done and answered. */
static void test_stop(void)
{
    struct user g, h;

    gate(false, false);
    asks(&g, "/v1/jobs", SPEC("g"), "kg");
    ok(waits() >= 1, "a submit waits");
    asks(&h, "/v1/jobs", SPEC("h"), "kh");
    heard("mgpu_jobs{state=\"QUEUED\"} 2\n", "and one behind it");
    (void)kill(getpid(), SIGTERM);
    gate(true, false);
    is_int(answer(&g), 201, "it is answered");
    is_int(answer(&h), 201, "so is the other");
}

int main(void)
{
    rig_init(&r);
    r.wrap_store = with_gate;
    rig_up(&r, NULL);
    test_gather();
    test_lost();
    test_watch();
    test_stop();
    rig_gone(&r);
    rig_clear(&r);
    return tap_done();
}
