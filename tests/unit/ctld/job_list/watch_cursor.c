/* watch_cursor.c - a client that comes back to GET /v1/watch with a cursor gets
 * what has changed since, and learns when it has to forget what it knew. */
#include "scheduler/ctld/job_list/watch_past.h"
#include "tests/unit/ctld/rig.h"

enum { JOBS = 5, JOBS_MORE = 500 };

static struct rig r;

/* What a stream has said up to its n-th mark. */
struct said {
    char cursor[64], second[64]; /* of the first mark, and of the last */
    int n_jobs, n_marks, stop_at, n_wholes;
    long long job; /* the last */
    int cancel;    /* at the first mark; 0: none */
};

static void cancel(long long id)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/v1/jobs/%lld/cancel", id);
    ok(call(&r, "POST", path, "{}", NULL) == 200, "job %lld is cancelled", id);
}

static int on_line(void *arg, const char *text, size_t len, struct error *err)
{
    struct said *s = arg;
    json_t *o = json_loadb(text, len, 0, NULL);
    const char *cursor = json_string_value(json_object_get(o, "cursor"));
    const json_t *job = json_object_get(o, "job");
    if (job) {
        s->n_jobs++;
        s->job = json_integer_value(json_object_get(job, "id"));
    }
    if (cursor) {
        s->n_marks++;
        s->n_wholes += json_is_true(json_object_get(o, "whole"));
        (void)snprintf(s->n_marks == 1 ? s->cursor : s->second,
                       sizeof(s->cursor), "%s", cursor);
        if (s->n_marks == 1 && s->cancel > 0)
            cancel(s->cancel);
    }
    json_decref(o);
    return s->n_marks < s->stop_at ? 0 : error_set(err, ERR_STATE, "enough");
}

/* Reads /v1/watch?QUERY up to its n-th mark, with a connection of its own. */
static struct said watch(const char *query, int n_marks, int cancels)
{
    struct said s = {.stop_at = n_marks, .cancel = cancels};
    struct http_client_conf conf = {.url = r.url, .connect_timeout_s = 60};
    struct http_client *mine = NULL;
    struct error err = ERROR_INIT;
    struct buf bad = BUF_INIT;
    char path[128];
    int status = 0;
    (void)snprintf(path, sizeof(path), "/v1/watch?%s", query);
    if (http_client_create(&conf, &mine, NULL) < 0)
        exit(1);
    ok(http_client_stream(mine, path, on_line, &s, &status, &bad, &err) < 0 &&
           err.code == ERR_STATE,
       "a stream of %s: %s", query, err.msg);
    http_client_destroy(mine);
    buf_clear(&bad);
    return s;
}

static struct said watch_from(const char *cursor, int n_marks, int cancels)
{
    char query[96];
    (void)snprintf(query, sizeof(query), "cursor=%s", cursor);
    return watch(query, n_marks, cancels);
}

static void submit(void)
{
    is_int(call(&r, "POST", "/v1/jobs",
                "{\"hold\":true,\"spec\":{\"version\":1,\"kind\":\"command\","
                "\"name\":\"a\",\"command\":[\"true\"]}}",
                NULL),
           201, "a job that is held");
}

static void test_back(char ret_cursor[64])
{
    struct said s = watch("cursor=new", 1, 0);
    ok(s.n_jobs == JOBS && s.n_wholes == 1,
       "a new stream says all %d jobs, and that these are all", s.n_jobs);
    cancel(3);
    s = watch_from(s.cursor, 1, 0);
    ok(s.n_jobs == 1 && s.job == 3 && s.n_wholes == 0,
       "who comes back is told of the job that changed, %d", s.n_jobs);
    s = watch_from(s.cursor, 2, 2);
    ok(s.n_jobs == 1 && s.job == 2 && s.n_wholes == 0,
       "a change while it watches is followed by a mark");
    ok(strcmp(s.cursor, s.second) != 0, "with another cursor");
    s = watch_from(s.second, 1, 0);
    is_int(s.n_jobs, 0, "who comes back with it has all");
    is_int(get(&r, "/v1/watch?job=3"), 200, "a stream without a cursor");
    ok(!has(&r, "synced"), "has no mark");
    is_int(get(&r, "/v1/watch?job=3&cursor=new"), 200, "one with it");
    ok(has(&r, "synced"), "has one");
    (void)snprintf(ret_cursor, 64, "%s", watch("cursor=new", 1, 0).cursor);
}

