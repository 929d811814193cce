/* work_queue.c - see work_queue.h. Two queues and one lock; an eventfd wakes
 * the loop. Nothing else is shared between the threads of the daemon. */
#include "scheduler/ctld/loop/work_queue.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct queue {
    struct task *first, **last;
};

struct thread {
    pthread_t id;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct queue todo, finished;
    size_t n_todo, max_queued; /* n_todo: queued or running */
    bool started, stopping;
    int fd; /* eventfd */
    struct loop_source *source;
    char name[16];
};

static void put(struct queue *q, struct task *t)
{
    t->next = NULL;
    *q->last = t;
    q->last = &t->next;
}

static struct task *take(struct queue *q)
{
    struct task *t = q->first;
    if (t) {
        q->first = t->next;
        if (!q->first)
            q->last = &q->first;
    }
    return t;
}

static void *thread_main(void *arg)
{
    struct thread *th = arg;
    const uint64_t one = 1;
    (void)pthread_setname_np(pthread_self(), th->name);
    (void)pthread_mutex_lock(&th->lock);
    for (;;) {
        struct task *t = take(&th->todo);
        if (!t && th->stopping)
            break;
        if (!t) {
            (void)pthread_cond_wait(&th->more, &th->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&th->lock);
        t->run(t);
        (void)pthread_mutex_lock(&th->lock);
        th->n_todo--;
        put(&th->finished, t);
        while (write(th->fd, &one, sizeof(one)) < 0 && errno == EINTR)
            ; /* full means that the loop is about to wake */
    }
    (void)pthread_mutex_unlock(&th->lock);
    return NULL;
}

static void on_finished(void *arg)
{
    struct thread *th = arg;
    uint64_t n = 0;
    ssize_t ignored = read(th->fd, &n, sizeof(n));
    (void)ignored;
    (void)pthread_mutex_lock(&th->lock);
    struct task *t = th->finished.first;
    th->finished.first = NULL;
    th->finished.last = &th->finished.first;
    (void)pthread_mutex_unlock(&th->lock);
    while (t) {
        struct task *next = t->next;
        t->done(t);
        t = next;
    }
}

int work_queue_create(struct loop *l, const char *name, size_t max_queued,
                      struct thread **ret, struct error *err)
{
    struct thread *th = calloc(1, sizeof(*th));
    if (!th)
        return error_set(err, ERR_NOMEM, "thread");
    size_t len = strnlen(name, sizeof(th->name) - 1);
    memcpy(th->name, name, len);
    th->max_queued = max_queued;
    th->todo.last = &th->todo.first;
    th->finished.last = &th->finished.first;
    (void)pthread_mutex_init(&th->lock, NULL);
    (void)pthread_cond_init(&th->more, NULL);
    th->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (th->fd < 0) {
        (void)error_sys(err, errno, "make a counter of events");
        goto fail;
    }
    if (loop_fd_create(l, th->fd, on_finished, th, &th->source, err) < 0)
        goto fail;
    loop_source_name(th->source, th->name);
    /* Signals are the loop's. */
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&th->id, NULL, thread_main, th);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        (void)error_sys(err, rc, "start thread '%s'", name);
        goto fail;
    }
    th->started = true;
    *ret = th;
    return 0;
fail:
    work_queue_destroy(th);
    return -1;
}

int work_queue_post(struct thread *th, struct task *t, struct error *err)
{
    (void)pthread_mutex_lock(&th->lock);
    bool full = th->n_todo >= th->max_queued;
    if (!full) {
        put(&th->todo, t);
        th->n_todo++;
        (void)pthread_cond_signal(&th->more);
    }
    (void)pthread_mutex_unlock(&th->lock);
    if (full)
        return error_set(err, ERR_BUSY, "the %s has %zu tasks waiting",
                         th->name, th->max_queued);
    return 0;
}

size_t work_queue_queued(struct thread *th)
{
    (void)pthread_mutex_lock(&th->lock);
    size_t n = th->n_todo;
    (void)pthread_mutex_unlock(&th->lock);
    return n;
}

void work_queue_destroy(struct thread *th)
{
    if (!th)
        return;
    if (th->started) {
        (void)pthread_mutex_lock(&th->lock);
        th->stopping = true;
        (void)pthread_cond_signal(&th->more);
        (void)pthread_mutex_unlock(&th->lock);
        (void)pthread_join(th->id, NULL);
        on_finished(th);
    }
    loop_source_destroy(th->source);
    if (th->fd >= 0)
        (void)close(th->fd);
    (void)pthread_cond_destroy(&th->more);
    (void)pthread_mutex_destroy(&th->lock);
    free(th);
}
