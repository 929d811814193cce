/* engine_sweep.c - several jobs as one request: all or none, one key, the two
 * rules between them, and that a crash at any store call changes nothing. */
#include "tests/contract/engine_world.h"

enum { TASKS = 6 };

static const struct world_script script = {
    .nodes = 1,
    .gpus_per_node = 4,
    .policy = &policy_backfill,
    .grant_delay_s = 0.5,
    .jobs = {{.attempts = {{.run_s = 10}}},
             {.attempts = {{.run_s = 12}}},
             {.attempts = {{.run_s = 5, .exit_code = 3}}},
             {.attempts = {{.run_s = 30}}},
             {.attempts = {{.run_s = 5}}},
             {.attempts = {{.run_s = 5}}}},
};

static struct world w;
static struct error err;
static char specs[TASKS][200], varies[TASKS][40];
static struct engine_task tasks[TASKS];

/* Of one GPU each. */
static struct engine_sweep make_sweep(size_t n, int32_t max_parallel, bool stop)
{
    for (size_t i = 0; i < n && i < TASKS; i++) {
        (void)snprintf(specs[i], sizeof(specs[i]),
                       "{\"version\":1,\"name\":\"j\",\"kind\":\"command\","
                       "\"command\":[\"true\"],\"retry\":{\"max\":0},"
                       "\"env\":{\"I\":\"%zu\"},\"resources\":{\"gpus\":1}}",
                       i);
        (void)snprintf(varies[i], sizeof(varies[i]), "{\"env.I\":\"%zu\"}", i);
        tasks[i] = (struct engine_task){.spec = specs[i], .vary = varies[i]};
    }
    return (struct engine_sweep){.tasks = tasks,
                                 .n = n,
                                 .max_parallel = max_parallel,
                                 .stop_on_fail = stop};
}

static int submit(const struct engine_sweep *sweep, bool hold, uint64_t *ret_id,
                  bool *ret_again)
{
    struct engine_submit req = {
        .uid = 1000, .user = "anna", .key = "k0", .hold = hold};
    return engine_submit_sweep(w.engine, &req, sweep, ret_id, ret_again, &err);
}

static void begin(const char *what)
{
    world_init(&w, &script);
    ok(world_start(&w), "---- %s", what);
}

static int count_jobs(void)
{
    int n = 0;
    for (const struct job *j = engine_next_job(w.engine, 0); j;
         j = engine_next_job(w.engine, j->id))
        n++;
    return n;
}

static int count_live(void)
{
    int n = 0;
    for (const struct job *j = engine_next_job(w.engine, 0); j;
         j = engine_next_job(w.engine, j->id))
        n += job_state_is_live(j->state);
    return n;
}

/* To the end, or the death of the store. Returns the most that were live. */
static int play(bool *ret_died)
{
    int most = 0;
    *ret_died = false;
    for (int i = 0; i < 2000; i++) {
        if (world_step(&w) < 0 && w.fault.n > 0) {
            *ret_died = true;
            return most;
        }
        int live = count_live();
        most = live > most ? live : most;
        if (world_is_over(&w))
            return most;
        world_advance(&w);
    }
    world_bad(&w, "it does not end", 0);
    return most;
}

/* "COMPLETED/0 FAILED/3": the tasks in their order. */
static const char *states(uint64_t sweep)
{
    static char text[TASKS * 40];
    size_t len = 0;
    text[0] = '\0';
    const struct job *j = NULL;
    for (uint64_t i = 0; (j = engine_task(w.engine, sweep, i)) != NULL; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s/%d",
                                i > 0 ? " " : "", job_state_name(j->state),
                                j->exit_code);
    return text;
}

