/* notifier.c - see notifier.h. What is posted waits in a list of its own, under
 * the lock, until the thread takes it over; the other list is the thread's. */
#include "scheduler/ctld/notify/notifier.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/base/clock.h"
#include "jobs/base/log.h"
#include "scheduler/ctld/notify/notify_program.h"

enum {
    RUNS_MAX = 4,   /* under way at a time */
    OF_ONE_MAX = 2, /* of these, of one user */
    SHARE = 4,      /* one user may fill one part in so many of the queue */
    SAID_MAX = 64,  /* jobs of which a failure was logged last */
    NUMBER_LEN = 20 /* digits of a seq in the file */
};
/* The thread looks so often whether a program has ended. */
static const double LOOK_S = 0.05;
/* Between two lines about what failed, and two about what was dropped. */
static const double SAY_EVERY_S = 1, SAY_DROPS_EVERY_S = 10;

enum how { WAITS, RUNS, OVER };

struct item {
    struct item *next;
    struct notices *of;
    struct notice *what; /* owned */
    enum how how;
    int tries;      /* that have begun */
    double due_s;   /* WAITS: not before */
    double until_s; /* RUNS: then it is killed */
    bool is_killed;
    pid_t pid;
};

/* How much of the queue is one user's. */
struct share {
    int64_t uid;
    size_t n;
};

struct notices {
    struct notices_conf conf;
    char *path; /* owned */
    pthread_t id;
    bool is_started;

    /* Of the thread. */
    struct item *first, **last; /* by seq */
    int fd;                     /* of the file; -1 */
    uint64_t taken, written;    /* the last seq of each */
    uint64_t said[SAID_MAX];    /* a ring of jobs */
    size_t n_said;
    double said_s;
    uint64_t unsaid;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;  /* something was posted, or it is to stop */
    bool is_stopping;
    struct item *posted, **posted_last;
    struct notices_counts counts;
    struct share *shares; /* owned; [conf.max_waiting] */
    size_t n_shares;
    double said_drops_s;
    uint64_t unsaid_drops;
};

void notifier_notice_destroy(struct notice *n)
{
    if (!n)
        return;
    for (size_t i = 0; n->argv && n->argv[i]; i++)
        free(n->argv[i]);
    free(n->argv);
    free(n->text);
    free(n);
}

static double now(void)
{
    return clock_real.now_s(&clock_real);
}

/* ---- the file -------------------------------------------------------------
 */
/* A fixed number of digits, so that one write replaces all of it. */
static bool put_number(int fd, uint64_t seq)
{
    char text[NUMBER_LEN + 2];
    int len = snprintf(text, sizeof(text), "%020" PRIu64 "\n", seq);
    return pwrite(fd, text, (size_t)len, 0) == len;
}

