/* show_eff.c - what a job is told about how it used what it had. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/advice/advice.h"
#include "scheduler/tools/views/show.h"
#include "tests/tap.h"

static char *shown;

static json_t *load(const char *text)
{
    json_error_t why;
    json_t *o = json_loads(text, 0, &why);
    if (!o)
        tap_diag("fixture: %s", why.text);
    return o;
}

/* Of an iteration before the fourth of its attempt. */
static double warm_up_s = 99;

/* The first attempt has one rank. */
static bool grows;

/* Of two attempts, two ranks, and eight iterations of one second each. The
 * second goes on from a checkpoint of the first. */
struct shape {
    const char *name;
    double data, copy, forward, comm[2];
    const char *state, *spec, *scaling;
    double elapsed_s, limit_s;
    const char *want[3]; /* notes; NULL: no more */
};

static json_t *iterations(const struct shape *s)
{
    json_t *rows = json_array();
    for (int k = 0; k < 2 * 8 * 2; k++) {
        int attempt = k / 16, i = k % 16 / 2, r = k % 2;
        if (grows && attempt == 0 && r > 0)
            continue;
        (void)json_array_append_new(
            rows, json_pack("[i,i,i,f,f,f,f,f]", attempt + 1,
                            1 + 6 * attempt + i, r, i < 3 ? warm_up_s : 1.0,
                            s->data, s->copy, s->forward, s->comm[r]));
    }
    return json_pack("{s:[s,s,s,s,s,s,s,s], s:o}", "columns", "attempt",
                     "iteration", "rank", "t_iter", "t_data", "t_h2d",
                     "t_forward", "t_comm", "rows", rows);
}

static void test_shape(const struct shape *s)
{
    struct error err = ERROR_INIT;
    size_t len = 0, notes = 0;
    struct show_conf conf = {.header = true, .style = {.ascii = true}};
    json_t *rows = iterations(s), *scaling = load(s->scaling);
    json_t *job = json_pack("{s:{s:s, s:i, s:f, s:f, s:o}}", "job", "state",
                            s->state, "gpus", 2, "elapsed_s", s->elapsed_s,
                            "limit_s", s->limit_s, "spec", load(s->spec));
    free(shown);
    shown = NULL;
    conf.out = open_memstream(&shown, &len);
    int rc = show_eff(&conf, job, rows, scaling, &err);
    (void)fclose(conf.out);
    is_int(rc, 0, s->name);
    for (; notes < 3 && s->want[notes]; notes++)
        if (!ok(strstr(shown, s->want[notes]) != NULL, "%s", s->want[notes]))
            tap_diag("%s", shown);
    size_t said = 0;
    for (const char *p = shown; (p = strstr(p, "\n  * ")) != NULL; p++)
        said++;
    is_int((long long)said, (long long)notes, "as many notes");
    if (notes == 0)
        ok(strstr(shown, "nothing stands out") != NULL, "and says so");
    json_decref(rows);
    json_decref(scaling);
    json_decref(job);
}

#define NO_ROWS "{\"columns\":[],\"rows\":[]}"
#define SCALING(e) \
    "{\"columns\":[\"gpus\",\"efficiency\"],\"rows\":[[1,1.0],[2," e "]]}"

