/* serve_queue.c - GET /v1/jobs: the queue, and what has been.
 *
 * A long list is made in slices, between which the loop turns: one of 10,000
 * jobs takes 0.3 s. So it is no picture of one moment. Each job in it is as it
 * was at one, and none is missing or there twice.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/clock.h"
#include "scheduler/ctld/filter.h"
#include "scheduler/ctld/private.h"

/* ---- the list -------------------------------------------------------------
 */
static json_t *queue_head(struct ctld *c, json_t *jobs, int64_t running,
                          int64_t queued)
{
    int64_t total = 0, n_free = 0;
    ctld_slots(c, &total, &n_free);
    return json_pack(
        "{s:s, s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:o}", "schema",
        "mgpu.queue/1", "generated",
        ctld_time(c->parts.clock->wall_s(c->parts.clock)), "cluster",
        c->parts.conf->cluster, "policy", engine_policy_name(c->engine),
        "slots_total", (json_int_t)total, "slots_free", (json_int_t)n_free,
        "running", (json_int_t)running, "queued", (json_int_t)queued,
        "allocator_state", ctld_allocator_state(c), "jobs", jobs);
}

/* One that is being made; where it has come to. */
struct list {
    struct list *next;
    struct ctld *c;
    struct http_exchange *x;
    struct ctld_filter f;
    double since_s;       /* nobody asks for those that ended before */
    uint64_t members;     /* of each job, those that were asked for */
    bool is_counted;      /* of those that fit, the newest are shown */
    int64_t n, skip;      /* that fit, as far as counted; not shown of them */
    uint64_t after, last; /* the jobs between these ids are to come */
    struct buf text;
};

static void list_free(struct list *l)
{
    buf_clear(&l->text);
    free(l);
}

/* The head up to "jobs":[, which it ends with. */
static int add_head(struct list *l, int64_t running, int64_t queued,
                    struct error *err)
{
    json_t *o = queue_head(l->c, json_array(), running, queued);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!text)
        return error_set(err, ERR_NOMEM, "list of jobs");
    int rc = buf_add(&l->text, text, strlen(text) - strlen("]}"), err);
    free(text);
    return rc;
}

static int add_job(struct list *l, const struct job *j, struct error *err)
{
    bool may = engine_may(l->c->engine, j, http_uid(l->x));
    if (l->text.data[l->text.len - 1] != '[' &&
        buf_addstr(&l->text, ",", err) < 0)
        return -1;
    return ctld_add_job(l->c, j, may, l->members, &l->text, err);
}

/* The clock is asked now and then. */
enum { LOOKS = 256 };

/* How many fit. False when there was no time for all. */
static bool count_on(struct list *l, double until_s)
{
    int n_looks = 0;
    const struct job *j = ctld_next_since(l->c, l->after, l->since_s);
    for (; j && j->id <= l->last;
         j = ctld_next_since(l->c, j->id, l->since_s)) {
        l->after = j->id;
        l->n += ctld_filter_fits(l->c, &l->f, j);
        if (++n_looks % LOOKS == 0 && clock_real.now_s(&clock_real) > until_s)
            return false;
    }
    l->is_counted = true;
    l->skip = l->n - l->f.limit;
    l->last = l->after; /* no others than those that were counted */
    l->after = 0;
    return true;
}

/* False when there was no time for all.  err  ERR_NOMEM */
static bool add_on(struct list *l, double until_s, int *ret, struct error *err)
{
    int n_looks = 0;
    const struct job *j = ctld_next_since(l->c, l->after, l->since_s);
    *ret = 0;
    for (; *ret == 0 && j && j->id <= l->last;
         j = ctld_next_since(l->c, j->id, l->since_s)) {
        bool is_shown = ctld_filter_fits(l->c, &l->f, j) && l->skip-- <= 0;
        l->after = j->id;
        if (is_shown)
            *ret = add_job(l, j, err);
        if ((is_shown || ++n_looks % LOOKS == 0) &&
            clock_real.now_s(&clock_real) > until_s)
            return *ret < 0;
    }
    return true;
}

/* As much as one turn of the loop may do. True when it was answered, and is
 * gone. */
static bool go_on(struct list *l)
{
    double until_s = clock_real.now_s(&clock_real) + CTLD_SLICE_S;
    struct error err = ERROR_INIT;
    int rc = http_is_gone(l->x) ? error_set(&err, ERR_UNAVAIL, "gone") : 0;

    if (rc == 0 && !l->is_counted && !count_on(l, until_s))
        return false;
    if (rc == 0 && !add_on(l, until_s, &rc, &err))
        return false;
    if (rc == 0)
        rc = buf_addstr(&l->text, "]}", &err);
    if (rc == 0)
        http_reply_json(l->x, 200, buf_str(&l->text), l->text.len);
    else
        http_reply_err(l->x, &err);
    list_free(l);
    return true;
}

/* One slice of the oldest, which then waits behind the others. */
static void on_lists(void *arg)
{
    struct ctld *c = arg;
    struct list *l = c->lists;

    if (!l)
        return;
    c->lists = l->next;
    l->next = NULL;
    if (!go_on(l)) {
        struct list **p = &c->lists;
        while (*p)
            p = &(*p)->next;
        *p = l;
    }
    if (c->lists)
        loop_timer_set(c->list_timer, 0);
}

static bool parse_members(struct http_exchange *x, uint64_t *ret)
{
    const char *text = http_query(x, "fields");
    struct error err;
    *ret = CTLD_ALL_MEMBERS;
    if (!text || ctld_members_parse(text, ret, &err) == 0)
        return true;
    http_reply_err(x, &err);
    return false;
}

void serve_queue(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct ctld_filter f;
    int64_t running = 0, queued = 0;
    uint64_t members = 0;
    struct error err = ERROR_INIT;
    if (!ctld_admit(c, x) || !ctld_filter_parse(x, FILTER_OF_LIST, &f) ||
        !parse_members(x, &members))
        return;
    const struct job *j = ctld_next_since(c, 0, INFINITY);
    for (; j; j = ctld_next_since(c, j->id, INFINITY)) {
        running += job_state_is_live(j->state);
        queued += j->state == JOB_QUEUED || j->state == JOB_HELD;
    }
    struct list *l = malloc(sizeof(*l));
    if (l)
        *l = (struct list){.next = c->lists,
                           .c = c,
                           .x = x,
                           .f = f,
                           .since_s = ctld_filter_since(&f),
                           .members = members,
                           .last = engine_last_id(c->engine),
                           .text = BUF_INIT};
    if (!l || add_head(l, running, queued, &err) < 0) {
        if (l)
            list_free(l);
        (void)error_set(&err, ERR_NOMEM, "list of jobs");
        http_reply_err(x, &err);
        return;
    }
    if (go_on(l))
        return;
    c->lists = l;
    loop_timer_set(c->list_timer, 0);
}

int ctld_queue_init(struct ctld *c, struct error *err)
{
    if (loop_timer_create(c->loop, on_lists, c, &c->list_timer, err) < 0)
        return -1;
    loop_source_name(c->list_timer, "lists");
    return 0;
}

void ctld_queue_clear(struct ctld *c)
{
    struct error err;
    (void)error_set(&err, ERR_UNAVAIL, "the daemon is stopping");
    while (c->lists) {
        struct list *l = c->lists;
        c->lists = l->next;
        http_reply_err(l->x, &err);
        list_free(l);
    }
    loop_source_destroy(c->list_timer);
    c->list_timer = NULL;
}
