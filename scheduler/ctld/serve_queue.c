/* serve_queue.c - GET /v1/jobs: the queue, and what has been.
 *
 * A long list is made in slices, between which the loop turns: one of 10,000
 * jobs takes 0.3 s. So it is no picture of one moment. Each job in it is as it
 * was at one, and none is missing or there twice.
 */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jobs/base/clock.h"
#include "scheduler/ctld/private.h"

enum {
    LIST_MAX = 100000,
    GLOB_MAX = 128 /* it is compared with all jobs' names, on the loop */
};

/* ---- which jobs -----------------------------------------------------------
 */
struct filter {
    const char *user, *name; /* name: a glob */
    int64_t uid;             /* -1: any */
    int64_t sweep;           /* 0: any */
    uint32_t states;         /* bits; 0: any */
    double since_s;          /* ended or submitted since; -INFINITY: any */
    int64_t limit;           /* the newest so many */
};

static int parse_states(const char *text, uint32_t *ret, struct error *err)
{
    uint32_t bits = 0;
    while (*text) {
        char word[24];
        size_t n = strcspn(text, ",");
        enum job_state s;
        if (n >= sizeof(word))
            return error_set(err, ERR_INVAL, "state: '%.40s'", text);
        memcpy(word, text, n);
        word[n] = '\0';
        if (job_state_from_name(word, &s) < 0)
            return error_set(err, ERR_INVAL, "state: no '%s'", word);
        bits |= 1u << s;
        text += n + (text[n] == ',');
    }
    *ret = bits;
    return 0;
}

/* RFC 3339 in UTC, or seconds since 1970. */
static int parse_since(const char *text, double *ret, struct error *err)
{
    struct tm tm = {0};
    char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    double s = 0;
    if (end) {
        s = (double)timegm(&tm);
        if (*end == '.')
            s += strtod(end, &end);
        if (strcmp(end, "Z") == 0) {
            *ret = s;
            return 0;
        }
    }
    s = strtod(text, &end);
    if (end == text || *end || !isfinite(s))
        return error_set(err, ERR_INVAL,
                         "since: '%.40s': expected 2026-11-21T10:00:00Z or "
                         "seconds since 1970",
                         text);
    *ret = s;
    return 0;
}

static bool fits(const struct filter *f, const struct job *j)
{
    double seen_s = isfinite(j->end_s) ? j->end_s : INFINITY;
    return (!f->user || strcmp(f->user, j->user) == 0) &&
           (f->uid < 0 || f->uid == j->uid) &&
           (f->sweep == 0 || (uint64_t)f->sweep == j->sweep) &&
           (!f->name || fnmatch(f->name, j->name, 0) == 0) &&
           (!f->states || (f->states >> j->state & 1u)) && seen_s >= f->since_s;
}

static bool parse_filter(struct http_exchange *x, struct filter *f)
{
    struct error err = ERROR_INIT;
    const char *state = http_query(x, "state"), *since = http_query(x, "since");
    const char *user = http_query(x, "user");
    bool is_me = user && strcmp(user, "me") == 0;
    bool is_any = !user || strcmp(user, "all") == 0;
    f->uid = is_me ? http_uid(x) : -1;
    f->user = is_me || is_any ? NULL : user;
    f->name = http_query(x, "name");
    if (f->name && strlen(f->name) > GLOB_MAX) {
        (void)error_set(&err, ERR_INVAL, "name: has more than %d characters",
                        (int)GLOB_MAX);
        http_reply_err(x, &err);
        return false;
    }
    if ((state && parse_states(state, &f->states, &err) < 0) ||
        (since && parse_since(since, &f->since_s, &err) < 0)) {
        http_reply_err(x, &err);
        return false;
    }
    return ctld_query_int(x, "sweep", 1, INT64_MAX, 0, &f->sweep) &&
           ctld_query_int(x, "limit", 1, LIST_MAX, LIST_MAX, &f->limit);
}

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
    struct filter f;
    int64_t skip;         /* of those that fit, the oldest so many */
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
    json_t *o = ctld_job_json(l->c, j, may);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    int rc = text ? 0 : error_set(err, ERR_NOMEM, "list of jobs");
    if (rc == 0 && l->text.data[l->text.len - 1] != '[')
        rc = buf_addstr(&l->text, ",", err);
    if (rc == 0)
        rc = buf_addstr(&l->text, text, err);
    free(text);
    return rc;
}

/* As much as one turn of the loop may do. True when it was answered, and is
 * gone. */
static bool go_on(struct list *l)
{
    double until_s = clock_real.now_s(&clock_real) + CTLD_SLICE_S;
    struct error err = ERROR_INIT;
    const struct job *j = ctld_next_job(l->c, l->after);
    int rc = http_is_gone(l->x) ? error_set(&err, ERR_UNAVAIL, "gone") : 0;

    for (; rc == 0 && j && j->id <= l->last; j = ctld_next_job(l->c, j->id)) {
        l->after = j->id;
        if (!fits(&l->f, j) || l->skip-- > 0)
            continue;
        rc = add_job(l, j, &err);
        if (rc == 0 && clock_real.now_s(&clock_real) > until_s)
            return false;
    }
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

void serve_queue(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct filter f = {.since_s = -INFINITY};
    int64_t running = 0, queued = 0, n = 0;
    uint64_t last = 0;
    struct error err = ERROR_INIT;
    if (!ctld_admit(c, x) || !parse_filter(x, &f))
        return;
    const struct job *j = ctld_next_job(c, 0);
    for (; j; j = ctld_next_job(c, j->id)) {
        running += job_state_is_live(j->state);
        queued += j->state == JOB_QUEUED || j->state == JOB_HELD;
        n += fits(&f, j);
        last = j->id;
    }
    struct list *l = malloc(sizeof(*l));
    if (l)
        *l = (struct list){.next = c->lists,
                           .c = c,
                           .x = x,
                           .f = f,
                           .skip = n - f.limit,
                           .last = last,
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
