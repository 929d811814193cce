/* sacct_trace.c - what Slurm recorded as a trace: times, sizes, and jobs of
 * several lines.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scheduler/sim/trace/sim_trace.h"
#include "tests/tap.h"

static const char head[] =
    "JobID|JobName|User|State|Submit|Eligible|Start|End|Elapsed|Timelimit|"
    "NNodes|AllocTRES|ReqTRES\n";
#define DAY "2026-11-01T"

static int load(const char *header, const char *rest, struct sim_trace *ret,
                struct error *err)
{
    struct buf text = BUF_INIT;
    struct lines l;
    int rc =
        buf_addstr(&text, header, err) < 0 ? -1 : buf_addstr(&text, rest, err);

    *ret = (struct sim_trace){.n = 0};
    if (rc == 0)
        rc = lines_text(&l, "f", buf_str(&text), text.len, err);
    if (rc == 0) {
        rc = sacct_trace_read(&l, ret, err);
        lines_clear(&l);
    }
    buf_clear(&text);
    return rc;
}

/* Reads lines below the usual header; the test ends if they are not n jobs. */
static struct sim_trace read_lines(const char *rest, size_t n)
{
    struct sim_trace t;
    struct error err = ERROR_INIT;

    if (load(head, rest, &t, &err) < 0 || t.n != n || !t.jobs) {
        (void)printf("Bail out! %zu jobs. %s%s\n", t.n, err.msg,
                     buf_str(&t.findings));
        exit(1);
    }
    return t;
}

static const char *left_out(const struct sim_trace *t)
{
    static char text[256];
    struct buf b = BUF_INIT;

    text[0] = '\0';
    if (sim_trace_say_left_out(t, &b, NULL) == 0)
        (void)snprintf(text, sizeof(text), "%s", buf_str(&b));
    buf_clear(&b);
    return text;
}

static void test_job(void)
{
    struct sim_trace t = read_lines(
        "7|train|anna|COMPLETED|" DAY "08:00:00|" DAY "08:05:00|" DAY
        "08:15:00|" DAY "10:15:00|01:00:00|1-02:03:04|2|"
        "billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,node=1|gres/gpu=4,node=1\n"
        "8|late|bob|RUNNING|" DAY "08:00:00|Unknown|" DAY
        "08:00:30|Unknown|00:00:10|UNLIMITED|2|gres/gpu:a100=4,gres/gpu:v100=2"
        "|gres/gpu=6\n",
        2);

    is_int((long long)t.epoch_s, 1793520030, "from the first start");
    ok(t.jobs[0].submit_s == 270, "a job counts from when it is eligible");
    ok(t.jobs[0].work == 3600, "its length is Elapsed, not End - Start");
    ok(t.jobs[0].limit_s == 86400 + 2 * 3600 + 3 * 60 + 4, "a time limit");
    is_int(t.jobs[0].gpus_max, 4, "the total and not the sum with its types");
    is_int(t.jobs[0].nodes, 1, "the nodes that it asked for");
    is_str(t.jobs[0].name, "7", "its name is its number");
    is_str(t.jobs[0].class, "anna/train/4", "class");
    ok(t.jobs[0].is_recorded && t.jobs[0].recorded_start_s == 870 &&
           t.jobs[0].recorded_end_s == 8070 &&
           t.jobs[0].recorded_gpu_s == 14400,
       "what happened to it, an hour of suspension included");
    ok(t.jobs[1].submit_s == 0 && t.jobs[1].work == 10,
       "it still runs; what waited before the first start is there then");
    is_int(t.jobs[1].gpus_max, 6, "GPUs of two types");
    is_int(t.jobs[1].nodes, 2, "NNodes, where ReqTRES has none");
    ok(isinf(t.jobs[1].limit_s), "no limit");
    is_str(left_out(&t), "", "all is in the trace");
    sim_trace_clear(&t);
}

static void test_times(void)
{
    static const struct {
        const char *submit;
        long long s;
    } rows[] = {
        {"2026-10-25T01:59:59", 1792888200 - 1801}, /* summer */
        {"2026-10-25T02:30:00", 1792888200},        /* the first of two */
        {"2026-10-25T03:00:00", 1792888200 + 5400}, /* winter */
        {"2026-10-25T02:30:00", 1792888200},
        {"2026-07-01T08:00:00", 1782885600},
        {"2026-07-01T08:00:00Z", 1782885600 + 7200},
        {"1782885600", 1782885600},
    };
    char line[256];

    (void)setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        (void)snprintf(line, sizeof(line),
                       "1|n|u|COMPLETED|%s|%s|%s|Unknown|00:00:01||1|"
                       "gres/gpu=1|\n",
                       rows[i].submit, rows[i].submit, rows[i].submit);
        struct sim_trace t = read_lines(line, 1);
        is_int((long long)t.epoch_s, rows[i].s, rows[i].submit);
        sim_trace_clear(&t);
    }
    (void)setenv("TZ", "UTC0", 1);
    tzset();
}

