/* why.c - GET /v1/jobs/:id/why: why a job waits, or is as it is, with
 * the numbers behind it: which nodes it may use, who has their GPUs, which of
 * them are down or closed and why, what the start estimate rests on, and with
 * which change of its request it would start at once.
 *
 * The first reason is the one that the policy, or Slurm, gave. What is also
 * true follows, so that nobody removes one obstacle only to meet the next.
 */
#include "scheduler/ctld/api/why.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jobs/reason.h"
#include "jobs/text/scalar.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/api/status.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/job_list/job_json.h"
#include "scheduler/ctld/job_list/start_estimates.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/free_slots.h"
#include "scheduler/ctld/request/job_lookup.h"
#include "scheduler/ctld/request/reply.h"
#include "scheduler/ctld/request/size_choice.h"
#include "scheduler/engine/explain_sizes.h"
#include "scheduler/engine/what_if.h"

enum { HOLDERS_MAX = 200, TEXT_CAP = 400 };

/* One question, and the nodes that the job may use. */
struct why {
    const struct ctld *c;
    const struct job *job;
    const struct alloc_node *nodes; /* the engine's */
    size_t n;
    bool *may, *is_open; /* owned; by node: some time, and now */
    struct engine_what_if suppose;
};

static void why_clear(struct why *w)
{
    free(w->may);
    free(w->is_open);
}

static int why_init(struct why *w, const struct ctld *c, const struct job *job,
                    struct error *err)
{
    *w = (struct why){.c = c, .job = job};
    w->nodes = engine_nodes(c->engine, &w->n);
    w->may = calloc(w->n + 1, sizeof(*w->may));
    w->is_open = calloc(w->n + 1, sizeof(*w->is_open));
    if (!w->may || !w->is_open) {
        why_clear(w);
        return error_set(err, ERR_NOMEM, "nodes of a job");
    }
    for (size_t i = 0; i < w->n; i++) {
        w->may[i] = engine_node_fits(c->engine, job, i, false);
        w->is_open[i] = engine_node_fits(c->engine, job, i, true);
    }
    if (engine_what_if(c->engine, job, &w->suppose, err) < 0 ||
        start_estimates_make(c, err) < 0) {
        why_clear(w);
        return -1;
    }
    return 0;
}

static bool has_token(const char *text, const char *token)
{
    size_t n = strlen(token);
    return strncmp(text, token, n) == 0 && (text[n] == ':' || text[n] == '(');
}

static void add_reason(json_t *list, const char *text)
{
    size_t n = reason_token_length(text);
    if (*text)
        (void)json_array_append_new(
            list, json_pack("{s:o, s:o}", "token",
                            n > 0 ? json_stringn(text, n) : json_null(), "text",
                            ctld_text(text)));
}

/* The first one. */
static void add_own_reason(json_t *list, const struct job *job)
{
    char token[REASON_TOKEN_CAP];
    if (job->state != JOB_QUEUED) {
        add_reason(list, job->reason);
        return;
    }
    reason_token(job->reason, token);
    (void)json_array_append_new(
        list, json_pack("{s:s, s:o}", "token", token, "text",
                        ctld_text(job->reason[0]
                                      ? job->reason
                                      : "PendingEvaluation: it has just come, "
                                        "and the next plan looks at it")));
}

/* ---- what is also true -----------------------------------------------------
 */
/* True if the entry before is another GPU type of the same machine. */
static bool is_told(const struct why *w, size_t i)
{
    return i > 0 && w->may[i - 1] &&
           strcmp(w->nodes[i - 1].name, w->nodes[i].name) == 0;
}

/* "NodesDown: n2 (drained: fan), n3"; nothing when there is none. */
static void add_nodes_reason(const struct why *w, json_t *list, bool is_down)
{
    size_t len = 0, n_more = 0;
    char text[TEXT_CAP];

    for (size_t i = 0; i < w->n; i++) {
        const struct alloc_node *node = &w->nodes[i];
        const char *why = is_down ? node->why : node->reservation;
        const char *sep = len > 0   ? ", "
                          : is_down ? "NodesDown: "
                                    : "NodesReserved: ";
        if (!w->may[i] || is_told(w, i) ||
            (is_down ? node->is_up != 0 : !node->is_up || w->is_open[i]))
            continue;
        if (len + sizeof(node->name) + sizeof(node->why) + 64 > sizeof(text)) {
            n_more++;
            continue;
        }
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s%s%s%s",
                                sep, node->name, *why ? " (" : "", why,
                                *why ? ")" : "");
    }
    if (n_more > 0)
        (void)snprintf(text + len, sizeof(text) - len, " and %zu more", n_more);
    if (len > 0)
        add_reason(list, text);
}

