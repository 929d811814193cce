/* report.c - the papers' files, what follows from runs, and what is drawn. */
#include "scheduler/tools/export/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

static struct report r;
static char *shown;
static size_t shown_len;
static FILE *out;
static struct error err;

static json_t *load(const char *text)
{
    json_error_t why;
    json_t *o = json_loads(text, 0, &why);
    if (!o)
        tap_diag("fixture: line %d: %s", why.line, why.text);
    return o;
}

static void begin(void)
{
    free(shown);
    shown = NULL;
    out = open_memstream(&shown, &shown_len);
}

static void end(void)
{
    (void)fclose(out);
}

static bool has(const char *needle)
{
    bool yes = strstr(shown, needle) != NULL;
    if (!yes)
        tap_diag("'%s' is not in:\n%s", needle, shown);
    return yes;
}

/* ---- the files -------------------------------------------------------------
 */
static void test_papers(void)
{
    struct paper p;
    for (size_t i = 0; paper_name(i); i++) {
        int rc = paper_load(paper_name(i), &p, &err);
        ok(rc == 0, "%s can be read", paper_name(i));
        if (rc < 0) {
            tap_diag("%s", err.msg);
            continue;
        }
        char job[40];
        (void)snprintf(job, sizeof(job), "paper-%s", p.name);
        ok(p.n_keys >= 2 && p.n_rows >= 4 && p.n_like > 3 &&
               strcmp(p.job, job) == 0,
           "  it has rows and what they are compared by");
        paper_clear(&p);
    }
    is_int(paper_load("table9", &p, &err), -1, "no other");
    ok(err.code == ERR_USAGE &&
           strstr(err.msg,
                  "there are table2, table3, fig1, fig2, fig3, table5, "
                  "fig4, fig5, fig6, methods, layout. "),
       "  and which there are");
}

#define HEAD "# title: T\n# source: S\n# platform: P\n# job: j\n"

