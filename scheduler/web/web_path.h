/* web_path.h - which paths are passed on to the daemon. */
#ifndef MGPU_SCHEDULER_WEB_WEB_PATH_H
#define MGPU_SCHEDULER_WEB_WEB_PATH_H

#include <stdbool.h>

#include "jobs/base/error.h"

/* Accepts a target, "/v1/...?query", that every reader splits alike: it has
 * visible ASCII characters alone, no empty segment, none that is "." or "..",
 * and no escape that hides a slash, a dot, a backslash or a control character.
 * It is sent as it is.
 *
 * err  ERR_INVAL with the reason */
int web_path_check(const char *target, struct error *err) MUST_CHECK;

bool web_path_is_watch(const char *target); /* /v1/watch, a stream */

/* Whether the page of the cluster shows it, to anybody: the queue, its changes,
 * the nodes and their GPUs, and nothing of one job. err  ERR_DENIED */
int web_path_check_shown(const char *target, struct error *err) MUST_CHECK;

#endif