/* "GpusDrained: n1 (GPU 1: xid 79: ...)"; nothing when there is none. */
static void add_drained_reason(const struct why *w, json_t *list)
{
    size_t len = 0;
    char text[TEXT_CAP];

    for (size_t i = 0; i < w->n; i++) {
        const struct alloc_node *node = &w->nodes[i];
        if (!w->may[i] || !node->is_up || node->gpus_drained < 1 ||
            len + sizeof(node->name) + sizeof(node->why) + 64 > sizeof(text))
            continue;
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s (%s)",
                                len > 0 ? ", " : "GpusDrained: ", node->name,
                                node->why);
    }
    if (len > 0)
        add_reason(list, text);
}

/* Slurm's reason for one that stands in its queue, in our numbers. */
static void add_ahead_reason(const struct why *w, json_t *list)
{
    const struct job *job = w->job;
    char text[TEXT_CAP];
    int64_t n_free = 0;
    int32_t room = 0;

    if (!job_state_is_live(job->state) || job->native_id[0] ||
        !job->pending_id[0])
        return;
    for (size_t i = 0; i < w->n; i++)
        n_free += free_slots_take(w->nodes, i,
                                  w->is_open[i] && w->nodes[i].is_up, &room);
    if (n_free >= job->gpus)
        return;
    (void)snprintf(text, sizeof(text),
                   "WaitingForGpus: needs %d, %lld free; stands in Slurm's "
                   "queue as job %s",
                   job->gpus, (long long)n_free, job->pending_id);
    add_reason(list, text);
}

/* Which jobs are preempted for this one, and until when; or for which job this
 * one is, or was, preempted. */
static void add_preempt_reasons(const struct why *w, json_t *list)
{
    const struct engine *e = w->c->engine;
    const struct job *job = w->job;
    char text[TEXT_CAP], by[WIRE_TIME_CAP];

    for (const struct job *j = engine_next_live(e, 0); j;
         j = engine_next_live(e, j->id)) {
        if (!j->is_preempted || j->preempted_for != job->id)
            continue;
        wire_time(j->preempt_s + j->preempt_grace_s, by);
        (void)snprintf(text, sizeof(text),
                       "WaitingForPreemption: job %llu of %s lets %d GPUs go "
                       "by %s",
                       (unsigned long long)j->id, j->user, j->gpus, by);
        add_reason(list, text);
    }
    if (job->preempted_for == 0 || job_state_is_final(job->state))
        return;
    wire_time(job->preempt_s + (job->is_preempted ? job->preempt_grace_s : 0),
              by);
    (void)snprintf(text, sizeof(text),
                   job->is_preempted
                       ? "Preempted: by job %llu; it has until %s to stop"
                       : "Preempted: by job %llu, at %s",
                   (unsigned long long)job->preempted_for, by);
    add_reason(list, text);
}

/* Names the memory that the job asks of each GPU, and how many nodes have it,
 * be the job allowed there or not: that is an obstacle of its own. */
static void add_memory_reason(const struct why *w, json_t *list)
{
    const struct alloc_where a = engine_where(w->c->engine, w->job);
    size_t n_more = 0, n_less = 0, n_unknown = 0;
    char asked[SCALAR_SIZES_CAP], text[TEXT_CAP];

    if (a.gpu_min_bytes == 0 && a.gpu_max_bytes == 0)
        return;
    for (size_t i = 0; i < w->n; i++) {
        if (w->nodes[i].gpus_total < 1)
            continue;
        if (w->nodes[i].gpu_bytes == 0)
            n_unknown++;
        else if (engine_memory_fits(w->c->engine, w->job, i))
            n_more++;
        else
            n_less++;
    }
    if (n_less == 0 && n_unknown == 0)
        return;
    (void)snprintf(text, sizeof(text),
                   "GpuMemory: GPUs of %s each: %zu of %zu nodes have such",
                   scalar_show_sizes(asked, a.gpu_min_bytes, a.gpu_max_bytes),
                   n_more, n_more + n_less + n_unknown);
    size_t len = strlen(text);
    if (n_unknown > 0)
        (void)snprintf(text + len, sizeof(text) - len,
                       "; not known, and not left out: %zu", n_unknown);
    add_reason(list, text);
}

