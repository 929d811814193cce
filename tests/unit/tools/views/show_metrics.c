/* show_metrics.c - curves and phases of a job, from replies as the daemon sends
 * them. */
#include "scheduler/tools/views/show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"
#include "tests/unit/tools/views/shown.h"

/* Two ranks, two iterations. Of 10 + 20 + 10 + 20 ms the forward passes take
 * 30, waiting 6; what no phase names is the rest: 24 = 40 %. */
static const char rows_text[] =
    "{\"columns\":[\"attempt\",\"rank\",\"iteration\",\"t_iter\",\"t_data\","
    "\"t_h2d\",\"t_forward\",\"t_backward\",\"t_comm\",\"t_optimizer\","
    "\"loss\",\"lr\",\"samples\"],\"rows\":["
    "[1,0,1,0.010,0,0,0.005,0,0.001,0,2.5,0.1,32],"
    "[1,1,1,0.010,0,0,0.005,0,0.001,0,2.4,0.1,32],"
    "[1,0,2,0.020,0,0,0.010,0,0.002,0,0.5,0.1,32],"
    "[1,1,2,0.020,0,0,0.010,0,0.002,0,null,0.1,32]]}";

/* A loss that is no number is null. */
static void test_diverged(void)
{
    json_t *o =
        load("{\"columns\":[\"rank\",\"iteration\",\"t_iter\",\"loss\"],"
             "\"rows\":[[0,1,0.5,2.5],[0,2,0.5,null],[0,3,0.5,null]]}");
    json_t *all =
        load("{\"columns\":[\"rank\",\"iteration\",\"t_iter\",\"loss\"],"
             "\"rows\":[[0,1,0.5,null]]}");
    struct error err = ERROR_INIT;
    begin();
    is_int(show_metrics(&conf, o, NULL, &err), 0, "a loss that is no number");
    (void)end();
    ok(has("loss          2.5  _  -         lowest 2.5\n"), "is no last one");
    ok(has("not a number in 2 of 3 iterations\n"), "and is told of");
    ok(!has(" lr "), "what is recorded of none is not");
    begin();
    is_int(show_metrics(&conf, all, NULL, &err), 0, "from the first on");
    (void)end();
    ok(has(" loss            -  not a number in 1 of 1 iterations\n"), "too");
    json_decref(o);
    json_decref(all);
}

static void test_metrics(void)
{
    json_t *o = load(rows_text);
    json_t *v = load("{\"columns\":[\"attempt\",\"rank\",\"iteration\","
                     "\"name\",\"value\"],\"rows\":[[1,0,7,\"bleu\",31.5],"
                     "[1,0,8,\"bleu\",33],[1,1,8,\"bleu\",99],"
                     "[1,0,null,\"wer\",0.5]]}");
    json_t *none = load("{\"columns\":[\"rank\"],\"rows\":[]}");
    struct error err = ERROR_INIT;
    begin();
    struct metric_set own = {.n = 0};
    is_int(metric_set_take(&own, v, 4, &err), 0, "values of its own");
    is_int(show_metrics(&conf, o, &own, &err), 0, "metrics");
    metric_set_clear(&own);
    (void)end();
    ok(has("forward          7.5 ms   7.5 ms  10.0 ms   50.0 %"),
       "a phase: mean, median, p99, share");
    ok(has("communication    1.5 ms") && has("10.0 %"), "waiting is a phase");
    ok(has("other            6.0 ms") && has("40.0 %"),
       "the rest is named, not hidden");
    ok(has("iteration       15.0 ms  15.0 ms  20.0 ms  100.0 %"), "the whole");
    ok(has("loss          2.5  #_  0.5"), "rank 0's course of the loss");
    ok(has("rank 1    2 iterations of 15.0 ms, 10.0 % of it waiting for the "
           "others, 2133 samples/s"),
       "each rank");
    ok(has("together  4267 samples/s"), "all ranks");
    ok(has(" bleu         31.5  _#  33        lowest 31.5  highest 33\n"),
       "a metric of the job's own is one line, of its first rank");
    ok(has(" wer           0.5  _  0.5       lowest 0.5  highest 0.5\n"),
       "also one without an iteration");
    ok(!strstr(shown, "highest 99") && !strstr(shown, "nan"),
       "and nothing else");
    test_diverged();
    begin();
    is_int(show_metrics(&conf, none, NULL, &err), 0, "no rows");
    (void)end();
    ok(has("no iterations recorded yet"), "says that there are none");
    (void)json_object_set_new(none, "rows_removed", json_true());
    (void)json_object_set_new(o, "rows_removed", json_true());
    begin();
    is_int(show_metrics(&conf, none, NULL, &err), 0, "rows that were removed");
    (void)end();
    ok(has("its rows were removed") && !has("recorded yet"), "it says so");
    begin();
    is_int(show_metrics(&conf, o, NULL, &err), 0, "and of some");
    (void)end();
    ok(has("its rows are being removed") && has("together  4267"), "too");
    begin();
    is_int(show_epochs(&conf, none, &err), 0, "of epochs");
    (void)end();
    ok(has("its rows were removed"), "it is said");
    begin();
    is_int(show_profile(&conf, none, NULL, &err), 0, "of a profile");
    (void)end();
    ok(has("its rows were removed") && !has("it needs train.profile"),
       "it is said, too");
    json_decref(o);
    json_decref(v);
    json_decref(none);
}

