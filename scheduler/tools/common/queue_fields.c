/* queue_fields.c - the fields of the queue: the text of each. */
#include "scheduler/tools/common/queue_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/state.h"
#include "jobs/wire/json_scan.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/job_query.h"

/* ---- what a field shows -------------------------------------------------- */

static void put_some(char *out, size_t cap, const char *text, size_t n)
{
    if (n == 0) {
        text = "-";
        n = 1;
    }
    n = n < cap ? n : cap - 1;
    memcpy(out, text, n);
    out[n] = '\0';
}

static void put(char *out, size_t cap, const char *text)
{
    put_some(out, cap, text, strlen(text));
}

/* A value that is not text counts as "". */
static struct member text_of(const struct members *job, const char *key)
{
    struct member m = members_get(job, key);
    return m.kind == MEMBER_TEXT ? m : (struct member){.text = ""};
}

static int64_t int_of(const struct members *job, const char *key,
                      int64_t absent)
{
    const struct member m = members_get(job, key);
    return m.kind == MEMBER_INT ? m.n : absent;
}

static double real_of(const struct members *job, const char *key)
{
    const struct member m = members_get(job, key);
    return m.kind == MEMBER_INT || m.kind == MEMBER_REAL ? m.x : (double)NAN;
}

static void put_text(const struct members *job, const char *key, char *out,
                     size_t cap)
{
    const struct member m = text_of(job, key);
    put_some(out, cap, m.text, m.len);
}

static void put_number(char *out, size_t cap, int64_t n)
{
    char text[24], *p = text + sizeof(text);
    uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    do
        *--p = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (n < 0)
        *--p = '-';
    put_some(out, cap, p, (size_t)(text + sizeof(text) - p));
}

static void put_int(const struct members *job, const char *key, char *out,
                    size_t cap)
{
    const struct member m = members_get(job, key);
    put(out, cap, "");
    if (m.kind == MEMBER_INT)
        put_number(out, cap, m.n);
}

#define TEXT_OF(name, key)                                                    \
    static void name##_text(const struct members *job, char *out, size_t cap) \
    {                                                                         \
        put_text(job, key, out, cap);                                         \
    }
#define INT_OF(name, key)                                                     \
    static void name##_text(const struct members *job, char *out, size_t cap) \
    {                                                                         \
        put_int(job, key, out, cap);                                          \
    }
#define DURATION_OF(name, key)                                                \
    static void name##_text(const struct members *job, char *out, size_t cap) \
    {                                                                         \
        (void)render_duration(real_of(job, key), out, cap);                   \
    }
TEXT_OF(id, "display_id")
TEXT_OF(name, "name")
TEXT_OF(user, "user")
TEXT_OF(kind, "kind")
TEXT_OF(state, "state")
TEXT_OF(reason, "reason")
TEXT_OF(place, "place")
TEXT_OF(native, "native_id")
TEXT_OF(submitted, "submitted")
TEXT_OF(started, "started")
TEXT_OF(ended, "ended")
TEXT_OF(estimate, "start_estimate")
TEXT_OF(account, "account")
TEXT_OF(partition, "partition")
TEXT_OF(parent, "parent_display_id")
INT_OF(priority, "priority")
INT_OF(attempt, "attempt")
INT_OF(exit, "exit_code")
INT_OF(position, "position")
INT_OF(epoch, "epoch")
INT_OF(iteration, "iteration")
DURATION_OF(elapsed, "elapsed_s")
DURATION_OF(limit, "limit_s")
DURATION_OF(remaining, "left_s")
DURATION_OF(starts, "start_in_s")

/* "key=value,..." */
static void labels_text(const struct members *job, char *out, size_t cap)
{
    const struct member m = members_get(job, "labels");
    json_t *labels = json_member_tree(&m), *value;
    const char *key;
    size_t len = 0;
    out[0] = '\0';
    json_object_foreach(labels, key, value)
    {
        if (len < cap)
            len +=
                (size_t)snprintf(out + len, cap - len, "%s%s=%s",
                                 len ? "," : "", key, json_string_value(value));
    }
    json_decref(labels);
    if (len == 0)
        put(out, cap, "");
}

static int state_of(const struct members *job, enum job_state *ret)
{
    const struct member m = text_of(job, "state");
    return job_state_from_text(m.text, m.len, ret);
}

static bool is_live(const struct members *job)
{
    enum job_state s = JOB_NEW;
    return state_of(job, &s) == 0 && job_state_is_live(s);
}

