/* backup_dir.h - a directory of dated backups: list, begin and prune.
 *
 * Each backup is named CLUSTER-20261122T091707Z, by its time. Everything else
 * in the directory belongs to the user: an entry with another name, one that is
 * not a directory of ours, or one that lacks a file of a backup is neither
 * counted nor touched. A name that ends in ".part" is an incomplete backup,
 * interrupted while it was made or removed; the next backup removes it. */
#ifndef MGPU_DB_BACKUP_DIR_H
#define MGPU_DB_BACKUP_DIR_H

#include <stdint.h>

#include "jobs/base/error.h"

enum { BACKUPS_DIR_CAP = 900, BACKUPS_PATH_CAP = 1024 };

struct backups {
    int32_t n;     /* complete ones */
    double last_s; /* time of the newest; NAN: there is none */
};

/* Lists the backups. One dated later than now_s was made with a wrong clock: it
 * counts, as older than all others.
 * err  ERR_CONFIG another user owns dir, others may write to it, or it is a
 *      symbolic link; errors of the system. A missing dir is no error: it has
 *      no backups */
int backups_look(const char *dir, const char *cluster, double now_s,
                 struct backups *ret, struct error *err) MUST_CHECK;

/* The path of a new backup at now_s. Creates dir, 0700, if it is missing, and
 * removes incomplete backups.
 * err  as backups_look() */
int backups_begin(const char *dir, const char *cluster, double now_s,
                  char ret[BACKUPS_PATH_CAP], struct error *err) MUST_CHECK;

/* Removes all but the newest `keep` (>= 1). At every moment, an entry with the
 * name of a backup is complete.
 * out  ret_removed  number of removed ones, also on failure
 * err  the first failure; the function still tries the rest */
int backups_prune(const char *dir, const char *cluster, double now_s,
                  int32_t keep, int32_t *ret_removed,
                  struct error *err) MUST_CHECK;

/* Removes an incomplete backup, if it is a directory of ours: only the files of
 * a backup, following no link. A directory with other files stays. */
void backups_remove_part(const char *path);

#endif