/* A program that reports neither times nor phases. */
static void test_no_times(void)
{
    json_t *o = load(
        "{\"columns\":[\"rank\",\"iteration\",\"t_iter\",\"t_data\",\"loss\"],"
        "\"rows\":[[0,1,null,null,2.5],[0,2,null,null,2]]}");
    json_t *timed = load(
        "{\"columns\":[\"rank\",\"iteration\",\"t_iter\",\"t_data\",\"loss\"],"
        "\"rows\":[[0,1,0.5,null,2.5],[0,2,0.5,null,2]]}");
    struct error err = ERROR_INIT;
    begin();
    is_int(show_metrics(&conf, o, NULL, &err), 0, "no times");
    (void)end();
    ok(has(" loss ") && !strstr(shown, "PHASE"), "have no table of phases");
    begin();
    is_int(show_metrics(&conf, timed, NULL, &err), 0, "no phases");
    (void)end();
    ok(has("data                   -") && !strstr(shown, "other"),
       "an unknown phase is no zero, and the rest is not 'other'");
    json_decref(o);
    json_decref(timed);
}

/* 20,000 iterations with three metrics are three lines; a retry replaces what
 * it repeats. */
static void test_many(void)
{
    struct metric_set own = {.n = 0};
    struct error err = ERROR_INIT;
    static const char *const names[] = {"gnorm", "acc", "gpu_util"};
    int bad = 0;
    for (int i = 1; i <= 20000; i++)
        for (int k = 0; k < 3; k++)
            bad |= metric_set_add(&own, names[k], 0, i, i, &err);
    bad |= metric_set_add(&own, "acc", 0, 101, 7, &err);
    is_int(bad, 0, "many values");
    is_int((long long)own.n, 3, "three curves");
    const struct metric_curve *acc = metric_set_find(&own, "acc");
    ok(acc && acc->n == 101 && acc->y[100] == 7 && acc->y[99] == 100,
       "what the retry has not reached is gone");
    ok(!metric_set_find(&own, "ac"), "no such name");
    json_t *none = load("{\"columns\":[],\"rows\":[]}");
    begin();
    is_int(show_metrics(&conf, none, &own, &err), 0, "without iterations");
    (void)end();
    int lines = 0;
    for (const char *p = shown; (p = strchr(p, '\n')) != NULL; p++)
        lines++;
    is_int(lines, 3, "a line each");
    ok(has("gpu_util") && !strstr(shown, "recorded yet"), "and nothing else");
    json_decref(none);
    metric_set_clear(&own);
}

int main(void)
{
    test_metrics();
    test_no_times();
    test_many();
    free(shown);
    return tap_done();
}
