/* munged.h - a private munged for a test, with a key of its own. */
#ifndef MGPU_TESTS_MUNGED_H
#define MGPU_TESTS_MUNGED_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/rng.h"
#include "tests/tap.h"

struct munged {
    char dir[64], socket[96];
    pid_t pid;
};

static inline void munged_path(const struct munged *m, const char *name,
                               char ret[128])
{
    (void)snprintf(ret, 128, "%s/%s", m->dir, name);
}

static inline void munged_exec(const struct munged *m)
{
    char key[128], pid[128], seed[128], log[128];
    munged_path(m, "key", key);
    munged_path(m, "pid", pid);
    munged_path(m, "seed", seed);
    munged_path(m, "log", log);
    int null = open("/dev/null", O_RDWR);
    (void)dup2(null, 1);
    (void)dup2(null, 2);
    /* Where Debian has it, which is on no ordinary user's PATH. */
    static const char *const programs[] = {"munged", "/usr/sbin/munged"};
    for (size_t i = 0; i < 2; i++)
        (void)execlp(programs[i], "munged", "--foreground", "--socket",
                     m->socket, "--key-file", key, "--pid-file", pid,
                     "--seed-file", seed, "--log-file", log, (char *)NULL);
    _exit(127);
}

/* False when there is no munged here. Up to 20 s. */
static inline bool munged_start(struct munged *m)
{
    unsigned char raw[64];
    char key[128];
    struct stat st;
    memset(m, 0, sizeof(*m));
    (void)snprintf(m->dir, sizeof(m->dir), "/tmp/mgpu-munge.XXXXXX");
    if (!mkdtemp(m->dir) || chmod(m->dir, 0755) < 0 ||
        rng_secret(raw, sizeof(raw), NULL) < 0)
        exit(1);
    (void)snprintf(m->socket, sizeof(m->socket), "%s/socket", m->dir);
    munged_path(m, "key", key);
    int fd = open(key, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, raw, sizeof(raw)) != sizeof(raw) || close(fd) < 0)
        exit(1);
    m->pid = fork();
    if (m->pid == 0)
        munged_exec(m);
    for (int i = 0; i < 3000 && stat(m->socket, &st) < 0; i++) {
        if (waitpid(m->pid, NULL, WNOHANG) == m->pid) {
            m->pid = 0;
            return false;
        }
        (void)poll(NULL, 0, 20);
    }
    return stat(m->socket, &st) == 0;
}

static inline void munged_stop(struct munged *m)
{
    static const char *const files[] = {"key", "pid",    "seed",
                                        "log", "socket", "socket.lock"};
    char path[128];
    if (m->pid > 1) {
        (void)kill(m->pid, SIGTERM);
        (void)kill(m->pid, SIGCONT);
        (void)waitpid(m->pid, NULL, 0);
    }
    m->pid = 0;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        munged_path(m, files[i], path);
        (void)unlink(path);
    }
    (void)rmdir(m->dir);
}

#endif
