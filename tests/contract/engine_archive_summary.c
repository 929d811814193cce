/* engine_archive_summary.c - what a list reads of an archived job is what its
 * events say, however it ended. */
#include "scheduler/engine/run.h"
#include "scheduler/engine/store/archive.h"
#include "tests/contract/engine_play.h"

enum { JOBS = 12 };
static const struct world_script script = {
    .nodes = 2,
    .gpus_per_node = 4,
    .node_lost_s = 10, /* so they beat */
    .gives_up = true,
    .jobs = {{.gpus = 1},
             {.gpus = 1,
              .spec_more = "},\"retry\":{\"max\":0}}",
              .attempts = {{.run_s = 5, .exit_code = 3, .why = "\"x\" \\ y"}}},
             {.gpus = 2,
              .spec_more = "},\"retry\":{\"max\":0}}",
              .attempts = {{.run_s = 5, .signal = 9}}},
             {.gpus = 1,
              .spec_more = ",\"time_limit\":\"20s\"},\"retry\":{\"max\":0}}",
              .attempts = {{.run_s = 60, .ended_by = ALLOC_BY_LIMIT}}},
             {.gpus = 1,
              .spec_more = "},\"retry\":{\"max\":0}}",
              .attempts = {{.run_s = 5, .lose = 1}}},
             {.gpus = 4, .attempts = {{.run_s = 30}}},
             {.gpus = 1, .attempts = {{.run_s = 90}}},
             {.gpus = 1,
              .spec_more = "},\"retry\":{\"max\":3,\"backoff\":\"100s\"}}",
              .attempts = {{.run_s = 5, .signal = 9}, {.run_s = 90}}},
             {.gpus = 1, .attempts = {{.run_s = 5, .lose = 1}, {.run_s = 5}}},
             {.gpus = 1, .after = "afterok", .after_job = 1},
             {.gpus = 1,
              .spec_more = "},\"policy\":{\"priority\":\"high\"}}",
              .attempts = {{.run_s = 5, .refuse = 1}}},
             {.gpus = 0, .attempts = {{.run_s = 5, .no_figures = 1}}}},
    .n_acts = JOBS + 3,
    .acts = {{.at_s = 0, .job = 0},
             {.at_s = 0, .job = 1},
             {.at_s = 0, .job = 2},
             {.at_s = 0, .job = 3},
             {.at_s = 0, .job = 4},
             {.at_s = 0, .job = 5, .hold = true},
             {.at_s = 0, .job = 6},
             {.at_s = 0, .job = 7},
             {.at_s = 0, .job = 8},
             {.at_s = 0, .job = 9},
             {.at_s = 0, .job = 10},
             {.at_s = 0, .job = 11},
             {.at_s = 20, .verb = W_CANCEL, .job = 5},
             {.at_s = 20, .verb = W_CANCEL, .job = 6, .uid = -1},
             {.at_s = 60, .verb = W_CANCEL, .job = 7}},
};

static struct error err;

static void submit_sweep(const char *vary0, const char *vary1)
{
    static const char spec[] =
        "{\"name\":\"s\",\"kind\":\"command\",\"command\":[\"a\"]}";
    const struct engine_task tasks[] = {{spec, vary0, NULL},
                                        {spec, vary1, NULL}};
    struct engine_submit req = {.uid = 1000, .user = "anna", .key = vary0};
    struct engine_sweep two = {.tasks = tasks, .n = 2};
    uint64_t id = 0;
    if (engine_submit_sweep(w.engine, &req, &two, &id, NULL, &err) < 0 ||
        engine_cancel_sweep(w.engine, id, 1000, &err) < 0)
        tap_diag("%s", err.msg);
}

