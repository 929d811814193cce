/* restored_ids.c - see restored_ids.h.
 *
 * The mark of a copy goes only when what follows from it is on the disk: who
 * dies in between finds it again, and skips as much once more.
 */
#include "scheduler/ctld/startup/restored_ids.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/high_water.h"
#include "jobs/base/buf.h"
#include "jobs/base/file_atomic.h"
#include "jobs/base/log.h"

/* More than are submitted between two backups: five a second for six hours.
 * The engine has 8 bytes for each id. */
enum { ID_STEP = 100000, PATH_CAP = 1024 };
/* How far ahead an id in the file may be: a damaged one must cost no memory. */
enum { ID_AHEAD_MAX = 1 << 22 };

static int path_of(char ret[PATH_CAP], const char *dir, const char *name,
                   struct error *err)
{
    int n = snprintf(ret, PATH_CAP, "%s/%s", dir, name);
    return n > 0 && n < PATH_CAP
               ? 0
               : error_set(err, ERR_CONFIG, "'%s' is too long", dir);
}

/* 0: it is no number. */
static uint64_t number(const char *text)
{
    char *end = NULL;
    uint64_t n =
        text[0] >= '1' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    return n > 0 && (*end == '\0' || *end == '\n') ? n : 0;
}

/* The largest that has a directory, of those that can be. */
static uint64_t last_dir(const char *jobs_dir, uint64_t last_id)
{
    const struct dirent *e;
    uint64_t max = 0;
    DIR *d = opendir(jobs_dir);

    while (d && (e = readdir(d))) {
        uint64_t n = number(e->d_name);
        if (n > max && n <= last_id + ID_AHEAD_MAX)
            max = n;
    }
    if (d)
        (void)closedir(d);
    return max;
}

static int read_first(const char *state_dir, uint64_t *ret, struct error *err)
{
    char path[PATH_CAP];
    struct buf text = BUF_INIT;
    struct error why = ERROR_INIT;
    if (path_of(path, state_dir, "first_id", err) < 0)
        return -1;
    int rc = buf_read_file(&text, path, 64, &why);
    *ret = rc == 0 ? number(buf_str(&text)) : 0;
    buf_clear(&text);
    if (rc < 0 && why.code != ERR_NOTFOUND)
        return error_set(err, why.code, "%s", why.msg);
    if (rc == 0 && *ret == 0)
        return error_set(err, ERR_IO, "'%s' is damaged: expected an id", path);
    return 0;
}

static int write_first(const char *state_dir, uint64_t first, struct error *err)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%" PRIu64 "\n", first);
    return file_atomic_put(state_dir, "first_id", text, (size_t)n, 0, err);
}

/* The log is taken as it is from now on.
 * err  of the files */
static int go_on(const char *state_dir, uint64_t next, const struct mark *log,
                 struct error *err)
{
    int fd = -1;
    if (write_first(state_dir, next, err) < 0 ||
        high_water_open(state_dir, &fd, err) < 0)
        return -1;
    high_water_write(fd, log, true);
    (void)close(fd);
    return 0;
}

/* The mark of a copy: "backup". */
static int end_restore(const char *path, uint64_t next, struct error *err)
{
    if (unlink(path) < 0 && errno != ENOENT)
        return error_sys(err, errno, "remove '%s'", path);
    log_notice("ctld", "found a restored backup, the next job has id=%" PRIu64,
               next);
    return 0;
}

int restored_first_id(const char *state_dir, const char *jobs_dir,
                      uint64_t last_id, uint64_t last_seq, uint64_t *ret,
                      struct error *err)
{
    char copy[PATH_CAP];
    uint64_t first, dirs = last_dir(jobs_dir, last_id);
    const struct mark log = {.job = last_id, .seq = last_seq};
    const struct mark stored = high_water_read(state_dir);

    if (path_of(copy, state_dir, "backup", err) < 0 ||
        read_first(state_dir, &first, err) < 0)
        return -1;
    if (first > last_id + ID_AHEAD_MAX)
        return error_set(err, ERR_IO,
                         "'%s/first_id' is damaged: %" PRIu64 " is far above "
                         "the last job, %" PRIu64,
                         state_dir, first, last_id);
    bool is_copy = access(copy, F_OK) == 0, is_cut = stored.seq > last_seq;
    uint64_t next = (last_id > dirs ? last_id : dirs) + 1;
    next = first > next ? first : next;
    if (is_cut && stored.job >= next && stored.job <= last_id + ID_AHEAD_MAX)
        next = stored.job + 1;
    if (is_copy) {
        next = (next / ID_STEP + 1) * ID_STEP + 1;
        if (go_on(state_dir, next, &log, err) < 0 ||
            end_restore(copy, next, err) < 0)
            return -1;
    } else if (is_cut) {
        next += MARK_SYNC_IDS; /* so far the mark may be behind */
        if (go_on(state_dir, next, &log, err) < 0)
            return -1;
        log_err("ctld",
                "state.db lacks events that were stored: jobs or changes of "
                "jobs after its last event are lost "
                "event=%" PRIu64 " stored_event=%" PRIu64 " job=%" PRIu64
                " stored_job=%" PRIu64 " next_id=%" PRIu64,
                last_seq, stored.seq, last_id, stored.job, next);
    } else if (next > last_id + 1 && next > first) {
        log_warn("ctld",
                 "directories exist of jobs that no event names, the next job "
                 "has id=%" PRIu64 " last=%" PRIu64,
                 next, last_id);
    }
    *ret = next;
    return 0;
}
