/* engine_memory.c - a worker refuses its plan because it does not fit the
 * memory of a GPU: what the engine starts no more, also after a restart.
 */
#include "tests/contract/engine_play.h"

#define NO_RETRY "},\"retry\":{\"max\":0}}"
static const int64_t GIB = 1 << 30;

static const struct job *job_of(int i)
{
    return engine_job(w.engine, w.ids[i]);
}

static void begin(const struct world_script *s, const char *what)
{
    world_init(&w, s);
    if (!world_start(&w))
        abort();
    ok(true, "---- %s: %s", s->policy->name, what);
}

static void test_sizes(const struct policy *policy)
{
    const struct world_attempt refused = {
        .run_s = 5, .exit_code = 71, .silent = 1, .needed_bytes = 9 * GIB};
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 8,
        .policy = policy,
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .attempts = {refused, {.run_s = 90}}},
                 {.gpus = 1, .attempts = {{.run_s = 20}}},
                 {.gpus = 2, .attempts = {{.run_s = 20}}},
                 {.gpus = 1, .gpus_max = 2, .attempts = {{.run_s = 20}}}},
        .acts = {{.job = 0},
                 {.at_s = 20, .job = 1},
                 {.at_s = 20, .job = 2},
                 {.at_s = 20, .job = 3},
                 {.at_s = 60, .job = 1, .verb = W_CANCEL}},
        .n_acts = 5,
    };
    begin(&s, "one GPU is refused");
    play(15);
    is_int(job_of(0)->attempt, 2, "the job of a range starts again");
    is_int(job_of(0)->gpus, 2, "  on the next size");
    is_int(job_of(0)->retries, 0, "  which costs no retry");
    is_int(job_of(0)->state, JOB_RUNNING, "  and runs");
    play(30);
    is_int(job_of(1)->state, JOB_QUEUED, "a job of its class with one waits");
    is_str(job_of(1)->reason,
           "Memory: its class needs 9.0 GiB on each GPU, fake had 4.5 GiB; "
           "refused at up to 1 GPUs",
           "  and says why");
    is_int(job_of(2)->state, JOB_RUNNING, "one with two starts");
    is_int(job_of(3)->gpus, 2, "one of 1..2 has two");
    world_die(&w);
    play(35);
    is_int(job_of(1)->state, JOB_QUEUED, "after a restart it waits");
    ok(strncmp(job_of(1)->reason, "Memory: ", 8) == 0, "  %s",
       job_of(1)->reason);
    play_out("k0:COMPLETED/0/2[11] k1:CANCELLED/130/0[] "
             "k2:COMPLETED/0/1[1] k3:COMPLETED/0/1[1]");
}

static void test_types(void)
{
    static const char open[] = NO_RETRY;
    const struct world_attempt refused = {
        .run_s = 5, .exit_code = 71, .silent = 1, .needed_bytes = 9 * GIB};
    const struct world_script s = {
        .nodes = 2,
        .parts = 2,
        .shared = 8,
        .gpus_per_node = 4,
        .policy = &policy_backfill,
        .jobs = {{.gpus = 2, .spec_more = open, .attempts = {refused}},
                 {.gpus = 2, .spec_more = open, .attempts = {{.run_s = 30}}},
                 {.gpus = 1, .spec_more = open, .attempts = {{.run_s = 30}}},
                 {.gpus = 4, .spec_more = open, .attempts = {{.run_s = 30}}},
                 {.gpus = 1, .spec_more = open, .attempts = {{.run_s = 30}}}},
        .acts = {{.job = 0},
                 {.at_s = 20, .job = 1},
                 {.at_s = 20, .job = 2},
                 {.at_s = 20, .job = 3},
                 {.at_s = 40, .job = 4}},
        .n_acts = 5,
    };
    begin(&s, "a type of GPUs is refused");
    play(15);
    is_int(job_of(0)->state, JOB_FAILED, "a job of one size fails");
    is_int(job_of(0)->needed_bytes, 9 * GIB, "  with the bytes");
    play(30);
    is_str(engine_where(w.engine, job_of(1)).gpu_type, "fake1",
           "the next has the other type");
    is_str(engine_where(w.engine, job_of(2)).gpu_type, "fake1",
           "  one of fewer GPUs, too");
    is_str(engine_where(w.engine, job_of(3)).gpu_type, "fake0",
           "a larger one may try the type");
    is_int(job_of(3)->state, JOB_RUNNING, "  and runs there");
    play_out("k0:FAILED/71/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1] "
             "k3:COMPLETED/0/1[1] k4:COMPLETED/0/1[1]");
}

/* One type of GPUs was refused with few, and the other one is busy. */
static void test_busy_type(void)
{
    static const char open[] = NO_RETRY;
    static const char of_1[] =
        ",\"gpu_type\":\"fake1\"},\"retry\":{\"max\":0}}";
    const struct world_attempt refused = {
        .run_s = 5, .exit_code = 71, .silent = 1, .needed_bytes = 9 * GIB};
    const struct world_script s = {
        .nodes = 2,
        .parts = 2,
        .shared = 8,
        .gpus_per_node = 4,
        .policy = &policy_backfill,
        .jobs = {{.gpus = 2, .spec_more = open, .attempts = {refused}},
                 {.gpus = 4, .spec_more = of_1, .attempts = {{.run_s = 200}}},
                 {.gpus = 1,
                  .gpus_max = 4,
                  .spec_more = open,
                  .attempts = {{.run_s = 30}}}},
        .acts = {{.job = 0}, {.at_s = 20, .job = 1}, {.at_s = 25, .job = 2}},
        .n_acts = 3,
    };
    begin(&s, "a type of GPUs is refused, the other is busy");
    play(40);
    is_int(job_of(1)->state, JOB_RUNNING, "it is");
    is_int(job_of(2)->state, JOB_RUNNING, "a job with a range need not wait");
    is_str(engine_where(w.engine, job_of(2)).gpu_type, "fake0",
           "  it has the refused type");
    is_int(job_of(2)->gpus, 3, "  and more of them");
    play_out("k0:FAILED/71/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]");
}

int main(void)
{
    test_sizes(&policy_fifo);
    test_sizes(&policy_backfill);
    test_types();
    test_busy_type();
    return tap_done();
}
