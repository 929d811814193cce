/* report_print.c - print a report as a table with notes. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "scheduler/tools/export/report.h"

enum { TEXT_CAP = 64 };

/* "precision" of "train.precision". */
static const char *tail_of(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

static void upper(const char *text, char *out, size_t cap)
{
    size_t n = 0;
    for (; text[n] && n + 1 < cap; n++)
        out[n] = (char)toupper((unsigned char)text[n]);
    out[n] = '\0';
}

static bool has_paper_metrics(const struct report *r)
{
    for (size_t i = 0; i < r->n_rows; i++)
        for (size_t m = 0; m < r->paper.n_metrics; m++)
            if (isfinite(r->rows[i].paper_metrics[m]))
                return true;
    return false;
}

/* ---- the table ------------------------------------------------------------
 */
/* The columns between the keys and the job; "%s" is the value that the paper
 * compares with. Of reports that are not of a paper each has a second column,
 * the quotient by the row that it is compared with. */
static const struct figure {
    const char *title;
    size_t at;
    char fmt;
    enum paper_view in;
    enum { ALWAYS, WITH_ACCURACY, WITH_S_PER_IT, WITH_COMPARE } when;
} figures[] = {
#define AT(member) offsetof(struct report_row, member)
    {"TIME s", AT(time_s), 's', PAPER_TIMES, ALWAYS},
    {"TRAIN s", AT(train_s), 's', PAPER_PRINTED, ALWAYS},
    {"TEST ACC", AT(accuracy), 'a', PAPER_TIMES, ALWAYS},
    {"PAPER ACC", AT(paper_accuracy), 'a', PAPER_TIMES, WITH_ACCURACY},
    {"s/IT", AT(s_per_it), 'i', PAPER_PRINTED, WITH_S_PER_IT},
    {"PAPER s/IT", AT(paper_s_per_it), 'i', PAPER_TIMES, WITH_S_PER_IT},
    {"SPEED-UP", AT(speedup), 'x', PAPER_TIMES, ALWAYS},
    {"EFFICIENCY", AT(efficiency), '%', PAPER_TIMES, ALWAYS},
    {"VS %s", AT(compared), '%', PAPER_TIMES, WITH_COMPARE},
    {"PAPER VS %s", AT(paper_compared), '%', PAPER_TIMES, WITH_COMPARE},
    {"PAPER s", AT(paper_s), 's', PAPER_TIMES, ALWAYS},
    {"SPEED-UP", AT(paper_speedup), 'x', PAPER_TIMES, ALWAYS},
    {"EFFICIENCY", AT(paper_efficiency), '%', PAPER_TIMES, ALWAYS},
    {"PAPER/OURS", AT(times_paper), 'x', PAPER_TIMES, ALWAYS},
    {"PROFILED s", AT(profiled_s), 's', PAPER_SHARES, ALWAYS},
    {"s/IT", AT(s_per_update), 'i', PAPER_METHODS, ALWAYS},
    {"TOKENS/S", AT(tokens_per_s), 'n', PAPER_METHODS, ALWAYS},
    {"MEMORY", AT(memory_bytes), 'b', PAPER_METHODS, ALWAYS},
    {"H2D/IT", AT(h2d_bytes), 'b', PAPER_METHODS, ALWAYS},
    {"COLLECTIVES/IT", AT(collective_bytes), 'b', PAPER_METHODS, ALWAYS},
    {"DATA/IT", AT(t_data_s), 'm', PAPER_LAYOUT, ALWAYS},
    {"H2D/IT", AT(t_h2d_s), 'm', PAPER_LAYOUT, ALWAYS},
    {"IMAGES/S", AT(samples_per_s), 'n', PAPER_LAYOUT, ALWAYS},
};
enum { N_FIGURES = sizeof(figures) / sizeof(*figures) };

/* The figures of one view are fewer than half of all, so there is room for
 * their quotients; a metric has its seconds, its share and the paper's. */
enum { COLUMNS_CAP = PAPER_KEYS + N_FIGURES + 3 * PAPER_METRICS + 1 };

struct titles {
    char text[COLUMNS_CAP][TEXT_CAP];
    struct render_column columns[COLUMNS_CAP];
    size_t n;
};

/* "<name": a column of text, on the left. */
static void add_title(struct titles *t, const char *title)
{
    const bool is_left = *title == '<';
    (void)snprintf(t->text[t->n], TEXT_CAP, "%s", title + is_left);
    t->columns[t->n] = (struct render_column){
        t->text[t->n], is_left ? RENDER_LEFT : RENDER_RIGHT};
    t->n++;
}

static bool is_shown(const struct paper *p, const struct figure *f)
{
    return (f->in & p->view) &&
           (f->when == ALWAYS ||
            (f->when == WITH_ACCURACY && p->has_accuracy) ||
            (f->when == WITH_S_PER_IT && p->has_s_per_it) ||
            (f->when == WITH_COMPARE && p->compare_key));
}

static void make_titles(const struct report *r, struct titles *t)
{
    const struct paper *p = &r->paper;
    char text[TEXT_CAP], word[32] = "";
    *t = (struct titles){.n = 0};
    for (size_t k = 0; k < p->n_keys; k++) {
        upper(tail_of(p->keys[k]), text, sizeof(text));
        add_title(t, p->titles[k] ? p->titles[k] : text);
    }
    if (p->compare_value)
        upper(p->compare_value, word, sizeof(word));
    for (size_t i = 0; i < N_FIGURES; i++) {
        if (!is_shown(p, &figures[i]))
            continue;
        (void)snprintf(text, sizeof(text), "%.*s%s",
                       (int)strcspn(figures[i].title, "%"), figures[i].title,
                       figures[i].when == WITH_COMPARE ? word : "");
        add_title(t, text);
        if (p->quotient)
            add_title(t, p->quotient);
    }
    for (size_t m = 0; m < p->n_metrics; m++) {
        upper(p->metrics[m].name, word, sizeof(word));
        (void)snprintf(text, sizeof(text), "%s s", word);
        add_title(t, text);
        (void)snprintf(text, sizeof(text), "%s %%", word);
        add_title(t, text);
    }
    for (size_t m = 0; has_paper_metrics(r) && m < p->n_metrics; m++) {
        upper(p->metrics[m].name, word, sizeof(word));
        (void)snprintf(text, sizeof(text), "PAPER %s %%", word);
        add_title(t, text);
    }
    add_title(t, "JOB");
}

static const char *number_text(double v, char fmt, char out[TEXT_CAP])
{
    (void)snprintf(out, TEXT_CAP, "-");
    if (fmt == 'b')
        return render_bytes(v, out, TEXT_CAP);
    if (!isfinite(v))
        return out;
    if (fmt == 'a')
        (void)snprintf(out, TEXT_CAP, "%.2f %%", 100 * v);
    else if (fmt == '%')
        (void)snprintf(out, TEXT_CAP, "%.1f %%", 100 * v);
    else if (fmt == 'i')
        (void)snprintf(out, TEXT_CAP, "%.3g", v);
    else if (fmt == 'x')
        (void)snprintf(out, TEXT_CAP, "%.2f x", v);
    else if (fmt == 'n')
        (void)snprintf(out, TEXT_CAP, "%.0f", v);
    else if (fmt == 'm')
        (void)snprintf(out, TEXT_CAP, "%.3f ms", 1e3 * v);
    else
        (void)snprintf(out, TEXT_CAP, v < 100 ? "%.2f" : "%.0f", v);
    return out;
}

static int add_number(struct render_table *t, double v, char fmt,
                      struct error *err)
{
    char text[TEXT_CAP];
    return render_table_put(t, number_text(v, fmt, text), err);
}

static int add_figures(struct render_table *t, const struct report *r,
                       const struct report_row *row, struct error *err)
{
    const struct paper *p = &r->paper;
    const struct report_row *base =
        p->quotient ? report_base(r, row, p->compare_key, p->compare_value)
                    : NULL;
    for (size_t i = 0; i < N_FIGURES; i++) {
        const struct figure *f = &figures[i];
        if (!is_shown(p, f))
            continue;
        double v = report_number(row, f->at);
        if (add_number(t, v, f->fmt, err) < 0 ||
            (p->quotient &&
             add_number(t, base ? v / report_number(base, f->at) : (double)NAN,
                        'x', err) < 0))
            return -1;
    }
    return 0;
}

static int add_metrics(struct render_table *t, const struct report *r,
                       const struct report_row *row, struct error *err)
{
    const size_t n = r->paper.n_metrics;
    int rc = 0;
    for (size_t m = 0; rc == 0 && m < n; m++) {
        rc = add_number(t, row->seconds[m], 's', err);
        if (rc == 0)
            rc = add_number(t, row->metrics[m], '%', err);
    }
    for (size_t m = 0; rc == 0 && has_paper_metrics(r) && m < n; m++)
        rc = add_number(t, row->paper_metrics[m], '%', err);
    return rc;
}

/* A value as the table shows it. */
static const char *word_of(const struct paper *p, size_t key, const char *value)
{
    for (size_t i = 0; key + 1 == p->n_keys && i < PAPER_VALUES; i++)
        if (p->values[i].value && strcmp(p->values[i].value, value) == 0)
            return p->values[i].word;
    return value;
}

static int add_row(struct render_table *t, const struct report *r,
                   const struct report_row *row, struct error *err)
{
    const struct paper *p = &r->paper;
    int rc = render_table_add(t, err, "%s", row->keys[0]);
    for (size_t k = 1; rc == 0 && k < p->n_keys; k++)
        rc = render_table_put(t, word_of(p, k, row->keys[k]), err);
    if (rc == 0)
        rc = add_figures(t, r, row, err);
    if (rc == 0)
        rc = add_metrics(t, r, row, err);
    return rc < 0
               ? -1
               : render_table_put(t, row->is_run ? row->display_id : "-", err);
}

/* ---- what is to be known of it --------------------------------------------
 */
/* "key=value" as a member of a mapping. */
static int add_each(const char *each, struct buf *out, struct error *err)
{
    const char *value = each ? strchr(each, '=') : NULL;
    return value ? buf_addf(out, err, ", %.*s: %s", (int)(value - each), each,
                            value + 1)
                 : 0;
}

/* "{train.precision: fp64, resources.gpus: 1}, ...": a sweep of the missing
 * rows. */
static int missing_list(const struct report *r, struct buf *out, size_t *ret_n,
                        struct error *err)
{
    const struct paper *p = &r->paper;
    int rc = 0;
    *ret_n = 0;
    for (size_t i = 0; rc == 0 && i < p->n_rows; i++) {
        const struct report_row *row = &r->rows[i];
        if (row->is_run)
            continue;
        rc = buf_addf(out, err, "%s{", (*ret_n)++ > 0 ? ", " : "");
        for (size_t k = 0; rc == 0 && k < p->n_keys; k++)
            rc = buf_addf(out, err, "%s%s: %s", k > 0 ? ", " : "", p->keys[k],
                          row->keys[k]);
        if (rc == 0)
            rc = add_each(p->each, out, err);
        if (rc == 0)
            rc = buf_addstr(out, "}", err);
    }
    return rc;
}

/* The command line that runs what is missing.
 * in  list  rows of a sweep; NULL: all that the file has */
static void print_submit(const struct paper *p, const char *list, FILE *out)
{
    (void)fputs("  mgpu-submit ", out);
    for (const char *at = p->set; at && *at;) {
        const size_t n = strcspn(at, " ");
        (void)fprintf(out, "--set %.*s ", (int)n, at);
        at += n + strspn(at + n, " ");
    }
    if (list)
        (void)fprintf(out, "--set 'sweep={list: [%s]}' ", list);
    (void)fprintf(out, "jobs/paper/%s.yaml\n", p->name);
}

static int print_missing(const struct report *r, FILE *out, struct error *err)
{
    const struct paper *p = &r->paper;
    struct buf list = BUF_INIT;
    size_t n = 0;
    int rc = missing_list(r, &list, &n, err);
    if (rc == 0 && n > 0) {
        if (n == p->n_rows)
            (void)fputs("missing: no run yet", out);
        else
            (void)fprintf(out, "missing: %zu of %zu", n, p->n_rows);
        (void)fprintf(out, "%s%s:\n", p->needs ? "; with " : "",
                      p->needs ? p->needs : "");
        print_submit(p, n < p->n_rows || p->each ? buf_str(&list) : NULL, out);
    }
    buf_clear(&list);
    return rc;
}

static void print_runs(const struct report *r, FILE *out)
{
    char safe[1200];
    const char *first = "9", *last = "";
    for (size_t i = 0; i < r->n_rows; i++) {
        const char *s = r->rows[i].started;
        if (!r->rows[i].is_run || !*s)
            continue;
        first = strcmp(s, first) < 0 ? s : first;
        last = strcmp(s, last) > 0 ? s : last;
    }
    if (r->n_runs > 0)
        (void)fprintf(out, "ours:    %zu run%s on %s, %.10s to %.10s\n",
                      r->n_runs, r->n_runs == 1 ? "" : "s",
                      render_escape(buf_str(&r->ran_on), safe, sizeof(safe)),
                      first, last);
    if (r->n_open > 0)
        (void)fprintf(out, "         %zu jobs more have not completed\n",
                      r->n_open);
    if (r->n_denied > 0)
        (void)fprintf(out, "         %zu jobs of other users are left out\n",
                      r->n_denied);
    if (r->differs.len > 0)
        (void)fprintf(out, "not like for like: %s\n",
                      render_escape(buf_str(&r->differs), safe, sizeof(safe)));
}

/* ---- the order of the methods ---------------------------------------------
 */
/* The row of a method; NULL method: the one that has most, of all but qat. */
static const struct report_row *row_of(const struct report *r, int64_t gpus,
                                       const char *method, size_t at)
{
    const struct report_row *most = NULL;
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct report_row *row = &r->rows[i];
        const bool is_it = strcmp(row->keys[1], method ? method : "qat") == 0;
        const double v = report_number(row, at);
        if (row->gpus != gpus || is_it != (method != NULL))
            continue;
        if (method)
            return row;
        if (isfinite(v) && (!most || v > report_number(most, at)))
            most = row;
    }
    return most;
}

