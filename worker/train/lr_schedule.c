/* lr_schedule.c - see lr_schedule.h. */
#include "worker/train/lr_schedule.h"

#include <math.h>

static double cosine(int64_t step, int64_t warmup, int64_t total)
{
    int64_t span = total - warmup > 1 ? total - warmup : 1;
    double done = (double)(step - warmup) / (double)span;
    double factor = 0.5 * (1 + cos(acos(-1.0) * done));
    return factor > 0 && done < 1 ? factor : 0;
}

double schedule_factor(const struct job_spec *spec, int64_t step,
                       int64_t per_epoch, int64_t total)
{
    int64_t warmup = spec->train.lr_scheduler.num_warmup_steps;
    int64_t epoch = per_epoch > 0 ? step / per_epoch : 0, taken = 0;
    const struct spec_numbers *at = &spec->train.lr_scheduler.milestones;

    if (step < warmup)
        return (double)step / (double)warmup;
    switch (spec->train.lr_scheduler.name) {
    case SCHEDULE_CONSTANT:
        return 1;
    case SCHEDULE_COSINE:
        return cosine(step, warmup, total);
    case SCHEDULE_STEP:
        taken = epoch / spec->train.lr_scheduler.step_size;
        break;
    case SCHEDULE_MULTISTEP:
        for (int32_t i = 0; i < at->n; i++)
            taken += (double)epoch >= at->v[i];
        break;
    }
    return pow(spec->train.lr_scheduler.gamma, (double)taken);
}
