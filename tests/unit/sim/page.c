/* page.c - the page of a comparison: its lines, what it shows of many jobs, and
 * names from files, which are text there.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/output/gantt_svg.h"
#include "scheduler/sim/output/run_lines.h"
#include "scheduler/sim/output/sim_page.h"
#include "tests/tap.h"

/* A run of n jobs on one node, made by hand. */
struct made {
    struct sim_cluster cluster;
    struct sim_trace trace;
    struct sim_conf conf;
    struct sim_named run;
};

static void stop(const struct error *err)
{
    (void)printf("Bail out! %s\n", err->msg);
    exit(1);
}

static void make(struct made *m, size_t n)
{
    struct error err = ERROR_INIT;

    *m = (struct made){.trace = {.n = n, .name = "made"}};
    if (sim_cluster_parse("1x4", &m->cluster, &err) < 0)
        stop(&err);
    m->trace.jobs = calloc(n + 1, sizeof(*m->trace.jobs));
    m->run.out.results = calloc(n + 1, sizeof(*m->run.out.results));
    m->run.out.spans = calloc(n + 1, sizeof(*m->run.out.spans));
    if (!m->trace.jobs || !m->run.out.results || !m->run.out.spans)
        exit(1);
    m->conf.cluster = &m->cluster;
    m->conf.trace = &m->trace;
    m->run.out.n = m->run.out.n_spans = n;
    (void)snprintf(m->run.name, sizeof(m->run.name), "fifo");
    (void)snprintf(m->run.label, sizeof(m->run.label), "fifo");
}

/* Job i takes one GPU. */
static void set(struct made *m, size_t i, double submit_s, double start_s,
                double end_s)
{
    struct sim_job *job = &m->trace.jobs[i];

    job->submit_s = submit_s;
    job->gpus_min = job->gpus_max = 1;
    (void)snprintf(job->name, sizeof(job->name), "job-%zu", i);
    (void)snprintf(job->user, sizeof(job->user), "user-%zu", i % 100);
    (void)snprintf(job->class, sizeof(job->class), "class-%zu", i % 20);
    m->run.out.results[i] = (struct sim_result){.start_s = start_s,
                                                .end_s = end_s,
                                                .gpu_s = end_s - start_s,
                                                .fairness = 1,
                                                .slowdown = 1,
                                                .is_completed = true};
    m->run.out.spans[i] =
        (struct sim_span){start_s, end_s, (int32_t)i, 0, 1, 1ULL << (i % 4)};
    m->run.out.last_s = fmax(m->run.out.last_s, end_s);
}

static void clear(struct made *m)
{
    sim_output_clear(&m->run.out);
    run_figures_clear(&m->run.figures);
    free(m->trace.jobs);
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;

    for (const char *p = text; (p = strstr(p, word)); p += strlen(word))
        n++;
    return n;
}

/* Of 200 parts of 100 s the k-th begins at k / 2. */
static void test_queue(void)
{
    struct made m;
    struct run_lines l;
    struct error err = ERROR_INIT;

    make(&m, 3);
    set(&m, 0, 0, 0, 100);
    set(&m, 1, 0, 50, 100);
    set(&m, 2, 10, 60, 90);
    if (run_lines_make(&m.conf, &m.run, 1, RUN_LINE_QUEUE, false, &l, &err) < 0)
        stop(&err);
    const double *y = l.series[0].y;
    ok(y[0] == 1 && y[18] == 1 && y[40] == 2 && y[98] == 2,
       "the one that starts at once does not wait");
    ok(y[101] == 1 && y[118] == 1 && y[121] == 0 && y[199] == 0,
       "they leave when they start: %g %g %g %g", y[101], y[118], y[121],
       y[199]);
    ok(l.series[0].x[0] == 0 &&
           fabs(l.series[0].x[100] - 50.25 / 3600) < 1e-12 &&
           fabs(l.series[0].x[199] - 100.0 / 3600) < 1e-12,
       "hours, from the first submit to the last end");
    run_lines_clear(&l);

    /* The one of the two that the past knows. */
    m.trace.jobs[1].is_recorded = true;
    m.trace.jobs[1].recorded_start_s = 3600;
    m.trace.jobs[1].recorded_end_s = 7200;
    if (run_lines_make(&m.conf, &m.run, 1, RUN_LINE_WAIT, true, &l, &err) < 0)
        stop(&err);
    ok(l.n == 2 && l.series[1].dashed && l.series[1].x[2] == 1 &&
           l.series[1].y[2] == 1,
       "a line for the past");
    ok(l.series[1].x[0] == 0 && l.series[1].y[0] == 0 &&
           l.series[1].x[1] == 1 && l.series[1].y[1] == 0,
       "which is at 0 until the first one starts");
    ok(fabs(l.series[0].x[199] - 50.0 / 3600) < 1e-12 &&
           l.series[0].x[0] == 0 && l.series[0].y[199] == 1,
       "and the waits of the run, from 0 to 50 s");
    run_lines_clear(&l);
    clear(&m);
}

