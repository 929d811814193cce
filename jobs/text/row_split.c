/* row_split.c - see row_split.h. */
#include "jobs/text/row_split.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char name[] = "train";

/* "1000", "95%" or nothing; moves *p past it. */
static int read_bound(const char **p, struct row_bound *ret, struct error *err)
{
    const size_t digits = strspn(*p, "0123456789");
    *ret = (struct row_bound){.at = -1};
    if (digits == 0)
        return 0;
    const long v = digits <= 10 ? strtol(*p, NULL, 10) : LONG_MAX;
    *p += digits;
    ret->percent = **p == '%';
    *p += ret->percent;
    if (v > (ret->percent ? 100 : INT32_MAX))
        return error_set(err, ERR_INVAL, "a bound is above %d%s",
                         ret->percent ? 100 : INT32_MAX,
                         ret->percent ? "%" : "");
    ret->at = (int32_t)v;
    return 0;
}

int row_split_parse(const char *text, struct row_split *ret, struct error *err)
{
    struct row_split s = {{.at = -1}, {.at = -1}};
    const char *p = text != NULL ? text : name;
    if (strncmp(p, name, strlen(name)) != 0)
        return error_set(err, ERR_INVAL, "it does not begin with '%s'", name);
    p += strlen(name);
    if (*p == '[') {
        p++;
        if (read_bound(&p, &s.from, err) < 0)
            return -1;
        if (*p++ != ':')
            return error_set(err, ERR_INVAL, "expected ':' in the brackets");
        if (read_bound(&p, &s.to, err) < 0)
            return -1;
        if (*p++ != ']')
            return error_set(err, ERR_INVAL, "expected ']'");
    }
    if (*p != '\0')
        return error_set(err, ERR_INVAL, "nothing follows '%s' or ']'", name);
    if (s.from.at >= 0 && s.to.at >= 0 && s.from.percent == s.to.percent &&
        s.from.at >= s.to.at)
        return error_set(err, ERR_INVAL, "no row is between the bounds");
    *ret = s;
    return 0;
}

static int64_t place(const struct row_bound *b, int64_t rows, int64_t open)
{
    if (b->at < 0)
        return open;
    const int64_t at =
        b->percent ? (int64_t)rint((double)rows * b->at / 100) : b->at;
    return at < rows ? at : rows;
}

void row_split_of(const struct row_split *s, int64_t rows, int64_t *ret_from,
                  int64_t *ret_to)
{
    const int64_t from = place(&s->from, rows, 0);
    const int64_t to = place(&s->to, rows, rows);
    *ret_from = from;
    *ret_to = to > from ? to : from;
}
