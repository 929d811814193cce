/* history.c - the checker of make crash says so when a history is bad. Each
 * here is a good one with one thing wrong. */
#include "tests/crash/history.h"

#include <math.h>

#include "tests/tap.h"
#include "tests/unit/db/tmp.h"

static struct history h = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void says(const char *got, const char *want)
{
    ok(got && want ? strstr(got, want) != NULL : got == want, "%s",
       want ? want : "nothing is wrong");
    if (got && !want)
        tap_diag("%s", got);
}

/* ---- I7 --------------------------------------------------------------------
 */
static void test_strangers(void)
{
    static const struct strange fine[] = {{1, 403}, {2, 403}};
    static const struct strange done[] = {{1, 403}, {2, 200}, {3, 403}};
    static const struct strange other[] = {{1, 404}};
    size_t at = 0;
    says(rule_strangers(fine, 2, &at), NULL);
    says(rule_strangers(done, 3, &at), "was carried out");
    is_int((long long)at, 1, "names it");
    says(rule_strangers(other, 1, &at), "was not refused as such");
}

static const char *log_of(const struct store_event *events, size_t n)
{
    struct log l = {.uid = 1000};
    struct error err = ERROR_INIT;
    const char *why = NULL;
    for (size_t i = 0; i < n; i++)
        if (log_event(&l, &events[i], &err) < 0)
            why = "it is no log";
    why = why || l.n < 2 ? why : l.jobs[1].wrong;
    free(l.jobs);
    return why;
}

static void test_events(void)
{
    struct store_event e[] = {{.job = 1, .ev = EV_SUBMIT, .uid = 1000},
                              {.job = 1, .ev = EV_HOLD, .uid = 1000},
                              {.job = 1, .ev = EV_RELEASE, .uid = 0},
                              {.job = 1, .ev = EV_CANCEL, .uid = -1}};
    for (size_t i = 0; i < 4; i++)
        e[i].detail = "{}";
    says(log_of(e, 4), NULL);
    e[1].uid = 1001;
    says(log_of(e, 4), "an event of it is a stranger's");
    e[1].uid = 1000;
    e[3].uid = 1001;
    says(log_of(e, 4), "an event of it is a stranger's");
    e[3].uid = e[0].uid = 1001;
    says(log_of(e, 4), "one whom the daemon does not serve");
}

#define LINE(UID, DO) "{\"at\":\"x\",\"uid\":" UID ",\"do\":\"" DO "\"}\n"

static void test_deeds(void)
{
    static const int told[DEED_N] = {1, 1, 2}, none[DEED_N] = {0};
    says(rule_deeds(LINE("0", "pause") LINE("1000", "resume")
                        LINE("1000", "reload") LINE("1000", "reload"),
                    told, 1000),
         NULL);
    says(rule_deeds(LINE("1000", "pause") LINE("1000", "reload")
                        LINE("1000", "reload"),
                    told, 1000),
         "is not in admin.log");
    says(rule_deeds(LINE("1000", "pause") LINE("1000", "resume") LINE(
                        "1000", "reload") "{\"uid\":1000,\"do\":\"reload\"",
                    told, 1000),
         "is not in admin.log");
    says(rule_deeds(LINE("1001", "pause"), none, 1000), "of a stranger");
    says(rule_deeds("", none, 1000), NULL);
    says(rule_deeds("", told, 1000), "is not in admin.log");
}

/* ---- I9 --------------------------------------------------------------------
 */
static void conf(const char *want, const struct conf_note *notes, size_t n)
{
    size_t at = 0;
    says(rule_conf(notes, n, &at), want);
    if (want)
        is_int((long long)at, (long long)n - 1, "in the last note");
}
#define CONF(WANT, ...)                                    \
    conf((WANT), (const struct conf_note[]){__VA_ARGS__},  \
         sizeof((const struct conf_note[]){__VA_ARGS__}) / \
             sizeof(struct conf_note))
#define BEGIN         \
    {CONF_GOOD, 1},   \
    {                 \
        CONF_START, 0 \
    }

static void test_conf_good(void)
{
    CONF(NULL, BEGIN, {CONF_SHOWN, 1}, {CONF_GOOD, 2}, {CONF_SHOWN, 1},
         {CONF_TAKEN, 0}, {CONF_SHOWN, 2}, {CONF_BAD, 3}, {CONF_REFUSED, 0},
         {CONF_SHOWN, 2});
    CONF(NULL, BEGIN, {CONF_GOOD, 2}, {CONF_HUP, 0}, {CONF_SHOWN, 1},
         {CONF_BAD, 3}, {CONF_GOOD, 4}, {CONF_SHOWN, 4}, {CONF_SHOWN, 4});
    CONF(NULL, BEGIN, {CONF_GOOD, 2}, {CONF_START, 0}, {CONF_SHOWN, 2});
}

