/* templates.h - templates of specifications, by name: the user's own, and the
 * examples that come with mgpu.
 */
#ifndef MGPU_SCHEDULER_TOOLS_SUBMIT_TEMPLATES_H
#define MGPU_SCHEDULER_TOOLS_SUBMIT_TEMPLATES_H

#include <stdbool.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

/* Finds template `name`: the file NAME.yaml in the first of the directories of
 * $MGPU_TEMPLATES (separated by ':'), mgpu/templates in the user's
 * configuration, the examples of this installation or source tree. ret the path
 * is appended
 * err  ERR_NOTFOUND no such template, with the nearest name; ERR_USAGE the name
 *      is not allowed */
int templates_find(const char *name, struct buf *ret,
                   struct error *err) MUST_CHECK;

/* Prints all templates by name, one line each, with the first line of the file;
 * or, with the path of each file, as mgpu.templates/1.
 * err  ERR_NOMEM */
int templates_print(bool is_json, struct error *err) MUST_CHECK;

#endif
