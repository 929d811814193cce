/* memory_refusals.c - see memory_refusals.h. */
#include "scheduler/engine/table/memory_refusals.h"

#include <string.h>

#include "scheduler/engine/engine_internal.h"

/* Of the class and the user: nobody's jobs wait for what another's worker
 * says. */
static uint64_t hash_of(const struct job_record *rec)
{
    static const uint64_t prime = 1099511628211u;
    uint64_t h = (14695981039346656037u ^ (uint64_t)rec->job.uid) * prime;

    for (const char *p = rec->own.class; p && *p; p++) /* FNV-1a */
        h = (h ^ (unsigned char)*p) * prime;
    return h;
}

static struct eng_refusal *find(struct eng_refusals *t,
                                const struct job_record *rec,
                                const char *gpu_type)
{
    uint64_t h = hash_of(rec);
    size_t n = t->n < REFUSALS_N ? t->n : REFUSALS_N;

    for (size_t i = 0; rec->own.class && i < n; i++)
        if (t->at[i].class_hash == h &&
            strcmp(t->at[i].gpu_type, gpu_type) == 0)
            return &t->at[i];
    return NULL;
}

const struct eng_refusal *eng_refusal_of(const struct engine *e,
                                         const struct job_record *rec,
                                         const char *gpu_type)
{
    const struct eng_refusal *r =
        find((struct eng_refusals *)&e->refusals, rec, gpu_type);
    return r && r->gpus > 0 ? r : NULL;
}

static void refuse(struct eng_refusals *t, const struct job_record *rec,
                   const char *gpu_type)
{
    const struct job *job = &rec->job;
    struct eng_refusal *r = find(t, rec, gpu_type);

    if (!r) {
        r = &t->at[t->n++ % REFUSALS_N];
        *r = (struct eng_refusal){.class_hash = hash_of(rec)};
        text_copy(r->gpu_type, sizeof(r->gpu_type), gpu_type);
    }
    if (r->gpus == 0 || job->needed_bytes < r->needed_bytes) {
        r->needed_bytes = job->needed_bytes;
        r->available_bytes = job->available_bytes;
    }
    if (job->gpus > r->gpus)
        r->gpus = job->gpus;
}

void eng_refusals_note(struct engine *e, const struct job_record *rec,
                       const struct store_event *ev)
{
    bool is_refused = ev->ev == EV_REPORT && ev->attempt == rec->job.attempt &&
                      strcmp(rec->job.cause, "memory") == 0;
    struct detail d;

    if (!rec->own.class || rec->job.gpus < 1 ||
        (!is_refused && (ev->ev != EV_RUN || e->refusals.n == 0)) ||
        detail_decode(ev->detail, &d, NULL) < 0 || d.gpu_type[0] == '\0')
        return;
    struct eng_refusal *r = find(&e->refusals, rec, d.gpu_type);
    if (is_refused)
        refuse(&e->refusals, rec, d.gpu_type);
    else if (r && r->gpus >= rec->job.gpus)
        r->gpus = rec->job.gpus - 1;
}
