/* helper_rpc.c - the child that executes commands: its threads and their queue.
 *
 * The main thread reads commands and queues them; WORKERS threads execute them,
 * so that a call that hangs does not delay the others; one more thread polls.
 * All of them write complete lines to the socket. When the queue is full the
 * main thread waits, and the daemon's socket fills up; the daemon has to
 * tolerate that.
 *
 * A child may be killed in the middle of a line, in either direction. So
 * "hello" begins with an empty line, which terminates an incomplete one, and
 * the first input from the daemon may be the rest of a command. */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/base/log.h"
#include "slurm/helper/helper.h"

enum { WORKERS = 4, QUEUE_CAP = 64 };
/* After a command the state is about to change; wait a moment, then scan. */
static const double POKED_S = 0.1;

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t is_fuller, is_emptier;
    struct helper_cmd cmds[QUEUE_CAP];
    size_t first, n;
};

struct crew {
    struct helper *h;
    struct queue queue;
    struct rpc_scan *scan;
};

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

/* ---- threads ------------------------------------------------------------- */
static void push(struct queue *q, const struct helper_cmd *c)
{
    (void)pthread_mutex_lock(&q->lock);
    while (q->n == QUEUE_CAP)
        (void)pthread_cond_wait(&q->is_emptier, &q->lock);
    q->cmds[(q->first + q->n++) % QUEUE_CAP] = *c;
    (void)pthread_cond_signal(&q->is_fuller);
    (void)pthread_mutex_unlock(&q->lock);
}

/* Submissions enter in the order of the queue. */
static struct helper_cmd pop(struct queue *q, struct submit_order *order)
{
    (void)pthread_mutex_lock(&q->lock);
    while (q->n == 0)
        (void)pthread_cond_wait(&q->is_fuller, &q->lock);
    struct helper_cmd c = q->cmds[q->first];
    q->first = (q->first + 1) % QUEUE_CAP;
    q->n--;
    if (c.op == HELPER_SUBMIT)
        submit_order_enter(order, c.id, c.req.uid);
    (void)pthread_cond_signal(&q->is_emptier);
    (void)pthread_mutex_unlock(&q->lock);
    return c;
}

static void *work(void *arg) __attribute__((noreturn));

static void *work(void *arg)
{
    struct crew *crew = arg;
    for (;;) {
        struct helper_cmd c = pop(&crew->queue, &crew->h->order);
        helper_do(crew->h, &c);
        submit_order_leave(&crew->h->order, c.id);
        helper_cmd_clear(&c);
    }
}

/* Sleeps until the next scan is due, or a little after a poke. */
static void rest(struct helper *h, double began_s)
{
    double until_s = began_s + h->conf->poll_s;
    (void)pthread_mutex_lock(&h->lock);
    for (;;) {
        if (h->is_poked && until_s > now_s() + POKED_S)
            until_s = now_s() + POKED_S;
        h->is_poked = false;
        if (now_s() >= until_s)
            break;
        struct timespec at = {.tv_sec = (time_t)until_s};
        at.tv_nsec = (long)((until_s - (double)at.tv_sec) * 1e9);
        (void)pthread_cond_timedwait(&h->wake, &h->lock, &at);
    }
    (void)pthread_mutex_unlock(&h->lock);
}

static void *look(void *arg) __attribute__((noreturn));

static void *look(void *arg)
{
    struct crew *crew = arg;
    struct buf news = BUF_INIT;
    for (;;) {
        struct error err = ERROR_INIT;
        double began_s = now_s();
        buf_reset(&news);
        if (rpc_scan_once(crew->scan, crew->h->seen, &news, &err) < 0) {
            helper_down(crew->h, &err);
            /* libslurm reads slurm.conf only once; slurmctld may have moved. */
            if (helper_has_new_conf(crew->h)) {
                log_notice("helper", "slurm.conf has changed: starting anew");
                _exit(0);
            }
        } else {
            helper_up(crew->h);
            helper_line_send(crew->h, &news);
        }
        rest(crew->h, began_s);
    }
}

static int start_threads(struct crew *crew, struct error *err)
{
    pthread_t t;
    (void)pthread_mutex_init(&crew->queue.lock, NULL);
    (void)pthread_cond_init(&crew->queue.is_fuller, NULL);
    (void)pthread_cond_init(&crew->queue.is_emptier, NULL);
    for (int i = 0; i <= WORKERS; i++) {
        int rc = pthread_create(&t, NULL, i ? work : look, crew);
        if (rc != 0)
            return error_sys(err, rc, "start a thread");
        (void)pthread_detach(t);
    }
    return 0;
}

static void set_up(struct helper *h, const struct helper_conf *conf, int fd,
                   uint64_t generation, struct error *err)
{
    pthread_condattr_t attr;
    *h = (struct helper){.conf = conf, .fd = fd, .generation = generation};
    (void)pthread_mutex_init(&h->out_lock, NULL);
    (void)pthread_mutex_init(&h->lock, NULL);
    submit_order_init(&h->order);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr,
                                    CLOCK_MONOTONIC); /* the clock of now_s() */
    (void)pthread_cond_init(&h->wake, &attr);
    if (known_jobs_create(&h->seen, err) < 0)
        _exit(1);
}

static void hello(struct helper *h)
{
    struct helper_news n = {.ev = HELPER_HELLO, .generation = h->generation};
    struct buf empty = BUF_INIT;
    rpc_call_version_text(n.slurm, sizeof(n.slurm));
    if (buf_addstr(&empty, "\n", NULL) == 0)
        helper_line_send(h, &empty);
    buf_clear(&empty);
    helper_line_send_news(h, &n);
}

void helper_rpc(const struct helper_conf *conf, int fd, uint64_t generation)
{
    static struct helper h;
    static struct crew crew;
    struct helper_in in = {.is_first = generation > 1};
    struct error err = ERROR_INIT;
    char path[HELPER_CONF_PATH_CAP];
    int conf_fd;
    set_up(&h, conf, fd, generation, &err);
    hello(&h);
    helper_lobby(&h, &in, &conf_fd);
    helper_conf_path(conf_fd, path);
    rpc_call_start(path);
    crew.h = &h;
    if (rpc_scan_create(conf, &crew.scan, &err) < 0 ||
        start_threads(&crew, &err) < 0) {
        log_err("helper", "%s", err.msg);
        _exit(1);
    }
    for (;;) {
        struct helper_cmd c;
        while (helper_line_next(&h, &in, &c))
            push(&crew.queue, &c);
        helper_line_read(&h, &in, -1);
    }
}
