/* store.c - what every store promises (db/event_store.h) of events, jobs and
 * failures, run against each; of views and metric rows against those that have
 * them. More of these is in store_rows.c. */
#include <pthread.h>

#include "tests/contract/store_fixture.h"

/* ---- events -------------------------------------------------------------- */

static void test_order(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    struct store_event events[] = {event(7, EV_SUBMIT, "{\"a\":1}"),
                                   event(8, EV_SUBMIT, NULL),
                                   event(7, EV_INTENT, "")};
    events[2].attempt = 1;
    events[2].uid = -1;

    fx_begin(fx);
    is_str(loaded(fx->s), "", "a new store has no events");
    ok(append_events(fx->s, events, 3, &err) == 0, "appends a batch");
    ok(events[0].seq == 1 && events[1].seq == 2 && events[2].seq == 3,
       "fills in seq");
    ok(append_events(fx->s, NULL, 0, &err) == 0, "an empty batch is fine");
    fx_reopen(fx);
    ok(append_one(fx->s, 8, EV_CANCEL, &err) == 0, "appends after reopening");
    is_str(loaded(fx->s),
           "1:7/0 submit@1763712000.5 by 1000 {\"a\":1}\n"
           "2:8/0 submit@1763712000.5 by 1000 -\n"
           "3:7/1 intent@1763712000.5 by -1 \n"
           "4:8/0 cancel@1763712000.5 by 1000 -\n",
           "loads what was appended, in order and without gaps");
    fx_end(fx);
}

static int stop_at_two(void *arg, const struct store_event *e,
                       struct error *err)
{
    *(uint64_t *)arg = e->seq;
    return e->seq == 2 ? error_set(err, ERR_BUSY, "enough") : 0;
}

static void test_stop(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    uint64_t seen = 0;

    fx_begin(fx);
    for (uint64_t i = 1; i <= 3; i++)
        (void)append_one(fx->s, i, EV_SUBMIT, &err);
    is_int(fx->s->ops->load(fx->s, stop_at_two, &seen, &err), -1,
           "load fails when each() does");
    is_int((long long)seen, 2, "load stops there");
    is_str(err.msg, "enough", "load keeps the reason");
    ok(append_one(fx->s, 4, EV_SUBMIT, &err) == 0, "the store goes on");
    fx_end(fx);
}

static int stop_row(void *arg, const struct store_cell *cells, size_t n,
                    struct error *err)
{
    (void)cells;
    ++*(size_t *)arg;
    return error_set(err, ERR_BUSY, "enough of %zu", n);
}

static void test_stopped_query(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    size_t rows = 0;
    struct store_query q = {.view = VIEW_EVENT, .rank = -1};

    fx_begin(fx);
    for (uint64_t i = 1; i <= 3; i++)
        (void)append_one(fx->s, i, EV_SUBMIT, &err);
    is_int(fx->s->metrics->query(fx->s, &q, stop_row, &rows, &err), -1,
           "query fails when row() does");
    is_int((long long)rows, 1, "query stops there");
    is_str(err.msg, "enough of 7", "query keeps the reason");
    ok(append_one(fx->s, 4, EV_SUBMIT, &err) == 0, "the store goes on");
    fx_end(fx);
}

/* ---- jobs and attempts --------------------------------------------------- */

static void check_views(struct store *s)
{
    is_str(view(s, VIEW_JOB),
           "1 'mnist' 'ada' 1000 'cv' 'RUNNING' - 0 1 4 0 0 0 1763712000r "
           "1763712003r - 'key'; --' '{}' '/jobs/1' -\n"
           "2 'mnist' 'ada' 1000 'cv' 'QUEUED' - 0 1 4 0 0 - 1763712000r "
           "- - - '{}' '/jobs/1' 1\n",
           "v_job: by id, the latest values, -1 and NAN and NULL as NULL");
    is_str(view(s, VIEW_ATTEMPT),
           "1 1 'DISPATCHING' - - - - 2 1 - 0 1763712001r - - - - - - - - - - "
           "- - -\n"
           "1 2 'DISPATCHING' - 'slurm:17' - 'cv/28' 2 1 - 9 1763712001r "
           "- - - 1 0.5r 0.25r 2r 'memory' 90 80 'h100' 'vision' "
           "'program/p'\n",
           "v_attempt: by job and attempt, the latest values");
    is_str(view(s, VIEW_USAGE),
           "1 1 'ada' 1000 - - - - 2 'DISPATCHING' 1763712000r - - -\n"
           "1 2 'ada' 1000 'vision' 'cv/28' 'h100' - 2 'DISPATCHING' "
           "1763712000r - - -\n",
           "v_usage: attempts with the user of their job");
    is_str(queried(s, (struct store_query){.view = VIEW_USAGE,
                                           .after = 4000000000,
                                           .limit = 1}),
           "1 1 'ada' 1000 - - - - 2 'DISPATCHING' 1763712000r - - -\n",
           "an attempt that has not ended is after any time");
    is_str(queried(s, (struct store_query){.view = VIEW_JOB, .job = 2}),
           "2 'mnist' 'ada' 1000 'cv' 'QUEUED' - 0 1 4 0 0 - 1763712000r "
           "- - - '{}' '/jobs/1' 1\n",
           "v_job of one job");
}

