/* file_loss_sqlite.h - notice that an open database was removed, replaced or
 * truncated under its connections, and save what these still read. */
#ifndef MGPU_DB_SQLITE_FILE_LOSS_SQLITE_H
#define MGPU_DB_SQLITE_FILE_LOSS_SQLITE_H

#include <pthread.h>
#include <sys/stat.h>

#include "db/metric_store.h"
#include "db/sqlite/db_sqlite.h"

enum { LOSS_PATH_CAP = 1024, LOSS_HEADER_BYTES = 32 };

/* Of one database. A loss stays: whatever appears under the names later, the
 * connections do not have it open, or have written past it. */
struct file_loss {
    pthread_mutex_t lock;
    const char *name; /* "state.db"; static */
    char path[LOSS_PATH_CAP], log[LOSS_PATH_CAP];
    struct stat db_was, log_was; /* at the open: which files they are */
    struct error why;            /* of the loss; ERR_NONE: there is none */
    bool is_gone; /* the content itself is lost, not its name alone */
    off_t db_bytes, log_bytes;      /* at the last look inside */
    uint32_t changes;               /* SQLite's counter in the file's header */
    char header[LOSS_HEADER_BYTES]; /* of the log, after the last commit */
};

/* Both files exist: d has read from the database.
 * err  of the files */
int file_loss_open(struct file_loss *l, const struct db *d, const char *path,
                   struct error *err) MUST_CHECK;
void file_loss_close(struct file_loss *l); /* no effect on a zeroed struct */

/* Compares device and inode of the names; from any thread.
 * err  ERR_IO the files were lost, with how */
int file_loss_look(struct file_loss *l, struct error *err) MUST_CHECK;
/* Also looks into both files, through the connection that writes; from its
 * thread. has_committed: d has just written to the log.
 * err  as file_loss_look() */
int file_loss_look_inside(struct file_loss *l, const struct db *d,
                          bool has_committed, struct error *err) MUST_CHECK;
bool file_loss_is(struct file_loss *l);

/* Copies what d reads to a new file beside the database, verified and synced.
 * in   d         was opened, and has read, before the loss
 * out  ret_file  its name, "state.db.rescued-20261124T090210Z"
 * err  ERR_STATE the file was truncated or overwritten; of the files. Nothing
 * is left under that name then */
int file_loss_rescue(struct file_loss *l, const struct db *d,
                     const _Atomic bool *stop, char ret_file[STORE_FILE_CAP],
                     struct error *err) MUST_CHECK;
/* Whether there is such a file in dir, or one that the daemon has written in
 * its place; ret_file: the newest. */
bool file_loss_rescued(const char *dir, const char *name,
                       char ret_file[STORE_FILE_CAP]);

#endif