/* One job in a thousand takes a thousand times as long. */
static void test_tail(void)
{
    enum { N = 1000 };
    struct made m;
    struct run_lines l;
    struct error err = ERROR_INIT;

    make(&m, N);
    for (size_t i = 0; i < N; i++)
        set(&m, i, 0, 0, i == 500 ? 3.6e9 : 3600.0 * (double)(i + 1));
    if (run_lines_make(&m.conf, &m.run, 1, RUN_LINE_JCT, false, &l, &err) < 0)
        stop(&err);
    ok(l.series[0].x[199] == 991 && fabs(l.series[0].y[199] - 0.99) < 1e-12,
       "a distribution ends at the 99th percentile: %g h, %g",
       l.series[0].x[199], l.series[0].y[199]);
    run_lines_clear(&l);
    clear(&m);
}

static void test_largest(void)
{
    struct made m;
    struct gantt_shown shown;
    struct buf out = BUF_INIT;
    struct error err = ERROR_INIT;

    /* Five of 10 s, then one of 90 s. */
    make(&m, 6);
    for (size_t i = 0; i < 5; i++)
        set(&m, i, 0, 0, 10);
    set(&m, 5, 0, 10, 100);
    if (gantt_svg_largest(&m.conf, &m.run.out, 3, &shown, &out, &err) < 0)
        stop(&err);
    is_int((long long)count(buf_str(&out), "<title>"), 3, "three bars");
    ok(shown.bars == 6 && shown.shown == 3, "it says so");
    ok(fabs(shown.share - 110.0 / 140) < 1e-12, "and their GPU time");
    ok(strstr(buf_str(&out), "job-5") && strstr(buf_str(&out), "job-0") &&
           !strstr(buf_str(&out), "job-2"),
       "the largest, then the first of equal ones");
    buf_clear(&out);
    if (gantt_svg_largest(&m.conf, &m.run.out, 7, &shown, &out, &err) < 0)
        stop(&err);
    ok(shown.shown == 6 && count(buf_str(&out), "<title>") == 6, "all of them");
    buf_clear(&out);
    clear(&m);
}

/* Many classes, of which the last one has half of the GPU time. */
static void test_colours(void)
{
    enum { MANY = 1000 };
    struct made m;
    struct gantt_shown shown;
    struct buf out = BUF_INIT;
    struct error err = ERROR_INIT;

    make(&m, MANY);
    for (size_t i = 0; i < MANY; i++) {
        set(&m, i, 0, 0, i + 1 < MANY ? 1 : 1000);
        (void)snprintf(m.trace.jobs[i].class, SIM_CLASS_CAP, "class-%zu", i);
    }
    if (gantt_svg_largest(&m.conf, &m.run.out, MANY, &shown, &out, &err) < 0)
        stop(&err);
    const char *legend = strstr(buf_str(&out), ">class-");
    ok(legend && strncmp(legend, ">class-999<", 11) == 0,
       "the class with the most GPU time has the first colour");
    is_int((long long)count(buf_str(&out), ">class-"), 8, "of eight");
    buf_clear(&out);
    clear(&m);
}

