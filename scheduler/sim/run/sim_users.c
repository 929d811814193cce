/* sim_users.c - the users of a simulation: they submit the jobs of the trace,
 * and repeat what people did. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "scheduler/engine/resize.h"
#include "scheduler/engine/teach.h"
#include "scheduler/sim/run/sim_world.h"

static const double LIMIT_MAX_S = 365.0 * 86400;
enum { UID_FIRST = 1000, UIDS = 1 << 20 };

struct range {
    int32_t min, max;
};

/* The GPUs that the job asks for. */
static struct range range_of(const struct sim_conf *conf,
                             const struct sim_job *job)
{
    int32_t max = conf->cluster->gpus_total;

    if (conf->is_fixed && job->work_gpus > 0)
        return (struct range){job->work_gpus, job->work_gpus};
    if (conf->request == REQUEST_FIXED)
        return (struct range){conf->request_gpus, conf->request_gpus};
    if (conf->request == REQUEST_TRACE || job->most_gpus == 0)
        return (struct range){job->gpus_min, job->gpus_max};
    return (struct range){1, job->most_gpus < max ? job->most_gpus : max};
}

/* What the job takes on its smallest size, with its start. */
static double longest(const struct sim_world *w, const struct sim_job *job,
                      int32_t gpus)
{
    struct speed_place p = sim_cluster_fit(w->conf->cluster, gpus);
    double run_s = speed_time(w->conf->speed, job, &p, 0, job->work);
    double factor = sim_class_value(&w->conf->slowdowns, job->class, 1);

    return run_s * factor + sim_restart_s(w->conf, job, 1);
}

/* 0: none. One second more than the exact time, so that a job that takes just
 * as long has reported its end when the limit passes. */
static double limit_of(const struct sim_world *w, const struct sim_job *job,
                       int32_t gpus)
{
    double exact_s = longest(w, job, gpus);
    double factor = w->conf->limit_factor > 0 ? w->conf->limit_factor : 1;
    double limit_s;

    /* A recorded limit was for the recorded size. */
    if (job->limit_s > 0 && job->work_gpus > 0 && gpus != job->work_gpus)
        limit_s = job->limit_s * exact_s / longest(w, job, job->work_gpus);
    else if (job->limit_s > 0)
        limit_s = job->limit_s;
    else
        limit_s = ceil(exact_s * factor) + 1;
    return limit_s <= LIMIT_MAX_S ? limit_s : 0;
}

/* The fewest nodes: a job whose GPUs fit on a node is not spread, unless it
 * asked for more nodes. */
static struct range nodes_of(const struct sim_conf *conf,
                             const struct sim_job *job, struct range gpus)
{
    struct speed_place least = sim_cluster_fit(conf->cluster, gpus.min);
    struct speed_place most = sim_cluster_fit(conf->cluster, gpus.max);

    if (gpus.min == gpus.max && job->nodes > least.nodes &&
        job->nodes <= conf->cluster->nodes && gpus.min % job->nodes == 0)
        return (struct range){job->nodes, job->nodes};
    struct range r = {least.nodes > 0 ? least.nodes : 1,
                      most.nodes > 0 ? most.nodes : conf->cluster->nodes};

    r.max = r.max < r.min ? r.min : r.max;
    return r;
}

/* One word of the text. */
static int add_word(const char *text, const char *before, struct buf *out,
                    struct error *err)
{
    char word[3 * SIM_CLASS_CAP];
    size_t n = 0;

    for (const char *p = text; *p && n + 4 < sizeof(word); p++) {
        bool is_odd = *p == ' ' || *p == '/' || *p == '=' || *p == '%';
        n += (size_t)snprintf(word + n, sizeof(word) - n,
                              is_odd ? "%%%02x" : "%c", (unsigned char)*p);
    }
    word[n] = '\0';
    char all[sizeof(word) + 2];
    (void)snprintf(all, sizeof(all), "%s%s", before, word);
    return text_add_json(out, all, err);
}

/* The job's program, which is its class if the trace has none, and its class as
 * a path: so it is a class of its own among those of the program. Another batch
 * is another program: the traces that have one do not say whether it is. */
