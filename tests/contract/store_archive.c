/* store_archive.c - what every store promises (db/event_store.h) of jobs that
 * the daemon keeps in mind no longer. */
#include "tests/contract/store_fixture.h"

static struct error err;

static struct store_archived gone(uint64_t id, const char *key,
                                  enum job_state state, double end_s)
{
    return (struct store_archived){
        .job = id, .uid = 1000, .key = key, .state = state, .end_s = end_s};
}

static int archive(struct store *s, const struct store_archived *jobs, size_t n)
{
    struct store_batch b = {.archived = jobs, .n_archived = n};
    return s->ops->append(s, &b, &err);
}

/* Jobs 1 to 6, of two events each, one after the other. */
static void fill(struct store *s)
{
    for (uint64_t id = 1; id <= 6; id++)
        if (append_one(s, id, EV_SUBMIT, &err) < 0)
            tap_diag("%s", err.msg);
    for (uint64_t id = 1; id <= 6; id++)
        if (append_one(s, id, EV_CANCEL, &err) < 0)
            tap_diag("%s", err.msg);
}

static int print_job(void *arg, const struct store_archived *a,
                     struct error *why)
{
    return buf_addf(arg, why, "%llu/%lld %s %s %g, ",
                    (unsigned long long)a->job, (long long)a->uid,
                    a->key ? a->key : "-", job_state_name(a->state), a->end_s);
}

static const char *found(struct store *s, struct store_archive_query q)
{
    static struct buf text;

    buf_clear(&text);
    if (s->ops->archived(s, &q, print_job, &text, &err) < 0)
        tap_diag("archived: %s", err.msg);
    return buf_str(&text);
}

/* "1:7/0 submit ..." as "1:7 " */
static int print_short(void *arg, const struct store_event *e,
                       struct error *why)
{
    return buf_addf(arg, why, "%llu:%llu ", (unsigned long long)e->seq,
                    (unsigned long long)e->job);
}

static const char *loaded_short(struct store *s)
{
    static struct buf text;

    buf_clear(&text);
    if (s->ops->load(s, print_short, &text, &err) < 0)
        tap_diag("load: %s", err.msg);
    return buf_str(&text);
}

static const char *of_jobs(struct store *s, uint64_t first, uint64_t last)
{
    static struct buf text;

    buf_clear(&text);
    if (s->ops->load_jobs(s, first, last, print_short, &text, &err) < 0)
        tap_diag("load_jobs: %s", err.msg);
    return buf_str(&text);
}

static void is_past(struct store *s, uint64_t job, uint64_t seq, uint64_t n)
{
    struct store_past past;

    ok(s->ops->past(s, &past, &err) == 0 && past.last_job == job &&
           past.last_seq == seq && past.n[JOB_CANCELLED] == n,
       "%llu are archived", (unsigned long long)n);
}

static void test_load(struct fixture *fx)
{
    const struct store_archived first[] = {gone(2, "k2", JOB_CANCELLED, 20),
                                           gone(1, "k1", JOB_CANCELLED, NAN)};
    const struct store_archived more[] = {
        gone(3, "k3", JOB_CANCELLED, 30), gone(4, "k4", JOB_CANCELLED, 40),
        gone(5, NULL, JOB_CANCELLED, 50), gone(6, NULL, JOB_COMPLETED, 60)};

    fx_begin(fx);
    is_past(fx->s, 0, 0, 0);
    fill(fx->s);
    is_past(fx->s, 0, 12, 0);
    ok(archive(fx->s, first, 2) == 0, "two are archived");
    is_str(loaded_short(fx->s), "3:3 4:4 5:5 6:6 9:3 10:4 11:5 12:6 ",
           "what is archived is not loaded");
    is_str(of_jobs(fx->s, 2, 2), "2:2 8:2 ", "but by its number");
    is_str(of_jobs(fx->s, 2, 3), "2:2 3:3 8:2 9:3 ", "with one that is not");
    is_str(of_jobs(fx->s, 7, 900), "", "there are no others");
    fx_reopen(fx);
    is_past(fx->s, 2, 12, 2);
    ok(append_one(fx->s, 7, EV_SUBMIT, &err) == 0, "it goes on");
    ok(archive(fx->s, more, 4) == 0, "the rest is archived");
    is_str(loaded_short(fx->s), "13:7 ", "one is left");
    is_past(fx->s, 6, 13, 5);
    is_str(of_jobs(fx->s, 6, 7), "6:6 12:6 13:7 ", "all events are there");
    fx_end(fx);
}

