/* admin_update.h - mgpu-admin update. */
#ifndef MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_UPDATE_H
#define MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_UPDATE_H

#include <jansson.h>
#include <stdbool.h>

#include "jobs/base/error.h"

struct client;

/* in   words  the job, and changes such as "time_limit=2h"
 * err  ERR_USAGE a word that is none */
int admin_update(struct client *c, bool json, bool quiet, char **words, int n,
                 struct error *err) MUST_CHECK;
/* The request of mgpu-admin priority. own *ret: the caller's */
int admin_priority_body(const char *text, json_t **ret,
                        struct error *err) MUST_CHECK;

#endif
