/* schema_doc.h - describe the keys of a table for people; for jobs/. */
#ifndef MGPU_JOBS_SCHEMA_SCHEMA_DOC_H
#define MGPU_JOBS_SCHEMA_SCHEMA_DOC_H

#include "jobs/schema/schema.h"

enum { RANGE_CAP = 320 };
const char *schema_range(const struct schema_key *k, char out[RANGE_CAP]);
/* "64; llm: 2", "required", or "" without a default. */
const char *schema_default(const struct schema *s, const struct schema_key *k,
                           char out[RANGE_CAP]);
const char *schema_type_name(const struct schema_key *k);
void schema_each(const struct schema *s,
                 void (*each)(void *arg, const char *path, const char *type,
                              const char *def, const char *range,
                              const char *doc),
                 void *arg);

/* The row of .defs that holds; NULL: .def, or .like. */
const struct schema_def *schema_default_in_case(const struct schema *s,
                                                const struct schema_key *k,
                                                const void *obj);

#endif
