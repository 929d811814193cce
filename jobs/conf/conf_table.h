/* conf_table.h - the table of mgpu.yaml, for the files that read it: conf.c has
 * it. */
#ifndef MGPU_JOBS_CONF_CONF_TABLE_H
#define MGPU_JOBS_CONF_CONF_TABLE_H

#include "jobs/conf/conf.h"
#include "jobs/schema/schema.h"

extern const struct schema conf_schema;

/* conf_check.c: what keys must be beyond their rows, and together.
 * in   from  by row, where each value is from */
void conf_check(const struct conf *c, const struct schema_from *from,
                struct spec_report *report);
/* The row of this path. */
const struct schema_from *conf_check_from(const struct schema_from *from,
                                          const char *path);
/* "HOST:PORT", "[ADDRESS]:PORT", "*:PORT" */
bool conf_check_is_address(const char *s);

#endif
