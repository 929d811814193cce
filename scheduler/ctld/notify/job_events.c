/* job_events.c - which events somebody is told of, and what he is told.
 *
 * The document (mgpu.notify/1) has what stands in a queue, the times and the
 * reason, and how to see more; of the specification its name and `notify`, and
 * nothing of its environment or its paths, for notify.program may send it on.
 * An event comes with its job as that is by now, which may be further on: what
 * the event itself says goes first.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/ctld_internal.h"

enum { WAITING_MAX = 1024, PATH_MAX_BYTES = 600 };
static const double LIMIT_S = 30, PAUSE_S = 1;

/* ---- what is told ---------------------------------------------------------
 */
static bool is_failure(enum job_state s)
{
    return s == JOB_FAILED || s == JOB_TIMEOUT || s == JOB_NODE_FAIL;
}

/* The state that an event brings; JOB_STATE_N: it is no matter for notices. */
static enum job_state state_by(const struct store_event *ev,
                               const struct job *job)
{
    switch (ev->ev) {
    case EV_CLAIM:
        return JOB_STARTING;
    case EV_STALL:
        return JOB_STALLED;
    case EV_TIME_80:
        return JOB_RUNNING;
    case EV_HOLD:
        return ev->uid == job->uid ? JOB_STATE_N : JOB_HELD;
    case EV_REQUEUE:
        return JOB_QUEUED;
    case EV_FINISH:
        return JOB_COMPLETED;
    case EV_FAIL:
        return JOB_FAILED;
    case EV_KILLED:
        return JOB_CANCELLED;
    case EV_EXPIRE:
        return JOB_TIMEOUT;
    case EV_LOST:
        return JOB_NODE_FAIL;
    case EV_CANCEL: /* of what lives it is only asked for */
        return job->state == JOB_CANCELLED && job->end_s == ev->at_s
                   ? JOB_CANCELLED
                   : JOB_STATE_N;
    default:
        return JOB_STATE_N;
    }
}

/* Of what its user wants to be told; 0: nothing. */
static enum spec_notify bit_of(enum job_event ev, enum job_state state,
                               uint32_t on)
{
    if (job_state_is_final(state)) {
        bool is_fail = is_failure(state) && (on & NOTIFY_FAIL) != 0;
        return is_fail ? NOTIFY_FAIL : (enum spec_notify)(on & NOTIFY_END);
    }
    uint32_t bit = ev == EV_CLAIM     ? NOTIFY_BEGIN
                   : ev == EV_STALL   ? NOTIFY_STALLED
                   : ev == EV_TIME_80 ? NOTIFY_TIME_80
                   : ev == EV_HOLD    ? NOTIFY_HELD
                                      : NOTIFY_REQUEUE;
    return (enum spec_notify)(on & bit);
}

struct news {
    const struct store_event *ev;
    const struct job *job;
    enum job_state state;
    const char *on; /* static */
    char display[JOB_DISPLAY_CAP], reason[JOB_REASON_CAP], at[WIRE_TIME_CAP];
};

static void take_reason(struct news *w)
{
    json_t *d = w->ev->detail ? json_loads(w->ev->detail, 0, NULL) : NULL;
    const char *why = json_string_value(json_object_get(d, "why"));
    if (!why && w->job->state == w->state)
        why = w->job->reason;
    (void)snprintf(w->reason, sizeof(w->reason), "%s", why ? why : "");
    json_decref(d);
}

static char *document(const struct ctld *c, const struct news *w,
                      json_t *notify)
{
    const struct job *j = w->job;
    const char *cluster = c->parts.conf->cluster;
    bool is_final = job_state_is_final(w->state);
    char id[SPEC_NAME_CAP + 24], show[64];
    (void)snprintf(id, sizeof(id), "%s:%" PRIu64, cluster, w->ev->seq);
    (void)snprintf(show, sizeof(show), "mgpu-stat %s", w->display);
    json_t *o = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:o, s:o, s:s, s:o, s:o, "
        "s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:s, s:s, s:O}",
        "schema", "mgpu.notify/1", "id", id, "cluster", cluster, "on", w->on,
        "event", job_event_name(w->ev->ev), "at", w->at, "job",
        (json_int_t)j->id, "display_id", w->display, "name", ctld_text(j->name),
        "user", ctld_text(j->user), "state", job_state_name(w->state), "reason",
        ctld_text(w->reason), "exit_code",
        is_final && j->exit_code >= 0 ? json_integer(j->exit_code)
                                      : json_null(),
        "attempt", w->ev->attempt, "gpus", j->gpus, "nodes", j->nodes, "place",
        ctld_text(j->place), "submitted", ctld_time(j->submit_s), "started",
        ctld_time(j->start_s), "ended",
        ctld_time(is_final ? j->end_s : (double)NAN), "limit_s",
        ctld_num(j->attempt_limit_s), "show", show, "url", c->url, "notify",
        notify);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text;
}

