/* usage_report.c - see usage_report.h. The reader's thread reads v_usage and
 * the last iterations of each attempt. */
#include "scheduler/ctld/usage/usage_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/computing_share.h"
#include "scheduler/ctld/request/reply.h"
#include "scheduler/ctld/usage/usage_sums.h"

/* A share takes some 0.2 ms, a name less, and other queries wait. */
enum { SHARES_MAX = 10000, NAMES_MAX = 10000 };
static const double usual_s = 30 * 86400.0;

struct report {
    struct task task;
    struct ctld *c;
    struct http_exchange *x;
    int64_t uid; /* whose jobs are measured; -1: all */
    struct usage_sums sums;
    int rc;
    struct error err;
};

struct naming { /* of the sum `at` */
    struct usage_sums *sums;
    size_t at;
};

/* ---- on the reader's thread -----------------------------------------------
 */
static int add_row(void *arg, const struct store_cell *cells, size_t n,
                   struct error *err)
{
    struct report *r = arg;
    struct usage_attempt a = usage_attempt_of(cells, n);
    a.is_closed = r->uid >= 0 && a.uid != r->uid;
    if (a.is_closed)
        a.class = NULL; /* it tells the program, the model and the data */
    return usage_sums_add(&r->sums, &a, err);
}

/* The newest attempts; a node of an attempt shares its part with others. */
static int measure(struct report *r, struct error *err)
{
    size_t n = r->sums.parts.len / sizeof(struct usage_part), n_shares = 0;
    struct usage_part part, last = {.job = 0};
    double share = NAN;
    while (n-- > 0) {
        memcpy(&part, r->sums.parts.data + n * sizeof(part), sizeof(part));
        bool is_same = part.job == last.job && part.attempt == last.attempt;
        if (!is_same && ++n_shares > SHARES_MAX)
            break;
        if (!is_same && computing_share(r->c->parts.store, part.job,
                                        part.attempt, &share, err) < 0)
            return -1;
        usage_sums_measure(&r->sums, &part, share);
        last = part;
    }
    return 0;
}

struct earlier {
    int32_t than;
    bool was_claimed;
};

static int earlier_row(void *arg, const struct store_cell *cells, size_t n,
                       struct error *err)
{
    struct earlier *e = arg;
    const struct usage_attempt a = usage_attempt_of(cells, n);
    (void)err;
    e->was_claimed =
        e->was_claimed || (a.attempt < e->than && !isnan(a.claim_s));
    return 0;
}

/* Few: jobs that had an attempt that ended before the period, and a later one
 * that was claimed in it. A node of an attempt shares its part with others. */
static int count_waits(struct report *r, struct error *err)
{
    struct store *s = r->c->parts.store;
    size_t n = r->sums.waits.len / sizeof(struct usage_wait);
    struct usage_wait wait;
    for (size_t i = 0; i < n; i++) {
        memcpy(&wait, r->sums.waits.data + i * sizeof(wait), sizeof(wait));
        const struct store_query q = {
            .view = VIEW_USAGE, .job = wait.job, .rank = -1};
        struct earlier e = {.than = wait.attempt};
        if (s->metrics->query(s, &q, earlier_row, &e, err) < 0)
            return -1;
        if (!e.was_claimed)
            usage_sums_wait(&r->sums, &wait);
    }
    return 0;
}

static int take_name(void *arg, const struct store_cell *cells, size_t n,
                     struct error *err)
{
    struct naming *to = arg;
    for (size_t i = 0; i < n; i++)
        if (strcmp(cells[i].name, "name") == 0 && cells[i].kind == CELL_TEXT)
            return usage_sums_name(to->sums, to->at, cells[i].s, err);
    return 0;
}

/* A class of commands has only digits that tell it from others: the name of its
 * newest job says what it is. A job that was removed has none. */
static int name_classes(struct report *r, struct error *err)
{
    struct store *s = r->c->parts.store;
    size_t n = r->sums.by == USAGE_CLASS ? r->sums.n : 0;
    struct naming to = {.sums = &r->sums};
    for (to.at = n > NAMES_MAX ? n - NAMES_MAX : 0; to.at < n; to.at++) {
        const struct store_query q = {
            .view = VIEW_JOB, .job = r->sums.v[to.at].last_job, .rank = -1};
        if (r->sums.v[to.at].name[0] &&
            s->metrics->query(s, &q, take_name, &to, err) < 0)
            return -1;
    }
    return 0;
}

static void report_run(struct task *t)
{
    struct report *r = (struct report *)t;
    struct store *s = r->c->parts.store;
    /* The key is a whole number, and an end in the same second may count. */
    const struct store_query q = {
        .view = VIEW_USAGE, .rank = -1, .after = (int64_t)r->sums.since_s - 1};
    r->rc = s->metrics->query(s, &q, add_row, r, &r->err);
    if (r->rc == 0)
        r->rc = count_waits(r, &r->err);
    if (r->rc == 0)
        r->rc = measure(r, &r->err);
    if (r->rc == 0)
        r->rc = name_classes(r, &r->err);
}

/* ---- on the loop ----------------------------------------------------------
 */
static void report_free(struct report *r)
{
    usage_sums_clear(&r->sums);
    free(r);
}

static void report_done(struct task *t)
{
    static const char *const words[] = {"user", "account", "class", "node"};
    struct report *r = (struct report *)t;
    if (r->rc < 0)
        http_reply_err(r->x, &r->err);
    else
        ctld_reply(r->x, 200,
                   json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "schema",
                             "mgpu.usage/1", "cluster",
                             r->c->parts.conf->cluster, "by", words[r->sums.by],
                             "since", ctld_time(r->sums.since_s), "until",
                             ctld_time(r->sums.until_s), "rows",
                             usage_sums_rows(&r->sums)));
    report_free(r);
}

static int parse(struct http_exchange *x, enum usage_by *ret, struct error *err)
{
    const char *word = http_query(x, "by");
    *ret = USAGE_USER;
    if (!word || usage_by_of(word, ret) == 0)
        return 0;
    return error_set(err, ERR_INVAL,
                     "by: '%.40s': expected user, account, class or node",
                     word);
}

void serve_usage(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    enum usage_by by;
    double now_s = c->parts.clock->wall_s(c->parts.clock);
    double since_s = now_s - usual_s;
    if (!ctld_admit(c, x) || !ctld_query_since(x, &since_s))
        return;
    if (http_uid(x) == HTTP_NOBODY) {
        (void)error_set(&err, ERR_DENIED, "GPU-hours are their users'");
        http_reply_err(x, &err);
        return;
    }
    if (parse(x, &by, &err) < 0) {
        http_reply_err(x, &err);
        return;
    }
    struct report *r = malloc(sizeof(*r));
    if (!r) {
        (void)error_set(&err, ERR_NOMEM, "usage");
        http_reply_err(x, &err);
        return;
    }
    int64_t uid = http_uid(x);
    bool sees_all =
        !c->parts.conf->serves_all || engine_is_admin(c->engine, uid);
    *r = (struct report){.task = {.run = report_run, .done = report_done},
                         .c = c,
                         .x = x,
                         .uid = sees_all ? -1 : uid};
    usage_sums_init(&r->sums, by, fmin(fmax(since_s, 1), fmax(now_s, 1)),
                    now_s);
    if (work_queue_post(c->reader, &r->task, &err) < 0) {
        http_reply_err(x, &err);
        report_free(r);
    }
}
