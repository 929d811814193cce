/* sums.c - a byte that changed within a text is found by the sum with which
 * its row was written. */
#include <math.h>
#include <string.h>

#include "tests/unit/db/files.h"

/* A job that ended, as the engine would write it; seq of its last event. */
static void write_job(struct store *s)
{
    static const char submit[] =
        "{\"spec\":{\"name\":\"a\",\"x\":1},\"user\":\"anna\",\"key\":\"k\","
        "\"name\":\"a\"}";
    static const char line[] =
        "{\"state\":\"CANCELLED\",\"uid\":7,\"name\":\"a\",\"user\":\"anna\","
        "\"reason\":\"cancelled\",\"exit_code\":130,\"submit_s\":1,"
        "\"end_s\":2.5}";
    struct error err = ERROR_INIT;
    struct store_event events[] = {
        {.job = 1, .ev = EV_SUBMIT, .at_s = 1, .uid = 7, .detail = submit},
        {.job = 1,
         .ev = EV_CANCEL,
         .at_s = 2.5,
         .uid = -1,
         .detail = "{\"why\":\"cancelled\"}"}};
    struct store_job job = {.id = 1,
                            .name = "a",
                            .user = "anna",
                            .kind = "cv",
                            .uid = 7,
                            .state = "QUEUED",
                            .exit_code = -1,
                            .submit_s = 1,
                            .start_s = NAN,
                            .end_s = NAN,
                            .idempotency_key = "k",
                            .spec = "{\"name\":\"a\",\"x\":1}",
                            .dir = "/j/1"};
    struct store_attempt attempt = {
        .job = 1, .attempt = 1, .place = "n1:0", .class = "c", .end_s = NAN};
    struct store_batch b = {.events = &events[0],
                            .n_events = 1,
                            .jobs = &job,
                            .n_jobs = 1,
                            .attempts = &attempt,
                            .n_attempts = 1};
    bool is_stored = s->ops->append(s, &b, &err) == 0;
    job.name = job.user = job.kind = job.idempotency_key = job.spec = job.dir =
        NULL; /* as they are */
    job.state = "CANCELLED";
    job.reason = "cancelled";
    job.exit_code = 130;
    job.end_s = 2.5;
    b.events = &events[1];
    b.n_attempts = 0;
    is_stored = is_stored && s->ops->append(s, &b, &err) == 0;
    struct store_archived gone = {.job = 1,
                                  .uid = 7,
                                  .key = "k",
                                  .state = JOB_CANCELLED,
                                  .end_s = 2.5,
                                  .line = line};
    b = (struct store_batch){.archived = &gone, .n_archived = 1};
    ok(is_stored && s->ops->append(s, &b, &err) == 0, "a job %s", err.msg);
}

static void take_finding(void *arg, const char *finding)
{
    char *all = arg;
    (void)snprintf(all + strlen(all), 1000 - strlen(all), "%s\n", finding);
}

static void finds(struct tmp *t, int n, const char *text, const char *what)
{
    char all[1000] = "";
    int got = store_sqlite_check(t->dir, take_finding, all);
    if (!ok(got == n && strstr(all, text), "%s", what))
        tap_diag("%d: %s", got, all);
}

/* What is written twice may differ from itself besides. */
static void finds_some(struct tmp *t, const char *text, const char *what)
{
    char all[1000] = "";
    int got = store_sqlite_check(t->dir, take_finding, all);
    if (!ok((got == 1 || got == 2) && strstr(all, text), "%s", what))
        tap_diag("%d: %s", got, all);
}

