/* man.c - mgpu-db(5) names the views and columns that there are, in their
 * order, and its examples run. */
#include <sqlite3.h>

#include "db/view.h"
#include "jobs/base/buf.h"
#include "tests/tap.h"
#include "tests/unit/db/tmp.h"

static char *read_page(void)
{
    const char *src = getenv("MGPU_SRC");
    struct error err = ERROR_INIT;
    struct buf page = BUF_INIT;
    char path[512];

    (void)snprintf(path, sizeof(path), "%s/man/mgpu-db.5", src ? src : ".");
    if (buf_read_file(&page, path, 1 << 20, &err) < 0) {
        ok(false, "%s", err.msg);
        exit(1);
    }
    return buf_detach(&page);
}

/* The rest of the line after `word`, when the line begins with it. */
static bool begins(const char *line, const char *word, char *rest, size_t cap)
{
    size_t n = strlen(word);

    if (strncmp(line, word, n) != 0)
        return false;
    (void)snprintf(rest, cap, "%.*s", (int)strcspn(line + n, "\n"), line + n);
    return true;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

static void test_columns(const char *page)
{
    int view = -1, column = 0;
    char word[64];

    for (const char *l = page; *l; l = next_line(l)) {
        bool ss = begins(l, ".Ss ", word, sizeof(word));
        if ((ss || strncmp(l, ".Sh FILES", 9) == 0) && view >= 0)
            ok(!views[view].columns[column], "%s has all columns",
               views[view].name);
        if (strncmp(l, ".Sh FILES", 9) == 0)
            break;
        if (ss) {
            view++;
            column = 0;
            is_str(word, view < VIEW_N ? views[view].name : "none", "view");
            if (view >= VIEW_N)
                return;
        } else if (view >= 0 && begins(l, ".It Va ", word, sizeof(word))) {
            const char *want = views[view].columns[column];
            is_str(word, want ? want : "none", views[view].name);
            if (!want)
                return;
            column++;
        }
    }
    is_int(view, VIEW_N - 1, "the page has all views");
}

/* Each event and state has to be named as well. */
static void test_words(const char *page)
{
    char word[64];

    for (int e = 0; e < EV_N; e++) {
        (void)snprintf(word, sizeof(word), "\n.Ql %s",
                       job_event_name((enum job_event)e));
        ok(strstr(page, word), "event %s", word + 5);
    }
    for (int s = JOB_QUEUED; s < JOB_STATE_N; s++) {
        (void)snprintf(word, sizeof(word), "\n.Ql %s",
                       job_state_name((enum job_state)s));
        ok(strstr(page, word), "state %s", word + 5);
    }
}

/* An example is a call of sqlite3: options, file, and SQL in quotes. */
static void run_example(const char *from, const char *to)
{
    sqlite3 *h = NULL;
    char sql[2048], file[64];
    const char *open = memchr(from, '"', (size_t)(to - from));
    const char *end = to;

    while (end > from && *end != '"')
        end--;
    if (!ok(open && end > open, "an example has its SQL in quotes"))
        return;
    (void)snprintf(sql, sizeof(sql), "%.*s", (int)(end - open - 1), open + 1);
    const char *name = open;
    while (name > from && strncmp(name, "state.db ", 9) != 0 &&
           strncmp(name, "metrics.db ", 11) != 0)
        name--;
    (void)snprintf(file, sizeof(file), "%.*s", (int)strcspn(name, " "), name);
    ok(strncmp(from, "sqlite3 -readonly ", 18) == 0, "reads only");
    int rc = sqlite3_open_v2(file, &h, SQLITE_OPEN_READONLY, NULL);
    char *msg = NULL;
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(h, sql, NULL, NULL, &msg);
    if (!ok(rc == SQLITE_OK, "an example runs on %s", file))
        tap_diag("%s in: %s", msg ? msg : sqlite3_errmsg(h), sql);
    sqlite3_free(msg);
    sqlite3_close(h);
}

static void test_examples(const char *page)
{
    const char *at = strstr(page, ".Sh EXAMPLES");
    int n = 0;

    while (at && (at = strstr(at, ".Bd -literal"))) {
        const char *from = next_line(at);
        const char *to = strstr(from, "\n.Ed");
        if (!to) {
            ok(false, "an example has no end");
            return;
        }
        run_example(from, to);
        at = to;
        n++;
    }
    ok(n >= 5, "%d examples", n);
}

int main(void)
{
    struct tmp t;
    struct error err = ERROR_INIT;
    struct store *s = NULL;
    char *page = read_page();

    tmp_begin(&t);
    if (store_sqlite_open(t.dir, &s, &err) < 0 || chdir(t.dir) < 0)
        return 1;
    test_columns(page);
    test_words(page);
    test_examples(page);
    s->ops->destroy(s);
    tmp_end(&t);
    free(page);
    return tap_done();
}