/* Its ranks do not work; the state remains RUNNING. */
static bool is_suspended(const struct members *job)
{
    static const char word[] = "Slurm(Suspended)";
    const struct member m = text_of(job, "reason");
    return m.len == sizeof(word) - 1 && memcmp(m.text, word, m.len) == 0;
}

static void st_text(const struct members *job, char *out, size_t cap)
{
    enum job_state s;
    const char *word = state_of(job, &s) == 0 ? job_query_letters(s) : "?";
    put(out, cap, is_live(job) && is_suspended(job) ? "S" : word);
}

static void gpus_text(const struct members *job, char *out, size_t cap)
{
    int64_t held = int_of(job, "gpus", 0);
    int64_t lo = int_of(job, "gpus_min", 0);
    int64_t hi = int_of(job, "gpus_max", lo);
    int64_t to = int_of(job, "to_gpus", 0), from = int_of(job, "from_gpus", 0);
    if (to > 0 && from > 0)
        (void)snprintf(out, cap, "%" PRId64 ">%" PRId64, from, to);
    else if (to > 0)
        put_number(out, cap, to);
    else if (held > 0 || lo == hi)
        put_number(out, cap, held > 0 ? held : lo);
    else
        (void)snprintf(out, cap, "%" PRId64 "..%" PRId64, lo, hi);
}

/* What there is before the first iteration. */
static void start_text(const struct members *job, char *out, size_t cap)
{
    const double share = real_of(job, "tokenised");
    put(out, cap, "");
    if (share > 0 && is_live(job))
        (void)snprintf(out, cap, "tokenising %.0f %%", 100 * share);
}

static void step_text(const struct members *job, char *out, size_t cap)
{
    char it[32], total[32];
    int64_t n = int_of(job, "iteration", 0);
    int64_t of = int_of(job, "iterations_total", 0);
    if (n <= 0)
        start_text(job, out, cap);
    else
        (void)snprintf(out, cap, "%s%s%s", render_count(n, it, sizeof(it)),
                       of > 0 ? "/" : "",
                       of > 0 ? render_count(of, total, sizeof(total)) : "");
}

static void rate_text(const struct members *job, char *out, size_t cap)
{
    double t = real_of(job, "t_iter_s");
    put(out, cap, "");
    if (t > 0 && is_live(job) && !is_suspended(job))
        (void)snprintf(out, cap, 1 / t < 10 ? "%.2f" : "%.1f", 1 / t);
}

static void number_text(double v, char *out, size_t cap)
{
    put(out, cap, "");
    if (isfinite(v))
        (void)snprintf(out, cap, "%.4g", v);
}

static void loss_text(const struct members *job, char *out, size_t cap)
{
    number_text(real_of(job, "loss"), out, cap);
}

static void eval_loss_text(const struct members *job, char *out, size_t cap)
{
    number_text(real_of(job, "eval_loss"), out, cap);
}

static void accuracy_text(const struct members *job, char *out, size_t cap)
{
    const double v = real_of(job, "eval_accuracy");
    put(out, cap, "");
    if (isfinite(v))
        (void)render_accuracy(v, out, cap);
}

static void progress_text(const struct members *job, char *out, size_t cap)
{
    double n = (double)int_of(job, "iteration", 0);
    double of = (double)int_of(job, "iterations_total", 0);
    put(out, cap, "");
    if (n > 0 && of > 0)
        (void)snprintf(out, cap, "%.0f %%", 100 * n / of);
}

static void left_text(const struct members *job, char *out, size_t cap)
{
    double s = real_of(job, "eta_s");
    (void)render_duration(isfinite(s) && is_live(job) ? s : NAN, out, cap);
}

/* Time to its end; for a pending job, the estimated time to its start. */
static void eta_text(const struct members *job, char *out, size_t cap)
{
    double in_s = real_of(job, "start_in_s");
    if (isfinite(in_s) && in_s >= 0 && in_s < 1e9)
        (void)render_about(in_s, out, cap);
    else
        left_text(job, out, cap);
}

/* The nodes where it runs, or the reason; for a completed job the nodes. */
static void where_text(const struct members *job, char *out, size_t cap)
{
    const struct member place = text_of(job, "place");
    const struct member reason = text_of(job, "reason");
    bool has_place = place.len > 0 &&
                     (reason.len == 0 || (is_live(job) && !is_suspended(job)));
    const struct member *m = has_place ? &place : &reason;
    put_some(out, cap, m->text, m->len);
}

/* ---- the table -----------------------------------------------------------
 */

