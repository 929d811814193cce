/* alloc_rank.h - the rank of the tests of allocators, and what it can do.
 *
 * A test program is one when its first argument is --launch: it does what
 * launch.json says, as the only rank when its last argument is --alone.
 */
#ifndef MGPU_TESTS_CONTRACT_ALLOC_RANK_H
#define MGPU_TESTS_CONTRACT_ALLOC_RANK_H

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/signals.h"

static inline void note_in(const char *dir, const char *file, const char *text)
{
    char path[PATH_MAX + 16];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, file);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        _exit(99);
    (void)close(fd);
}

static inline void note_pid(const char *dir, const char *file)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%d\n", (int)getpid());
    note_in(dir, file, text);
}

static inline void on_usr1(int signo)
{
    (void)signo;
    _exit(0);
}

/* "ready" says that signals find their handlers. */
static inline void sleep_for_ever(const char *dir)
{
    note_pid(dir, "ready");
    for (;;)
        (void)pause();
}

/* A rank that uses its grace. */
static volatile sig_atomic_t is_told;

static inline void on_term(int signo)
{
    (void)signo;
    is_told = 1;
}

static inline void save_when_told(const char *dir)
{
    note_pid(dir, "ready");
    while (!is_told)
        (void)poll(NULL, 0, 10);
    (void)poll(NULL, 0, 300);
    note_in(dir, "saved", "x");
    _exit(3);
}

static inline void print_bytes(long n)
{
    char line[64];
    for (long at = 0; at < n; at += 50) {
        int len = snprintf(line, sizeof(line), "%048ld\n", at);
        if (len != 49 || write(1, line, 49) != 49)
            _exit(98);
    }
}

static inline int rank_main(int argc, char **argv)
{
    char dir[PATH_MAX];
    const char *launch = argv[2];
    bool is_alone = strcmp(argv[argc - 1], "--alone") == 0;
    (void)snprintf(dir, sizeof(dir), "%s", launch);
    *strrchr(dir, '/') = '\0';
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    rank = rank ? rank : getenv("SLURM_PROCID");
    rank = is_alone ? "0" : rank;
    json_t *j = json_load_file(launch, 0, NULL);
    if (!j || !rank)
        _exit(97);
    char what[32];
    (void)snprintf(what, sizeof(what), "%s",
                   json_string_value(json_object_get(j, "do")));
    long n = (long)json_integer_value(json_object_get(j, "n"));
    json_decref(j);
    if (rank[0] == '0')
        note_in(dir, "starts", "x");
    note_pid(dir, "pids");
    if (strcmp(what, "exit") == 0)
        _exit((int)n);
    if (strcmp(what, "signal") == 0) {
        (void)signal((int)n, SIG_DFL); /* not a sanitizer's */
        (void)raise((int)n);
    }
    if (strcmp(what, "ignore") == 0)
        (void)signal(SIGTERM, SIG_IGN);
    if (strcmp(what, "save") == 0) {
        (void)signal(SIGTERM, on_term);
        save_when_told(dir);
    }
    if (strcmp(what, "tty") == 0) {
        dprintf(1, "terminals: %d%d%d;\n", isatty(0), isatty(1), isatty(2));
        dprintf(2, "terminals: no word of it\n");
        _exit(0);
    }
    if (strcmp(what, "usr1") == 0)
        (void)signal(SIGUSR1, on_usr1);
    signals_let_users_in();
    if (strcmp(what, "print") == 0) {
        print_bytes(n);
        _exit(0);
    }
    if (strcmp(what, "env") == 0) {
        for (char **e = environ; *e && rank[0] == '0'; e++) {
            note_in(dir, "env", *e);
            note_in(dir, "env", "\n");
        }
        _exit(0);
    }
    if (strcmp(what, "orphan") == 0 && fork() == 0) {
        (void)setsid();
        (void)signal(SIGTERM, SIG_IGN);
        (void)signal(SIGHUP, SIG_IGN);
        note_pid(dir, "pids");
        dprintf(1, "left behind\n");
        sleep_for_ever(dir);
    } else if (strcmp(what, "orphan") == 0) {
        char path[PATH_MAX + 8];
        (void)snprintf(path, sizeof(path), "%s/ready", dir);
        while (access(path, F_OK) < 0)
            (void)poll(NULL, 0, 10);
        _exit(0);
    }
    sleep_for_ever(dir);
    return 0;
}

#endif
