/* job_json.c - JOB of wire.h, written from the engine's state, and the objects
 * that replies about jobs have in common.
 *
 * A list has ten thousand jobs, and a change goes to a thousand watchers. So
 * each member is written into the text that is sent, without a tree of JSON
 * values. A request for a few members pays for those only.
 */
#include "scheduler/ctld/job_list/job_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "jobs/wire/wire.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/job_list/job_cursor.h"
#include "scheduler/ctld/job_list/job_filter.h"
#include "scheduler/ctld/job_list/start_estimates.h"
#include "scheduler/engine/account.h"

/* One job that is being written. */
struct view {
    const struct ctld *c;
    const struct job *j;
    const struct job *p; /* how far it has come; a stranger's view of it */
    bool all;            /* for who may see all */
};

typedef int add_f(const struct view *v, struct buf *out, struct error *err);

/* ---- values ---------------------------------------------------------------
 */
static int add_null(struct buf *out, struct error *err)
{
    return buf_add(out, "null", 4, err);
}

static int add_int(struct buf *out, int64_t n, struct error *err)
{
    char text[24], *p = text + sizeof(text);
    uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    do
        *--p = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (n < 0)
        *--p = '-';
    return buf_add(out, p, (size_t)(text + sizeof(text) - p), err);
}

/* Negative means unknown. */
static int add_count(struct buf *out, int64_t n, struct error *err)
{
    return n < 0 ? add_null(out, err) : add_int(out, n, err);
}

/* Progress counts from 1: 0 means that nothing was reported yet. */
static int add_progress(struct buf *out, int64_t n, struct error *err)
{
    return n > 0 ? add_int(out, n, err) : add_null(out, err);
}

/* So that it is read back as the same number, and as a real one. */
static int add_num(struct buf *out, double x, struct error *err)
{
    char text[40];
    if (!isfinite(x))
        return add_null(out, err);
    int len = snprintf(text, sizeof(text), "%.17g", x);
    if (!strpbrk(text, ".e"))
        len = snprintf(text, sizeof(text), "%.17g.0", x);
    return buf_add(out, text, (size_t)len, err);
}

static int add_text(struct buf *out, const char *s, struct error *err)
{
    return s && *s ? text_add_json(out, s, err) : add_null(out, err);
}

static int add_time(struct buf *out, double wall_s, struct error *err)
{
    char text[WIRE_TIME_CAP];
    wire_time(wall_s, text);
    return add_text(out, text, err);
}

/* Takes the value. */
static int add_json(struct buf *out, json_t *o, struct error *err)
{
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    int rc = text ? buf_addstr(out, text, err)
                  : error_set(err, ERR_NOMEM, "a job's JSON");
    json_decref(o);
    free(text);
    return rc;
}

/* ---- members --------------------------------------------------------------
 */
static double wall_s(const struct view *v)
{
    return v->c->parts.clock->wall_s(v->c->parts.clock);
}

/* A duration between times of the wall clock, which may have been set
 * meanwhile. NAN, unknown, stays. */
static double lasted(double s)
{
    return s < 0 ? 0 : s;
}

static double elapsed(const struct view *v)
{
    const struct job *j = v->j;
    return lasted((isfinite(j->end_s) ? j->end_s : wall_s(v)) - j->start_s);
}

/* While the data are tokenised. */
static double tokenised(const struct view *v)
{
    return v->p->tokenised > 0 ? v->p->tokenised : (double)NAN;
}

static double left(const struct view *v)
{
    return job_state_is_live(v->j->state)
               ? lasted(v->j->attempt_limit_s - elapsed(v))
               : (double)NAN;
}

static double start_estimate(const struct view *v)
{
    const struct clock *clock = v->c->parts.clock;
    return wall_s(v) + start_estimates_plan_s(v->c, v->j) - clock->now_s(clock);
}

static double start_in(const struct view *v)
{
    const struct clock *clock = v->c->parts.clock;
    double at_s = start_estimates_best_s(v->c, v->j);
    double in_s = isfinite(at_s) ? at_s - clock->now_s(clock) : (double)NAN;
    return in_s < 0 ? 0 : in_s; /* NAN stays */
}

