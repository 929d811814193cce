/* engine_update.c - a job changes what it asked for: who may change what and
 * when, what the change does, and what is left of it after a crash.
 */
#include <math.h>

#include "scheduler/engine/update.h"
#include "tests/contract/engine_play.h"

static struct error err;

static const struct job *job_of(int i)
{
    return engine_job(w.engine, w.ids[i]);
}

static bool takes(int i, int64_t uid, struct engine_update u)
{
    return engine_update(w.engine, w.ids[i], uid, &u, &err) == 0;
}

static bool refuses(int i, int64_t uid, struct engine_update u,
                    enum err_code code, const char *why)
{
    bool is = !takes(i, uid, u) && err.code == code && strstr(err.msg, why);

    if (!is)
        tap_diag("%s", err.msg);
    return is;
}

static struct engine_update limit(double s)
{
    return (struct engine_update){.has_limit = true, .limit_s = s};
}

/* No job of the world has a time limit of its own, so the first has 100 s. */
static const struct world_script script = {
    .nodes = 1,
    .gpus_per_node = 2,
    .policy = &policy_backfill,
    .jobs = {{.gpus = 2,
              .spec_more = ",\"time_limit\":\"100s\"},\"retry\":{\"max\":0}}",
              .attempts = {{.run_s = 1000}}},
             {.gpus = 2, .attempts = {{.run_s = 5}}},
             {.gpus = 1, .attempts = {{.run_s = 5}}}},
    .acts = {{.job = 0}, {.at_s = 1, .job = 1}, {.at_s = 2, .job = 2}},
    .n_acts = 3,
};

static void test_running(void)
{
    world_init(&w, &script);
    if (!world_start(&w))
        abort();
    play(10);
    is_int((long long)job_of(0)->limit_s, 100, "---- a running job");
    ok(refuses(0, 1001, limit(50), ERR_DENIED, ""), "is not a stranger's");
    ok(refuses(0, 1000, limit(200), ERR_DENIED, "administrator"),
       "its user makes it no longer");
    ok(takes(0, 0, limit(200)), "an administrator does");
    ok(takes(0, 1000, limit(150)), "its user makes it shorter");
    is_int((long long)job_of(0)->attempt_limit_s, 150, "  so is its attempt");
    ok(refuses(0, 0, (struct engine_update){.partition = "other"}, ERR_STATE,
               "only the partition of a pending job"),
       "its partition stays");
    ok(refuses(0, 0, (struct engine_update){.account = "other"}, ERR_STATE,
               "only the account of a pending job"),
       "  and its account");
    ok(refuses(0, 0, limit(0.5), ERR_INVAL, "1s..366d"), "no limit of 0.5 s");
    ok(refuses(0, 0, (struct engine_update){.has_parallel = true}, ERR_INVAL,
               "is no task of a sweep"),
       "it has no tasks");
    uint64_t staged = engine_staged(w.engine);
    ok(takes(0, 0, limit(150)), "the same again");
    is_int((long long)engine_staged(w.engine), (long long)staged,
           "  is no event");
    play(20);
    world_die(&w);
    is_int((long long)job_of(0)->limit_s, 150, "a restart knows it");
    play_out("k0:TIMEOUT/124/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]");
    ok(true, "the limit ended it");
}

static void test_pending(void)
{
    world_init(&w, &script);
    if (!world_start(&w))
        abort();
    play(10);
    const struct engine_update all = {.has_limit = true,
                                      .limit_s = INFINITY,
                                      .account = "second",
                                      .has_priority = true,
                                      .priority = 7};
    is_int(job_of(1)->state, JOB_QUEUED, "---- a pending job");
    ok(takes(1, 1000, all), "changes all of it");
    ok(isinf(job_of(1)->limit_s) && job_of(1)->priority == 7, "  at once");
    is_str(job_of(1)->where.account, "second", "  also its account");
    ok(takes(1, 1000, (struct engine_update){.account = "third"}),
       "and once more");
    world_die(&w); /* before it is stored */
    ok(job_of(1)->where.account == NULL && job_of(1)->priority == 0,
       "what was not stored is undone");
    ok(takes(1, 1000, all), "it is asked again");
    play(20);
    world_die(&w);
    is_str(job_of(1)->where.account, "second", "a restart knows it");
    ok(refuses(1, 1000,
               (struct engine_update){.has_priority = true, .priority = 51},
               ERR_INVAL, "you may give -50..50"),
       "a user may not give it 51");
    ok(takes(1, 0,
             (struct engine_update){.has_priority = true, .priority = 51}),
       "  an administrator may");
    play_out("k0:TIMEOUT/124/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]");
}

/* ---- the limits of partitions ----------------------------------------------
 */
static const struct alloc_partition parts[] = {
    {.name = "long", .is_default = true, .default_minutes = 2},
    {.name = "short", .max_minutes = 1, .default_minutes = 1},
    {.name = "any"}};

static size_t partitions(struct alloc *a, const struct alloc_partition **ret)
{
    (void)a;
    *ret = parts;
    return sizeof(parts) / sizeof(parts[0]);
}

static struct alloc *with_partitions(struct alloc *a)
{
    static struct alloc_ops ops;

    ops = *a->ops;
    ops.partitions = partitions;
    a->ops = &ops;
    return a;
}

/* Seconds; 0: none. */
static int limit_in(int i, const char *partition)
{
    if (!takes(i, 1000, (struct engine_update){.partition = partition})) {
        tap_diag("%s", err.msg);
        return -1;
    }
    return isinf(job_of(i)->limit_s) ? 0 : (int)job_of(i)->limit_s;
}

static void test_partition(void)
{
    world_init(&w, &script);
    w.wrap = with_partitions;
    w.conf.where.partition = "long";
    if (!world_start(&w))
        abort();
    play(10);
    is_int((long long)job_of(1)->limit_s, 120, "---- a job without a limit");
    is_int(limit_in(1, "short"), 60, "  gets that of another partition");
    is_int(limit_in(1, "any"), 0, "  none in one without");
    is_int(limit_in(1, "short"), 60, "  and one again");
    is_int((long long)job_of(1)->attempt_limit_s, 60, "  as its attempt");
    play(20);
    world_die(&w);
    is_int((long long)job_of(1)->limit_s, 60, "  which a restart knows");
    is_int(limit_in(1, "long"), 120, "  as it knows that nobody named it");
    ok(takes(1, 1000, limit(120)), "  one that is the same is named");
    ok(refuses(1, 1000, (struct engine_update){.partition = "short"}, ERR_INVAL,
               ""),
       "  and does not change: %s", err.msg);
    is_int(limit_in(1, "any"), 120, "  where it is allowed");
    play_out("k0:TIMEOUT/124/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]");
}

int main(void)
{
    test_running();
    test_pending();
    test_partition();
    return tap_done();
}
