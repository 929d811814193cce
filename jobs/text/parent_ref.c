/* parent_ref.c - see parent_ref.h. */
#include "jobs/text/parent_ref.h"

#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads a number of at most `max`, without zeros before it. */
static bool take_number(const char **io_at, uint64_t max, uint64_t *ret)
{
    const char *at = *io_at;
    uint64_t n = 0;

    if (!is_digit(*at) || (*at == '0' && is_digit(at[1])))
        return false;
    for (; is_digit(*at); at++) {
        const uint64_t digit = (uint64_t)(*at - '0');
        if (n > (max - digit) / 10)
            return false;
        n = 10 * n + digit;
    }
    *io_at = at;
    *ret = n;
    return true;
}

enum parent_word parent_ref_parse(const char *text, struct parent_ref *ret)
{
    struct parent_ref r = {.task = -1};
    uint64_t task = 0;

    if (!take_number(&text, INT64_MAX, &r.job) || r.job < 1)
        return PARENT_NONE;
    if (*text == '_') {
        text++;
        if (!take_number(&text, INT32_MAX, &task))
            return PARENT_NONE;
        r.task = (int32_t)task;
    }
    if (*text != '\0' && *text != ':')
        return PARENT_NONE;
    r.is_best = strcmp(text, ":best") == 0;
    if (*text == ':' && !r.is_best)
        return PARENT_BAD;
    *ret = r;
    return PARENT_JOB;
}
