/* proc.c - find processes in /proc and signal them; see proc.h.
 *
 * One pass over /proc finds a process tree, and is not a snapshot: a process
 * may fork meanwhile. Callers that must reach all of them signal again until
 * none is left. */
#include "slurm/launch/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

struct proc {
    pid_t pid, parent;
    uint64_t start_ticks;
    bool is_dying;  /* it is exiting; its memory may be gone, its files may
                     * still be open */
    bool is_zombie; /* it has exited completely and is not reaped yet */
    bool is_in;
};

struct table {
    struct proc *procs;
    size_t n, cap;
};

/* Reads a small file of /proc/<pid> whole; -1 and errno. */
static ssize_t slurp(pid_t pid, const char *name, char *ret, size_t cap)
{
    char path[80];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t len = 0;
    ssize_t n;
    do {
        n = read(fd, ret + len, cap - 1 - (size_t)len);
        if (n > 0)
            len += n;
    } while (n > 0 || (n < 0 && errno == EINTR));
    int saved = errno;
    (void)close(fd);
    errno = saved;
    if (n < 0)
        return -1;
    ret[len] = '\0';
    return len;
}

/* Field numbers and flags as in proc(5) and Linux's sched.h. */
enum { PARENT = 4, FLAGS = 9, N_THREADS = 20, START = 22 };
enum { IS_EXITING = 0x4 };

static int stat_read(pid_t pid, struct proc *ret)
{
    char text[1024];
    if (slurp(pid, "stat", text, sizeof(text)) <= 0)
        return -1;
    /* The name, field 2, may hold any byte, including blanks and ')'. */
    const char *p = strrchr(text, ')');
    if (!p || p[1] != ' ')
        return -1;
    p += 2;
    bool has_ended = *p == 'Z' || *p == 'X';
    *ret = (struct proc){.pid = pid};
    for (int field = 3; field < START; field++) {
        if (field == PARENT)
            ret->parent = (pid_t)strtol(p, NULL, 10);
        else if (field == FLAGS)
            ret->is_dying = strtoul(p, NULL, 10) & IS_EXITING;
        else if (field == N_THREADS)
            /* The first thread stays a zombie until the other threads have
             * ended. */
            ret->is_zombie = has_ended && strtol(p, NULL, 10) <= 1;
        p = strchr(p, ' ');
        if (!p)
            return -1;
        p++;
    }
    ret->start_ticks = strtoull(p, NULL, 10);
    return 0;
}

int proc_start_ticks(pid_t pid, uint64_t *ret, struct error *err)
{
    struct proc p;
    if (stat_read(pid, &p) < 0 || p.is_zombie)
        return error_set(err, ERR_NOTFOUND, "no process %d", (int)pid);
    *ret = p.start_ticks;
    return 0;
}

/* Calls fn for every pid until it returns false. */
static void each_pid(bool (*fn)(void *arg, pid_t pid), void *arg)
{
    DIR *d = opendir("/proc");
    if (!d)
        return;
    const struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        char *end;
        long pid = strtol(e->d_name, &end, 10);
        if (pid > 0 && *end == '\0' && !fn(arg, (pid_t)pid))
            break;
    }
    (void)closedir(d);
}

static bool table_add(void *arg, pid_t pid)
{
    struct table *t = arg;
    struct proc p;
    if (stat_read(pid, &p) < 0)
        return true;
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 256;
        struct proc *procs = calloc(cap, sizeof(*procs));
        if (!procs)
            return false; /* the caller tries again */
        if (t->n > 0)
            memcpy(procs, t->procs, t->n * sizeof(*procs));
        free(t->procs);
        t->procs = procs;
        t->cap = cap;
    }
    t->procs[t->n++] = p;
    return true;
}

/* Whether the process was signalled; not if the pid now belongs to another
 * one. */
static bool hit(const struct proc *p, int signo)
{
    int fd = pidfd_open(p->pid, 0);
    if (fd < 0)
        return false;
    struct proc now;
    bool is_same =
        stat_read(p->pid, &now) == 0 && now.start_ticks == p->start_ticks;
    if (is_same)
        (void)pidfd_send_signal(fd, signo, NULL, 0);
    (void)close(fd);
    return is_same;
}

