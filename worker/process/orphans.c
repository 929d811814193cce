/* orphans.c - see orphans.h. */
#include "worker/process/orphans.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/base/clock.h"

enum { LIST_MAX_BYTES = 1 << 20, LOOK_EACH_MS = 10 };

void orphans_reap(pid_t child)
{
    siginfo_t si = {.si_pid = 0};
    while (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           si.si_pid > 0 && si.si_pid != child) {
        (void)waitpid(si.si_pid, NULL, WNOHANG);
        si.si_pid = 0;
    }
}

/* Calls fn for each child; returns how often fn returned true. A child that was
 * not waited for keeps its number. */
static int each_child(bool (*fn)(struct strays *s, pid_t pid), struct strays *s)
{
    DIR *d = opendir("/proc/self/task");
    if (d == NULL)
        return 0;
    int n = 0;
    const struct dirent *e;
    struct buf list = BUF_INIT;
    while ((e = readdir(d)) != NULL) {
        char path[300];
        (void)snprintf(path, sizeof(path), "/proc/self/task/%s/children",
                       e->d_name);
        buf_reset(&list);
        if (e->d_name[0] == '.' ||
            buf_read_file(&list, path, LIST_MAX_BYTES, NULL) < 0)
            continue;
        char *end; /* "12 34 " */
        const char *at = buf_str(&list);
        for (long pid; (pid = strtol(at, &end, 10)) > 1; at = end)
            n += fn(s, (pid_t)pid);
    }
    buf_clear(&list);
    (void)closedir(d);
    return n;
}

static bool spare(struct strays *s, pid_t pid)
{
    if (s->n_spared < STRAYS_SPARED_MAX)
        s->spared[s->n_spared++] = pid;
    return true;
}

static bool hit(struct strays *s, pid_t pid)
{
    for (int i = 0; i < s->n_spared; i++)
        if (s->spared[i] == pid)
            return false;
    (void)kill(pid, SIGKILL);
    return true;
}

void orphans_adopt(struct strays *s)
{
    s->n_spared = 0;
    (void)each_child(spare, s);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void orphans_kill(struct strays *s, double patience_s)
{
    double until_s = clock_real.now_s(&clock_real) + patience_s;
    for (;;) {
        /* The children of one that has ended are ours now. */
        orphans_reap(0);
        if (each_child(hit, s) == 0 || clock_real.now_s(&clock_real) > until_s)
            return;
        (void)poll(NULL, 0, LOOK_EACH_MS);
    }
}