static int open_file(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

int notifier_read(const char *path, uint64_t *ret_seq, bool *ret_is_there,
                  struct error *err)
{
    struct buf b = BUF_INIT;
    struct error why = ERROR_INIT;
    int rc = buf_read_file(&b, path, NUMBER_LEN + 1, &why);
    const char *text = buf_str(&b);
    *ret_is_there = rc == 0 && strspn(text, "0123456789") == NUMBER_LEN;
    if (*ret_is_there)
        *ret_seq = strtoull(text, NULL, 10);
    buf_clear(&b);
    return rc == 0 || why.code == ERR_NOTFOUND || why.code == ERR_LIMIT
               ? 0
               : error_set(err, why.code, "%s", why.msg);
}

int notifier_write(const char *path, uint64_t seq, struct error *err)
{
    int fd = open_file(path);
    bool is_done = fd >= 0 && put_number(fd, seq);
    int saved = errno;
    if (fd >= 0)
        (void)close(fd);
    return is_done ? 0 : error_sys(err, saved, "write '%s'", path);
}

/* All before the first that is left has been told or given up. */
static void keep_number(struct notices *n)
{
    uint64_t seq = n->first ? n->first->what->seq - 1 : n->taken;
    if (n->taken > 0 && seq != n->written && n->fd >= 0 &&
        put_number(n->fd, seq))
        n->written = seq;
}

/* ---- how it went ----------------------------------------------------------
 */
static bool was_said(struct notices *n, uint64_t job)
{
    for (size_t i = 0; i < SAID_MAX && i < n->n_said; i++)
        if (n->said[i] == job)
            return true;
    n->said[n->n_said++ % SAID_MAX] = job;
    return false;
}

/* Once for each job, and not more than one line a second. */
static void complain(struct notices *n, const struct item *it, const char *why)
{
    const struct notice *w = it->what;
    if (was_said(n, w->job))
        return;
    if (now() - n->said_s < SAY_EVERY_S) {
        n->unsaid++;
        return;
    }
    log_warn("notice",
             "notification failed job=%" PRIu64 " on=%s tries=%d why=\"%s\" "
             "unsaid=%" PRIu64,
             w->job, w->on, it->tries, why, n->unsaid);
    n->said_s = now();
    n->unsaid = 0;
}

static void give_back(struct notices *n, int64_t uid)
{
    for (size_t i = 0; i < n->n_shares; i++) {
        if (n->shares[i].uid != uid)
            continue;
        if (--n->shares[i].n == 0)
            n->shares[i] = n->shares[--n->n_shares];
        return;
    }
}

static void is_over(struct item *it, bool is_sent)
{
    struct notices *n = it->of;
    it->how = OVER;
    (void)pthread_mutex_lock(&n->lock);
    n->counts.sent += is_sent;
    n->counts.failed += !is_sent;
    n->counts.waiting--;
    give_back(n, it->what->uid);
    (void)pthread_mutex_unlock(&n->lock);
}

static void sent(struct item *it)
{
    const struct notice *w = it->what;
    log_info("notice", "notification sent job=%" PRIu64 " on=%s tries=%d",
             w->job, w->on, it->tries);
    is_over(it, true);
}

static void failed(struct item *it, const char *why)
{
    struct notices *n = it->of;
    if (it->tries < NOTICES_TRIES) {
        it->how = WAITS;
        it->due_s = now() + n->conf.pause_s * pow(4, it->tries - 1);
        return;
    }
    complain(n, it, why);
    is_over(it, false);
}

/* ---- a try ----------------------------------------------------------------
 */
static void run(struct item *it)
{
    struct error err = ERROR_INIT;
    it->how = RUNS;
    it->until_s = now() + it->of->conf.limit_s;
    it->is_killed = false;
    if (notify_program_start(it->what->argv, it->what->text, &it->pid, &err) <
        0)
        failed(it, err.msg);
}

static void look(struct item *it)
{
    struct error err = ERROR_INIT;
    char why[80];
    if (notify_program_ended(it->pid, &err)) {
        (void)snprintf(why, sizeof(why), "the program did not end within %g s",
                       it->of->conf.limit_s);
        if (err.code == ERR_NONE)
            sent(it);
        else
            failed(it, it->is_killed ? why : err.msg);
    } else if (!it->is_killed && now() >= it->until_s) {
        notify_program_kill(it->pid);
        it->is_killed = true;
    }
}

static int n_of(const struct notices *n, enum how how)
{
    int sum = 0;
    for (const struct item *it = n->first; it; it = it->next)
        sum += it->how == how;
    return sum;
}

static bool has_room_for(const struct notices *n, int64_t uid)
{
    int sum = 0;
    for (const struct item *it = n->first; it; it = it->next)
        sum += it->what->uid == uid && it->how == RUNS;
    return sum < OF_ONE_MAX;
}

/* The events of a job are told in their order. */
static bool is_next(const struct notices *n, const struct item *it)
{
    const struct item *p = n->first;
    while (p != it && (p->how == OVER || p->what->job != it->what->job))
        p = p->next;
    return p == it;
}

static void start_due(struct notices *n)
{
    double now_s = now();
    int room = RUNS_MAX - n_of(n, RUNS);
    for (struct item *it = n->first; it && room > 0; it = it->next) {
        if (it->how != WAITS || it->due_s > now_s ||
            !has_room_for(n, it->what->uid) || !is_next(n, it))
            continue;
        room--;
        it->tries++;
        run(it);
    }
}

/* For how long there will be nothing to do, unless something happens. Who is
 * due by now waits for others to end. */
static double pause_of(const struct notices *n)
{
    double now_s = now(), pause_s = INFINITY;
    for (const struct item *it = n->first; it; it = it->next) {
        if (it->how == OVER)
            pause_s = 0;
        else if (it->how == RUNS)
            pause_s = fmin(pause_s, LOOK_S);
        else if (it->how == WAITS && it->tries > 0)
            pause_s = fmin(pause_s, fmax(it->due_s - now_s, LOOK_S));
    }
    return pause_s;
}

/* ---- the thread -----------------------------------------------------------
 */
static void item_destroy(struct item *it)
{
    notifier_notice_destroy(it->what);
    free(it);
}

static void take_out_what_is_over(struct notices *n)
{
    for (struct item **p = &n->first; *p;) {
        struct item *it = *p;
        if (it->how != OVER) {
            p = &it->next;
            continue;
        }
        *p = it->next;
        if (!*p)
            n->last = p;
        item_destroy(it);
    }
}

/* False: the thread is to end. */
static bool take_posted(struct notices *n)
{
    (void)pthread_mutex_lock(&n->lock);
    bool goes_on = !n->is_stopping;
    if (n->posted) {
        *n->last = n->posted;
        n->last = n->posted_last;
        n->posted = NULL;
        n->posted_last = &n->posted;
    }
    (void)pthread_mutex_unlock(&n->lock);
    for (const struct item *it = n->first; it; it = it->next)
        if (it->what->seq > n->taken)
            n->taken = it->what->seq;
    return goes_on;
}

/* Until then, or until something is posted. */
static void wait_for_work(struct notices *n, double pause_s)
{
    struct timespec at;
    double at_s = now() + fmin(pause_s, 3600);
    at.tv_sec = (time_t)at_s;
    at.tv_nsec = (long)((at_s - floor(at_s)) * 1e9);
    (void)pthread_mutex_lock(&n->lock);
    int rc = 0;
    while (rc == 0 && !n->posted && !n->is_stopping)
        rc = pthread_cond_timedwait(&n->wake, &n->lock, &at);
    (void)pthread_mutex_unlock(&n->lock);
}

static void *notices_main(void *arg)
{
    struct notices *n = arg;
    (void)pthread_setname_np(pthread_self(), "notices");
    n->fd = open_file(n->path);
    while (take_posted(n)) {
        start_due(n);
        wait_for_work(n, pause_of(n));
        for (struct item *it = n->first; it; it = it->next)
            if (it->how == RUNS)
                look(it);
        take_out_what_is_over(n);
        keep_number(n);
    }
    for (const struct item *it = n->first; it; it = it->next)
        if (it->how == RUNS)
            notify_program_kill(it->pid);
    if (n->fd >= 0)
        (void)close(n->fd);
    return NULL;
}

int notifier_create(const struct notices_conf *conf, struct notices **ret,
                    struct error *err)
{
    struct notices *n = calloc(1, sizeof(*n));
    if (!n)
        return error_set(err, ERR_NOMEM, "notices");
    *n = (struct notices){.conf = *conf,
                          .fd = -1,
                          .written = UINT64_MAX,
                          .said_s = -INFINITY,
                          .said_drops_s = -INFINITY};
    n->conf.path = NULL;
    n->last = &n->first;
    n->posted_last = &n->posted;
    (void)pthread_mutex_init(&n->lock, NULL);
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&n->wake, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    n->path = strdup(conf->path);
    n->shares = calloc(conf->max_waiting, sizeof(*n->shares));
    if (!n->path || !n->shares) {
        (void)error_set(err, ERR_NOMEM, "notices");
        goto fail;
    }
    /* Signals are the loop's. */
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&n->id, NULL, notices_main, n);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        (void)error_sys(err, rc, "start thread 'notices'");
        goto fail;
    }
    n->is_started = true;
    *ret = n;
    return 0;
