/* gpu_hours_limit.c - limits.gpu_hours through a whole daemon: a user who has
 * used them waits, after a restart and after a removal of old jobs as before,
 * until they are older than the window. */
#include "scheduler/ctld/usage/gpu_hours_limit.h"

#include <pwd.h>

#include "tests/unit/ctld/set_clock.h"

static struct rig r;
static char user[64];
static struct spec_pair pair = {.key = user, .value = (char *)"20 per 7d"};
static const struct spec_map limits = {.pairs = &pair, .n = 1};

static void limit_hours(struct ctld_conf *conf)
{
    conf->gpu_hours = &limits;
    conf->jobs_retention_s = DAY_S;
    conf->max_ended = 1;
}

static void submit(const char *spec, long long id)
{
    char is[32];
    (void)snprintf(is, sizeof(is), "\"id\":%lld,", id);
    is_int(call(&r, "POST", "/v1/jobs", spec, NULL), 201, "a job");
    ok(has(&r, is), "  as number %lld", id);
}

static const char waits[] = "LimitGpuHours: ";

/* One slot for a day is 24 hours. */
static void test_used_up(void)
{
    rig_up(&r, NULL);
    submit(SPEC("long"), 1);
    ok(becomes(&r, "/v1/jobs/1", "\"native_id\":\"pid:7\""), "  granted");
    is_int(as_worker(&r, "1/1/claim", "{\"holder\":\"h 1 1\"}"), 200,
           "  claimed");
    pass_days(1);
    exits(&r, 1, 0);
    ok(becomes(&r, "/v1/jobs/1", "\"state\":\"FAILED\""),
       "  and ended without a report");
    rig_down(&r);
    rig_up(&r, NULL); /* what was used is read before the first start */
    submit(SPEC("next"), 2);
    ok(becomes(&r, "/v1/jobs/2", waits), "the next one waits");
    ok(has(&r, " used 24 of 20 GPU-hours per 7d, free again at 20"),
       "  with what is used, and when it is free");
    is_int(get(&r, "/v1/usage"), 200, "the report");
    ok(has(&r, "\"jobs\":1,\"failed\":1,\"gpu_hours\":24.0"),
       "  says the same");
    rig_down(&r);
}

/* The memory that max_ended leaves is of the job that ended last. */
static void test_removed(void)
{
    static const char none[] =
        "{\"spec\":{\"version\":1,\"kind\":\"command\",\"name\":\"free\","
        "\"command\":[\"true\"],\"resources\":{\"gpus\":0}}}";
    r.alloc.ends_at_once = true;
    rig_up(&r, NULL);
    ok(becomes(&r, "/v1/jobs/2", waits), "so in the next life");
    submit(none, 3);
    ok(becomes(&r, "/v1/jobs/3", "\"state\":\"FAILED\""),
       "a job without GPUs does not");
    submit(none, 4);
    ok(becomes(&r, "/v1/jobs/4", "\"state\":\"FAILED\""), "  nor another");
    rig_down(&r);
    pass_days(3);
    rig_up(&r, NULL);
    /* Who asks for a job itself has it in memory, where it stays. */
    for (int i = 0; i < 3000; i++) {
        if (get(&r, "/v1/status") == 200 && !has(&r, "\"jobs_removed\":0"))
            break;
        (void)poll(NULL, 0, 20);
    }
    is_int(get(&r, "/v1/jobs/1"), 404, "the job that used them is removed");
    rig_down(&r);
    rig_up(&r, NULL);
    ok(becomes(&r, "/v1/jobs/2", waits) && has(&r, " used 24 of 20 "),
       "what it used still counts");
    is_int(get(&r, "/v1/usage?by=node"), 200, "the report");
    ok(has(&r, "\"name\":\"n1\"") && has(&r, "\"gpu_hours\":24.0"),
       "  still has it");
    rig_down(&r);
    pass_days(4);
    rig_up(&r, NULL);
    ok(becomes(&r, "/v1/jobs/2", "\"state\":\"FAILED\""),
       "after the window it runs");
    rig_down(&r);
}

int main(void)
{
    const struct passwd *pw = getpwuid(getuid());
    (void)snprintf(user, sizeof(user), "%s", pw ? pw->pw_name : "?");
    rig_init(&r);
    r.clock = &clock_set;
    r.tweak = limit_hours;
    test_used_up();
    test_removed();
    rig_clear(&r);
    return tap_done();
}
