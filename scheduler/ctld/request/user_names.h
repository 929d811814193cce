/* user_names.h - the names of the users that call. */
#ifndef MGPU_SCHEDULER_CTLD_REQUEST_USER_NAMES_H
#define MGPU_SCHEDULER_CTLD_REQUEST_USER_NAMES_H

#include <stdbool.h>

#include "jobs/base/error.h"

struct ctld;
struct http_exchange;

enum { USER_NAME_CAP = 256 }; /* login names have at most 255 bytes */

int user_names_init(struct ctld *c, struct error *err) MUST_CHECK;
/* Ends its thread. */
void user_names_clear(struct ctld *c);
/* The caller's name. False: it is not known yet, and the handler is called
 * again when it is; or it has replied with why not. */
bool user_names_of_caller(struct ctld *c, struct http_exchange *x,
                          char ret[USER_NAME_CAP]);

#endif