static const struct shape shapes[] = {
    {"a good job",
     0.02,
     0.01,
     0.9,
     {0.05, 0.05},
     "COMPLETED",
     "{}",
     SCALING("0.9"),
     100,
     120,
     {NULL}},
    {"a slow loader",
     0.4,
     0.01,
     0.5,
     {0.05, 0.05},
     "COMPLETED",
     "{\"dataset\":{\"workers\":2},\"resources\":{\"cpus_per_gpu\":4}}",
     NO_ROWS,
     100,
     120,
     {"waited for data for 40 % of the time: raise\n    dataset.workers (2) or "
      "resources.cpus_per_gpu (4)."}},
    {"copies of pageable memory",
     0.02,
     0.22,
     0.7,
     {0.05, 0.05},
     "COMPLETED",
     "{\"train\":{\"pin_memory\":false}}",
     NO_ROWS,
     100,
     120,
     {"Copies from the host took 22 % of the time: set train.pin_memory: "
      "true"}},
    {"too many GPUs",
     0.02,
     0.01,
     0.4,
     {0.5, 0.5},
     "COMPLETED",
     "{}",
     SCALING("0.45"),
     100,
     120,
     {"Ranks waited for each other for 50 % of the time",
      "2 GPUs did the work of 0.9: see --scaling"}},
    {"a slow rank",
     0.02,
     0.01,
     0.6,
     {0.4, 0.05},
     "COMPLETED",
     "{}",
     NO_ROWS,
     100,
     120,
     {"Rank 1 needs 58 % longer than the others"}},
    {"a limit that is far away",
     0.02,
     0.01,
     0.9,
     {0.05, 0.05},
     "COMPLETED",
     "{}",
     NO_ROWS,
     1000,
     7200,
     {"used 16:40 of a time limit of 2:00:00: 25:00 would let it"}},
    {"a limit that was too near",
     0.02,
     0.01,
     0.9,
     {0.05, 0.05},
     "TIMEOUT",
     "{}",
     NO_ROWS,
     7200,
     7200,
     {"ended at its time limit of 2:00:00: raise resources.time_limit"}},
};

#define WARNED(n) \
    "{\"event\":\"warn\",\"attempt\":2,\"detail\":{\"signal\":" n "}}"
#define THEN(event, attempt) \
    ",{\"event\":\"" event "\",\"attempt\":" attempt ",\"detail\":null}"

/* Its limit was 8 s, of which it had 4 unless the limit came. */
static const struct {
    const char *name, *kind, *events, *want;
    double elapsed_s;
} warnings[] = {
    {"a program that a warning ended", "command",
     WARNED("10") THEN("expire", "2"),
     "ended at SIGUSR1, which warned of its time limit of 0:08:\n    let the "
     "program handle it, or leave out resources.warn_signal.",
     4},
    {"training that ended when told", "cv", WARNED("15") THEN("expire", "2"),
     "ended at SIGTERM, which warned of its time limit of 0:08:\n    raise "
     "resources.time_limit, or lower resources.warn_before.",
     4},
    {"training that went on after a warning", "cv",
     WARNED("10") THEN("expire", "2"), "ended at its time limit of 0:08", 4},
    {"a warning, and then the limit", "command",
     WARNED("10") THEN("limit", "2"), "ended at its time limit of 0:08", 7.9},
    {"a limit that nobody saw come", "command",
     WARNED("10") THEN("expire", "2"), "ended at its time limit of 0:08", 8.1},
    {"a warning of the attempt before", "command",
     "{\"event\":\"warn\",\"attempt\":1,\"detail\":{\"signal\":10}}" THEN(
         "expire", "2"),
     "ended at its time limit of 0:08", 4},
};

static void test_warning(size_t i)
{
    struct error err = ERROR_INIT;
    size_t len = 0;
    struct show_conf conf = {.style = {.ascii = true}};
    char events[400];
    (void)snprintf(events, sizeof(events), "[%s]", warnings[i].events);
    json_t *none = load(NO_ROWS);
    json_t *job = json_pack("{s:{s:s, s:s, s:i, s:f, s:f}, s:o}", "job",
                            "state", "TIMEOUT", "kind", warnings[i].kind,
                            "attempt", 2, "elapsed_s", warnings[i].elapsed_s,
                            "limit_s", 8.0, "events", load(events));
    free(shown);
    shown = NULL;
    conf.out = open_memstream(&shown, &len);
    is_int(show_eff(&conf, job, none, none, &err), 0, warnings[i].name);
    (void)fclose(conf.out);
    if (!ok(strstr(shown, warnings[i].want) != NULL, "%s", warnings[i].want))
        tap_diag("%s", shown);
    json_decref(job);
    json_decref(none);
}