static bool is(const char *s, const char *want)
{
    return s && strcmp(s, want) == 0;
}

/* The same of the store that has no views. */
static void check_rows(const struct store_mem_world *w)
{
    const struct store_job *one = store_mem_job(w, 1);
    const struct store_job *two = store_mem_job(w, 2);
    const struct store_attempt *a = store_mem_attempt(w, 1, 2);

    ok(one && is(one->state, "RUNNING") && !one->reason &&
           is(one->idempotency_key, "key'; --") && one->exit_code == 0,
       "the row of a job: the latest values");
    ok(two && is(two->name, "mnist") && is(two->user, "ada") &&
           is(two->kind, "cv") && is(two->spec, "{}") &&
           is(two->dir, "/jobs/1") && two->parent == 1 && one->parent == 0,
       "what the second batch left out is kept");
    ok(a && is(a->native_id, "slurm:17") && !a->place &&
           is(a->class, "cv/28") && a->signal == 9 && is(a->cause, "memory") &&
           is(a->account, "vision") && is(a->program, "program/p"),
       "the row of an attempt: the latest values");
    a = store_mem_attempt(w, 1, 1);
    ok(a && !a->native_id && a->gpus == 2, "the other one stays as it was");
    ok(!store_mem_job(w, 3) && !store_mem_attempt(w, 1, 3) &&
           !store_mem_attempt(w, 2, 1),
       "no row of what was not stored");
}

static void test_upsert(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    struct store_job jobs[] = {job(2), job(1)};
    struct store_attempt attempts[] = {attempt(1, 1), attempt(1, 2)};
    struct store_event e = event(1, EV_SUBMIT, NULL);
    struct store_batch b = {.events = &e,
                            .n_events = 1,
                            .jobs = jobs,
                            .n_jobs = 2,
                            .attempts = attempts,
                            .n_attempts = 2};

    jobs[0].parent = 1;
    fx_begin(fx);
    ok(fx->s->ops->append(fx->s, &b, &err) == 0, "stores jobs and attempts");
    jobs[1].state = "RUNNING";
    jobs[1].reason = NULL;
    jobs[1].start_s = 1763712003;
    jobs[1].idempotency_key = "key'; --";
    jobs[1].exit_code = 0;
    attempts[1].native_id = "slurm:17";
    attempts[1].class = "cv/28";
    attempts[1].signal = 9;
    attempts[1].resized_from = 1;
    attempts[1].checkpoint_s = 0.5;
    attempts[1].allocator_s = 0.25;
    attempts[1].start_s = 2;
    attempts[1].cause = "memory";
    attempts[1].needed_bytes = 90;
    attempts[1].gpu_type = "h100";
    attempts[1].account = "vision";
    attempts[1].program = "program/p";
    attempts[1].available_bytes = 80;
    b = (struct store_batch){.jobs = &jobs[1],
                             .n_jobs = 1,
                             .attempts = &attempts[1],
                             .n_attempts = 1};
    ok(fx->s->ops->append(fx->s, &b, &err) == 0, "replaces one of each");
    struct store_job unread = job(2);
    unread.name = unread.user = unread.kind = unread.spec = unread.dir = NULL;
    b = (struct store_batch){.jobs = &unread, .n_jobs = 1};
    ok(fx->s->ops->append(fx->s, &b, &err) == 0, "and one that says little");
    fx_reopen(fx);
    if (fx->sqlite)
        check_views(fx->s);
    else
        check_rows(fx->world);
    fx_end(fx);
}

/* A job whose events are damaged does not run, and the row of its attempt stays
 * as it was. */
