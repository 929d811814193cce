/* gpus.c - GET /v1/gpus: which job had which GPU, and when.
 *
 * A cursor (job_cursor.h) yields the jobs of that time. The store has their
 * attempts, with places and times, and the reader's thread reads them. The last
 * iterations of an attempt tell which part of its time it computed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/api/status.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/job_list/job_cursor.h"
#include "scheduler/ctld/job_list/job_filter.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/computing_share.h"
#include "scheduler/ctld/request/reply.h"
#include "slurm/place_text.h"

enum {
    JOBS_MAX = 10000, /* the newest */
    GPUS_MAX = 1024   /* of a node, see place_text.h */
};

static const double usual_s = 3600;

struct had { /* what of a job the reader's thread needs */
    uint64_t id;
    char display[JOB_DISPLAY_CAP], user[32], name[JOB_NAME_CAP];
    int32_t attempt; /* the current, or last, one */
    double start_s;  /* when that got its GPUs; NAN */
    bool may;        /* the caller may see how it does */
};

struct gpus {
    struct task task;
    struct ctld *c;
    struct http_exchange *x;
    struct buf jobs; /* struct had, the newest first */
    struct had job;  /* of them, the one that is looked at */
    double since_s, until_s;
    struct buf out;
    size_t n_holds;
    int rc;
    struct error err;
};

/* ---- on the reader's thread -----------------------------------------------
 */

struct hold {
    int32_t attempt;
    char place[ALLOC_PLACE_CAP];
    double from_s, to_s; /* to: NAN, it has them still */
};

struct holds {
    const struct gpus *g;
    struct buf list; /* struct hold */
};

static int add_attempt(void *arg, const struct store_cell *cells, size_t n,
                       struct error *err)
{
    struct holds *h = arg;
    const struct had *job = &h->g->job;
    const char *place = store_cell_text(cells, n, "place");
    struct hold o = {.attempt = (int32_t)store_cell(cells, n, "attempt")->i,
                     .from_s = store_cell_real(cells, n, "claimed_at"),
                     .to_s = store_cell_real(cells, n, "ended_at")};
    (void)snprintf(o.place, sizeof(o.place), "%s", place ? place : "");
    if (o.attempt == job->attempt && isfinite(job->start_s))
        o.from_s = job->start_s;
    if (isnan(o.from_s))
        o.from_s = store_cell_real(cells, n, "intent_at");
    if (o.place[0] == '\0' || !(o.from_s <= h->g->until_s) ||
        o.to_s < h->g->since_s)
        return 0;
    return buf_add(&h->list, &o, sizeof(o), err);
}

static json_t *indexes_of(const char *node)
{
    unsigned char used[GPUS_MAX] = {0};
    json_t *list = json_array();
    if (place_text_parse(node, used, GPUS_MAX, NULL) < 0)
        return list; /* it was cut there: "..." */
    for (int i = 0; i < GPUS_MAX; i++)
        if (used[i])
            (void)json_array_append_new(list, json_integer(i));
    return list;
}

static int put_hold(struct gpus *g, const struct hold *h, const char *node,
                    double share, struct error *err)
{
    const struct had *job = &g->job;
    size_t len = strcspn(node, ":");
    json_t *o =
        json_pack("{s:I, s:s, s:o, s:o, s:i, s:s%, s:o, s:o, s:o, s:o}", "job",
                  (json_int_t)job->id, "display_id", job->display, "name",
                  ctld_text(job->name), "user", ctld_text(job->user), "attempt",
                  h->attempt, "node", node, len, "gpus", indexes_of(node),
                  "from", ctld_time(h->from_s), "to", ctld_time(h->to_s),
                  "computing", ctld_num(job->may ? share : NAN));
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    int rc = text ? buf_addf(&g->out, err, "%s%s", g->n_holds ? "," : "", text)
                  : error_set(err, ERR_NOMEM, "GPUs");
    g->n_holds++;
    free(text);
    return rc;
}

/* Each node of the place by itself. */
static int put_holds(struct gpus *g, struct hold *h, struct error *err)
{
    struct store *s = g->c->parts.store;
    double share = NAN;
    char *rest = NULL;
    int rc =
        g->job.may ? computing_share(s, g->job.id, h->attempt, &share, err) : 0;
    for (char *node = strtok_r(h->place, " ", &rest); rc == 0 && node;
         node = strtok_r(NULL, " ", &rest))
        if (strcmp(node, "...") != 0)
            rc = put_hold(g, h, node, share, err);
    return rc;
}

/* All that the job had. */
static int put_job(struct gpus *g, struct error *err)
{
    struct store *s = g->c->parts.store;
    struct holds h = {.g = g, .list = BUF_INIT};
    const struct store_query q = {
        .view = VIEW_ATTEMPT, .job = g->job.id, .rank = -1};
    int rc = s->metrics->query(s, &q, add_attempt, &h, err);
    for (size_t i = 0; rc == 0 && i < h.list.len / sizeof(struct hold); i++) {
        struct hold one;
        memcpy(&one, h.list.data + i * sizeof(one), sizeof(one));
        rc = put_holds(g, &one, err);
    }
    buf_clear(&h.list);
    return rc;
}

