/* sol.c - see sol.h. */
#include "worker/train/sol.h"

#include <math.h>
#include <stdio.h>

#include "kernels/card_name.h"

enum { WARM_UP = 3 }; /* iterations of a run that the log leaves out */

void sol_open(struct sol *s, const struct job_spec *spec, enum dtype dt,
              char ret[SOL_LINE_CAP])
{
    static const char none[] = "sol is not reported";
    const bool tf32 = spec->train.precision == PRECISION_TF32;
    struct error why = ERROR_INIT;
    char card[CARD_NAME_CAP];
    struct card_limits *limits = &s->floor.card;
    ret[0] = '\0';
    if (s->gpu < 0)
        return;
    if (spec->train.profile != PROFILE_OFF) {
        (void)snprintf(ret, SOL_LINE_CAP,
                       "%s: train.profile slows iterations down", none);
    } else if (device_cuda_card(s->gpu, card, &why) < 0) {
        (void)snprintf(ret, SOL_LINE_CAP, "%s: %s", none, why.msg);
    } else if (!card_limits_find(card, dt, tf32, limits)) {
        (void)snprintf(ret, SOL_LINE_CAP,
                       "%s: no limits are known of '%s' in %s", none, card,
                       tf32 ? "tf32" : dtype_name(dt));
    } else {
        s->is_on = true;
        (void)snprintf(ret, SOL_LINE_CAP,
                       "limits of %s in %s: %.1f TFLOP/s, %.2f TB/s", card,
                       tf32 ? "tf32" : dtype_name(dt), limits->flop_s / 1e12,
                       limits->byte_s / 1e12);
    }
}

void sol_begin(struct sol *s)
{
    s->floor.s = 0;
    s->has_captured = s->has_updated = false;
}

void sol_add(struct sol *s, const struct model *m, const struct batch *b)
{
    if (s->is_on)
        model_floor(m, b, &s->floor);
}

double sol_end(struct sol *s, double update_bytes, double t_iter)
{
    s->iterations++;
    if (!s->is_on || s->has_captured || !s->has_updated || !(t_iter > 0))
        return NAN;
    card_floor_add(&s->floor, 0, update_bytes);
    if (s->iterations > WARM_UP) {
        s->floor_s += s->floor.s;
        s->took_s += t_iter;
    }
    return s->floor.s / t_iter;
}

void sol_next_epoch(struct sol *s)
{
    s->floor_s = s->took_s = 0;
}

const char *sol_text(const struct sol *s, char ret[SOL_TEXT_CAP])
{
    ret[0] = '\0';
    if (s->took_s > 0)
        (void)snprintf(ret, SOL_TEXT_CAP, ", %.3g %% of the GPU's limit",
                       100 * s->floor_s / s->took_s);
    return ret;
}