/* "LoRA is faster than DPO: holds (0.31 s and 0.52 s of dpo)" */
static void print_order(const struct report *r, int64_t gpus, FILE *out)
{
    static const struct {
        const char *claim, *less, *more;
        size_t at;
    } claims[] = {
        {"LoRA is faster than DPO", "lora", "dpo", AT(s_per_update)},
        {"LoRA is smaller than DPO", "lora", "dpo", AT(memory_bytes)},
        {"QAT is the slowest", NULL, "qat", AT(s_per_update)},
        {"QAT is the largest", NULL, "qat", AT(memory_bytes)},
    };
    (void)fprintf(
        out, "the order that arXiv 2505.22905 states, on %" PRId64 " GPU%s:\n",
        gpus, gpus == 1 ? "" : "s");
    for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
        const size_t at = claims[i].at;
        const struct report_row *less = row_of(r, gpus, claims[i].less, at);
        const struct report_row *more = row_of(r, gpus, claims[i].more, at);
        const double a = less ? report_number(less, at) : (double)NAN;
        const double b = more ? report_number(more, at) : (double)NAN;
        const bool is_time = at == AT(s_per_update);
        char texts[2][TEXT_CAP];
        if (!isfinite(a) || !isfinite(b)) {
            (void)fprintf(out, "  %s: not known, a run is missing\n",
                          claims[i].claim);
            continue;
        }
        (void)fprintf(out, "  %s: %s (%s%s and %s%s of %s)\n", claims[i].claim,
                      a < b ? "holds" : "does not hold",
                      number_text(a, is_time ? 'i' : 'b', texts[0]),
                      is_time ? " s" : "",
                      number_text(b, is_time ? 'i' : 'b', texts[1]),
                      is_time ? " s" : "", claims[i].more);
    }
}

