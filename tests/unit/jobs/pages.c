/* pages.c - mgpu-job(5) and mgpu.yaml(5) say what the tables say: each key
 * with its type, range, default and meaning, no key more, and each code. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/conf/conf.h"
#include "jobs/schema/diagnostic_codes.h"
#include "jobs/spec/spec.h"
#include "tests/tap.h"

struct page {
    const char *name;
    struct buf text;
    int n_keys, n_missing;
};

static bool read_source(struct buf *b, const char *name)
{
    char path[400];
    struct error err = ERROR_INIT;
    const char *src = getenv("MGPU_SRC");
    (void)snprintf(path, sizeof(path), "%s/%s", src ? src : ".", name);
    return ok(buf_read_file(b, path, 1 << 20, &err) == 0, "%s", name);
}

static void find_key(void *arg, const char *path, const char *type,
                     const char *def, const char *range, const char *doc)
{
    struct page *p = arg;
    char want[600];
    char word[160];
    (void)snprintf(word, sizeof(word), "default %s", def);
    if (*def == '\0')
        (void)snprintf(word, sizeof(word), "no default");
    else if (strcmp(def, "required") == 0)
        (void)snprintf(word, sizeof(word), "required");
    /* A sentence begins with a capital letter. */
    char first = *doc >= 'a' && *doc <= 'z' ? (char)(*doc & ~0x20) : *doc;
    (void)snprintf(want, sizeof(want), "\n.It Ic %s\n%s%s%s; %s.\n%c%s.\n",
                   path, type, *range ? ", " : "", range, word, first, doc + 1);
    p->n_keys++;
    if (!strstr(buf_str(&p->text), want)) {
        tap_diag("%s lacks: %s", p->name, want);
        p->n_missing++;
    }
}

static void find_conf_key(void *arg, const char *path, const char *type,
                          const char *def, const char *range, bool live,
                          const char *doc)
{
    /* The page lists those that need no restart. */
    struct page *p = arg;
    char item[160];
    const char *list = strstr(buf_str(&p->text), ".Sh RELOADING\n");
    (void)snprintf(item, sizeof(item), "\n.It\n.Ic %s\n", path);
    ok(list && (strstr(list, item) != NULL) == live, "%s %s", path,
       live ? "takes effect on a reload" : "needs a restart");
    find_key(arg, path, type, def, range, doc);
}

static void check_keys(struct page *p)
{
    int items = 0;
    is_int(p->n_missing, 0, p->name);
    for (const char *s = buf_str(&p->text); (s = strstr(s, "\n.It Ic ")); s++)
        items++;
    is_int(items, p->n_keys, "and no key more");
}

enum { SEEN_CAP = 2000 };

/* "E010" of a table, or "[E201]" at the end of a sentence, or "(E002)". */
static bool is_code(const char *s)
{
    return (s[1] == 'E' || s[1] == 'W') && strspn(s + 2, "0123456789") == 3 &&
           ((s[0] == '"' && s[5] == '"') || (s[0] == '[' && s[5] == ']') ||
            (s[0] == '(' && s[5] == ')'));
}

/* What explains them is no user of them. */
static bool is_table(const char *path)
{
    const char *end = strrchr(path, '/');
    return end && (strcmp(end, "/codes.c") == 0 ||
                   strcmp(end, "/diagnostic_codes.c") == 0);
}

/* Returns how many of a source are in no page, or are not explained. */
static int see_codes(const struct page *p, const char *path,
                     char seen[SEEN_CAP])
{
    struct buf b = BUF_INIT;
    int missing = 0;
    if (is_table(path) || buf_read_file(&b, path, 1 << 20, NULL) < 0)
        return 0;
    for (const char *s = buf_str(&b); (s = strpbrk(s, "\"[(")); s++) {
        char item[20], code[5];
        if (!is_code(s))
            continue;
        (void)snprintf(item, sizeof(item), "\n.It %.4s\n", s + 1);
        if (!strstr(buf_str(&p->text), item)) {
            tap_diag("%s: %.4s is in no page", path, s + 1);
            missing++;
        }
        (void)snprintf(code, sizeof(code), "%.4s", s + 1);
        if (!code_find(code)) {
            tap_diag("%s: %s has no paragraph", path, code);
            missing++;
        }
        (void)snprintf(item, sizeof(item), " %.4s ", s + 1);
        size_t len = strlen(seen);
        if (!strstr(seen, item) && len + 8 < SEEN_CAP)
            (void)snprintf(seen + len, SEEN_CAP - len, "%.4s ", s + 1);
    }
    buf_clear(&b);
    return missing;
}

/* Those that no source has. */
static int stray_notes(const char *seen)
{
    size_t n;
    const struct code_note *c = code_notes(&n);
    int stray = 0;
    for (size_t i = 0; i < n; i++) {
        char item[20];
        (void)snprintf(item, sizeof(item), " %s ", c[i].code);
        if (!strstr(seen, item)) {
            tap_diag("%s is explained, and nobody says it", c[i].code);
            stray++;
        }
    }
    return stray;
}

/* Each code of the sources is an item of the page and has a paragraph, and
 * back. */
static void check_codes(const struct page *p)
{
    static const char *const dirs[] = {"jobs", "scheduler/engine",
                                       "scheduler/ctld", "scheduler/tools"};
    char seen[SEEN_CAP] = " ";
    const char *src = getenv("MGPU_SRC");
    int missing = 0, stray = 0;
    for (size_t d = 0; d < sizeof(dirs) / sizeof(dirs[0]); d++) {
        static const char *const below[] = {"*.c", "*/*.c"};
        glob_t files = {0};
        for (size_t k = 0; k < sizeof(below) / sizeof(below[0]); k++) {
            char pattern[400];
            (void)snprintf(pattern, sizeof(pattern), "%s/%s/%s",
                           src ? src : ".", dirs[d], below[k]);
            (void)glob(pattern, k > 0 ? GLOB_APPEND : 0, NULL, &files);
        }
        if (!ok(files.gl_pathc > 0, "%s", dirs[d]))
            return;
        for (size_t i = 0; i < files.gl_pathc; i++)
            missing += see_codes(p, files.gl_pathv[i], seen);
        globfree(&files);
    }
    is_int(missing, 0, "each code is in the page and explained");
    for (const char *s = buf_str(&p->text); (s = strstr(s, "\n.It ")); s++) {
        char item[20];
        if ((s[5] != 'E' && s[5] != 'W') || strspn(s + 6, "0123456789") != 3)
            continue;
        (void)snprintf(item, sizeof(item), " %.4s ", s + 5);
        stray += !strstr(seen, item);
    }
    is_int(stray, 0, "and no code more");
    is_int(stray_notes(seen), 0, "and none is explained that is not used");
}

int main(void)
{
    struct page job = {.name = "man/mgpu-job.5"};
    struct page conf = {.name = "man/mgpu.yaml.5"};
    if (read_source(&job.text, job.name)) {
        spec_each_key(find_key, &job);
        check_keys(&job);
        check_codes(&job);
    }
    if (read_source(&conf.text, conf.name)) {
        conf_each_key(find_conf_key, &conf);
        check_keys(&conf);
    }
    buf_clear(&job.text);
    buf_clear(&conf.text);
    return tap_done();
}
