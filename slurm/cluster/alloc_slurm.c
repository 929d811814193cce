/* alloc_slurm.c - the allocator seam for a Slurm cluster.
 *
 * mgpu-slurm-helper, at the other end of a socket (helper_wire.h), makes every
 * call of Slurm: libslurm blocks for seconds when slurmctld does not answer,
 * and may exit the process. This side keeps what is known of each attempt and
 * derives the next step from it; cluster.h has the phases.
 *
 * Slurm may be unavailable for any time: requests are accepted, and forwarded
 * when it answers again. inventory() fails meanwhile, so the engine does not
 * plan with stale data. */
#include "slurm/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "slurm/cluster/cluster.h"

/* ---- wake-up --------------------------------------------------------------
 */
static bool is_stale(const struct cluster *c)
{
    return cluster_now(c) - c->heard_s > c->stale_s;
}

static void watch(struct cluster *c, uint32_t events)
{
    struct epoll_event ev = {.events = events};
    int op = EPOLL_CTL_MOD;
    if (events == c->watched)
        return;
    if (c->watched == 0)
        op = EPOLL_CTL_ADD;
    else if (events == 0)
        op = EPOLL_CTL_DEL;
    if (epoll_ctl(c->epoll_fd, op, c->fd, &ev) == 0)
        c->watched = events;
}

/* The event descriptor signals notes, or that poll() has something to examine;
 * the timer fires when the next step is due. A step that was due when poll()
 * looked, and was not done, waits for another event, not for time. */
static void set_alarms(struct cluster *c, double looked_s, bool is_event)
{
    uint64_t count = 1;
    double t_s = c->heard_s + c->stale_s;
    for (const struct cluster_attempt *a = c->first; a; a = a->next) {
        double next_s = cluster_next_s(c, a);
        if (next_s > looked_s)
            t_s = fmin(t_s, next_s);
    }
    if (is_event)
        (void)!write(c->event_fd, &count, sizeof(count));
    else
        (void)!read(c->event_fd, &count, sizeof(count));
    struct itimerspec at = {.it_value = {0}};
    if (isfinite(t_s) && t_s > looked_s) {
        double left_s = fmin(fmax(t_s - cluster_now(c), 1e-3), 1e6);
        at.it_value.tv_sec = (time_t)left_s;
        at.it_value.tv_nsec = (long)((left_s - floor(left_s)) * 1e9);
    }
    (void)timerfd_settime(c->timer_fd, 0, &at, NULL);
    watch(c, c->is_dead ? 0 : EPOLLIN | (c->out.len > 0 ? EPOLLOUT : 0u));
}

/* After a call that may have made work for poll(). */
static void touch(struct cluster *c, struct cluster_attempt *a)
{
    uint64_t count = 1;
    cluster_advance(c, a);
    cluster_submit(c, a);
    cluster_write(c);
    (void)!write(c->event_fd, &count, sizeof(count));
}

/* ---- notes ----------------------------------------------------------------
 */
static void fill(const struct cluster_attempt *a, struct alloc_note *note)
{
    note->job = a->req.job;
    note->attempt = a->req.attempt;
    if (a->slurm_id > 0)
        (void)snprintf(note->native_id, sizeof(note->native_id), "%u",
                       (unsigned)a->slurm_id);
    memcpy(note->place, a->place, sizeof(note->place));
}

/* The oldest note that is due for an attempt. */
static struct alloc_note take_one(struct cluster_attempt *a)
{
    struct alloc_note note = {
        .kind = ALLOC_WAITING,
        .why = a->why,
        .expected_s = (double)a->expected,
        .is_of_size = a->is_over_size && a->why.code == ERR_LIMIT,
        .is_in_line = a->phase == CLUSTER_SEEN && a->is == CLUSTER_PENDING};
    if (a->unsaid & CLUSTER_SAY_WAITING) {
        a->unsaid &= ~(unsigned)CLUSTER_SAY_WAITING;
    } else if (a->unsaid & CLUSTER_SAY_GRANTED) {
        a->unsaid &= ~(unsigned)CLUSTER_SAY_GRANTED;
        note = (struct alloc_note){.kind = ALLOC_GRANTED,
                                   .is_suspended = a->is_suspended};
    } else if (a->unsaid & CLUSTER_SAY_PRIORITY) {
        a->unsaid &= ~(unsigned)CLUSTER_SAY_PRIORITY;
        note = cluster_priority_note(a);
    } else if (a->unsaid & CLUSTER_SAY_LIMIT) {
        a->unsaid &= ~(unsigned)CLUSTER_SAY_LIMIT;
        note = (struct alloc_note){.kind = ALLOC_LIMIT,
                                   .limit_s = a->req.limit_s,
                                   .limit_is_default = a->limit_is_default,
                                   .why = a->limit_why};
    } else {
        a->unsaid &= ~(unsigned)CLUSTER_SAY_END;
        note = a->end;
    }
    fill(a, &note);
    return note;
}

