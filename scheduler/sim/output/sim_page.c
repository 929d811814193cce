/* sim_page.c - see sim_page.h.
 *
 * The parts are those of the reports of mgpu-stat: page_*() escapes all text
 * from files, such as names of users and of jobs. */
#include "scheduler/sim/output/sim_page.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/output/gantt_svg.h"
#include "scheduler/sim/output/run_lines.h"
#include "scheduler/tools/export/html_page.h"

/* A bar is about 130 bytes, so all pictures of eight policies are 2 MB. */
enum { BARS_MAX = 2000, USERS_MAX = 20 };

static void add_number(struct page *p, const char *name, double x)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%.0f", x);
    page_fact(p, name, text);
}

static void add_head(struct page *p, const struct sim_page *s)
{
    page_title(p, "Simulation of", s->conf->trace->name,
               s->conf->cluster->text);
    page_add(p, "<section><h2>What is assumed</h2><p>");
    page_say(p, s->assumed);
    page_add(p, "</p><dl>");
    page_fact(p, "trace", s->conf->trace->name);
    page_fact(p, "cluster", s->conf->cluster->text);
    add_number(p, "GPUs", s->conf->cluster->gpus_total);
    add_number(p, "jobs", (double)s->conf->trace->n);
    add_number(p, "seed", s->conf->seed);
    page_add(p, "</dl></section>\n");
}

/* ---- tables ----------------------------------------------------------------
 */
struct table {
    struct page *p;
    const char *corner;
};

static void add_cell(void *arg, const struct run_cell *c)
{
    const struct table *t = arg;
    struct page *p = t->p;

    if (c->is_timing)
        return;
    if (c->column == 0)
        page_add(p, c->row == 0 ? "<tr class=\"h\">" : "<tr>");
    if (c->row > 0)
        page_cell(p, c->column == 0 ? "l" : "", c->text);
    else {
        page_add(p, "<th>");
        page_say(p, c->column == 0 ? t->corner : c->text);
        page_add(p, "</th>");
    }
    if (c->column == c->last)
        page_add(p, "</tr>\n");
}

static void add_figures(struct page *p, const struct sim_page *s)
{
    struct table t = {p, s->sweep};

    page_add(p, "<h2>Figures</h2><section><div class=\"scroll\"><table>\n");
    run_table_each(s->recorded, s->runs, s->n, add_cell, &t);
    page_add(p, "</table></div></section>\n");
    if (s->replicates->n == 0)
        return;
    p->bad |= buf_addf(
        &p->out, NULL,
        "<h2>Replicates</h2><section><p class=\"dim\">Means of "
        "%zu replicates with other arrivals, and their "
        "intervals of 95 %%.%s</p>"
        "<div class=\"scroll\"><table>\n",
        s->replicates->n,
        s->replicates->n_unended > 0 ? " In some a job did not end." : "");
    run_replicates_each(s->replicates, s->runs, add_cell, &t);
    page_add(p, "</table></div></section>\n");
}

struct user {
    const char *name;
    int64_t jobs;
};

static int by_jobs(const void *a, const void *b)
{
    const struct user *x = a, *y = b;

    if (x->jobs != y->jobs)
        return x->jobs > y->jobs ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void hours_cell(struct page *p, const struct run_figures *f,
                       const char *user, const char *what)
{
    const json_t *v =
        json_object_get(json_object_get(f->groups.users, user), what);
    char text[32] = "-";

    if (json_is_number(v))
        (void)snprintf(text, sizeof(text), "%.2f h",
                       json_number_value(v) / 3600);
    page_cell(p, "", text);
}

static void add_users(struct page *p, const struct sim_page *s,
                      const struct user *users, size_t n)
{
    static const struct {
        const char *key, *title;
    } parts[] = {{"wait_s", "wait: "}, {"jct_s", "JCT: "}};
    char text[32];

    page_add(p, "<div class=\"scroll\"><table><tr class=\"h\">"
                "<th class=\"l\">user</th><th>jobs</th>");
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i <= s->n; i++) {
            if (i == 0 && s->recorded->jobs == 0)
                continue;
            page_add(p, "<th>");
            page_say(p, parts[k].title);
            page_say(p, i == 0 ? "recorded" : s->runs[i - 1].label);
            page_add(p, "</th>");
        }
    page_add(p, "</tr>\n");
    for (size_t u = 0; u < n; u++) {
        (void)snprintf(text, sizeof(text), "%" PRId64, users[u].jobs);
        page_add(p, "<tr>");
        page_cell(p, "l", users[u].name);
        page_cell(p, "", text);
        for (size_t k = 0; k < 2; k++) {
            if (s->recorded->jobs > 0)
                hours_cell(p, s->recorded, users[u].name, parts[k].key);
            for (size_t i = 0; i < s->n; i++)
                hours_cell(p, &s->runs[i].figures, users[u].name, parts[k].key);
        }
        page_add(p, "</tr>\n");
    }
    page_add(p, "</table></div></section>\n");
}