/* What follows the table of a report that is not of a paper. */
static void print_bare(const struct report *r, FILE *out)
{
    const struct paper *p = &r->paper;
    bool is_planned = false;
    for (size_t i = 0; p->view == PAPER_METHODS && i < r->n_rows; i++) {
        is_planned = is_planned || r->rows[i].is_planned;
        if (i + 1 == r->n_rows || r->rows[i + 1].gpus != r->rows[i].gpus)
            print_order(r, r->rows[i].gpus, out);
    }
    if (is_planned)
        (void)fprintf(out, "memory: where no GPU measured it, the bytes that "
                           "the plan takes\n");
    if (r->n_rows > 0)
        (void)fprintf(out, "%s\n", p->notes[0]);
    else
        (void)fprintf(out,
                      "missing: no run yet; mgpu-submit jobs/paper/%s.yaml\n",
                      p->name);
    if (r->n_open > 0)
        (void)fprintf(out, "not completed: %zu job%s\n", r->n_open,
                      r->n_open == 1 ? "" : "s");
    if (r->n_denied > 0)
        (void)fprintf(out, "of other users, left out: %zu job%s\n", r->n_denied,
                      r->n_denied == 1 ? "" : "s");
}

int report_show(const struct report *r, const struct render_style *s,
                bool header, FILE *out, struct error *err)
{
    const struct paper *p = &r->paper;
    const bool is_bare = !(p->view & PAPER_PRINTED);
    struct render_table *t = NULL;
    struct titles titles;
    make_titles(r, &titles);
    int rc = render_table_create(titles.columns, titles.n, &t, err);
    for (size_t i = 0; rc == 0 && i < r->n_rows; i++)
        rc = add_row(t, r, &r->rows[i], err);
    if (rc == 0) {
        if (header && !is_bare)
            (void)fprintf(out, "%s\n\n", p->title);
        render_table_print(t, s, header, out);
    }
    render_table_destroy(t);
    if (rc == 0 && is_bare)
        print_bare(r, out);
    if (rc < 0 || !header || is_bare)
        return rc;
    (void)fputc('\n', out);
    print_runs(r, out);
    (void)fprintf(out, "paper:   %s; %s\n", p->source, p->platform);
    for (size_t i = 0; i < p->n_notes; i++)
        (void)fprintf(out, "note:    %s\n", p->notes[i]);
    return print_missing(r, out, err);
}
