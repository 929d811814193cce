/* render.c - what the tools print: widths, escapes, times, bars, quantiles. */
#include "scheduler/tools/common/render.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

static void test_escape(void)
{
    static const struct {
        const char *in, *out, *what;
    } t[] = {
        {"mnist-fp16", "mnist-fp16", "plain text stays"},
        {"a\x1b[2Jb", "a\\x1b[2Jb", "S16: ESC is shown, not obeyed"},
        {"a\nb\tc", "a\\x0ab\\x09c", "a line stays one line"},
        {"caf\xc3\xa9", "caf\xc3\xa9", "UTF-8 stays"},
        {"\xff\xc3", "\\xff\\xc3", "bytes that are not UTF-8 are shown"},
        {"\xe2\x80\xaexyz", "\\xe2\\x80\\xaexyz", "direction marks are shown"},
        {"\xc2\x9b"
         "1m",
         "\\xc2\\x9b1m", "C1 controls are shown"},
        {"\xc0\xaf", "\\xc0\\xaf", "overlong forms are shown"},
        {"\x7f", "\\x7f", "DEL is shown"},
        {"a\xef\xbb\xbf"
         "b\xd8\x9c"
         "c\xc2\xad",
         "a\\xef\\xbb\\xbfb\\xd8\\x9cc\\xc2\\xad",
         "a byte order mark, an Arabic letter mark, a soft hyphen"},
        {"\xe2\x80\xa8\xe2\x81\xa6", "\\xe2\\x80\\xa8\\xe2\\x81\\xa6",
         "line separators and isolates are shown"},
        {"\xed\xa0\x80\xf4\x90\x80\x80", "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80",
         "what is no character"},
        {"\xf3\xa0\x81\x81", "\\xf3\\xa0\\x81\\x81", "nor seen: a tag"},
        {"e\xcc\x81 \xe6\x97\xa5\xf0\x9f\x9a\x80",
         "e\xcc\x81 \xe6\x97\xa5\xf0\x9f\x9a\x80",
         "combining, wide and far characters stay"},
        {NULL, "", "NULL is empty"},
    };
    char out[64];
    for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++)
        is_str(render_escape(t[i].in, out, sizeof(out)), t[i].out, t[i].what);
    char small[6];
    is_str(render_escape("abcdef", small, sizeof(small)), "abcde",
           "stops one byte under its buffer");
    is_str(render_escape("ab\x1b", small, sizeof(small)), "ab",
           "never half an escape");
}

static void test_words(void)
{
    char b[64];
    is_str(render_duration(7, b, sizeof(b)), "0:07", "seconds");
    is_str(render_duration(59.6, b, sizeof(b)), "1:00", "rounds");
    is_str(render_duration(3723, b, sizeof(b)), "1:02:03", "hours");
    is_str(render_duration(93784, b, sizeof(b)), "1-02:03:04", "days");
    is_str(render_duration(NAN, b, sizeof(b)), "-", "unknown");
    is_str(render_duration(-5, b, sizeof(b)), "0:00", "never negative");
    is_str(render_time(1.5, b, sizeof(b)), "1.50 s", "1.5 s");
    is_str(render_time(0.0123, b, sizeof(b)), "12.3 ms", "12.3 ms");
    is_str(render_time(45e-6, b, sizeof(b)), "45 us", "45 us");
    is_str(render_time(NAN, b, sizeof(b)), "-", "time unknown");
    is_str(render_bytes(312, b, sizeof(b)), "312 B", "bytes");
    is_str(render_bytes(39411712, b, sizeof(b)), "37.6 MiB", "many bytes");
    is_str(render_bytes(NAN, b, sizeof(b)), "-", "bytes unknown");
    is_str(render_count(0, b, sizeof(b)), "0", "0");
    is_str(render_count(999, b, sizeof(b)), "999", "999");
    is_str(render_count(1234567, b, sizeof(b)), "1,234,567", "1,234,567");
    is_str(render_count(-1000, b, sizeof(b)), "-1,000", "-1,000");
}

static void test_spark(void)
{
    char b[64];
    double rise[] = {0, 1, 2, 3, 4, 5, 6, 7};
    double flat[] = {3, 3, 3};
    double gap[] = {0, NAN, 7};
    is_str(render_spark(rise, 8, 8, true, b, sizeof(b)), "_.:-=+*#",
           "eight values, eight heights");
    is_str(render_spark(rise, 8, 2, true, b, sizeof(b)), "_#",
           "buckets show their means");
    is_str(render_spark(flat, 3, 8, true, b, sizeof(b)), "___",
           "a flat course is low");
    double constant[160];
    for (size_t i = 0; i < 160; i++)
        constant[i] = 0.1;
    is_str(render_spark(constant, 160, 12, true, b, sizeof(b)), "____________",
           "means of a constant that differ by rounding");
    is_str(render_spark(gap, 3, 8, true, b, sizeof(b)), "_ #", "NAN is a gap");
    is_str(render_spark(rise, 8, 8, false, b, sizeof(b)), "▁▂▃▄▅▆▇█",
           "blocks in UTF-8");
    is_str(render_spark(rise, 0, 8, true, b, sizeof(b)), "", "no values");
    is_str(render_spark(rise, 8, 8, false, b, 7), "▁▂",
           "stops before its buffer's end");
}