fail:
    notifier_destroy(n);
    return -1;
}

static void list_destroy(struct item *it)
{
    while (it) {
        struct item *next = it->next;
        item_destroy(it);
        it = next;
    }
}

void notifier_destroy(struct notices *n)
{
    if (!n)
        return;
    if (n->is_started) {
        (void)pthread_mutex_lock(&n->lock);
        n->is_stopping = true;
        (void)pthread_cond_signal(&n->wake);
        (void)pthread_mutex_unlock(&n->lock);
        (void)pthread_join(n->id, NULL);
    }
    list_destroy(n->first);
    list_destroy(n->posted);
    (void)pthread_cond_destroy(&n->wake);
    (void)pthread_mutex_destroy(&n->lock);
    free(n->shares);
    free(n->path);
    free(n);
}

/* ---- what is asked --------------------------------------------------------
 */
/* Under the lock. */
static bool take_share(struct notices *n, int64_t uid)
{
    size_t i = 0;
    while (i < n->n_shares && n->shares[i].uid != uid)
        i++;
    bool is_new = i == n->n_shares;
    if (n->counts.waiting >= n->conf.max_waiting ||
        (!is_new && n->shares[i].n >= n->conf.max_waiting / SHARE))
        return false;
    if (is_new)
        n->shares[n->n_shares++] = (struct share){.uid = uid};
    n->shares[i].n++;
    n->counts.waiting++;
    return true;
}

/* Under the lock; the notice is the caller's still. */
static void drop(struct notices *n, const struct notice *w)
{
    n->counts.dropped++;
    if (now() - n->said_drops_s < SAY_DROPS_EVERY_S) {
        n->unsaid_drops++;
        return;
    }
    log_warn("notice",
             "too many wait, one is dropped job=%" PRIu64 " on=%s "
             "unsaid=%" PRIu64,
             w->job, w->on, n->unsaid_drops);
    n->said_drops_s = now();
    n->unsaid_drops = 0;
}

void notifier_post(struct notices *n, struct notice **list, size_t len)
{
    (void)pthread_mutex_lock(&n->lock);
    for (size_t i = 0; i < len; i++) {
        struct item *it = calloc(1, sizeof(*it));
        if (!it || !take_share(n, list[i]->uid)) {
            drop(n, list[i]);
            notifier_notice_destroy(list[i]);
            free(it);
            continue;
        }
        *it = (struct item){.of = n, .what = list[i], .due_s = -INFINITY};
        *n->posted_last = it;
        n->posted_last = &it->next;
    }
    (void)pthread_cond_signal(&n->wake);
    (void)pthread_mutex_unlock(&n->lock);
}

struct notices_counts notifier_count(struct notices *n)
{
    (void)pthread_mutex_lock(&n->lock);
    struct notices_counts counts = n->counts;
    (void)pthread_mutex_unlock(&n->lock);
    return counts;
}
