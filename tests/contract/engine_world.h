/* engine_world.h - a whole mgpu in virtual time, for the tests of the engine.
 *
 * A cluster and a database outlive the daemon; users act at chosen times, and
 * workers as scripted. world_run() plays until every job has ended; world_die()
 * is a crash, and a new daemon attaches to what is left.
 */
#ifndef MGPU_TESTS_ENGINE_WORLD_H
#define MGPU_TESTS_ENGINE_WORLD_H

#include "scheduler/engine/resize.h"
#include "tests/contract/engine_checks.h"
#include "tests/contract/engine_script.h"
#include "tests/contract/engine_step_checks.h"

/* ---- the cluster, the workers ----------------------------------------------
 */
static inline void world_outcome(void *arg, uint64_t job, int32_t attempt,
                                 int32_t gpus, struct alloc_fake_outcome *ret)
{
    struct world *w = arg;
    const struct world_attempt *a =
        world_plan(w, engine_job(w->engine, job), attempt);
    *ret = (struct alloc_fake_outcome){
        .run_s = a->run_s > 0 ? a->run_s : 10,
        .exit_code = a->exit_code,
        .signal = a->signal,
        .refuse = a->refuse,
        .lose = a->lose == 5   ? 3
                : a->lose >= 3 ? 2
                               : a->lose > 0,
        .unknown = a->unknown,
        .twice = a->twice,
        .wait_s = a->wait_s,
        .ended_by = a->ended_by,
        .wait_why = a->wait_why,
        .why = a->why,
    };
    if (w->script->outcome)
        w->script->outcome(gpus, ret);
}

static inline int world_secret(void *arg, enum engine_secret what, uint64_t job,
                               int32_t attempt, char ret[ENGINE_SECRET_CAP],
                               struct error *err)
{
    (void)arg;
    (void)err;
    (void)snprintf(ret, ENGINE_SECRET_CAP, "%s-of-the-%s-%04" PRIu64 "-%04d",
                   what == SECRET_TOKEN ? "token" : "mark",
                   what == SECRET_TOKEN ? "worker" : "tag", job, (int)attempt);
    return 0;
}

static inline const char *world_token(const struct job *job)
{
    static char text[ENGINE_SECRET_CAP];
    (void)world_secret(NULL, SECRET_TOKEN, job->id, job->attempt, text, NULL);
    return text;
}

/* A worker's last words are read from its directory, here from the script. */
static inline int world_exit(void *arg, const struct job *job,
                             struct error *err)
{
    struct world *w = arg;
    const struct world_attempt *a = world_plan(w, job, job->attempt);
    struct engine_report_extra extra;

    w->n_exit_hooks++;
    if (w->exit_hook_fails > 0) {
        w->exit_hook_fails--;
        return error_set(err, ERR_IO, "the spool cannot be read");
    }
    if (job->holder[0] && !a->no_report && a->signal == 0 &&
        (a->lose == 0 || a->lose == 2 || a->lose == 4))
        return engine_report(w->engine, job->id, job->attempt, a->exit_code,
                             a->exit_code ? "as scripted" : "", a->fault_node,
                             world_extra(a, job, &extra), err);
    return 0;
}