static void gpus_run(struct task *t)
{
    struct gpus *g = (struct gpus *)t;
    while (g->rc == 0 && g->jobs.len > 0) {
        g->jobs.len -= sizeof(g->job);
        memcpy(&g->job, g->jobs.data + g->jobs.len, sizeof(g->job));
        g->rc = put_job(g, &g->err);
    }
    if (g->rc == 0)
        g->rc = buf_addstr(&g->out, "]}", &g->err);
}

/* ---- on the loop ----------------------------------------------------------
 */

static void gpus_free(struct gpus *g)
{
    buf_clear(&g->out);
    buf_clear(&g->jobs);
    free(g);
}

static void gpus_done(struct task *t)
{
    struct gpus *g = (struct gpus *)t;
    if (g->rc < 0)
        http_reply_err(g->x, &g->err);
    else
        http_reply_json(g->x, 200, buf_str(&g->out), g->out.len);
    gpus_free(g);
}

static bool lived(void *arg, const struct job *j)
{
    const struct gpus *g = arg;
    return j->attempt > 0 && j->submit_s <= g->until_s;
}

static int take_job(void *arg, const struct job *j, struct error *err)
{
    struct gpus *g = arg;
    struct had h = {.id = j->id,
                    .attempt = j->attempt,
                    .start_s = j->start_s,
                    .may = engine_may(g->c->engine, j, http_uid(g->x))};
    (void)job_display_id(j, h.display);
    (void)snprintf(h.user, sizeof(h.user), "%s", j->user);
    (void)snprintf(h.name, sizeof(h.name), "%s", j->name);
    return buf_add(&g->jobs, &h, sizeof(h), err);
}

/* The cursor yields the newest first. */
static bool took_jobs(void *arg, double until_s, const struct error *why)
{
    struct gpus *g = arg;
    struct error err = ERROR_INIT;
    (void)until_s;
    if (!why && work_queue_post(g->c->reader, &g->task, &err) < 0)
        why = &err;
    if (why) {
        http_reply_err(g->x, why);
        gpus_free(g);
    }
    return true;
}

static json_t *drained_of(const struct alloc_node *node)
{
    char place[sizeof(node->drained) + 2];
    (void)snprintf(place, sizeof(place), "n:%s", node->drained);
    return node->gpus_drained > 0 ? indexes_of(place) : json_array();
}

/* The document up to "holds":[, which it ends with. */
static int put_head(struct gpus *g, struct error *err)
{
    size_t n = 0;
    const struct alloc_node *nodes = engine_nodes(g->c->engine, &n);
    json_t *list = json_array();
    int32_t from = 0; /* those of several types are numbered through */
    for (size_t i = 0; i < n; i++) {
        bool is_more = i > 0 && strcmp(nodes[i - 1].name, nodes[i].name) == 0;
        from = is_more ? from + nodes[i - 1].gpus_total : 0;
        (void)json_array_append_new(
            list, json_pack("{s:o, s:o, s:i, s:i, s:o, s:b, s:s}", "name",
                            ctld_text(nodes[i].name), "gpu_type",
                            ctld_text(nodes[i].gpu_type), "gpus_from", from,
                            "gpus_total", nodes[i].gpus_total, "drained",
                            drained_of(&nodes[i]), "is_up", nodes[i].is_up,
                            "state", status_node_state(nodes, n, i)));
    }
    json_t *o = json_pack("{s:s, s:s, s:o, s:o, s:o, s:[]}", "schema",
                          "mgpu.gpus/1", "cluster", g->c->parts.conf->cluster,
                          "since", ctld_time(g->since_s), "until",
                          ctld_time(g->until_s), "nodes", list, "holds");
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    int rc = text ? buf_add(&g->out, text, strlen(text) - strlen("]}"), err)
                  : error_set(err, ERR_NOMEM, "GPUs");
    free(text);
    return rc;
}

void serve_gpus(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    struct job_filter f;
    if (!ctld_admit(c, x) || !job_filter_parse(x, FILTER_OF_LIST, &f))
        return;
    struct gpus *g = malloc(sizeof(*g));
    if (!g) {
        (void)error_set(&err, ERR_NOMEM, "GPUs");
        http_reply_err(x, &err);
        return;
    }
    *g = (struct gpus){.task = {.run = gpus_run, .done = gpus_done},
                       .c = c,
                       .x = x,
                       .until_s = c->parts.clock->wall_s(c->parts.clock)};
    buf_init(&g->jobs);
    buf_init(&g->out);
    if (!isfinite(f.since_s))
        f.since_s = g->until_s - usual_s;
    g->since_s = f.since_s;
    if (put_head(g, &err) < 0) {
        http_reply_err(x, &err);
        gpus_free(g);
        return;
    }
    f.limit = JOBS_MAX;
    const struct job_cursor_conf cursor = {.c = c,
                                           .x = x,
                                           .f = f,
                                           .fits = lived,
                                           .each = take_job,
                                           .end = took_jobs,
                                           .arg = g};
    job_cursor_start(&cursor);
}
