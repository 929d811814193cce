/* timestamp.c - points in time as policy.begin has them. */
#include "jobs/text/timestamp.h"

#include <stdio.h>
#include <string.h>

#include "tests/tap.h"

static void test_good(void)
{
    /* The seconds are those of date(1). */
    static const struct {
        const char *text;
        double s;
    } t[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-12-01T08:00:00Z", 1796112000},
        {"2026-12-01T08:00:00+00:00", 1796112000},
        {"2026-12-01T09:00:00+01:00", 1796112000},
        {"2026-12-01 02:30:00-05:30", 1796112000},
        {"2026-12-01t08:00:00z", 1796112000},
        {"2026-12-01T08:00:00.25Z", 1796112000.25},
        {"2024-02-29T23:59:59Z", 1709251199},
        {"2000-03-01T00:00:00Z", 951868800},
        {"2100-03-01T00:00:00Z", 4107542400},
        {"9999-12-31T23:59:59Z", 253402300799},
        {"1970-01-01T00:00:00+23:00", 0},
    };
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        struct when w = {.is_after = true, .s = -1};
        ok(timestamp_parse(t[i].text, &w, NULL, NULL) == 0 && !w.is_after &&
               w.s >= t[i].s && w.s <= t[i].s,
           "%s is %.2f", t[i].text, w.s);
    }
    struct when w = {.s = -1};
    ok(timestamp_parse("+2h", &w, NULL, NULL) == 0 && w.is_after &&
           w.s >= 7200 && w.s <= 7200,
       "+2h is two hours after");
    ok(timestamp_parse("+1-00:30:00", &w, NULL, NULL) == 0 && w.s >= 88200 &&
           w.s <= 88200,
       "so is a day and half an hour");
}

static void test_bad(void)
{
    static const struct {
        const char *text, *message, *hint;
    } t[] = {
        {"", "not a date and time", "as in 2026"},
        {"tomorrow", "not a date and time", "as in 2026"},
        {"now+1hour", "not a date and time", "+2h from now"},
        {"2h", "not a date and time", "+2h from now"},
        {"2026-12-01", "not a date and time", "as in 2026"},
        {"08:00", "not a date and time", "as in 2026"},
        {"2026-12-01T08:00:00", "the time zone is missing", "+01:00"},
        {"2026-12-01T08:00:00.5", "the time zone is missing", "+01:00"},
        {"2026-12-01T08:00:00 CET", "not a zone", "+01:00"},
        {"2026-12-01T08:00:00+1", "not a zone", "+01:00"},
        {"2026-12-01T08:00:00+0100", "not a zone", "+01:00"},
        {"2026-12-01T08:00:00Zx", "not a zone", ""},
        {"2026-12-01T08:00:00+24:00", "not a zone", ""},
        {"2026-13-01T08:00:00Z", "not a date and time", ""},
        {"2026-02-29T08:00:00Z", "not a date and time", ""},
        {"2100-02-29T08:00:00Z", "not a date and time", ""},
        {"2026-12-00T08:00:00Z", "not a date and time", ""},
        {"2026-12-01T24:00:00Z", "not a date and time", ""},
        {"1969-12-31T23:59:59Z", "not a date and time", ""},
        {"+4:00", "'4:00' is ambiguous", "4h, or 4m"},
        {"+", "", ""},
        {"+-1h", "", ""},
        {"++1h", "", ""},
        {"+400d", "more than a year", ""},
    };
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        struct when w = {.s = 77};
        struct error err = ERROR_INIT;
        char hint[WHEN_HINT_CAP] = "none";
        ok(timestamp_parse(t[i].text, &w, hint, &err) < 0 &&
               err.code == ERR_INVAL && w.s >= 77 && w.s <= 77,
           "'%s': %s", t[i].text, err.msg);
        ok(strncmp(err.msg, t[i].message, strlen(t[i].message)) == 0 &&
               strstr(hint, t[i].hint),
           "  %s", hint);
    }
}

int main(void)
{
    test_good();
    test_bad();
    return tap_done();
}
