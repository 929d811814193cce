/* paper_results.c - parse the papers' tables that are built into the program,
 * and state those without numbers; see paper_results.h.
 */
#include "scheduler/tools/export/paper_results.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"

/* The assembler includes the files unchanged. */
#define EMBED(symbol, file)                              \
    __asm__(".section .rodata\n" #symbol ":\n"           \
            ".incbin \"jobs/paper/" file "\"\n.byte 0\n" \
            ".previous\n");                              \
    extern const char symbol[]

EMBED(paper_table2, "table2.csv");
EMBED(paper_table3, "table3.csv");
EMBED(paper_fig1, "fig1.csv");
EMBED(paper_fig2, "fig2.csv");
EMBED(paper_fig3, "fig3.csv");
EMBED(paper_table5, "table5.csv");
EMBED(paper_fig4, "fig4.csv");
EMBED(paper_fig5, "fig5.csv");
EMBED(paper_fig6, "fig6.csv");

static const struct {
    const char *name, *text;
} papers[] = {
    {"table2", paper_table2}, {"table3", paper_table3},
    {"fig1", paper_fig1},     {"fig2", paper_fig2},
    {"fig3", paper_fig3},     {"table5", paper_table5},
    {"fig4", paper_fig4},     {"fig5", paper_fig5},
    {"fig6", paper_fig6},
};
enum { N_PAPERS = sizeof(papers) / sizeof(papers[0]) };

/* Comparisons of arXiv 2505.22905; its numbers are not known here. */
static const struct paper bare[] = {
    {.name = "methods",
     .view = PAPER_METHODS,
     .job = "paper-methods",
     .compare_key = "method",
     .compare_value = "lora",
     .keys = {"resources.gpus", "method"},
     .n_keys = 2,
     .titles = {"GPUS", "<METHOD"},
     .quotient = "/LORA",
     .values =
         {{"lora", "lora"}, {"qlora", "qlora"}, {"dpo", "dpo"}, {"qat", "qat"}},
     .notes = {"H2D and COLLECTIVES: bytes of a rank in an iteration"},
     .n_notes = 1},
    {.name = "layout",
     .view = PAPER_LAYOUT,
     .job = "paper-layout",
     .compare_key = "train.channels_last",
     .compare_value = "true",
     .keys = {"dataset.image_size", "dataset.data_path", "train.precision",
              "train.batch_size", "resources.gpus", "train.channels_last"},
     .n_keys = 6,
     .titles = {"SIZE", "<DATA PATH", "<PRECISION", "BATCH", "GPUS", "<LAYOUT"},
     .quotient = "/NHWC",
     .values = {{"true", "NHWC"}, {"false", "NCHW"}},
     .is_first = true,
     .notes = {"DATA and H2D: the host's mean time of an iteration in the last "
               "epoch, t_data and t_h2d"},
     .n_notes = 1},
};
enum { N_BARE = sizeof(bare) / sizeof(bare[0]) };

const char *paper_name(size_t i)
{
    return i < N_PAPERS ? papers[i].name : NULL;
}

static int damaged(const struct paper *p, const char *what, struct error *err)
{
    return error_set(err, ERR_INVAL, "jobs/paper/%s.csv: %s", p->name, what);
}

/* Cuts the next part of *io at sep; NULL at the end. */
static char *cut(char **io, char sep)
{
    char *part = *io;
    if (!part)
        return NULL;
    char *end = strchr(part, sep);
    *io = end ? end + 1 : NULL;
    if (end)
        *end = '\0';
    return part;
}

static char *trim(char *s)
{
    s += strspn(s, " ");
    for (size_t n = strlen(s); n > 0 && s[n - 1] == ' ';)
        s[--n] = '\0';
    return s;
}

/* ---- "# word: text" --------------------------------------------------------
 */
static int take_like(struct paper *p, char *text, struct error *err)
{
    for (char *part; (part = cut(&text, ' ')) != NULL;) {
        char *value = strchr(part, '=');
        if (!value || p->n_like == PAPER_LIKES)
            return damaged(p, "a 'like' that is no key=value", err);
        *value = '\0';
        p->like[p->n_like].key = part;
        p->like[p->n_like++].value = value + 1;
    }
    return 0;
}

static int take_compare(struct paper *p, char *text, struct error *err)
{
    p->compare_key = cut(&text, '=');
    p->compare_value = text;
    return text ? 0 : damaged(p, "a 'compare' that is no key=value", err);
}

static int take_word(struct paper *p, char *line, struct error *err)
{
    char *text = line;
    const char *word = trim(cut(&text, ':'));
    if (!text)
        return damaged(p, "a comment without a word", err);
    text = trim(text);
    if (strcmp(word, "title") == 0)
        p->title = text;
    else if (strcmp(word, "source") == 0)
        p->source = text;
    else if (strcmp(word, "platform") == 0)
        p->platform = text;
    else if (strcmp(word, "job") == 0)
        p->job = text;
    else if (strcmp(word, "needs") == 0)
        p->needs = text;
    else if (strcmp(word, "set") == 0)
        p->set = text;
    else if (strcmp(word, "each") == 0)
        p->each = text;
    else if (strcmp(word, "like") == 0)
        return take_like(p, text, err);
    else if (strcmp(word, "compare") == 0)
        return take_compare(p, text, err);
    else if (strcmp(word, "note") == 0 && p->n_notes < PAPER_NOTES)
        p->notes[p->n_notes++] = text;
    else if (strcmp(word, "metric") == 0 && p->n_metrics < PAPER_METRICS) {
        char *name = cut(&text, '=');
        if (!text)
            return damaged(p, "a metric without names", err);
        p->metrics[p->n_metrics++] =
            (struct paper_metric){trim(name), trim(text)};
    } else
        return damaged(p, "a word that is not known", err);
    return 0;
}

