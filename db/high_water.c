/* high_water.c - see high_water.h. One record of constant length, overwritten
 * in place: within a sector, and by one call, so that a kill never leaves half
 * of it. */
#include "db/high_water.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_CAP = 1024, RECORD_BYTES = 50 };

static int path_of(char ret[PATH_CAP], const char *dir, struct error *err)
{
    int n = snprintf(ret, PATH_CAP, "%s/stored", dir);
    return n > 0 && n < PATH_CAP
               ? 0
               : error_set(err, ERR_CONFIG, "'%s' is too long", dir);
}

static void write_record(char ret[RECORD_BYTES + 1], const struct mark *m)
{
    (void)snprintf(ret, RECORD_BYTES + 1,
                   "job=%020" PRIu64 " seq=%020" PRIu64 "\n", m->job, m->seq);
}

int high_water_open(const char *dir, int *ret_fd, struct error *err)
{
    char path[PATH_CAP];
    if (path_of(path, dir, err) < 0)
        return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_sys(err, errno, "open '%s'", path);
    *ret_fd = fd;
    return 0;
}

void high_water_write(int fd, const struct mark *m, bool sync)
{
    char text[RECORD_BYTES + 1];
    write_record(text, m);
    if (pwrite(fd, text, RECORD_BYTES, 0) == RECORD_BYTES && sync)
        (void)fdatasync(fd);
}

struct mark high_water_read(const char *dir)
{
    char path[PATH_CAP], text[RECORD_BYTES + 1] = "", again[RECORD_BYTES + 1];
    struct mark m = {.job = 0};
    int fd = path_of(path, dir, NULL) < 0
                 ? -1
                 : open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return m;
    if (read(fd, text, RECORD_BYTES) == RECORD_BYTES) {
        m.job = strtoull(text + 4, NULL, 10);
        m.seq = strtoull(text + 29, NULL, 10);
    }
    (void)close(fd);
    write_record(again, &m);
    return strcmp(text, again) == 0 ? m : (struct mark){.job = 0};
}