/* Of a long job nobody would see it. */
static void test_warm_up(void)
{
    static const struct {
        double s;
        const char *want; /* NULL: nothing is said */
    } cases[] = {{99, "iterations, 98 % of the time, warm"},
                 {0.2, "iterations, 11 % of the time, warm"},
                 {0.18, NULL},
                 {0, NULL}};
    const double was = warm_up_s;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct error err = ERROR_INIT;
        size_t len = 0;
        struct show_conf conf = {.style = {.ascii = true}};
        warm_up_s = cases[i].s;
        json_t *rows = iterations(&shapes[0]), *none = load(NO_ROWS);
        json_t *job = load("{\"job\":{\"state\":\"COMPLETED\"}}"), *row = NULL;
        free(shown);
        shown = NULL;
        conf.out = open_memstream(&shown, &len);
        is_int(show_eff(&conf, job, rows, none, &err), 0, "a short job");
        (void)fclose(conf.out);
        ok(cases[i].want ? strstr(shown, cases[i].want) != NULL
                         : strstr(shown, "warm") == NULL,
           "its first iterations took %g s", cases[i].s);
        ok(strstr(shown, "nothing stands out") != NULL, "and no more");
        is_int(advice_row(job, rows, none, &row, &err), 0, "as a row");
        is_int((long long)json_array_size(json_object_get(row, "notes")), 0,
               "it is no note: nothing is to be changed");
        json_decref(row);
        json_decref(rows);
        json_decref(none);
        json_decref(job);
    }
    warm_up_s = was;
}

/* Rank 1 has reported no iteration beyond the first three yet: the two others
 * are as fast as each other. */
static void test_silent_rank(void)
{
    struct error err = ERROR_INIT;
    size_t len = 0;
    struct show_conf conf = {.style = {.ascii = true}};
    json_t *rows = json_array(), *none = load(NO_ROWS);
    json_t *job = load("{\"job\":{\"state\":\"RUNNING\",\"gpus\":3}}");
    for (int k = 0; k < 8 * 3; k++)
        if (k % 3 != 1 || k / 3 < 3)
            (void)json_array_append_new(
                rows, json_pack("[i,i,i,f]", 1, 1 + k / 3, k % 3, 1.0));
    json_t *its = json_pack("{s:[s,s,s,s], s:o}", "columns", "attempt",
                            "iteration", "rank", "t_iter", "rows", rows);
    free(shown);
    shown = NULL;
    conf.out = open_memstream(&shown, &len);
    is_int(show_eff(&conf, job, its, none, &err), 0, "a rank without a row");
    (void)fclose(conf.out);
    ok(strstr(shown, "longer than the others") == NULL, "makes no other late");
    json_decref(its);
    json_decref(none);
    json_decref(job);
}

static void test_nothing(void)
{
    struct error err = ERROR_INIT;
    size_t len = 0;
    struct show_conf conf = {.style = {.ascii = true}};
    json_t *job = load("{\"job\":{\"state\":\"QUEUED\",\"limit_s\":null}}");
    json_t *none = load(NO_ROWS);
    free(shown);
    shown = NULL;
    conf.out = open_memstream(&shown, &len);
    ok(show_eff(&conf, job, none, none, &err) == 0 &&
           show_scaling(&conf, none, &err) == 0,
       "a job that has not run");
    (void)fclose(conf.out);
    ok(strstr(shown, "no iterations recorded beyond") &&
           strstr(shown, "nothing measured yet"),
       "says so");
    json_decref(job);
    json_decref(none);
}

/* The GPUs of a command, as its worker sampled them, or that it did not. */
static void test_gpus(void)
{
    static const char unknown[] = "How busy its GPUs were is not known";
    static const struct {
        const char *kind, *native_id, *state;
        int gpus, gpus_ms;
        const char *want;
    } jobs[] = {
        {"command", "4711", "COMPLETED", 2, 0, unknown},
        {"command", "4711", "RUNNING", 2, 0, "known at the end"},
        {"command", "4711", "COMPLETED", 0, 0, NULL},
        {"command", "pid:4711", "COMPLETED", 2, 0, NULL},
        {"cv", "4711", "COMPLETED", 2, 0, NULL},
        {"command", "4711", "COMPLETED", 2, 2000,
         "GPUs busy            [########                      ]  25 %"},
        {"command", "pid:4711", "COMPLETED", 2, 2000, "  25 %"},
    };
    struct error err = ERROR_INIT;
    struct show_conf conf = {.style = {.ascii = true}};

    for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs); i++) {
        size_t len = 0;
        json_t *none = load(NO_ROWS);
        json_t *job = json_pack(
            "{s:{s:s, s:s, s:s, s:i, s:i}, s:[{s:s, s:i, s:{s:i, s:i}}]}",
            "job", "state", jobs[i].state, "kind", jobs[i].kind, "native_id",
            jobs[i].native_id, "gpus", jobs[i].gpus, "attempt", 1, "events",
            "event", "report", "attempt", 1, "detail", "gpu_busy_ms", 500,
            "gpus_ms", jobs[i].gpus_ms);
        free(shown);
        shown = NULL;
        conf.out = open_memstream(&shown, &len);
        is_int(show_eff(&conf, job, none, none, &err), 0, jobs[i].kind);
        (void)fclose(conf.out);
        if (!ok(jobs[i].want ? strstr(shown, jobs[i].want) != NULL
                             : !strstr(shown, "GPUs w"),
                "  its GPUs: %s", jobs[i].want ? jobs[i].want : "no word"))
            tap_diag("%s", shown);
        json_decref(job);
        json_decref(none);
    }
}

