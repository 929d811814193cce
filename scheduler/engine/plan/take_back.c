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

int eng_take_back(struct engine *e, struct entry *en, const char *why,
                  struct error *err)
{
    struct detail d = DETAIL_INIT;
    int32_t attempt = en->job.attempt;

    d.exit_code = EXIT_NEVER_RAN;
    detail_because(&d, eng_taken_back, why);
    if (eng_stage(e, en, EV_REQUEUE, -1, &d, err) < 0)
        return -1;
    en->dropped = attempt;
    eng_file(e, en);
    return 0;
}

bool eng_is_pending(const struct entry *en)
{
    return en->job.state == JOB_DISPATCHING && en->is_heard &&
           isinf(en->ask_at_s) && en->job.native_id[0] == '\0' &&
           !eng_is_ending(en);
}

int eng_take_all_back(struct engine *e, const char *why, struct error *err)
{
    struct entry *en = eng_next_moving(e, 0);

    for (; en; en = eng_next_moving(e, en->job.id)) {
        if (eng_is_pending(en) && eng_take_back(e, en, why, err) < 0)
            return -1;
    }
    return 0;
}

int eng_take_spent_back(struct engine *e, struct error *err)
{
    struct entry *en = e->n_spent > 0 ? eng_next_moving(e, 0) : NULL;
    char why[JOB_REASON_CAP];

    for (; en; en = eng_next_moving(e, en->job.id)) {
        if (eng_is_pending(en) &&
            eng_is_spent(e, &en->job, en->job.gpus, why) &&
            eng_take_back(e, en, why, err) < 0)
            return -1;
    }
    return 0;
}
