/* slow_sync.c - slow_sync.so: fsync() takes as long as on a busy disk.
 *
 *   MGPU_SYNC_GATE=FILE  LD_PRELOAD=slow_sync.so mgpu-shepherd ...
 *   MGPU_SYNC_MS=N       LD_PRELOAD=slow_sync.so mgpu-shepherd ...
 *
 * With MGPU_SYNC_GATE each call returns when FILE is gone, with MGPU_SYNC_MS
 * after N milliseconds. The data are on disk first.
 */
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int fsync(int fd)
{
    const char *gate = getenv("MGPU_SYNC_GATE");
    const char *ms = getenv("MGPU_SYNC_MS");
    int rc = (int)syscall(SYS_fsync, fd);
    while (gate && access(gate, F_OK) == 0)
        (void)poll(NULL, 0, 5);
    if (ms)
        (void)poll(NULL, 0, (int)strtol(ms, NULL, 10));
    return rc;
}
