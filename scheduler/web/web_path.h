/* web_path.h - which paths are passed on to the daemon. */
#ifndef MGPU_SCHEDULER_WEB_WEB_PATH_H
#define MGPU_SCHEDULER_WEB_WEB_PATH_H

#include "jobs/base/error.h"

/* Accepts a target, "/v1/...?query", that every reader splits alike: it has
 * visible ASCII characters alone, no empty segment, none that is "." or "..",
 * and no escape that hides a slash, a dot, a backslash or a control character.
 * It is sent as it is.
 *
 * err  ERR_INVAL with the reason */
int web_path_check(const char *target, struct error *err) MUST_CHECK;

#endif
