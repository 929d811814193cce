/* usage_sums.c - GPU-hours by user, account, class and node, within a
 * period. */
#include "scheduler/ctld/usage/usage_sums.h"

#include <math.h>
#include <string.h>

#include "tests/tap.h"

enum { HOUR = 3600 };

static struct error err;

static struct usage_attempt attempt(uint64_t job, int32_t k, int32_t gpus,
                                    double from_h, double to_h)
{
    return (struct usage_attempt){.job = job,
                                  .attempt = k,
                                  .gpus = gpus,
                                  .user = "anna",
                                  .class = "cv/1",
                                  .state = "COMPLETED",
                                  .submit_s = from_h * HOUR - 60,
                                  .claim_s = from_h * HOUR,
                                  .end_s = to_h * HOUR};
}

static void add(struct usage_sums *s, struct usage_attempt a)
{
    if (usage_sums_add(s, &a, &err) < 0)
        ok(false, "%s", err.msg);
}

static double real(const json_t *rows, size_t i, const char *key)
{
    const json_t *v = json_object_get(json_array_get(rows, i), key);
    return json_is_null(v) ? NAN : json_number_value(v);
}

static const char *name(const json_t *rows, size_t i)
{
    const char *s =
        json_string_value(json_object_get(json_array_get(rows, i), "name"));
    return s ? s : "-";
}

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

/* The period is from hour 10 to hour 20. */
static void test_user(void)
{
    struct usage_sums s;
    usage_sums_init(&s, USAGE_USER, 10.0 * HOUR, 20.0 * HOUR);
    add(&s, attempt(1, 1, 4, 8, 11));
    struct usage_attempt failed = attempt(2, 1, 1, 12, 13);
    failed.state = "RUNNING"; /* and then it was requeued */
    add(&s, failed);
    failed = attempt(2, 2, 2, 14, 15);
    failed.state = "FAILED";
    add(&s, failed);
    add(&s, attempt(3, 1, 8, 19, NAN));
    struct usage_attempt other = attempt(4, 1, 1, 12, 18);
    other.user = "bert";
    add(&s, other);
    add(&s, attempt(5, 1, 9, 1, 9));    /* before it */
    add(&s, attempt(6, 1, 9, NAN, 12)); /* nobody claimed it */
    json_t *rows = usage_sums_rows(&s);
    is_int((long long)json_array_size(rows), 2, "two users");
    is_str(name(rows, 0), "anna", "the largest use first");
    ok(is_near(real(rows, 0, "gpu_hours"), 4 + 1 + 2 + 8),
       "attempts are cut to the period, and one that runs counts to its end");
    ok(is_near(real(rows, 0, "jobs"), 3), "a job of two attempts is one job");
    ok(is_near(real(rows, 0, "failed"), 1), "one failed");
    ok(is_near(real(rows, 0, "mean_wait_s"), 60),
       "first starts in the period waited a minute");
    ok(is_near(real(rows, 1, "gpu_hours"), 6), "the other one");
    ok(isnan(real(rows, 1, "busy_gpu_hours")), "and nothing tells how busy");
    json_decref(rows);
    usage_sums_clear(&s);
}

/* A job waits until the first claim, whichever attempt that is. */
static void test_waits(void)
{
    struct usage_sums s;
    struct usage_wait wait[1];
    usage_sums_init(&s, USAGE_USER, 10.0 * HOUR, 20.0 * HOUR);
    add(&s, attempt(1, 1, 4, NAN, 11)); /* taken back */
    struct usage_attempt a = attempt(1, 2, 4, 12, 13);
    a.submit_s = 11.0 * HOUR;
    add(&s, a);
    add(&s, attempt(1, 3, 4, 14, 15));
    json_t *rows = usage_sums_rows(&s);
    ok(is_near(real(rows, 0, "mean_wait_s"), HOUR),
       "nobody claimed the first attempt: the wait is that of the second");
    is_int((long long)s.waits.len, 0, "  and of no other");
    json_decref(rows);
    /* Its first attempt ended before the period. */
    a = attempt(2, 2, 4, 12, 13);
    a.submit_s = 9.0 * HOUR;
    add(&s, a);
    add(&s, attempt(2, 3, 4, 14, 15));
    rows = usage_sums_rows(&s);
    ok(is_near(real(rows, 0, "mean_wait_s"), HOUR),
       "an attempt that is not known may have been claimed");
    json_decref(rows);
    is_int((long long)s.waits.len, (long long)sizeof(wait), "  to be read");
    if (s.waits.len == sizeof(wait)) {
        memcpy(wait, s.waits.data, sizeof(wait));
        is_int(wait[0].attempt, 2, "  those before the second");
        usage_sums_wait(&s, &wait[0]);
    }
    rows = usage_sums_rows(&s);
    ok(is_near(real(rows, 0, "mean_wait_s"), 2 * HOUR), "  nobody had");
    json_decref(rows);
    usage_sums_clear(&s);
}

