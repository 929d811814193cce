/* slurm_text.c - see slurm_text.h. */
#include "scheduler/sim/trace/slurm_text.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

#include "scheduler/sim/trace/digits.h"

enum { DAYS_MAX = 100000 };

bool slurm_text_is_unknown(const char *s)
{
    return *s == '\0' || strcmp(s, "Unknown") == 0 || strcmp(s, "None") == 0 ||
           strcmp(s, "N/A") == 0;
}

static bool is_same_clock(const struct tm *a, const struct tm *b)
{
    return a->tm_sec == b->tm_sec && a->tm_min == b->tm_min &&
           a->tm_hour == b->tm_hour && a->tm_mday == b->tm_mday;
}

/* mktime(3) chooses either of two hours, by what it was asked before. */
bool slurm_text_time(const char *s, double *ret)
{
    static const time_t shifts[] = {3600, 1800};
    struct tm tm = {.tm_isdst = -1}, other;
    const char *end = strptime(s, "%Y-%m-%dT%H:%M:%S", &tm);

    if (!end || *end != '\0')
        return false;
    const struct tm asked = tm;
    time_t t = mktime(&tm);
    if (t == (time_t)-1)
        return false;
    *ret = (double)t;
    for (size_t i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++) {
        time_t before = t - shifts[i];
        if (localtime_r(&before, &other) && is_same_clock(&asked, &other))
            *ret = (double)before;
    }
    return true;
}

bool slurm_text_span(const char *p, double *ret)
{
    int32_t days = 0, part[3] = {0}, n = 0;
    const char *dash = strchr(p, '-');

    if (dash && (!digits_take(&p, DAYS_MAX, &days) || p++ != dash))
        return false;
    for (;; p++) {
        if (n == 3 || !digits_take(&p, 1 << 30, &part[n++]))
            return false;
        if (*p != ':')
            break;
    }
    if (*p == '.') /* milliseconds */
        p += 1 + strspn(p + 1, "0123456789");
    if (*p != '\0' || n < 2)
        return false;
    *ret = 86400.0 * days + (n == 3 ? 3600.0 * part[0] : 0) +
           60.0 * part[n - 2] + part[n - 1];
    return true;
}

bool slurm_text_tres(const char *list, const char *key, int32_t most,
                     int32_t *ret)
{
    size_t n = strlen(key);
    int64_t typed = 0;

    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',') {
        if (strncmp(p, key, n) != 0 || (p[n] != '=' && p[n] != ':'))
            continue;
        const char *value = p + n + strcspn(p + n, "=,");
        bool is_total = p[n] == '=';
        int32_t one;
        if (*value++ != '=' || !digits_take(&value, most, &one) ||
            (*value != ',' && *value != '\0'))
            return false;
        if (is_total) {
            *ret = one;
            return true;
        }
        typed += one;
    }
    *ret = typed <= most ? (int32_t)typed : 0;
    return typed <= most;
}