static void test_find(struct fixture *fx)
{
    const struct store_archived jobs[] = {
        gone(1, "k1", JOB_COMPLETED, 50), gone(2, NULL, JOB_FAILED, 20),
        gone(4, "k4", JOB_CANCELLED, NAN), gone(6, "k1 ", JOB_TIMEOUT, 30)};
    struct store_archived other = gone(5, "k1", JOB_COMPLETED, 10);
    struct store_archive_query all = {.since_s = -INFINITY};

    other.uid = 7;
    fx_begin(fx);
    fill(fx->s);
    is_str(found(fx->s, all), "", "nothing is archived yet");
    ok(archive(fx->s, jobs, 4) == 0 && archive(fx->s, &other, 1) == 0,
       "now there is");
    is_str(found(fx->s, all),
           "1/1000 k1 COMPLETED 50, 2/1000 - FAILED 20, "
           "4/1000 k4 CANCELLED nan, 5/7 k1 COMPLETED 10, "
           "6/1000 k1  TIMEOUT 30, ",
           "all, by id");
    is_str(found(fx->s, (struct store_archive_query){.since_s = 30}),
           "1/1000 k1 COMPLETED 50, 6/1000 k1  TIMEOUT 30, ", "since then");
    is_str(found(fx->s, (struct store_archive_query){.since_s = INFINITY}), "",
           "none, since for ever");
    is_str(found(fx->s, (struct store_archive_query){.since_s = -INFINITY,
                                                     .after = 1,
                                                     .limit = 1}),
           "2/1000 - FAILED 20, ", "the next");
    is_str(found(fx->s, (struct store_archive_query){.key = "k1", .uid = 1000}),
           "1/1000 k1 COMPLETED 50, ", "by key");
    is_str(found(fx->s, (struct store_archive_query){.key = "k1", .uid = 7}),
           "5/7 k1 COMPLETED 10, ", "which is a user's own");
    is_str(found(fx->s, (struct store_archive_query){.key = "k2", .uid = 1000}),
           "", "of none");
    fx_end(fx);
}

static int print_id(void *arg, const struct store_archived *a,
                    struct error *why)
{
    return buf_addf(arg, why, "%llu%s%s%s%s ", (unsigned long long)a->job,
                    a->name ? ":" : "", a->name ? a->name : "",
                    a->user ? "@" : "", a->user ? a->user : "");
}

static const char *ids(struct store *s, struct store_archive_query q)
{
    static struct buf text;

    buf_clear(&text);
    if (s->ops->archived(s, &q, print_id, &text, &err) < 0)
        tap_diag("archived: %s", err.msg);
    return buf_str(&text);
}

/* What lists are made of. */
static void test_orders(struct fixture *fx)
{
    const struct store_archived jobs[] = {
        gone(1, "k1", JOB_COMPLETED, 50), gone(2, NULL, JOB_FAILED, 20),
        gone(4, NULL, JOB_CANCELLED, NAN), gone(5, NULL, JOB_CANCELLED, 30),
        gone(6, NULL, JOB_TIMEOUT, 30)};
    const struct store_job rows[] = {
        {.id = 2, .name = "b", .user = "anna", .state = "FAILED"},
        {.id = 5, .name = "e", .state = "CANCELLED"}};
    struct store_batch b = {.jobs = rows, .n_jobs = 2};
    struct store_archive_query newest = {.order = ARCHIVE_NEWEST,
                                         .since_s = -INFINITY},
                               ends = {.order = ARCHIVE_BY_END,
                                       .since_s = -INFINITY};

    fx_begin(fx);
    fill(fx->s);
    is_str(ids(fx->s, newest), "", "of nothing");
    is_str(ids(fx->s, ends), "", "nor by end");
    ok(archive(fx->s, jobs, 5) == 0 && fx->s->ops->append(fx->s, &b, &err) == 0,
       "now there is");
    is_str(ids(fx->s, newest), "6 5 4 2 1 ", "the newest first");
    newest.limit = 2;
    is_str(ids(fx->s, newest), "6 5 ", "two");
    newest.before = 5;
    is_str(ids(fx->s, newest), "4 2 ", "the next two");
    newest.has_names = true;
    is_str(ids(fx->s, newest), "4 2:b@anna ", "with their names");
    newest = (struct store_archive_query){
        .order = ARCHIVE_NEWEST, .after = 1, .before = 6, .since_s = 25};
    is_str(ids(fx->s, newest), "5 ", "some of them, since then");
    is_str(ids(fx->s, ends), "2 5 6 1 ", "who ended first comes first");
    ends.limit = 2;
    is_str(ids(fx->s, ends), "2 5 ", "two");
    ends.since_s = 30;
    is_str(ids(fx->s, ends), "5 6 ", "since then");
    ends.after = 5;
    is_str(ids(fx->s, ends), "6 1 ", "the rest");
    ends.before = 6;
    ends.has_names = true;
    is_str(ids(fx->s, ends), "1 ", "of those before");
    ends = (struct store_archive_query){.order = ARCHIVE_BY_END,
                                        .since_s = 20.5,
                                        .before = 6,
                                        .has_names = true};
    is_str(ids(fx->s, ends), "5:e 1 ", "with their names");
    fx_end(fx);
}

