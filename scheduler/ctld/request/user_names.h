/* user_names.h - the names of the users that call. */
#ifndef MGPU_SCHEDULER_CTLD_REQUEST_USER_NAMES_H
#define MGPU_SCHEDULER_CTLD_REQUEST_USER_NAMES_H

#include <stdbool.h>

#include "jobs/base/error.h"
#include "jobs/base/name_lookup.h"

struct ctld;
struct http_exchange;

int user_names_init(struct ctld *c, struct error *err) MUST_CHECK;
/* Does not wait for an answer. */
void user_names_clear(struct ctld *c);
/* The caller's name. False: it is not known yet, and the handler is called
 * again when it is; or it has replied with why not. */
bool user_names_of_caller(struct ctld *c, struct http_exchange *x,
                          char ret[NAME_USER_CAP]);

#endif
