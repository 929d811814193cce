/* spawn_program.h - start a program that inherits what it is given, and nothing
 * else.
 *
 * posix_spawn(3) instead of fork(2): it reports a program that cannot be run,
 * it is cheap for a large process, and it is safe in one with threads. Signals
 * have their usual actions, whatever the caller ignores. Every descriptor is
 * closed that is not named. */
#ifndef MGPU_BASE_SPAWN_PROGRAM_H
#define MGPU_BASE_SPAWN_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>

enum { SPAWN_FDS_MAX = 5 };
/* In place of a descriptor: /dev/null, which descriptor 0 reads and others
 * write; the file `log`, to append to; what the caller has there. */
enum { SPAWN_NULL = -1, SPAWN_LOG = -2, SPAWN_SAME = -3 };

struct spawn_program {
    const char *program;     /* a path, or a name for $PATH */
    const char *const *argv; /* ends with NULL */
    char *const *env;        /* NULL: the caller's */
    const char *dir;         /* its working directory; NULL: the caller's */
    /* What becomes 0, 1, ...; a descriptor below n_fds would be taken for the
     * one that has its number by then. */
    int fds[SPAWN_FDS_MAX], n_fds;
    const char *log;
    bool is_blocked; /* all signals; else none */
    enum { SPAWN_HERE, SPAWN_GROUP, SPAWN_SESSION } where; /* of its own */
};

/* Returns 0 or an errno, as posix_spawn(3); then nothing was started. */
int spawn_program(const struct spawn_program *p, pid_t *ret);

#endif
