/* templates.h - templates of specifications, by name: the user's own, and the
 * examples that come with mgpu.
 */
#ifndef MGPU_SCHEDULER_TOOLS_SUBMIT_TEMPLATES_H
#define MGPU_SCHEDULER_TOOLS_SUBMIT_TEMPLATES_H

#include <jansson.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

/* Finds template `name`: the file NAME.yaml in the first of the directories of
 * $MGPU_TEMPLATES (separated by ':'), mgpu/templates beside the user's
 * config.yaml, the examples of this installation or source tree. ret the path
 * is appended
 * err  ERR_NOTFOUND no such template, with the nearest name; ERR_USAGE the name
 *      is not allowed */
int templates_find(const char *name, struct buf *ret,
                   struct error *err) MUST_CHECK;

/* Lists all templates by name, one line each, with the first line of the file.
 * err  ERR_NOMEM */
int templates_list(struct buf *ret, struct error *err) MUST_CHECK;
/* The same as mgpu.templates/1, with the path of each file.
 * err  ERR_NOMEM
 * own  json_decref(*ret) */
int templates_json(json_t **ret, struct error *err) MUST_CHECK;

#endif
