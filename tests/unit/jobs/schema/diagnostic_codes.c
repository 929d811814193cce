/* diagnostic_codes.c - the examples of mgpu-submit --explain: the wrong one has
 * the code, the right one has nothing that is to be said. */
#include "jobs/schema/diagnostic_codes.h"

#include <stdio.h>
#include <string.h>

#include "jobs/spec/spec.h"
#include "tests/tap.h"

/* What a parser cannot judge: too long for a page, not to be shown, the
 * daemon's, or a command. */
static const char not_parsed[] = "E002 E005 E008 E201 W103 W201 ";

static bool begins(const char *s, const char *word)
{
    return strncmp(s, word, strlen(word)) == 0;
}

/* Lines of a training job become one. */
static void whole(const char *lines, struct buf *out)
{
    struct error err = ERROR_INIT;
    bool is_whole = begins(lines, "version:") || begins(lines, "kind:") ||
                    begins(lines, "- ");
    buf_reset(out);
    if (!is_whole)
        (void)!buf_addstr(
            out, "version: 1\nkind: cv\ndataset: {source: synthetic}\n", &err);
    (void)!buf_addstr(out, lines, &err);
}

/* Returns how many findings an example has; *ret_has: one has the code. */
static size_t find(const char *lines, const char *code, bool *ret_has)
{
    struct spec_options opt = {
        .file = "/data/job.yaml", .home = "/nonexistent", .now_s = 1.8e9};
    struct spec_report r = {.n = 0};
    struct spec_jobs jobs = {.n = 0};
    struct error err = ERROR_INIT;
    struct buf text = BUF_INIT;
    whole(lines, &text);
    /* W102 to W104 are about this machine, which has no files of examples. A
     * secret without its file is a finding of every example with one. */
    opt.take_env = strncmp(code, "W10", 3) == 0;
    if (strcmp(code, "W103") != 0)
        opt.home = NULL;
    if (strchr(lines, '~'))
        opt.home = "/home/a";
    (void)!spec_expand(buf_str(&text), text.len, &opt, &jobs, &r, &err);
    *ret_has = false;
    for (size_t i = 0; i < r.n; i++)
        *ret_has = *ret_has || strcmp(r.findings[i].code, code) == 0;
    size_t n = r.n;
    if (n > 0 && !*ret_has)
        tap_diag("%s: %s %s", code, r.findings[0].code, r.findings[0].message);
    spec_jobs_clear(&jobs);
    diagnostics_clear(&r);
    buf_clear(&text);
    return n;
}

static bool is_yaml(const char *lines)
{
    return *lines != '#' && *lines != '$';
}

static void test_examples(void)
{
    size_t n;
    const struct code_note *c = code_notes(&n);
    for (size_t i = 0; i < n; i++) {
        bool has = false;
        ok(i == 0 || strcmp(c[i - 1].code, c[i].code) < 0, "%s is in order",
           c[i].code);
        ok(strlen(c[i].text) > 80 && strlen(c[i].title) < 70 && *c[i].see,
           "%s is explained", c[i].code);
        bool both = is_yaml(c[i].wrong) && is_yaml(c[i].right);
        char item[8];
        (void)snprintf(item, sizeof(item), "%s ", c[i].code);
        ok(both == !strstr(not_parsed, item), "%s has examples", c[i].code);
        if (is_yaml(c[i].wrong)) {
            is_int(find(c[i].wrong, c[i].code, &has) > 0 && has, 1,
                   "the wrong one has it");
        }
        if (is_yaml(c[i].right))
            is_int((long long)find(c[i].right, c[i].code, &has), 0,
                   "the right one has nothing");
    }
}

static void test_words(void)
{
    static const char *const same[] = {"E024", "e024", "24", "e24", "024"};
    static const char *const none[] = {"", "E", "E0244", "xyz", "--", "E999"};
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        const struct code_note *c = code_find(same[i]);
        is_str(c ? c->code : "none", "E024", same[i]);
    }
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        ok(!code_find(none[i]), "'%s' is none", none[i]);
    is_str(code_near("E026"), "E025", "E026 is nearly E025");
    is_str(code_near("w114"), "W113", "w114 is nearly W113");
    is_str(code_near("W024"), "E024", "so is W024");
    ok(!code_near("E999"), "nothing is near E999");
    ok(!code_near("nonsense"), "nor near a word");
}

int main(void)
{
    test_examples();
    test_words();
    return tap_done();
}
