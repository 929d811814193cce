/* local_attempt.c - one attempt on this machine: start, adoption after a
 * restart, end; see local.h.
 *
 * An attempt whose shepherd died is LOST, but only after every process with its
 * mark has ended: its slots stay booked while a process may still compute on
 * them. */
#include "slurm/local/local.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/base/clock.h"
#include "slurm/launch/attempt_dir.h"
#include "slurm/launch/proc.h"
#include "slurm/local/shepherd_spawn.h"
#include "slurm/local/slot_cores.h"
#include "slurm/place_text.h"

/* ---- the list of attempts -------------------------------------------------
 */
struct local_attempt *local_find(const struct alloc_local *l, uint64_t job,
                                 int32_t attempt)
{
    struct local_attempt *a = l->first;
    while (a && (a->job != job || a->attempt != attempt))
        a = a->next;
    return a;
}

static void append(struct alloc_local *l, struct local_attempt *a)
{
    a->prev = l->last;
    if (l->last)
        l->last->next = a;
    else
        l->first = a;
    l->last = a;
    l->n_live++;
}

static void destroy_attempt(struct local_attempt *a)
{
    if (a->pidfd >= 0)
        (void)close(a->pidfd);
    free(a->dir);
    free(a->worker);
    free(a);
}

void local_push(struct alloc_local *l, const struct local_attempt *a,
                struct alloc_note note)
{
    note.job = a->job;
    note.attempt = a->attempt;
    memcpy(note.native_id, a->native_id, sizeof(note.native_id));
    memcpy(note.place, a->place, sizeof(note.place));
    notes_push(&l->notes, &note);
}

int local_new(struct alloc_local *l, const struct alloc_req *req,
              struct local_attempt **ret, struct error *err)
{
    struct local_attempt *a = calloc(1, sizeof(*a));
    if (!a)
        return error_set(err, ERR_NOMEM, "attempt");
    a->job = req->job;
    a->attempt = req->attempt;
    a->n_slots = req->gpus_per_node;
    a->is_to_end = req->ask == ALLOC_FIND;
    a->pidfd = -1;
    a->dir = strdup(req->dir);
    a->worker = strdup(req->worker);
    if (!a->dir || !a->worker) {
        destroy_attempt(a);
        return error_set(err, ERR_NOMEM, "attempt");
    }
    append(l, a);
    *ret = a;
    return 0;
}

/* ---- slots ----------------------------------------------------------------
 */
int32_t local_n_free(const struct alloc_local *l)
{
    int32_t n = 0;
    for (int32_t i = 0; i < l->n_slots; i++)
        n += local_is_usable(l, i);
    return n;
}

int32_t local_n_there(const struct alloc_local *l)
{
    return l->n_slots - l->n_lost;
}

/* A slot is booked twice only if an attempt's `place` cannot be read, or names
 * a slot that this machine no longer has; it is free when both have ended. */
static void book(struct alloc_local *l, const struct local_attempt *a, int by)
{
    for (int32_t i = 0; i < SLOTS_CAP; i++)
        if (a->used[i])
            l->busy[i] += by;
}

static void unbook(struct alloc_local *l, struct local_attempt *a)
{
    book(l, a, -1);
    memset(a->used, 0, sizeof(a->used));
}

/* An earlier daemon chose its slots, and its processes may use them. `place` is
 * written before a shepherd is started; if it cannot be read, the attempt may
 * have any slot. */
static void book_chosen(struct alloc_local *l, struct local_attempt *a)
{
    char place[1024];
    unbook(l, a);
    if (a->n_slots < 1)
        return;
    if (attempt_read(a->dir, "place", place, sizeof(place), NULL) < 0 ||
        place_text_parse(place, a->used, SLOTS_CAP, NULL) < 0)
        for (int32_t i = 0; i < l->n_slots; i++)
            a->used[i] = 1;
    book(l, a, 1);
}

void local_drop(struct alloc_local *l, struct local_attempt *a)
{
    unbook(l, a);
    if (a->prev)
        a->prev->next = a->next;
    else
        l->first = a->next;
    if (a->next)
        a->next->prev = a->prev;
    else
        l->last = a->prev;
    destroy_attempt(a);
}

