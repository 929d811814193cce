/* backup_dir.h - a directory of backups that are taken one after the other.
 *
 * Each is named CLUSTER-20261122T091707Z, by when it was taken. Whatever else
 * is in the directory is somebody's own: what is not named so, is no directory
 * of ours, or lacks what a backup has, is neither counted nor touched. A name
 * with ".part" behind it is of one that was cut short, in being made or in
 * being removed, and goes with the next.
 */
#ifndef MGPU_DB_BACKUP_DIR_H
#define MGPU_DB_BACKUP_DIR_H

#include <stdint.h>

#include "jobs/base/error.h"

enum { BACKUPS_DIR_CAP = 900, BACKUPS_PATH_CAP = 1024 };

struct backups {
    int32_t n;     /* that are there, and whole */
    double last_s; /* when the newest was taken; NAN: there is none */
};

/* What there is. One that was taken later than now_s tells of a clock that was
 * wrong: it counts, as older than all others.
 * err  ERR_CONFIG dir is another's, or others may write to it, or a link;
 *      what the system says. A dir that is not there is no error: it is empty
 */
int backups_look(const char *dir, const char *cluster, double now_s,
                 struct backups *ret, struct error *err) MUST_CHECK;

/* Where one that is taken at now_s goes. Makes dir, 0700, when it is missing,
 * and removes the parts.
 * err  as backups_look() */
int backups_begin(const char *dir, const char *cluster, double now_s,
                  char ret[BACKUPS_PATH_CAP], struct error *err) MUST_CHECK;

/* Removes all but the newest `keep` (>= 1). Whatever happens meanwhile, what
 * has the name of a backup is whole.
 * out  ret_removed  how many went, also on failure
 * err  the first that could not be removed; the rest were tried */
int backups_prune(const char *dir, const char *cluster, double now_s,
                  int32_t keep, int32_t *ret_removed,
                  struct error *err) MUST_CHECK;

/* Removes a part, if it is a directory of ours: the files that a backup has,
 * no others, following no link. One that has more in it stays. */
void backups_remove_part(const char *path);

#endif