int proc_n_own_children(void)
{
    char name[64];
    char pids[4096];
    (void)snprintf(name, sizeof(name), "task/%d/children", (int)getpid());
    if (slurp(getpid(), name, pids, sizeof(pids)) < 0)
        return -1;
    int n = 0;
    for (const char *p = pids; (p = strchr(p, ' ')) != NULL; p++)
        n++;
    return n;
}

int proc_signal_children(pid_t parent, pid_t spare, int signo)
{
    struct table t = {.n = 0};
    int n = 0;
    each_pid(table_add, &t);
    for (size_t i = 0; i < t.n; i++)
        if (t.procs[i].parent == parent && t.procs[i].pid != spare &&
            !t.procs[i].is_zombie)
            n += hit(&t.procs[i], signo);
    free(t.procs);
    return n;
}

int proc_signal_tree(pid_t root, pid_t spare, int signo)
{
    struct table t = {.n = 0};
    each_pid(table_add, &t);
    /* tree[] lists the processes known to be below root; each of them appends
     * its own children. */
    size_t *tree = calloc(t.n + 1, sizeof(*tree));
    size_t n_tree = 0;
    pid_t parent = root;
    for (size_t at = 0; tree && at <= n_tree; at++) {
        if (at > 0)
            parent = t.procs[tree[at - 1]].pid;
        for (size_t i = 0; i < t.n; i++) {
            if (t.procs[i].is_in || t.procs[i].parent != parent)
                continue;
            t.procs[i].is_in = true;
            tree[n_tree++] = i;
        }
    }
    free(tree);
    int n = 0;
    for (size_t i = 0; i < t.n; i++)
        if (t.procs[i].is_in && t.procs[i].pid != spare &&
            !t.procs[i].is_zombie)
            n += hit(&t.procs[i], signo);
    free(t.procs);
    return n;
}

enum { ENV_CAP = 262144 };

struct marked {
    const char *entry;
    char *env; /* [ENV_CAP] */
    uint64_t since_ticks;
    int signo;
    int n;
};

static bool has_entry(const struct marked *m, ssize_t len)
{
    for (ssize_t at = 0; at < len; at += (ssize_t)strlen(m->env + at) + 1)
        if (strcmp(m->env + at, m->entry) == 0)
            return true;
    return false;
}

/* If the first thread has ended, reads the environment through another one.
 * Returns its length; 0: unreadable. */
static ssize_t env_of_threads(const struct marked *m, pid_t pid)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    const struct dirent *e;
    ssize_t len = 0;
    while (d && len <= 0 && (e = readdir(d)) != NULL) {
        long tid = strtol(e->d_name, NULL, 10);
        if (tid <= 0)
            continue;
        (void)snprintf(path, sizeof(path), "task/%ld/environ", tid);
        len = slurp(pid, path, m->env, ENV_CAP);
    }
    if (d)
        (void)closedir(d);
    return len > 0 ? len : 0;
}

static bool is_ours(pid_t pid)
{
    char path[64];
    struct stat st;
    (void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    return stat(path, &st) == 0 && st.st_uid == geteuid();
}

/* Whether it may be a marked process whose environment is already unreadable:
 * an exiting process frees its memory, and with it the environment, before it
 * closes its files. */
static bool may_be_dying(const struct marked *m, pid_t pid)
{
    struct proc p;
    return stat_read(pid, &p) == 0 && p.is_dying && !p.is_zombie &&
           p.start_ticks >= m->since_ticks && is_ours(pid);
}

/* The pidfd is opened before the examination: a signal that can be sent through
 * it reaches the process that was examined. */
static bool hit_marked(void *arg, pid_t pid)
{
    struct marked *m = arg;
    if (pid == getpid())
        return true;
    int fd = pidfd_open(pid, 0);
    if (fd < 0)
        return true;
    ssize_t len = slurp(pid, "environ", m->env, ENV_CAP);
    if (len <= 0)
        len = env_of_threads(m, pid);
    if (has_entry(m, len))
        m->n += pidfd_send_signal(fd, m->signo, NULL, 0) == 0;
    else if (len == 0)
        m->n += may_be_dying(m, pid);
    (void)close(fd);
    return true;
}

int proc_signal_marked(const char *entry, uint64_t since_ticks, int signo,
                       struct error *err)
{
    struct marked m = {
        .entry = entry, .since_ticks = since_ticks, .signo = signo};
    m.env = malloc(ENV_CAP);
    if (!m.env)
        return error_set(err, ERR_NOMEM, "environment");
    each_pid(hit_marked, &m);
    free(m.env);
    return m.n;
}