static void end_a_run(void)
{
    const struct engine_run run = {.uid = 1000,
                                   .user = "anna",
                                   .key = "run",
                                   .digest = "d",
                                   .name = "r",
                                   .spec = "{\"kind\":\"run\"}",
                                   .holder = "h 1"};
    uint64_t id = 0;
    bool again;
    if (engine_run_open(w.engine, &run, &id, &again, &err) < 0 ||
        engine_run_finish(w.engine, id, 1000, 3, "why", &err) < 0)
        tap_diag("%s", err.msg);
}

static bool is_near(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a >= b && a <= b);
}

/* All that archive.h says of a line. */
static bool is_same(const struct job *a, const struct job *b)
{
    return a->id == b->id && a->state == b->state && a->uid == b->uid &&
           strcmp(a->name, b->name) == 0 && strcmp(a->user, b->user) == 0 &&
           strcmp(a->kind, b->kind) == 0 && a->is_run == b->is_run &&
           strcmp(a->reason, b->reason) == 0 && a->reported == b->reported &&
           strcmp(a->place, b->place) == 0 && a->priority == b->priority &&
           a->gpus_min == b->gpus_min && a->gpus_max == b->gpus_max &&
           a->gpus == b->gpus && a->attempt == b->attempt &&
           a->exit_code == b->exit_code && a->sweep == b->sweep &&
           a->task == b->task && a->number == b->number &&
           is_near(a->limit_s, b->limit_s) &&
           is_near(a->submit_s, b->submit_s) &&
           is_near(a->start_s, b->start_s) && is_near(a->end_s, b->end_s) &&
           a->iteration == b->iteration &&
           a->iterations_total == b->iterations_total && a->epoch == b->epoch &&
           a->epochs_total == b->epochs_total && is_near(a->loss, b->loss) &&
           is_near(a->t_iter, b->t_iter) &&
           is_near(a->eval_loss, b->eval_loss) &&
           is_near(a->eval_accuracy, b->eval_accuracy);
}

/* Those of the archive, of which there are n. */
static int n_same(uint64_t last, int *ret_lines, uint32_t *ret_states)
{
    struct job *lines[64] = {NULL}, *read[64];
    struct error damage;
    int n = 0;
    *ret_lines = 0;
    *ret_states = 0;
    if (engine_archive_lines(w.store, 1, last, lines, &err) < 0 ||
        engine_archive_read(w.store, w.conf.jobs_dir, 1, last, read, &damage,
                            &err) < 0)
        return -1;
    for (uint64_t i = 0; i < last; i++) {
        if (!lines[i])
            continue;
        ++*ret_lines;
        *ret_states |= 1u << lines[i]->state;
        bool is = read[i] && is_same(lines[i], read[i]);
        n += is;
        if (!is)
            tap_diag("job %d: %s, %s", (int)i + 1, lines[i]->reason,
                     read[i] ? read[i]->reason : "none");
    }
    engine_archive_free(lines, last);
    engine_archive_free(read, last);
    return n;
}