/* Start in the second hour of two, Submit in the first. */
static void test_hour_twice(void)
{
    (void)setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
    struct sim_trace t =
        read_lines("1|n|u|COMPLETED|2026-10-25T02:50:00|2026-10-25T02:50:00|"
                   "2026-10-25T02:10:00|Unknown|00:00:01||1|gres/gpu=1|\n",
                   1);
    is_int((long long)t.epoch_s, 1792888200 + 2400, "the later one");
    sim_trace_clear(&t);
    (void)setenv("TZ", "UTC0", 1);
    tzset();
}

/* Whatever ended it, a job that ran is one; columns that nobody uses may be
 * anything. */
static void test_states(void)
{
    static const char *const states[] = {
        "BOOT_FAIL", "CANCELLED",  "CANCELLED by 1000",
        "COMPLETED", "COMPLETING", "DEADLINE",
        "FAILED",    "NODE_FAIL",  "OUT_OF_MEMORY",
        "PREEMPTED", "REQUEUED",   "REVOKED",
        "RUNNING",   "SUSPENDED",  "TIMEOUT"};
    const size_t n = sizeof(states) / sizeof(states[0]);
    struct buf text = BUF_INIT;
    struct sim_trace t;
    struct error err = ERROR_INIT;

    for (size_t i = 0; i < n; i++)
        (void)!buf_addf(&text, NULL,
                        "%zu|%s|a,b|gpu|(null)||" DAY "08:00:00|" DAY
                        "08:00:00|00:01:00|gres/gpu=%zu\n",
                        i + 1, states[i], i + 1);
    (void)!buf_addstr(&text,
                      "99|PENDING|a|gpu|normal|1|" DAY
                      "08:00:00|Unknown|00:00:00|\n"
                      /* when it is expected to start */
                      "98|PENDING|a|gpu|normal|1|" DAY "08:00:00|" DAY
                      "09:00:00|00:00:00|gres/gpu=4\n",
                      NULL);
    int rc = load("JobID|State|Account|Partition|QOS|Priority|Submit|Start|"
                  "Elapsed|AllocTRES\n",
                  buf_str(&text), &t, &err);
    buf_clear(&text);
    is_int(rc, 0, "read");
    is_int((long long)t.n, (long long)n, "each state but PENDING");
    for (size_t i = 0; i < t.n; i++)
        ok(t.jobs[i].work == 60 && t.jobs[i].gpus_max == (int32_t)i + 1, "%s",
           states[i]);
    is_str(left_out(&t), "2 jobs that never started", "left out");
    sim_trace_clear(&t);
}

/* A job that was cancelled in the queue: old versions have a Start for it. */
static void test_cancelled(void)
{
    struct sim_trace t = read_lines(
        "1|n|u|CANCELLED by 1000|" DAY "08:00:00|" DAY "08:00:00|" DAY
        "09:00:00|" DAY "09:00:00|00:00:00|01:00:00|1||gres/gpu=4\n"
        "2|n|u|PREEMPTED|" DAY "08:00:00|" DAY "08:00:00|" DAY "08:00:00|" DAY
        "08:30:00|00:30:00|01:00:00|1|gres/gpu=4|\n"
        "2|n|u|CANCELLED by 0|" DAY "08:30:00|" DAY "08:30:00|" DAY
        "09:00:00|" DAY "09:00:00|00:00:00|01:00:00|1||gres/gpu=4\n"
        "3|n|u|CANCELLED by 0|" DAY "08:30:00|" DAY "08:30:00|" DAY
        "09:00:00|" DAY "09:05:00|00:05:00|01:00:00|1|gres/gpu=4|\n",
        2);

    ok(t.jobs[0].work == 1800 && t.jobs[1].work == 300, "those that ran");
    is_str(left_out(&t), "2 jobs that never started", "left out");
    sim_trace_clear(&t);
}