static void test_unended(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    struct store_event e[] = {event(1, EV_CLAIM, NULL), event(1, EV_RUN, NULL),
                              event(1, EV_CANCEL, NULL),
                              event(1, EV_SUBMIT, NULL)};
    struct store_job j = job(1);
    struct store_attempt a = attempt(1, 1);
    struct store_batch b = {.events = e,
                            .n_events = 4,
                            .jobs = &j,
                            .n_jobs = 1,
                            .attempts = &a,
                            .n_attempts = 1};
    const struct store_query later = {.view = VIEW_USAGE, .after = 1763712009};

    for (int i = 0; i < 3; i++) {
        e[i].attempt = 1;
        e[i].at_s = 1763712004 + 4 * i;
    }
    j.state = "RUNNING";
    a.state = "RUNNING";
    a.claim_s = 1763712004;
    fx_begin(fx);
    ok(fx->s->ops->append(fx->s, &b, &err) == 0, "a job runs");
    is_str(queried(fx->s, later),
           "1 1 'ada' 1000 - - - - 2 'RUNNING' 1763712000r 1763712004r - -\n",
           "its attempt has no end");
    j.state = "HELD";
    b = (struct store_batch){.jobs = &j, .n_jobs = 1};
    ok(fx->s->ops->append(fx->s, &b, &err) == 0, "it is set apart");
    is_str(queried(fx->s, (struct store_query){.view = VIEW_USAGE}),
           "1 1 'ada' 1000 - - - - 2 'RUNNING' 1763712000r 1763712004r - "
           "1763712008r\n",
           "v_usage: the last event of the attempt is its end");
    is_str(queried(fx->s, later), "", "so it is not after any time");
    fx_end(fx);
}

/* ---- failures ------------------------------------------------------------ */

static void test_second(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    struct store *second = NULL;

    fx_begin(fx);
    is_int(open_inner(fx, &second, &err), -1, "a second store is refused");
    is_int(err.code, ERR_STATE, "as a state");
    ok(!second, "and nothing is handed out");
    ok(append_one(fx->s, 1, EV_SUBMIT, &err) == 0, "the first one works on");
    fx_end(fx);
}

/* Every call fails once, before and after; a retry then tells which. */
static void test_faults(struct fixture *fx)
{
    struct error err = ERROR_INIT;

    for (int32_t after = 0; after <= 1; after++) {
        fx_begin(fx);
        fx->fault = (struct store_fault){.n = 2, .after = after};
        fx_reopen(fx);
        ok(append_one(fx->s, 1, EV_SUBMIT, &err) == 0, "call 1 passes");
        is_int(append_one(fx->s, 2, EV_SUBMIT, &err), -1, "call 2 fails");
        is_int(err.code, ERR_IO, "as the disk would");
        ok(append_one(fx->s, 3, EV_SUBMIT, &err) == 0, "call 3 passes");
        is_int(store_faulty_calls(fx->s), 3, "three calls");
        fx->fault.n = 0;
        fx_reopen(fx);
        is_str(loaded(fx->s),
               after ? "1:1/0 submit@1763712000.5 by 1000 -\n"
                       "2:2/0 submit@1763712000.5 by 1000 -\n"
                       "3:3/0 submit@1763712000.5 by 1000 -\n"
                     : "1:1/0 submit@1763712000.5 by 1000 -\n"
                       "2:3/0 submit@1763712000.5 by 1000 -\n",
               after ? "after: it was done" : "before: it was not");
        fx_end(fx);
    }
}

static void test_row_faults(struct fixture *fx)
{
    struct error err = ERROR_INIT;

    fx_begin(fx);
    fx->fault = (struct store_fault){.n = 1, .after = 1};
    fx_reopen(fx);
    size_t added = 99;
    struct metric_row row = epoch(1, 0.5);
    is_int(fx->s->metrics->rows(fx->s, 1, 1, &row, 1, &added, &err), -1,
           "rows fail too");
    is_int((long long)added, 99, "and leave the count alone");
    ok(fx->s->metrics->rows(fx->s, 1, 1, &row, 1, &added, &err) == 0 &&
           added == 0,
       "the retry finds them there");
    fx_end(fx);
}

/* ---- threads ------------------------------------------------------------- */

enum { ROUNDS = 50 };

struct side {
    struct store *s;
    const char *failed; /* at what, or NULL */
};

static int count_job(void *arg, const struct store_archived *job,
                     struct error *err)
{
    (void)job;
    (void)err;
    ++*(size_t *)arg;
    return 0;
}