static inline void world_workers(struct world *w)
{
    struct error err = ERROR_INIT;
    struct engine *e = w->engine;

    const struct job *job = engine_next_job(e, 0);
    for (; job; job = engine_next_job(e, job->id)) {
        if (!job_state_is_live(job->state) || job->native_id[0] == '\0')
            continue;
        const struct world_attempt *a = world_plan(w, job, job->attempt);
        const char *id =
            alloc_fake_native_id(w->cluster, job->id, job->attempt);
        char holder[80];
        if (!id)
            continue;
        (void)snprintf(holder, sizeof(holder), "n1 %s", id);
        if (!a->no_claim && !job->holder[0] && !job->cancel_asked &&
            !job->requeue_asked &&
            engine_claim(e, job->id, job->attempt, world_token(job), holder, id,
                         &err) < 0 &&
            err.code != ERR_FENCED && err.code != ERR_UNAVAIL)
            world_bad(w, err.msg, job->id);
        struct engine_beat beat = {.iteration = 7,
                                   .loss = 0.25,
                                   .t_iter = NAN,
                                   .eval_loss = NAN,
                                   .eval_accuracy = NAN};
        if (a->no_figures) /* what the daemon makes of a command's */
            beat =
                (struct engine_beat){-1, -1, -1, -1, NAN, NAN, NAN, .work = -1};
        if (job->holder[0] && !a->silent &&
            engine_beat(e, job->id, job->attempt, &beat, &err) < 0)
            world_bad(w, err.msg, job->id);
    }
}

/* ---- the daemon ------------------------------------------------------------
 */
static inline void world_event(void *arg, const struct store_event *event,
                               const struct job *job)
{
    struct world *w = arg;
    if (event->seq <= w->events_seen || event->job != job->id)
        world_bad(w, "an event was told twice", event->job);
    w->events_seen = event->seq;
}

static inline void world_stop(struct world *w)
{
    engine_destroy(w->engine);
    if (w->alloc)
        w->alloc->ops->destroy(w->alloc);
    if (w->store)
        w->store->ops->destroy(w->store);
    w->engine = NULL;
    w->alloc = NULL;
    w->store = NULL;
}

/* False when the database failed it. */
static inline bool world_start(struct world *w)
{
    struct error err = ERROR_INIT;
    struct store *inner;
    const char *dir = w->script->db_dir;
    int rc = dir ? store_sqlite_open(dir, &inner, &err)
                 : store_mem_create(w->db, &inner, &err);
    if (rc < 0 || store_faulty_create(inner, &w->fault, &w->store, &err) < 0 ||
        alloc_fake_create(w->cluster, &w->alloc, &err) < 0) {
        world_bad(w, err.msg, 0);
        return false;
    }
    if (w->wrap)
        w->alloc = w->wrap(w->alloc);
    if (w->wrap_store)
        w->store = w->wrap_store(w->store);
    struct engine_parts parts = {
        .clock = &w->clock.base,
        .policy = w->script->policy ? w->script->policy : &policy_fifo,
        .alloc = w->alloc,
        .store = w->store,
        .conf = &w->conf,
        .secret_of = world_secret,
        .lags = w->lags,
    };
    if (engine_create(&parts, &w->engine, &err) < 0)
        return false;
    engine_on_event(w->engine, world_event, w);
    engine_on_exit(w->engine, world_exit, w);
    return true;
}

/* I1: what was acknowledged is there after a crash. */
static inline void world_check_acked(struct world *w)
{
    for (int i = 0; i < WORLD_JOBS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        const struct job *job =
            w->ids[i] ? engine_job(w->engine, w->ids[i]) : NULL;
        if (w->ids[i] && (!job || strcmp(job->key, key) != 0))
            world_bad(w, "an acknowledged job is gone", w->ids[i]);
    }
}

static inline void world_die(struct world *w)
{
    w->n_crashes++;
    do {
        world_stop(w);
        w->fault.n = 0;
    } while (!world_start(w));
    for (size_t i = 0; i < w->script->n_acts; i++) {
        if (w->acts[i] == ASKED)
            w->acts[i] = TODO; /* no answer came: the user asks again */
    }
    world_check_acked(w);
}