static size_t take(struct cluster *c, struct alloc_note *notes, size_t cap)
{
    size_t n = 0;
    if (c->say_inventory && cap > 0) {
        notes[n++] = (struct alloc_note){.kind = ALLOC_INVENTORY};
        c->say_inventory = false;
    }
    while (c->unsaid && n < cap) {
        struct cluster_attempt *a = c->unsaid;
        notes[n++] = take_one(a);
        if (a->unsaid != 0)
            continue;
        c->unsaid = a->next_unsaid;
        if (!c->unsaid)
            c->last_unsaid = NULL;
        if (a->is_refused)
            cluster_drop(c, a);
    }
    return n;
}

static void forget_oldest(struct cluster *c)
{
    struct cluster_attempt *a = c->first;
    while (a && c->n_ended > CLUSTER_ENDED_CAP) {
        struct cluster_attempt *next = a->next;
        if (a->phase == CLUSTER_ENDED && a->unsaid == 0)
            cluster_drop(c, a);
        a = next;
    }
}

static int slurm_poll(struct alloc *base, struct alloc_note *notes, size_t cap,
                      size_t *ret_n, struct error *err)
{
    struct cluster *c = (struct cluster *)base;
    cluster_read(c, cluster_news);
    if (c->is_dead) {
        set_alarms(c, INFINITY, false);
        return error_set(err, c->why_dead.code, "%s", c->why_dead.msg);
    }
    double now_s = cluster_now(c);
    if (is_stale(c) != c->was_stale) {
        c->was_stale = !c->was_stale;
        c->say_inventory = true;
    }
    for (struct cluster_attempt *a = c->first; a; a = a->next)
        cluster_advance(c, a);
    for (struct cluster_attempt *a = c->first; a; a = a->next)
        cluster_submit(c, a);
    cluster_write(c);
    *ret_n = take(c, notes, cap);
    forget_oldest(c);
    set_alarms(c, now_s, c->unsaid || c->say_inventory);
    return 0;
}

static int slurm_wake_fd(struct alloc *base)
{
    return ((struct cluster *)base)->epoll_fd;
}

/* ---- the seam -------------------------------------------------------------
 */
static int since(struct error *ret, const char *what, int64_t wall_s)
{
    char text[16] = "?";
    struct tm tm;
    time_t t = (time_t)wall_s;
    if (localtime_r(&t, &tm))
        (void)strftime(text, sizeof(text), "%H:%M:%S", &tm);
    return error_set(ret, ERR_UNAVAIL, "%s since %s", what, text);
}

const char *alloc_slurm_why_down(const struct cluster *c, struct error *ret)
{
    double wall_s = c->clock->wall_s(c->clock);
    int64_t heard = (int64_t)(wall_s - (cluster_now(c) - c->heard_s));
    if (c->is_dead)
        (void)error_set(ret, ERR_UNAVAIL, "%s", c->why_dead.msg);
    else if (c->is_down)
        (void)since(ret, c->why_down.msg, c->down_since);
    else if (is_stale(c))
        (void)since(ret, "no message from mgpu-slurm-helper", heard);
    else if (!c->has_hello)
        (void)since(ret, "waiting for mgpu-slurm-helper", heard);
    else
        return NULL;
    return ret->msg;
}

