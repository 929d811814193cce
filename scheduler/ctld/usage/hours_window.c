/* hours_window.c - GPU-hours within a sliding window; see
 * gpu_hours_limit.h. */
#include <math.h>

#include "scheduler/ctld/usage/gpu_hours_limit.h"

double hours_used(const struct hours_interval *v, size_t n, double window_s,
                  double now_s, double at_s)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double to_s = isnan(v[i].to_s) ? now_s : v[i].to_s;
        double s = fmin(to_s, at_s) - fmax(v[i].from_s, at_s - window_s);
        sum += s > 0 ? s * v[i].gpus : 0;
    }
    return sum / 3600;
}

/* The use falls from now on, as nothing is added and the window moves. */
double hours_free_at(const struct hours_interval *v, size_t n,
                     const struct gpu_hours_limit *l, double now_s)
{
    double lo = now_s, hi = now_s + l->window_s;

    if (hours_used(v, n, l->window_s, now_s, now_s) < l->hours)
        return now_s;
    while (hi - lo > 0.5) {
        double mid = lo + (hi - lo) / 2;
        if (hours_used(v, n, l->window_s, now_s, mid) < l->hours)
            hi = mid;
        else
            lo = mid;
    }
    return hi;
}

/* Too early, as the window moves meanwhile: then it is looked at again. */
double hours_spent_at(const struct hours_interval *v, size_t n,
                      const struct gpu_hours_limit *l, double now_s)
{
    double left = l->hours - hours_used(v, n, l->window_s, now_s, now_s);
    int64_t gpus = 0;

    for (size_t i = 0; i < n; i++)
        gpus += isnan(v[i].to_s) ? v[i].gpus : 0;
    return left > 0 && gpus > 0 ? now_s + left * 3600 / (double)gpus
                                : (double)INFINITY;
}
