/* recorded_world.c - traces of the Standard Workload Format, the nodes of a
 * Slurm, and jobs that are made elastic.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/sim/elastic.h"
#include "scheduler/sim/run/sim_cluster.h"
#include "scheduler/sim/trace/scaling_law.h"
#include "scheduler/sim/trace/slurm_nodes.h"
#include "tests/tap.h"

static struct lines lines_of(const char *text)
{
    struct lines l;
    struct error err = ERROR_INIT;

    if (lines_text(&l, "f", text, strlen(text), &err) < 0) {
        (void)printf("Bail out! %s\n", err.msg);
        exit(1);
    }
    return l;
}

static void test_swf(void)
{
    struct lines l = lines_of(
        ";UnixStartTime: 1143849600\n"
        "; MaxProcs: 128\n"
        "    1   100   20  300   12 -1 -1   16  600 -1  1 7 2 3 1 -1 -1 -1  \n"
        "    2   200   -1  300   -1 -1 -1    8  100 -1  0 7 2 3 1 -1 -1 -1\n"
        "    3   200   -1   -1   -1 -1 -1    8  100 -1  5 7 2 3 1 -1 -1 -1\n"
        "    4   200    1    5    8 -1 -1    8  100 -1  2 7 2 3 1 -1 -1 -1\n"
        "    5   200    1    5   -1 -1 -1   -1  100 -1  1 7 2 3 1 -1 -1 -1\n"
        "    6   200    1 five    8 -1 -1    8  100 -1  1 7 2 3 1 -1 -1 -1\n"
        "    7   200    1    5    8\n");
    struct sim_trace t = {.n = 0};
    struct error err = ERROR_INIT;

    ok(swf_trace_read(&l, 8, &t, &err) == 0, "it reads: %s", err.msg);
    lines_clear(&l);
    is_int((long long)t.n, 2, "two jobs");
    is_int((long long)t.epoch_s, 1143849600, "UnixStartTime");
    is_int(t.jobs[0].gpus_max, 2, "12 processors are 2 GPUs of 8");
    ok(t.jobs[0].submit_s == 100 && t.jobs[0].work == 300 &&
           t.jobs[0].limit_s == 600 && t.jobs[0].recorded_start_s == 120 &&
           t.jobs[0].recorded_gpu_s == 600,
       "its times");
    is_str(t.jobs[0].class, "user-7/program-3/2", "class");
    ok(!t.jobs[1].is_recorded && t.jobs[1].gpus_max == 1 &&
           t.jobs[1].limit_s == 301,
       "without a wait nothing is recorded; it ran past its limit");
    ok(t.left_out.never_started == 1 && t.left_out.parts == 1 &&
           t.left_out.without_gpus == 1 && t.left_out.bad == 2,
       "what is left out");
    is_str(buf_str(&t.findings),
           "f:8:18: run time: 'five' is not a number in -1..3.1536e+08\n"
           "f:9:5: 5 fields, expected 'the 18 numbers of the format'\n",
           "findings");
    sim_trace_clear(&t);
}

/* The nodes, or the error. */
static const char *nodes_of(const char *text)
{
    static char ret[400];
    struct lines l = lines_of(text);
    struct buf out = BUF_INIT;
    struct error err = ERROR_INIT;
    int rc = slurm_nodes_read(&l, &out, &err);

    (void)snprintf(ret, sizeof(ret), "%s", rc == 0 ? buf_str(&out) : err.msg);
    buf_clear(&out);
    lines_clear(&l);
    return ret;
}

