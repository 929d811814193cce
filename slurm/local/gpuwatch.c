/* gpuwatch.c - mgpu-gpuwatch: report failures of this machine's GPUs.
 *
 *   mgpu-gpuwatch LIBRARY strict|as-is UUID...
 *
 * The local allocator starts it and holds the other end of its standard input
 * and output. It keeps NVIDIA's library open, which the daemon must not: when a
 * GPU has fallen off its bus, the driver may block each caller for seconds.
 *
 * It prints lines:
 *   bad 1 xid 79: GPU has fallen off the bus     the second UUID's; once
 *   ok                                           for each byte of input: all
 *       that the driver knew by then has been reported
 *   no NVML: start: Driver Not Loaded (9)        it watches nothing, and
 *       exits
 * It exits at the end of its input. "as-is" accepts the GPUs' present error
 * counts; "strict" also rejects a GPU with errors since its last reset. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "slurm/local/nvml.h"

enum {
    EVENT_MS = 250, /* longest delay of an answer; four wake-ups per second
                     * cost little beside a GPU */
    GPUS_MAX = 64,
};
/* Between two examinations of GPUs without events. */
static const double LOOK_S = 5;

/* Returns -1 if the reader has gone. */
static int say(const char *text)
{
    size_t len = strlen(text), at = 0;
    while (at < len) {
        ssize_t n = write(STDOUT_FILENO, text + at, len - at);
        if (n < 0 && errno != EINTR)
            return -1;
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int say_bad(size_t gpu, const char *why)
{
    char line[NVML_WHY_CAP + 32];
    (void)snprintf(line, sizeof(line), "bad %zu %s\n", gpu, why);
    return say(line);
}

static int say_no(const struct error *why)
{
    char line[sizeof(why->msg) + 8];
    (void)snprintf(line, sizeof(line), "no %s\n", why->msg);
    (void)say(line);
    return -1;
}

/* How many answers are due; -1: the input has ended. */
static int take_asks(int ms)
{
    struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
    char asks[64];
    if (poll(&fd, 1, ms) <= 0)
        return 0;
    ssize_t n = read(STDIN_FILENO, asks, sizeof(asks));
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN))
               ? (n > 0 ? (int)n : 0)
               : -1;
}

static int take_events(struct nvml_watch *w, int ms)
{
    char why[NVML_WHY_CAP];
    struct error err = ERROR_INIT;
    size_t gpu = 0;
    bool more = nvml_watch_has_events(w);
    for (; more; ms = 0) {
        int rc = nvml_watch_next(w, ms, &gpu, why, &more, &err);
        if (rc < 0)
            return say_no(&err);
        if (rc > 0 && say_bad(gpu, why) < 0)
            return -1;
    }
    return 0;
}

static int look(struct nvml_watch *w, size_t n)
{
    char why[NVML_WHY_CAP];
    for (size_t i = 0; i < n; i++)
        if (nvml_watch_look(w, i, why) > 0 && say_bad(i, why) < 0)
            return -1;
    return 0;
}

static void watch(struct nvml_watch *w, size_t n)
{
    double looked_s = -LOOK_S;
    bool has_events = nvml_watch_has_events(w);
    for (;;) {
        int asks = take_asks(has_events ? 0 : EVENT_MS);
        if (asks < 0 || take_events(w, asks > 0 ? 0 : EVENT_MS) < 0)
            return;
        double now_s = clock_real.now_s(&clock_real);
        if (asks > 0 || now_s - looked_s >= LOOK_S) {
            looked_s = now_s;
            if (look(w, n) < 0)
                return;
        }
        for (; asks > 0; asks--)
            if (say("ok\n") < 0)
                return;
    }
}

int main(int argc, char **argv)
{
    struct nvml_watch *w = NULL;
    struct error err = ERROR_INIT;
    if (argc < 4 || argc - 3 > GPUS_MAX) {
        (void)fprintf(stderr, "usage: %s LIBRARY strict|as-is UUID...\n",
                      argv[0]);
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    size_t n = (size_t)argc - 3;
    const char *library = argv[1][0] ? argv[1] : NULL;
    enum nvml_judge judge =
        strcmp(argv[2], "as-is") == 0 ? NVML_AS_IS : NVML_STRICT;
    if (nvml_watch_open(library, (const char *const *)argv + 3, n, judge, &w,
                        &err) < 0) {
        (void)say_no(&err);
        return 1;
    }
    watch(w, n);
    nvml_watch_close(w);
    return 0;
}
