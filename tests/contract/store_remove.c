/* store_remove.c - what every store promises (db/event_store.h) of archived
 * jobs that are removed: they are gone whole, all that is asked for or none,
 * and no number is given again. */
#include "tests/contract/store_fixture.h"

static struct error err;

static int archive(struct store *s, uint64_t id)
{
    struct store_archived a = {.job = id,
                               .uid = 1000,
                               .state = JOB_CANCELLED,
                               .end_s = 100.0 * (double)id};
    struct store_batch b = {.archived = &a, .n_archived = 1};
    return s->ops->append(s, &b, &err);
}

/* Jobs 1 to 4, submitted one after the other and cancelled so; of 1 to 3 the
 * daemon knows no more. */
static void fill(struct store *s)
{
    for (uint64_t id = 1; id <= 4; id++) {
        struct store_event e = event(id, EV_SUBMIT,
                                     "{\"spec\":{},\"name\":\"mnist\","
                                     "\"user\":\"ada\",\"key\":\"k\"}");
        struct store_job j = job(id);
        struct store_attempt k = attempt(id, 1);
        struct store_batch b = {.events = &e,
                                .n_events = 1,
                                .jobs = &j,
                                .n_jobs = 1,
                                .attempts = &k,
                                .n_attempts = id == 2 ? 1 : 0};
        j.state = "CANCELLED";
        j.end_s = 100.0 * (double)id;
        if (s->ops->append(s, &b, &err) < 0)
            tap_diag("%s", err.msg);
    }
    for (uint64_t id = 1; id <= 4; id++)
        if (append_one(s, id, EV_CANCEL, &err) < 0 ||
            (id < 4 && archive(s, id) < 0))
            tap_diag("%s", err.msg);
}

static int count_event(void *arg, const struct store_event *e,
                       struct error *why)
{
    (void)e;
    (void)why;
    ++*(int *)arg;
    return 0;
}

/* Of jobs first to last, archived or not. */
static int n_events(struct store *s, uint64_t first, uint64_t last)
{
    int n = 0;
    return s->ops->load_jobs(s, first, last, count_event, &n, &err) < 0 ? -1
                                                                        : n;
}

static int count(void *arg, const struct store_cell *cells, size_t n,
                 struct error *why)
{
    (void)cells;
    (void)n;
    (void)why;
    ++*(int *)arg;
    return 0;
}

static int n_of(struct store *s, enum store_view view, uint64_t id)
{
    struct store_query q = {.view = view, .job = id, .rank = -1};
    int n = 0;
    return s->metrics->query(s, &q, count, &n, &err) < 0 ? -1 : n;
}

/* Its own row, and that of its attempt. */
static int n_rows(const struct fixture *fx, uint64_t id)
{
    if (fx->sqlite)
        return n_of(fx->s, VIEW_JOB, id) + n_of(fx->s, VIEW_ATTEMPT, id);
    return (store_mem_job(fx->world, id) != NULL) +
           (store_mem_attempt(fx->world, id, 1) != NULL);
}

static int remove_them(struct store *s, uint64_t a, uint64_t b)
{
    const uint64_t jobs[] = {a, b};
    err = (struct error)ERROR_INIT;
    return s->ops->remove_jobs(s, jobs, b ? 2 : 1, 5000, &err);
}

static uint64_t next_seq(struct store *s, uint64_t id)
{
    struct store_event e = event(id, EV_SUBMIT, NULL);
    struct store_batch b = {.events = &e, .n_events = 1};
    return s->ops->append(s, &b, &err) < 0 ? 0 : e.seq;
}