/* Numbers with gaps: what people call a task is not where it stands. */
static void test_numbers(void)
{
    static const int numbers[] = {1, 3, 8};
    struct engine_sweep s = make_sweep(3, 0, true);
    uint64_t id = 0;
    bool again, died;

    begin("an array");
    for (size_t i = 0; i < s.n; i++)
        (void)snprintf(varies[i], sizeof(varies[i]), "{\"array\":\"%d\"}",
                       numbers[i]);
    is_int(submit(&s, true, &id, &again), 0, "three jobs");
    is_int(world_step(&w), 0, "  are on disk");
    for (int life = 0; life < 2; life++) {
        const struct job *j = engine_task(w.engine, 1, 8);
        ok(j && j->id == 3 && j->task == 2 && j->number == 8,
           "8 is the third, in life %d", life);
        j = engine_task(w.engine, 1, 3);
        ok(j && j->id == 2, "3 is the second");
        ok(!engine_task(w.engine, 1, 0) && !engine_task(w.engine, 1, 2) &&
               !engine_task(w.engine, 1, 9),
           "there are no others");
        ok(engine_sweep(w.engine, 1) && !engine_sweep(w.engine, 2),
           "the first is the sweep's");
        if (life == 0)
            world_die(&w);
    }
    is_int(engine_hold_sweep(w.engine, 1, 1000, false, &err), 0,
           "one release of all");
    (void)play(&died);
    is_int(engine_job(w.engine, 3)->state, JOB_FAILED, "the third fails");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

static void test_submit(void)
{
    struct engine_sweep s = make_sweep(TASKS, 0, false);
    uint64_t id = 0, other = 0;
    bool again = true, died;

    begin("a sweep");
    is_int(submit(&s, false, &id, &again), 0, "six jobs");
    ok(id == 1 && !again && count_jobs() == TASKS, "  are there");
    is_int(submit(&s, false, &other, &again), 0, "the same key");
    ok(other == 1 && again && count_jobs() == TASKS, "  is the same sweep");
    const struct job *j = engine_task(w.engine, 1, 4);
    ok(j && j->id == 5 && j->sweep == 1 && j->task == 4 && j->n_tasks == TASKS,
       "task 4 is job 5");
    is_str(j ? j->vary : NULL, "{\"env.I\":\"4\"}", "  with what it varies");
    ok(!engine_task(w.engine, 1, TASKS) && !engine_task(w.engine, 2, 0) &&
           !engine_task(w.engine, 99, 0),
       "there is no other task");
    is_int(play(&died), 4, "as many as fit run at a time");
    is_str(states(1),
           "COMPLETED/0 COMPLETED/0 FAILED/3 COMPLETED/0 COMPLETED/0 "
           "COMPLETED/0",
           "and one that fails stops nobody");
    world_die(&w);
    j = engine_task(w.engine, 1, 4);
    ok(j && j->id == 5 && j->sweep == 1 && j->n_tasks == TASKS &&
           strcmp(j->vary, "{\"env.I\":\"4\"}") == 0,
       "a replay gives the same");
    is_int(submit(&s, false, &other, &again), 0, "the key after it");
    ok(other == 1 && again, "  is known");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

/* What another thread has read is as what the engine reads itself. */
static void test_read(void)
{
    struct engine_sweep s = make_sweep(2, 0, false);
    struct engine_submit req = {.uid = 1000, .user = "anna", .key = "k1"};
    uint64_t id = 0, other = 77;

    begin("tasks that were read before");
    for (size_t i = 0; i < s.n; i++) {
        ok(engine_read(specs[i], NULL, &tasks[i].read, &err) == 0, "read");
        tasks[i].spec = NULL;
    }
    w.conf.kill_grace_s = 7; /* since */
    is_int(submit(&s, false, &id, NULL), 0, "  and submitted");
    const struct job *j = engine_task(w.engine, 1, 1);
    ok(j && strstr(j->spec, "\"I\":\"1\"") && j->grace_s > 6.9,
       "with the configuration of now");
    ok(engine_submit_sweep(w.engine, &req, &s, &other, NULL, &err) < 0 &&
           err.code == ERR_INVAL && other == 77 && count_jobs() == 2,
       "a reading is good once: %s", err.msg);
    for (size_t i = 0; i < s.n; i++)
        engine_read_destroy(tasks[i].read);
    struct engine_read *bad = NULL;
    ok(engine_read("kind: comand\n", NULL, &bad, &err) < 0 && !bad &&
           err.code == ERR_INVAL,
       "what is not valid is no reading");
    world_clear(&w);
}

/* What must be the same of a job that was drafted, one that was not, and either
 * after a replay: each line names one of them. */
static void tell(const struct job *j, char ret[1024])
{
    (void)snprintf(ret, 1024,
                   "%" PRIu64 " of %" PRIu64 " %d/%d n%d p%d s%d %s %s %s %s "
                   "%.1f %.1f %.1f %s %s %d %s %s",
                   j->id, j->sweep, (int)j->task, (int)j->n_tasks,
                   (int)j->number, (int)j->max_parallel, j->stop_on_fail,
                   j->vary, j->key, j->dir, j->digest, j->grace_s, j->begin_s,
                   j->submit_s, j->user, j->name, (int)j->uid,
                   job_state_name(j->state), j->spec);
}

static void draft(struct engine_sweep *s, const struct engine_submit *req)
{
    for (size_t i = 0; i < s->n; i++) {
        ok(engine_read(specs[i], NULL, &tasks[i].read, &err) == 0, "read");
        tasks[i].spec = NULL;
    }
    is_int(engine_draft(req, s, w.conf.kill_grace_s,
                        w.clock.base.wall_s(&w.clock.base), &err),
           0, "drafted");
}

static void undraft(struct engine_sweep *s)
{
    for (size_t i = 0; i < s->n; i++) {
        engine_read_destroy(tasks[i].read);
        tasks[i].read = NULL;
    }
}

/* Texts that look like what is looked for, and a time that counts from now. */
static struct engine_sweep make_odd(void)
{
    struct engine_sweep s = make_sweep(3, 2, true);

    for (size_t i = 0; i < s.n; i++) {
        (void)snprintf(specs[i], sizeof(specs[i]),
                       "{\"kind\":\"command\",\"command\":[\"true\"],"
                       "\"env\":{\"sweep\":\"{\\\"id\\\":%zu\"},"
                       "\"policy\":{\"begin\":\"+1h\"}}",
                       i);
        (void)snprintf(varies[i], sizeof(varies[i]), "{\"sweep\":\"id:%zu\"}",
                       i);
    }
    return s;
}

/* What another thread has written is as what the engine writes itself: in
 * memory, and read back. */
static void test_draft(void)
{
    struct engine_submit req = {
        .uid = 1000, .user = "anna", .key = "k0", .digest = "d", .hold = true};
    char is[3][1024], plain[3][1024], text[1024];
    struct engine_sweep s;
    uint64_t id = 0, one = 0;

    for (int drafted = 0; drafted < 2; drafted++) {
        begin(drafted ? "drafted" : "not drafted");
        w.conf.user_jobs_dir = "/home/%u/\"jobs\"";
        req.read = NULL;
        req.spec = "{\"kind\":\"command\",\"command\":[\"a\"]}";
        req.key = "k1";
        is_int(engine_submit(w.engine, &req, &one, NULL, &err), 0,
               "one before it");
        req.key = "k0";
        s = make_odd();
        if (drafted)
            draft(&s, &req);
        ok(engine_submit_sweep(w.engine, &req, &s, &id, NULL, &err) == 0,
           "submitted: %s", err.msg);
        undraft(&s);
        for (uint64_t i = 0; i < s.n; i++)
            tell(engine_job(w.engine, id + i), is[i]);
        w.conf.user_jobs_dir = NULL;
        ok(engine_step(w.engine, &err) == 0, "stored");
        world_die(&w);
        for (uint64_t i = 0; i < s.n; i++) {
            tell(engine_job(w.engine, id + i), text);
            is_str(text, is[i], "a replay says the same");
            if (drafted)
                is_str(text, plain[i], "and so it does undrafted");
            memcpy(plain[i], text, sizeof(text));
        }
        is_int(w.n_bad, 0, "nothing was odd");
        world_clear(&w);
    }
}

/* A draft of a submit is none of another. */
static void test_draft_of_another(void)
{
    struct engine_submit req = {.uid = 1000, .user = "anna", .key = "k0"};
    struct engine_sweep s = make_sweep(2, 0, false);
    uint64_t id = 77;

    begin("drafts of another");
    draft(&s, &req);
    is_int(engine_draft(&req, &s, 1, 1, &err), -1, "once is enough");
    req.key = "k1";
    is_int(engine_submit_sweep(w.engine, &req, &s, &id, NULL, &err), -1,
           "not under another key");
    undraft(&s);
    s = make_sweep(2, 0, false);
    draft(&s, &req);
    s.n = 1;
    is_int(engine_submit_sweep(w.engine, &req, &s, &id, NULL, &err), -1,
           "nor without one of them");
    s.n = 2;
    undraft(&s);
    s = make_sweep(2, 0, false);
    draft(&s, &req);
    req.uid = 0;
    is_int(engine_submit_sweep(w.engine, &req, &s, &id, NULL, &err), -1,
           "nor of another user");
    undraft(&s);
    ok(id == 77 && count_jobs() == 0 && engine_staged(w.engine) == 0,
       "  and nothing is left");
    world_clear(&w);
}

static void test_all_or_none(void)
{
    struct engine_sweep s = make_sweep(TASKS, 0, false);
    static char deep[600];
    uint64_t id = 77;

    begin("all or none");
    tasks[3].spec = "{\"kind\":\"command\",\"command\":[\"a\"],"
                    "\"resources\":{\"gpus\":5}}";
    ok(submit(&s, false, &id, NULL) < 0 && err.code == ERR_INVAL &&
           strstr(err.msg, "task 3 {\"env.I\":\"3\"}: can never fit"),
       "one that never fits refuses all");
    tap_diag("%s", err.msg);
    ok(id == 77 && count_jobs() == 0 && engine_staged(w.engine) == 0,
       "  and leaves nothing");
    s = make_sweep(TASKS, 0, false);
    s.n = 0;
    ok(submit(&s, false, &id, NULL) < 0 && err.code == ERR_INVAL,
       "a sweep of nothing is refused");
    s.n = TASKS;
    w.conf.max_jobs_per_user = TASKS - 1;
    ok(submit(&s, false, &id, NULL) < 0 && err.code == ERR_LIMIT,
       "so is one beyond max_jobs_per_user");
    w.conf.max_jobs_per_user = TASKS;

    /* A directory that job 9 can have and job 10 cannot: it fails when some
     * are staged. */
    memset(deep, 'd', 478);
    deep[0] = '/';
    w.conf.user_jobs_dir = deep;
    struct engine_sweep four = make_sweep(4, 0, false);
    struct engine_submit req = {.uid = 7, .user = "kyr", .key = "other"};
    is_int(engine_submit_sweep(w.engine, &req, &four, &id, NULL, &err), 0,
           "four jobs before");
    uint64_t staged = engine_staged(w.engine);
    ok(submit(&s, true, &id, NULL) < 0 && strstr(err.msg, "too long"),
       "task 5 cannot be entered");
    ok(count_jobs() == 4 && engine_staged(w.engine) == staged,
       "  and what was entered is gone, but not what was there before");
    w.conf.user_jobs_dir = NULL;
    is_int(submit(&s, false, &id, NULL), 0, "its key is free");
    bool died;
    (void)play(&died);
    ok(count_jobs() == 4 + TASKS && w.n_bad == 0, "and all of them run");
    world_clear(&w);
}

static void test_max_parallel(void)
{
    struct engine_sweep s = make_sweep(TASKS, 2, false);
    uint64_t id = 0;
    bool died;

    begin("max_parallel");
    is_int(submit(&s, false, &id, NULL), 0, "two at a time");
    for (int i = 0; i < 3; i++)
        (void)world_step(&w);
    const struct job *j = engine_task(w.engine, id, 2);
    is_str(j->reason, "SweepLimit: max_parallel 2 of 6 jobs",
           "the third waits for its turn");
    is_int(engine_queue_position(w.engine, j->id), 1,
           "  and stands in the queue");
    is_int(play(&died), 2, "never more than two");
    is_str(states(id),
           "COMPLETED/0 COMPLETED/0 FAILED/3 COMPLETED/0 COMPLETED/0 "
           "COMPLETED/0",
           "all have their turn");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

static void test_stop_on_fail(void)
{
    struct engine_sweep s = make_sweep(TASKS, 2, true);
    uint64_t id = 0;
    bool died;

    begin("stop_on_fail");
    is_int(submit(&s, false, &id, NULL), 0, "two at a time until one fails");
    is_int(play(&died), 2, "two ran");
    is_str(states(id),
           "COMPLETED/0 COMPLETED/0 FAILED/3 COMPLETED/0 CANCELLED/125 "
           "CANCELLED/125",
           "those that ran go on, those that waited do not begin");
    is_str(engine_task(w.engine, id, 5)->reason, "SweepStopped: job 1_2 failed",
           "  and say why");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

static void test_cancel(void)
{
    struct engine_sweep s = make_sweep(TASKS, 2, true);
    uint64_t id = 0;
    bool died;

    begin("cancel, hold, release");
    is_int(submit(&s, true, &id, NULL), 0, "held");
    for (int i = 0; i < 3; i++)
        (void)world_step(&w);
    is_int(engine_task(w.engine, id, 5)->state, JOB_HELD, "  all of them");
    ok(engine_hold_sweep(w.engine, id, 8, false, &err) < 0 &&
           err.code == ERR_DENIED,
       "another's is not touched");
    is_int(engine_hold_sweep(w.engine, id, 1000, false, &err), 0, "release");
    for (int i = 0; i < 3; i++)
        (void)world_step(&w);
    is_int(count_live(), 2, "  two begin");
    is_int(engine_hold_sweep(w.engine, id, 1000, true, &err), 0,
           "hold those that wait");
    is_int(engine_task(w.engine, id, 2)->state, JOB_HELD, "  the third");
    is_int(engine_cancel(w.engine, id + 1, 1000, &err), 0, "cancel one");
    is_int(engine_task(w.engine, id, 2)->state, JOB_HELD,
           "  which stops no other: it has not failed");
    is_int(engine_cancel_sweep(w.engine, id, 1000, &err), 0, "cancel all");
    is_int(engine_cancel_sweep(w.engine, id, 1000, &err), 0, "twice");
    (void)play(&died);
    is_str(states(id),
           "CANCELLED/130 CANCELLED/130 CANCELLED/130 CANCELLED/130 "
           "CANCELLED/130 CANCELLED/130",
           "and they end");
    ok(engine_signal_sweep(w.engine, id, 1000, 10, &err) < 0 &&
           err.code == ERR_STATE,
       "none is there to be told");
    ok(engine_cancel_sweep(w.engine, id + 1, 1000, &err) < 0 &&
           err.code == ERR_NOTFOUND,
       "a task is no sweep");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

/* A task that its user may not touch stops nothing; it is named. */
static void test_refused(void)
{
    struct engine_sweep s = make_sweep(TASKS, 0, false);
    uint64_t id = 0;

    begin("a task that refuses");
    is_int(submit(&s, true, &id, NULL), 0, "held");
    is_int(engine_hold(w.engine, id, 0, true, &err), 0, "an administrator's");
    is_int(engine_hold(w.engine, id + 3, 0, true, &err), 0, "  two");
    for (int i = 0; i < 3; i++)
        (void)world_step(&w);
    ok(engine_hold_sweep(w.engine, id, 1000, false, &err) < 0 &&
           err.code == ERR_DENIED,
       "a release says so");
    is_str(err.msg,
           "4 of sweep 1 released, but not 1_0, 1_3: job 1_0 is held by an "
           "administrator",
           "  of which");
    for (int i = 0; i < TASKS; i++)
        ok((engine_task(w.engine, id, (uint64_t)i)->state == JOB_HELD) ==
               (i == 0 || i == 3),
           "  the others go: %d", i);
    is_int(engine_hold_sweep(w.engine, id, 0, false, &err), 0,
           "the administrator may");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

/* One life with a store that fails at call n; the daemon dies of it, or lives
 * with its batch undone. The user asks again until there is an answer. */
static const char *run(struct store_fault fault, bool survives, int *ret_calls)
{
    struct engine_sweep s = make_sweep(TASKS, 2, true);
    uint64_t id = 0;
    bool died = false;

    world_init(&w, &script);
    w.fault = fault;
    if (!world_start(&w))
        world_die(&w);
    for (int tries = 0; tries < 5; tries++) {
        if (submit(&s, false, &id, NULL) < 0)
            world_bad(&w, err.msg, 0);
        if (play(&died) > 2)
            world_bad(&w, "more than two at a time", 0);
        if (!died)
            break;
        w.fault.n = 0;
        if (!survives)
            world_die(&w);
    }
    *ret_calls = (int)w.n_calls;
    if (count_jobs() != TASKS)
        world_bad(&w, "other jobs are there", 0);
    return states(id);
}

static void test_crash(void)
{
    static const char want[] =
        "COMPLETED/0 COMPLETED/0 FAILED/3 COMPLETED/0 CANCELLED/125 "
        "CANCELLED/125";
    int n_calls = 0, n_bad = 0, n_runs = 0, ignored;

    is_str(run((struct store_fault){0}, false, &n_calls), want,
           "---- a crash at each store call");
    n_calls = 0;
    world_clear(&w);
    for (int how = 0; how < 3; how++) { /* before, after, and undone */
        for (int n = 1; n <= 40; n++) {
            struct store_fault fault = {.n = n, .after = how == 1};
            const char *got = run(fault, how == 2, &ignored);
            bool is_bad = strcmp(got, want) != 0 || w.n_bad > 0;
            if (is_bad && n_bad++ < 3)
                tap_diag("call %d, how %d: %s", n, how, got);
            n_runs += w.n_crashes > 0 || w.n_failed_steps > 0;
            world_clear(&w);
        }
    }
    ok(n_runs > 30, "it struck %d times", n_runs);
    is_int(n_bad, 0, "and the world is the same");
}

int main(void)
{
    test_submit();
    test_numbers();
    test_read();
    test_draft();
    test_draft_of_another();
    test_all_or_none();
    test_max_parallel();
    test_stop_on_fail();
    test_cancel();
    test_refused();
    test_crash();
    return tap_done();
}