/* Where the plan has none. */
static double start_forecast(const struct view *v)
{
    const struct clock *clock = v->c->parts.clock;
    double at_s = isfinite(start_estimates_plan_s(v->c, v->j))
                      ? (double)NAN
                      : start_estimates_forecast_s(v->c, v->j);
    return isfinite(at_s) ? wall_s(v) + at_s - clock->now_s(clock)
                          : (double)NAN;
}

static double eta(const struct view *v)
{
    const struct job *j = v->p;
    if (!job_state_is_live(j->state) || j->iteration <= 0 ||
        j->iterations_total <= 0 || !(j->t_iter > 0))
        return NAN;
    return (double)(j->iterations_total - j->iteration) * j->t_iter;
}

/* A worker's words are its user's. */
static const char *reason(const struct view *v)
{
    return v->all || !v->j->reported ? v->j->reason : "";
}

static const char *native_id(const struct view *v)
{
    return v->j->native_id[0] ? v->j->native_id : v->j->pending_id;
}

static const char *held_by(const struct view *v)
{
    return v->j->state == JOB_HELD ? job_held_name(v->j->held_by) : NULL;
}

static int64_t position(const struct view *v)
{
    return engine_queue_position(v->c->engine, v->j->id);
}

/* GPUs that a job had whose resize is under way. */
static int64_t resized_from(const struct view *v)
{
    return v->j->resize.gpus > 0 ? v->j->resize.from : 0;
}

static int64_t task(const struct view *v)
{
    return v->j->sweep > 0 ? v->j->number : -1;
}

#define MEMBER(name, how, value)                                    \
    static int name##_member(const struct view *v, struct buf *out, \
                             struct error *err)                     \
    {                                                               \
        return how(out, value, err);                                \
    }
MEMBER(id, add_int, (int64_t)v->j->id)
MEMBER(name, add_text, v->j->name)
MEMBER(user, add_text, v->j->user)
MEMBER(uid, add_int, v->j->uid)
MEMBER(kind, add_text, v->j->kind)
MEMBER(state, add_text, job_state_name(v->j->state))
MEMBER(reason, add_text, reason(v))
MEMBER(priority, add_int, v->j->priority)
MEMBER(gpus_min, add_int, v->j->gpus_min)
MEMBER(gpus_max, add_int, v->j->gpus_max)
MEMBER(gpus, add_int, v->j->gpus)
MEMBER(to_gpus, add_progress, (int64_t)v->j->resize.gpus)
MEMBER(to_nodes, add_progress, (int64_t)v->j->resize.nodes)
MEMBER(from_gpus, add_progress, resized_from(v))
MEMBER(attempt, add_int, v->j->attempt)
MEMBER(exit_code, add_count, v->j->exit_code)
MEMBER(place, add_text, v->j->place)
MEMBER(native_id, add_text, native_id(v))
MEMBER(position, add_progress, position(v))
MEMBER(cancel_asked, buf_addstr, v->j->cancel_asked ? "true" : "false")
MEMBER(held_by, add_text, held_by(v))
MEMBER(sweep, add_progress, (int64_t)v->j->sweep)
MEMBER(task, add_count, task(v))
MEMBER(submitted, add_time, v->j->submit_s)
MEMBER(started, add_time, v->j->start_s)
MEMBER(ended, add_time, v->j->end_s)
MEMBER(elapsed_s, add_num, elapsed(v))
MEMBER(limit_s, add_num, v->j->attempt_limit_s)
MEMBER(left_s, add_num, left(v))
MEMBER(start_estimate, add_time, start_estimate(v))
MEMBER(begin, add_time, v->j->begin_s > 0 ? v->j->begin_s : (double)NAN)
MEMBER(start_forecast, add_time, start_forecast(v))
MEMBER(start_in_s, add_num, start_in(v))
MEMBER(account, add_text, engine_account(v->c->engine, v->j))
MEMBER(partition, add_text, engine_where(v->c->engine, v->j).partition)
MEMBER(iteration, add_progress, v->p->iteration)
MEMBER(iterations_total, add_progress, v->p->iterations_total)
MEMBER(epoch, add_progress, v->p->epoch)
MEMBER(epochs_total, add_progress, v->p->epochs_total)
MEMBER(loss, add_num, v->p->loss)
MEMBER(t_iter_s, add_num, v->p->t_iter)
MEMBER(eta_s, add_num, eta(v))
MEMBER(eval_loss, add_num, v->p->eval_loss)
MEMBER(eval_accuracy, add_num, v->p->eval_accuracy)
MEMBER(tokenised, add_num, tokenised(v))
MEMBER(parent, add_progress, v->all ? (int64_t)v->j->parent : 0)
MEMBER(parent_display_id, add_text, v->all ? v->j->parent_name : NULL)
MEMBER(resumed_from, add_text, v->all ? v->j->from : NULL)

