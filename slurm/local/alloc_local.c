/* alloc_local.c - this machine as a cluster of one node.
 *
 * Its slots are GPUs found through NVML, or declared CPU slots. An attempt is a
 * shepherd (shepherd.c) in a session of its own; it outlives the daemon, and
 * its files in the attempt's directory (attempt_dir.h) tell a restarted daemon
 * its state. So request() first reads the directory, and starts an attempt only
 * if nothing was ever started there.
 *
 * A request that fits the machine but not its free slots is pending, first
 * come, first served, unless it needs no slot. Slots are booked in memory.
 * After a restart the `place` of each attempt that may have processes books
 * them again, even while its shepherd has not written `started` yet. So
 * request() starts nothing, poll() does: the engine requests every live attempt
 * again before it polls, and the attempts of an earlier daemon have their slots
 * by then.
 *
 * The allocator does not see other users of this machine's GPUs.
 *
 * The slot of a GPU that fails stays out of service (local_gpus.c).
 *
 * Nothing here blocks: pidfds report the end of shepherds; wake_fd() bundles
 * them with an event for undelivered notes, and with a timer that runs only
 * while an attempt has to be examined again. */
#include "slurm/alloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "slurm/launch/attempt_dir.h"
#include "slurm/local/local.h"
#include "slurm/local/slot_cores.h"

enum { LOOK_AGAIN_NS = 50 * 1000000 }; /* while a state is not settled */

/* Drops an attempt that must not start; NULL: without a note. */
static void give_up(struct alloc_local *l, struct local_attempt *a,
                    const struct alloc_note *note)
{
    if (note)
        local_push(l, a, *note);
    l->n_live--;
    local_drop(l, a);
}

static void start_waiting(struct alloc_local *l)
{
    bool is_blocked = false;
    struct local_attempt *next;
    for (struct local_attempt *a = l->first; a; a = next) {
        struct alloc_note note = {.kind = ALLOC_REFUSED};
        next = a->next;
        if (a->state != LOCAL_WAITING)
            continue;
        if (a->n_slots > local_n_there(l)) {
            /* It was requested when the machine had more GPUs. */
            (void)error_set(&note.why, ERR_LIMIT, "%d GPUs, there are %d",
                            a->n_slots, local_n_there(l));
            give_up(l, a, &note);
        } else if (a->n_slots > 0 &&
                   (is_blocked || a->n_slots > local_n_free(l))) {
            is_blocked = true;
        } else if (local_start(l, a, &note.why) < 0) {
            enum err_code code = note.why.code;
            if (code == ERR_BUSY || code == ERR_LIMIT)
                note.why.code = ERR_NOMEM; /* the code that alloc.h
                                            * prescribes */
            give_up(l, a, &note);
        }
    }
}

static void forget_oldest(struct alloc_local *l)
{
    for (struct local_attempt *a = l->first; a && l->n_ended > ENDED_CAP;) {
        struct local_attempt *next = a->next;
        if (a->state == LOCAL_ENDED) {
            local_drop(l, a);
            l->n_ended--;
        }
        a = next;
    }
}

/* ---- wake-up --------------------------------------------------------------
 */
/* The event signals work for poll(), the timer fires for attempts that no
 * descriptor reports. */
static void set_alarms(struct alloc_local *l)
{
    bool has_notes =
        l->notes.at < l->notes.n || l->wants_start || l->watch.is_news;
    bool is_unwatched = l->has_gpus && l->watcher && l->watch.fd < 0;
    bool is_unsettled = false;
    for (const struct local_attempt *a = l->first; a; a = a->next)
        is_unsettled = is_unsettled || a->state == LOCAL_UNSURE ||
                       a->state == LOCAL_SWEEPING || a->state == LOCAL_ASKING;
    uint64_t count = 1;
    if (has_notes)
        (void)!write(l->event_fd, &count, sizeof(count));
    else
        (void)!read(l->event_fd, &count, sizeof(count));
    struct timespec next = {.tv_nsec = is_unsettled ? LOOK_AGAIN_NS : 0,
                            .tv_sec = is_unwatched && !is_unsettled};
    struct itimerspec every = {.it_value = next, .it_interval = next};
    (void)timerfd_settime(l->timer_fd, 0, &every, NULL);
}

