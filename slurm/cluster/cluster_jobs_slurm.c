/* cluster_jobs_slurm.c - the table of Slurm jobs with our tags.
 *
 * It keeps every job of this cluster's tags, not only the requested ones: the
 * engine may request an attempt of an earlier daemon at any time after the
 * helper reported its job. The table is bounded, since any user can submit jobs
 * with such a comment; after some did not fit, a missing job proves nothing
 * (is_blind), and no attempt is declared lost or submitted again because of it.
 *
 * Slurm reuses ids after it has lost its state. A job is therefore identified
 * by its tag, its id and its time of submission. */
#include <stdlib.h>
#include <string.h>

#include "slurm/cluster/cluster.h"

/* ---- states ---------------------------------------------------------------
 */
/* An unknown word changes nothing: the previous state stands. */
static bool state_of(const char *word, enum cluster_is *ret)
{
    static const struct {
        const char *word;
        enum cluster_is is;
    } words[] = {
        {"PENDING", CLUSTER_PENDING},    {"RUNNING", CLUSTER_RUNNING},
        {"SUSPENDED", CLUSTER_RUNNING},  {"COMPLETING", CLUSTER_COMPLETING},
        {"COMPLETED", CLUSTER_OVER},     {"CANCELLED", CLUSTER_OVER},
        {"FAILED", CLUSTER_OVER},        {"TIMEOUT", CLUSTER_OVER},
        {"NODE_FAIL", CLUSTER_OVER},     {"PREEMPTED", CLUSTER_OVER},
        {"BOOT_FAIL", CLUSTER_OVER},     {"DEADLINE", CLUSTER_OVER},
        {"OUT_OF_MEMORY", CLUSTER_OVER},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i].word, word) == 0) {
            *ret = words[i].is;
            return true;
        }
    }
    return false;
}

/* ---- the tables -----------------------------------------------------------
 */
static size_t id_bucket(uint32_t slurm_id)
{
    return slurm_id % CLUSTER_BUCKETS;
}

static struct cluster_job *by_id(const struct cluster *c, uint32_t slurm_id)
{
    struct cluster_job *job = c->jobs_by_id[id_bucket(slurm_id)];
    while (job && job->j.slurm_id != slurm_id)
        job = job->by_id;
    return job;
}

static void take_out(struct cluster *c, struct cluster_job *job)
{
    struct cluster_job **p = &c->jobs_by_id[id_bucket(job->j.slurm_id)];
    while (*p != job)
        p = &(*p)->by_id;
    *p = job->by_id;
    p = &c->jobs_by_key[cluster_bucket(job->job, job->attempt)];
    while (*p != job)
        p = &(*p)->by_key;
    *p = job->by_key;
    c->n_jobs--;
    free(job);
}

static size_t n_copies(const struct cluster *c, const struct cluster_job *like)
{
    size_t n = 0;
    const struct cluster_job *job =
        c->jobs_by_key[cluster_bucket(like->job, like->attempt)];
    for (; job; job = job->by_key)
        n += job->j.uid == like->j.uid && strcmp(job->j.tag, like->j.tag) == 0;
    return n;
}

static struct cluster_job *put_in(struct cluster *c,
                                  const struct cluster_job *like)
{
    const struct cluster_attempt *a = cluster_find_tag(c, like->j.tag);
    bool is_asked = a && a->req.uid == like->j.uid;
    if (n_copies(c, like) >= CLUSTER_COPIES_CAP)
        return NULL; /* only its own user makes so many: no harm to others */
    struct cluster_job *job = NULL;
    if (c->n_jobs < CLUSTER_JOBS_CAP || is_asked)
        job = malloc(sizeof(*job));
    if (!job) {
        c->is_blind = true;
        return NULL;
    }
    struct cluster_job **id = &c->jobs_by_id[id_bucket(like->j.slurm_id)];
    struct cluster_job **key =
        &c->jobs_by_key[cluster_bucket(like->job, like->attempt)];
    *job = *like;
    job->by_id = *id;
    job->by_key = *key;
    *id = *key = job;
    c->n_jobs++;
    return job;
}