/* scontrol update NumNodes=: the same job, in two lines. */
static void test_resized(void)
{
    struct sim_trace t = read_lines(
        "1|n|u|RESIZING|" DAY "08:00:00|" DAY "08:00:00|" DAY "08:00:00|" DAY
        "10:00:00|02:00:00|1-00:00:00|2|gres/gpu=8|\n"
        "1|n|u|COMPLETED|" DAY "10:00:00|" DAY "10:00:00|" DAY "10:00:00|" DAY
        "12:00:00|02:00:00|1-00:00:00|1|gres/gpu=4|\n",
        1);

    is_int(t.jobs[0].gpus_max, 8, "the size that had most of its GPU time");
    ok(t.jobs[0].work == 3 * 3600, "with all of it");
    ok(t.jobs[0].recorded_end_s == 4 * 3600 &&
           t.jobs[0].recorded_gpu_s == 24 * 3600,
       "recorded");
    sim_trace_clear(&t);
}

static void test_limit_passed(void)
{
    struct sim_trace t =
        read_lines("1|n|u|TIMEOUT|" DAY "08:00:00|" DAY "08:00:00|" DAY
                   "08:00:00|Unknown|01:00:25|01:00:00|1|gres/gpu=1|\n",
                   1);

    ok(t.jobs[0].limit_s == 3626, "Slurm let it run past its limit");
    sim_trace_clear(&t);
}

#define AT DAY "08:00:00|"
static void test_several_lines(void)
{
    /* Requeued twice, in no order; a task, and the array's other ones; a
     * heterogeneous job with a step. */
    struct sim_trace t = read_lines(
        "5|n|u|PREEMPTED|" AT AT DAY "08:10:00||00:01:00||1|gres/gpu=2|\n"
        "5|n|u|COMPLETED|" DAY "09:10:00|" DAY "09:10:00|" DAY
        "09:20:00||00:30:00||1|gres/gpu=4|\n"
        "5|n|u|NODE_FAIL|" DAY "08:11:00|" DAY "08:11:00|" DAY
        "09:00:00||00:10:00||1|gres/gpu=2|\n"
        "5_1|n|u|COMPLETED|" AT AT AT "|00:01:00||1|gres/gpu=1|\n"
        "5_[2-9%1]|n|u|PENDING|" AT AT
        "Unknown|Unknown|00:00:00||1||gres/gpu=1\n"
        "9+1|h|u|COMPLETED|" AT AT AT "|00:03:00|00:20:00|2|gres/gpu=8|\n"
        "9+0|h|u|COMPLETED|" AT AT AT "|00:02:00|00:02:00|1|cpu=1|\n"
        "9+1.0|h|u|COMPLETED|" AT AT AT "|00:03:00||2|gres/gpu=8|\n"
        "9+2|h|u|COMPLETED|" AT AT AT "|00:02:00|00:02:00|1|gres/gpu=1|\n",
        3);

    ok(t.jobs[0].submit_s == 0 && t.jobs[0].work == 1800 &&
           t.jobs[0].gpus_max == 4,
       "the last run of a requeued job, from its first submit");
    ok(t.jobs[0].recorded_start_s == 600 &&
           t.jobs[0].recorded_end_s == 4800 + 1800 &&
           t.jobs[0].recorded_gpu_s == 120 + 1200 + 7200,
       "all of its runs were recorded");
    is_str(t.jobs[1].name, "5_1", "a task is a job of its own");
    is_str(t.jobs[2].name, "9", "a heterogeneous job is one");
    is_int(t.jobs[2].gpus_max, 9, "with the GPUs of its components");
    ok(t.jobs[2].work == 180 && t.jobs[2].limit_s == 1200,
       "as long as the longest, with its limit");
    is_str(t.jobs[2].class, "u/h/9", "class");
    is_int((long long)t.left_out.merged, 4, "lines that were joined");
    is_str(left_out(&t), "1 job that never started, 1 line of a step",
           "left out");
    sim_trace_clear(&t);
}

