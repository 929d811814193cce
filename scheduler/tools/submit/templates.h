/* templates.h - specifications to begin from, by name: of one's own, and the
 * examples that come with mgpu. */
#ifndef MGPU_SCHEDULER_TOOLS_SUBMIT_TEMPLATES_H
#define MGPU_SCHEDULER_TOOLS_SUBMIT_TEMPLATES_H

#include <jansson.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

/* The file of template `name`, NAME.yaml in the first of: the directories of
 * $MGPU_TEMPLATES (separated by ':'), mgpu/templates beside one's config.yaml,
 * the examples of this installation or source tree.
 * ret  the path is appended
 * err  ERR_NOTFOUND there is none, with the nearest name; ERR_USAGE the name
 *      is none */
int templates_find(const char *name, struct buf *ret,
                   struct error *err) MUST_CHECK;

/* A line for each that can be found: its name, and what the first line of its
 * file says; by name.
 * err  ERR_NOMEM */
int templates_list(struct buf *ret, struct error *err) MUST_CHECK;
/* The same as mgpu.templates/1, with each one's file.
 * err  ERR_NOMEM
 * own  json_decref(*ret) */
int templates_json(json_t **ret, struct error *err) MUST_CHECK;

#endif