static inline void world_init(struct world *w, const struct world_script *s)
{
    struct error err = ERROR_INIT;

    memset(w, 0, sizeof(*w));
    w->script = s;
    clock_virtual_init(&w->clock, 1000, 1.7e9);
    w->conf = (struct engine_conf){
        .cluster = "test",
        .jobs_dir = "/jobs",
        .worker = "/bin/worker",
        .url = "unix:/sock",
        .heartbeat_s = 1,
        .node_lost_s = s->node_lost_s,
        .submit_ahead = s->submit_ahead,
        .preempt = s->preempt,
        .goodput = s->goodput,
        .resize_patience_s = s->resize_patience_s,
        .reconcile_s = 5,
        .kill_grace_s = 3,
        .where = {.partition = "batch", .cpus_per_gpu = 4},
    };
    struct alloc_fake_conf cluster = {
        .nodes = s->nodes,
        .gpus_per_node = s->gpus_per_node,
        .parts = s->parts,
        .shared = s->shared,
        .grant_delay_s = s->grant_delay_s,
        .clock = &w->clock.base,
        .outcome = world_outcome,
        .node = s->node,
        .may_use = s->may_use,
        .quotas = s->quotas,
        .arg = w,
    };
    if (store_mem_world_create(&w->db, &err) < 0 ||
        alloc_fake_world_create(&cluster, &w->cluster, &err) < 0) {
        tap_diag("%s", err.msg);
        abort();
    }
}

static inline void world_clear(struct world *w)
{
    world_stop(w);
    alloc_fake_world_destroy(w->cluster);
    store_mem_world_destroy(w->db);
}

/* ---- users ----------------------------------------------------------------
 */
static inline int world_submit(struct world *w, const struct world_act *act,
                               uint64_t *ret_id, struct error *err)
{
    const struct world_job *job = &w->script->jobs[act->job];
    char key[16], spec[512], after[64] = "", gpus[32];

    (void)snprintf(key, sizeof(key), "k%d", act->job);
    if (job->after)
        (void)snprintf(after, sizeof(after),
                       "\"depends_on\":[\"%s:%" PRIu64 "\"],", job->after,
                       w->ids[job->after_job]);
    (void)snprintf(gpus, sizeof(gpus),
                   job->gpus_max > job->gpus ? "\"%d..%d\"" : "%d", job->gpus,
                   job->gpus_max);
    (void)snprintf(
        spec, sizeof(spec),
        "{\"version\":1,\"name\":\"j%d\",\"kind\":\"command\","
        "\"command\":[\"true\"],%s%s\"resources\":{\"gpus\":%s%s",
        act->job, after, job->gpus_max > job->gpus ? "\"saves\":true," : "",
        gpus, job->spec_more ? job->spec_more : "},\"retry\":{\"max\":0}}");
    struct engine_submit req = {.uid = act->uid > 0 ? act->uid : 1000,
                                .user = "anna",
                                .key = key,
                                .spec = spec,
                                .hold = act->hold};
    return engine_submit(w->engine, &req, ret_id, NULL, err);
}

/* A request that comes too late (the job has ended) is answered, too. */
static inline void world_ask(struct world *w, size_t i)
{
    const struct world_act *act = &w->script->acts[i];
    int64_t uid = act->uid ? act->uid : 1000;
    uint64_t id = w->ids[act->job];
    struct error err = ERROR_INIT;
    int rc = 0;

    switch (act->verb) {
    case W_SUBMIT:
        rc = world_submit(w, act, &id, &err);
        break;
    case W_CANCEL:
        rc = engine_cancel(w->engine, id, act->uid == -1 ? 0 : uid, &err);
        break;
    case W_REQUEUE:
        rc = engine_requeue(w->engine, id, uid, &err);
        break;
    case W_RESIZE:
        rc = engine_resize(
            w->engine, id, uid, "anna",
            &(struct engine_size){.gpus = act->gpus, .nodes = act->nodes},
            &err);
        if (rc < 0 && err.code == ERR_INVAL)
            err.code = ERR_STATE; /* a size that it may not have */
        break;
    case W_TOP:
        rc = engine_top(w->engine, id, 0, &err);
        break;
    case W_HOLD:
    case W_RELEASE:
        rc = engine_hold(w->engine, id, uid, act->verb == W_HOLD, &err);
        break;
    }
    if (rc < 0 && err.code != ERR_STATE)
        world_bad(w, err.msg, id);
    w->ticket[i] = engine_staged(w->engine);
    w->acts[i] = ASKED;
}

