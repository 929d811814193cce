/* remove_tree.h - a directory, and all that is in it, goes. */
#ifndef MGPU_SCHEDULER_CTLD_MAINTENANCE_REMOVE_TREE_H
#define MGPU_SCHEDULER_CTLD_MAINTENANCE_REMOVE_TREE_H

#include <stdbool.h>

#include "jobs/base/error.h"

/* Removes the directory `name` in `dir`. Follows no link, goes to no other file
 * system, and touches no directory of another user; one of ours that is closed
 * to ourselves goes. What is not there is no error.
 *
 * in   stop  given up when it becomes true; NULL: never
 * err  what was the first that stayed; other things in it may be gone
 */
int dir_tree_remove(const char *dir, const char *name, const _Atomic bool *stop,
                    struct error *err) MUST_CHECK;

#endif
