/* options.c - parse a command line from its table of options, and print --help;
 * see options.h.
 */
#include "scheduler/tools/common/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/version.h"
#include "jobs/spec/spec.h"

enum {
    MAX_OPTS = 64,
    ID_HELP = 1000,
    ID_VERSION,
    OPT_COLUMNS = 28,
    COLUMNS = 79
};

static const struct opt common[] = {
    {ID_HELP, 0, "help", NULL, "print this help and exit"},
    {ID_VERSION, 0, "version", NULL, "print the version and exit"},
    {0, 0, NULL, NULL, NULL},
};

static bool may_lack_it(const struct opt *o)
{
    return o->arg && o->arg[0] == '[';
}

/* Wraps the text at `columns`; all lines but the first are indented. */
static void print_wrapped(const char *text, size_t columns, int indent)
{
    while (strlen(text) > columns) {
        size_t n = columns;
        while (n > 0 && text[n] != ' ')
            n--;
        if (n == 0)
            break;
        printf("%.*s\n%*s", (int)n, text, indent, "");
        text += n + 1;
    }
    printf("%s\n", text);
}

static void print_rows(const struct opt *o)
{
    for (; o->id; o++) {
        char left[64];
        (void)snprintf(
            left, sizeof(left), "%s%c%s--%s%s%s", o->letter ? "-" : "",
            o->letter ? o->letter : ' ', o->letter ? ", " : "   ", o->name,
            o->arg && !may_lack_it(o) ? " " : "", o->arg ? o->arg : "");
        if (strlen(left) > OPT_COLUMNS)
            printf("  %s\n%*s", left, OPT_COLUMNS + 3, "");
        else
            printf("  %-*s ", OPT_COLUMNS, left);
        print_wrapped(o->doc, COLUMNS - OPT_COLUMNS - 3, OPT_COLUMNS + 3);
    }
}

static void print_help(const struct tool *t)
{
    printf("usage: %s %s\n", t->name, t->synopsis);
    if (strchr(t->summary, '\n'))
        printf("%s\n", t->summary);
    else
        print_wrapped(t->summary, COLUMNS, 0);
    printf("\noptions:\n");
    print_rows(t->opts);
    print_rows(common);
    printf("\nSee %s(%d).\n", t->name, t->section ? t->section : 1);
}

/* Levenshtein distance, for words up to the length of an option's name. */
static size_t distance(const char *a, const char *b)
{
    size_t row[33];
    size_t n = strlen(b);
    if (strlen(a) > 32 || n > 32)
        return 99;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t above = row[j];
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            best = above + 1 < best ? above + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[n];
}

static int unknown(const struct tool *t, const char *word, struct error *err)
{
    if (word[0] == '-' && word[1] >= '0' && word[1] <= '9')
        return error_set(err, ERR_USAGE,
                         "unknown option '%s'; a value below zero comes after "
                         "'--', which ends the options",
                         word);
    if (word[0] != '-' || word[1] != '-')
        return error_set(err, ERR_USAGE, "unknown option '%s'; see %s --help",
                         word, t->name);
    char name[40];
    (void)snprintf(name, sizeof(name), "%s", word + 2);
    name[strcspn(name, "=")] = '\0';
    const struct opt *tables[] = {t->opts, common};
    const char *near = NULL;
    size_t best = 3; /* a suggestion is at most two typing errors away */
    for (size_t k = 0; k < 2; k++) {
        for (const struct opt *o = tables[k]; o->id; o++) {
            size_t d = distance(name, o->name);
            if (d < best) {
                best = d;
                near = o->name;
            }
        }
    }
    if (near)
        return error_set(err, ERR_USAGE,
                         "unknown option '--%s'; did you mean '--%s'?", name,
                         near);
    return error_set(err, ERR_USAGE, "unknown option '--%s'; see %s --help",
                     name, t->name);
}

struct table { /* The table in the form of getopt_long(3). */
    struct option longs[MAX_OPTS + 1];
    const struct opt *rows[MAX_OPTS];
    char shorts[3 * MAX_OPTS + 2]; /* letters with their colons */
    size_t n;
};