static size_t page_of(struct made *m, const char *evil, struct buf *out)
{
    struct run_figures recorded = {.jobs = 0};
    struct run_replicates none = {.n = 0};
    struct error err = ERROR_INIT;
    const struct sim_page page = {.conf = &m->conf,
                                  .recorded = &recorded,
                                  .runs = &m->run,
                                  .n = 1,
                                  .replicates = &none,
                                  .sweep = evil,
                                  .assumed = evil,
                                  .notes = evil,
                                  .command = evil};

    if (run_figures(&m->conf, &m->run.out, &m->run.figures, &err) < 0 ||
        sim_page(&page, out, &err) < 0)
        stop(&err);
    return out->len;
}

static void test_bounded(void)
{
    struct buf out = BUF_INIT;
    struct made m;
    size_t size[2];

    for (size_t k = 0; k < 2; k++) {
        size_t n = k == 0 ? 10000 : 100000;
        make(&m, n);
        for (size_t i = 0; i < n; i++)
            set(&m, i, (double)i, (double)(i + i % 100),
                (double)(i + i % 100 + 10 + i % 1000));
        size[k] = page_of(&m, "", &out);
        if (k == 1) {
            ok(strstr(buf_str(&out), "The 2000 largest of 100000 bars"),
               "it says that bars are left out");
            ok(strstr(buf_str(&out),
                      "The 20 of 100 users with the most completed jobs under "
                      "the first policy."),
               "and users, by what they are chosen");
        }
        buf_clear(&out);
        clear(&m);
    }
    /* Numbers have more digits. */
    ok(size[1] < size[0] + size[0] / 8,
       "a page of ten times the jobs is as large: %zu, %zu bytes", size[0],
       size[1]);
}

/* Each text from a file, in each place where it can be. */
static void test_names(void)
{
    static const char evil[] = "</script><img src=x onerror='a()'>\"&";
    struct buf out = BUF_INIT;
    struct made m;

    make(&m, 3);
    for (size_t i = 0; i < 3; i++) {
        set(&m, i, 0, (double)i, 10);
        (void)snprintf(m.trace.jobs[i].name, SIM_NAME_CAP, "n%zu%s", i, evil);
        (void)snprintf(m.trace.jobs[i].user, SIM_USER_CAP, "u%zu%s", i, evil);
        (void)snprintf(m.trace.jobs[i].class, SIM_CLASS_CAP, "c%zu%s", i, evil);
    }
    (void)snprintf(m.trace.name, sizeof(m.trace.name), "%s", evil);
    (void)snprintf(m.cluster.text, sizeof(m.cluster.text), "%s", evil);
    (void)snprintf(m.run.label, sizeof(m.run.label), "%s", evil);
    (void)page_of(&m, evil, &out);
    const char *text = buf_str(&out);
    is_int((long long)count(text, "<img"), 0, "no element of a name");
    is_int((long long)count(text, "</script>"), 2, "no end of a script");
    is_int((long long)count(text, "<script"), 2, "and no other one");
    /* The data of the charts are JSON, in which an apostrophe is one. */
    const char *data = strstr(text, "<script type=");
    ok(data && count(text, "onerror='") == count(data, "onerror='"),
       "no attribute");
    for (int i = 0; i < 3; i++) {
        char want[3][32];
        (void)snprintf(want[0], sizeof(want[0]), ">n%d&lt;/script&gt;", i);
        (void)snprintf(want[1], sizeof(want[1]), ">u%d&lt;/script&gt;", i);
        (void)snprintf(want[2], sizeof(want[2]), ">c%d&lt;/script&gt;", i);
        ok(strstr(text, want[0]) && strstr(text, want[1]) &&
               strstr(text, want[2]),
           "job, user and class %d are text", i);
    }
    const char *assumed = strstr(text, "<h2>What is assumed</h2><p>&lt;");
    ok(assumed && assumed < strstr(text, "<h2>Figures"), "assumptions first");
    buf_clear(&out);
    clear(&m);
}

int main(void)
{
    test_queue();
    test_tail();
    test_largest();
    test_colours();
    test_bounded();
    test_names();
    return tap_done();
}
