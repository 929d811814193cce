/* check_summary_sqlite.c - see check_summary_sqlite.h.
 *
 * Readers use a line instead of a job's events, so both must agree. The check
 * compares it with the job's rows, which check_log_sqlite.c and
 * check_sum_sqlite.c compare with the events, and with the events for members
 * that the rows lack. */
#include "db/sqlite/check_summary_sqlite.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "jobs/wire/json_scan.h"

/* In the order of the columns from FIRST on. */
static const struct {
    const char *name;
    enum { TEXT, INT, REAL, YES } kind;
    int64_t absent; /* the number for which the member is omitted; NULL also
                     * means that */
} parts[] = {
    {"state", TEXT, 0},
    {"uid", INT, 0},
    {"name", TEXT, 0},
    {"user", TEXT, 0},
    {"kind", TEXT, 0},
    {"reason", TEXT, 0},
    {"reported", YES, 0},
    {"place", TEXT, 0},
    {"priority", INT, 0},
    {"gpus_min", INT, 0},
    {"gpus_max", INT, 0},
    {"gpus", INT, 0},
    {"attempt", INT, 0},
    {"exit_code", INT, -1},
    {"sweep", INT, 0},
    {"task", INT, 0},
    {"number", INT, 0},
    {"submit_s", REAL, 0},
    {"start_s", REAL, 0},
    {"end_s", REAL, 0},
    {"limit_s", REAL, 0},
    {"iteration", INT, 0},
    {"iterations_total", INT, 0},
    {"epoch", INT, 0},
    {"epochs_total", INT, 0},
    {"loss", REAL, 0},
    {"t_iter", REAL, 0},
    {"eval_loss", REAL, 0},
    {"eval_accuracy", REAL, 0},
};
enum { JOB, LINE, IS_ARCHIVED, HAS_SUBMIT, FIRST };
enum { N_PARTS = sizeof(parts) / sizeof(parts[0]) };

/* The last event is the one that ended the job: only that one has the
 * progress. */
#define SAID(name) " json_extract(e.detail, '$." name "')"
#define ASKED(path) " json_extract(s.detail, '$." path "')"
static const char lines[] =
    "SELECT l.job, l.line, a.job IS NOT NULL, s.seq IS NOT NULL,"
    " j.state, coalesce(j.uid, -1), j.name, j.user, nullif(j.kind, 'cv'), "
    "j.reason,"
    " EXISTS (SELECT 1 FROM event AS r WHERE r.job = l.job"
    "  AND r.event = 'report' AND r.attempt = j.attempt),"
    " t.place, j.priority, j.gpus_min, j.gpus_max, j.gpus, j.attempt,"
    " j.exit_code," ASKED("sweep.id") "," ASKED(
        "sweep.task") ","
                      " CASE WHEN substr(" ASKED(
                          "sweep.vary") ", 1, 10) = '{\"array\":\"'"
                                        "  THEN CAST(" ASKED(
                                            "sweep.vary.array") " AS INTEGER)"
                                                                "  ELSE" ASKED(
                                                                    "sweep."
                                                                    "task") " E"
                                                                            "ND"
                                                                            ","
                                                                            " j"
                                                                            ".s"
                                                                            "ub"
                                                                            "mi"
                                                                            "tt"
                                                                            "ed"
                                                                            "_a"
                                                                            "t,"
                                                                            " j"
                                                                            ".s"
                                                                            "ta"
                                                                            "rt"
                                                                            "ed"
                                                                            "_a"
                                                                            "t,"
                                                                            " j"
                                                                            ".e"
                                                                            "nd"
                                                                            "ed"
                                                                            "_a"
                                                                            "t"
                                                                            "," ASKED("limit_s") "," SAID("iteration") "," SAID("iterations_total") "," SAID("epoch") "," SAID("epochs_total") "," SAID(
                                                                                "loss") "," SAID("t_iter") "," SAID("eval_loss") "," SAID("eval_accuracy") " FROM line AS l"
                                                                                                                                                           " LEFT JOIN archived AS a ON a.job = l.job"
                                                                                                                                                           " LEFT JOIN job AS j ON j.job = l.job"
                                                                                                                                                           " LEFT JOIN attempt AS t ON t.job = j.job AND t.attempt = j.attempt"
                                                                                                                                                           " LEFT JOIN event AS s ON s.job = l.job AND s.event = 'submit'"
                                                                                                                                                           "  AND json_valid(s.detail)"
                                                                                                                                                           " LEFT JOIN event AS e ON e.seq = (SELECT max(seq) FROM event AS o"
                                                                                                                                                           "  WHERE o.job = l.job AND o.event IN"
                                                                                                                                                           "  ('finish', 'fail', 'killed', 'expire', 'lost', 'cancel'))"
                                                                                                                                                           "  AND json_valid(e.detail)";

