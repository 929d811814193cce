/* removed.c - I1: fsck takes the numbers that went with removed jobs for what
 * they are, and no other that is missing. */
#include "tests/unit/db/files.h"

static struct tmp t;
static char said[2000];

static void note(void *arg, const char *finding)
{
    size_t len = strlen(said);
    (void)arg;
    (void)snprintf(said + len, sizeof(said) - len, "%s\n", finding);
}

static int check(void)
{
    said[0] = '\0';
    return store_sqlite_check(t.dir, note, NULL);
}

static void add_job(struct store *s, uint64_t id)
{
    struct error err = ERROR_INIT;
    char detail[100];
    (void)snprintf(
        detail, sizeof(detail),
        "{\"spec\":{},\"name\":\"a\",\"user\":\"u\",\"key\":\"k%d\"}", (int)id);
    struct store_event e[] = {
        {.job = id, .ev = EV_SUBMIT, .at_s = 1, .uid = 7, .detail = detail},
        {.job = id, .ev = EV_CANCEL, .at_s = 2, .uid = 7},
    };
    char key[8];
    (void)snprintf(key, sizeof(key), "k%d", (int)id);
    struct store_job j = {.id = id,
                          .name = "a",
                          .user = "u",
                          .kind = "cv",
                          .uid = 7,
                          .state = "CANCELLED",
                          .submit_s = 1,
                          .start_s = 1,
                          .end_s = 2,
                          .idempotency_key = key,
                          .spec = "{}",
                          .dir = "/d"};
    struct store_archived a = {.job = id,
                               .uid = 7,
                               .key = key,
                               .state = JOB_CANCELLED,
                               .end_s = 2,
                               .line = "{\"state\":\"CANCELLED\",\"uid\":7,"
                                       "\"name\":\"a\",\"user\":\"u\","
                                       "\"exit_code\":0,\"submit_s\":1,"
                                       "\"start_s\":1,\"end_s\":2}"};
    struct store_batch b = {.events = e,
                            .n_events = 2,
                            .jobs = &j,
                            .n_jobs = 1,
                            .archived = &a,
                            .n_archived = 1};
    if (s->ops->append(s, &b, &err) < 0)
        ok(false, "%s", err.msg);
}

static void make(void)
{
    const uint64_t gone[] = {2, 5};
    struct error err = ERROR_INIT;
    struct store *s;
    tmp_clear(&t);
    s = must_open(&t);
    for (uint64_t id = 1; id <= 5; id++)
        add_job(s, id);
    ok(s->ops->remove_jobs(s, gone, 2, 9, &err) == 0, "two are removed: %s",
       err.msg);
    s->ops->destroy(s);
}

static void test_sound(void)
{
    make();
    is_int(check(), 0, "it is sound");
    is_str(said, "", "with nothing to say");
}

static void test_bad(const char *text, const char *want)
{
    make();
    sql(&t, "state.db", text);
    ok(check() > 0 && strstr(said, want), "%s: %s", text, said);
}

int main(void)
{
    tmp_begin(&t);
    test_sound();
    test_bad("DELETE FROM event WHERE seq = 1", "I1: 5 events are missing, "
                                                "and 4 went");
    test_bad("DELETE FROM removed WHERE job = 2", "I1: 4 events are missing, "
                                                  "and 2 went");
    test_bad("UPDATE event SET seq = 3 WHERE seq = 5",
             "I1: 4 events are missing, and 4 went with removed jobs: others");
    test_bad("UPDATE removed SET events = 3 WHERE job = 2",
             "job 2: its removal entry does not match its checksum");
    test_bad("INSERT INTO attempt (job, attempt, gpus, nodes)"
             " VALUES (2, 1, 1, 1)",
             "I6: job 2 was removed, but not all of it");
    test_bad("INSERT INTO line (job, line) VALUES (2, '{}')",
             "I6: job 2 has a summary line but is not archived");
    tmp_end(&t);
    return tap_done();
}