static void test_conf_bad(void)
{
    static const char not_valid[] = "has not passed the checks";
    CONF(not_valid, BEGIN, {CONF_BAD, 2}, {CONF_HUP, 0}, {CONF_SHOWN, 2});
    CONF(not_valid, BEGIN, {CONF_SHOWN, 0});
    CONF(not_valid, BEGIN, {CONF_SHOWN, 7});
    CONF("it took a file", BEGIN, {CONF_BAD, 2}, {CONF_TAKEN, 0});
    CONF("it started with a file", {CONF_BAD, 1}, {CONF_START, 0});
    CONF("it refused a valid", BEGIN, {CONF_GOOD, 2}, {CONF_REFUSED, 0});
    CONF("not in force any more", BEGIN, {CONF_GOOD, 2}, {CONF_TAKEN, 0},
         {CONF_SHOWN, 1});
    CONF("not in force any more", BEGIN, {CONF_GOOD, 2}, {CONF_HUP, 0},
         {CONF_SHOWN, 2}, {CONF_SHOWN, 1});
    CONF("not in force any more", BEGIN, {CONF_GOOD, 2}, {CONF_START, 0},
         {CONF_SHOWN, 1});
    CONF("was not to be read", BEGIN, {CONF_GOOD, 2}, {CONF_SHOWN, 2});
    CONF("was not to be read", BEGIN, {CONF_HUP, 0}, {CONF_START, 0},
         {CONF_GOOD, 2}, {CONF_SHOWN, 2});
    CONF("was not to be read", BEGIN, {CONF_GOOD, 2}, {CONF_GOOD, 3},
         {CONF_HUP, 0}, {CONF_SHOWN, 2});
}

/* ---- I10 -------------------------------------------------------------------
 */
static void test_turns(void)
{
    struct life lives[] = {{0.001, 0.1}, {0.051, 0.1}, {3, 0.1}, {0.050, 0}};
    struct turns t;
    says(rule_turns(lives, 4, &t), NULL);
    ok(t.n == 4 && t.n_long == 2 && t.longest_s == 3, "what it tells");
    lives[1].own_s = 10.5;
    says(rule_turns(lives, 4, &t), "stood still");
    lives[1].waited_s = 0; /* nobody knows whether it waited */
    says(rule_turns(lives, 4, &t), NULL);
    is_int((long long)(t.longest_s * 10), 105, "and it is told");
    struct life many[LIVES_JUDGED];
    for (int i = 0; i < LIVES_JUDGED; i++)
        many[i] = (struct life){i < 25 ? 0.051 : 0.05, 0.1};
    says(rule_turns(many, LIVES_JUDGED, &t), NULL);
    many[25].own_s = 0.051;
    says(rule_turns(many, LIVES_JUDGED, &t), "too often");
    says(rule_turns(many, LIVES_JUDGED - 1, &t), NULL);
    many[25].waited_s = 0;
    says(rule_turns(many, LIVES_JUDGED, &t), NULL);
}

/* ---- F07 -------------------------------------------------------------------
 */
/* A store with a job, as an engine writes it. */
static void put_job(const char *dir, uint64_t id)
{
    struct store *s = NULL;
    struct error err = ERROR_INIT;
    char detail[120];
    (void)snprintf(detail, sizeof(detail),
                   "{\"spec\":{},\"user\":\"u\",\"key\":\"a\",\"name\":\"a\","
                   "\"sweep\":{\"task\":%d}}",
                   (int)id - 1);
    struct store_event ev = {.job = id, .ev = EV_SUBMIT, .detail = detail};
    struct store_job job = {.id = id,
                            .name = "a",
                            .user = "u",
                            .state = "QUEUED",
                            .exit_code = -1,
                            .submit_s = 1,
                            .start_s = NAN,
                            .end_s = NAN,
                            .idempotency_key = "a"};
    struct store_batch batch = {
        .events = &ev, .n_events = 1, .jobs = &job, .n_jobs = 1};
    ok(store_sqlite_open(dir, &s, &err) == 0 &&
           s->ops->append(s, &batch, &err) == 0,
       "job %d is there %s", (int)id, err.msg);
    if (s)
        s->ops->destroy(s);
}

static int found_in(const char *dir)
{
    h.n_bad = 0;
    check_backup(&h, dir);
    return h.n_bad;
}

static void test_backup(void)
{
    struct tmp t;
    tmp_begin(&t);
    history_begin(&h);
    is_int(found_in(t.dir), 3, "what is no store is no backup");
    put_job(t.dir, 1);
    is_int(found_in(t.dir), 0, "one with a job that nobody had been told of");
    h.kept.jobs[0] = h.jobs[0] = (struct asked){.key = "a", .id = 1};
    h.kept.n = h.n = 1;
    is_int(found_in(t.dir), 0, "one that had been told");
    h.kept.jobs[0].cancel_told = true;
    is_int(found_in(t.dir), 1, "without its cancel");
    h.kept.jobs[0] = (struct asked){.key = "b", .id = 2};
    is_int(found_in(t.dir), 1, "without the job");
    h.kept.n = 0;
    h.jobs[0].is_sweep = true;
    is_int(found_in(t.dir), 2, "with one task of three");
    put_job(t.dir, 2);
    put_job(t.dir, 3);
    is_int(found_in(t.dir), 0, "with all");
    history_begin(&h);
    h.n_bad = 0;
    tmp_end(&t);
}

/* ---- all of it -------------------------------------------------------------
 */
static void test_counted(void)
{
    history_begin(&h);
    check_notes(&h);
    is_int(h.n_bad, 0, "an empty history");
    h.strange[h.n_strange++] = (struct strange){7, 200};
    note_conf(&h, CONF_BAD, 1);
    note_conf(&h, CONF_START, 0);
    check_notes(&h);
    is_int(h.n_bad, 2, "each finding counts");
    h.told[DEED_PAUSE] = 1;
    check_deeds(&h, "/nonexistent");
    is_int(h.n_bad, 3, "and so does a log that is gone");
}

int main(void)
{
    test_strangers();
    test_events();
    test_deeds();
    test_conf_good();
    test_conf_bad();
    test_turns();
    test_backup();
    test_counted();
    return tap_done();
}