static void choose_slots(const struct alloc_local *l, struct local_attempt *a,
                         struct place_text *text)
{
    int32_t want = a->n_slots;
    place_text_begin(text);
    place_text_node(text, l->host);
    for (int32_t i = 0; i < l->n_slots && want > 0; i++) {
        if (!local_is_usable(l, i))
            continue;
        a->used[i] = 1;
        want--;
        place_text_index(text, i);
    }
    assert(want == 0);
}

/* ---- the end of an attempt ------------------------------------------------
 */
static void end(struct alloc_local *l, struct local_attempt *a,
                const struct alloc_note *note)
{
    unbook(l, a);
    a->state = LOCAL_ENDED;
    a->end = *note;
    local_push(l, a, *note);
    l->n_live--;
    l->n_ended++;
}

static void end_exited(struct alloc_local *l, struct local_attempt *a,
                       const struct attempt_exit *x)
{
    struct alloc_note note = {.kind = ALLOC_EXITED,
                              .exit_code = x->code,
                              .signal = x->signal,
                              .cpu_ms = x->cpu_ms,
                              .cores_ms = x->cores_ms,
                              .ended_ms = attempt_ended_ms(x)};
    bool has_failed = x->code != 0 || x->signal != 0;
    if (has_failed && local_gpus_blame(l, a, &note.why))
        note.ended_by = ALLOC_BY_FAULT;
    end(l, a, &note);
}

/* A program notices a failed GPU before the watch does. So before the allocator
 * reports that a program failed, it asks the watch, and waits this long for the
 * answer. */
static const double ASK_S = 2;

static bool asks(struct alloc_local *l, struct local_attempt *a,
                 const struct attempt_exit *x)
{
    bool has_failed = x->code != 0 || x->signal != 0;
    bool has_gpus = l->has_gpus && memchr(a->used, 1, sizeof(a->used));
    a->ask = has_failed && has_gpus ? local_gpus_ask(l) : 0;
    if (a->ask == 0)
        return false;
    a->state = LOCAL_ASKING;
    a->exit = *x;
    a->ask_until_s = clock_real.now_s(&clock_real) + ASK_S;
    return true;
}

static void end_lost(struct alloc_local *l, struct local_attempt *a,
                     const char *why)
{
    struct alloc_note note = {.kind = ALLOC_LOST};
    (void)error_set(&note.why, ERR_EXTERN, "%s", why);
    end(l, a, &note);
}

/* It was never started, and never will be. Recorded on disk, too: a request
 * after a restart must not start it. */
int local_end_unstarted(struct alloc_local *l, struct local_attempt *a,
                        struct error *err)
{
    struct attempt_exit x = {.signal = SIGTERM,
                             .when_s = clock_real.wall_s(&clock_real)};
    if (attempt_exit_write(a->dir, &x, err) < 0)
        return -1;
    end_exited(l, a, &x);
    return 0;
}

/* ---- read the state -------------------------------------------------------
 */
int local_tell(const struct local_attempt *a, int signo, int value,
               struct error *err)
{
    siginfo_t si;
    memset(&si, 0, sizeof(si));
    si.si_signo = signo;
    si.si_code = SI_QUEUE;
    si.si_pid = getpid();
    si.si_uid = getuid();
    si.si_value.sival_int = value;
    if (pidfd_send_signal(a->pidfd, signo, &si, 0) == 0 || errno == ESRCH)
        return 0; /* a note of the shepherd's exit follows */
    return error_sys(err, errno, "signal shepherd %s", a->native_id);
}

static int watch(struct alloc_local *l, struct local_attempt *a, pid_t pid,
                 int pidfd, struct error *err)
{
    struct epoll_event ev = {.events = EPOLLIN};
    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, pidfd, &ev) < 0)
        return error_sys(err, errno, "watch process %d", (int)pid);
    a->pidfd = pidfd;
    a->state = LOCAL_RUNNING;
    (void)snprintf(a->native_id, sizeof(a->native_id), "pid:%d", (int)pid);
    local_push(l, a, (struct alloc_note){.kind = ALLOC_GRANTED});
    return 0;
}