static json_t *reasons_of(const struct why *w)
{
    const struct job *job = w->job;
    json_t *list = json_array();
    char text[TEXT_CAP];
    double since_s;
    const char *away = engine_unavailable(w->c->engine, &since_s);
    int32_t ahead = engine_queue_position(w->c->engine, job->id) - 1;

    add_own_reason(list, job);
    add_preempt_reasons(w, list);
    if (job->state == JOB_DISPATCHING && job->reason[0] == '\0')
        add_reason(list, job->native_id[0] ? "Starting: granted, its worker "
                                             "has not called yet"
                                           : "Starting: asked for");
    if (job->state == JOB_HELD && job->held_by == HELD_REFUSED) {
        (void)snprintf(text, sizeof(text),
                       "Held: nothing is tried until it is released: "
                       "mgpu-admin release %llu",
                       (unsigned long long)job->id);
        add_reason(list, text);
    }
    if (away && !job_state_is_final(job->state) &&
        !has_token(job->reason, "SlurmUnavailable")) {
        (void)snprintf(text, sizeof(text), "SlurmUnavailable: %s", away);
        add_reason(list, text);
    }
    add_ahead_reason(w, list);
    if (!has_token(job->reason, "Fragmented"))
        add_reason(list, w->suppose.fragmented);
    if (job->state != JOB_QUEUED)
        return list;
    if (ahead > 0 && !has_token(job->reason, "Priority")) {
        (void)snprintf(text, sizeof(text), "Priority: %d ahead", ahead);
        add_reason(list, text);
    }
    if (job->exclude[0]) {
        (void)snprintf(text, sizeof(text),
                       "NodesExcluded: %s, where attempts failed",
                       job->exclude);
        add_reason(list, text);
    }
    add_memory_reason(w, list);
    add_nodes_reason(w, list, true);
    add_nodes_reason(w, list, false);
    add_drained_reason(w, list);
    return list;
}

/* ---- the numbers behind it -------------------------------------------------
 */
static json_t *where_of(const struct why *w)
{
    const struct alloc_where a = engine_where(w->c->engine, w->job);
    char memory[SCALAR_SIZES_CAP];
    (void)scalar_show_sizes(memory, a.gpu_min_bytes, a.gpu_max_bytes);
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "partition",
        ctld_text(a.partition), "account", ctld_text(a.account), "qos",
        ctld_text(a.qos), "constraint", ctld_text(a.constraint), "reservation",
        ctld_text(a.reservation), "gpu_type", ctld_text(a.gpu_type),
        "gpu_memory", ctld_text(memory[0] ? memory : NULL), "exclusive",
        a.exclusive);
}

static json_t *nodes_of(const struct why *w, int64_t *ret_total,
                        int64_t *ret_free)
{
    json_t *list = json_array();
    int32_t room = 0;

    *ret_total = *ret_free = 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct alloc_node *node = &w->nodes[i];
        *ret_free += free_slots_take(
            w->nodes, i, w->may[i] && w->is_open[i] && node->is_up, &room);
        if (!w->may[i])
            continue;
        json_t *o = status_node_json(w->nodes, w->n, i);
        (void)json_object_set_new(o, "is_open", json_boolean(w->is_open[i]));
        (void)json_array_append_new(list, o);
        *ret_total += node->is_up ? node->gpus_total : 0;
    }
    return list;
}

/* True if the node lacks only GPUs of the type that the job asks for. */
static bool is_apart(const struct alloc_node *node, const struct alloc_where *a)
{
    return node->shared_total > 0 && node->shared_free > 0 && !a->exclusive &&
           a->gpu_type && strcasecmp(a->gpu_type, node->gpu_type) != 0;
}

/* Has j something of a node that the job may use? */
static bool meets(const struct why *w, const struct job *j)
{
    const struct alloc_where a = engine_where(w->c->engine, j);
    for (const char *p = j->place; *p; p += strspn(p, " ")) {
        size_t word = strcspn(p, " "), len = strcspn(p, ": ");
        for (size_t i = 0; i < w->n; i++) {
            if (w->may[i] && strncmp(w->nodes[i].name, p, len) == 0 &&
                w->nodes[i].name[len] == '\0' && !is_apart(&w->nodes[i], &a))
                return true;
        }
        p += word;
    }
    return false;
}

static json_t *holders_of(const struct why *w)
{
    const struct engine *e = w->c->engine;
    json_t *list = json_array();

    for (const struct job *j = engine_next_live(e, 0);
         j && json_array_size(list) < HOLDERS_MAX;
         j = engine_next_live(e, j->id)) {
        if (j == w->job || j->gpus < 1 || !meets(w, j))
            continue;
        char display[JOB_DISPLAY_CAP];
        (void)job_display_id(j, display);
        (void)json_array_append_new(
            list, json_pack("{s:I, s:o, s:o, s:i, s:o, s:o, s:s}", "job",
                            (json_int_t)j->id, "user", ctld_text(j->user),
                            "name", ctld_text(j->name), "gpus", j->gpus,
                            "place", ctld_text(j->place), "ends",
                            ctld_time(j->start_s + j->attempt_limit_s),
                            "display_id", display));
    }
    return list;
}

