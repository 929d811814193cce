/* known_jobs.c - which jobs are known, and what of them is news. */
#include "slurm/helper/known_jobs.h"

#include <stdio.h>
#include <string.h>

#include "tests/tap.h"

/* "job 3 PENDING;gone 4;scan;", to compare with. */
static const char *said(const struct buf *news)
{
    static char out[1024];
    const char *p = buf_str(news);
    size_t n = 0;
    out[0] = '\0';
    for (const char *end; (end = strchr(p, '\n')); p = end + 1) {
        struct helper_news m;
        if (helper_news_parse(p, (size_t)(end - p), &m, NULL) < 0)
            return "not a line";
        n += (size_t)(m.ev == HELPER_JOB
                          ? snprintf(out + n, sizeof(out) - n, "job %u %s;",
                                     m.job.slurm_id, m.job.state)
                      : m.ev == HELPER_GONE
                          ? snprintf(out + n, sizeof(out) - n, "gone %u;",
                                     m.job.slurm_id)
                          : snprintf(out + n, sizeof(out) - n, "scan;"));
    }
    return out;
}

static struct helper_job job(uint32_t id, const char *tag, const char *state)
{
    struct helper_job j = {.uid = 7, .slurm_id = id};
    (void)snprintf(j.tag, sizeof(j.tag), "%s", tag);
    (void)snprintf(j.state, sizeof(j.state), "%s", state);
    return j;
}

static void scan(struct seen *s, uint64_t when, const struct helper_job *jobs,
                 size_t n, const char *want, const char *what)
{
    struct buf news = BUF_INIT;
    ok(known_jobs_scan_end(s, when, jobs, n, &news, NULL) == 0, "scan");
    is_str(said(&news), want, what);
    buf_clear(&news);
}

static void test_news(struct seen *s)
{
    struct helper_job two[] = {job(9, "mgpu:c:2:1", "RUNNING"),
                               job(3, "mgpu:c:1:1", "PENDING")};
    scan(s, known_jobs_scan_begin(s), two, 2,
         "job 3 PENDING;job 9 RUNNING;scan;",
         "the first scan tells all, by id");
    scan(s, known_jobs_scan_begin(s), two, 2, "scan;",
         "the same again: nothing");
    (void)snprintf(two[1].reason, sizeof(two[1].reason), "Priority");
    scan(s, known_jobs_scan_begin(s), two, 2, "job 3 PENDING;scan;",
         "another reason");
    (void)snprintf(two[0].place, sizeof(two[0].place), "n1:0");
    two[1].restarts = 1;
    scan(s, known_jobs_scan_begin(s), two, 2,
         "job 3 PENDING;job 9 RUNNING;scan;", "another place, a restart");
    scan(s, known_jobs_scan_begin(s), two, 1, "gone 3;scan;", "one vanishes");
    two[0] = job(9, "mgpu:c:5:1", "PENDING");
    scan(s, known_jobs_scan_begin(s), two, 1, "gone 9;job 9 PENDING;scan;",
         "its id is another job's");
    two[0].uid = 8;
    scan(s, known_jobs_scan_begin(s), two, 1, "gone 9;job 9 PENDING;scan;",
         "or another user's");
    scan(s, known_jobs_scan_begin(s), NULL, 0, "gone 9;scan;", "none is left");
}

static int ask(struct seen *s, const char *tag, uid_t uid, uint32_t *ret_id)
{
    enum seen_answer a;
    ok(known_jobs_ask(s, tag, uid, &a, ret_id, NULL) == 0, "ask");
    return (int)a;
}

static void test_ask(struct seen *s)
{
    uint32_t id = 0;
    const struct helper_job one = job(4, "mgpu:c:1:1", "PENDING");
    is_int(ask(s, "mgpu:c:1:1", 7, &id), SEEN_NEVER, "a new one");
    is_int(ask(s, "mgpu:c:1:1", 7, &id), SEEN_NOW, "is being submitted");
    is_int(ask(s, "mgpu:c:1:1", 8, &id), SEEN_NEVER, "not for another user");
    known_jobs_done(s, "mgpu:c:1:1", 8, 0);
    is_int(ask(s, "mgpu:c:1:1", 8, &id), SEEN_NEVER, "refused: as before");
    known_jobs_done(s, "mgpu:c:1:1", 8, 0);

    uint64_t early = known_jobs_scan_begin(s);
    known_jobs_done(s, "mgpu:c:1:1", 7, 4);
    ok(ask(s, "mgpu:c:1:1", 7, &id) == SEEN_BEFORE && id == 4, "submitted");
    scan(s, early, NULL, 0, "scan;", "a scan that began before");
    ok(ask(s, "mgpu:c:1:1", 7, &id) == SEEN_BEFORE, "proves nothing");
    scan(s, known_jobs_scan_begin(s), &one, 1, "job 4 PENDING;scan;",
         "one with it");
    id = 0;
    ok(ask(s, "mgpu:c:1:1", 7, &id) == SEEN_BEFORE && id == 4, "is right");
    scan(s, known_jobs_scan_begin(s), NULL, 0, "gone 4;scan;",
         "and one without");
    is_int(ask(s, "mgpu:c:1:1", 7, &id), SEEN_NEVER, "as well: it is lost");
    scan(s, known_jobs_scan_begin(s), NULL, 0, "scan;",
         "while it is submitted");
    is_int(ask(s, "mgpu:c:1:1", 7, &id), SEEN_NOW, "a scan changes nothing");
    known_jobs_done(s, "mgpu:c:1:1", 7, 0);

    const struct helper_job two[] = {job(5, "mgpu:c:1:1", "RUNNING"),
                                     job(6, "mgpu:c:1:1", "PENDING")};
    scan(s, known_jobs_scan_begin(s), two, 2,
         "job 5 RUNNING;job 6 PENDING;scan;", "two with one tag");
    ok(ask(s, "mgpu:c:1:1", 7, &id) == SEEN_BEFORE && id == 6, "the later");
    char tag[HELPER_TAG_CAP + 1];
    memset(tag, 'a', sizeof(tag) - 1);
    tag[HELPER_TAG_CAP] = '\0';
    enum seen_answer a;
    ok(known_jobs_ask(s, tag, 7, &a, &id, NULL) == -1,
       "a tag that is too long");
}

static void test_many(struct seen *s)
{
    enum { N = 100 };
    uint32_t id;
    char tag[32];
    for (int i = 0; i < N; i++) {
        (void)snprintf(tag, sizeof(tag), "mgpu:c:%d:1", 1000 + i);
        enum seen_answer a;
        if (known_jobs_ask(s, tag, 7, &a, &id, NULL) < 0 || a != SEEN_NEVER)
            ok(false, "%s is new", tag);
    }
    for (int i = 0; i < N; i++) {
        (void)snprintf(tag, sizeof(tag), "mgpu:c:%d:1", 1000 + i);
        known_jobs_done(s, tag, 7, i % 2 ? (uint32_t)(5000 + i) : 0);
    }
    int n_before = 0;
    for (int i = 0; i < N; i++) {
        (void)snprintf(tag, sizeof(tag), "mgpu:c:%d:1", 1000 + i);
        n_before += ask(s, tag, 7, &id) == SEEN_BEFORE;
    }
    is_int(n_before, N / 2, "every other was accepted");
}

int main(void)
{
    struct seen *s;
    if (known_jobs_create(&s, NULL) < 0)
        return 1;
    test_news(s);
    test_ask(s);
    test_many(s);
    known_jobs_destroy(s);
    known_jobs_destroy(NULL);
    return tap_done();
}