/* Each is undone by the next. */
static void test_sums(void)
{
    static const struct {
        const char *flip, *back, *finding;
    } flips[] = {
        {"UPDATE event SET detail = replace(detail, 'cancelled', 'cancellec')",
         "UPDATE event SET detail = replace(detail, 'cancellec', 'cancelled')",
         "event 2 of job 1 does not match its checksum"},
        {"UPDATE event SET at = 2.25 WHERE seq = 2",
         "UPDATE event SET at = 2.5 WHERE seq = 2",
         "event 2 of job 1 does not match its checksum"},
        {"UPDATE event SET uid = 8 WHERE seq = 1",
         "UPDATE event SET uid = 7 WHERE seq = 1",
         "event 1 of job 1 does not match its checksum"},
        {"UPDATE job SET reason = 'cancelleD'",
         "UPDATE job SET reason = 'cancelled'",
         "job 1: its row does not match its checksum"},
        {"UPDATE attempt SET place = 'n1:1'",
         "UPDATE attempt SET place = 'n1:0'",
         "job 1: the row of attempt 1 does not match its checksum"},
        {"UPDATE attempt SET reason = ''", "UPDATE attempt SET reason = NULL",
         "job 1: the row of attempt 1 does not match its checksum"},
        {"UPDATE job SET spec = replace(spec, '1', '2')",
         "UPDATE job SET spec = replace(spec, '2', '1')",
         "the spec of its row is not what was submitted"},
        {"UPDATE job SET user = 'anne'", "UPDATE job SET user = 'anna'",
         "the user of its row is not what was submitted"},
        {"UPDATE archived SET key = 'K', sum = NULL",
         "UPDATE archived SET key = 'k'", "the archive and its row disagree"},
        {"UPDATE archived SET state = 'FAILED', sum = NULL",
         "UPDATE archived SET state = 'CANCELLED'",
         "is archived as FAILED, by its events CANCELLED"},
        {"UPDATE archived SET job = 2", "UPDATE archived SET job = 1",
         "job 2 is archived but has no events"},
        {"UPDATE archived SET sum = 1", "UPDATE archived SET sum = NULL",
         "its archive entry does not match its checksum"},
        {"UPDATE line SET line = replace(line, '130', '131')",
         "UPDATE line SET line = replace(line, '131', '130')",
         "job 1: its summary line does not match its checksum"},
        {"UPDATE line SET line = replace(line, '\"uid\":7', '\"uid\":8'),"
         " sum = NULL",
         "UPDATE line SET line = replace(line, '\"uid\":8', '\"uid\":7')",
         "its summary line disagrees with its events: uid"},
        {"UPDATE line SET line = replace(line, '2.5', '2.25')",
         "UPDATE line SET line = replace(line, '2.25', '2.5')",
         "its summary line disagrees with its events: end_s"},
        {"UPDATE line SET line = replace(line, 'anna', 'anne')",
         "UPDATE line SET line = replace(line, 'anne', 'anna')",
         "its summary line disagrees with its events: user"},
        {"UPDATE line SET line = replace(line, '}', ',\"gpus\":1}')",
         "UPDATE line SET line = replace(line, ',\"gpus\":1}', '}')",
         "its summary line disagrees with its events: gpus"},
        {"UPDATE line SET line = replace(line, '}', ',\"loss\":0.5}')",
         "UPDATE line SET line = replace(line, ',\"loss\":0.5}', '}')",
         "its summary line disagrees with its events: loss"},
        {"UPDATE line SET line = replace(line, ',\"submit_s\":1', '')",
         "UPDATE line SET line = replace(line, ',\"end', "
         "',\"submit_s\":1,\"end')",
         "its summary line disagrees with its events: submit_s"},
        {"UPDATE line SET line = replace(line, '}', ',\"x\":1}')",
         "UPDATE line SET line = replace(line, ',\"x\":1}', '}')",
         "disagrees with its events: an unknown member"},
        {"UPDATE line SET line = line || '}'",
         "UPDATE line SET line = replace(line, '}}', '}')",
         "job 1: its summary line is damaged"},
        {"UPDATE line SET job = 2", "UPDATE line SET job = 1",
         "job 2 has a summary line but is not archived"},
    };
    struct tmp t;

    tmp_begin(&t);
    struct store *s = must_open(&t);
    write_job(s);
    s->ops->destroy(s);
    finds(&t, 0, "", "what was written is sound");
    for (size_t i = 0; i < sizeof(flips) / sizeof(flips[0]); i++) {
        sql(&t, "state.db", flips[i].flip);
        finds_some(&t, flips[i].finding, flips[i].flip);
        sql(&t, "state.db", flips[i].back);
    }
    finds(&t, 0, "", "and sound again");
    tmp_end(&t);
}

static void test_emptied(void)
{
    struct tmp t;

    tmp_begin(&t);
    struct store *s = must_open(&t);
    s->ops->destroy(s);
    ok(truncate(tmp_path(&t, "metrics.db"), 0) == 0, "metrics.db is empty");
    finds(&t, 0, "", "as when the first start was cut short");
    s = must_open(&t);
    write_job(s);
    s->ops->destroy(s);
    finds(&t, 0, "", "the next start made it");
    ok(truncate(tmp_path(&t, "metrics.db"), 0) == 0, "it is emptied");
    finds(&t, 1, "metrics.db: empty", "beside jobs that is damage");
    tmp_end(&t);
}

int main(void)
{
    test_sums();
    test_emptied();
    return tap_done();
}