static int add_command(const struct sim_job *job, struct buf *out,
                       struct error *err)
{
    return add_word(job->program[0] ? job->program : job->class, "", out, err) <
                       0 ||
                   buf_addstr(out, ",", err) < 0 ||
                   add_word(job->class, "./", out, err) < 0 ||
                   (job->of_batch > 0 &&
                    buf_addf(out, err, ",\"b%" PRId32 "\"", job->of_batch) < 0)
               ? -1
               : 0;
}

static int make_spec(const struct sim_world *w, const struct sim_job *job,
                     struct buf *out, struct error *err)
{
    struct range r = range_of(w->conf, job);
    struct range nodes = nodes_of(w->conf, job, r);
    double limit_s = limit_of(w, job, r.min);
    char limit[40] = "null";

    if (limit_s > 0)
        (void)snprintf(limit, sizeof(limit), "\"%.0fs\"", ceil(limit_s));
    return buf_addstr(out, "{\"version\":1,\"name\":", err) < 0 ||
                   text_add_json(out, job->name, err) < 0 ||
                   buf_addstr(out, ",\"kind\":\"command\",\"command\":[", err) <
                       0 ||
                   add_command(job, out, err) < 0 ||
                   buf_addf(
                       out, err,
                       "],\"saves\":true,\"resources\":{\"gpus\":\"%" PRId32
                       "..%" PRId32 "\",\"nodes\":\"%" PRId32 "..%" PRId32
                       "\",\"time_limit\":%s},\"policy\":{\"priority\":"
                       "%" PRId32 "},\"retry\":{\"max\":100,"
                       "\"exclude_node\":false}}",
                       r.min, r.max, nodes.min, nodes.max, limit,
                       job->priority) < 0
               ? -1
               : 0;
}