static bool is_number(const struct member *m)
{
    return m->kind == MEMBER_INT || m->kind == MEMBER_REAL;
}

/* SQLite may read a number from JSON as the neighbouring double. */
static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(b);
}

static bool is_same(size_t i, const struct member *m, sqlite3_stmt *st)
{
    int at = FIRST + (int)i;
    bool is_null = sqlite3_column_type(st, at) == SQLITE_NULL;
    const char *text;
    switch (parts[i].kind) {
    case TEXT:
        text = (const char *)sqlite3_column_text(st, at);
        if (!text || !*text)
            return m->kind == MEMBER_NONE;
        return m->kind == MEMBER_TEXT && m->len == strlen(text) &&
               memcmp(m->text, text, m->len) == 0;
    case YES:
        return sqlite3_column_int(st, at) ? m->kind == MEMBER_TRUE
                                          : m->kind == MEMBER_NONE;
    case REAL:
        if (is_null)
            return m->kind == MEMBER_NONE;
        return is_number(m) && is_near(m->x, sqlite3_column_double(st, at));
    case INT:
        break;
    }
    int64_t n = is_null ? parts[i].absent : sqlite3_column_int64(st, at);
    if (n == parts[i].absent)
        return m->kind == MEMBER_NONE;
    return m->kind == MEMBER_INT && m->n == n;
}

/* The first member that differs; NULL: none. */
static const char *other_part(const struct members *m, sqlite3_stmt *st)
{
    size_t known = 0;
    for (size_t i = 0; i < N_PARTS; i++) {
        const struct member v = members_get(m, parts[i].name);
        if (!is_same(i, &v, st))
            return parts[i].name;
        known += v.kind != MEMBER_NONE;
    }
    size_t n = m->o ? json_object_size(m->o) : m->n;
    return n == known ? NULL : "an unknown member";
}

static void check_line(struct findings *f, sqlite3_stmt *st)
{
    const long long job = sqlite3_column_int64(st, JOB);
    const char *text = (const char *)sqlite3_column_text(st, LINE);
    struct members m;
    if (!sqlite3_column_int(st, IS_ARCHIVED)) {
        check_finding(f, "I6: job %lld has a summary line but is not archived",
                      job);
        return;
    }
    if (!sqlite3_column_int(st, HAS_SUBMIT))
        return; /* its events are damaged; another check reports that */
    if (!text || json_members_read(text, &m) < 0) {
        check_finding(f, "job %lld: its summary line is damaged", job);
        return;
    }
    const char *other = other_part(&m, st);
    if (other)
        check_finding(
            f, "I6: job %lld: its summary line disagrees with its events: %s",
            job, other);
    json_members_clear(&m);
}

int check_lines(struct findings *f, const struct db *d, struct error *err)
{
    sqlite3_stmt *st = NULL;
    int rc;
    if (db_prepare(d, lines, &st, err) < 0)
        return -1;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW)
        check_line(f, st);
    if (rc != SQLITE_DONE)
        check_finding(f, "%s: %s", d->name, sqlite3_errmsg(d->h));
    sqlite3_finalize(st);
    return 0;
}
