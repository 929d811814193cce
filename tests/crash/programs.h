/* programs.h - the daemon's programs, with a shepherd on a slow disk.
 *
 * The state lies in memory, where fsync() takes no time. On a disk a shepherd
 * has been let go for milliseconds before its `started` is written, and a
 * daemon that is killed meanwhile leaves an attempt of which the next one
 * cannot tell yet whether it runs. SYNC_MS makes that moment long enough to be
 * hit in most rounds.
 */
#ifndef MGPU_TESTS_CRASH_PROGRAMS_H
#define MGPU_TESTS_CRASH_PROGRAMS_H

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/crash/world.h"

enum { SYNC_MS = 40 };

/* The daemon looks for its programs beside itself, and where a link leads is
 * elsewhere. */
static inline bool programs_copy(const char *from, const char *to)
{
    struct stat st;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    bool is_done = in >= 0 && out >= 0 && fstat(in, &st) == 0;
    for (off_t left = is_done ? st.st_size : 0; is_done && left > 0;) {
        ssize_t n = sendfile(out, in, NULL, (size_t)left);
        is_done = n > 0;
        left -= n;
    }
    if (in >= 0)
        (void)close(in);
    if (out >= 0)
        is_done = close(out) == 0 && is_done;
    return is_done;
}

static inline bool programs_slow(const char *bin, const char *to)
{
    FILE *f = fopen(to, "we");
    bool is_done =
        f && fprintf(f,
                     "#!/bin/sh\n"
                     "MGPU_SYNC_MS=%d LD_PRELOAD=%s/../tests/contract/preload/"
                     "slow_sync.so exec %s/mgpu-shepherd \"$@\"\n",
                     (int)SYNC_MS, bin, bin) > 0;
    if (f)
        is_done = fclose(f) == 0 && is_done;
    return is_done && chmod(to, 0700) == 0;
}

/* Makes `dir` with what is in bin[]. */
static inline bool programs_make(const char *bin, const char *dir)
{
    DIR *d = opendir(bin);
    bool is_done = d && mkdir(dir, 0700) == 0;
    for (struct dirent *e; is_done && (e = readdir(d));) {
        char from[PATH_CAP + 256];
        char to[PATH_CAP + 256];
        (void)snprintf(from, sizeof(from), "%s/%s", bin, e->d_name);
        (void)snprintf(to, sizeof(to), "%s/%s", dir, e->d_name);
        if (strcmp(e->d_name, "mgpu-ctld") == 0)
            is_done = programs_copy(from, to);
        else if (strcmp(e->d_name, "mgpu-shepherd") == 0)
            is_done = programs_slow(bin, to);
        else if (e->d_name[0] != '.')
            is_done = symlink(from, to) == 0;
    }
    if (d)
        (void)closedir(d);
    return is_done;
}

#endif