/* The users with the most completed jobs under the first policy. */
static int add_by_user(struct page *p, const struct sim_page *s,
                       struct error *err)
{
    json_t *all = s->runs[0].figures.groups.users, *one;
    size_t n = json_object_size(all), k = 0;
    struct user *users = calloc(n + 1, sizeof(*users));
    const char *name;

    if (!users)
        return error_set(err, ERR_NOMEM, "users");
    json_object_foreach(all, name, one) users[k++] =
        (struct user){name, json_integer_value(json_object_get(one, "jobs"))};
    qsort(users, n, sizeof(*users), by_jobs);
    if (n < 2) {
        free(users);
        return 0;
    }
    page_add(p, "<h2>Means by user</h2><section>");
    if (n > USERS_MAX)
        p->bad |= buf_addf(&p->out, NULL,
                           "<p class=\"dim\">The %d of %zu users with the most "
                           "completed jobs under the first policy.</p>",
                           (int)USERS_MAX, n);
    add_users(p, s, users, n < USERS_MAX ? n : USERS_MAX);
    free(users);
    return 0;
}

/* ---- pictures --------------------------------------------------------------
 */
static int add_chart(struct page *p, const struct sim_page *s,
                     enum run_line what, struct error *err)
{
    struct run_lines lines;

    if (run_lines_make(s->conf, s->runs, s->n, what, s->recorded->jobs > 0,
                       &lines, err) < 0)
        return -1;
    const struct chart chart = run_lines_chart(&lines, what);
    page_chart(p, &chart);
    run_lines_clear(&lines);
    return 0;
}

static int add_gantt(struct page *p, const struct sim_page *s,
                     const struct sim_named *run, struct error *err)
{
    struct gantt_shown shown;
    struct buf picture = BUF_INIT;

    if (gantt_svg_largest(s->conf, &run->out, BARS_MAX, &shown, &picture, err) <
        0) {
        buf_clear(&picture);
        return -1;
    }
    page_add(p, "<div class=\"card picture\"><p>");
    page_say(p, run->label);
    if (shown.shown < shown.bars)
        p->bad |= buf_addf(&p->out, NULL,
                           " <span class=\"dim\">The %zu largest of %zu bars, "
                           "with %.1f %% of the GPU time.</span>",
                           shown.shown, shown.bars, 100 * shown.share);
    page_add(p, "</p>");
    page_add(p, buf_str(&picture));
    page_add(p, "</div>\n");
    buf_clear(&picture);
    return 0;
}

static int add_pictures(struct page *p, const struct sim_page *s,
                        struct error *err)
{
    page_add(p, "<h2>Distributions and queue</h2><div class=\"charts\">\n");
    if (add_chart(p, s, RUN_LINE_JCT, err) < 0 ||
        add_chart(p, s, RUN_LINE_WAIT, err) < 0 ||
        add_chart(p, s, RUN_LINE_QUEUE, err) < 0)
        return -1;
    page_add(p, "</div>\n<h2>Jobs by GPU and time</h2>"
                "<div class=\"charts wide\">\n");
    for (size_t i = 0; i < s->n; i++)
        if (add_gantt(p, s, &s->runs[i], err) < 0)
            return -1;
    page_add(p, "</div>\n");
    return 0;
}

/* ---- together --------------------------------------------------------------
 */
static void add_notes(struct page *p, const char *notes)
{
    if (!*notes)
        return;
    page_add(p, "<h2>What is not in it</h2><section><pre>");
    page_say(p, notes);
    page_add(p, "</pre></section>\n");
}

int sim_page(const struct sim_page *s, struct buf *out, struct error *err)
{
    struct page p;

    page_begin(&p);
    add_head(&p, s);
    add_figures(&p, s);
    int rc = add_pictures(&p, s, err);
    if (rc == 0)
        rc = add_by_user(&p, s, err);
    add_notes(&p, s->notes);
    page_add(&p, "<h2>Command</h2><section><pre>");
    page_say(&p, s->command);
    page_add(&p, "</pre></section>\n");
    page_end(&p, NULL, NULL);
    if (rc == 0)
        rc = p.bad ? error_set(err, ERR_NOMEM, "page")
                   : buf_add(out, buf_str(&p.out), p.out.len, err);
    page_clear(&p);
    return rc;
}