/* Of several jobs: a row for each, and what is not known is null. */
static void test_rows(void)
{
    struct error err = ERROR_INIT;
    size_t len = 0;
    struct show_conf conf = {.header = true, .style = {.ascii = true}};
    const struct shape *s = &shapes[0];
    json_t *its = iterations(s), *scaling = load(s->scaling);
    json_t *none = load("{\"columns\":[],\"rows\":[]}");
    json_t *job = load("{\"job\":{\"id\":7,\"display_id\":\"7\",\"name\":"
                       "\"a\\u001b\",\"user\":\"ann\",\"state\":"
                       "\"COMPLETED\",\"gpus\":2,\"elapsed_s\":60,"
                       "\"limit_s\":3600,\"spec\":{}}}");
    json_t *with = NULL, *without = NULL;
    is_int(advice_row(job, its, scaling, &with, &err), 0, "a row");
    is_int(advice_row(job, none, none, &without, &err), 0, "an empty one");
    ok(json_is_real(json_object_get(with, "waiting_for_data")), "shares");
    ok(json_is_null(json_object_get(without, "computing")), "none of nothing");
    is_str(
        json_string_value(json_array_get(json_object_get(without, "notes"), 0)),
        "It used 1:00 of a time limit of 1:00:00: 2:00 would let it start "
        "earlier where time is scarce.",
        "a note is a sentence");
    json_t *both = json_pack("{s:[O,O]}", "jobs", with, without);
    free(shown);
    shown = NULL;
    conf.out = open_memstream(&shown, &len);
    is_int(show_eff_rows(&conf, both, &err), 0, "rows");
    (void)fclose(conf.out);
    is_str(
        shown,
        "JOBID  NAME   USER  GPUS  COMP  DATA  COPY  RANKS   EFF  SOL  LIMIT  "
        "NOTES\n"
        "    7  a\\x1b  ann      2  90 %   2 %   1 %    5 %  90 %    -    2 %  "
        "    1\n"
        "    7  a\\x1b  ann      2     -     -     -      -     -    -    2 %  "
        "    1\n\n"
        "Shares of the iterations' time, without the first three: computing, "
        "waiting for\n"
        "data, copying, waiting for ranks; EFF against one GPU; SOL of the "
        "GPU's\nlimit; of the time limit. --eff JOB has the notes.\n",
        "a row each, and what is not known is -");
    json_decref(both);
    json_decref(with);
    json_decref(without);
    json_decref(job);
    json_decref(none);
    json_decref(its);
    json_decref(scaling);
}

/* A program reports how long an iteration takes, and no phases. */
static void test_unknown(void)
{
    struct error err = ERROR_INIT;
    size_t len = 0;
    struct show_conf conf = {.header = true, .style = {.ascii = true}};
    json_t *rows = json_array(), *row = NULL;
    for (int i = 1; i <= 9; i++)
        (void)json_array_append_new(rows,
                                    json_pack("[i,i,i,f,n,n]", 1, i, 0, 1.0));
    json_t *its =
        json_pack("{s:[s,s,s,s,s,s], s:o}", "columns", "attempt", "iteration",
                  "rank", "t_iter", "t_data", "t_forward", "rows", rows);
    json_t *none = load("{\"columns\":[],\"rows\":[]}");
    json_t *job =
        load("{\"job\":{\"id\":7,\"state\":\"COMPLETED\",\"gpus\":1}}");
    is_int(advice_row(job, its, none, &row, &err), 0, "without phases");
    ok(json_is_null(json_object_get(row, "computing")) &&
           json_is_null(json_object_get(row, "waiting_for_data")),
       "an unknown share is null");
    free(shown);
    shown = NULL;
    conf.out = open_memstream(&shown, &len);
    is_int(show_eff(&conf, job, its, none, &err), 0, "for people");
    (void)fclose(conf.out);
    ok(strstr(shown, " computing            -\n") != NULL &&
           strstr(shown, "0 %") == NULL,
       "and -, not 0 %%");
    json_decref(row);
    json_decref(its);
    json_decref(job);
    json_decref(none);
}