static int display_id_member(const struct view *v, struct buf *out,
                             struct error *err)
{
    char name[JOB_DISPLAY_CAP];
    (void)job_display_id(v->j, name);
    return add_text(out, name, err);
}

/* What makes a task of a sweep differ. */
static int vary_member(const struct view *v, struct buf *out, struct error *err)
{
    json_t *o = v->all && v->j->vary ? json_loads(v->j->vary, 0, NULL) : NULL;
    return o ? add_json(out, o, err) : add_null(out, err);
}

static int labels_member(const struct view *v, struct buf *out,
                         struct error *err)
{
    return v->all ? add_json(out, job_filter_labels(v->j), err)
                  : add_null(out, err);
}

/* ---- all of them ----------------------------------------------------------
 */
#define ROW(name)                                                              \
    {                                                                          \
#name, ",\"" #name "\":", sizeof(",\"" #name "\":") - 1, name##_member \
    }
static const struct member {
    const char *name, *key;
    size_t key_len;
    add_f *add;
} members[] = {
    ROW(id),
    ROW(name),
    ROW(user),
    ROW(uid),
    ROW(kind),
    ROW(state),
    ROW(reason),
    ROW(priority),
    ROW(gpus_min),
    ROW(gpus_max),
    ROW(gpus),
    ROW(attempt),
    ROW(exit_code),
    ROW(place),
    ROW(native_id),
    ROW(position),
    ROW(cancel_asked),
    ROW(held_by),
    ROW(display_id),
    ROW(sweep),
    ROW(task),
    ROW(vary),
    ROW(submitted),
    ROW(started),
    ROW(ended),
    ROW(elapsed_s),
    ROW(limit_s),
    ROW(left_s),
    ROW(start_estimate),
    ROW(start_forecast),
    ROW(start_in_s),
    ROW(account),
    ROW(partition),
    ROW(labels),
    ROW(iteration),
    ROW(iterations_total),
    ROW(epoch),
    ROW(epochs_total),
    ROW(loss),
    ROW(t_iter_s),
    ROW(eta_s),
    ROW(eval_loss),
    ROW(eval_accuracy),
    ROW(begin),
    ROW(to_gpus),
    ROW(to_nodes),
    ROW(from_gpus),
    ROW(tokenised),
    ROW(parent),
    ROW(parent_display_id),
    ROW(resumed_from),
};
enum { N_MEMBERS = sizeof(members) / sizeof(members[0]) };
_Static_assert((int)N_MEMBERS < 64, "a set of members is 64 bits");

int job_json_members(const char *text, uint64_t *ret, struct error *err)
{
    uint64_t set = 0;
    do {
        size_t n = strcspn(text, ","), i = 0;
        while (i < N_MEMBERS && (strlen(members[i].name) != n ||
                                 strncmp(members[i].name, text, n) != 0))
            i++;
        if (i == N_MEMBERS)
            return error_set(err, ERR_INVAL, "fields: no '%.*s'",
                             n < 40 ? (int)n : 40, text);
        set |= UINT64_C(1) << i;
        text += n;
    } while (*text++ == ',');
    *ret = set;
    return 0;
}

bool job_json_members_are_brief(uint64_t set)
{
    static const char brief[] =
        "id,name,user,uid,kind,state,reason,priority,gpus_min,gpus_max,gpus,"
        "attempt,exit_code,place,position,display_id,sweep,task,submitted,"
        "started,ended,elapsed_s,limit_s,left_s,start_estimate,start_forecast,"
        "start_in_s,iteration,iterations_total,epoch,epochs_total,loss,t_iter_"
        "s,"
        "eta_s,eval_loss,eval_accuracy,to_gpus,to_nodes,from_gpus,tokenised,"
        "parent,parent_display_id";
    uint64_t of;
    return job_json_members(brief, &of, NULL) == 0 && (set & ~of) == 0;
}