static void test_quantile(void)
{
    double v[] = {4, 1, 3, 2};
    ok(render_quantile(v, 4, 0.5) == 2.5, "the median of four");
    ok(render_quantile(v, 4, 0) == 1, "the least");
    ok(render_quantile(v, 4, 1) == 4, "the greatest");
    ok(fabs(render_quantile(v, 4, 0.99) - 3.97) < 1e-12, "p99 interpolates");
    ok(isnan(render_quantile(v, 0, 0.5)), "none of nothing");
}

static char *print(const struct render_table *t, int columns, bool header)
{
    static char text[4096];
    struct render_style s = {.columns = columns};
    memset(text, 0, sizeof(text));
    FILE *f = fmemopen(text, sizeof(text) - 1, "w");
    if (f) {
        render_table_print(t, &s, header, f);
        (void)fclose(f);
    }
    return text;
}

/* 12,3+ would be another number; and a cell is as long as it is. */
static void test_figures(void)
{
    static const struct render_column columns[] = {{"NAME", RENDER_LEFT},
                                                   {"STEP", RENDER_RIGHT},
                                                   {"WHY", RENDER_LEFT},
                                                   {"N", RENDER_RIGHT}};
    static const char *const cells[] = {
        "mobilenet", "18,200/18,750", "", "1", "x", "1", "", ""};
    char text[1500];
    struct error err = ERROR_INIT;
    struct render_table *t = NULL;
    int rc = render_table_create(columns, 4, &t, &err);
    for (size_t i = 0; rc == 0 && i < 8; i++)
        rc = render_table_put(t, cells[i], &err);
    is_int(rc, 0, "two rows");
    is_str(print(t, 26, true),
           "NAME            STEP WHY N\n"
           "mobil+ 18,200/18,750     1\n"
           "x                  1\n",
           "text gives way, no line ends in blanks");
    is_str(print(t, 20, true),
           "NAME            STEP\n"
           "mobil+ 18,200/18,750\n"
           "x                  1\n"
           "no room for: WHY, N\n",
           "a figure is whole, or left out");
    render_table_destroy(t);
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    rc = render_table_create(columns, 1, &t, &err);
    if (rc == 0 && render_table_add(t, &err, "%s\x1b", text) == 0)
        is_int((long)strlen(print(t, 0, false)), (long)sizeof(text) - 1 + 5,
               "a long cell is whole where it is not a terminal");
    render_table_destroy(t);
}

static void test_table(void)
{
    static const struct render_column columns[] = {
        {"ID", RENDER_RIGHT}, {"NAME", RENDER_LEFT}, {"WHY", RENDER_LEFT}};
    struct error err = ERROR_INIT;
    struct render_table *t = NULL;
    ok(render_table_create(columns, 3, &t, &err) == 0, "a table");
    const char *cells[] = {"7",     "a-rather-long-name", "x", "12345",
                           "b\x1b", "caf\xc3\xa9"};
    int rc = 0;
    for (int i = 0; i < 6; i++)
        rc |= render_table_add(t, &err, "%s", cells[i]);
    is_int(rc, 0, "six cells");
    is_str(print(t, 0, true),
           "   ID  NAME                WHY\n"
           "    7  a-rather-long-name  x\n"
           "12345  b\\x1b               caf\xc3\xa9\n",
           "each column as wide as its widest cell");
    is_str(print(t, 0, false),
           "    7  a-rather-long-name  x\n"
           "12345  b\\x1b               caf\xc3\xa9\n",
           "no header");
    is_str(print(t, 20, true),
           "   ID NAME      WHY\n"
           "    7 a-rather+ x\n"
           "12345 b\\x1b     caf\xc3\xa9\n",
           "twenty columns: the widest gives way, the cut is marked");
    is_str(print(t, 29, false),
           "    7  a-rather-long-n+  x\n"
           "12345  b\\x1b             caf\xc3\xa9\n",
           "as long as it keeps sixteen, blanks are kept, too");
    is_str(print(t, 12, true),
           "   ID NAME\n"
           "    7 a-rat+\n"
           "12345 b\\x1b\n"
           "no room for: WHY\n",
           "twelve: the last is left out, and named");
    render_table_destroy(t);
    test_figures();
    is_int(render_table_create(columns, 3, &t, &err), 0, "another");
    const char *wide[] = {"1", "\xe6\x97\xa5\xe6\x9c\xac", "x",
                          "2", "e\xcc\x81t\xc3\xa9",       "y"};
    for (int i = 0; i < 6; i++)
        rc |= render_table_add(t, &err, "%s", wide[i]);
    is_str(print(t, 0, true),
           "ID  NAME  WHY\n"
           " 1  \xe6\x97\xa5\xe6\x9c\xac  x\n"
           " 2  e\xcc\x81t\xc3\xa9   y\n",
           "wide characters take two columns, combining ones none");
    render_table_destroy(t);
    is_int(render_table_create(columns, 0, &t, &err), -1, "no empty table");
    render_table_destroy(NULL);
}