static void test_node(void)
{
    struct usage_sums s;
    struct usage_attempt a = attempt(1, 1, 5, 10, 12);
    usage_sums_init(&s, USAGE_NODE, 10.0 * HOUR, 20.0 * HOUR);
    a.place = "n1:0-2,7 n2:3 ...";
    add(&s, a);
    a = attempt(2, 1, 0, 10, 12);
    a.place = "n2";
    add(&s, a);
    json_t *rows = usage_sums_rows(&s);
    is_int((long long)json_array_size(rows), 2, "two nodes");
    ok(strcmp(name(rows, 0), "n1") == 0 &&
           is_near(real(rows, 0, "gpu_hours"), 8),
       "four GPUs on the first");
    ok(is_near(real(rows, 1, "gpu_hours"), 2) &&
           is_near(real(rows, 1, "jobs"), 2),
       "one on the second, where a job without GPUs ran, too");
    json_decref(rows);
    usage_sums_clear(&s);
}

static void test_busy(void)
{
    struct usage_sums s;
    struct usage_part part[2];
    usage_sums_init(&s, USAGE_ACCOUNT, 10.0 * HOUR, 20.0 * HOUR);
    add(&s, attempt(1, 1, 4, 10, 12));
    add(&s, attempt(2, 1, 1, 10, 12));
    struct usage_attempt closed = attempt(3, 1, 1, 10, 11);
    closed.is_closed = true;
    add(&s, closed);
    is_int((long long)s.parts.len, (long long)sizeof(part), "two to measure");
    memcpy(part, s.parts.data, sizeof(part));
    usage_sums_measure(&s, &part[0], 0.25);
    usage_sums_measure(&s, &part[1], NAN);
    json_t *rows = usage_sums_rows(&s);
    is_str(name(rows, 0), "-", "no account");
    ok(is_near(real(rows, 0, "gpu_hours"), 11), "all that was allocated");
    ok(is_near(real(rows, 0, "measured_gpu_hours"), 8), "what is known of it");
    ok(is_near(real(rows, 0, "busy_gpu_hours"), 2), "and was busy");
    json_decref(rows);
    usage_sums_clear(&s);
}

static void test_class(void)
{
    struct usage_sums s;
    usage_sums_init(&s, USAGE_CLASS, 10.0 * HOUR, 20.0 * HOUR);
    add(&s, attempt(1, 1, 1, 10, 12));
    add(&s, attempt(7, 1, 1, 10, 12));
    struct usage_attempt other = attempt(8, 1, 1, 10, 11);
    other.class = "command/sh-0";
    add(&s, other);
    is_int((long long)s.v[0].last_job, 7, "the newest job of a class");
    if (usage_sums_name(&s, 0, "mnist", &err) < 0)
        tap_diag("%s", err.msg);
    json_t *rows = usage_sums_rows(&s);
    is_str(
        json_string_value(json_object_get(json_array_get(rows, 0), "job_name")),
        "mnist", "  gives its name to the row");
    ok(json_is_null(json_object_get(json_array_get(rows, 1), "job_name")),
       "  where it is known");
    json_decref(rows);
    usage_sums_clear(&s);
}

int main(void)
{
    enum usage_by by = USAGE_USER;
    test_user();
    test_waits();
    test_node();
    test_busy();
    test_class();
    ok(usage_by_of("class", &by) == 0 && by == USAGE_CLASS, "a word");
    is_int(usage_by_of("week", &by), -1, "another");
    return tap_done();
}