/* in  known  what is null is left out */
static int add_member(const struct member *m, const struct view *v, bool known,
                      struct buf *out, struct error *err)
{
    size_t before = out->len;
    if (buf_add(out, m->key, m->key_len, err) < 0 || m->add(v, out, err) < 0)
        return -1;
    size_t value = before + m->key_len;
    if (known && out->len - value == 4 &&
        memcmp(out->data + value, "null", 4) == 0) {
        out->len = before;
        out->data[before] = '\0';
    }
    return 0;
}

int job_json_add(const struct ctld *c, const struct job *j, bool all,
                 uint64_t set, struct buf *out, struct error *err)
{
    static const struct job silent = {
        .loss = NAN, .t_iter = NAN, .eval_loss = NAN, .eval_accuracy = NAN};
    const struct view v = {.c = c, .j = j, .p = all ? j : &silent, .all = all};
    size_t from = out->len;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < N_MEMBERS; i++) {
        if (set >> i & 1u)
            rc = add_member(&members[i], &v, set != JOB_JSON_ALL_MEMBERS, out,
                            err);
    }
    if (rc == 0 && out->len == from)
        rc = buf_addstr(out, "{", err);
    else if (rc == 0)
        out->data[from] = '{'; /* instead of the first comma */
    return rc == 0 ? buf_addstr(out, "}", err) : -1;
}

json_t *job_json_value(const struct ctld *c, const struct job *job, bool all)
{
    struct buf text = BUF_INIT;
    json_t *o = NULL;
    if (job_json_add(c, job, all, JOB_JSON_ALL_MEMBERS, &text, NULL) == 0)
        o = json_loadb(buf_str(&text), text.len, 0, NULL);
    buf_clear(&text);
    return o;
}

/* ---- with a job -----------------------------------------------------------
 */
json_t *job_json_sweep(const struct ctld *c, const struct job *job)
{
    int count[JOB_STATE_N] = {0};
    if (job->sweep == 0 || job->sweep != job->id)
        return json_null();
    for (int32_t i = 0; i < job->n_tasks; i++) {
        const struct job *j = engine_job(c->engine, job->sweep + (uint64_t)i);
        if (j)
            j = engine_settled(c->engine, j);
        count[j ? j->state : JOB_NEW]++;
    }
    json_t *states = json_object();
    for (int s = 0; states && s < JOB_STATE_N; s++)
        if (count[s] > 0)
            (void)json_object_set_new(states, job_state_name((enum job_state)s),
                                      json_integer(count[s]));
    return json_pack("{s:I, s:i, s:i, s:b, s:o}", "id", (json_int_t)job->sweep,
                     "n_tasks", job->n_tasks, "max_parallel", job->max_parallel,
                     "stop_on_fail", job->stop_on_fail, "states", states);
}

/* The first task of its sweep that asks something of a GPU's memory; NULL:
 * none does, nor a job by itself. */
static const struct job *asks_memory(const struct ctld *c,
                                     const struct job *job)
{
    int32_t n = job->sweep > 0 && job->sweep == job->id ? job->n_tasks : 1;
    for (int32_t i = 0; i < n; i++) {
        const struct job *j =
            i == 0 ? job : engine_job(c->engine, job->id + (uint64_t)i);
        if (j && (j->where.gpu_min_bytes > 0 || j->where.gpu_max_bytes > 0))
            return j;
    }
    return NULL;
}

json_t *job_json_warnings(const struct ctld *c, const struct job *job)
{
    const struct job *asks =
        job_state_is_final(job->state) ? NULL : asks_memory(c, job);
    size_t n_all = 0, n_may = 0, n_unknown = 0;
    const struct alloc_node *nodes = engine_nodes(c->engine, &n_all);
    char text[200];

    for (size_t i = 0; asks && i < n_all; i++) {
        bool may = nodes[i].gpus_total > 0 &&
                   engine_node_fits(c->engine, asks, i, false);
        n_may += may;
        n_unknown += may && nodes[i].gpu_bytes == 0;
    }
    if (n_unknown == 0)
        return NULL;
    (void)snprintf(text, sizeof(text),
                   "what memory the GPUs of %zu of %zu nodes have is not "
                   "known, and these are not left out",
                   n_unknown, n_may);
    return json_pack("[{s:s, s:s, s:s}]", "code", "W201", "path",
                     "resources.gpu_memory", "message", text);
}
