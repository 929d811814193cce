/* queue.c - GET /v1/jobs: the queue, and what has been.
 *
 * A list of 100,000 jobs takes half a second, and is made in slices; see
 * job_cursor.h. The cursor yields the newest first, and the list has it last.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/api/status.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/job_list/job_cursor.h"
#include "scheduler/ctld/job_list/job_filter.h"
#include "scheduler/ctld/job_list/job_json.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/free_slots.h"
#include "scheduler/ctld/request/job_lookup.h"
#include "scheduler/ctld/request/job_values.h"
#include "scheduler/ctld/request/reply.h"

static const char end_of_list[] = "]}";

/* ---- the list -------------------------------------------------------------
 */
struct counts {
    int64_t running, runs, queued, held;
};

static struct counts count_jobs(const struct ctld *c)
{
    struct counts n = {.running = 0};
    const struct job *j = ctld_job_next_since(c, 0, INFINITY);
    for (; j; j = ctld_job_next_since(c, j->id, INFINITY)) {
        bool is_pending = job_state_is_pending(j->state);
        n.running += job_state_is_live(j->state) && !is_pending;
        n.runs += job_state_is_live(j->state) && j->is_run;
        n.queued += is_pending;
        n.held += j->state == JOB_HELD;
    }
    return n;
}

static json_t *queue_head(struct ctld *c, json_t *jobs)
{
    const struct counts n = count_jobs(c);
    int64_t total = 0, n_free = 0;
    free_slots_count(c, &total, &n_free);
    return json_pack(
        "{s:s, s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}",
        "schema", "mgpu.queue/1", "generated",
        ctld_time(c->parts.clock->wall_s(c->parts.clock)), "cluster",
        c->parts.conf->cluster, "policy", engine_policy_name(c->engine),
        "slots_total", (json_int_t)total, "slots_free", (json_int_t)n_free,
        "running", (json_int_t)n.running, "runs", (json_int_t)n.runs, "queued",
        (json_int_t)n.queued, "held", (json_int_t)n.held, "allocator_state",
        status_allocator_json(c), "jobs", jobs);
}

/* A list that is being written. The engine gives the newest job first and the
 * list ends with it, so the text grows from its end to its beginning. */
struct list {
    struct ctld *c;
    struct http_exchange *x;
    uint64_t members; /* of each job, those that were asked for */
    struct buf head;  /* the reply up to "jobs":[ */
    struct buf job;   /* the one at hand */
    char *text;       /* [cap], owned; from `from` on it is there */
    size_t cap, from;
    bool has_some;
    struct job_values *values; /* NULL: not asked for; owned */
};

/* A row of a table takes 170 bytes, a whole job a thousand. Pages that are not
 * written to cost nothing. */
enum { JOB_BYTES = 192, FIRST_JOBS = 8192 };

static void list_free(struct list *l)
{
    buf_clear(&l->head);
    buf_clear(&l->job);
    job_values_destroy(l->values);
    free(l->text);
    free(l);
}

static int put_before(struct list *l, const char *bytes, size_t n,
                      struct error *err)
{
    size_t used = l->cap - l->from, cap = l->cap;
    if (n > l->from) {
        while (cap - used < n)
            cap *= 2;
        char *text = malloc(cap);
        if (!text)
            return error_set(err, ERR_NOMEM, "list of jobs");
        memcpy(text + cap - used, l->text + l->from, used);
        free(l->text);
        l->text = text;
        l->from = cap - used;
        l->cap = cap;
    }
    l->from -= n;
    memcpy(l->text + l->from, bytes, n);
    return 0;
}

static int make_head(struct list *l, struct error *err)
{
    json_t *o = queue_head(l->c, json_array());
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!text)
        return error_set(err, ERR_NOMEM, "list of jobs");
    int rc = buf_add(&l->head, text, strlen(text) - strlen(end_of_list), err);
    free(text);
    return rc;
}