static void add_rows(struct table *tab, const struct opt *o)
{
    for (; o->id && tab->n < MAX_OPTS; o++) {
        tab->rows[tab->n] = o;
        tab->longs[tab->n] = (struct option){
            .name = o->name,
            .has_arg = may_lack_it(o) ? optional_argument
                       : o->arg       ? required_argument
                                      : no_argument,
            .val = 256 + (int)tab->n,
        };
        tab->n++;
        if (o->letter) {
            size_t len = strlen(tab->shorts);
            tab->shorts[len] = o->letter;
            if (o->arg)
                tab->shorts[len + 1] = ':';
            if (may_lack_it(o))
                tab->shorts[len + 2] = ':';
        }
    }
}

static const struct opt *row_of(const struct table *tab, int c)
{
    for (size_t i = 0; i < tab->n; i++)
        if (tab->longs[i].val == c || (tab->rows[i]->letter == c && c < 256))
            return tab->rows[i];
    return NULL;
}

int options_parse(const struct tool *t, int argc, char **argv,
                  int (*on)(void *arg, const struct opt *o, const char *value,
                            struct error *err),
                  void *arg, int *ret_operand, struct error *err)
{
    struct table tab = {.shorts = ":"};
    add_rows(&tab, t->opts);
    add_rows(&tab, common);

    opterr = 0;
    optind = 0; /* GNU: full reset, also for a second call */
    for (;;) {
        int before = optind ? optind : 1;
        int c = getopt_long(argc, argv, tab.shorts, tab.longs, NULL);
        if (c == -1)
            break;
        const char *word = argv[optind > before ? optind - 1 : before];
        if (c == ':')
            return error_set(err, ERR_USAGE, "option '%s' needs a value", word);
        if (c == '?' && optopt && optopt < 256) {
            char letter[3] = {'-', (char)optopt, '\0'};
            return unknown(t, letter, err);
        }
        if (c == '?' && optopt)
            return error_set(err, ERR_USAGE, "option '%s' takes no value",
                             word);
        const struct opt *o = c == '?' ? NULL : row_of(&tab, c);
        if (!o)
            return unknown(t, word, err);
        if (o->id == ID_HELP) {
            print_help(t);
            return OPTIONS_DONE;
        }
        if (o->id == ID_VERSION) {
            printf("%s %s\n", t->name, MGPU_VERSION);
            return OPTIONS_DONE;
        }
        if (on(arg, o, optarg, err) < 0)
            return -1;
    }
    *ret_operand = optind;
    return OPTIONS_RUN;
}

int options_job_id(const char *text, unsigned long long *ret, struct error *err)
{
    char *end = NULL;
    errno = 0;
    unsigned long long id = strtoull(text, &end, 10);
    /* strtoull() accepts "-1" and " 1"; an id must begin with a digit. */
    if (text[0] < '0' || text[0] > '9' || *end || errno || id == 0 ||
        id > INT64_MAX)
        return error_set(err, ERR_USAGE,
                         "'%s' is not a job id (a number from 1)", text);
    *ret = id;
    return 0;
}

int options_job_word(const char *text, struct error *err)
{
    unsigned long long id;
    char head[24] = "";
    size_t len = strcspn(text, "_");
    size_t digits = text[len] ? strspn(text + len + 1, "0123456789") : 0;
    bool is_task = digits > 0 && digits < 10 && !text[len + 1 + digits];
    if (text[len] == '\0')
        return options_job_id(text, &id, err);
    if (len < sizeof(head))
        memcpy(head, text, len);
    if (is_task && options_job_id(head, &id, NULL) == 0)
        return 0;
    return error_set(err, ERR_USAGE,
                     "'%s' is not a job id (123, or 123_4 of a sweep)", text);
}

int options_duration(const char *name, const char *value, double *ret_s,
                     struct error *err)
{
    if (parse_duration(value, ret_s, err) == 0)
        return 0;
    if (err)
        err->code = ERR_USAGE;
    return error_wrap(err, "--%s", name);
}

bool options_common(struct option_common *c, int id, const char *value)
{
    switch (id) {
    case OPTION_JSON:
        c->json = true;
        return true;
    case OPTION_QUIET:
        c->quiet = true;
        return true;
    case OPTION_URL:
        c->url = value;
        return true;
    default:
        return false;
    }
}