static void test_bad_papers(void)
{
    static const struct {
        const char *name, *text;
    } bad[] = {
        {"nothing", ""},
        {"no title", "# source: S\n# platform: P\n# job: j\na.b,time_s\nx,1\n"},
        {"no row", HEAD "a.b,time_s\n"},
        {"no key", HEAD "time_s\n1\n"},
        {"no time", HEAD "a.b\nx\n"},
        {"a column that is none", HEAD "a.b,time_s,more\nx,1,2\n"},
        {"a metric without a column",
         HEAD "# metric: m = x\na.b,time_s\nx,1\n"},
        {"a metric without names", HEAD "# metric: m\na.b,time_s,m\nx,1,\n"},
        {"a word that is none", HEAD "# colour: red\na.b,time_s\nx,1\n"},
        {"a comment without a word", HEAD "# colour\na.b,time_s\nx,1\n"},
        {"a like that is none", HEAD "# like: a\na.b,time_s\nx,1\n"},
        {"a row too short", HEAD "a.b,time_s\nx\n"},
        {"a row too long", HEAD "a.b,time_s\nx,1,2\n"},
        {"a number that is none", HEAD "a.b,time_s\nx,y\n"},
        {"a number below 0", HEAD "a.b,time_s\nx,-1\n"},
        {"an accuracy before the time", HEAD "a.b,accuracy,time_s\nx,1,1\n"},
        {"two accuracies", HEAD "a.b,time_s,accuracy,accuracy\nx,1,1,1\n"},
        {"an accuracy above 100 %", HEAD "a.b,time_s,accuracy\nx,1,101\n"},
        {"a row without its accuracy", HEAD "a.b,time_s,accuracy\nx,1\n"},
        {"a compare that is none", HEAD "# compare: a.b\na.b,time_s\nx,1\n"},
        {"a compare whose key is no column",
         HEAD "# compare: a.c=x\na.b,time_s\nx,1\n"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct paper p;
        ok(paper_parse("x", bad[i].text, &p, &err) < 0 &&
               err.code == ERR_INVAL && strstr(err.msg, "jobs/paper/x.csv"),
           "refused: %s", bad[i].name);
    }
}

/* ---- runs ------------------------------------------------------------------
 */
static const char paper_text[] =
    "# title: Times <of> \"all\"\n# source: S\n# platform: P\n"
    "# job: paper-x\n# like: train.epochs=20 dataset.source=mnist "
    "train.max_steps_per_epoch=null\n"
    "# note: N\n# needs: the data\n# set: a.b=/A c.d=/C\n# each: e.f=/E\n"
    "train.precision,resources.gpus,time_s\n"
    "fp64,1,1000\nfp64,2,625\nfp32,1,400\nfp32,2,\n";

static void start(const char *text)
{
    r = (struct report){.n_rows = 0};
    if (paper_parse("x", text, &r.paper, &err) < 0)
        tap_diag("%s", err.msg);
    report_begin(&r);
}

/* A job that ran for `s` seconds. */
static void add_run(const char *id, const char *state, const char *precision,
                    int gpus, int epochs, int s, const char *profile)
{
    char text[900];
    (void)snprintf(
        text, sizeof(text),
        "{\"job\":{\"display_id\":\"%s\",\"state\":\"%s\",\"gpus\":%d,"
        "\"place\":\"n1:0,1 n2:0\",\"started\":\"2026-11-21T10:00:00.000Z\","
        "\"spec\":{\"train\":{\"precision\":\"%s\",\"epochs\":%d,"
        "\"max_steps_per_epoch\":null,\"pin_memory\":true},\"dataset\":{"
        "\"source\":\"mnist\"}}},"
        "\"attempts\":[{\"claimed\":\"2026-11-21T10:00:01.500Z\","
        "\"ended\":\"2026-11-21T10:00:%02d.500Z\"},{\"claimed\":null,"
        "\"ended\":\"2026-11-21T11:00:00.000Z\"}]}",
        id, state, gpus, precision, epochs, s + 1);
    json_t *job = load(text);
    /* Epoch 2 was begun twice. */
    json_t *e = load("{\"columns\":[\"attempt\",\"epoch\",\"seconds\","
                     "\"eval_accuracy\"],\"rows\":[[1,1,2.0,0.5],"
                     "[1,2,9.0,null],[2,2,3.0,0.75]]}");
    json_t *p = profile ? load(profile) : NULL;
    const struct report_run run = {.job = job, .epochs = e, .profile = p};
    is_int(report_add_run(&r, &run, &err), 0, "a run");
    json_decref(job);
    json_decref(e);
    json_decref(p);
}

static void finish(void)
{
    json_t *nodes = load("{\"nodes\":[{\"name\":\"n1\",\"gpu_type\":\"h100\","
                         "\"gpus_total\":4},{\"name\":\"n1\",\"gpu_type\":"
                         "\"a100\",\"gpus_total\":8},"
                         "{\"name\":\"n2\",\"gpu_type\":"
                         "\"slot\",\"gpus_total\":2}]}");
    is_int(report_finish(&r, nodes, &err), 0, "finished");
    json_decref(nodes);
}

static bool near(double a, double b)
{
    bool yes = fabs(a - b) < 1e-9;
    if (!yes)
        tap_diag("%.12g is not %.12g", a, b);
    return yes;
}

static void test_runs(void)
{
    start(paper_text);
    add_run("9_1", "COMPLETED", "fp64", 2, 20, 25, NULL);
    add_run("9_0", "COMPLETED", "fp64", 1, 20, 40, NULL);
    add_run("8", "COMPLETED", "fp64", 1, 20, 10, NULL);
    add_run("7", "FAILED", "fp32", 1, 20, 10, NULL);
    add_run("6", "COMPLETED", "bf16", 1, 3, 8, NULL);
    finish();
    is_int((long long)r.n_rows, 5, "a row for what the paper has not");
    is_int((long long)r.n_runs, 3, "a run for each row, the newest");
    is_int((long long)r.n_open, 1, "what has not completed is counted");
    const struct report_row *two = &r.rows[1], *bf16 = &r.rows[4];
    is_str(r.rows[0].display_id, "9_0", "the newest run of a row counts");
    ok(near(two->time_s, 25) && near(two->train_s, 5) &&
           near(two->accuracy, 0.75),
       "seconds of the attempts, of the epochs as they ended, the last "
       "accuracy");
    ok(near(two->speedup, 1.6) && near(two->efficiency, 0.8),
       "efficiency is T1 / (N TN)");
    ok(near(two->paper_speedup, 1.6) && near(two->paper_efficiency, 0.8),
       "  the paper's, too");
    ok(two->is_like && near(two->times_paper, 25),
       "and how often ours goes into the paper's");
    ok(bf16->is_run && !bf16->is_like && isnan(bf16->times_paper) &&
           isnan(bf16->paper_s),
       "three epochs are not compared with twenty");
    is_str(buf_str(&r.differs), "train.epochs is 3, not 20", "  which is said");
    is_str(buf_str(&r.ran_on), "n1 (4 h100), n2 (2 CPU slots)",
           "what ran on what");
    ok(!r.rows[2].is_run && isnan(r.rows[3].paper_speedup),
       "what is not known stays so");
}

static void test_print(void)
{
    const struct render_style style = {.ascii = true};
    begin();
    is_int(report_show(&r, &style, true, out, &err), 0, "the table");
    end();
    ok(has("     fp64     2   25.00     5.00   75.00 %    1.60 x      80.0 %  "
           "    625    1.60 x      80.0 %     25.00 x  9_1\n"),
       "a row with both");
    ok(has("     fp32     2       -        -         -         -           -  "
           "      -         -           -           -    -\n"),
       "a row with neither");
    ok(has("not like for like: train.epochs is 3, not 20\n") &&
           has("ours:    3 runs on n1 (4 h100), n2 (2 CPU slots), 2026-11-21"),
       "what the runs are");
    ok(has("missing: 2 of 4; with the data:\n"
           "  mgpu-submit --set a.b=/A --set c.d=/C --set 'sweep={list: ["
           "{train.precision: fp32, resources.gpus: 1, e.f: /E}, "
           "{train.precision: fp32, resources.gpus: 2, e.f: /E}]}' "
           "jobs/paper/x.yaml\n"),
       "what is missing, and how to run it");
    begin();
    is_int(report_show(&r, &style, false, out, &err), 0, "no header");
    end();
    ok(!strstr(shown, "missing") && !strstr(shown, "PRECISION"), "rows only");
    begin();
    is_int(report_csv(&r, out, &err), 0, "CSV");
    end();
    ok(has("report,train.precision,resources.gpus,time_s,train_s,accuracy,") &&
           has(",times_paper,paper_accuracy,compared,paper_compared,"
               "s_per_it,paper_s_per_it,like_"),
       "names");
    ok(has("x,fp64,2,25,5,0.75,1.6,0.8,625,1.6,0.8,25,,,,,,true,9_1,\"n1:0,1 "
           "n2:0\",2026-11-21T10:00:00.000Z\n"),
       "a row, quoted where it must be");
    ok(has("x,fp32,2,,,,,,,,,,,,,,,,,,\n"), "a row of nothing");
    json_t *o = report_json(&r);
    ok(json_array_size(json_object_get(o, "rows")) == 5 &&
           strcmp(
               field_str(json_array_get(json_object_get(o, "rows"), 1), "job"),
               "9_1") == 0,
       "JSON");
    json_decref(o);
}

/* "efficiency compared to FP64" of table 2 and "to FALSE" of table 3. */
static void test_compared(void)
{
    const struct render_style style = {.ascii = true};
    start(HEAD "# compare: train.precision=fp64\n"
               "train.precision,resources.gpus,time_s,accuracy\n"
               "fp64,1,1000,99.5\nfp64,2,625,\nfp32,1,400,98\nfp32,2,,\n");
    add_run("9_0", "COMPLETED", "fp64", 1, 20, 50, NULL);
    add_run("9_1", "COMPLETED", "fp32", 1, 20, 40, NULL);
    add_run("9_2", "COMPLETED", "fp32", 2, 20, 20, NULL);
    finish();
    begin();
    is_int(report_show(&r, &style, true, out, &err), 0, "the table");
    end();
    ok(has("TEST ACC  PAPER ACC  SPEED-UP  EFFICIENCY  VS FP64  PAPER VS FP64  "
           "PAPER s"),
       "the paper's columns beside ours");
    ok(has("  75.00 %    98.00 %    1.00 x     100.0 %  125.0 %        "
           "250.0 %"),
       "the fp64 run's seconds through this one's; the paper's from its own");
    ok(has("  75.00 %          -    2.00 x     100.0 %        -              "
           "-"),
       "  none without an fp64 run on as many GPUs");
    begin();
    is_int(report_csv(&r, out, &err), 0, "CSV");
    end();
    ok(has("x,fp32,1,40,5,0.75,1,1,400,1,1,10,0.98,1.25,2.5,,,true,9_1,"),
       "  a row");
    report_clear(&r);
}

/* What the paper prints in its tables 2 and 3, by the columns of the CSV. */
static void test_tables(void)
{
    static const struct {
        const char *name, *title, *row, *compared;
    } tables[] = {
        {"table2", "VS FP64  PAPER VS FP64", "fp16,2,", "0.9794,,2.31072664,"},
        {"table3", "VS FALSE  PAPER VS FALSE", "true,1,",
         "0.9941,,1.29818555,"},
    };
    const struct render_style style = {.ascii = true};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        r = (struct report){.n_rows = 0};
        is_int(paper_load(tables[i].name, &r.paper, &err), 0, tables[i].name);
        report_begin(&r);
        finish();
        begin();
        is_int(report_show(&r, &style, true, out, &err), 0, "the table");
        end();
        ok(has("PAPER ACC") && has(tables[i].title) &&
               !strstr(shown, "per cell"),
           "it has the paper's columns");
        begin();
        is_int(report_csv(&r, out, &err), 0, "CSV");
        end();
        ok(has(tables[i].row) && has(tables[i].compared),
           "  and its accuracy and comparison in each row");
        report_clear(&r);
    }
}

