/* queue_fields.h - the fields of the queue; for columns.c alone. */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_QUEUE_FIELDS_H
#define MGPU_SCHEDULER_TOOLS_COMMON_QUEUE_FIELDS_H

#include "scheduler/tools/common/columns.h"

/* All of them, in the order of -o help. */
extern const struct field queue_fields[];
extern const size_t queue_fields_n;
/* A metric that a job named itself; columns_text() makes its text. */
extern const struct field queue_own_field;

#endif