/* What is asked about one job is asked in order, each after the answer. */
static inline bool world_is_ready(const struct world *w, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (w->script->acts[k].job == w->script->acts[i].job &&
            w->acts[k] != DONE)
            return false;
    }
    const struct world_job *job = &w->script->jobs[w->script->acts[i].job];
    if (job->after && !w->ids[job->after_job])
        return false;
    return w->acts[i] == TODO;
}

static inline void world_users(struct world *w, bool is_half)
{
    for (size_t i = 0; i < w->script->n_acts; i++) {
        bool is_later = is_half && (i + (size_t)w->n_steps) % 2 == 1;
        if (world_is_ready(w, i) && !is_later &&
            w->script->acts[i].at_s <= w->clock.t_s - 1000)
            world_ask(w, i);
    }
}

static inline void world_give_up(struct world *w)
{
    struct error err = ERROR_INIT;
    const struct job *job = engine_next_job(w->engine, 0);
    for (; job; job = engine_next_job(w->engine, job->id))
        if (((w->script->gives_up && job->held_by == HELD_DEPENDENCY) ||
             job->held_by == HELD_REFUSED) &&
            job->state == JOB_HELD &&
            engine_cancel(w->engine, job->id, 1000, &err) < 0)
            world_bad(w, err.msg, job->id);
}

static inline void world_answers(struct world *w)
{
    for (size_t i = 0; i < w->script->n_acts; i++) {
        const struct world_act *act = &w->script->acts[i];
        struct error err = ERROR_INIT;
        uint64_t id;
        if (w->acts[i] != ASKED)
            continue;
        if (w->ticket[i] > engine_durable(w->engine)) {
            if (w->ticket[i] <= engine_rolled_back(w->engine))
                w->acts[i] = TODO;
            continue;
        }
        w->acts[i] = DONE;
        if (act->verb != W_SUBMIT)
            continue;
        if (world_submit(w, act, &id, &err) < 0)
            world_bad(w, "not there again", 0);
        w->ids[act->job] = id;
    }
}

/* ---- play -----------------------------------------------------------------
 */
/* A step during which the world goes on, before the batch is stored or
 * after it. -1: the store failed, or the daemon is to die. */
static inline int world_slow_step(struct world *w, struct error *err)
{
    struct store_batch *batch;

    int rc = engine_step_begin(w->engine, &batch, err);
    while (rc == 0 && batch) {
        struct error why = ERROR_INIT;
        int n = ++w->n_flights;
        bool is_last = n == w->script->die_in_flight && w->n_crashes == 0;
        if (n % 2 == 0) {
            world_users(w, false);
            world_workers(w);
        }
        if (is_last && !w->script->is_stored)
            return error_set(err, ERR_INTERNAL, "dies before it is stored");
        bool is_stored = w->store->ops->append(w->store, batch, &why) == 0;
        if (is_last)
            return error_set(err, ERR_INTERNAL, "dies after it was stored");
        if (n % 2 == 1) {
            world_users(w, false);
            world_workers(w);
        }
        world_check_files(w);
        rc = engine_step_end(w->engine, is_stored ? NULL : &why, &batch, err);
    }
    return rc;
}

/* -1: the store failed. */
static inline int world_step(struct world *w)
{
    struct error err = ERROR_INIT;

    world_users(w, w->script->in_flight);
    world_give_up(w);
    w->n_steps++;
    int rc = w->script->in_flight ? world_slow_step(w, &err)
                                  : engine_step(w->engine, &err);
    if (rc < 0)
        w->n_failed_steps++;
    world_answers(w);
    world_workers(w);
    world_check_gpus(w);
    world_check_walks(w);
    world_check_files(w);
    return rc;
}

