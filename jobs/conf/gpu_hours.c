/* gpu_hours.c - see gpu_hours.h. */
#include "jobs/conf/gpu_hours.h"

#include <string.h>

#include "jobs/text/scalar.h"

static const double window_min_s = 3600, window_max_s = 366 * 86400.0,
                    hours_max = 1e9;

/* The word up to the next blank; moves *io behind the blanks after it. */
static int take_word(const char **io, char *out, size_t cap)
{
    size_t n = strcspn(*io, " ");
    if (n == 0 || n >= cap)
        return -1;
    memcpy(out, *io, n);
    out[n] = '\0';
    *io += n;
    *io += strspn(*io, " ");
    return 0;
}

int gpu_hours_parse(const char *text, struct gpu_hours_limit *ret,
                    struct error *err)
{
    char hours[32], per[8], window[32], hint[SCALAR_HINT_CAP];
    struct gpu_hours_limit l = {.hours = 0};
    const char *p = text;

    if (take_word(&p, hours, sizeof(hours)) < 0 ||
        take_word(&p, per, sizeof(per)) < 0 ||
        take_word(&p, window, sizeof(window)) < 0 || *p ||
        strcmp(per, "per") != 0 || scalar_float(hours, &l.hours) < 0 ||
        scalar_duration(window, &l.window_s, hint, NULL) < 0)
        return error_set(err, ERR_INVAL, "must be HOURS per DURATION");
    if (!(l.hours > 0 && l.hours <= hours_max))
        return error_set(err, ERR_INVAL,
                         "must have GPU-hours above 0, at most 1e9");
    if (!(l.window_s >= window_min_s && l.window_s <= window_max_s))
        return error_set(err, ERR_INVAL,
                         "must be per a duration of 1h to 366d");
    *ret = l;
    return 0;
}