static void test_nodes(void)
{
    is_str(nodes_of("NodeName=b Arch=x CoresPerSocket=1\n"
                    "   Gres=gpu:a100:8(S:0-1)\n"
                    "   OS=Linux 6.1 #1 SMP\n"
                    "   CfgTRES=cpu=64,gres/gpu=8\n"
                    "\n"
                    "NodeName=a Arch=x\n   Gres=gpu:a100:8(S:0-1),nic:1\n"
                    "NodeName=c Arch=x\n   Gres=(null)\n"
                    "NodeName=d Arch=x\n   Gres=gpu:4\n"),
           "2x8:a100,1x4", "scontrol show node");
    is_str(nodes_of("NodeName=a Gres=gpu:h100:2 State=IDLE\n"
                    "NodeName=b Gres=gpu:h100:2,gpu:a100:2 State=DOWN\n"),
           "1x4:h100,1x2:h100", "with --oneliner; the sum of two types");
    is_str(nodes_of("NodeName=a Gres=gpu:a+b:2 Comment=old Gres=gpu:8\n"),
           "1x2:a_b", "a comment that says Gres=");
    is_str(nodes_of("n1 gpu:a100:8(S:0-1)\nn2 gpu:a100:8\nn1 gpu:a100:8\n"
                    "n3 (null)\n"),
           "2x8:a100", "sinfo, n1 in two partitions");
    is_str(nodes_of("NODELIST GRES\nn1 gpu:2\n"), "1x2", "sinfo's header");
    ok(strncmp(nodes_of("n[1-4] gpu:a100:8\n"),
               "f:1:1: neither scontrol's nor sinfo's: ", 39) == 0,
       "nodes together: %s", nodes_of("n[1-4] gpu:a100:8\n"));
    is_str(nodes_of("n1 (null)\n"), "f: no node with GPUs", "no GPUs");
    is_str(nodes_of(""), "f: no node with GPUs", "no nodes");
}

/* How much faster a job is on n GPUs than on one; NAN: there is no such law. */
static double speedup(const char *text, int32_t n)
{
    const struct sim_job job = {.work = 100, .work_gpus = 1};
    const struct speed_place place = {"", 1, n};
    struct scaling_law law;
    struct error err = ERROR_INIT;
    struct speed *s;
    double ret;

    if (scaling_law_parse(text, &law, &err) < 0 ||
        scaling_law_speed(&law, &s, &err) < 0)
        return NAN;
    ret = job.work / speed_time(s, &job, &place, 0, job.work);
    s->ops->destroy(s);
    return ret;
}

static double table_speedup(const char *rows, int32_t n)
{
    char file[] = "/tmp/mgpu-law.XXXXXX", text[64];
    int fd = mkstemp(file);
    double ret = NAN;

    (void)snprintf(text, sizeof(text), "table:%s", file);
    if (fd >= 0 && write(fd, rows, strlen(rows)) == (ssize_t)strlen(rows))
        ret = speedup(text, n);
    (void)close(fd);
    (void)unlink(file);
    return ret;
}

static void test_laws(void)
{
    static const char *const wrong[] = {
        "amdahl:1.5", "amdahl:", "power", "power:-1", "linear:", "x", "table:"};
    static const char *const tables[] = {"1,1\n4,2\n4,3\n", "2,2\n", "",
                                         "1,1\n2\n", "1,1\n2,0\n"};
    static const char rows[] = "1,1\n2,1.25\n4,2.5\n";

    ok(speedup("linear", 8) == 8, "linear");
    ok(speedup("amdahl:0.75", 3) == 2, "amdahl: 1 / (1/4 + 3/4 / 3)");
    ok(speedup("power:0.5", 16) == 4, "power");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ok(isnan(speedup(wrong[i], 2)), "'%s' is no law", wrong[i]);
    ok(table_speedup(rows, 1) == 1 && table_speedup(rows, 2) == 1.25,
       "the rows of a table");
    ok(table_speedup(rows, 3) == 1.875, "between two rows");
    ok(table_speedup(rows, 64) == 2.5, "behind the last");
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        ok(isnan(table_speedup(tables[i], 2)), "table %zu is none", i);
}

static void test_law_speed(void)
{
    struct scaling_law law;
    struct error err = ERROR_INIT;
    struct speed *s = NULL;
    const struct sim_job job = {.work = 100, .work_gpus = 4};
    const struct speed_place four = {"", 1, 4}, sixteen = {"", 2, 8};

    if (scaling_law_parse("power:0.5", &law, &err) < 0 ||
        scaling_law_speed(&law, &s, &err) < 0) {
        ok(false, "%s", err.msg);
        return;
    }
    ok(speed_time(s, &job, &four, 0, job.work) == 100, "as it was recorded");
    ok(speed_time(s, &job, &sixteen, 0, job.work) == 50,
       "twice as fast on four times as many");
    s->ops->destroy(s);
}

