/* scalar.c - closed grammars for numbers, durations and sizes; see scalar.h. */
#include "jobs/text/scalar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/spec/spec.h"
#include "jobs/text/text.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t digits(const char *s)
{
    size_t n = 0;
    while (is_digit(s[n]))
        n++;
    return n;
}

int scalar_int(const char *s, int64_t *ret)
{
    const char *p = s + (*s == '-' || *s == '+');
    size_t n = digits(p);
    if (n == 0 || n > 18 || p[n] != '\0') /* 18 digits always fit */
        return -1;
    *ret = strtoll(s, NULL, 10);
    return 0;
}

int scalar_float(const char *s, double *ret)
{
    const char *p = s + (*s == '-' || *s == '+');
    size_t whole = digits(p);
    size_t part = 0;
    p += whole;
    if (*p == '.') {
        part = digits(p + 1);
        p += 1 + part;
    }
    if (whole + part == 0)
        return -1;
    if (*p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '-' || p[1] == '+');
        size_t n = digits(p);
        if (n == 0)
            return -1;
        p += n;
    }
    if (*p != '\0')
        return -1;
    int saved = errno; /* strtod sets errno if the result is out of range */
    *ret = strtod(s, NULL);
    errno = saved;
    return 0;
}

int scalar_bool(const char *s, bool *ret)
{
    static const char *const yes[] = {"true", "True", "yes", "on"};
    static const char *const no[] = {"false", "False", "no", "off"};
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        if (strcmp(s, yes[i]) == 0 || strcmp(s, no[i]) == 0) {
            *ret = strcmp(s, yes[i]) == 0;
            return 0;
        }
    }
    return -1;
}

/* Up to nine digits, so that no product below can overflow. */
static int number(const char **p, int64_t *ret)
{
    size_t n = digits(*p);
    if (n == 0 || n > 9)
        return -1;
    *ret = strtoll(*p, NULL, 10);
    *p += n;
    return 0;
}

/* 1d2h30m10s: each unit at most once, the largest first. */
static int units(const char *s, double *ret_s)
{
    static const char names[] = "dhms";
    static const double seconds[] = {86400, 3600, 60, 1};
    const char *least = names;
    double sum = 0;
    do {
        int64_t n = 0;
        if (number(&s, &n) < 0 || *s == '\0')
            return -1;
        const char *u = strchr(least, *s);
        if (!u)
            return -1;
        sum += (double)n * seconds[u - names];
        least = u + 1;
        s++;
    } while (*s);
    *ret_s = sum;
    return 0;
}

/* ":MM" or ":SS", two digits below 60. */
static int sixtieth(const char **p, int64_t *ret)
{
    const char *s = *p;
    if (s[0] != ':' || digits(s + 1) != 2 || s[1] > '5')
        return -1;
    *ret = (s[1] - '0') * 10 + (s[2] - '0');
    *p = s + 3;
    return 0;
}

/* H:MM:SS and D-HH:MM:SS. Slurm reads the short forms differently from most
 * people, so the caller distinguishes them: *ret_fields has the number of
 * fields. */
static int clock_form(const char *s, int64_t ret[4], int *ret_fields,
                      bool *ret_days)
{
    int n = 0;
    if (number(&s, &ret[0]) < 0)
        return -1;
    n++;
    *ret_days = *s == '-';
    if (*ret_days) {
        s++;
        if (digits(s) != 2 || number(&s, &ret[1]) < 0 || ret[1] > 23)
            return -1;
        n++;
    }
    while (*s && n < 3 + *ret_days && sixtieth(&s, &ret[n]) == 0)
        n++;
    if (*s)
        return -1;
    *ret_fields = n;
    return 0;
}

static int ambiguous(const char *s, const int64_t f[4], int n, bool days,
                     char hint[SCALAR_HINT_CAP], struct error *err)
{
    long long a = f[0], b = n > 1 ? f[1] : 0;
    if (days) {
        (void)snprintf(hint, SCALAR_HINT_CAP, "write %lld-%02lld:%02lld:00", a,
                       b, n > 2 ? (long long)f[2] : 0);
        return error_set(err, ERR_INVAL,
                         "'%s' is ambiguous (%lld days and %lld hours, or "
                         "%lld to %lld)",
                         s, a, b, a, b);
    }
    if (n == 1) {
        if (a > 0) /* 0s is out of range of most keys */
            (void)snprintf(hint, SCALAR_HINT_CAP, "write %llds or %lldm", a, a);
        else
            (void)snprintf(hint, SCALAR_HINT_CAP, "write 90s, 15m or 8h");
        return error_set(err, ERR_INVAL,
                         "'%s' has no unit (%lld seconds or %lld minutes)", s,
                         a, a);
    }
    if (b == 0) {
        (void)snprintf(hint, SCALAR_HINT_CAP,
                       "write %lldh, or %lldm, or %lld:00:00", a, a, a);
        return error_set(err, ERR_INVAL,
                         "'%s' is ambiguous (%lld hours or %lld minutes)", s, a,
                         a);
    }
    (void)snprintf(hint, SCALAR_HINT_CAP, "write %lldh%lldm or %lldm%llds", a,
                   b, a, b);
    return error_set(err, ERR_INVAL,
                     "'%s' is ambiguous (%lld hours %lld minutes or "
                     "%lld minutes %lld seconds)",
                     s, a, b, a, b);
}

