/* metrics_retention.c - store.metrics_retention through a whole daemon: the
 * rows of a job go when it ended long enough ago, a piece at a time, killed in
 * between or not; the job stays. And nothing goes while the clock is not
 * synchronised. */
#include "tests/unit/ctld/set_clock.h"

enum { ROWS = 3000 };

static struct rig r;

static void keep_ten_days(struct ctld_conf *conf)
{
    conf->metrics_retention_s = 10 * DAY_S;
}

/* ---- a job with rows ------------------------------------------------------
 */
static void send_rows(long long id)
{
    struct buf text = BUF_INIT;
    char path[64];
    for (int i = 1; i <= ROWS; i++)
        if (buf_addf(&text, NULL, "{\"iteration\":%d,\"loss\":1}\n", i) < 0)
            exit(1);
    (void)snprintf(path, sizeof(path), "%lld/1/rows?rank=0&offset=0", id);
    is_int(as_worker(&r, path, buf_str(&text)), 200, "it sends rows");
    buf_clear(&text);
}

static void run_job(long long id)
{
    char at[64];
    is_int(call(&r, "POST", "/v1/jobs", SPEC("one"), NULL), 201, "a job");
    (void)snprintf(at, sizeof(at), "/v1/jobs/%lld", id);
    ok(becomes(&r, at, "\"place\":\"n1:0\""), "  is placed");
    (void)snprintf(at, sizeof(at), "%lld/1/claim", id);
    is_int(as_worker(&r, at, "{\"holder\":\"h 1 1\"}"), 200, "  claimed");
    send_rows(id);
}

static void end_job(long long id)
{
    char at[64];
    (void)snprintf(at, sizeof(at), "%lld/1/report", id);
    is_int(as_worker(&r, at, "{\"exit_code\":0,\"why\":\"\"}"), 200,
           "  reports");
    exits(&r, (uint64_t)id, 0);
    (void)snprintf(at, sizeof(at), "/v1/jobs/%lld", id);
    ok(becomes(&r, at, "\"state\":\"COMPLETED\""), "  and ends");
}

static int n_rows(long long id)
{
    char path[96];
    int n = 0;
    (void)snprintf(path, sizeof(path), "/v1/jobs/%lld/iterations?limit=%d", id,
                   ROWS + 1);
    if (get(&r, path) != 200)
        return -1;
    for (const char *p = buf_str(&r.body); (p = strstr(p, "[1,0,")); p++)
        n++;
    return n;
}

/* Until a look that began after now has ended. */
static void wait_for_look(void)
{
    ok(becomes(&r, "/v1/status", "\"looked\":\""), "all was looked at");
}

static void test_keeps(void)
{
    rig_up(&r, NULL);
    run_job(1);
    end_job(1);
    run_job(2); /* and runs on */
    wait_for_look();
    ok(has(&r, "\"rows_removed\":0"), "nothing is old");
    is_int(n_rows(1), ROWS, "the rows of the first are there");
    ok(has(&r, "\"rows_removed\":false"), "  and it says so");
    rig_down(&r);
    pass_days(20);
}

static int count_row(void *arg, const struct store_cell *cells, size_t n,
                     struct error *err)
{
    (void)cells;
    (void)n;
    (void)err;
    ++*(int *)arg;
    return 0;
}

/* Without a daemon: some pieces, and then no more. */
static void purge_some(void)
{
    struct store *s = NULL;
    struct error err = ERROR_INIT;
    struct store_purge p = {.before_s = set_wall_s(&clock_set) - 10 * DAY_S,
                            .max = 700};
    struct store_query q = {.view = VIEW_ITERATION, .job = 1, .rank = -1};
    int n = 0;
    if (store_sqlite_open(r.dir, &s, &err) < 0 ||
        s->metrics->purge_rows(s, &p, &err) < 0 ||
        s->metrics->purge_rows(s, &p, &err) < 0 ||
        s->metrics->query(s, &q, count_row, &n, &err) < 0)
        ok(false, "%s", err.msg);
    is_int(n, ROWS - 1400, "a life that did not come far");
    s->ops->destroy(s);
}

static void test_removes(void)
{
    rig_up(&r, NULL);
    ok(becomes(&r, "/v1/status", "\"rows_removed\":1600"),
       "the next one finds the rest");
    wait_for_look();
    is_int(n_rows(1), 0, "the first has none");
    ok(has(&r, "\"rows_removed\":true"), "  and it says why");
    is_int(get(&r, "/v1/jobs/1/epochs"), 200, "of epochs");
    ok(has(&r, "\"rows_removed\":true"), "  it says the same");
    is_int(n_rows(2), ROWS, "the second, which runs, has all");
    ok(has(&r, "\"rows_removed\":false"), "  and says so");
    is_int(get(&r, "/v1/jobs/1"), 200, "the job is there");
    ok(has(&r, "COMPLETED"), "as it ended");
    is_int(get(&r, "/v1/jobs/1/events"), 200, "with its events");
    ok(has(&r, "\"finish\""), "all of them");
    is_int(get(&r, "/metrics"), 200, "the metrics");
    ok(has(&r, "mgpu_rows_removed_total 1600\n"), "count them");
    end_job(2);
}

/* A store in which the clock is lost between the first piece and the second. */
static struct metric_store_ops ops;
static int (*store_purge_rows)(struct store *s, struct store_purge *io,
                               struct error *err);

static int lose_clock(struct store *s, struct store_purge *io,
                      struct error *err)
{
    (void)s;
    (void)err;
    atomic_store(&is_synced, false);
    io->n = 0;
    io->is_over = false;
    ops.purge_rows = store_purge_rows;
    return 0;
}

static const struct metric_store_ops *with_lost_clock(
    const struct metric_store_ops *real)
{
    ops = *real;
    store_purge_rows = real->purge_rows;
    ops.purge_rows = lose_clock;
    return &ops;
}

static void nothing_goes(const char *what)
{
    rig_up(&r, NULL);
    ok(becomes(&r, "/v1/status", "\"waits_for_clock\":true"),
       "%s: it waits for the clock", what);
    ok(has(&r, "\"rows_since\":null"), "  nothing counts as old");
    is_int(n_rows(2), ROWS, "  the rows are there");
    ok(has(&r, "\"rows_removed\":false"), "  and it says so");
    is_int(get(&r, "/metrics"), 200, "  the metrics");
    ok(has(&r, "mgpu_rows_removed_total 0\n"), "  count none");
    rig_down(&r);
}

static void test_clock(void)
{
    is_int(n_rows(2), ROWS, "the second has ended just now");
    rig_down(&r);
    set_days(20000);
    atomic_store(&is_synced, false);
    nothing_goes("not synchronised when it starts, and decades ahead");
    nothing_goes("nor when it starts again");
    atomic_store(&is_synced, true);
    r.wrap_metrics = with_lost_clock;
    nothing_goes("not synchronised any more in the middle of a pass");
    r.wrap_metrics = NULL;
    atomic_store(&is_synced, true);
    rig_up(&r, NULL);
    ok(becomes(&r, "/v1/status", "\"rows_removed\":3000"),
       "synchronised: they go");
    ok(has(&r, "\"waits_for_clock\":false"), "  and it says so");
    rig_down(&r);
}

int main(void)
{
    rig_init(&r);
    r.clock = &clock_set;
    r.tweak = keep_ten_days;
    test_keeps();
    purge_some();
    test_removes();
    test_clock();
    rig_clear(&r);
    return tap_done();
}
