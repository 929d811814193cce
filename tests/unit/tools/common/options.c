/* options.c - the option table: parsing, suggestions, job ids. */
#include "scheduler/tools/common/options.h"

#include <stdio.h>
#include <string.h>

#include "tests/tap.h"

static const struct opt opts[] = {
    {1, 'w', "wait", NULL, "wait"},
    {2, 's', "set", "K=V", "set"},
    {3, 0, "json", NULL, "json"},
    {0, 0, NULL, NULL, NULL},
};
static const struct tool tool = {.name = "mgpu-x",
                                 .synopsis = "[options] FILE",
                                 .summary = "x",
                                 .opts = opts};

struct seen {
    char text[200];
};

static int on(void *arg, const struct opt *o, const char *value,
              struct error *err)
{
    struct seen *s = arg;
    size_t len = strlen(s->text);
    (void)snprintf(s->text + len, sizeof(s->text) - len, "%s%s%s;", o->name,
                   value ? "=" : "", value ? value : "");
    if (value && strcmp(value, "bad") == 0)
        return error_set(err, ERR_USAGE, "refused");
    return 0;
}

static int parse(int n, const char *const *words, struct seen *seen,
                 int *operand, struct error *err)
{
    char copy[8][64];
    static char *argv[9];
    for (int i = 0; i < n; i++) {
        (void)snprintf(copy[i], sizeof(copy[i]), "%s", words[i]);
        argv[i] = copy[i];
    }
    argv[n] = NULL;
    *seen = (struct seen){.text = ""};
    return options_parse(&tool, n, argv, on, seen, operand, err);
}

static void test_good(void)
{
    struct error err = ERROR_INIT;
    struct seen seen;
    int operand = 0;
    const char *a[] = {"mgpu-x", "file", "-w", "--set", "a=1", "--set=b=2"};
    is_int(parse(6, a, &seen, &operand, &err), OPTIONS_RUN, "parses");
    is_str(seen.text, "wait;set=a=1;set=b=2;", "options in their order");
    is_int(operand, 5, "the operand is moved to the end");
    const char *b[] = {"mgpu-x", "--", "--json"};
    is_int(parse(3, b, &seen, &operand, &err), OPTIONS_RUN, "-- ends options");
    is_str(seen.text, "", "what follows -- is no option");
}

static void test_bad(void)
{
    static const struct {
        const char *word, *message;
    } t[] = {
        {"--jsno", "unknown option '--jsno'; did you mean '--json'?"},
        {"--sett=3", "unknown option '--sett'; did you mean '--set'?"},
        {"--hlep", "unknown option '--hlep'; did you mean '--help'?"},
        {"--quite-other", "unknown option '--quite-other'; see mgpu-x --help"},
        {"-z", "unknown option '-z'; see mgpu-x --help"},
        {"--set", "option '--set' needs a value"},
        {"-s", "option '-s' needs a value"},
        {"--json=1", "option '--json=1' takes no value"},
        {"--set=bad", "refused"},
    };
    struct seen seen;
    int operand = 0;
    for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
        struct error err = ERROR_INIT;
        const char *words[] = {"mgpu-x", t[i].word};
        is_int(parse(2, words, &seen, &operand, &err), -1, t[i].word);
        is_int(err.code, ERR_USAGE, "is a usage error");
        is_str(err.msg, t[i].message, "says what to do");
    }
}

static void test_ids(void)
{
    static const char *const bad[] = {
        "0",
        "-1",
        "+1",
        " 1",
        "1x",
        "",
        "0x10",
        "99999999999999999999",
        "9223372036854775808",
        "١",
    };
    unsigned long long id = 77;
    is_int(options_job_id("12", &id, NULL), 0, "12 is a job id");
    is_int((long long)id, 12, "12 is 12");
    is_int(options_job_id("9223372036854775807", &id, NULL), 0, "the largest");
    id = 77;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct error err = ERROR_INIT;
        is_int(options_job_id(bad[i], &id, &err), -1, bad[i]);
    }
    is_int((long long)id, 77, "untouched on failure");
}

int main(void)
{
    test_good();
    test_bad();
    test_ids();
    return tap_done();
}
