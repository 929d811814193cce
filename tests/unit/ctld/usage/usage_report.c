/* usage_report.c - waits of jobs whose first attempt ended before the period
 * of a report, through a whole daemon; /metrics counts the same. */
#include "scheduler/ctld/usage/usage_report.h"

#include "tests/unit/ctld/set_clock.h"

static struct rig r;

static void has_attempt(int job, int attempt)
{
    char path[48], want[64];
    (void)snprintf(path, sizeof(path), "/v1/jobs/%d", job);
    (void)snprintf(want, sizeof(want), "\"attempt\":%d,", attempt);
    ok(becomes(&r, path, want), "  attempt %d", attempt);
    ok(becomes(&r, path, "\"native_id\":\"pid:7\""), "  is granted");
}

static void claim(const char *path)
{
    is_int(as_worker(&r, path, "{\"holder\":\"h 1 1\"}"), 200, "  claimed");
}

/* A day for the first attempt, and one more until the second is claimed. */
static void pass(int job, bool is_claimed)
{
    char path[48];
    is_int(call(&r, "POST", "/v1/jobs", SPEC("j"), NULL), 201, "a job");
    has_attempt(job, 1);
    (void)snprintf(path, sizeof(path), "%d/1/claim", job);
    if (is_claimed)
        claim(path);
    pass_days(1);
    (void)snprintf(path, sizeof(path), "/v1/jobs/%d/requeue", job);
    is_int(call(&r, "POST", path, NULL, NULL), 200, "  back to the queue");
    has_attempt(job, 2);
    pass_days(1);
    (void)snprintf(path, sizeof(path), "%d/2/claim", job);
    claim(path);
}

static int usage_of_half_a_day(void)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/v1/usage?since=%.0f",
                   set_wall_s(&clock_set) - 0.5 * DAY_S);
    return get(&r, path);
}

int main(void)
{
    rig_init(&r);
    r.clock = &clock_set;
    rig_up(&r, NULL);
    pass(1, true);
    is_int(usage_of_half_a_day(), 200, "the last twelve hours");
    ok(has(&r, "\"jobs\":1,") && has(&r, "\"mean_wait_s\":null"),
       "  have no wait: the first attempt had been claimed before");
    is_int(get(&r, "/metrics"), 200, "the metrics");
    ok(has(&r, "\nmgpu_wait_seconds_count 1\n"), "  have that one");
    pass(2, false);
    is_int(usage_of_half_a_day(), 200, "twelve hours later");
    ok(has(&r, "\"jobs\":2,") && has(&r, "\"mean_wait_s\":1728"),
       "  nobody had claimed the first: two days");
    is_int(get(&r, "/metrics"), 200, "the metrics");
    ok(has(&r, "\nmgpu_wait_seconds_count 2\n") &&
           has(&r, "\nmgpu_wait_seconds_bucket{le=\"604800\"} 2\n"),
       "  have the same");
    rig_down(&r);
    rig_clear(&r);
    return tap_done();
}
