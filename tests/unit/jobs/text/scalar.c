/* scalar.c - durations, sizes and numbers: both sides of each limit. */
#include "jobs/text/scalar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "jobs/spec/spec.h"
#include "jobs/text/text.h"
#include "tests/tap.h"

static const struct {
    const char *text;
    double want;      /* -1: refused */
    const char *hint; /* a part of it */
} durations[] = {
    {"90s", 90, ""},
    {"15m", 900, ""},
    {"8h", 28800, ""},
    {"2d", 172800, ""},
    {"0s", 0, ""},
    {"1h30m", 5400, ""},
    {"1d2h3m4s", 93784, ""},
    {"1d4s", 86404, ""},
    {"999999999s", 999999999, ""},
    {"1:30:00", 5400, ""},
    {"0:00:59", 59, ""},
    {"100:00:00", 360000, ""},
    {"2-12:00:00", 216000, ""},
    {"0-00:00:01", 1, ""},
    {"60", -1, "write 60s or 60m"},
    {"0", -1, "write 90s, 15m or 8h"},
    {"4:00", -1, "write 4h, or 4m, or 4:00:00"},
    {"1:30", -1, "write 1h30m or 1m30s"},
    {"2-12", -1, "write 2-12:00:00"},
    {"2-12:30", -1, "write 2-12:30:00"},
    {"", -1, "write 90s"},
    {"s", -1, "write 90s"},
    {"-1", -1, "write 90s"},
    {"-1s", -1, "write 90s"},
    {"+1s", -1, "write 90s"},
    {"1.5h", -1, "write 90s"},
    {"1y", -1, "write 90s"},
    {"1w", -1, "write 90s"},
    {"1S", -1, "write 90s"},
    {"1 s", -1, "write 90s"},
    {"1s ", -1, "write 90s"},
    {"1ms", -1, "write 90s"},
    {"30m1h", -1, "write 90s"},
    {"1h1h", -1, "write 90s"},
    {"1h30", -1, "write 90s"},
    {"1000000000s", -1, "write 90s"},
    {"1:60:00", -1, "write 90s"},
    {"1:00:60", -1, "write 90s"},
    {"1:0:00", -1, "write 90s"},
    {"1:00:00:00", -1, "write 90s"},
    {"1-24:00:00", -1, "write 90s"},
    {"1-2:00:00", -1, "write 90s"},
    {"unlimited", -1, "write 90s"},
    {"inf", -1, "write 90s"},
};

static void test_durations(void)
{
    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
        char hint[SCALAR_HINT_CAP];
        struct error err = ERROR_INIT;
        double s = -1;
        int rc = scalar_duration(durations[i].text, &s, hint, &err);
        ok(s == durations[i].want && (rc == 0) == (s >= 0), "'%s' is %g",
           durations[i].text, s);
        ok(strstr(hint, durations[i].hint) != NULL, "hint '%s'", hint);
    }
    struct error err = ERROR_INIT;
    double s = 7;
    is_int(parse_duration("4:00", &s, &err), -1, "parse_duration");
    is_str(err.msg,
           "'4:00' is ambiguous (4 hours or 4 minutes); write 4h, or 4m, or "
           "4:00:00",
           "says what and how");
    ok(s == 7, "and leaves the result alone");
    is_int(parse_duration("4h", &s, NULL), 0, "no err is needed");
    is_int(parse_duration("4", &s, NULL), -1, "nor for a refusal");
}

static const struct {
    const char *text;
    int64_t want;
} sizes[] = {
    {"0B", 0},
    {"1B", 1},
    {"4K", 4096},
    {"4KB", 4096},
    {"4KiB", 4096},
    {"64M", 64LL << 20},
    {"2GiB", 2LL << 30},
    {"3T", 3LL << 40},
    {"8388607T", 8388607LL << 40},
    {"8388608T", -1}, /* 2^63 */
    {"999999999999999B", 999999999999999LL},
    {"1000000000000000B", -1},
    {"", -1},
    {"M", -1},
    {"64", -1},
    {"64m", -1},
    {"64k", -1},
    {"64Mi", -1},
    {"64BB", -1},
    {"64BiB", -1},
    {"64 M", -1},
    {"64P", -1},
    {"-1M", -1},
    {"1.5G", -1},
    {"0x10K", -1},
};

static void test_sizes(void)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int64_t n = -1;
        struct error err = ERROR_INIT;
        int rc = parse_size(sizes[i].text, &n, &err);
        ok(n == sizes[i].want && (rc == 0) == (n >= 0), "'%s' is %lld: %s",
           sizes[i].text, (long long)n, err.msg);
    }
}