static void test_bad_lines(void)
{
    struct buf text = BUF_INIT;
    static const char *const fields[] = {
        /* each has one fault */
        "x|n|u|COMPLETED|S|S|S|S|00:00:01||1|gres/gpu=1|",
        "1_|n|u|COMPLETED|S|S|S|S|00:00:01||1|gres/gpu=1|",
        "1|n|u|COMPLETED|soon|S|S|S|00:00:01||1|gres/gpu=1|",
        "1|n|u|COMPLETED||S|S|S|00:00:01||1|gres/gpu=1|",
        "1|n|u|COMPLETED|S|S|2026-10-01T00:00:00|S|00:00:01||1|gres/gpu=1|",
        "1|n|u|COMPLETED|S|S|S|S|1h||1|gres/gpu=1|",
        "1|n|u|COMPLETED|S|S|S|S|00:00:01|5-x|1|gres/gpu=1|",
        "1|n|u|COMPLETED|S|S|S|S|00:00:01||1|gres/gpu=many|",
        "1|n|u|COMPLETED|S|S|S|S|00:00:01||1|gres/gpu=65537|",
        "1|n|u|RUNNING|S|S|S|Unknown|||1|gres/gpu=1|",
        "1|n|u|COMPLETED|S|S|S|S|00:00:01||1|gres/gpu=1",
        "1|n|u|COMPLETED|S|S|S|S|00:00:01||1|gres/gpu=1||",
        "1|n|u|COMPLETED|S|S|S|S|4000-00:00:00||1|gres/gpu=1|",
    };
    size_t n = sizeof(fields) / sizeof(fields[0]);

    for (size_t i = 0; i < n; i++) {
        for (const char *p = fields[i]; *p; p++)
            if (*p == 'S' && (p[1] == '|' || p[1] == '\0') && p[-1] == '|')
                (void)!buf_addstr(&text, DAY "08:00:00", NULL);
            else
                (void)!buf_add(&text, p, 1, NULL);
        (void)!buf_addstr(&text, "\n", NULL);
    }
    (void)!buf_addstr(&text,
                      "2|n|u|COMPLETED|" DAY "08:00:00||" DAY
                      "08:00:00||00:00:01||1|gres/gpu=1|\n"
                      "3|n|u|COMPLETED|" DAY "08:00:00||" DAY
                      "08:00:00||00:00:01||1|cpu=1,gres/gpumem=5|\n",
                      NULL);
    struct sim_trace t = read_lines(buf_str(&text), 1);
    buf_clear(&text);

    is_int((long long)t.left_out.bad, (long long)n, "each other one is bad");
    is_str(left_out(&t), "13 lines that are wrong, 1 job without GPUs",
           "left out");
    ok(strstr(buf_str(&t.findings),
              "f:2:1: JobID: 'x' is not a job, such as 123_4\n"
              "f:3:1: JobID: '1_' is not a job, such as 123_4\n"
              "f:4:17: Submit: 'soon' is not a time") != NULL,
       "with line and column");
    ok(strstr(buf_str(&t.findings), "f:9:") != NULL &&
           strstr(buf_str(&t.findings), "f:11:") != NULL &&
           strstr(buf_str(&t.findings), "f:12:") == NULL,
       "the first ten");
    sim_trace_clear(&t);
}

static void test_headers(void)
{
    static const char line[] = "1|" DAY "08:00:00|" DAY "08:00:00|" DAY
                               "08:01:00|COMPLETED|gres/gpu=2|a|b\n";
    struct sim_trace t;
    struct error err = ERROR_INIT;

    ok(load("JOBID|Submit|Start|END|State|AllocTRES|JobName\n", line, &t,
            &err) == 0 &&
           t.n == 1 && t.jobs[0].work == 60,
       "End in place of Elapsed, any case, a name with '|' at the end");
    is_str(t.n ? t.jobs[0].label : "", "a", "which is cut there");
    sim_trace_clear(&t);
    ok(load("JobID|Submit|Start|End|State\n", line, &t, &err) < 0 &&
           err.code == ERR_INVAL &&
           strstr(err.msg, "f:1:1: the header has no column AllocTRES"),
       "a column that lacks: %s", err.msg);
    sim_trace_clear(&t);
    ok(load("JobID|Submit|Start|State|AllocTRES\n", line, &t, &err) < 0 &&
           strstr(err.msg, "neither End nor Elapsed"),
       "no length: %s", err.msg);
    sim_trace_clear(&t);
    ok(load("", "", &t, &err) == 0 && t.n == 0, "an empty file has no job");
    sim_trace_clear(&t);
}

int main(void)
{
    (void)setenv("TZ", "UTC0", 1);
    tzset();
    test_job();
    test_times();
    test_hour_twice();
    test_states();
    test_cancelled();
    test_resized();
    test_limit_passed();
    test_several_lines();
    test_bad_lines();
    test_headers();
    return tap_done();
}