static int slurm_inventory(struct alloc *base, struct alloc_node *nodes,
                           size_t cap, size_t *ret_n, struct error *err)
{
    struct cluster *c = (struct cluster *)base;
    struct error why = ERROR_INIT;
    if (alloc_slurm_why_down(c, &why))
        return error_set(err, ERR_UNAVAIL, "%s", why.msg);
    if (!c->has_nodes)
        return error_set(err, ERR_UNAVAIL, "no list of nodes from Slurm yet");
    if (c->n_nodes > cap)
        return error_set(err, ERR_LIMIT, "%zu nodes, room for %zu", c->n_nodes,
                         cap);
    if (c->n_nodes > 0)
        memcpy(nodes, c->nodes, c->n_nodes * sizeof(*nodes));
    *ret_n = c->n_nodes;
    return 0;
}

static size_t slurm_partitions(struct alloc *base,
                               const struct alloc_partition **ret)
{
    const struct cluster *c = (struct cluster *)base;
    *ret = c->parts;
    return c->n_parts;
}

static size_t slurm_quotas(struct alloc *base, const struct alloc_quota **ret)
{
    const struct cluster *c = (struct cluster *)base;
    *ret = c->quotas;
    return c->n_quotas;
}

static int check(const struct cluster *c, const struct alloc_req *req,
                 struct error *err)
{
    uint64_t job;
    int32_t attempt;
    if (c->is_dead)
        return error_set(err, ERR_UNAVAIL, "%s", c->why_dead.msg);
    if (req->nodes < 1 || req->gpus_per_node < 0 || req->dir[0] != '/')
        return error_set(err, ERR_INVAL, "%d nodes with %d GPUs each in '%s'",
                         req->nodes, req->gpus_per_node, req->dir);
    if (!cluster_tag_parse(c->name, req->tag, &job, &attempt) ||
        job != req->job || attempt != req->attempt)
        return error_set(err, ERR_INVAL,
                         "'%s' is no tag of attempt %d of job %llu", req->tag,
                         req->attempt, (unsigned long long)req->job);
    return 0;
}

/* Makes its latest note due once more. */
static void repeat(struct cluster *c, struct cluster_attempt *a)
{
    if (a->phase == CLUSTER_ENDED)
        cluster_say(c, a, CLUSTER_SAY_END);
    else if (a->was_granted)
        cluster_say(c, a, CLUSTER_SAY_GRANTED);
    else if (a->why.code != ERR_NONE)
        cluster_say(c, a, CLUSTER_SAY_WAITING);
}

static int slurm_request(struct alloc *base, const struct alloc_req *req,
                         struct error *err)
{
    struct cluster *c = (struct cluster *)base;
    struct cluster_attempt *a = cluster_find(c, req->job, req->attempt);
    if (check(c, req, err) < 0)
        return -1;
    if (a) {
        a->is_claimed = a->is_claimed || req->is_claimed;
        repeat(c, a);
    } else {
        if (cluster_new(c, req, &a, err) < 0)
            return -1;
        if (a->phase == CLUSTER_UNSURE)
            cluster_wait(c, a, ERR_BUSY,
                         "SlurmUnknown: perhaps submitted by an earlier "
                         "daemon, looking for it");
        cluster_look(c, a);
    }
    touch(c, a);
    return 0;
}

static struct cluster_attempt *known(struct alloc *base, uint64_t job,
                                     int32_t attempt, struct error *err)
{
    struct cluster_attempt *a =
        cluster_find((struct cluster *)base, job, attempt);
    if (!a)
        (void)error_set(err, ERR_NOTFOUND, "no attempt %d of job %llu", attempt,
                        (unsigned long long)job);
    return a;
}

static int slurm_release(struct alloc *base, uint64_t job, int32_t attempt,
                         double grace_s, struct error *err)
{
    struct cluster *c = (struct cluster *)base;
    struct cluster_attempt *a = known(base, job, attempt, err);
    if (!a)
        return -1;
    grace_s = fmax(grace_s, 0);
    double kill_s = cluster_now(c) + grace_s;
    a->grace_s = a->is_released ? fmin(a->grace_s, grace_s) : grace_s;
    a->kill_s = a->is_released ? fmin(a->kill_s, kill_s) : kill_s;
    if (!a->is_released)
        a->act_s = -INFINITY;
    a->act_s = fmin(a->act_s, a->kill_s);
    a->is_released = true;
    touch(c, a);
    return 0;
}

static int slurm_cancelled(struct alloc *base, uint64_t job, int32_t attempt,
                           struct error *err)
{
    struct cluster_attempt *a = known(base, job, attempt, err);
    if (!a)
        return -1;
    a->is_cancelled = true;
    return 0;
}