/* Runs come newest first; the rows that they add do not stay so. */
static void test_order(void)
{
    static const char *const want[] = {"bf16 2", "bf16 10", "fp16 1", "fp16 3"};
    char got[40];
    start(paper_text);
    add_run("9_3", "COMPLETED", "fp16", 3, 20, 10, NULL);
    add_run("9_2", "COMPLETED", "fp16", 1, 20, 10, NULL);
    add_run("9_1", "COMPLETED", "bf16", 10, 20, 10, NULL);
    add_run("9_0", "COMPLETED", "bf16", 2, 20, 10, NULL);
    finish();
    is_str(r.rows[0].keys[0], "fp64", "the paper's rows stay first");
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        (void)snprintf(got, sizeof(got), "%s %s", r.rows[4 + i].keys[0],
                       r.rows[4 + i].keys[1]);
        is_str(got, want[i], "a row of ours, by the keys");
    }
    ok(near(r.rows[7].speedup, 1), "with its own base");
    report_clear(&r);
}

static void test_svg(void)
{
    begin();
    is_int(report_svg(&r, out, &err), 0, "a picture");
    end();
    ok(has("Times &lt;of&gt; &quot;all&quot;") && !strstr(shown, "<of>"),
       "text is escaped");
    ok(has("<path class=\"c-line c-s0\"") &&
           has("<path class=\"c-line c-s0 c-dash\"") && has(">fp64, paper<"),
       "ours and the paper's, in one colour");
    ok(has("prefers-color-scheme:dark") && !strstr(shown, "nan") &&
           !strstr(shown, "inf"),
       "light and dark, and nothing but numbers");
    report_clear(&r);
    start("# title: T\n# source: S\n# platform: P\n# job: j\n"
          "a.b,resources.gpus,time_s\nx,1,\n");
    begin();
    is_int(report_svg(&r, out, &err), 0, "nothing at all");
    end();
    ok(has("no run yet") && !strstr(shown, "nan"), "  says so");
    report_clear(&r);
}

