/* backup.c - F07: a copy that is taken while rows and events go on being
 * written is of one moment: it has what was acknowledged before it was asked
 * for, and no attempt's end without the rows that came before it. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/unit/db/files.h"

enum { BACKUPS = 4, MANY = 60000, BATCH = 1000 };

static struct store *store;
static atomic_bool is_over;
static atomic_llong acked; /* the last job whose events are durable */
static struct error why;   /* the writer's; read when it has ended */

static int put_rows(uint64_t job, int64_t n, struct error *err)
{
    static struct metric_row rows[BATCH];
    for (int64_t at = 0; at < n; at += BATCH) {
        size_t k = 0;
        for (; k < BATCH && at + (int64_t)k < n; k++)
            rows[k] = (struct metric_row){
                .kind = METRIC_ITERATION,
                .iteration = {.iteration = at + (int64_t)k, .t_iter = 1}};
        if (store->metrics->rows(store, job, 1, rows, k, NULL, err) < 0)
            return -1;
    }
    return 0;
}

/* A job: first its row, then its two events. */
static void *write_on(void *arg)
{
    (void)arg;
    for (int64_t b = 2; !atomic_load(&is_over); b++) {
        struct store_event events[] = {
            {.job = (uint64_t)b, .ev = EV_STALL, .at_s = 1},
            {.job = (uint64_t)b, .ev = EV_STALL, .at_s = 2}};
        struct store_job job = {.id = (uint64_t)b, .name = "n", .submit_s = 1};
        struct store_batch batch = {
            .events = events, .n_events = 2, .jobs = &job, .n_jobs = 1};
        if (put_rows((uint64_t)b, 1, &why) < 0 ||
            store->ops->append(store, &batch, &why) < 0)
            break;
        atomic_store(&acked, b);
    }
    return NULL;
}

/* The number that the statement gives, of both files of a copy. */
static int64_t ask(const char *dir, const char *text)
{
    char sql_text[512];
    sqlite3 *h = NULL;
    sqlite3_stmt *st = NULL;
    int64_t n = -1;
    (void)snprintf(sql_text, sizeof(sql_text), "%.200s/state.db", dir);
    int rc = sqlite3_open(sql_text, &h);
    (void)snprintf(sql_text, sizeof(sql_text),
                   "ATTACH '%.200s/metrics.db' AS m", dir);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(h, sql_text, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(h, text, -1, &st, NULL);
    if (rc == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        n = sqlite3_column_int64(st, 0);
    else
        tap_diag("%s: %s", text, sqlite3_errmsg(h));
    (void)sqlite3_finalize(st);
    (void)sqlite3_close(h);
    return n;
}

static void look_at(const char *copy, int64_t told)
{
    is_int(ask(copy, "SELECT count(*) < 1 FROM m.v_iteration WHERE job = 1"), 0,
           "  it has the many rows");
    int64_t last = ask(copy, "SELECT coalesce(max(job), 0) FROM v_event");
    ok(last >= told, "  what was acknowledged before: %lld of %lld",
       (long long)told, (long long)last);
    is_int(ask(copy, "SELECT count(*) FROM (SELECT job FROM v_event"
                     "  GROUP BY job HAVING count(*) <> 2)"),
           0, "  no batch by half");
    is_int(ask(copy, "SELECT count(*) FROM v_event AS e WHERE NOT EXISTS"
                     " (SELECT 1 FROM m.v_iteration AS r"
                     "  WHERE r.job = e.job)"),
           0, "  no event without the row that came before it");
}

/* Until the writer has written more, or has failed. */
static void wait_past(int64_t b)
{
    for (int i = 0; i < 6000 && atomic_load(&acked) <= b; i++)
        (void)usleep(10000);
    ok(atomic_load(&acked) > b, "and it is written on");
}

int main(void)
{
    struct tmp t, copy;
    struct error err = ERROR_INIT;
    pthread_t writer;

    tmp_begin(&t);
    store = must_open(&t);
    if (put_rows(1, MANY, &err) < 0)
        ok(false, "%s", err.msg);
    if (pthread_create(&writer, NULL, write_on, NULL))
        return 1;
    atomic_bool stop = true;
    (void)snprintf(copy.dir, sizeof(copy.dir), "%.40s/none", t.dir);
    ok(store_sqlite_backup(t.dir, copy.dir, &stop, &err) < 0 &&
           err.code == ERR_UNAVAIL && access(copy.dir, F_OK) < 0,
       "who stops is not kept waiting: %s", err.msg);
    err = (struct error)ERROR_INIT;
    for (int i = 0; i < BACKUPS; i++) {
        int64_t told = atomic_load(&acked);
        (void)snprintf(copy.dir, sizeof(copy.dir), "%.40s/copy%d", t.dir, i);
        ok(store_sqlite_backup(t.dir, copy.dir, NULL, &err) == 0,
           "a backup: %s", err.msg);
        look_at(copy.dir, told);
        tmp_end(&copy);
        wait_past(told);
    }
    atomic_store(&is_over, true);
    (void)pthread_join(writer, NULL);
    is_str(why.msg, "", "nobody was in its way");
    store->ops->destroy(store);
    tmp_end(&t);
    return tap_done();
}
