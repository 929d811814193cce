/* gpu_use.c - see gpu_use.h. The percentage is that of the last sample period
 * during which kernels ran. */
#include "worker/process/gpu_use.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jobs/base/clock.h"
#include "jobs/base/nvml_library.h"

enum { GPUS_MAX = 64, NAME_CAP = 96, PATIENCE_S = 2 };

struct gpu_use {
    char library[256], names[GPUS_MAX][NAME_CAP];
    size_t n;
    int each_ms;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;  /* ends, or has ended */
    bool is_ending, has_ended, is_left;
    double busy_s, gpus_s;
    struct error why;
};

/* ---- the thread -----------------------------------------------------------
 */
static void note(struct gpu_use *u, const struct error *why)
{
    (void)pthread_mutex_lock(&u->lock);
    if (u->why.code == ERR_NONE)
        u->why = *why;
    (void)pthread_mutex_unlock(&u->lock);
}

/* NULL: it cannot be asked, and why is noted. */
static void *device_of(struct gpu_use *u, const struct nvml_library *v,
                       const char *name)
{
    char *end;
    unsigned long index = strtoul(name, &end, 10);
    void *device = NULL;
    struct error why;
    int code = end != name && *end == '\0'
                   ? v->get_by_index((unsigned)index, &device)
                   : v->get_by_uuid(name, &device);

    if (code == 0)
        return device;
    (void)nvml_library_fail(v, name, code, &why);
    note(u, &why);
    return NULL;
}

static void sample(struct gpu_use *u, const struct nvml_library *v,
                   void **devices, double for_s)
{
    for (size_t i = 0; i < u->n; i++) {
        struct nvml_rates now = {.gpu = 0};
        struct error why;
        int code = devices[i] ? v->get_rates(devices[i], &now) : 0;
        if (devices[i] == NULL)
            continue;
        if (code != 0) {
            (void)nvml_library_fail(v, "utilization", code, &why);
            note(u, &why);
            devices[i] = NULL;
            continue;
        }
        (void)pthread_mutex_lock(&u->lock);
        u->gpus_s += for_s;
        u->busy_s += for_s * (now.gpu < 100 ? now.gpu : 100) / 100.0;
        (void)pthread_mutex_unlock(&u->lock);
    }
}

/* Returns whether it goes on. */
static bool wait_for_next(struct gpu_use *u)
{
    struct timespec until;
    int rc = 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += u->each_ms / 1000;
    until.tv_nsec += u->each_ms % 1000 * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    (void)pthread_mutex_lock(&u->lock);
    while (!u->is_ending && rc == 0)
        rc = pthread_cond_timedwait(&u->wake, &u->lock, &until);
    bool goes_on = !u->is_ending;
    (void)pthread_mutex_unlock(&u->lock);
    return goes_on;
}

static void watch(struct gpu_use *u, const struct nvml_library *v)
{
    void *devices[GPUS_MAX] = {NULL};
    double last_s = clock_real.now_s(&clock_real);

    for (size_t i = 0; i < u->n; i++)
        devices[i] = device_of(u, v, u->names[i]);
    while (wait_for_next(u)) {
        double now_s = clock_real.now_s(&clock_real);
        sample(u, v, devices, now_s - last_s);
        last_s = now_s;
    }
}

static void release(struct gpu_use *u)
{
    (void)pthread_cond_destroy(&u->wake);
    (void)pthread_mutex_destroy(&u->lock);
    free(u);
}

static void *run(void *arg)
{
    struct gpu_use *u = arg;
    struct nvml_library v;
    struct error why = ERROR_INIT;

    if (nvml_library_open(&v, u->library[0] ? u->library : NULL, NVML_SAMPLE,
                          &why) == 0) {
        watch(u, &v);
        nvml_library_close(&v);
    } else {
        note(u, &why);
    }
    (void)pthread_mutex_lock(&u->lock);
    u->has_ended = true;
    bool is_left = u->is_left;
    (void)pthread_cond_broadcast(&u->wake);
    (void)pthread_mutex_unlock(&u->lock);
    if (is_left)
        release(u);
    return NULL;
}

/* ---- its owner ------------------------------------------------------------
 */
static void take_names(struct gpu_use *u, const char *list)
{
    for (const char *p = list; *p && u->n < GPUS_MAX;) {
        size_t len = strcspn(p, ",");
        if (len > 0 && len < NAME_CAP) {
            memcpy(u->names[u->n], p, len);
            u->names[u->n++][len] = '\0';
        }
        p += len + (p[len] == ',');
    }
}

/* Signals are for the thread that waits for the program. */
static int start(struct gpu_use *u)
{
    sigset_t all, was;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &was);
    int rc = pthread_create(&u->thread, NULL, run, u);
    (void)pthread_sigmask(SIG_SETMASK, &was, NULL);
    return rc;
}

int gpu_use_begin(const char *library, const char *list, int each_ms,
                  struct gpu_use **ret, struct error *err)
{
    pthread_condattr_t attr;
    struct gpu_use *u = calloc(1, sizeof(*u));

    *ret = NULL;
    if (u == NULL)
        return error_set(err, ERR_NOMEM, "NVML");
    take_names(u, list);
    if (u->n == 0) {
        free(u);
        return 0;
    }
    (void)snprintf(u->library, sizeof(u->library), "%s",
                   library != NULL ? library : "");
    u->each_ms = each_ms;
    (void)pthread_mutex_init(&u->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&u->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    int code = start(u);
    if (code != 0) {
        release(u);
        return error_sys(err, code, "start a thread for NVML");
    }
    *ret = u;
    return 0;
}

struct gpu_used gpu_use_end(struct gpu_use *u, struct error *why)
{
    struct gpu_used used = {.gpus_ms = 0};
    struct timespec until;
    int rc = 0;

    why->code = ERR_NONE;
    if (u == NULL)
        return used;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_S;
    (void)pthread_mutex_lock(&u->lock);
    u->is_ending = true;
    (void)pthread_cond_broadcast(&u->wake);
    while (!u->has_ended && rc == 0)
        rc = pthread_cond_timedwait(&u->wake, &u->lock, &until);
    used.busy_ms = llround(1000 * u->busy_s);
    used.gpus_ms = llround(1000 * u->gpus_s);
    *why = u->why;
    pthread_t thread = u->thread;
    bool has_ended = u->has_ended;
    u->is_left = !has_ended;
    (void)pthread_mutex_unlock(&u->lock);
    if (!has_ended) {
        (void)pthread_detach(thread);
        return used;
    }
    (void)pthread_join(thread, NULL);
    release(u);
    return used;
}