/* A user's number follows from the name. */
static int64_t uid_of(const char *user)
{
    uint32_t h = 2166136261u;
    for (const char *p = user; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    return UID_FIRST + h % UIDS;
}

static void never_ran(struct sim_world *w, size_t i, const char *why)
{
    struct sim_result *r = &w->out->results[i];

    w->jobs[i].is_over = true;
    w->n_over++;
    r->state = JOB_NEW;
    (void)snprintf(r->reason, sizeof(r->reason), "%.159s", why);
}

static int entered(struct sim_world *w, size_t i, uint64_t id,
                   struct error *err)
{
    w->jobs[i].id = id;
    w->jobs[i].crowd = w->crowd;
    w->of_id[id] = (int32_t)i;
    if (w->conf->speed->ops->beats)
        engine_teach_length(w->engine, id, 1 + (int64_t)w->jobs[i].reported);
    return sim_adapt(w, (int32_t)i, err);
}

static char *spec_of(const struct sim_world *w, const struct sim_job *job)
{
    return w->conf->repeats && job->sized_spec ? job->sized_spec : job->spec;
}

/* All tasks of a sweep. out  ret_id  of the first one */
static int submit_sweep(struct sim_world *w, const struct engine_submit *req,
                        const struct sim_job *first, uint64_t *ret_id,
                        struct error *err)
{
    size_t n = (size_t)first->n_tasks;
    struct engine_task *tasks = calloc(n, sizeof(*tasks));
    struct engine_sweep sweep = {.tasks = tasks,
                                 .n = n,
                                 .max_parallel = first->max_parallel,
                                 .stop_on_fail = first->stop_on_fail};

    if (!tasks)
        return error_set(err, ERR_NOMEM, "sweep of %zu tasks", n);
    for (size_t k = 0; k < n; k++)
        tasks[k] = (struct engine_task){.spec = spec_of(w, &first[k]),
                                        .vary = first[k].vary};
    int rc = engine_submit_sweep(w->engine, req, &sweep, ret_id, NULL, err);
    free(tasks);
    return rc;
}

int sim_submit(struct sim_world *w, struct error *err)
{
    size_t i = w->n_submitted;
    const struct sim_job *job = &w->conf->trace->jobs[i];
    size_t n = job->n_tasks > 0 ? (size_t)job->n_tasks : 1;
    struct buf spec = BUF_INIT;
    struct error why = ERROR_INIT;
    uint64_t id = 0;
    char key[32];

    w->n_submitted += n;
    (void)snprintf(key, sizeof(key), "k%zu", i);
    if (!job->spec && make_spec(w, job, &spec, err) < 0) {
        buf_clear(&spec);
        return -1;
    }
    struct engine_submit req = {.uid = job->spec ? job->uid : uid_of(job->user),
                                .user = job->user,
                                .key = key,
                                .spec = job->spec ? spec_of(w, job)
                                                  : buf_str(&spec)};
    if (job->id > 0)
        engine_skip_to(w->engine, job->id);
    int rc = job->n_tasks > 0 ? submit_sweep(w, &req, job, &id, &why)
                              : engine_submit(w->engine, &req, &id, NULL, &why);
    buf_clear(&spec);
    if (rc < 0 && why.code == ERR_NOMEM)
        return error_set(err, ERR_NOMEM, "%s", why.msg);
    if (rc == 0 && id + n - 1 > w->last_id)
        return error_set(err, ERR_INTERNAL, "job %" PRIu64 " of %" PRIu64, id,
                         w->last_id);
    for (size_t k = 0; k < n; k++)
        if (rc < 0)
            never_ran(w, i + k, why.msg);
        else if (entered(w, i + k, id + k, err) < 0)
            return -1;
    return 0;
}

/* Whether an action ends an attempt that has not begun: its job is pending, or
 * the attempt before is still ending. The engine takes it even so: such a job
 * needs no requeue, and gets its new size. */
static bool comes_too_early(const struct sim_world *w,
                            const struct sim_action *a)
{
    const struct job *job = engine_job(w->engine, w->jobs[a->job].id);

    return a->ends && job && (job->state == JOB_QUEUED || job->requeue_asked);
}

/* What does not apply here, a cancel of a job that has ended meanwhile, is
 * left out and counted. */
int sim_act(struct sim_world *w, struct error *err)
{
    const struct sim_action *a = &w->conf->actions[w->n_action++];
    int rc = 0;

    if (a->act == ACT_POLICY) {
        w->engine_conf.limits = a->policy->limits;
        w->engine_conf.preempt = a->policy->preempt;
        w->engine_conf.goodput = a->policy->goodput;
        w->engine_conf.fair_share = a->policy->fair_share;
        return engine_set_policy(w->engine, a->policy->policy, err);
    }
    uint64_t id = w->jobs[a->job].id;
    if (id == 0 || w->jobs[a->job].is_over) {
        w->out->n_not_applied++;
        return 0;
    }
    struct error why = ERROR_INIT;
    bool is_lost = comes_too_early(w, a);
    switch (a->act) {
    case ACT_CANCEL:
        rc = engine_cancel(w->engine, id, 0, &why);
        break;
    case ACT_HOLD:
    case ACT_RELEASE:
        rc = engine_hold(w->engine, id, 0, a->act == ACT_HOLD, &why);
        break;
    case ACT_PRIORITY:
        rc = engine_prioritise(w->engine, id, 0, a->priority, &why);
        break;
    case ACT_REQUEUE:
        rc = engine_requeue(w->engine, id, 0, &why);
        break;
    case ACT_UPDATE:
        rc = engine_update(w->engine, id, 0, &a->update, &why);
        break;
    case ACT_POLICY: /* above */
        break;
    case ACT_RESIZE: {
        const struct engine_size to = {.gpus = a->gpus, .nodes = a->nodes};
        const char *user = w->conf->trace->jobs[a->job].user;
        rc = engine_resize(w->engine, id, 0, user, &to, &why);
        /* The next attempt keeps the size then, and is repeated. */
        if (rc < 0 && a->ends && why.code != ERR_NOMEM) {
            is_lost = true;
            rc = engine_requeue(w->engine, id, 0, &why);
        }
        break;
    }
    }
    if (rc < 0 && why.code == ERR_NOMEM)
        return error_set(err, ERR_NOMEM, "%s", why.msg);
    w->out->n_not_applied += rc < 0 || is_lost;
    return 0;
}