/* Adopts the shepherd that holds the lock and was let go. The lock file has its
 * pid; its start time excludes another process with a reused pid, and once its
 * pidfd is open the pid cannot be reused. */
static int adopt(struct alloc_local *l, struct local_attempt *a,
                 struct error *err)
{
    struct attempt_pid holder;
    char place[1024];
    if (attempt_pid_read(a->dir, &holder, err) < 0 ||
        attempt_read(a->dir, "place", place, sizeof(place), err) < 0)
        return -1;
    unsigned char used[SLOTS_CAP] = {0};
    if (place_text_parse(place, used, SLOTS_CAP, err) < 0)
        return -1;
    int pidfd = pidfd_open(holder.pid, 0);
    if (pidfd < 0)
        return error_sys(err, errno, "shepherd %d", (int)holder.pid);
    uint64_t ticks;
    if (proc_start_ticks(holder.pid, &ticks, err) < 0 ||
        ticks != holder.start_ticks) {
        (void)close(pidfd);
        return error_set(err, ERR_NOTFOUND, "shepherd %d has gone",
                         (int)holder.pid);
    }
    place_text_cut(place, a->place, sizeof(a->place));
    if (watch(l, a, holder.pid, pidfd, err) < 0) {
        (void)close(pidfd);
        return -1;
    }
    unbook(l, a);
    memcpy(a->used, used, sizeof(a->used));
    book(l, a, 1);
    return a->is_released ? local_tell(a, SHEPHERD_RELEASE, a->grace_ms, err)
                          : 0;
}

static void unwatch(struct local_attempt *a)
{
    if (a->pidfd >= 0)
        (void)close(a->pidfd);
    a->pidfd = -1;
}

/* Handles a lock that is free, or whose holder is dead. */
static int settle(struct alloc_local *l, struct local_attempt *a,
                  struct error *err)
{
    struct attempt_exit x;
    int has_exit = attempt_has(a->dir, "exit", err);
    int has_started = attempt_has(a->dir, "started", err);
    if (has_exit < 0 || has_started < 0)
        return -1;
    if (has_exit) {
        if (attempt_exit_read(a->dir, &x, err) < 0)
            end_lost(l, a, "its exit file is damaged");
        else if (!asks(l, a, &x))
            end_exited(l, a, &x);
    } else if (has_started) {
        if (a->state != LOCAL_RUNNING) /* an earlier daemon's attempt */
            book_chosen(l, a);
        a->state = LOCAL_SWEEPING;
    } else if (a->is_ours) {
        end_lost(l, a, "its shepherd failed: see shepherd.log");
    } else if (a->is_released || a->is_to_end) {
        return local_end_unstarted(l, a, err);
    } else {
        unbook(l, a);
        a->state = LOCAL_WAITING;
    }
    return 0;
}

/* From the directory alone. A state that is not settled stays UNSURE. */
int local_look(struct alloc_local *l, struct local_attempt *a,
               struct error *err)
{
    int lock_fd;
    struct error why = ERROR_INIT;
    if (attempt_lock(a->dir, &lock_fd, &why) == 0) {
        int rc = settle(l, a, err);
        (void)close(lock_fd);
        return rc;
    }
    a->state = LOCAL_UNSURE;
    book_chosen(l, a);
    if (why.code != ERR_BUSY) {
        if (err)
            *err = why;
        return -1;
    }
    int has_started = attempt_has(a->dir, "started", err);
    if (has_started < 0)
        return -1;
    /* A shepherd that cannot be adopted is about to exit. */
    if (has_started && adopt(l, a, &why) < 0)
        a->state = a->pidfd >= 0 ? LOCAL_RUNNING : LOCAL_UNSURE;
    return 0;
}

/* ---- starting -------------------------------------------------------------
 */