static void test_all(void)
{
    int n_lines = 0;
    uint32_t states = 0;

    world_init(&w, &script);
    ok(world_start(&w), "---- jobs that end in all ways");
    play(INFINITY);
    end_a_run();
    submit_sweep("{\"env.I\":\"0\"}", "{\"env.I\":\"1\"}");
    submit_sweep("{\"array\":\"7\"}", "{\"array\":\"12\"}");
    const struct job *j = engine_job(w.engine, 8);
    ok(j && j->state == JOB_CANCELLED && j->attempt == 1 && j->iteration > 0,
       "one beat, and ended without a word of it");
    play(INFINITY);
    w.conf.max_ended = 1;
    for (int i = 0; i < 20; i++) {
        (void)world_step(&w);
        w.clock.t_s += 1;
    }
    ok(n_same(JOBS + 5, &n_lines, &states) == n_lines, "the same of each");
    is_int(n_lines, JOBS + 5, "  of all");
    ok(states & 1u << JOB_COMPLETED && states & 1u << JOB_FAILED &&
           states & 1u << JOB_CANCELLED && states & 1u << JOB_TIMEOUT &&
           states & 1u << JOB_NODE_FAIL,
       "  in all states");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

/* Written by somebody else, or by nobody: then it is read from its events. */
static void test_strange(void)
{
    static const char *const texts[] = {
        "{\"state\":\"COMPLETED\",\"uid\":7,\"exit_code\":0}",
        "{\"exit_code\":0,\"uid\":7,\"state\":\"COMPLETED\"}",
        "{ \"state\": \"COMPLETED\", \"exit_code\": 0 , \"uid\":7}",
        "",
        "[]",
        "{\"uid\":7}",
        "{\"state\":\"RUNNING\"}",
        "{\"state\":\"FAILED\",\"gpus\":\"1\"}",
        "{\"state\":\"FAILED\",\"gpus\":3000000000}",
        "{\"state\":\"FAILED\",\"kind\":\"other\"}",
        "{\"state\":\"FAILED\",\"kind\":\"runs\"}",
        "{\"state\":\"FAILED\",\"reported\":false}"};
    enum { N = sizeof(texts) / sizeof(texts[0]), GOOD = 3 };
    struct store_archived a[N];
    struct job *lines[N] = {NULL};
    struct store_batch b = {.archived = a, .n_archived = N};

    world_init(&w, &script);
    ok(world_start(&w), "---- lines that are none");
    for (uint64_t i = 0; i < N; i++)
        a[i] = (struct store_archived){.job = i + 1,
                                       .state = JOB_COMPLETED,
                                       .line = *texts[i] ? texts[i] : NULL};
    ok(w.store->ops->append(w.store, &b, &err) == 0, "are written");
    for (int round = 0; round < 2; round++) {
        struct job *first = lines[0];
        lines[0] = lines[GOOD]; /* NULL; that one has no line at all */
        lines[GOOD] = first;
        ok(engine_archive_lines(w.store, 1, N, lines, &err) == 0, "are read%s",
           round ? " into used memory" : "");
        for (int i = 0; i < GOOD; i++)
            ok(lines[i] && lines[i]->state == JOB_COMPLETED &&
                   lines[i]->uid == 7 && lines[i]->exit_code == 0 &&
                   lines[i]->id == (uint64_t)i + 1 &&
                   isinf(lines[i]->limit_s) &&
                   strcmp(lines[i]->kind, "cv") == 0 && isnan(lines[i]->loss),
               "%s", texts[i]);
        for (int i = GOOD; i < N; i++)
            ok(!lines[i], "not '%.60s'", texts[i]);
    }
    engine_archive_free(lines, N);
    world_clear(&w);
}

/* As long as a name may be, and one longer. */
static void test_long(void)
{
    char fits[200], longer[200];
    struct store_archived a[] = {
        {.job = 1, .state = JOB_FAILED, .line = fits},
        {.job = 2, .state = JOB_FAILED, .line = longer}};
    struct store_batch b = {.archived = a, .n_archived = 2};
    struct job *lines[2] = {NULL};

    world_init(&w, &script);
    (void)snprintf(fits, sizeof(fits),
                   "{\"state\":\"FAILED\",\"name\":\"%0*d\"}", JOB_NAME_CAP - 1,
                   0);
    (void)snprintf(longer, sizeof(longer),
                   "{\"state\":\"FAILED\",\"name\":\"%0*d\"}", JOB_NAME_CAP, 0);
    ok(world_start(&w) && w.store->ops->append(w.store, &b, &err) == 0 &&
           engine_archive_lines(w.store, 1, 2, lines, &err) == 0,
       "---- long names");
    ok(lines[0] && strlen(lines[0]->name) == JOB_NAME_CAP - 1, "the longest");
    ok(!lines[1], "and not one that is longer");
    engine_archive_free(lines, 2);
    world_clear(&w);
}

int main(void)
{
    test_all();
    test_strange();
    test_long();
    return tap_done();
}
