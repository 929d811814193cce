/* clock.c - clock.so: time goes N times as fast.
 *
 *   MGPU_CLOCK="N SINCE" LD_PRELOAD=clock.so mgpu-ctld ...
 *
 * For tests/bench/soak.sh: three days of the daemon's own clock in two hours of
 * ours. SINCE is a moment of CLOCK_MONOTONIC in seconds, from which on all
 * clocks go faster: what is told the same moment has the same time, also a
 * daemon that is started again. A wait for T seconds ends after T/N.
 *
 * libfaketime 0.9.10 scales each of these calls as well, all measured to a
 * hundredth. It was not taken because a daemon starts its attempts with an
 * environment of its own, so that theirs would go at our speed, and its time
 * begins anew in each process that does not inherit its shared memory. Here
 * posix_spawn() hands both variables on, to programs of ours and no others:
 * what a job runs lives in our time.
 *
 * Wrapped is what mgpu, libevent, SQLite and curl call, as `nm -D` shows them,
 * and no more. Not scaled: alarm(2), which only a daemon of root's uses,
 * options of TCP sockets, times of files, which the kernel makes, and how long
 * the disk and the cores take. So each limit in seconds is N times as tight.
 */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

static const char CLOCK[] = "MGPU_CLOCK", PRELOAD[] = "LD_PRELOAD";
static double factor = 1, since_s;

/* What comes after us under the same name. */
#define NEXT(name, fn)                          \
    __typeof__(&(name)) fn;                     \
    do {                                        \
        void *found_ = dlsym(RTLD_NEXT, #name); \
        memcpy(&(fn), &found_, sizeof(fn));     \
        if (!(fn))                              \
            abort();                            \
    } while (0)

static int real_clock(clockid_t id, struct timespec *ts)
{
    static _Atomic(__typeof__(&clock_gettime)) at;
    if (!at) {
        NEXT(clock_gettime, fn);
        at = fn;
    }
    return at(id, ts);
}

static double as_s(const struct timespec *ts)
{
    return (double)ts->tv_sec + 1e-9 * (double)ts->tv_nsec;
}

static struct timespec as_ts(double s)
{
    double whole = floor(s);
    return (struct timespec){.tv_sec = (time_t)whole,
                             .tv_nsec = (long)((s - whole) * 1e9)};
}

static void read_factor(void)
{
    const char *text = getenv(CLOCK);
    char *end = NULL;
    if (!text)
        return;
    factor = strtod(text, &end);
    since_s = strtod(end, NULL);
    struct timespec now;
    (void)real_clock(CLOCK_MONOTONIC, &now);
    if (!(factor >= 1 && since_s > 0 && since_s <= as_s(&now)))
        abort(); /* a measurement of something else */
}

/* Constructors of other libraries ask for the time before ours would run. */
static double fast(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, read_factor);
    return factor;
}

/* How far ahead of ours all clocks are. */
static double ahead_s(void)
{
    struct timespec now;
    double n = fast();
    (void)real_clock(CLOCK_MONOTONIC, &now);
    return (as_s(&now) - since_s) * (n - 1);
}

/* A wait of ours for one of theirs; never none for some. */
static struct timespec shorter(double s)
{
    struct timespec ts = as_ts(s / fast());
    if (s > 0 && ts.tv_sec == 0 && ts.tv_nsec == 0)
        ts.tv_nsec = 1;
    return ts;
}

/* ---- what time it is ------------------------------------------------------
 */
int clock_gettime(clockid_t id, struct timespec *ts)
{
    int rc = real_clock(id, ts);
    /* Below zero, and two more: what a process or a thread has used. */
    if (rc < 0 || id < 0 || id == CLOCK_PROCESS_CPUTIME_ID ||
        id == CLOCK_THREAD_CPUTIME_ID)
        return rc;
    struct timespec more = as_ts(ahead_s());
    ts->tv_sec += more.tv_sec;
    ts->tv_nsec += more.tv_nsec;
    if (ts->tv_nsec >= 1000000000) {
        ts->tv_nsec -= 1000000000;
        ts->tv_sec++;
    }
    return rc;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec ts;
    (void)zone;
    int rc = clock_gettime(CLOCK_REALTIME, &ts);
    *tv = (struct timeval){.tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000};
    return rc;
}

time_t time(time_t *ret)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    if (ret)
        *ret = ts.tv_sec;
    return ts.tv_sec;
}

