/* serve_queue.c - GET /v1/jobs: the queue, and what has been.
 *
 * A list of 100,000 jobs takes half a second, and is made in slices; see
 * walk.h. The walk comes by the newest first, and the list has them last.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/clock.h"
#include "scheduler/ctld/private.h"
#include "scheduler/ctld/walk.h"

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

/* One that is being made: the newest comes first, and is to stand last. */
struct list {
    struct ctld *c;
    struct http_exchange *x;
    uint64_t members;  /* of each job, those that were asked for */
    struct buf jobs;   /* one after the other */
    struct buf starts; /* size_t: where each begins */
    struct buf text;
};

static void list_free(struct list *l)
{
    buf_clear(&l->jobs);
    buf_clear(&l->starts);
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

static int add_job(void *arg, const struct job *j, struct error *err)
{
    struct list *l = arg;
    bool may = engine_may(l->c->engine, j, http_uid(l->x));
    if (buf_add(&l->starts, &l->jobs.len, sizeof(l->jobs.len), err) < 0)
        return -1;
    return ctld_add_job(l->c, j, may, l->members, &l->jobs, err);
}

/* The clock is asked now and then. */
enum { LOOKS = 256 };

/* The last of the jobs goes to the end of the text. *ret: whether there are
 * none left; false when there was no time for all. */
static int turn_round(struct list *l, double until_s, bool *ret,
                      struct error *err)
{
    size_t from;
    *ret = false;
    for (int n = 1; l->starts.len > 0; n++) {
        l->starts.len -= sizeof(from);
        memcpy(&from, l->starts.data + l->starts.len, sizeof(from));
        if (buf_add(&l->text, l->jobs.data + from, l->jobs.len - from, err) <
                0 ||
            (l->starts.len > 0 && buf_addstr(&l->text, ",", err) < 0))
            return -1;
        l->jobs.len = from;
        if (n % LOOKS == 0 && clock_real.now_s(&clock_real) > until_s)
            return 0;
    }
    *ret = true;
    return buf_addstr(&l->text, "]}", err);
}

static bool end_list(void *arg, double until_s, const struct error *why)
{
    struct list *l = arg;
    struct error err = ERROR_INIT;
    bool is_whole = false;
    if (!why && turn_round(l, until_s, &is_whole, &err) < 0)
        why = &err;
    if (!why && !is_whole)
        return false;
    if (why)
        http_reply_err(l->x, why);
    else
        http_reply_json(l->x, 200, buf_str(&l->text), l->text.len);
    list_free(l);
    return true;
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
        *l = (struct list){.c = c,
                           .x = x,
                           .members = members,
                           .jobs = BUF_INIT,
                           .starts = BUF_INIT,
                           .text = BUF_INIT};
    if (!l || add_head(l, running, queued, &err) < 0) {
        if (l)
            list_free(l);
        (void)error_set(&err, ERR_NOMEM, "list of jobs");
        http_reply_err(x, &err);
        return;
    }
    const struct walk_conf walk = {.c = c,
                                   .x = x,
                                   .f = f,
                                   .is_brief = ctld_members_are_brief(members),
                                   .each = add_job,
                                   .end = end_list,
                                   .arg = l};
    walk_start(&walk);
}
