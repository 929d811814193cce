/* array.c - the numbers of --array, and where one that cannot be is wrong. */
#include "jobs/text/array.h"

#include <stdio.h>
#include <string.h>

#include "tests/tap.h"

static void test_good(void)
{
    static const struct {
        const char *text, *want; /* "numbers%cap" */
    } t[] = {
        {"0", "0%0"},
        {"0-3", "0 1 2 3%0"},
        {"0-15:5", "0 5 10 15%0"},
        {"1-10:4", "1 5 9%0"},
        {"1,3,7-9", "1 3 7 8 9%0"},
        {"7,1", "1 7%0"},
        {"2,1-3", "1 2 3%0"},
        {"0-3%2", "0 1 2 3%2"},
        {"5-5", "5%0"},
        {"4095", "4095%0"},
        {"007", "7%0"},
        {"1%4096", "1%4096"},
    };
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        struct array a = {.n = 0};
        struct error err = ERROR_INIT;
        char got[100] = "";
        size_t at = 0, len = 0;
        is_int(array_parse(t[i].text, &a, &at, &err), 0, t[i].text);
        for (size_t k = 0; k < a.n && len < 80; k++)
            len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%d",
                                    k ? " " : "", a.numbers[k]);
        (void)snprintf(got + len, sizeof(got) - len, "%%%d", a.max_parallel);
        is_str(got, t[i].want, "its numbers");
    }
    struct array all = {.n = 0};
    size_t at = 0;
    is_int(array_parse("0-4095%8", &all, &at, NULL), 0, "all that may be");
    is_int((long long)all.n, 4096, "are 4096");
}

static void test_bad(void)
{
    static const struct {
        const char *text;
        size_t at;
        const char *message;
    } t[] = {
        {"", 0, "expected a number"},
        {"x", 0, "expected a number"},
        {" 1", 0, "expected a number"},
        {"-1", 0, "expected a number"},
        {"1,", 2, "expected a number"},
        {"1,,2", 2, "expected a number"},
        {"1-", 2, "expected a number"},
        {"0-15%", 5, "expected how many at a time"},
        {"0-15%x", 5, "expected how many at a time"},
        {"0-15%0", 5, "the limit must be 1 or more"},
        {"%4", 0, "expected a number"},
        {"0-15%4,3", 6, "expected numbers and ranges"},
        {"0-15%4%4", 6, "expected numbers and ranges"},
        {"0-15:0", 5, "a step is 1 or more"},
        {"0-15:", 5, "expected a step"},
        {"3:2", 1, "expected numbers and ranges"},
        {"1,9-3", 4, "3 comes before 9"},
        {"4096", 0, "a number is at most 4095"},
        {"1,99999999999999999999", 2, "a number is at most 4095"},
        {"0-5000", 2, "a number is at most 4095"},
        {"0-3 ", 3, "expected numbers and ranges"},
        {"1;3", 1, "expected numbers and ranges"},
        {"1.5", 1, "expected numbers and ranges"},
    };
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        struct array a = {.n = 77};
        struct error err = ERROR_INIT;
        size_t at = 99;
        is_int(array_parse(t[i].text, &a, &at, &err), -1, t[i].text);
        is_int(err.code, ERR_INVAL, "  is no array");
        is_int((long long)at, (long long)t[i].at, "  it is wrong there");
        ok(strncmp(err.msg, t[i].message, strlen(t[i].message)) == 0, "  %s",
           err.msg);
        is_int((long long)a.n, 77, "  untouched");
    }
}

int main(void)
{
    test_good();
    test_bad();
    return tap_done();
}