int scalar_duration(const char *s, double *ret_s, char hint[SCALAR_HINT_CAP],
                    struct error *err)
{
    int64_t f[4] = {0};
    int n = 0;
    bool days = false;

    hint[0] = '\0';
    if (units(s, ret_s) == 0)
        return 0;
    if (clock_form(s, f, &n, &days) == 0) {
        if (n != 3 + days)
            return ambiguous(s, f, n, days, hint, err);
        int64_t hours = days ? f[0] * 24 + f[1] : f[0];
        *ret_s = (double)(hours * 3600 + f[n - 2] * 60 + f[n - 1]);
        return 0;
    }
    char q[TEXT_QUOTE_CAP];
    (void)snprintf(hint, SCALAR_HINT_CAP,
                   "write 90s, 15m, 8h, 2d, 1h30m, 1:30:00 or 2-12:00:00");
    return error_set(err, ERR_INVAL, "'%s' is not a duration",
                     text_quote(q, sizeof(q), s));
}

int scalar_size(const char *s, int64_t *ret_bytes, char hint[SCALAR_HINT_CAP],
                struct error *err)
{
    static const char names[] = "BKMGT";
    const char *p = s;
    int64_t n = 0;
    const char *u = NULL;
    char q[TEXT_QUOTE_CAP];

    hint[0] = '\0';
    /* Ten bits per unit letter, 33 per count: no more than 2^33 * 2^30; T needs
     * a check. */
    if (digits(p) <= 15 && digits(p) > 0) {
        n = strtoll(p, NULL, 10);
        p += digits(p);
        u = *p ? strchr(names, *p) : NULL;
    }
    bool tail =
        u && (p[1] == '\0' || (u > names && (strcmp(p + 1, "B") == 0 ||
                                             strcmp(p + 1, "iB") == 0)));
    if (tail) {
        int shift = 10 * (int)(u - names);
        if (n <= INT64_MAX >> shift) {
            *ret_bytes = n << shift;
            return 0;
        }
        return error_set(err, ERR_INVAL, "'%s' is too large",
                         text_quote(q, sizeof(q), s));
    }
    if (n > 0 && *p == '\0') {
        (void)snprintf(hint, SCALAR_HINT_CAP, "write %lldM, or %lldB",
                       (long long)n, (long long)n);
        return error_set(err, ERR_INVAL, "'%s' has no unit", s);
    }
    (void)snprintf(hint, SCALAR_HINT_CAP,
                   "write 64M, 64MB or 64MiB (all 64 * 1024 * 1024 bytes); "
                   "K, M, G, T, or B");
    return error_set(err, ERR_INVAL, "'%s' is not a size",
                     text_quote(q, sizeof(q), s));
}

static int with_hint(int rc, const char *hint, struct error *err)
{
    if (rc < 0 && hint[0] && err) {
        struct error inner = *err;
        (void)error_set(err, inner.code, "%s; %s", inner.msg, hint);
    }
    return rc;
}

int parse_duration(const char *s, double *ret_s, struct error *err)
{
    char hint[SCALAR_HINT_CAP];
    return with_hint(scalar_duration(s, ret_s, hint, err), hint, err);
}

int parse_size(const char *s, int64_t *ret_bytes, struct error *err)
{
    char hint[SCALAR_HINT_CAP];
    return with_hint(scalar_size(s, ret_bytes, hint, err), hint, err);
}

const char *scalar_show_float(char out[SCALAR_CAP], double v)
{
    /* The shortest of the three that parses back to v; 17 digits always do. */
    for (int n = 15; n <= 17; n++) {
        (void)snprintf(out, SCALAR_CAP, "%.*g", n, v);
        if (strtod(out, NULL) == v)
            break;
    }
    return out;
}

const char *scalar_show_duration(char out[SCALAR_CAP], double s)
{
    static const char names[] = "dhms";
    static const int64_t seconds[] = {86400, 3600, 60, 1};
    int64_t n = (int64_t)s; /* parsers only make whole seconds */
    int i = 0;
    while (i < 3 && (n == 0 || n % seconds[i] != 0))
        i++;
    (void)snprintf(out, SCALAR_CAP, "%lld%c", (long long)(n / seconds[i]),
                   names[i]);
    return out;
}

const char *scalar_show_size(char out[SCALAR_CAP], int64_t bytes)
{
    static const char names[] = "BKMGT";
    int i = 0;
    while (i < 4 && bytes > 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        i++;
    }
    (void)snprintf(out, SCALAR_CAP, "%lld%c", (long long)bytes, names[i]);
    return out;
}

const char *scalar_show_sizes(char out[SCALAR_SIZES_CAP], int64_t min,
                              int64_t max)
{
    char low[SCALAR_CAP] = "", high[SCALAR_CAP] = "";
    if (min > 0)
        (void)scalar_show_size(low, min);
    if (max > 0)
        (void)scalar_show_size(high, max);
    bool is_one = min == max;
    (void)snprintf(out, SCALAR_SIZES_CAP, "%.20s%s%.20s", low,
                   is_one ? "" : "..", is_one ? "" : high);
    return out;
}
