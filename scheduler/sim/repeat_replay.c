/* repeat_replay.c - the recorded attempts as actions for the policy repeat; see
 * repeat_policy.h.
 *
 * From its submit a job waits with the lowest priority, and has another one
 * from the time when its attempt was requested. When the attempt was told to
 * stop, whoever wanted it, the job waits again, and is resized or requeued. A
 * job that has never run waits until it is cancelled. */
#include "scheduler/sim/repeat_policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int repeat_policy_named(const char *word, bool has_past, bool *ret,
                        struct error *err)
{
    size_t n = strlen(policy_repeat.name);

    *ret = word && strncmp(word, policy_repeat.name, n) == 0 &&
           (word[n] == '\0' || word[n] == ':');
    if (*ret && word[n] == ':')
        return error_set(err, ERR_USAGE, "--policy: repeat has no keys");
    return *ret && !has_past
               ? error_set(err, ERR_USAGE,
                           "--policy repeat needs --from-db, which has the "
                           "attempts")
               : 0;
}

struct script {
    struct sim_action *at;
    size_t n;
};

/* A time of no end is none. */
static void add(struct script *s, double t_s, enum sim_act act, size_t job,
                int32_t value)
{
    if (!isfinite(t_s))
        return;
    s->at[s->n] = (struct sim_action){.t_s = t_s, .act = act, .job = job};
    if (act == ACT_RESIZE)
        s->at[s->n].gpus = value;
    else
        s->at[s->n].priority = value;
    s->n++;
}

/* At most 3 actions for each attempt, and 3 more. */
static void add_job(struct script *s, const struct past *p,
                    const struct sim_trace *t, size_t i)
{
    const struct sim_job *job = &t->jobs[i];
    size_t n;
    const struct past_attempt *a =
        p->attempts + past_attempts_of(p, job->id, &n);

    add(s, job->submit_s, ACT_PRIORITY, i, REPEAT_WAITS);
    if (n > 0 && !job->sized_spec)
        add(s, job->submit_s, ACT_RESIZE, i, a[0].gpus);
    for (size_t k = 0; k < n; k++) {
        add(s, fmax(a[k].intent_s, job->submit_s), ACT_PRIORITY, i, 0);
        if (k + 1 == n)
            return;
        add(s, a[k].stop_s, ACT_PRIORITY, i, REPEAT_WAITS);
        size_t n_before = s->n;
        if (a[k + 1].gpus != a[k].gpus)
            add(s, a[k].stop_s, ACT_RESIZE, i, a[k + 1].gpus);
        else
            add(s, a[k].stop_s, ACT_REQUEUE, i, 0);
        if (s->n > n_before)
            s->at[n_before].ends = true;
    }
}

struct numbered {
    uint64_t id;
    size_t i;
    bool is_cancelled;
};

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct numbered *)a)->id;
    uint64_t y = ((const struct numbered *)b)->id;
    return (x > y) - (x < y);
}

/* What people did that is no attempt. */
static void add_people(struct script *s, const struct past *p,
                       struct numbered *jobs, size_t n)
{
    for (size_t k = 0; k < p->n_actions; k++) {
        const struct past_action *a = &p->actions[k];
        struct numbered key = {.id = a->job};
        struct numbered *job = bsearch(&key, jobs, n, sizeof(*jobs), by_id);
        if (!job)
            continue;
        if (a->act == ACT_CANCEL) {
            add(s, a->t_s, ACT_CANCEL, job->i, 0);
            job->is_cancelled = true;
        } else if (a->act == ACT_RELEASE) {
            /* The engine holds what waits for a job that was cancelled. */
            add(s, a->t_s, ACT_RELEASE, job->i, 0);
        } else if (a->act == ACT_UPDATE) {
            /* The priority says only when an attempt is due. */
            struct engine_update update = replay_update(a);
            update.has_priority = false;
            if (!update.has_limit && !update.has_parallel)
                continue;
            add(s, a->t_s, ACT_UPDATE, job->i, 0);
            s->at[s->n - 1].update = update;
        }
    }
}

struct timed {
    struct sim_action a;
    size_t order;
};

static int by_time(const void *a, const void *b)
{
    const struct timed *x = a, *y = b;

    if (x->a.t_s < y->a.t_s || x->a.t_s > y->a.t_s)
        return x->a.t_s < y->a.t_s ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Actions of one time keep their order. */
static int sort(struct script *s, struct error *err)
{
    struct timed *t = calloc(s->n + 1, sizeof(*t));

    if (!t)
        return error_set(err, ERR_NOMEM, "%zu actions", s->n);
    for (size_t i = 0; i < s->n; i++)
        t[i] = (struct timed){s->at[i], i};
    qsort(t, s->n, sizeof(*t), by_time);
    for (size_t i = 0; i < s->n; i++)
        s->at[i] = t[i].a;
    free(t);
    return 0;
}

int repeat_policy_replay(const struct past *p, const struct sim_trace *t,
                         struct replay *ret, struct error *err)
{
    size_t most = 3 * p->n_attempts + 4 * t->n + p->n_actions;
    struct numbered *jobs = calloc(t->n + 1, sizeof(*jobs));
    struct script s = {.at = calloc(most + 1, sizeof(*s.at))};
    size_t n;

    *ret = (struct replay){.actions = s.at};
    if (!jobs || !s.at) {
        free(jobs);
        return error_set(err, ERR_NOMEM, "actions");
    }
    for (size_t i = 0; i < t->n; i++) {
        jobs[i] = (struct numbered){.id = t->jobs[i].id, .i = i};
        add_job(&s, p, t, i);
    }
    qsort(jobs, t->n, sizeof(*jobs), by_id);
    add_people(&s, p, jobs, t->n);
    for (size_t k = 0; k < t->n; k++) {
        const struct sim_job *job = &t->jobs[jobs[k].i];
        (void)past_attempts_of(p, job->id, &n);
        if (n == 0 && !jobs[k].is_cancelled)
            add(&s, fmax(t->recorded_s, job->submit_s), ACT_CANCEL, jobs[k].i,
                0);
    }
    free(jobs);
    ret->n = s.n;
    return sort(&s, err);
}
