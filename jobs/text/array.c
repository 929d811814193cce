/* array.c - a parser for ranges, steps and the limit; see array.h. */
#include "jobs/text/array.h"

#include <stdbool.h>
#include <string.h>

struct reader {
    const char *at;
    struct error *err;
};

/* Parses decimal digits; otherwise reports what it found. */
static int read_number(struct reader *r, int32_t max, const char *what,
                       int32_t *ret)
{
    const char *from = r->at;
    int32_t n = 0;
    size_t digits = strspn(r->at, "0123456789");
    if (digits == 0)
        return error_set(r->err, ERR_INVAL, "expected %s", what);
    for (; digits > 0; digits--) {
        n = n * 10 + (*r->at++ - '0');
        if (n > max) {
            r->at = from;
            return error_set(r->err, ERR_INVAL, "%s is at most %d", what, max);
        }
    }
    *ret = n;
    return 0;
}

/* "3", "3-7", "3-7:2" */
static int read_range(struct reader *r, bool has[ARRAY_MAX])
{
    int32_t lo = 0, hi = 0, step = 1;
    if (read_number(r, ARRAY_MAX - 1, "a number", &lo) < 0)
        return -1;
    hi = lo;
    if (*r->at == '-') {
        const char *from = ++r->at;
        if (read_number(r, ARRAY_MAX - 1, "a number", &hi) < 0)
            return -1;
        if (hi < lo) {
            r->at = from;
            return error_set(r->err, ERR_INVAL, "%d comes before %d", hi, lo);
        }
        if (*r->at == ':') {
            from = ++r->at;
            if (read_number(r, ARRAY_MAX, "a step", &step) < 0)
                return -1;
            if (step == 0) {
                r->at = from;
                return error_set(r->err, ERR_INVAL, "a step is 1 or more");
            }
        }
    }
    for (; lo <= hi; lo += step)
        has[lo] = true;
    return 0;
}

/* "%4" at the end. */
static int read_cap(struct reader *r, int32_t *ret)
{
    if (*r->at != '%')
        return 0;
    const char *from = ++r->at;
    if (read_number(r, ARRAY_MAX, "how many at a time", ret) < 0)
        return -1;
    if (*ret == 0) {
        r->at = from;
        return error_set(r->err, ERR_INVAL, "the limit must be 1 or more");
    }
    return 0;
}

int array_parse(const char *text, struct array *ret, size_t *ret_at,
                struct error *err)
{
    struct reader r = {.at = text, .err = err};
    bool has[ARRAY_MAX] = {false};
    int32_t cap = 0;
    int rc = read_range(&r, has);
    while (rc == 0 && *r.at == ',') {
        r.at++;
        rc = read_range(&r, has);
    }
    if (rc == 0)
        rc = read_cap(&r, &cap);
    if (rc == 0 && *r.at)
        rc = error_set(err, ERR_INVAL,
                       "expected numbers and ranges, as in 0-15%%4 or 1,3,7-9");
    if (rc < 0) {
        *ret_at = (size_t)(r.at - text);
        return -1;
    }
    ret->n = 0;
    ret->max_parallel = cap;
    for (int32_t i = 0; i < ARRAY_MAX; i++)
        if (has[i])
            ret->numbers[ret->n++] = i;
    return 0;
}