static void *read_archive(void *arg)
{
    struct side *side = arg;
    struct store *s = side->s;
    struct error err = ERROR_INIT;
    struct store_archive_query q = {.since_s = -INFINITY, .has_names = true};
    uint64_t before = 0;

    for (int i = 0; i < ROUNDS; i++) {
        struct store_past past;
        size_t n = 0;
        if (s->ops->past(s, &past, &err) < 0 || past.last_seq < before)
            side->failed = "past";
        else
            before = past.last_seq;
        if (s->ops->archived(s, &q, count_job, &n, &err) < 0)
            side->failed = "archived";
    }
    return NULL;
}

static void *write_rows(void *arg)
{
    struct side *side = arg;
    struct store *s = side->s;
    struct error err = ERROR_INIT;

    for (int64_t i = 1; i <= ROUNDS; i++) {
        struct metric_row row = iteration(0, i, 1);
        if (s->metrics->rows(s, 1, 1, &row, 1, NULL, &err) < 0 ||
            s->metrics->sync_rows(s, &err) < 0)
            side->failed = "rows";
    }
    return NULL;
}

static int count_row(void *arg, const struct store_cell *cells, size_t n,
                     struct error *err)
{
    (void)cells;
    (void)n;
    (void)err;
    ++*(size_t *)arg;
    return 0;
}

static void *read_views(void *arg)
{
    struct side *side = arg;
    struct store *s = side->s;
    struct error err = ERROR_INIT;
    size_t before = 0;

    for (int i = 0; i < ROUNDS; i++) {
        struct store_query q = {.view = VIEW_ITERATION, .rank = -1};
        size_t rows = 0;
        if (s->metrics->query(s, &q, count_row, &rows, &err) < 0)
            side->failed = "query v_iteration";
        if (rows < before)
            side->failed = "rows went away";
        before = rows;
        q.view = VIEW_EVENT;
        if (s->metrics->query(s, &q, count_row, &rows, &err) < 0)
            side->failed = "query v_event";
    }
    return NULL;
}

static int append_archived(struct store *s, uint64_t id, struct error *err)
{
    struct store_event e = event(id, EV_SUBMIT, NULL);
    struct store_job j = job(id);
    struct store_archived a = {
        .job = id, .uid = 1000, .state = JOB_CANCELLED, .end_s = 1};
    struct store_batch b = {.events = &e,
                            .n_events = 1,
                            .jobs = &j,
                            .n_jobs = 1,
                            .archived = &a,
                            .n_archived = 1};
    return s->ops->append(s, &b, err);
}

static void test_threads(struct fixture *fx)
{
    struct error err = ERROR_INIT;
    void *(*const mains[4])(void *) = {read_archive, write_rows, read_views,
                                       read_views};
    int n = fx->sqlite ? 4 : 1;
    struct side sides[4];
    pthread_t threads[4];
    int failed = 0;

    fx_begin(fx);
    for (int i = 0; i < n; i++) {
        sides[i] = (struct side){.s = fx->s};
        if (pthread_create(&threads[i], NULL, mains[i], &sides[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < ROUNDS; i++)
        failed += append_archived(fx->s, (uint64_t)i + 1, &err) < 0;
    is_int(failed, 0, "appends while others read, and write rows");
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        ok(!sides[i].failed, "thread %d: %s", i,
           sides[i].failed ? sides[i].failed : "fine");
    }
    fx_end(fx);
}

/* What is lost, and rescued: tests/unit/db/file_loss.c. */
static void test_intact(struct fixture *fx)
{
    struct error err = ERROR_INIT;

    fx_begin(fx);
    ok(append_one(fx->s, 1, EV_STALL, &err) == 0, "one event");
    for (int f = 0; f < STORE_FILE_N; f++)
        ok(fx->s->metrics->intact(fx->s, (enum store_file)f, &err) == 0,
           "file %d is there %s", f, err.msg);
    fx_end(fx);
}

/* -------------------------------------------------------------------------- */

static void run(struct fixture *fx)
{
    test_order(fx);
    test_stop(fx);
    test_upsert(fx);
    test_second(fx);
    if (fx->faulty)
        test_faults(fx);
    test_threads(fx);
    if (!fx->sqlite)
        return;
    test_stopped_query(fx);
    test_unended(fx);
    if (fx->faulty)
        test_row_faults(fx);
    test_intact(fx);
}

int main(void)
{
    return each_store(run);
}
