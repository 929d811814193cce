/* curve_cursor.c - see curve_cursor.h. */
#include "scheduler/ctld/curves/curve_cursor.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/ingest/attempt_metrics.h"

int curve_cursor_parse(const char *text, int64_t attempt,
                       struct curve_cursor *ret, struct error *err)
{
    char *end = NULL;
    const bool is_digits = strspn(text, "0123456789.") == strlen(text);
    const long long named = strtoll(text, &end, 10);
    const char *rest = *end == '.' ? end + 1 : "";
    const long long x = strtoll(rest, &end, 10);
    if (!is_digits || strlen(rest) < 1 || strlen(rest) > 18 || *end ||
        named < 1 || named > INT32_MAX)
        return error_set(err, ERR_INVAL,
                         "cursor=%.40s: expected the cursor of a reply", text);
    if (attempt > 0 && named != attempt)
        return error_set(err, ERR_INVAL,
                         "cursor=%.40s: expected a cursor of attempt %lld, "
                         "which attempt= names",
                         text, (long long)attempt);
    *ret = (struct curve_cursor){.attempt = (int32_t)named, .x = x};
    return 0;
}

int64_t curve_cursor_ranks(const struct job *job)
{
    const int32_t most = job->gpus > job->gpus_max ? job->gpus : job->gpus_max;
    return most > 0 ? most : 1;
}

int64_t curve_cursor_settled(struct ctld *c, const struct job *job)
{
    const struct attempt_metrics *m =
        attempt_metrics_of(c, job->id, job->attempt, false);
    int64_t least = INT64_MAX;
    if (!m)
        return job_state_is_live(job->state) ? 0 : INT64_MAX;
    if (m->n_ranks < job->gpus)
        return 0; /* one that has reported nothing */
    for (int32_t i = 0; i < m->n_ranks; i++)
        if (m->seen[i].iteration < least)
            least = m->seen[i].iteration;
    return m->n_ranks > 0 ? least : 0;
}
