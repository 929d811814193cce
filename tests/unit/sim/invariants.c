/* invariants.c - a simulation that breaks an invariant is found out.
 *
 * The bookkeeping gets attempts that no engine would start. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/job.h"
#include "scheduler/sim/run/sim_world.h"
#include "tests/tap.h"

/* Two nodes with 4 GPUs, and three jobs. */
struct small {
    struct sim_cluster cluster;
    struct sim_job trace_jobs[3];
    struct sim_trace trace;
    struct sim_conf conf;
    struct sim_state jobs[3];
    struct sim_result results[3];
    struct sim_output out;
    int32_t gpus[2], used[2], of_id[4], live[3], granted[3];
    struct sim_world w;
};

static void begin(struct small *s)
{
    struct error err = ERROR_INIT;

    *s = (struct small){.gpus = {4, 4}, .of_id = {-1, 0, 1, 2}};
    if (sim_cluster_parse("2x4", &s->cluster, &err) < 0) {
        (void)printf("Bail out! %s\n", err.msg);
        exit(1);
    }
    s->trace = (struct sim_trace){.jobs = s->trace_jobs, .n = 3};
    s->conf = (struct sim_conf){.cluster = &s->cluster, .trace = &s->trace};
    s->out = (struct sim_output){.results = s->results, .n = 3};
    s->w = (struct sim_world){.conf = &s->conf,
                              .out = &s->out,
                              .jobs = s->jobs,
                              .of_id = s->of_id,
                              .live = s->live,
                              .granted = s->granted,
                              .gpus = s->gpus,
                              .used = s->used,
                              .at_s = SIM_BEGIN_S};
    for (int i = 0; i < 3; i++) {
        (void)snprintf(s->trace_jobs[i].name, sizeof(s->trace_jobs[i].name),
                       "job-%d", i + 1);
        s->results[i].start_s = NAN;
    }
    clock_virtual_init(&s->w.clock, SIM_BEGIN_S, 0);
}

static void end(struct small *s)
{
    s->out.results = NULL; /* not of the heap */
    sim_output_clear(&s->out);
}

static void grant(struct small *s, uint64_t id, int32_t attempt, int32_t gpus,
                  const char *place)
{
    static struct job job;
    const struct store_event ev = {
        .ev = EV_GRANT, .job = id, .attempt = attempt};

    job = (struct job){.id = id, .attempt = attempt, .gpus = gpus, .nodes = 1};
    (void)snprintf(job.place, sizeof(job.place), "%s", place);
    sim_on_event(&s->w, &ev, &job);
}

static bool is_broken(struct small *s, const char *why)
{
    struct error err = ERROR_INIT;
    return sim_account_check(&s->w, &err) < 0 && strstr(err.msg, why);
}

static void test_node(void)
{
    static struct small s;

    begin(&s);
    grant(&s, 1, 1, 3, "n1:0-2");
    grant(&s, 2, 1, 4, "n2:0-3");
    ok(!is_broken(&s, ""), "two nodes in use");
    grant(&s, 3, 1, 2, "n1:2-3");
    ok(is_broken(&s, "a node has more GPUs in use than it has, job 'job-3'"),
       "the same GPU twice: %s", s.w.broken.msg);
    end(&s);

    begin(&s);
    grant(&s, 1, 1, 1, "n9:0");
    ok(is_broken(&s, "a place names no node"), "a node that is not there");
    end(&s);

    begin(&s);
    grant(&s, 1, 1, 3, "n1:0-1");
    ok(is_broken(&s, "the place of an attempt has not its GPUs"),
       "a place with fewer GPUs than the attempt");
    end(&s);
}

static void test_attempts(void)
{
    static struct small s;

    begin(&s);
    grant(&s, 1, 1, 1, "n1:0");
    grant(&s, 1, 1, 1, "n1:0");
    ok(!is_broken(&s, ""), "an attempt may be granted once more");
    grant(&s, 1, 2, 1, "n2:0");
    ok(is_broken(&s, "two attempts at a time, job 'job-1'"),
       "but not another one beside it");
    end(&s);
}

static void test_sums(void)
{
    static struct small s;

    begin(&s);
    s.results[0].gpu_s = 100;
    s.out.used_gpu_s = 100 + 1e-5;
    ok(!is_broken(&s, ""), "sums that agree");
    s.out.used_gpu_s = 101;
    ok(is_broken(&s, "the attempts had 100.000000 GPU-seconds, the nodes 101"),
       "sums that do not");
    s.out.used_gpu_s = 100;
    s.w.used_total = 1;
    ok(is_broken(&s, "1 GPUs are in use by nobody"), "a GPU that is left");
    end(&s);
}

/* The policy may leave a size when the attempt has computed for as long as its
 * restart took, at most the horizon. */
static void test_paid(void)
{
    static struct small s;
    static const double horizon_s[] = {0, 600}; /* 0: the default, 1800 s */
    const struct job job = {.gpus = 4, .nodes = 1};

    for (size_t i = 0; i < 2; i++)
        for (size_t late = 0; late < 2; late++) {
            begin(&s);
            s.w.engine_conf.goodput.horizon_s = horizon_s[i];
            s.w.engine_conf.goodput.interval_s = horizon_s[i] / 10;
            s.jobs[0].attempt = 2;
            s.jobs[0].restart_s = SIM_BEGIN_S;
            s.jobs[0].began_s = SIM_BEGIN_S + 5000; /* in the queue */
            s.w.clock.t_s = s.jobs[0].began_s + (i == 0 ? 1800 : horizon_s[i]) +
                            (late ? 1 : -1);
            sim_check_paid(&s.w, 0, &job);
            ok(is_broken(&s, late ? "" : "a size is left before it has paid") !=
                   late,
               "a long wait is paid after %g s", i == 0 ? 1800 : horizon_s[i]);
            end(&s);
        }
}

int main(void)
{
    test_paid();
    test_node();
    test_attempts();
    test_sums();
    return tap_done();
}
