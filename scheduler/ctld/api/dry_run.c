/* dry_run.c - POST /v1/dry-run: what would come of a submit.
 *
 * It is read on the submits' thread like any (job_submit.c); the loop then
 * tries it, and says of the job that would wait what GET /v1/jobs/:id/why
 * would say of it. A route of its own: a daemon that has none must not take
 * the question for a submit.
 */
#include "scheduler/ctld/api/dry_run.h"

#include "scheduler/ctld/api/queries.h"
#include "scheduler/ctld/api/why.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/job_list/start_estimates.h"
#include "scheduler/ctld/request/reply.h"
#include "scheduler/engine/explain_sizes.h"

struct dry_run {
    const struct ctld *c;
    const struct engine_sweep *sweep; /* NULL: one job */
    bool is_seed_open;
    json_t *reply; /* owned */
};

/* The members of JOB in wire.h that a job has before it is submitted. */
static json_t *job_of(const json_t *all)
{
    static const char *const keys[] = {
        "name",     "user",           "kind",     "state",     "reason",
        "priority", "gpus_min",       "gpus_max", "limit_s",   "position",
        "task",     "vary",           "account",  "partition", "labels",
        "held_by",  "start_estimate", "begin"};
    json_t *o = json_object();

    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        (void)json_object_set(o, keys[i], json_object_get(all, keys[i]));
    return o;
}

/* The place where the sweep's first job would start; null: it would wait. */
static json_t *start_of(const struct ctld *c, const struct engine_trial *t)
{
    json_t *names = json_array();

    for (int32_t i = 0; i < t->nodes; i++) {
        const struct alloc_node *node =
            engine_node(c->engine, (size_t)t->at[i]);
        (void)json_array_append_new(names, ctld_text(node->name));
    }
    if (t->n_start == 0) {
        json_decref(names);
        return json_null();
    }
    return json_pack("{s:i, s:i, s:i, s:o, s:o}", "gpus",
                     t->nodes * t->gpus_per_node, "nodes", t->nodes,
                     "gpus_per_node", t->gpus_per_node, "gpu_type",
                     ctld_text(t->gpu_type), "on", names);
}

static json_t *spec_of(const struct dry_run *d, const struct job *job)
{
    json_t *spec = queries_spec_json(job);
    json_t *train = json_object_get(spec, "train");

    if (d->is_seed_open && json_object_get(train, "seed"))
        (void)json_object_set_new(train, "seed", json_null());
    return spec;
}

/* Slurm's answer for the size with which the first job would start. */
static json_t *cluster_of(const struct ctld *c, const struct engine_trial *t)
{
    char text[JOB_REASON_CAP];
    int32_t gpus =
        t->n_start > 0 ? t->nodes * t->gpus_per_node : t->first->gpus_min;

    return engine_cluster_says(c->engine, t->first, gpus, text)
               ? ctld_text(text)
               : json_null();
}

static int tell(void *arg, const struct engine_trial *t, struct error *err)
{
    struct dry_run *d = arg;
    const struct job *job = t->waits ? t->waits : t->first;
    json_t *o = why_json(d->c, job, err);
    json_t *id =
        t->alike > 0 ? json_integer((json_int_t)t->alike) : json_null();

    if (!o) {
        json_decref(id);
        return -1;
    }
    (void)json_object_del(o, "since");
    (void)json_object_del(o, "for_s");
    (void)json_object_set_new(o, "schema", json_string("mgpu.dry_run/1"));
    (void)json_object_set_new(o, "fits", json_boolean(t->n_never == 0));
    (void)json_object_set_new(o, "is_sweep", json_boolean(d->sweep != NULL));
    (void)json_object_set_new(o, "n_tasks", json_integer((json_int_t)t->n));
    (void)json_object_set_new(
        o, "max_parallel", json_integer(d->sweep ? d->sweep->max_parallel : 0));
    (void)json_object_set_new(o, "n_tried",
                              json_integer((json_int_t)t->n_tried));
    (void)json_object_set_new(o, "n_start",
                              json_integer((json_int_t)t->n_start));
    (void)json_object_set_new(o, "start", start_of(d->c, t));
    (void)json_object_set_new(o, "job", job_of(json_object_get(o, "job")));
    (void)json_object_set_new(o, "spec", spec_of(d, t->first));
    (void)json_object_set_new(o, "alike", id);
    (void)json_object_set_new(o, "cluster", cluster_of(d->c, t));
    d->reply = o;
    return 0;
}

void dry_run_reply(struct ctld *c, struct http_exchange *x,
                   const struct engine_submit *req,
                   const struct engine_sweep *sweep, bool is_seed_open)
{
    struct dry_run d = {.c = c, .sweep = sweep, .is_seed_open = is_seed_open};
    struct error err = ERROR_INIT;

    start_estimates_drop(c); /* in the trial there is a job more */
    int rc = engine_dry_run(c->engine, req, sweep, tell, &d, &err);
    start_estimates_drop(c);
    if (rc < 0) {
        json_decref(d.reply);
        http_reply_err(x, &err);
        return;
    }
    ctld_reply(x, 200, d.reply);
}
