/* held_replies.c - replies that wait until their change is durable.
 *
 * A handler that changes something checks and stages the change at once, and
 * holds its reply with the engine's ticket. When the commit of the step has
 * succeeded or failed, engine_loop.c settles the replies.
 */
#include "scheduler/ctld/api/held_replies.h"

#include <stdio.h>
#include <stdlib.h>

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/job_list/job_json.h"
#include "scheduler/ctld/loop/step_request.h"
#include "scheduler/ctld/request/job_lookup.h"
#include "scheduler/ctld/request/reply.h"

struct held {
    struct held *next;
    struct http_exchange *x;
    uint64_t ticket, job;
    int status;
    char says[JOB_REASON_CAP];
};

struct held_replies {
    struct held *first, **last;
};

static void answer(struct ctld *c, const struct held *h)
{
    const struct job *job = h->job ? ctld_job_find_or_log(c, h->job) : NULL;
    if (!job) {
        ctld_reply(h->x, h->status, json_pack("{s:s}", "schema", "mgpu.ok/1"));
        return;
    }
    ctld_reply(h->x, h->status,
               json_pack("{s:s, s:I, s:o, s:o, s:o*, s:s*}", "schema",
                         "mgpu.job/1", "id", (json_int_t)job->id, "job",
                         job_json_value(c, job, true), "sweep",
                         job_json_sweep(c, job), "warnings",
                         job_json_warnings(c, job), "says",
                         h->says[0] ? h->says : NULL));
}

void held_replies_settle(struct ctld *c, const struct error *why)
{
    uint64_t durable = engine_durable(c->engine);
    uint64_t rolled_back = engine_rolled_back(c->engine);
    for (struct held **p = &c->held_replies->first; *p;) {
        struct held *h = *p;
        if (h->ticket > durable && h->ticket > rolled_back) {
            p = &h->next;
            continue;
        }
        *p = h->next;
        if (!*p)
            c->held_replies->last = p;
        if (h->ticket <= durable)
            answer(c, h);
        else
            http_reply_err(h->x, why);
        free(h);
    }
}

/* Whether the job, or each task of the sweep, has ended and its end is durable.
 * Such a job does not change any more, and the next step may evict it. */
static bool is_over(const struct ctld *c, uint64_t id)
{
    const struct job *first = id > 0 ? engine_job(c->engine, id) : NULL;
    bool is = first != NULL;
    for (int32_t i = 0; is && (i == 0 || i < first->n_tasks); i++) {
        const struct job *job = engine_job(c->engine, id + (uint64_t)i);
        is = job && job_state_is_final(job->state) &&
             engine_settled(c->engine, job) == job;
    }
    return is;
}

void held_replies_add(struct ctld *c, struct http_exchange *x, int status,
                      uint64_t job)
{
    held_replies_add_text(c, x, status, job, "");
}

void held_replies_add_text(struct ctld *c, struct http_exchange *x, int status,
                           uint64_t job, const char *says)
{
    struct held now = {.x = x, .job = job, .status = status};
    (void)snprintf(now.says, sizeof(now.says), "%s", says);
    if (is_over(c, job)) {
        answer(c, &now);
        return;
    }
    struct held *h = calloc(1, sizeof(*h));
    struct error err;
    if (!h) {
        /* The engine may carry it out; the client repeats it with its key. */
        (void)error_set(&err, ERR_NOMEM, "request");
        http_reply_err(x, &err);
        ctld_step_want(c);
        return;
    }
    *h = now;
    h->ticket = engine_staged(c->engine);
    *c->held_replies->last = h;
    c->held_replies->last = &h->next;
    ctld_step_want(c);
}

bool held_replies_any(const struct ctld *c)
{
    return c->held_replies->first != NULL;
}

int held_replies_init(struct ctld *c, struct error *err)
{
    c->held_replies = calloc(1, sizeof(*c->held_replies));
    if (!c->held_replies)
        return error_set(err, ERR_NOMEM, "held replies");
    c->held_replies->last = &c->held_replies->first;
    return 0;
}

void held_replies_clear(struct ctld *c)
{
    struct held_replies *r = c->held_replies;
    struct error err;
    (void)error_set(&err, ERR_UNAVAIL, "the daemon is stopping");
    while (r && r->first) {
        struct held *h = r->first;
        r->first = h->next;
        http_reply_err(h->x, &err);
        free(h);
    }
    free(r);
    c->held_replies = NULL;
}