static int slurm_claimed(struct alloc *base, uint64_t job, int32_t attempt,
                         const char *native_id, struct error *err)
{
    struct cluster *c = (struct cluster *)base;
    struct cluster_attempt *a = known(base, job, attempt, err);
    if (!a)
        return -1;
    uint32_t id = cluster_id(native_id);
    a->is_claimed = true;
    a->waits = 0;
    if (id > 0)
        a->claimed_id = id;
    if (a->phase == CLUSTER_ENDED && id > 0 && id != a->slurm_id)
        cluster_end_instead(c, a, id);
    cluster_look(c, a);
    touch(c, a);
    return 0;
}

static int slurm_limit(struct alloc *base, uint64_t job, int32_t attempt,
                       double limit_s, struct error *err)
{
    if (cluster_limit(base, job, attempt, limit_s, err) < 0)
        return -1;
    touch((struct cluster *)base, known(base, job, attempt, NULL));
    return 0;
}

static int slurm_signal(struct alloc *base, uint64_t job, int32_t attempt,
                        int signo, struct error *err)
{
    struct cluster_attempt *a = known(base, job, attempt, err);
    if (!a)
        return -1;
    if (signo < 1 || signo > 64)
        return error_set(err, ERR_INVAL, "signal %d, expected 1..64", signo);
    if (a->phase == CLUSTER_SEEN && a->is == CLUSTER_RUNNING)
        a->signals |= 1ULL << (signo - 1);
    touch((struct cluster *)base, a);
    return 0;
}

static void slurm_destroy(struct alloc *base)
{
    if (!base)
        return;
    int saved = errno;
    struct cluster *c = (struct cluster *)base;
    while (c->first) {
        c->first->unsaid = 0;
        cluster_drop(c, c->first);
    }
    cluster_jobs_clear(c);
    const int fds[] = {c->fd, c->epoll_fd, c->event_fd, c->timer_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    buf_clear(&c->in);
    buf_clear(&c->out);
    free(c->nodes);
    free(c->parts);
    free(c->new_parts);
    free(c->quotas);
    free(c->new_quotas);
    free(c->name);
    free(c);
    errno = saved;
}

static const struct alloc_ops slurm_ops = {
    .name = "slurm",
    .is_shared = true,
    .inventory = slurm_inventory,
    .partitions = slurm_partitions,
    .quotas = slurm_quotas,
    .request = slurm_request,
    .release = slurm_release,
    .cancelled = slurm_cancelled,
    .claimed = slurm_claimed,
    .limit = slurm_limit,
    .signal = slurm_signal,
    .poll = slurm_poll,
    .wake_fd = slurm_wake_fd,
    .destroy = slurm_destroy,
};

static int open_alarms(struct cluster *c, struct error *err)
{
    struct epoll_event ev = {.events = EPOLLIN};
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    c->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int flags = fcntl(c->fd, F_GETFL);
    if (c->epoll_fd < 0 || c->event_fd < 0 || c->timer_fd < 0 || flags < 0 ||
        fcntl(c->fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(c->fd, F_SETFD, FD_CLOEXEC) < 0 ||
        epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->event_fd, &ev) < 0 ||
        epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->timer_fd, &ev) < 0)
        return error_sys(err, errno, "descriptors of the allocator");
    watch(c, EPOLLIN);
    return 0;
}

int alloc_slurm_create(const struct alloc_slurm_conf *conf, struct alloc **ret,
                       struct error *err)
{
    struct cluster *c = calloc(1, sizeof(*c));
    if (!c) {
        (void)close(conf->fd);
        return error_set(err, ERR_NOMEM, "allocator");
    }
    c->base.ops = &slurm_ops;
    c->fd = conf->fd;
    c->epoll_fd = c->event_fd = c->timer_fd = -1;
    c->reconcile_after_s = conf->reconcile_after_s;
    c->stale_s = conf->stale_s;
    c->clock = conf->clock;
    c->heard_s = cluster_now(c);
    c->name = strdup(conf->cluster);
    int rc = c->name ? 0 : error_set(err, ERR_NOMEM, "allocator");
    if (rc == 0)
        rc = open_alarms(c, err);
    if (rc < 0) {
        slurm_destroy(&c->base);
        return -1;
    }
    *ret = &c->base;
    return 0;
}