/* clang-format off */
#define LEFT(name, title, key, reads, doc) \
    {#name, title, RENDER_LEFT, doc, key, reads, false, name##_text, false}
#define RIGHT(name, title, key, reads, doc) \
    {#name, title, RENDER_RIGHT, doc, key, reads, false, name##_text, false}
#define NUMBER(name, title, key, reads, doc) \
    {#name, title, RENDER_RIGHT, doc, key, reads, true, name##_text, false}
#define STATE(name, title, doc)                                              \
    {#name, title, RENDER_LEFT, doc, NULL, "state,reason", false, name##_text, \
     true}
/* clang-format on */

const struct field queue_fields[] = {
    RIGHT(id, "JOBID", "id", "display_id", "the job's number"),
    LEFT(name, "NAME", NULL, "name", "its name"),
    LEFT(user, "USER", NULL, "user", "who submitted it"),
    LEFT(account, "ACCOUNT", NULL, "account", "account that is charged"),
    LEFT(partition, "PARTITION", NULL, "partition", "partition that it is for"),
    LEFT(labels, "LABELS", NULL, "labels", "its labels"),
    LEFT(kind, "KIND", NULL, "kind", "cv, command, llm or run"),
    STATE(st, "ST", "its state in one or two letters"),
    STATE(state, "STATE", "its state"),
    RIGHT(gpus, "GPUS", "gpus", "gpus,gpus_min,gpus_max,to_gpus,from_gpus",
          "GPUs allocated, or requested; 2>4 while it is resized"),
    NUMBER(priority, "PRIO", "priority", "priority", "its priority"),
    NUMBER(position, "POS", "position", "position",
           "its position in the queue"),
    NUMBER(attempt, "TRY", "attempt", "attempt", "number of attempts"),
    NUMBER(step, "STEP", "iteration",
           "state,iteration,iterations_total,tokenised",
           "iterations done / total, or the share of data tokenised"),
    RIGHT(progress, "DONE", "iteration", "iteration,iterations_total",
          "iterations done, as a share"),
    NUMBER(iteration, "ITER", "iteration", "iteration",
           "the iteration it is in"),
    NUMBER(epoch, "EPOCH", "epoch", "epoch", "the epoch it is in"),
    RIGHT(rate, "IT/S", "t_iter_s", "state,t_iter_s,reason",
          "iterations per second"),
    NUMBER(loss, "LOSS", "loss", "loss", "the loss last reported"),
    NUMBER(eval_loss, "TEST LOSS", "eval_loss", "eval_loss",
           "of the last evaluation"),
    NUMBER(accuracy, "TEST ACC", "eval_accuracy", "eval_accuracy",
           "of the last evaluation"),
    NUMBER(elapsed, "TIME", "elapsed_s", "elapsed_s", "time run"),
    NUMBER(left, "LEFT", "eta_s", "state,eta_s", "estimated time to its end"),
    NUMBER(eta, "ETA", "eta_s", "state,eta_s,start_in_s",
           "estimated time to its end, or, after ~, to its start"),
    NUMBER(starts, "STARTS IN", "start_in_s", "start_in_s",
           "estimated time to its start"),
    NUMBER(limit, "LIMIT", "limit_s", "limit_s", "its time limit"),
    NUMBER(remaining, "TO LIMIT", "left_s", "left_s", "time to that limit"),
    LEFT(submitted, "SUBMITTED", NULL, "submitted", "when it was submitted"),
    LEFT(estimate, "START", NULL, "start_estimate", "estimated start"),
    LEFT(started, "STARTED", NULL, "started", "when it first ran"),
    LEFT(ended, "ENDED", NULL, "ended", "when it ended"),
    NUMBER(exit, "EXIT", "exit_code", "exit_code", "its exit code"),
    RIGHT(parent, "PARENT", "parent", "parent_display_id",
          "the job whose checkpoint it goes on from"),
    LEFT(place, "PLACE", NULL, "place", "nodes and devices"),
    LEFT(native, "NATIVE", NULL, "native_id", "the allocator's id of it"),
    LEFT(reason, "REASON", NULL, "reason", "why it is pending, or ended"),
    LEFT(where, "PLACE OR REASON", NULL, "state,place,reason",
         "where it runs, or why it does not"),
};
const size_t queue_fields_n = sizeof(queue_fields) / sizeof(queue_fields[0]);

static void own_text(const struct members *job, char *out, size_t cap)
{
    (void)job;
    put(out, cap, "");
}

const struct field queue_own_field = {.name = "metric",
                                      .title = "METRIC",
                                      .align = RENDER_RIGHT,
                                      .reads = "id,attempt",
                                      .is_number = true,
                                      .text = own_text};
