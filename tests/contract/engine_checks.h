/* engine_checks.h - what must hold of a world, however it came to its end. */
#ifndef MGPU_TESTS_ENGINE_CHECKS_H
#define MGPU_TESTS_ENGINE_CHECKS_H

#include "db/metric_store.h"
#include "tests/contract/engine_script.h"

/* I2, I3, I5, I6 on the log: every job folds along the table, nothing
 * follows a final state, attempts grow by one, one claim each. */
struct world_log {
    struct world *w;
    enum job_state state[4 * WORLD_JOBS];
    int32_t attempt[4 * WORLD_JOBS], claims[4 * WORLD_JOBS];
    uint64_t seq;
};

static inline int world_log_event(void *arg, const struct store_event *ev,
                                  struct error *err)
{
    struct world_log *log = arg;
    size_t i = ev->job;

    if (ev->seq != ++log->seq)
        world_bad(log->w, "a gap in the log", ev->job);
    if (i >= 4 * WORLD_JOBS)
        return error_set(err, ERR_LIMIT, "job %zu", i);
    if (job_state_next(log->state[i], ev->ev, &log->state[i], err) < 0)
        return -1;
    if (ev->ev == EV_INTENT) {
        if (ev->attempt != log->attempt[i] + 1)
            world_bad(log->w, "attempts do not grow by one", ev->job);
        log->attempt[i] = ev->attempt;
        log->claims[i] = 0;
    }
    log->claims[i] += ev->ev == EV_CLAIM;
    if (ev->detail && strstr(ev->detail, "token"))
        world_bad(log->w, "an event has a token", ev->job);
    if (log->claims[i] > 1)
        world_bad(log->w, "claimed twice", ev->job);
    return 0;
}

static inline const struct store_cell *world_cell(
    const struct store_cell *cells, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(cells[i].name, name) == 0)
            return &cells[i];
    }
    return NULL;
}

/* What is stored is what the fold knows. */
static inline void world_job_row(struct world *w, uint64_t id,
                                 const char *state, int64_t exit_code,
                                 int64_t attempt)
{
    const struct job *job = engine_job(w->engine, id);

    if (!job || strcmp(state, job_state_name(job->state)) != 0 ||
        exit_code != job->exit_code || attempt != job->attempt)
        world_bad(w, "its row is wrong", id);
}

static inline void world_attempt_row(struct world *w, uint64_t id,
                                     int64_t attempt, bool has_ended)
{
    const struct job *job = engine_job(w->engine, id);

    if (!job || attempt > job->attempt || !has_ended)
        world_bad(w, "an attempt's row is wrong", id);
    w->n_attempt_rows++;
}

static inline int world_job_cells(void *arg, const struct store_cell *cells,
                                  size_t n, struct error *err)
{
    const struct store_cell *code = world_cell(cells, n, "exit_code");

    (void)err;
    world_job_row(arg, (uint64_t)world_cell(cells, n, "job")->i,
                  world_cell(cells, n, "state")->s,
                  code->kind == CELL_NULL ? -1 : code->i,
                  world_cell(cells, n, "attempt")->i);
    return 0;
}

static inline int world_attempt_cells(void *arg, const struct store_cell *cells,
                                      size_t n, struct error *err)
{
    (void)err;
    world_attempt_row(arg, (uint64_t)world_cell(cells, n, "job")->i,
                      world_cell(cells, n, "attempt")->i,
                      world_cell(cells, n, "ended_at")->kind != CELL_NULL &&
                          world_cell(cells, n, "exit_code")->kind != CELL_NULL);
    return 0;
}

static inline void world_query_rows(struct world *w)
{
    struct store_query q = {.view = VIEW_JOB, .rank = -1};
    struct error err = ERROR_INIT;

    if (w->store->metrics->query(w->store, &q, world_job_cells, w, &err) < 0)
        world_bad(w, err.msg, 0);
    q.view = VIEW_ATTEMPT;
    if (w->store->metrics->query(w->store, &q, world_attempt_cells, w, &err) <
        0)
        world_bad(w, err.msg, 0);
}

static inline void world_read_rows(struct world *w)
{
    for (uint64_t id = 1; id < 4 * WORLD_JOBS; id++) {
        const struct store_job *job = store_mem_job(w->db, id);
        const struct store_attempt *a;
        if (job)
            world_job_row(w, id, job->state, job->exit_code, job->attempt);
        for (int32_t k = 1; (a = store_mem_attempt(w->db, id, k)); k++)
            world_attempt_row(w, id, k,
                              isfinite(a->end_s) && a->exit_code >= 0);
    }
}

static inline void world_check_rows(struct world *w)
{
    int n_attempts = 0;

    w->n_attempt_rows = 0;
    if (w->script->db_dir)
        world_query_rows(w);
    else
        world_read_rows(w);
    for (const struct job *job = engine_next_job(w->engine, 0); job;
         job = engine_next_job(w->engine, job->id))
        n_attempts += job->is_run ? 0 : job->attempt; /* it has no row */
    if (n_attempts != w->n_attempt_rows)
        world_bad(w, "a row per attempt", 0);
}

struct world_past {
    const struct engine *e;
    uint64_t *n; /* by state */
};

static inline int world_count_past(void *arg, const struct store_archived *job,
                                   struct error *err)
{
    const struct world_past *p = arg;
    (void)err;
    p->n[job->state] += !engine_job(p->e, job->job);
    return 0;
}

/* Who is left out of a walk over the jobs, and how many are in each state. */
static inline void world_check_walks(struct world *w)
{
    const struct engine *e = w->engine;
    const double since_s[] = {-INFINITY, w->clock.t_s + w->clock.epoch_s - 30,
                              INFINITY};
    uint64_t n[JOB_STATE_N] = {0}, counted[JOB_STATE_N];
    const struct job *seen[] = {engine_next_since(e, 0, since_s[0]),
                                engine_next_since(e, 0, since_s[1]),
                                engine_next_since(e, 0, since_s[2])};

    for (const struct job *job = engine_next_job(e, 0); job;
         job = engine_next_job(e, job->id)) {
        bool is_over = job_state_is_final(job->state) && isfinite(job->end_s);
        n[job->state]++;
        for (int i = 0; i < 3; i++) {
            if (job == seen[i])
                seen[i] = engine_next_since(e, job->id, since_s[i]);
            else if (!is_over || job->end_s >= since_s[i])
                world_bad(w, "left out", job->id);
            else
                w->n_left_out++;
        }
    }
    struct store_archive_query all = {.since_s = -INFINITY};
    struct world_past past = {e, n};
    struct error err = ERROR_INIT;
    if (w->conf.max_ended > 0 &&
        w->store->ops->archived(w->store, &all, world_count_past, &past, &err) <
            0)
        world_bad(w, err.msg, 0);
    engine_count(e, counted);
    if (memcmp(n, counted, sizeof(n)) != 0)
        world_bad(w, "not counted right", 0);
}

#endif