static int print_line(void *arg, uint64_t job, const char *line,
                      struct error *why)
{
    return buf_addf(arg, why, "%llu:%s ", (unsigned long long)job, line);
}

static const char *lines(struct store *s, uint64_t first, uint64_t last)
{
    static struct buf text;

    buf_clear(&text);
    if (s->ops->lines(s, first, last, print_line, &text, &err) < 0)
        tap_diag("lines: %s", err.msg);
    return buf_str(&text);
}

static int stop_at_once(void *arg, uint64_t job, const char *line,
                        struct error *why)
{
    ++*(int *)arg;
    return error_set(why, ERR_BUSY, "%llu is enough: %s",
                     (unsigned long long)job, line);
}

static void test_lines(struct fixture *fx)
{
    struct store_archived jobs[] = {
        gone(5, NULL, JOB_CANCELLED, 50), gone(2, "k2", JOB_CANCELLED, 20),
        gone(3, "k3", JOB_COMPLETED, 30), gone(4, NULL, JOB_CANCELLED, NAN)};
    const uint64_t two = 2;
    int n = 0;

    jobs[0].line = "{\"e\":5}";
    jobs[1].line = "{}";
    jobs[3].line = "d";
    fx_begin(fx);
    fill(fx->s);
    is_str(lines(fx->s, 1, 9), "", "nobody has a line");
    ok(archive(fx->s, jobs, 4) == 0, "three that are archived have");
    for (int life = 1; life <= 2; life++) {
        is_str(lines(fx->s, 1, UINT32_MAX), "2:{} 4:d 5:{\"e\":5} ",
               life == 1 ? "they come by number" : "also in the next life");
        is_str(lines(fx->s, 4, 4), "4:d ", "one of them");
        is_str(lines(fx->s, 3, 4), "4:d ", "beside one that has none");
        is_str(lines(fx->s, 6, 7), "", "and of others none");
        fx_reopen(fx);
    }
    ok(fx->s->ops->lines(fx->s, 1, 9, stop_at_once, &n, &err) < 0 &&
           err.code == ERR_BUSY && n == 1,
       "who has enough is asked no more");
    is_str(lines(fx->s, 5, 5), "5:{\"e\":5} ", "and may ask again");
    ok(fx->s->ops->remove_jobs(fx->s, &two, 1, 70, &err) == 0,
       "one is removed");
    is_str(lines(fx->s, 1, 9), "4:d 5:{\"e\":5} ", "with its line");
    fx_end(fx);
}

/* One batch, one fate. */
static void test_faults(struct fixture *fx)
{
    const struct store_archived job = gone(1, "k1", JOB_CANCELLED, 20);
    struct store_event e = event(8, EV_SUBMIT, NULL);
    struct store_batch b = {
        .events = &e, .n_events = 1, .archived = &job, .n_archived = 1};

    fx_begin(fx);
    fill(fx->s);
    ok(archive(fx->s, &job, 1) == 0, "is archived");
    ok(fx->s->ops->append(fx->s, &b, &err) < 0, "not twice");
    is_past(fx->s, 1, 12, 1);
    is_str(of_jobs(fx->s, 8, 8), "", "nor what was to come with it");
    b.n_archived = 0;
    ok(fx->s->ops->append(fx->s, &b, &err) == 0 && e.seq == 13, "it goes on");
    fx_end(fx);
    if (!fx->faulty)
        return;
    for (int after = 0; after <= 1; after++) {
        fx_begin(fx);
        fill(fx->s);
        fx->fault = (struct store_fault){.n = 1, .after = after};
        fx_reopen(fx);
        ok(archive(fx->s, &job, 1) < 0, "a fault %s",
           after ? "after" : "before");
        fx->fault = (struct store_fault){.n = 0};
        fx_reopen(fx);
        is_past(fx->s, (uint64_t)after, 12, (uint64_t)after);
        fx_end(fx);
    }
}

static void run(struct fixture *fx)
{
    test_load(fx);
    test_find(fx);
    test_orders(fx);
    test_lines(fx);
    test_faults(fx);
}

int main(void)
{
    return each_store(run);
}