/* Requeueing changes the time of submission, and increments `restarts`. */
static bool is_same(const struct helper_job *a, const struct helper_job *b)
{
    return a->uid == b->uid && strcmp(a->tag, b->tag) == 0 &&
           (a->submitted == b->submitted || b->restarts > a->restarts);
}

const struct cluster_job *cluster_jobs_put(struct cluster *c,
                                           const struct helper_job *j,
                                           struct helper_job *ret_gone)
{
    struct cluster_job new = {.j = *j, .generation = c->generation};
    struct cluster_job *old = by_id(c, j->slurm_id);
    ret_gone->tag[0] = '\0';
    if (old && !is_same(&old->j, j)) {
        *ret_gone = old->j;
        take_out(c, old);
        old = NULL;
    }
    if (j->slurm_id == 0 || !state_of(j->state, &new.is) ||
        !cluster_tag_parse(c->name, j->tag, &new.job, &new.attempt))
        return NULL;
    if (!old)
        return put_in(c, &new);
    old->j = *j;
    old->is = new.is;
    old->generation = c->generation;
    return old;
}

bool cluster_jobs_drop(struct cluster *c, const char *tag, uint32_t slurm_id)
{
    struct cluster_job *job = by_id(c, slurm_id);
    if (!job || strcmp(job->j.tag, tag) != 0)
        return false;
    take_out(c, job);
    return true;
}

bool cluster_jobs_take_old(struct cluster *c, size_t *at,
                           struct helper_job *ret)
{
    for (; *at < CLUSTER_BUCKETS; (*at)++) {
        struct cluster_job *job = c->jobs_by_id[*at];
        while (job && job->generation == c->generation)
            job = job->by_id;
        if (job) {
            *ret = job->j;
            take_out(c, job);
            return true;
        }
    }
    return false;
}

void cluster_jobs_clear(struct cluster *c)
{
    for (size_t i = 0; i < CLUSTER_BUCKETS; i++) {
        struct cluster_job *next;
        for (struct cluster_job *job = c->jobs_by_id[i]; job; job = next) {
            next = job->by_id;
            free(job);
        }
        c->jobs_by_id[i] = c->jobs_by_key[i] = NULL;
    }
    c->n_jobs = 0;
}

/* ---- choose the job of an attempt -----------------------------------------
 */
const struct cluster_job *cluster_jobs_next(const struct cluster *c,
                                            const struct cluster_attempt *a,
                                            const struct cluster_job *after)
{
    const struct cluster_job *job =
        after ? after->by_key
              : c->jobs_by_key[cluster_bucket(a->req.job, a->req.attempt)];
    while (job && (job->j.uid != a->req.uid || strcmp(job->j.tag, a->tag) != 0))
        job = job->by_key;
    return job;
}

bool cluster_was_fenced(const struct helper_job *j)
{
    return strcmp(j->state, "FAILED") == 0 &&
           j->exit_code == error_exit_status(ERR_FENCED);
}

/* Order before a claim decides: a live job before an ended one, unless the
 * ended one is known to have run; then the job chosen so far, then the
 * oldest. */
static int rank(const struct cluster_attempt *a, const struct cluster_job *job)
{
    bool is_mine = job->j.slurm_id == a->slurm_id;
    if (cluster_was_fenced(&job->j))
        return 0;
    if (job->is == CLUSTER_OVER)
        return is_mine ? (a->is_claimed ? 5 : 2) : 1;
    return is_mine ? 4 : 3;
}

const struct cluster_job *cluster_jobs_pick(const struct cluster *c,
                                            const struct cluster_attempt *a)
{
    const struct cluster_job *best = NULL;
    const struct cluster_job *job = cluster_jobs_next(c, a, NULL);
    for (; job; job = cluster_jobs_next(c, a, job)) {
        if (a->claimed_id > 0 && job->j.slurm_id != a->claimed_id)
            continue;
        int by = best ? rank(a, job) - rank(a, best) : 1;
        bool is_older = best && (job->j.submitted < best->j.submitted ||
                                 (job->j.submitted == best->j.submitted &&
                                  job->j.slurm_id < best->j.slurm_id));
        if (by > 0 || (by == 0 && is_older))
            best = job;
    }
    return best;
}