static int local_poll(struct alloc *base, struct alloc_note *notes, size_t cap,
                      size_t *ret_n, struct error *err)
{
    (void)err;
    struct alloc_local *l = (struct alloc_local *)base;
    local_gpus_listen(l);
    for (struct local_attempt *a = l->first; a; a = a->next)
        local_advance(l, a);
    l->wants_start = false;
    start_waiting(l);
    forget_oldest(l);
    *ret_n = notes_take(&l->notes, notes, cap);
    if (l->watch.is_news && *ret_n < cap) {
        notes[(*ret_n)++] = (struct alloc_note){.kind = ALLOC_INVENTORY};
        l->watch.is_news = false;
    }
    set_alarms(l);
    return 0;
}

static int local_wake_fd(struct alloc *base)
{
    return ((struct alloc_local *)base)->epoll_fd;
}

/* ---- the seam -------------------------------------------------------------
 */
/* "0,1 mgpu 12.1; 2 mgpu 13.1"; attempts without slots are not listed. */
static void set_users(const struct alloc_local *l, struct alloc_node *io)
{
    const size_t cap = sizeof(io->used);
    size_t len = 0;

    for (const struct local_attempt *a = l->first; a; a = a->next) {
        const char *slots = strrchr(a->place, ':');
        bool holds = a->state == LOCAL_UNSURE || a->state == LOCAL_RUNNING ||
                     a->state == LOCAL_SWEEPING || a->state == LOCAL_ASKING;
        io->is_busy = io->is_busy || holds;
        if (!holds || a->n_slots < 1 || !slots || len >= cap)
            continue;
        len += (size_t)snprintf(io->used + len, cap - len, "%s%s mgpu %llu.%d",
                                len > 0 ? "; " : "", slots + 1,
                                (unsigned long long)a->job, a->attempt);
    }
}

/* Of the first GPU that has a type. */
static const char *gpu_type(const struct alloc_local *l)
{
    for (int32_t i = 0; i < l->n_slots && l->has_gpus; i++)
        if (!l->gpus[i].gpu.is_lost)
            return l->gpus[i].gpu.type;
    return l->has_gpus ? "gpu" : "slot";
}

/* Of the smallest, if all existing GPUs report it. */
static int64_t gpu_bytes(const struct alloc_local *l)
{
    int64_t least = 0;
    for (int32_t i = 0; i < l->n_slots && l->has_gpus; i++) {
        if (l->gpus[i].gpu.is_lost)
            continue;
        if (l->gpus[i].gpu.bytes == 0)
            return 0;
        if (least == 0 || l->gpus[i].gpu.bytes < least)
            least = l->gpus[i].gpu.bytes;
    }
    return least;
}

static int local_inventory(struct alloc *base, struct alloc_node *nodes,
                           size_t cap, size_t *ret_n, struct error *err)
{
    struct alloc_local *l = (struct alloc_local *)base;
    if (cap < 1)
        return error_set(err, ERR_LIMIT, "1 node, room for none");
    nodes[0] = (struct alloc_node){.gpu_bytes = gpu_bytes(l),
                                   .gpus_total = local_n_there(l),
                                   .gpus_free = local_n_free(l),
                                   .is_up = 1};
    memcpy(nodes[0].name, l->host, sizeof(l->host));
    local_gpus_why(l, nodes[0].why, sizeof(nodes[0].why));
    local_gpus_drained(l, &nodes[0]);
    (void)snprintf(nodes[0].gpu_type, sizeof(nodes[0].gpu_type), "%s",
                   gpu_type(l));
    set_users(l, &nodes[0]);
    *ret_n = 1;
    return 0;
}

/* Whether this machine can ever run it; if not, *ret has the reason. */
static bool is_possible(const struct alloc_local *l,
                        const struct alloc_req *req, struct error *ret)
{
    if (req->uid != geteuid())
        (void)error_set(ret, ERR_DENIED,
                        "this daemon runs jobs of uid %u only, not of %u",
                        (unsigned)geteuid(), (unsigned)req->uid);
    else if (req->nodes > 1)
        (void)error_set(ret, ERR_LIMIT, "%d nodes, there is one", req->nodes);
    else if (req->gpus_per_node > local_n_there(l))
        (void)error_set(ret, ERR_LIMIT, "%d GPUs, there are %d",
                        req->gpus_per_node, local_n_there(l));
    else if (access(req->worker, X_OK) < 0)
        (void)error_sys(ret, errno, "run '%s'", req->worker);
    else
        return true;
    return false;
}

