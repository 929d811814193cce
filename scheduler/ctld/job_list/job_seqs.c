/* job_seqs.c - see job_seqs.h. */
#include "scheduler/ctld/job_list/job_seqs.h"

#include <stdlib.h>
#include <string.h>

/* So many of the newest jobs have a number of their own. */
enum { SEQS_MAX = 1 << 16 };

/* Room for this job; the oldest share one number. */
static bool reserve(struct job_seqs *s, uint64_t job)
{
    if (job - s->from >= SEQS_MAX) {
        uint64_t less = job - s->from - SEQS_MAX / 2;
        uint64_t n = less < s->n ? less : s->n;
        for (uint64_t i = 0; i < n; i++)
            s->old = s->v[i] > s->old ? s->v[i] : s->old;
        if (n > 0) {
            memmove(s->v, s->v + n, (s->n - n) * sizeof(*s->v));
            memset(s->v + s->n - n, 0, n * sizeof(*s->v));
        }
        s->from += less;
    }
    size_t at = (size_t)(job - s->from);
    if (at < s->n)
        return true;
    size_t n = at < 512 ? 1024 : at * 2;
    uint64_t *p = realloc(s->v, n * sizeof(*p));
    if (!p)
        return false;
    memset(p + s->n, 0, (n - s->n) * sizeof(*p));
    s->v = p;
    s->n = n;
    return true;
}

void job_seqs_saw(struct job_seqs *s, uint64_t job, uint64_t seq)
{
    s->last = seq > s->last ? seq : s->last;
    if (job < s->from)
        s->old = seq > s->old ? seq : s->old;
    else if (reserve(s, job))
        s->v[job - s->from] = seq;
    else
        s->is_lost = true;
}

uint64_t job_seqs_of(const struct job_seqs *s, uint64_t job)
{
    uint64_t at = job - s->from;
    if (job < s->from)
        return s->old;
    return at < s->n ? s->v[at] : 0;
}

void job_seqs_clear(struct job_seqs *s)
{
    free(s->v);
    *s = (struct job_seqs){.n = 0};
}