static void test_strange(const char *cursor)
{
    static const char *const bad[] = {"",   "x",    "1",    "1.",
                                      ".1", "1.-1", "1.1x", "-1.1"};
    char query[128];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)snprintf(query, sizeof(query), "/v1/watch?cursor=%s", bad[i]);
        ok(get(&r, query) == 400, "cursor=%s is refused", bad[i]);
    }
    ok(has(&r, "cursor"), "by its name");
    (void)snprintf(query, sizeof(query), "/v1/watch?after=1&cursor=%s", cursor);
    is_int(get(&r, query), 400, "two beginnings are refused");

    struct said s = watch_from("1.0", 1, 0);
    ok(s.n_jobs == JOBS && s.n_wholes == 1, "another life's: all comes");
    (void)snprintf(query, sizeof(query), "%.*s.999999",
                   (int)strcspn(cursor, "."), cursor);
    s = watch_from(query, 1, 0);
    ok(s.n_jobs == JOBS && s.n_wholes == 1, "one that never was: all comes");
    rig_down(&r);
    rig_up(&r, NULL);
    s = watch_from(cursor, 1, 0);
    ok(s.n_jobs == JOBS && s.n_wholes == 1,
       "the daemon was started again: all comes");
}

static void keep_one(struct ctld_conf *conf)
{
    conf->max_ended = 1;
}

/* A job that ended, and left the memory, is not said to who was away. */
static void test_too_old(void)
{
    rig_down(&r);
    r.tweak = keep_one;
    rig_up(&r, NULL);
    char cursor[64];
    struct said s = watch("cursor=new", 1, 0);
    (void)snprintf(cursor, sizeof(cursor), "%s", s.cursor);
    cancel(1);
    /* A job leaves with the events of others. */
    for (int id = JOBS + 1; id < JOBS + JOBS_MORE; id++) {
        submit();
        cancel(id);
        s = watch_from(cursor, 1, 0);
        if (s.n_wholes == 1)
            break;
    }
    is_int(s.n_wholes, 1, "a cursor from before a job left is too old");
    s = watch_from(s.cursor, 1, 0);
    is_int(s.n_wholes, 0, "the one that it got is not");
}

/* Changes that are no events count, too. */
static void test_past(void)
{
    struct watch_past p = {.life = 10, .first_seq = 7};
    struct watch_known known;
    struct error err = ERROR_INIT;
    watch_past_changed(&p, 1);
    watch_past_changed(&p, 2);
    ok(watch_past_known(&p, -1, "a.1", &known, &err) == 0 && known.change == 1,
       "a cursor is read: %s", err.msg);
    ok(watch_past_knows(&p, known, 1) && !watch_past_knows(&p, known, 2) &&
           watch_past_knows(&p, known, 3),
       "the job that changed after it is not known");
    ok(watch_past_known(&p, 7, NULL, &known, &err) == 0 &&
           watch_past_knows(&p, known, 2),
       "by events it is: it has had none");
    watch_past_leaves(&p, 2);
    ok(watch_past_known(&p, -1, "a.1", &known, &err) == 0 && known.change < 0,
       "it has left: all has to come");
    watch_past_clear(&p);
}

int main(void)
{
    char cursor[64];
    (void)signal(SIGPIPE, SIG_IGN); /* of a stream that is left */
    test_past();
    rig_init(&r);
    rig_up(&r, NULL);
    for (int i = 0; i < JOBS; i++)
        submit();
    test_back(cursor);
    test_strange(cursor);
    test_too_old();
    rig_down(&r);
    rig_clear(&r);
    return tap_done();
}