static void test_numbers(void)
{
    static const char *const floats[] = {"0",  "1",   "-1",   "+1",  "1.",
                                         ".5", "1e3", "1E-3", "1e+3"};
    static const char *const no_floats[] = {
        "",    ".",     "-",   "e3",    "1e",  "1e+",     "nan",
        "inf", "1_0",   "0x1", "0x1p3", "1,5", " 1",      "1 ",
        "--1", "1.2.3", ".e1", "1f",    "1d",  "\xd9\xa3"};
    static const char *const no_ints[] = {
        "",    "-",   "1.0",
        "1e3", "0x1", " 1",
        "1 ",  "--1", "1000000000000000000" /* 19 digits */};
    double v = 0;
    int64_t n = 0;
    int bad = 0;
    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++)
        bad += scalar_float(floats[i], &v) != 0;
    is_int(bad, 0, "floats");
    for (size_t i = 0; i < sizeof(no_floats) / sizeof(no_floats[0]); i++)
        bad += scalar_float(no_floats[i], &v) == 0;
    is_int(bad, 0, "no floats");
    for (size_t i = 0; i < sizeof(no_ints) / sizeof(no_ints[0]); i++)
        bad += scalar_int(no_ints[i], &n) == 0;
    is_int(bad, 0, "no whole numbers");
    ok(scalar_int("-999999999999999999", &n) == 0 && n == -999999999999999999,
       "18 digits");
    ok(scalar_int("007", &n) == 0 && n == 7, "leading zeros are decimal");
}

/* What is shown is read back. */
static void test_show(void)
{
    static const double values[] = {0.1, 1.0 / 3, 3e-4, 1e300, 5e-324, 0, -2};
    static const double times[] = {0, 1, 59, 60, 61, 3600, 86400, 93784};
    static const int64_t bytes[] = {0, 1, 1023, 1024, 1025, 1 << 20, 5LL << 40};
    char text[SCALAR_CAP];
    int bad = 0;
    double v = 0;
    int64_t n = 0;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        bad += scalar_float(scalar_show_float(text, values[i]), &v) < 0 ||
               v != values[i];
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        bad += parse_duration(scalar_show_duration(text, times[i]), &v, NULL) <
                   0 ||
               v != times[i];
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
        bad += parse_size(scalar_show_size(text, bytes[i]), &n, NULL) < 0 ||
               n != bytes[i];
    is_int(bad, 0, "what is shown is read back");
    is_str(scalar_show_float(text, 3e-4), "0.0003", "in few digits");
    is_str(scalar_show_duration(text, 7200), "2h", "in the largest unit");
    is_str(scalar_show_size(text, 64 << 20), "64M", "of sizes too");
}

static void test_distance(void)
{
    is_int(text_distance("epochs", "epochs"), 0, "the same");
    is_int(text_distance("epoch", "epochs"), 1, "a letter more");
    is_int(text_distance("mnit", "mnist"), 1, "a letter less");
    is_int(text_distance("nmae", "name"), 2, "two swapped");
    is_int(text_distance("abcd", "wxyz"), 3, "far is three");
    is_int(text_distance("a", "abcdefgh"), 3, "as is longer");
    is_int(text_distance("", ""), 0, "nothing");
}

static void test_quote(void)
{
    static const struct {
        const char *name, *text, *want;
    } rows[] = {
        {"plain", "abc", "abc"},
        {"letters of the world", "\xc3\xa9\xe4\xb8\xad",
         "\xc3\xa9\xe4\xb8\xad"},
        {"ESC", "\x1b[0m", "\\x1b[0m"},
        {"line end", "a\nb", "a\\nb"},
        {"tab", "a\tb", "a b"},
        {"bidi",
         "a\xe2\x80\xae"
         "b",
         "a\\u202eb"},
        {"zero width",
         "a\xe2\x80\x8b"
         "b",
         "a\\u200bb"},
        {"C1", "\xc2\x9b", "\\u009b"},
        {"Latin-1", "caf\xe9", "caf\\xe9"},
        {"cut short of its end", "\xc3", "\\xc3"},
    };
    char out[TEXT_QUOTE_CAP];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is_str(text_quote(out, sizeof(out), rows[i].text), rows[i].want,
               rows[i].name);
    /* One byte under, exact, one over. */
    is_str(text_quote(out, 8, "123456"), "123456", "6 of 7 bytes");
    is_str(text_quote(out, 8, "1234567"), "1234567", "7 of 7 bytes");
    is_str(text_quote(out, 8, "12345678"), "1234...", "8 of 7 bytes");
    is_str(text_quote(out, 8, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"),
           "\xc3\xa9\xc3\xa9...", "letters are not split");
}

static void test_place(void)
{
    ok(text_place_has("n1:0,1 n2:0", "n1") &&
           text_place_has("n1:0,1 n2:0", "n2"),
       "the nodes of a place");
    ok(!text_place_has("n1:0,1 n12:0", "n2") &&
           !text_place_has("n12:0", "n1") && !text_place_has("", "n1") &&
           !text_place_has("n1:0", ""),
       "  and no other");
    ok(text_place_has("n1 n2", "n2"), "  also where no GPUs are named");
}

/* The page before the text cannot be read. */
static void test_fit(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char out[200];
    char *map = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!ok(map != MAP_FAILED && mprotect(map, page, PROT_NONE) == 0,
            "two pages"))
        return;
    char *src = map + page;
    memset(src, 0x80, 399);
    text_fit(out, sizeof(out), src);
    is_str(out, " ... ", "a text of halves of characters");
    memset(src, 'a', 150);
    text_fit(out, sizeof(out), src);
    ok(strlen(out) < sizeof(out) && strncmp(out, "aaaa", 4) == 0,
       "  and one that ends so");
    (void)munmap(map, 2 * page);
}

int main(void)
{
    test_fit();
    test_place();
    test_durations();
    test_sizes();
    test_numbers();
    test_show();
    test_distance();
    test_quote();
    return tap_done();
}
