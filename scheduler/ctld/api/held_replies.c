/* held_replies.c - replies that wait until what they tell of is durable.
 *
 * A request that changes something is checked and staged at once, and its
 * reply held with the engine's ticket. When the commit of the step has come or
 * failed, engine_loop.c has all replies answered whose fate is known.
 */
#include <stdlib.h>

#include "scheduler/ctld/ctld_internal.h"

struct held {
    struct held *next;
    struct http_exchange *x;
    uint64_t ticket, job;
    int status;
};

static void answer(struct ctld *c, const struct held *h)
{
    const struct job *job = h->job ? ctld_find_or_log(c, h->job) : NULL;
    if (!job) {
        ctld_reply(h->x, h->status, json_pack("{s:s}", "schema", "mgpu.ok/1"));
        return;
    }
    ctld_reply(h->x, h->status,
               json_pack("{s:s, s:I, s:o, s:o, s:o*}", "schema", "mgpu.job/1",
                         "id", (json_int_t)job->id, "job",
                         ctld_job_json(c, job, true), "sweep",
                         ctld_sweep_json(c, job), "warnings",
                         ctld_warnings_json(c, job)));
}

void ctld_held_settle(struct ctld *c, const struct error *why)
{
    uint64_t durable = engine_durable(c->engine);
    uint64_t undone = engine_undone(c->engine);
    for (struct held **p = &c->held; *p;) {
        struct held *h = *p;
        if (h->ticket > durable && h->ticket > undone) {
            p = &h->next;
            continue;
        }
        *p = h->next;
        if (!*p)
            c->held_last = p;
        if (h->ticket <= durable)
            answer(c, h);
        else
            http_reply_err(h->x, why);
        free(h);
    }
}

/* What has ended, and is stored, is what it will always be; and it may leave
 * memory with the next step. Of a sweep all has. */
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

void ctld_hold(struct ctld *c, struct http_exchange *x, int status,
               uint64_t job)
{
    const struct held now = {.x = x, .job = job, .status = status};
    if (is_over(c, job)) {
        answer(c, &now);
        return;
    }
    struct held *h = calloc(1, sizeof(*h));
    struct error err;
    if (!h) {
        /* It may well be carried out; the client asks again by its key. */
        (void)error_set(&err, ERR_NOMEM, "request");
        http_reply_err(x, &err);
        ctld_want_step(c);
        return;
    }
    *h = (struct held){.x = x,
                       .ticket = engine_staged(c->engine),
                       .job = job,
                       .status = status};
    *c->held_last = h;
    c->held_last = &h->next;
    ctld_want_step(c);
}

void ctld_held_init(struct ctld *c)
{
    c->held_last = &c->held;
}

void ctld_held_clear(struct ctld *c)
{
    struct error err;
    (void)error_set(&err, ERR_UNAVAIL, "the daemon is stopping");
    while (c->held) {
        struct held *h = c->held;
        c->held = h->next;
        http_reply_err(h->x, &err);
        free(h);
    }
}