static inline bool world_is_over(const struct world *w)
{
    for (size_t i = 0; i < w->script->n_acts; i++) {
        if (w->acts[i] != DONE)
            return false;
    }
    for (const struct job *job = engine_next_job(w->engine, 0); job;
         job = engine_next_job(w->engine, job->id)) {
        if (!job_state_is_final(job->state))
            return false;
    }
    return engine_staged(w->engine) == engine_durable(w->engine) ||
           engine_staged(w->engine) == engine_rolled_back(w->engine);
}

/* To the next moment at which anything happens. */
static inline void world_advance(struct world *w)
{
    double now_s = w->clock.t_s;
    double t = fmin(engine_next_s(w->engine), alloc_fake_next_s(w->cluster));

    if (w->next_s)
        t = fmin(t, fmax(w->next_s(), now_s));
    for (size_t i = 0; i < w->script->n_acts; i++) {
        if (world_is_ready(w, i))
            t = fmin(t, fmax(1000 + w->script->acts[i].at_s, now_s));
    }
    if (w->script->node_lost_s > 0) /* beats */
        t = fmin(t, now_s + 1);
    if (isfinite(t) && t > now_s)
        w->clock.t_s = t;
}

/* What is left: "k0:COMPLETED/0/1[1] k1:..." - state, exit code, attempts,
 * and how often each attempt was really started. Ends with free(). */
static inline char *world_result(struct world *w)
{
    char *text = malloc(WORLD_JOBS * 96);
    size_t len = 0;

    for (int i = 0; text && i < WORLD_JOBS; i++) {
        const struct job *job =
            w->ids[i] ? engine_job(w->engine, w->ids[i]) : NULL;
        if (!job)
            continue;
        len += (size_t)snprintf(
            text + len, 64, "%sk%d:%s/%d/%d[", len > 0 ? " " : "", i,
            job_state_name(job->state), job->exit_code, job->attempt);
        for (int32_t k = 1; k <= job->attempt && k < 10; k++)
            len += (size_t)snprintf(text + len, 8, "%d",
                                    alloc_fake_starts(w->cluster, job->id, k));
        len += (size_t)snprintf(text + len, 4, "]");
    }
    return text;
}

static inline void world_check_log(struct world *w)
{
    struct world_log *log = calloc(1, sizeof(*log));
    struct error err = ERROR_INIT;

    world_stop(w); /* an unspent fault would strike this load */
    w->fault.n = 0;
    if (!log || !world_start(w)) {
        world_bad(w, "no daemon at the end", 0);
        free(log);
        return;
    }
    log->w = w;
    if (w->store->ops->load(w->store, world_log_event, log, &err) < 0)
        world_bad(w, err.msg, 0);
    free(log);
    world_check_rows(w);
}

/* Plays to the end.
 *
 * in  fault      for the first daemon; its death when it strikes
 *     die_after  or it dies after this step; 0: never
 *     survives   it lives on with the failure instead
 */
static inline char *world_run(struct world *w, const struct world_script *s,
                              struct store_fault fault, int die_after,
                              bool survives)
{
    world_init(w, s);
    w->fault = fault;
    if (!world_start(w))
        world_die(w);
    for (int i = 0; i < 20000; i++) {
        int rc = world_step(w);
        if ((rc < 0 && !survives) || w->n_steps == die_after)
            world_die(w);
        if (world_is_over(w)) {
            w->n_calls = store_faulty_calls(w->store);
            world_check_log(w);
            world_check_acked(w);
            return world_result(w);
        }
        world_advance(w);
    }
    for (const struct job *job = engine_next_job(w->engine, 0); job;
         job = engine_next_job(w->engine, job->id)) {
        if (!job_state_is_final(job->state))
            world_bad(w, job_state_name(job->state), job->id);
    }
    world_bad(w, "it never ends", 0);
    return world_result(w);
}

#endif