static int count(const char *needle)
{
    int n = 0;
    for (const char *at = shown; (at = strstr(at, needle)); at++)
        n++;
    return n;
}

/* What differs little has an axis, too, and names follow each other. */
static void test_axis(void)
{
    static const struct {
        const char *slow, *fast;
        int most;
    } spans[] = {
        {"1000", "1000", 4}, {"1000", "900", 5}, {"0.5", "0.1", 12},
        {"30", "2", 6},      {"5000", "0.1", 6},
    };
    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        char text[200];
        (void)snprintf(text, sizeof(text),
                       HEAD "dataset.image_size,resources.gpus,time_s\n"
                            "100,1,%s\n100,2,%s\n200,1,%s\n",
                       spans[i].slow, spans[i].fast, spans[i].slow);
        start(text);
        begin();
        is_int(report_svg(&r, out, &err), 0, "a picture");
        end();
        int lines = count("class=\"c-grid\"");
        ok(lines >= 2 && lines <= spans[i].most,
           "%s to %s s: %d lines to read it by", spans[i].fast, spans[i].slow,
           lines);
        report_clear(&r);
    }
    ok(has(">100 px, paper<") && has(">200 px, paper<"),
       "sizes have their unit");
}

static void test_shares(void)
{
    start("# title: T\n# source: S\n# platform: P\n# job: j\n"
          "# metric: copy = CUDA memcpy | host memcpy\n# metric: nccl = nccl\n"
          "train.pin_memory,resources.gpus,time_s,copy,nccl\n"
          "false,2,,0.25,\ntrue,2,,,\n");
    add_run("3", "COMPLETED", "fp32", 2, 20, 10,
            "{\"columns\":[\"attempt\",\"rank\",\"epoch\",\"metric\","
            "\"total_s\"],\"rows\":[[1,0,1,\"CUDA memcpy Host\",1.0],"
            "[1,1,1,\"CUDA memcpy Host\",2.0],[1,0,1,\"host memcpy\",0.5],"
            "[1,0,1,\"ncclDevKernel_X\",1.0],[1,0,1,\"memory\",null],"
            "[1,0,1,\"my nccl\",9.0]]}");
    finish();
    ok(near(r.rows[1].metrics[0], 3.5 / 2 / 5) &&
           near(r.rows[1].metrics[1], 0.1),
       "shares: by the beginning of the name, a rank's, of the epochs");
    ok(near(r.rows[1].seconds[0], 3.5) && near(r.rows[1].seconds[1], 1) &&
           near(r.rows[1].profiled_s, 5),
       "  and the seconds of all ranks, beside those of the epochs");
    const struct render_style style = {.ascii = true};
    begin();
    is_int(report_show(&r, &style, true, out, &err), 0, "the table");
    end();
    ok(has("PIN_MEMORY  GPUS  TRAIN s  PROFILED s  COPY s  COPY %  NCCL s  "
           "NCCL %  PAPER COPY %  PAPER NCCL %"),
       "ours and the paper's");
    ok(has("     false     2        -           -       -       -       -  "
           "     -        25.0 %") &&
           has("      true     2     5.00        5.00    3.50  35.0 %    1.00  "
               "10.0 %             -"),
       "in their rows");
    begin();
    is_int(report_csv(&r, out, &err), 0, "CSV");
    end();
    ok(has(",profiled_s,copy_s,copy,paper_copy,nccl_s,nccl,paper_nccl,like_") &&
           has(",5,3.5,0.35,,1,0.1,,"),
       "  seconds, shares, and the paper's shares");
    json_t *o = report_json(&r);
    const json_t *row = json_array_get(json_object_get(o, "rows"), 1);
    ok(near(json_number_value(
                json_object_get(json_object_get(row, "seconds"), "copy")),
            3.5) &&
           near(json_number_value(
                    json_object_get(json_object_get(row, "shares"), "copy")),
                0.35),
       "  JSON");
    json_decref(o);
    begin();
    is_int(report_svg(&r, out, &err), 0, "bars");
    end();
    ok(has("35 %") && has("no run yet") && !strstr(shown, "nan"),
       "one with its shares, one without a run");
    report_clear(&r);
}