static void test_gone(struct fixture *fx)
{
    struct store_removed r = {.job = 0};
    struct store_past past;

    fx_begin(fx);
    fill(fx->s);
    ok(fx->s->ops->removed(fx->s, 2, &r, &err) < 0 && err.code == ERR_NOTFOUND,
       "none was removed");
    is_int(n_events(fx->s, 2, 2), 2, "a job has events");
    is_int(n_rows(fx, 2), 2, "  and rows");
    is_int(remove_them(fx->s, 2, 0), 0, "one is");
    fx_reopen(fx);
    is_int(n_events(fx->s, 2, 2) + n_rows(fx, 2), 0, "nothing of it is left");
    ok(fx->s->ops->removed(fx->s, 2, &r, &err) == 0 && r.job == 2 &&
           r.end_s == 200 && r.removed_s == 5000,
       "but that it was, and when");
    if (fx->sqlite)
        is_int(n_of(fx->s, VIEW_USAGE, 2), 1, "what its attempt used is kept");
    is_int(n_events(fx->s, 1, 4), 6, "of the others all is there");
    is_int(n_rows(fx, 1) + n_rows(fx, 3) + n_rows(fx, 4), 3, "their rows, too");
    ok(fx->s->ops->past(fx->s, &past, &err) == 0 &&
           past.n[JOB_CANCELLED] == 2 && past.last_job == 3 &&
           past.last_seq == 8,
       "two are in the archive");
    is_int(remove_them(fx->s, 2, 0), -1, "it cannot be removed again");
    fx_end(fx);
}

/* The same use is counted when the events of an attempt without an end go. */
static void test_unended(struct fixture *fx)
{
    struct store_event e[] = {event(1, EV_SUBMIT, NULL),
                              event(1, EV_RUN, NULL)};
    struct store_job j = job(1);
    struct store_attempt k = attempt(1, 1);
    struct store_batch b = {.events = e,
                            .n_events = 2,
                            .jobs = &j,
                            .n_jobs = 1,
                            .attempts = &k,
                            .n_attempts = 1};
    const struct store_query q = {.view = VIEW_USAGE};
    static const char want[] =
        "1 1 'ada' 1000 - - - - 2 'DISPATCHING' 1763712000r 1763712004r - "
        "1763712009r\n";

    e[1].attempt = 1;
    e[1].at_s = 1763712009;
    j.state = "CANCELLED";
    k.claim_s = 1763712004;
    fx_begin(fx);
    ok(fx->s->ops->append(fx->s, &b, &err) == 0 && archive(fx->s, 1) == 0,
       "a job that ended, and its attempt did not");
    is_str(queried(fx->s, q), want, "what it used");
    is_int(remove_them(fx->s, 1, 0), 0, "it is removed");
    is_str(queried(fx->s, q), want, "and used as much");
    fx_end(fx);
}

static void test_all_or_none(struct fixture *fx)
{
    fx_begin(fx);
    fill(fx->s);
    is_int(remove_them(fx->s, 1, 4), -1, "one that is not archived is not");
    is_int(err.code, ERR_STATE, "for its state");
    is_int(n_events(fx->s, 1, 4), 8, "and the other stays with it");
    is_int(remove_them(fx->s, 1, 9), -1, "nor one that there never was");
    is_int(n_events(fx->s, 1, 4), 8, "nothing went");
    fx_end(fx);
}

/* Also of the last of all: whoever counts on would begin again at its number.
 */
static void test_numbers(struct fixture *fx)
{
    struct store_past past;

    fx_begin(fx);
    fill(fx->s);
    ok(archive(fx->s, 4) == 0, "the last is archived");
    is_int(remove_them(fx->s, 3, 4), 0, "and removed");
    fx_reopen(fx);
    ok(fx->s->ops->past(fx->s, &past, &err) == 0 && past.last_job == 4 &&
           past.last_seq == 8,
       "its number is known");
    is_int((long long)next_seq(fx->s, 5), 9, "its events' are, too");
    fx_reopen(fx);
    is_int((long long)next_seq(fx->s, 6), 10, "also in the next life");
    is_int(remove_them(fx->s, 1, 2), 0, "the rest goes");
    fx_reopen(fx);
    is_int((long long)next_seq(fx->s, 7), 11, "and it goes on");
    fx_end(fx);
}

/* What fsck says of it is in tests/unit/db/removed.c. */
static void run(struct fixture *fx)
{
    test_gone(fx);
    if (fx->sqlite)
        test_unended(fx);
    test_all_or_none(fx);
    test_numbers(fx);
}

int main(void)
{
    return each_store(run);
}