static void test_fit(void)
{
    static const struct {
        int32_t gpus, fits; /* 0: leaves */
    } rows[] = {{3, 3}, {4, 4}, {5, 6}, {7, 8}, {10, 12}, {16, 16}, {17, 0}};
    enum { ROWS = sizeof(rows) / sizeof(rows[0]) };
    struct sim_trace t = {.n = 0};
    struct sim_cluster c;
    struct error err = ERROR_INIT;

    if (sim_cluster_parse("4x4", &c, &err) < 0)
        (void)printf("Bail out! %s\n", err.msg);
    for (size_t i = 0; i < ROWS; i++) {
        struct sim_job job = {.gpus_min = rows[i].gpus,
                              .gpus_max = rows[i].gpus,
                              .work_gpus = rows[i].gpus};
        if (sim_trace_add(&t, &job, &err) < 0)
            (void)printf("Bail out! %s\n", err.msg);
    }
    sim_cluster_fit_jobs(&c, &t);
    is_int((long long)t.n, ROWS - 1, "one is larger than the cluster");
    for (size_t i = 0; i < t.n && i < ROWS; i++)
        ok(t.jobs[i].gpus_max == rows[i].fits &&
               t.jobs[i].work_gpus == rows[i].fits,
           "%d GPUs", (int)rows[i].gpus);
    ok(t.left_out.too_large == 1 && t.left_out.rounded == 3, "counted");
    sim_trace_clear(&t);
}

enum { JOBS = 1000 };

/* How many of JOBS jobs are elastic; marks them. */
static size_t choose(const char *text, uint32_t seed, bool ret[JOBS])
{
    struct sim_trace t = {.n = 0};
    struct error err = ERROR_INIT;
    struct elastic e;
    size_t n = 0;

    for (int i = 0; i < JOBS; i++) {
        struct sim_job job = {.gpus_min = 6, .gpus_max = 6};
        (void)snprintf(job.name, sizeof(job.name), "%d", i);
        (void)snprintf(job.user, sizeof(job.user), "u%d", i % 4);
        (void)snprintf(job.label, sizeof(job.label), "train-%d", i % 10);
        if (sim_trace_add(&t, &job, &err) < 0)
            (void)printf("Bail out! %s\n", err.msg);
    }
    if (elastic_parse(text, &e, &err) < 0)
        (void)printf("Bail out! %s\n", err.msg);
    else
        n = elastic_apply(&e, seed, 20, &t);
    for (int i = 0; i < JOBS; i++) {
        ret[i] = t.jobs[i].gpus_min == 2 && t.jobs[i].gpus_max == 20;
        n -= ret[i];
    }
    is_int((long long)n, 0, "as many as it says");
    n = 0;
    for (int i = 0; i < JOBS; i++)
        n += ret[i];
    sim_trace_clear(&t);
    return n;
}

static void test_elastic(void)
{
    static const char *const wrong[] = {"20",    "%",     "101%", "-1%",
                                        "user=", "name=", "x=y",  ""};
    static bool some[JOBS], more[JOBS], other[JOBS];
    struct elastic e;
    bool is_part = true;

    is_int((long long)choose("0%", 1, some), 0, "none");
    is_int((long long)choose("100%", 1, some), JOBS, "all");
    is_int((long long)choose("user=u3", 1, some), JOBS / 4, "those of a user");
    is_int((long long)choose("name=train-[12]", 1, some), JOBS / 5,
           "those of a name");
    size_t n = choose("20%", 1, some);
    (void)choose("50%", 1, more);
    for (int i = 0; i < JOBS; i++)
        is_part = is_part && (!some[i] || more[i]);
    ok(n > 0 && n < JOBS && is_part, "a larger share has those of a smaller");
    (void)choose("20%", 1, other);
    ok(memcmp(some, other, sizeof(some)) == 0, "the same seed, the same jobs");
    (void)choose("20%", 2, other);
    ok(memcmp(some, other, sizeof(some)) != 0, "another one, others");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ok(elastic_parse(wrong[i], &e, NULL) < 0, "'%s' is no share", wrong[i]);
}

int main(void)
{
    test_swf();
    test_nodes();
    test_laws();
    test_law_speed();
    test_fit();
    test_elastic();
    return tap_done();
}