/* Bars of the fullest GPU and of the cores of the last attempt. */
static void test_used(void)
{
    static const struct {
        const char *name, *job, *want;
        double memory, cpu; /* of the row; NAN: null */
    } cases[] = {
        {"bars of what is known",
         "{\"job\":{\"attempt\":2,\"elapsed_s\":50,\"limit_s\":100},"
         "\"profile\":{\"columns\":[\"metric\",\"bytes\"],\"rows\":["
         "[\"memory of the GPU, in use\",20],"
         "[\"memory of the GPU, total\",80],"
         "[\"memory of the GPU, in use\",60],[\"host GEMM\",999]]},"
         "\"events\":[{\"event\":\"report\",\"attempt\":1,"
         "\"detail\":{\"cpu_ms\":9,\"cores_ms\":10}},"
         "{\"event\":\"report\",\"attempt\":2,"
         "\"detail\":{\"cpu_ms\":10,\"cores_ms\":40}},"
         "{\"event\":\"finish\",\"attempt\":2,\"detail\":null}]}",
         " GPU memory           [#######################       ]  75 %\n"
         " CPU                  [########                      ]  25 %\n"
         " time limit used      [###############               ]  50 %\n",
         0.75, 0.25},
        {"an earlier attempt says nothing of this one",
         "{\"job\":{\"attempt\":2},\"events\":[{\"event\":\"report\","
         "\"attempt\":1,\"detail\":{\"cpu_ms\":9,\"cores_ms\":10}}]}",
         " GPU memory           -\n CPU                  -\n"
         " time limit used      -\n",
         NAN, NAN},
        {"nor does a word without cores",
         "{\"job\":{\"attempt\":1},\"events\":[{\"event\":\"report\","
         "\"attempt\":1,\"detail\":{\"exit_code\":0}}]}",
         " GPU memory           -\n CPU                  -\n", NAN, NAN},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct error err = ERROR_INIT;
        size_t len = 0;
        struct show_conf conf = {.style = {.ascii = true}};
        json_t *job = load(cases[i].job), *none = load(NO_ROWS), *row = NULL;
        free(shown);
        shown = NULL;
        conf.out = open_memstream(&shown, &len);
        is_int(show_eff(&conf, job, none, none, &err), 0, cases[i].name);
        (void)fclose(conf.out);
        if (!ok(strstr(shown, cases[i].want) != NULL, "bars"))
            tap_diag("%s", shown);
        is_int(advice_row(job, none, none, &row, &err), 0, "a row");
        const json_t *memory = json_object_get(row, "gpu_memory");
        const json_t *cpu = json_object_get(row, "cpu");
        ok(isnan(cases[i].memory)
               ? json_is_null(memory) && json_is_null(cpu)
               : fabs(json_real_value(memory) - cases[i].memory) < 1e-9 &&
                     fabs(json_real_value(cpu) - cases[i].cpu) < 1e-9,
           "shares");
        json_decref(row);
        json_decref(job);
        json_decref(none);
    }
}

int main(void)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        test_shape(&shapes[i]);
    grows = true; /* to two ranks, which are as fast as each other */
    test_shape(&shapes[0]);
    test_shape(&shapes[4]);
    grows = false;
    for (size_t i = 0; i < sizeof(warnings) / sizeof(warnings[0]); i++)
        test_warning(i);
    test_warm_up();
    test_silent_rank();
    test_nothing();
    test_gpus();
    test_rows();
    test_unknown();
    test_used();
    free(shown);
    return tap_done();
}
