/* conf_table.h - the table of mgpu.yaml, for the files that read it: conf.c has
 * it. */
#ifndef MGPU_JOBS_CONF_TABLE_H
#define MGPU_JOBS_CONF_TABLE_H

#include "jobs/conf.h"
#include "jobs/schema.h"

extern const struct schema conf_schema;

#endif
