/* timestamp.c - parse RFC 3339 times and durations; see timestamp.h. */
#include "jobs/text/timestamp.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "jobs/text/scalar.h"

static const double AFTER_MAX_S = 366 * 86400;

static const char as_in[] = "as in 2026-12-01T08:00:00Z, with +01:00 in place "
                            "of Z, or +2h from now on";

/* Reads exactly n digits and moves past them. -1: other characters. */
static int read_digits(const char **p, int n, int *ret)
{
    int v = 0;
    for (int i = 0; i < n; i++) {
        char c = (*p)[i];
        if (c < '0' || c > '9')
            return -1;
        v = v * 10 + (c - '0');
    }
    *p += n;
    *ret = v;
    return 0;
}

static int read_char(const char **p, const char *one_of)
{
    if (**p == '\0' || !strchr(one_of, **p))
        return -1;
    (*p)++;
    return 0;
}

static int month_days(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && is_leap);
}

/* Days since 1970-01-01 in the Gregorian calendar. */
static int64_t days_of(int year, int month, int day)
{
    int64_t y = year - 1, days = 365 * y + y / 4 - y / 100 + y / 400 - 719162;
    for (int m = 1; m < month; m++)
        days += month_days(year, m);
    return days + day - 1;
}

/* -1: not a date and time. Leaves the zone. */
static int read_time(const char **p, double *ret)
{
    int year, month, day, hour, minute, second;
    if (read_digits(p, 4, &year) < 0 || read_char(p, "-") < 0 ||
        read_digits(p, 2, &month) < 0 || read_char(p, "-") < 0 ||
        read_digits(p, 2, &day) < 0 || read_char(p, "Tt ") < 0 ||
        read_digits(p, 2, &hour) < 0 || read_char(p, ":") < 0 ||
        read_digits(p, 2, &minute) < 0 || read_char(p, ":") < 0 ||
        read_digits(p, 2, &second) < 0)
        return -1;
    if (year < 1970 || month < 1 || month > 12 || day < 1 ||
        day > month_days(year, month) || hour > 23 || minute > 59 ||
        second > 60)
        return -1;
    *ret = (double)days_of(year, month, day) * 86400 + hour * 3600 +
           minute * 60 + second;
    double unit = 1;
    if (**p == '.' && (*p)[1] >= '0' && (*p)[1] <= '9')
        for ((*p)++; **p >= '0' && **p <= '9'; (*p)++)
            *ret += (**p - '0') * (unit /= 10);
    return 0;
}

/* Z, or +01:00; *ret is the offset from UTC. */
static int read_zone(const char **p, double *ret)
{
    int hours, minutes;
    *ret = 0;
    if (read_char(p, "Zz") == 0)
        return 0;
    int sign = **p == '-' ? -1 : 1;
    if (read_char(p, "+-") < 0 || read_digits(p, 2, &hours) < 0 ||
        read_char(p, ":") < 0 || read_digits(p, 2, &minutes) < 0 ||
        hours > 23 || minutes > 59)
        return -1;
    *ret = sign * (hours * 3600 + minutes * 60);
    return 0;
}

static int read_after(const char *text, struct when *ret, char *hint,
                      struct error *err)
{
    double s = 0;
    if (scalar_duration(text, &s, hint, err) < 0)
        return -1;
    if (s > AFTER_MAX_S)
        return error_set(err, ERR_INVAL, "more than a year from now");
    *ret = (struct when){.is_after = true, .s = s};
    return 0;
}

int timestamp_parse(const char *text, struct when *ret,
                    char ret_hint[WHEN_HINT_CAP], struct error *err)
{
    char own[WHEN_HINT_CAP], *hint = ret_hint ? ret_hint : own;
    const char *p = text;
    double s = 0, ahead_s = 0;

    hint[0] = '\0';
    if (*text == '+')
        return read_after(text + 1, ret, hint, err);
    (void)snprintf(hint, WHEN_HINT_CAP, "%s", as_in);
    if (read_time(&p, &s) < 0)
        return error_set(err, ERR_INVAL, "not a date and time");
    if (*p == '\0')
        return error_set(err, ERR_INVAL, "the time zone is missing");
    if (read_zone(&p, &ahead_s) < 0 || *p)
        return error_set(err, ERR_INVAL, "not a zone: '%.40s'", p);
    hint[0] = '\0';
    *ret = (struct when){.s = fmax(s - ahead_s, 0)};
    return 0;
}