static json_t *depends_of(const struct why *w)
{
    const struct job *job = w->job;
    json_t *list = json_array();
    for (size_t i = 0; i < job->n_depends; i++) {
        const struct depend *d = &job->depends[i];
        const struct job *other;
        char text[DEPEND_TEXT_CAP];
        bool is_met = engine_depend_fate(w->c->engine, d, &other) == DEPEND_MET;
        (void)json_array_append_new(
            list,
            json_pack("{s:s, s:I, s:o, s:b}", "depends_on",
                      depend_show(d, text), "job",
                      (json_int_t)(other ? other->id : d->job), "state",
                      ctld_text(other ? job_state_name(other->state) : NULL),
                      "is_met", is_met));
    }
    return list;
}

/* "resources.gpus=2", as --set takes it, and what it would start with. */
static void add_change(json_t *list, const struct engine_change *c,
                       const char *key, const char *value)
{
    char text[TEXT_CAP];

    if (c->nodes < 1)
        return;
    (void)snprintf(text, sizeof(text), "%s=%s", key, value);
    (void)json_array_append_new(
        list, json_pack("{s:s, s:i, s:i, s:o, s:o}", "set", text, "gpus",
                        c->gpus, "nodes", c->nodes, "limit_s",
                        c->limit_s > 0 ? ctld_num(c->limit_s) : json_null(),
                        "partition", ctld_text(c->partition)));
}

static json_t *changes_of(const struct engine_what_if *s)
{
    json_t *list = json_array();
    char value[32];

    (void)snprintf(value, sizeof(value), "%d", s->gpus.gpus);
    add_change(list, &s->gpus, "resources.gpus", value);
    (void)snprintf(value, sizeof(value), "%.0fm", s->limit.limit_s / 60);
    add_change(list, &s->limit, "resources.time_limit", value);
    add_change(list, &s->partition, "resources.partition",
               s->partition.partition);
    return list;
}

/* When it starts as things go, how far off that may be, and what it is derived
 * from. What is said of the jobs that run alone is right for the first that
 * waits. */
static json_t *expected_of(const struct why *w)
{
    const struct engine_what_if *s = &w->suppose;
    const struct clock *clock = w->c->parts.clock;
    double at_s = start_estimates_expected_s(w->c, w->job);
    char text[TEXT_CAP] = "";

    if (isnan(at_s))
        at_s = s->expected_s;
    if (isfinite(at_s) && isnan(s->expected_s))
        (void)snprintf(text, sizeof(text),
                       "what runs goes on as before, and jobs take as long as "
                       "the last of their name");
    else if (isfinite(at_s) && s->n_running == 1)
        (void)snprintf(text, sizeof(text),
                       "the job that runs goes on as it did");
    else if (isfinite(at_s))
        (void)snprintf(
            text, sizeof(text), "%d of the %d jobs that run go%s on as before",
            s->n_measured, s->n_running, s->n_measured == 1 ? "es" : "");
    bool is_within = fabs(at_s - s->expected_s) <= s->within_s;
    return json_pack(
        "{s:o, s:o, s:o}", "start_expected",
        ctld_time(clock->wall_s(clock) + at_s - clock->now_s(clock)),
        "expected_within_s", is_within ? ctld_num(s->within_s) : json_null(),
        "expected_basis", ctld_text(text));
}

/* The forecast of a job that has others before it. */
static json_t *forecast_of(const struct why *w)
{
    const struct clock *clock = w->c->parts.clock;
    double in_s =
        isfinite(w->job->start_estimate_s)
            ? (double)NAN
            : start_estimates_forecast_s(w->c, w->job) - clock->now_s(clock);
    return json_pack("{s:o, s:o}", "start_forecast",
                     ctld_time(clock->wall_s(clock) + in_s), "forecast_basis",
                     ctld_text(isfinite(in_s) ? "each job ends at its time "
                                                "limit, and none comes before"
                                              : NULL));
}

/* Slurm's answer for the largest number of GPUs that the job may have. */
static json_t *cluster_of(const struct why *w)
{
    char text[JOB_REASON_CAP];

    return engine_cluster_says(w->c->engine, w->job, w->job->gpus_max, text)
               ? ctld_text(text)
               : json_null();
}