static struct list *list_new(const struct list *conf, int64_t limit)
{
    struct list *l = malloc(sizeof(*l));
    if (!l)
        return NULL;
    *l = *conf;
    l->cap = JOB_BYTES * (size_t)(limit < FIRST_JOBS ? limit : FIRST_JOBS) +
             sizeof(end_of_list);
    l->text = malloc(l->cap);
    l->from = l->cap;
    if (l->text && put_before(l, end_of_list, strlen(end_of_list), NULL) == 0)
        return l;
    l->values = NULL; /* still the caller's */
    list_free(l);
    return NULL;
}

static int add_job(void *arg, const struct job *j, struct error *err)
{
    struct list *l = arg;
    bool may = engine_may(l->c->engine, j, http_uid(l->x));
    buf_reset(&l->job);
    if (may && l->values && job_values_add(l->values, j->id, j->attempt, err))
        return -1;
    if (job_json_add(l->c, j, may, l->members, &l->job, err) < 0 ||
        (l->has_some && buf_addstr(&l->job, ",", err) < 0))
        return -1;
    l->has_some = true;
    return put_before(l, l->job.data, l->job.len, err);
}

/* The list, with "values" as its last member. */
static int add_values(const struct list *l, const struct buf *values,
                      struct buf *out, struct error *err)
{
    const size_t jobs = l->cap - l->from - (sizeof(end_of_list) - 1);
    if (buf_add(out, l->head.data, l->head.len, err) < 0 ||
        buf_add(out, l->text + l->from, jobs, err) < 0 ||
        buf_addstr(out, "],\"values\":", err) < 0 ||
        buf_add(out, values->data, values->len, err) < 0)
        return -1;
    return buf_addstr(out, "}", err);
}

static void values_ready(void *arg, const struct buf *values,
                         const struct error *why)
{
    struct list *l = arg;
    struct buf out = BUF_INIT;
    struct error err = ERROR_INIT;
    if (!why && add_values(l, values, &out, &err) < 0)
        why = &err;
    if (why) {
        http_reply_err(l->x, why);
        buf_clear(&out);
    } else {
        const size_t len = out.len;
        char *memory = buf_detach(&out);
        http_reply_own(l->x, memory, memory, len);
    }
    list_free(l);
}

static bool end_list(void *arg, double until_s, const struct error *why)
{
    struct list *l = arg;
    struct error err = ERROR_INIT;
    (void)until_s;
    if (!why && l->values) {
        if (job_values_read(l->values, l->c, l->x, values_ready, l, &err) == 0)
            return true;
        why = &err;
    }
    if (!why && put_before(l, l->head.data, l->head.len, &err) < 0)
        why = &err;
    if (why) {
        http_reply_err(l->x, why);
    } else {
        http_reply_own(l->x, l->text, l->text + l->from, l->cap - l->from);
        l->text = NULL;
    }
    list_free(l);
    return true;
}

static bool parse_members(struct http_exchange *x, uint64_t *ret)
{
    const char *text = http_query(x, "fields");
    struct error err;
    *ret = JOB_JSON_ALL_MEMBERS;
    if (!text || job_json_members(text, ret, &err) == 0)
        return true;
    http_reply_err(x, &err);
    return false;
}

void serve_queue(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct job_filter f;
    uint64_t members = 0;
    struct error err = ERROR_INIT;
    if (!ctld_admit(c, x) || !job_filter_parse(x, FILTER_OF_LIST, &f) ||
        !parse_members(x, &members))
        return;
    struct job_values *values = NULL;
    if (http_query(x, "values") &&
        job_values_create(http_query(x, "values"), &values, &err) < 0) {
        http_reply_err(x, &err);
        return;
    }
    struct list *l = list_new(
        &(struct list){.c = c, .x = x, .members = members, .values = values},
        f.limit);
    if (!l || make_head(l, &err) < 0) {
        if (l)
            list_free(l);
        else
            job_values_destroy(values);
        (void)error_set(&err, ERR_NOMEM, "list of jobs");
        http_reply_err(x, &err);
        return;
    }
    const struct job_cursor_conf cursor = {
        .c = c,
        .x = x,
        .f = f,
        .is_brief = !values && job_json_members_are_brief(members),
        .each = add_job,
        .end = end_list,
        .arg = l};
    job_cursor_start(&cursor);
}
