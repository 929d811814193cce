/* high_water.c - F45: how far a store has come is known beside it, and fsck
 * says when the log has lost its end. */
#include "db/high_water.h"

#include <math.h>

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

static bool is_at(uint64_t job, uint64_t seq)
{
    struct mark m = high_water_read(t.dir);
    bool is = m.job == job && m.seq == seq;
    if (!is)
        tap_diag("job %llu, event %llu", (unsigned long long)m.job,
                 (unsigned long long)m.seq);
    return is;
}

static void submit(struct store *s, uint64_t id)
{
    char detail[80], key[8];
    (void)snprintf(key, sizeof(key), "k%d", (int)id);
    (void)snprintf(detail, sizeof(detail),
                   "{\"spec\":{},\"name\":\"a\",\"user\":\"u\",\"key\":\"%s\"}",
                   key);
    struct store_event e = {
        .job = id, .ev = EV_SUBMIT, .at_s = 1, .uid = 7, .detail = detail};
    struct store_job j = {.id = id,
                          .name = "a",
                          .user = "u",
                          .kind = "cv",
                          .uid = 7,
                          .state = "QUEUED",
                          .exit_code = -1,
                          .submit_s = 1,
                          .start_s = NAN,
                          .end_s = NAN,
                          .idempotency_key = key,
                          .spec = "{}",
                          .dir = "/d"};
    struct store_batch b = {
        .events = &e, .n_events = 1, .jobs = &j, .n_jobs = 1};
    if (s->ops->append(s, &b, NULL) < 0)
        exit(1);
}

static void test_moves(void)
{
    ok(is_at(0, 0), "nothing is stored");
    struct store *s = must_open(&t);
    ok(is_at(0, 0), "nor in a new store");
    submit(s, 3);
    ok(is_at(3, 1), "a job");
    submit(s, 4);
    ok(is_at(4, 2), "the next");
    s->ops->destroy(s);
    s = must_open(&t);
    submit(s, 5);
    ok(is_at(5, 3), "another life goes on");
    s->ops->destroy(s);
    is_int(check(), 0, "it is sound");
}

static void test_cut(void)
{
    sql(&t, "state.db",
        "DELETE FROM event WHERE seq = 3; DELETE FROM job WHERE job = 5");
    is_int(check(), 1, "the log has lost its end");
    ok(strstr(said, "its log ends at event 2, events up to 3 and jobs up to 5"),
       "fsck says: %s", said);
    int fd = creat(tmp_path(&t, "backup"), 0600);
    ok(fd >= 0 && close(fd) == 0 && check() == 0, "unless it was put back");
    (void)unlink(tmp_path(&t, "backup"));
    struct store *s = must_open(&t);
    ok(is_at(5, 3), "a start leaves the mark for whoever chooses the ids");
    submit(s, 9);
    ok(is_at(9, 3), "the next transaction does not");
    s->ops->destroy(s);
}

static void test_damaged(void)
{
    static const char *const bad[] = {
        "", "job=1 seq=1\n",
        "job=00000000000000000009 seq=0000000000000000000x\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int fd = creat(tmp_path(&t, "stored"), 0600);
        ok(fd >= 0 &&
               write(fd, bad[i], strlen(bad[i])) == (ssize_t)strlen(bad[i]) &&
               close(fd) == 0 && is_at(0, 0) && check() == 0,
           "a mark that cannot be read says nothing: '%.4s'", bad[i]);
    }
}

int main(void)
{
    tmp_begin(&t);
    test_moves();
    test_cut();
    test_damaged();
    tmp_end(&t);
    return tap_done();
}