static int make_dir(const char *dir, struct error *err)
{
    struct stat st;
    if (mkdir(dir, 0700) == 0)
        return 0;
    if (errno != EEXIST)
        return error_sys(err, errno, "create '%s'", dir);
    if (lstat(dir, &st) < 0)
        return error_sys(err, errno, "look at '%s'", dir);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return error_set(err, ERR_DENIED, "'%s' is not our directory", dir);
    return 0;
}

/* Handles a request that is new to this daemon: reads the state from the
 * directory, and refuses, adopts or queues the attempt. */
static int take_in(struct alloc_local *l, const struct alloc_req *req,
                   struct error *err)
{
    struct local_attempt *a;
    struct alloc_note note = {.kind = ALLOC_REFUSED};
    if (make_dir(req->dir, err) < 0 || local_new(l, req, &a, err) < 0)
        return -1;
    int rc = local_look(l, a, err);
    if (rc == 0 && a->state == LOCAL_WAITING &&
        !is_possible(l, req, &note.why)) {
        give_up(l, a, &note);
        return 0;
    }
    /* Rewritten if an attempt that has not started is requested again, since a
     * reboot may have lost it. */
    if (rc == 0 && (a->state == LOCAL_WAITING || a->state == LOCAL_UNSURE))
        rc = attempt_put(req->dir, "launch.json", req->launch, err);
    if (rc < 0)
        give_up(l, a, NULL);
    return rc;
}

static int local_request(struct alloc *base, const struct alloc_req *req,
                         struct error *err)
{
    struct alloc_local *l = (struct alloc_local *)base;
    if (req->nodes < 1 || req->gpus_per_node < 0 || req->dir[0] != '/' ||
        req->worker[0] != '/')
        return error_set(err, ERR_INVAL,
                         "%d nodes with %d GPUs each, '%s' in '%s'", req->nodes,
                         req->gpus_per_node, req->worker, req->dir);
    /* Each live attempt can still be granted and end; the rest is for this
     * request. */
    if (notes_reserve(&l->notes, 2 * l->n_live + 4, err) < 0)
        return -1;
    const struct local_attempt *a = local_find(l, req->job, req->attempt);
    int rc = 0;
    if (!a)
        rc = take_in(l, req, err);
    else if (a->state == LOCAL_RUNNING || a->state == LOCAL_SWEEPING ||
             a->state == LOCAL_ASKING)
        local_push(l, a, (struct alloc_note){.kind = ALLOC_GRANTED});
    else if (a->state == LOCAL_ENDED)
        local_push(l, a, a->end);
    l->wants_start = true;
    set_alarms(l);
    return rc;
}

static struct local_attempt *known(struct alloc *base, uint64_t job,
                                   int32_t attempt, struct error *err)
{
    struct local_attempt *a =
        local_find((struct alloc_local *)base, job, attempt);
    if (!a)
        (void)error_set(err, ERR_NOTFOUND, "no attempt %d of job %llu", attempt,
                        (unsigned long long)job);
    return a;
}

static int local_release(struct alloc *base, uint64_t job, int32_t attempt,
                         double grace_s, struct error *err)
{
    struct alloc_local *l = (struct alloc_local *)base;
    struct local_attempt *a = known(base, job, attempt, err);
    if (!a)
        return -1;
    double ms = grace_s > 0 ? grace_s * 1e3 : 0;
    a->grace_ms = ms < 2e9 ? (int)ms : 2000000000;
    int rc = 0;
    if (a->state == LOCAL_RUNNING)
        rc = local_tell(a, SHEPHERD_RELEASE, a->grace_ms, err);
    else if (a->state == LOCAL_UNSURE)
        a->is_released = true;
    else if (a->state == LOCAL_WAITING)
        rc = local_end_unstarted(l, a, err);
    set_alarms(l);
    return rc;
}

static int local_signal(struct alloc *base, uint64_t job, int32_t attempt,
                        int signo, struct error *err)
{
    const struct local_attempt *a = known(base, job, attempt, err);
    if (!a)
        return -1;
    if (a->state != LOCAL_RUNNING)
        return 0; /* it has no ranks */
    return local_tell(a, SHEPHERD_SIGNAL, signo, err);
}

static bool local_mend(struct alloc *base, const char *node)
{
    struct alloc_local *l = (struct alloc_local *)base;
    bool is_any = strcmp(node, l->host) == 0 && local_gpus_mend(l);
    l->wants_start = l->wants_start || is_any;
    set_alarms(l);
    return is_any;
}

