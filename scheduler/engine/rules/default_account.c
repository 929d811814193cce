/* default_account.c - see account.h.
 *
 * A cluster may tell thousands of associations, and each task of a sweep and
 * each pending job asks for one. So the engine remembers where it found the row
 * of a user. That is a guess, which it checks: the rows change at any time.
 * That a user has none holds until the allocator tells of a change, as it does
 * after each change of the rows.
 */
#include <stdbool.h>

#include "scheduler/engine/account.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/rules/rules.h"

static bool is_default_of(const struct alloc_quota *q, int64_t uid)
{
    return q->kind == ALLOC_QUOTA_ACCOUNT && (int64_t)q->uid == uid &&
           q->is_default;
}

const char *eng_default_account(const struct engine *e, int64_t uid)
{
    const struct alloc_quota *q;
    size_t n = e->parts.conf->where.account ? 0 : eng_quotas_of(e, &q);
    struct default_seen *seen =
        &((struct engine *)e)->defaults[(uint64_t)uid % DEFAULTS_N];

    if (seen->at < n && is_default_of(&q[seen->at], uid))
        return q[seen->at].name;
    if (n == 0 || (seen->none_uid == uid && seen->none_n == n &&
                   seen->none_news == e->n_news))
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (is_default_of(&q[i], uid)) {
            seen->at = i;
            return q[i].name;
        }
    seen->none_uid = uid;
    seen->none_n = n;
    seen->none_news = e->n_news;
    return NULL;
}

/* A job that is older than the first news of associations has no default in its
 * events before it starts. */
const char *engine_account(const struct engine *e, const struct job *job)
{
    const char *known = eng_account(e->parts.conf, job);
    bool is_to_start =
        !job_state_is_live(job->state) && !job_state_is_final(job->state);

    return known || !is_to_start ? known : eng_default_account(e, job->uid);
}
