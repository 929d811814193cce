/* slow_sync.c - slow_sync.so: fsync() takes as long as on a busy disk.
 *
 *   MGPU_SYNC_GATE=FILE  LD_PRELOAD=slow_sync.so mgpu-shepherd ...
 *   MGPU_SYNC_MS=N       LD_PRELOAD=slow_sync.so mgpu-shepherd ...
 *
 * With MGPU_SYNC_GATE each call returns when FILE is gone, with MGPU_SYNC_MS
 * after N milliseconds. The data are on disk first. A call that waits at the
 * gate has made FILE.held. With MGPU_SYNC_OF=TEXT a file waits only if TEXT is
 * in its path.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_meant(int fd)
{
    const char *of = getenv("MGPU_SYNC_OF");
    char link[40], path[4096];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = of ? readlink(link, path, sizeof(path) - 1) : 0;
    if (n < 0)
        return false;
    path[n] = '\0';
    return !of || strstr(path, of) != NULL;
}

static void say_held(const char *gate)
{
    char name[4096];
    (void)snprintf(name, sizeof(name), "%s.held", gate);
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void)close(fd);
}

int fsync(int fd)
{
    const char *gate = getenv("MGPU_SYNC_GATE");
    const char *ms = getenv("MGPU_SYNC_MS");
    int rc = (int)syscall(SYS_fsync, fd);
    bool waits = gate && is_meant(fd);
    if (waits && access(gate, F_OK) == 0)
        say_held(gate);
    while (waits && access(gate, F_OK) == 0)
        (void)poll(NULL, 0, 5);
    if (ms)
        (void)poll(NULL, 0, (int)strtol(ms, NULL, 10));
    return rc;
}
