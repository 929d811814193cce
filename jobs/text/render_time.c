/* render_time.c - see render_time.h. */
#include "jobs/text/render_time.h"

#include <math.h>
#include <stdio.h>

char *render_duration(double s, char *out, size_t cap)
{
    if (!isfinite(s)) {
        out[0] = cap > 1 ? '-' : '\0';
        out[cap > 1] = '\0';
        return out;
    }
    long long t = s > 0 ? (long long)(s + 0.5) : 0;
    long long day = t / 86400, h = t / 3600 % 24, m = t / 60 % 60;
    if (day)
        (void)snprintf(out, cap, "%lld-%02lld:%02lld:%02lld", day, h, m,
                       t % 60);
    else if (h)
        (void)snprintf(out, cap, "%lld:%02lld:%02lld", h, m, t % 60);
    else
        (void)snprintf(out, cap, "%lld:%02lld", m, t % 60);
    return out;
}

char *render_time(double s, char *out, size_t cap)
{
    if (!isfinite(s))
        (void)snprintf(out, cap, "-");
    else if (fabs(s) >= 1)
        (void)snprintf(out, cap, "%.2f s", s);
    else if (fabs(s) >= 1e-3)
        (void)snprintf(out, cap, "%.1f ms", s * 1e3);
    else
        (void)snprintf(out, cap, "%.0f us", s * 1e6);
    return out;
}

char *render_about(double s, char *out, size_t cap)
{
    static const struct {
        double up_to_s, unit_s;
        char letter;
    } steps[] = {{90, 1, 's'}, {90 * 60, 60, 'm'}, {36 * 3600, 3600, 'h'}};
    size_t i = 0;
    while (i < 3 && s >= steps[i].up_to_s)
        i++;
    (void)snprintf(out, cap, "~%.0f%c", s / (i < 3 ? steps[i].unit_s : 86400),
                   i < 3 ? steps[i].letter : 'd');
    return out;
}