/* The basis of the job's start estimate. */
static json_t *basis_of(const struct why *w)
{
    if (!isfinite(start_estimates_plan_s(w->c, w->job)))
        return json_null();
    if (w->job->state != JOB_QUEUED)
        return json_string("Slurm's own estimate holds");
    return json_string(has_token(w->job->reason, "BeginTime")
                           ? "it is its turn then: nobody looks that far"
                           : "each job that runs ends at its time limit");
}

static json_t *reply(const struct why *w)
{
    const struct job *job = w->job;
    bool waits = job->state == JOB_QUEUED;
    int64_t total = 0, n_free = 0;
    json_t *nodes = nodes_of(w, &total, &n_free);
    const struct clock *clock = w->c->parts.clock;
    json_t *o = json_pack(
        "{s:s, s:o, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:o, s:I, s:I, "
        "s:o, s:o, s:o, s:o}",
        "schema", "mgpu.why/1", "job", job_json_value(w->c, job, true), "since",
        ctld_time(job->state_s), "for_s",
        ctld_num(clock->wall_s(clock) - job->state_s), "nodes_min",
        job->nodes_min, "nodes_max", job->nodes_max, "reasons", reasons_of(w),
        "basis", basis_of(w), "would_start", changes_of(&w->suppose), "where",
        where_of(w), "gpus_total", (json_int_t)total, "gpus_free",
        (json_int_t)n_free, "nodes", nodes, "holders",
        waits ? holders_of(w) : json_array(), "depends_on", depends_of(w),
        "allocator_state", status_allocator_json(w->c));
    (void)json_object_set_new(o, "cluster", cluster_of(w));
    (void)json_object_update_new(o, expected_of(w));
    (void)json_object_update_new(o, forecast_of(w));
    return o;
}

json_t *why_json(const struct ctld *c, const struct job *job, struct error *err)
{
    struct why w;
    if (why_init(&w, c, job, err) < 0)
        return NULL;
    json_t *o = reply(&w);
    why_clear(&w);
    if (!o)
        (void)error_set(err, ERR_NOMEM, "reply");
    return o;
}

/* A size that the cluster did not grant: "4 GPUs or more were not granted, and
 * are not tried before 2026-11-28T20:00:00.000Z; ". */
static int say_barred(const struct ctld *c, const struct job *job,
                      struct buf *text)
{
    const struct job_resize *r = &job->resize;
    const struct clock *clock = c->parts.clock;
    char at[WIRE_TIME_CAP];

    if (r->barred_gpus == 0 || job_state_is_final(job->state) ||
        r->barred_until_s <= clock->wall_s(clock))
        return 0;
    wire_time(r->barred_until_s, at);
    return buf_addf(text, NULL,
                    "%" PRId32 " GPU%s or %s were not granted, and are not "
                    "tried before %s; ",
                    r->barred_gpus, r->barred_gpus == 1 ? "" : "s",
                    r->barred_below ? "fewer" : "more", at);
}

/* Why it has, or would get, so many GPUs; null: its number is fixed. */
static json_t *size_of(const struct ctld *c, const struct job *job)
{
    struct size_table t = {.rows = NULL};
    struct buf text = BUF_INIT;
    const struct job_resize *r = &job->resize;
    bool has_sizes =
        job->gpus_min < job->gpus_max || job->nodes_min < job->nodes_max;
    int rc = 0;

    if (r->gpus > 0 && job->gpus > 0 && r->gpus != job->gpus)
        rc = buf_addf(&text, NULL, "%s: from %" PRId32 " to %" PRId32 " GPUs; ",
                      r->gpus < job->gpus ? "Shrinking" : "Growing", job->gpus,
                      r->gpus);
    if (rc == 0)
        rc = say_barred(c, job, &text);
    if (rc == 0 && has_sizes && size_table_read(c, &t, NULL) == 0)
        rc = size_table_say(&t, job->id, &text, NULL);
    if (rc == 0 && text.len > 2 && text.data[text.len - 2] == ';')
        text.data[text.len -= 2] = '\0';
    json_t *o =
        rc == 0 && text.len > 0 ? ctld_text(buf_str(&text)) : json_null();
    size_table_clear(&t);
    buf_clear(&text);
    return o;
}

void serve_why(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    const struct job *job = NULL;
    struct error err = ERROR_INIT;
    if (!ctld_admit(c, x) || !ctld_job_param(c, x, &job))
        return;
    for (size_t i = 0; i < job->n_depends; i++)
        (void)ctld_job_find_or_log(c, job->depends[i].job);
    json_t *o = why_json(c, job, &err);
    if (o)
        (void)json_object_set_new(o, "size", size_of(c, job));
    if (o)
        ctld_reply(x, 200, o);
    else
        http_reply_err(x, &err);
}
