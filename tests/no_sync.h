/* no_sync.h - syncs that do nothing, for tests in which no power is cut: they
 * would only take time. SQLite's, too: a program's functions go before those of
 * its libraries. */
#ifndef MGPU_TESTS_NO_SYNC_H
#define MGPU_TESTS_NO_SYNC_H

#include <unistd.h>

int fsync(int fd)
{
    (void)fd;
    return 0;
}

int fdatasync(int fd)
{
    (void)fd;
    return 0;
}

#endif