/* What is set off takes no more room, and no colour changes nothing. */
static void test_paint(void)
{
    static const struct render_column columns[] = {
        {"ST", RENDER_LEFT}, {"N", RENDER_RIGHT}, {"WHY", RENDER_LEFT}};
    static const char *const cells[] = {
        "RUNNING", "1", "x", "FAILED",        "22", "",
        "",        "3", "y", "HELD-for-long", "4",  "z"};
    static const enum render_paint paints[] = {RENDER_GOOD, RENDER_BAD,
                                               RENDER_GOOD, RENDER_ODD};
    struct render_style s = {.columns = 16, .colour = true};
    struct error err = ERROR_INIT;
    struct render_table *t = NULL;
    char text[1000] = "";
    int rc = render_table_create(columns, 3, &t, &err);
    for (size_t i = 0; rc == 0 && i < 12; i++) {
        rc = render_table_put(t, cells[i], &err);
        if (rc == 0 && i % 3 == 0)
            render_table_paint(t, paints[i / 3]);
    }
    is_int(rc, 0, "a table with words that are set off");
    FILE *f = fmemopen(text, sizeof(text) - 1, "w");
    if (f) {
        render_table_print(t, &s, true, f);
        (void)fclose(f);
    }
    is_str(text,
           "\033[1mST         N WHY\033[0m\n"
           "\033[32mRUNNING\033[0m    1 x\n"
           "\033[31mFAILED\033[0m    22\n"
           "           3 y\n"
           "\033[33mHELD-for+\033[0m  4 z\n",
           "green, red and yellow, the mark of a cut word too");
    is_str(print(t, 16, false),
           "RUNNING      1 x\n"
           "FAILED      22\n"
           "             3 y\n"
           "HELD-for-l+  4 z\n",
           "without colour there is none");
    render_table_destroy(t);
}

/* A character of two columns is as wide where lines go on. */
static void test_wrap_wide(void)
{
    static char text[400];
    memset(text, 0, sizeof(text));
    FILE *f = fmemopen(text, sizeof(text) - 1, "w");
    if (f) {
        render_wrapped(" gpus    \xe6\x97\xa5\xe6\x9c\xac "
                       "\xe6\x97\xa5\xe6\x9c\xac "
                       "\xe6\x97\xa5\xe6\x9c\xac\n"
                       "\xe6\x97\xa5\xe6\x9c\xac  e\xcc\x81 x "
                       "\xe6\x97\xa5\xe6\x9c\xac y z w v u t s r q\n"
                       "\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5"
                       "\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5"
                       "\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\n",
                       20, f);
        (void)fclose(f);
    }
    is_str(text,
           " gpus    \xe6\x97\xa5\xe6\x9c\xac "
           "\xe6\x97\xa5\xe6\x9c\xac\n"
           "         \xe6\x97\xa5\xe6\x9c\xac\n"
           "\xe6\x97\xa5\xe6\x9c\xac  e\xcc\x81 x "
           "\xe6\x97\xa5\xe6\x9c\xac y z w\n"
           "      v u t s r q\n"
           "\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5"
           "\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5"
           "\xe6\x97\xa5\xe6\x97\xa5\n"
           "  \xe6\x97\xa5\n",
           "wide characters take two columns where lines go on");
}

static void test_wrap(void)
{
    static char text[400];
    memset(text, 0, sizeof(text));
    FILE *f = fmemopen(text, sizeof(text) - 1, "w");
    if (f) {
        render_wrapped(" gpus    2 on n1:0 and n2:0,1\n"
                       "short\n"
                       "  mgpu-submit --set a.long=command b.yaml\n"
                       "averyverylongwordwithoutblanks\n"
                       " at    12:00   ended 13:00\n"
                       "\033[1mNAME  STATE  PLACE\033[0m\n",
                       20, f);
        (void)fclose(f);
    }
    is_str(text,
           " gpus    2 on n1:0\n"
           "         and n2:0,1\n"
           "short\n"
           "  mgpu-submit --set a.long=command b.yaml\n"
           "averyverylongwordwit\n"
           "  houtblanks\n"
           " at    12:00\n"
           "       ended 13:00\n"
           "\033[1mNAME  STATE  PLACE\033[0m\n",
           "lines hang where their text began; a command stays whole");
}

int main(void)
{
    (void)setlocale(LC_ALL, "C.UTF-8");
    test_escape();
    test_words();
    test_spark();
    test_quantile();
    test_table();
    test_wrap();
    test_wrap_wide();
    test_paint();
    return tap_done();
}