/* train.profile_first: each attempt has a first part of its own, whose seconds
 * are not those of the other. */
static void test_first_part(void)
{
    start(HEAD "# metric: copy = CUDA memcpy\n"
               "train.pin_memory,resources.gpus,time_s,copy\n"
               "true,2,,\n");
    add_run("3", "COMPLETED", "fp32", 2, 20, 10,
            "{\"columns\":[\"attempt\",\"rank\",\"epoch\",\"metric\","
            "\"total_s\"],\"rows\":["
            "[1,0,1,\"CUDA memcpy\",0.5],[1,0,1,\"profiled part\",1.0],"
            "[1,1,1,\"CUDA memcpy\",0.5],[1,1,1,\"profiled part\",1.0],"
            "[2,0,1,\"CUDA memcpy\",0.25],[2,0,1,\"profiled part\",1.5],"
            "[2,1,1,\"CUDA memcpy\",0.5],[2,1,1,\"profiled part\",1.5],"
            "[2,0,2,\"CUDA memcpy\",0.25],[2,0,2,\"profiled part\",0.5],"
            "[2,1,2,\"profiled part\",0.5]]}");
    finish();
    ok(near(r.rows[0].profiled_s, 2) && near(r.rows[0].seconds[0], 1) &&
           near(r.rows[0].metrics[0], 0.25),
       "of two attempts, the one that was profiled longer");
    report_clear(&r);
}

static void test_time(void)
{
    ok(near(report_time("1970-01-02T00:00:01.250Z"), 86401.25), "a time");
    ok(isnan(report_time("")) && isnan(report_time("1970-01-02")) &&
           isnan(report_time("1970-01-02T00:00:01+01:00")),
       "and what is none");
}

int main(void)
{
    test_papers();
    test_bad_papers();
    test_runs();
    test_print();
    test_svg();
    test_axis();
    test_shares();
    test_first_part();
    test_compared();
    test_tables();
    test_order();
    test_time();
    free(shown);
    return tap_done();
}