/* CUDA_VISIBLE_DEVICES for the chosen slots; "" if slots are not GPUs. */
static int cuda_devices(const struct alloc_local *l,
                        const struct local_attempt *a, struct buf *ret,
                        struct error *err)
{
    for (int32_t i = 0; l->has_gpus && i < l->n_slots; i++)
        if (a->used[i] && buf_addf(ret, err, "%s%s", ret->len > 0 ? "," : "",
                                   l->gpus[i].gpu.uuid) < 0)
            return -1;
    return 0;
}

int local_start(struct alloc_local *l, struct local_attempt *a,
                struct error *err)
{
    struct place_text text;
    char place[1024];
    struct buf cuda = BUF_INIT;
    int lock_fd = -1;
    int pidfd = -1;
    pid_t pid = -1;
    choose_slots(l, a, &text);
    place_text_end(&text, place, sizeof(place));
    cpu_set_t cores;
    /* A rank that has all GPUs starts a process for each of them. */
    int32_t share =
        slot_cores(l, a, &cores) / (a->n_slots > 1 ? a->n_slots : 1);
    struct shepherd_spawn s = {.program = l->shepherd,
                               .mpirun = l->mpirun,
                               .dir = a->dir,
                               .worker = a->worker,
                               .threads = share > 0 ? share : 1,
                               .max_fds = l->max_fds,
                               .cores = l->binds ? &cores : NULL};
    int rc = cuda_devices(l, a, &cuda, err);
    /* Needed only while the attempt runs, so not after a reboot. */
    if (rc == 0)
        rc = attempt_put(a->dir, "place", place, err);
    if (rc == 0)
        rc = attempt_lock(a->dir, &lock_fd, err);
    if (rc == 0) {
        s.cuda = buf_str(&cuda);
        s.lock_fd = lock_fd;
        rc = shepherd_spawn(&s, &pid, &pidfd, err);
        (void)close(lock_fd);
    }
    buf_clear(&cuda);
    if (rc != 0) {
        memset(a->used, 0, sizeof(a->used));
        return -1;
    }
    book(l, a, 1);
    a->is_ours = true;
    place_text_end(&text, a->place, sizeof(a->place));
    /* It runs; if its end cannot be watched, look again at intervals. */
    if (watch(l, a, pid, pidfd, err) < 0) {
        a->pidfd = pidfd;
        a->state = LOCAL_RUNNING;
        local_push(l, a, (struct alloc_note){.kind = ALLOC_GRANTED});
    }
    return 0;
}

/* ---- events ---------------------------------------------------------------
 */
/* Returns how many of its processes exist; -1: unknown. */
static int sweep(const struct local_attempt *a)
{
    char entry[4096 + sizeof(ATTEMPT_MARK)];
    struct attempt_pid shepherd;
    (void)snprintf(entry, sizeof(entry), "%s=%s", ATTEMPT_MARK, a->dir);
    if (attempt_pid_read(a->dir, &shepherd, NULL) < 0)
        shepherd.start_ticks = 0;
    return proc_signal_marked(entry, shepherd.start_ticks, SIGKILL, NULL);
}

void local_advance(struct alloc_local *l, struct local_attempt *a)
{
    if (a->state == LOCAL_UNSURE) {
        if (local_look(l, a, NULL) < 0)
            a->state = LOCAL_UNSURE; /* and again in a moment */
    } else if (a->state == LOCAL_RUNNING) {
        struct pollfd fd = {.fd = a->pidfd, .events = POLLIN};
        if (poll(&fd, 1, 0) <= 0)
            return;
        siginfo_t si;
        (void)waitid(P_PIDFD, (id_t)a->pidfd, &si, WEXITED | WNOHANG);
        unwatch(a);
        if (settle(l, a, NULL) < 0)
            a->state = LOCAL_SWEEPING;
    } else if (a->state == LOCAL_SWEEPING) {
        if (sweep(a) == 0)
            end_lost(l, a, "its shepherd died");
    } else if (a->state == LOCAL_ASKING) {
        if (local_gpus_has_answered(l, a->ask) ||
            clock_real.now_s(&clock_real) >= a->ask_until_s)
            end_exited(l, a, &a->exit);
    }
}