static void local_destroy(struct alloc *base)
{
    if (!base)
        return;
    int saved = errno;
    struct alloc_local *l = (struct alloc_local *)base;
    while (l->first)
        local_drop(l, l->first);
    local_gpus_leave(l);
    if (l->epoll_fd >= 0)
        (void)close(l->epoll_fd);
    if (l->event_fd >= 0)
        (void)close(l->event_fd);
    if (l->timer_fd >= 0)
        (void)close(l->timer_fd);
    notes_clear(&l->notes);
    free(l->mpirun);
    free(l->shepherd);
    free(l->watcher);
    free(l->nvml);
    free(l);
    errno = saved;
}

static const struct alloc_ops local_ops = {
    .name = "local",
    .inventory = local_inventory,
    .request = local_request,
    .release = local_release,
    .signal = local_signal,
    .poll = local_poll,
    .wake_fd = local_wake_fd,
    .mend = local_mend,
    .destroy = local_destroy,
};

static int open_alarms(struct alloc_local *l, struct error *err)
{
    struct epoll_event ev = {.events = EPOLLIN};
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (l->epoll_fd < 0 || l->event_fd < 0 || l->timer_fd < 0 ||
        epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->event_fd, &ev) < 0 ||
        epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->timer_fd, &ev) < 0)
        return error_sys(err, errno, "descriptors of the allocator");
    return 0;
}

/* The other GPUs remain usable. */
static void leave_out_lost(struct alloc_local *l)
{
    size_t len = 0;
    for (int32_t i = 0; i < l->n_slots; i++) {
        if (!l->gpus[i].gpu.is_lost)
            continue;
        l->n_lost++;
        l->busy[i] = 1;
        if (len < sizeof(l->why))
            len += (size_t)snprintf(l->why + len, sizeof(l->why) - len,
                                    "%sGPU %d has fallen off the bus",
                                    len > 0 ? ", " : "", i);
    }
}

static int count_slots(struct alloc_local *l, const struct alloc_local_conf *c,
                       struct error *err)
{
    if (c->slots < 0 || c->slots > SLOTS_CAP)
        return error_set(err, ERR_CONFIG, "%d slots, expected 0..%d", c->slots,
                         (int)SLOTS_CAP);
    l->n_slots = c->slots;
    l->binds = c->bind && c->slots > 0;
    if (l->binds && c->slots > slot_cores_all(NULL))
        return error_set(err, ERR_CONFIG,
                         "local.bind: %d slots need as many cores, and %d are "
                         "allowed here",
                         c->slots, slot_cores_all(NULL));
    if (c->slots > 0)
        return 0;
    struct nvml_gpu gpus[GPUS_CAP];
    struct error why = ERROR_INIT;
    size_t n = 0;
    if (nvml_list(c->nvml, gpus, GPUS_CAP, &n, &why) < 0)
        (void)snprintf(l->why, sizeof(l->why), "%.95s", why.msg);
    for (size_t i = 0; i < n; i++)
        l->gpus[i].gpu = gpus[i];
    l->n_slots = (int32_t)n;
    l->has_gpus = n > 0;
    leave_out_lost(l);
    return 0;
}

int alloc_local_create(const struct alloc_local_conf *conf, struct alloc **ret,
                       struct error *err)
{
    struct alloc_local *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, ERR_NOMEM, "allocator");
    l->base.ops = &local_ops;
    l->epoll_fd = l->event_fd = l->timer_fd = -1;
    l->watch.fd = l->watch.pidfd = -1;
    if (gethostname(l->host, sizeof(l->host) - 1) < 0 || !l->host[0])
        (void)snprintf(l->host, sizeof(l->host), "localhost");
    l->mpirun = strdup(conf->mpirun);
    l->shepherd = strdup(conf->shepherd);
    l->watcher = conf->gpuwatch ? strdup(conf->gpuwatch) : NULL;
    l->nvml = conf->nvml ? strdup(conf->nvml) : NULL;
    l->max_fds = conf->max_fds;
    l->tell = conf->tell;
    int rc = 0;
    if (!l->mpirun || !l->shepherd || (conf->gpuwatch && !l->watcher) ||
        (conf->nvml && !l->nvml))
        rc = error_set(err, ERR_NOMEM, "allocator");
    if (rc == 0)
        rc = count_slots(l, conf, err);
    if (rc == 0)
        rc = open_alarms(l, err);
    if (rc < 0) {
        local_destroy(&l->base);
        return -1;
    }
    local_gpus_watch(l);
    *ret = &l->base;
    return 0;
}
