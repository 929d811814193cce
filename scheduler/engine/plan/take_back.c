/* take_back.c - take back attempts that are pending in the allocator's queue.
 *
 * The attempt is over for the engine, without counting a retry, before the
 * allocator hears of it: if it starts at that moment, its worker is fenced. The
 * job is not planned again before the allocator has been told (dispatch.c).
 *
 * If the GPU-hours of a user or an account run out, the engine takes back the
 * pending attempts of their jobs: they would start without regard to the limit.
 */
#include "scheduler/engine/plan/take_back.h"

#include <math.h>

#include "scheduler/engine/attempts/attempts.h"
#include "scheduler/engine/plan/plan.h"

int eng_take_back(struct engine *e, struct job_record *rec, const char *why,
                  struct error *err)
{
    struct detail d = DETAIL_INIT;
    int32_t attempt = rec->job.attempt;

    d.exit_code = EXIT_NEVER_RAN;
    detail_because(&d, eng_taken_back, why);
    if (eng_stage(e, rec, EV_REQUEUE, -1, &d, err) < 0)
        return -1;
    rec->dropped = attempt;
    eng_lists_update(e, rec);
    return 0;
}

bool eng_is_pending(const struct job_record *rec)
{
    return rec->job.state == JOB_DISPATCHING && rec->is_heard &&
           isinf(rec->ask_at_s) && rec->job.native_id[0] == '\0' &&
           !eng_is_ending(rec);
}

int eng_take_all_back(struct engine *e, const char *why, struct error *err)
{
    struct job_record *rec = eng_next_moving(e, 0);

    for (; rec; rec = eng_next_moving(e, rec->job.id)) {
        if (eng_is_pending(rec) && eng_take_back(e, rec, why, err) < 0)
            return -1;
    }
    return 0;
}

int eng_take_spent_back(struct engine *e, struct error *err)
{
    struct job_record *rec = e->n_spent > 0 ? eng_next_moving(e, 0) : NULL;
    char why[JOB_REASON_CAP];

    for (; rec; rec = eng_next_moving(e, rec->job.id)) {
        if (eng_is_pending(rec) &&
            eng_is_spent(e, &rec->job, rec->job.gpus, why) &&
            eng_take_back(e, rec, why, err) < 0)
            return -1;
    }
    return 0;
}