/* ---- waits ----------------------------------------------------------------
 */
int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
          const sigset_t *mask)
{
    NEXT(ppoll, fn);
    if (!timeout)
        return fn(fds, n, NULL, mask);
    struct timespec ts = shorter(as_s(timeout));
    return fn(fds, n, &ts, mask);
}

int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    struct timespec ts = as_ts(1e-3 * (timeout_ms > 0 ? timeout_ms : 0));
    return ppoll(fds, n, timeout_ms < 0 ? NULL : &ts, NULL);
}

/* epoll_wait() itself knows only whole milliseconds, N times as long here. */
int epoll_wait(int fd, struct epoll_event *events, int cap, int timeout_ms)
{
    NEXT(epoll_wait, fn);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (timeout_ms > 0 && poll(&p, 1, timeout_ms) < 0)
        return -1;
    return fn(fd, events, cap, timeout_ms < 0 ? -1 : 0);
}

int nanosleep(const struct timespec *asked, struct timespec *left)
{
    NEXT(nanosleep, fn);
    struct timespec ts = shorter(as_s(asked));
    int rc = fn(&ts, &ts);
    if (rc < 0 && errno == EINTR && left)
        *left = as_ts(as_s(&ts) * fast());
    return rc;
}

int usleep(useconds_t us)
{
    struct timespec ts = as_ts(1e-6 * us);
    return nanosleep(&ts, NULL);
}

unsigned sleep(unsigned s)
{
    struct timespec ts = {.tv_sec = (time_t)s};
    return nanosleep(&ts, &ts) < 0 ? (unsigned)ts.tv_sec : 0;
}

/* A moment of theirs, in ours. Conditions of mgpu have CLOCK_MONOTONIC. */
static struct timespec moment(const struct timespec *ts)
{
    return as_ts(since_s + (as_s(ts) - since_s) / fast());
}

int pthread_cond_timedwait(pthread_cond_t *restrict c,
                           pthread_mutex_t *restrict lock,
                           const struct timespec *restrict until)
{
    struct timespec ts = moment(until);
    return pthread_cond_clockwait(c, lock, CLOCK_MONOTONIC, &ts);
}

int pthread_clockjoin_np(pthread_t thread, void **ret, clockid_t id,
                         const struct timespec *until)
{
    NEXT(pthread_clockjoin_np, fn);
    struct timespec ts = moment(until);
    return fn(thread, ret, id, &ts);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *new,
                    struct itimerspec *old)
{
    NEXT(timerfd_settime, fn);
    bool is_moment =
        (flags & TFD_TIMER_ABSTIME) != 0 && as_s(&new->it_value) > 0;
    struct itimerspec t = {.it_interval = shorter(as_s(&new->it_interval)),
                           .it_value = is_moment
                                           ? moment(&new->it_value)
                                           : shorter(as_s(&new->it_value))};
    return fn(fd, flags, &t, old);
}

/* Synchronised, wherever this runs: or retention would wait. */
int adjtimex(struct timex *t)
{
    memset(t, 0, sizeof(*t));
    return TIME_OK;
}

/* ---- children -------------------------------------------------------------
 */
static bool has(char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (; *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return true;
    return false;
}

int posix_spawn(pid_t *restrict pid, const char *restrict path,
                const posix_spawn_file_actions_t *fa,
                const posix_spawnattr_t *restrict attr,
                char *const argv[restrict], char *const env[restrict])
{
    NEXT(posix_spawn, fn);
    const char *slash = strrchr(path, '/');
    const char *clock = getenv(CLOCK), *preload = getenv(PRELOAD);
    if (strncmp(slash ? slash + 1 : path, "mgpu-", 5) != 0 || !clock ||
        !preload || has(env, CLOCK))
        return fn(pid, path, fa, attr, argv, env);
    char clock_is[128], preload_is[4096];
    (void)snprintf(clock_is, sizeof(clock_is), "%s=%s", CLOCK, clock);
    (void)snprintf(preload_is, sizeof(preload_is), "%s=%s", PRELOAD, preload);
    size_t n = 0;
    while (env[n])
        n++;
    char **more = calloc(n + 3, sizeof(*more));
    if (!more)
        return ENOMEM;
    memcpy(more, env, n * sizeof(*more));
    more[n] = clock_is;
    more[n + 1] = preload_is;
    int rc = fn(pid, path, fa, attr, argv, more);
    free(more);
    return rc;
}
