/* ordered_work.c - see ordered_work.h.
 *
 * Item number k is in slot k % SLOTS. The lock guards all numbers and slots;
 * items are worked on without it. */
#include "worker/data/text/ordered_work.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

enum {
    SLOTS = 256,
    EACH = 4,             /* items of a thread, so that none waits for one */
    STACK_BYTES = 1 << 20 /* tokenisers do not recurse */
};

struct ordered_work {
    struct ordered_work_conf conf;
    struct slot {
        void *item;
        bool done;
    } slots[SLOTS];
    int64_t puts, begun, takes; /* takes <= begun <= puts */
    pthread_mutex_t lock;
    pthread_cond_t more, done;
    bool stop;
    struct worker {
        struct ordered_work *w;
        pthread_t id;
    } workers[ORDERED_WORK_THREADS];
    int32_t n; /* threads */
};

static bool has_cpus(const cpu_set_t *cpus)
{
    return cpus != NULL && CPU_COUNT(cpus) > 0;
}

int32_t ordered_work_cpus(const cpu_set_t *cpus)
{
    cpu_set_t own;
    if (!has_cpus(cpus) && sched_getaffinity(0, sizeof(own), &own) < 0)
        return 1;
    const int n = CPU_COUNT(has_cpus(cpus) ? cpus : &own);
    return n < ORDERED_WORK_THREADS ? n : ORDERED_WORK_THREADS;
}

static void *run(void *arg)
{
    struct worker *me = arg;
    struct ordered_work *w = me->w;
    (void)pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        if (w->begun == w->puts) {
            (void)pthread_cond_wait(&w->more, &w->lock);
            continue;
        }
        struct slot *s = &w->slots[w->begun++ % SLOTS];
        (void)pthread_mutex_unlock(&w->lock);
        w->conf.work(w->conf.arg, (int32_t)(me - w->workers), s->item);
        (void)pthread_mutex_lock(&w->lock);
        s->done = true;
        (void)pthread_cond_signal(&w->done);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

static bool start_thread(struct worker *next, const cpu_set_t *cpus)
{
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0)
        return false;
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    bool is_started = (cpus == NULL || pthread_attr_setaffinity_np(
                                           &attr, sizeof(*cpus), cpus) == 0) &&
                      pthread_create(&next->id, &attr, run, next) == 0;
    (void)pthread_attr_destroy(&attr);
    return is_started;
}

/* Signals are for the thread that has handlers for them. */
static void start_threads(struct ordered_work *w)
{
    const cpu_set_t *cpus = has_cpus(w->conf.cpus) ? w->conf.cpus : NULL;
    sigset_t all, was;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &was);
    while (w->n < w->conf.threads) {
        struct worker *next = &w->workers[w->n];
        next->w = w;
        if (start_thread(next, cpus))
            w->n++;
        else if (cpus == NULL)
            break;
        else
            cpus = NULL; /* the kernel allows none of them */
    }
    (void)pthread_sigmask(SIG_SETMASK, &was, NULL);
}

int ordered_work_start(const struct ordered_work_conf *conf,
                       struct ordered_work **ret, struct error *err)
{
    struct ordered_work *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return error_set(err, ERR_NOMEM, "threads");
    w->conf = *conf;
    if (w->conf.threads > ORDERED_WORK_THREADS)
        w->conf.threads = ORDERED_WORK_THREADS;
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->more, NULL);
    (void)pthread_cond_init(&w->done, NULL);
    start_threads(w);
    *ret = w;
    return 0;
}

void ordered_work_end(struct ordered_work *w)
{
    if (w == NULL)
        return;
    (void)pthread_mutex_lock(&w->lock);
    w->stop = true;
    (void)pthread_cond_broadcast(&w->more);
    (void)pthread_mutex_unlock(&w->lock);
    for (int32_t i = 0; i < w->n; i++)
        (void)pthread_join(w->workers[i].id, NULL);
    for (; w->takes < w->puts; w->takes++)
        w->conf.drop(w->slots[w->takes % SLOTS].item);
    (void)pthread_cond_destroy(&w->done);
    (void)pthread_cond_destroy(&w->more);
    (void)pthread_mutex_destroy(&w->lock);
    free(w);
}

bool ordered_work_is_full(const struct ordered_work *w)
{
    const int32_t most = w->n > 0 ? EACH * w->n : 1;
    return w->puts - w->takes >= most; /* the owner alone changes both */
}

void ordered_work_put(struct ordered_work *w, void *item)
{
    struct slot *s = &w->slots[w->puts % SLOTS];
    if (w->n == 0)
        w->conf.work(w->conf.arg, 0, item);
    (void)pthread_mutex_lock(&w->lock);
    *s = (struct slot){.item = item, .done = w->n == 0};
    w->begun += w->n == 0;
    w->puts++;
    (void)pthread_cond_signal(&w->more);
    (void)pthread_mutex_unlock(&w->lock);
}

void *ordered_work_take(struct ordered_work *w, bool wait)
{
    void *item = NULL;
    (void)pthread_mutex_lock(&w->lock);
    struct slot *s = &w->slots[w->takes % SLOTS];
    while (wait && w->takes < w->puts && !s->done)
        (void)pthread_cond_wait(&w->done, &w->lock);
    if (w->takes < w->puts && s->done) {
        item = s->item;
        w->takes++;
    }
    (void)pthread_mutex_unlock(&w->lock);
    return item;
}