/* ---- rows ------------------------------------------------------------------
 */
static bool has_key(const struct paper *p, const char *key)
{
    for (size_t i = 0; i < p->n_keys; i++)
        if (strcmp(p->keys[i], key) == 0)
            return true;
    return false;
}

/* "train.precision,resources.gpus,time_s,accuracy,h2d": keys contain a dot, the
 * accuracy, or s_per_it, is optional, metrics follow in their order. */
static int take_header(struct paper *p, char *line, struct error *err)
{
    size_t n_metrics = 0;
    bool has_time = false;
    for (char *part; (part = cut(&line, ',')) != NULL;) {
        if (strchr(part, '.') && !has_time && p->n_keys < PAPER_KEYS)
            p->keys[p->n_keys++] = part;
        else if (strcmp(part, "time_s") == 0 && !has_time)
            has_time = true;
        else if (strcmp(part, "accuracy") == 0 && has_time &&
                 !p->has_accuracy && !p->has_s_per_it && n_metrics == 0)
            p->has_accuracy = true;
        else if (strcmp(part, "s_per_it") == 0 && has_time &&
                 !p->has_accuracy && !p->has_s_per_it && n_metrics == 0)
            p->has_s_per_it = true;
        else if (has_time && n_metrics < p->n_metrics &&
                 strcmp(p->metrics[n_metrics].name, part) == 0)
            n_metrics++;
        else
            return damaged(p, "a column that is not known", err);
    }
    if (p->n_keys == 0 || !has_time || n_metrics != p->n_metrics)
        return damaged(p, "a header without keys, time_s or a metric", err);
    return p->compare_key && !has_key(p, p->compare_key)
               ? damaged(p, "a 'compare' whose key is no column", err)
               : 0;
}

static int number(const struct paper *p, const char *text, double *ret,
                  struct error *err)
{
    char *end = NULL;
    *ret = *text ? strtod(text, &end) : (double)NAN;
    if (*text && (*end || !(*ret >= 0)))
        return damaged(p, "a field that is no number", err);
    return 0;
}

/* The member of a row for its i-th number. */
static double *number_at(const struct paper *p, struct paper_row *r, size_t i)
{
    if (i == 0)
        return &r->time_s;
    if (p->has_accuracy && i == 1)
        return &r->accuracy;
    if (p->has_s_per_it && i == 1)
        return &r->s_per_it;
    return &r->metrics[i - 1 - p->has_accuracy - p->has_s_per_it];
}

static int take_row(struct paper *p, char *line, struct error *err)
{
    if (p->n_rows == PAPER_ROWS)
        return damaged(p, "too many rows", err);
    struct paper_row *r = &p->rows[p->n_rows++];
    const size_t n_numbers =
        1u + p->has_accuracy + p->has_s_per_it + p->n_metrics;
    r->accuracy = r->s_per_it = NAN;
    for (size_t i = 0; i < p->n_keys + n_numbers; i++) {
        const char *part = cut(&line, ',');
        if (!part)
            return damaged(p, "a row that is too short", err);
        if (i < p->n_keys) {
            r->keys[i] = part;
            continue;
        }
        if (number(p, part, number_at(p, r, i - p->n_keys), err) < 0)
            return -1;
    }
    if (r->accuracy > 100)
        return damaged(p, "an accuracy above 100 %", err);
    return line ? damaged(p, "a row that is too long", err) : 0;
}

int paper_parse(const char *name, const char *text, struct paper *ret,
                struct error *err)
{
    struct paper p = {.name = name, .text = strdup(text)};
    char *rest = p.text;
    int rc = p.text ? 0 : error_set(err, ERR_NOMEM, "report '%s'", name);
    while (rc == 0 && rest && *rest) {
        char *line = cut(&rest, '\n');
        if (*line == '#')
            rc = take_word(&p, line + 1, err);
        else
            rc = p.n_keys == 0 ? take_header(&p, line, err)
                               : take_row(&p, line, err);
    }
    if (rc == 0 &&
        (!p.title || !p.source || !p.platform || !p.job || p.n_rows == 0))
        rc = damaged(&p, "a title, source, platform, job or row is missing",
                     err);
    if (rc < 0)
        paper_clear(&p);
    else {
        p.view = p.n_metrics > 0 ? PAPER_SHARES : PAPER_TIMES;
        *ret = p;
    }
    return rc;
}

int paper_load(const char *name, struct paper *ret, struct error *err)
{
    struct buf known = BUF_INIT;
    int rc = 0;
    for (size_t i = 0; i < N_PAPERS; i++)
        if (strcmp(papers[i].name, name) == 0)
            return paper_parse(papers[i].name, papers[i].text, ret, err);
    for (size_t i = 0; i < N_BARE; i++)
        if (strcmp(bare[i].name, name) == 0) {
            *ret = bare[i];
            return 0;
        }
    for (size_t i = 0; rc == 0 && i < N_PAPERS; i++)
        rc = buf_addf(&known, err, "%s, ", papers[i].name);
    for (size_t i = 0; rc == 0 && i < N_BARE; i++)
        rc = buf_addf(&known, err, "%s%s", i > 0 ? ", " : "", bare[i].name);
    if (rc == 0)
        (void)error_set(err, ERR_USAGE,
                        "no report '%.40s'; there are %s. A job's is a file: "
                        "--report job.html JOB",
                        name, buf_str(&known));
    buf_clear(&known);
    return -1;
}

void paper_clear(struct paper *p)
{
    free(p->text);
    *p = (struct paper){.text = NULL};
}