/* ---- who is told ----------------------------------------------------------
 */
static char **copy_argv(const struct spec_list *from)
{
    char **argv = calloc(from->n + 1, sizeof(*argv));
    for (size_t i = 0; argv && i < from->n; i++)
        if (!(argv[i] = strdup(from->items[i]))) {
            while (i-- > 0)
                free(argv[i]);
            free(argv);
            return NULL;
        }
    return argv;
}

/* NULL: no memory. */
static struct notice *make_notice(const struct ctld *c, const struct news *w,
                                  json_t *notify)
{
    struct notice *n = calloc(1, sizeof(*n));
    if (!n)
        return NULL;
    *n = (struct notice){.seq = w->ev->seq,
                         .job = w->job->id,
                         .uid = w->job->uid,
                         .on = w->on,
                         .argv = copy_argv(c->parts.conf->notify_program),
                         .text = document(c, w, notify)};
    if (n->argv && n->text)
        return n;
    notifier_notice_destroy(n);
    return NULL;
}

static void not_told(struct ctld *c, const struct news *w, const char *why)
{
    c->n_untold++;
    log_warn("notice", "notification failed job=%" PRIu64 " on=%s why=\"%s\"",
             w->job->id, w->on, why);
}

static void path_of(const struct ctld *c, char ret[PATH_MAX_BYTES])
{
    (void)snprintf(ret, PATH_MAX_BYTES, "%s/notified",
                   c->parts.conf->state_dir);
}

/* On the first notice: most daemons never need the thread. */
static bool has_thread(struct ctld *c, struct error *err)
{
    char path[PATH_MAX_BYTES];
    path_of(c, path);
    const struct notices_conf conf = {.path = path,
                                      .limit_s = LIMIT_S,
                                      .pause_s = PAUSE_S,
                                      .max_waiting = WAITING_MAX};
    return c->notices || notifier_create(&conf, &c->notices, err) == 0;
}

static void tell(struct ctld *c, const struct news *w, json_t *notify)
{
    const struct spec_list *program = c->parts.conf->notify_program;
    struct error err = ERROR_INIT;
    struct notice *n;

    if (!program || program->n == 0)
        not_told(c, w, "notify.program is not set any more");
    else if (!has_thread(c, &err))
        not_told(c, w, err.msg);
    else if (!(n = make_notice(c, w, notify)))
        not_told(c, w, "out of memory");
    else
        notifier_post(c->notices, &n, 1);
}

void ctld_event_notice(struct ctld *c, const struct store_event *event,
                       const struct job *job)
{
    struct news w = {.ev = event, .job = job};
    if (job->notify_on == 0 || (w.state = state_by(event, job)) == JOB_STATE_N)
        return;
    w.on = spec_notify_word(bit_of(event->ev, w.state, job->notify_on));
    if (!w.on)
        return;
    (void)job_display_id(job, w.display);
    wire_time(event->at_s, w.at);
    take_reason(&w);
    json_t *spec = json_loads(job->spec, 0, NULL);
    json_t *notify = json_object_get(spec, "notify");
    if (json_is_string(json_object_get(notify, "to")))
        tell(c, &w, notify);
    json_decref(spec);
}

/* ---- starts ---------------------------------------------------------------
 */
int ctld_event_notice_init(struct ctld *c, struct error *err)
{
    char path[PATH_MAX_BYTES];
    path_of(c, path);
    return notifier_read(path, &c->told, &c->knows_told, err);
}

void ctld_event_notice_again(void *arg, const struct store_event *event,
                             const struct job *job)
{
    struct ctld *c = arg;
    if (c->knows_told && event->seq > c->told)
        ctld_event_notice(c, event, job);
}

/* A first start, or a state that is older than the file. */
int ctld_event_notice_begin(struct ctld *c, struct error *err)
{
    char path[PATH_MAX_BYTES];
    path_of(c, path);
    return c->knows_told && c->told <= c->first_seq
               ? 0
               : notifier_write(path, c->first_seq, err);
}

struct notices_counts ctld_event_notice_counts(struct ctld *c)
{
    struct notices_counts n = {.sent = 0};
    if (c->notices)
        n = notifier_count(c->notices);
    n.failed += c->n_untold;
    return n;
}

int ctld_event_notice_check(const struct job_spec *spec, bool has_program,
                            struct error *err)
{
    return has_program || !spec->notify.to
               ? 0
               : error_set(err, ERR_INVAL,
                           "spec: notify: this daemon tells nobody; an "
                           "administrator can set notify.program [E023]");
}
