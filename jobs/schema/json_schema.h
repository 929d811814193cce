/* json_schema.h - a table of keys as a JSON Schema, draft 2020-12, for the
 * completion and the checks of editors.
 *
 * It has types, words, bounds, defaults and the lines of documentation. What
 * depends on several keys, only the parser checks, so a file that fits the
 * schema may still have findings. A file without findings fits the schema,
 * unless it leaves its required keys to a template, or writes numbers as YAML
 * 1.2 does not: '1_000', "2". */
#ifndef MGPU_JOBS_SCHEMA_JSON_SCHEMA_H
#define MGPU_JOBS_SCHEMA_JSON_SCHEMA_H

#include "jobs/schema/schema.h"

/* Writes when a key applies, as in "kind: command"; "" for always. */
typedef void json_schema_only(int when, char *out, size_t cap);

/* Appends one JSON document, indented, with its newline.
 * err  ERR_NOMEM */
int json_schema(const struct schema *s, const char *title,
                json_schema_only *only, struct buf *out,
                struct error *err) MUST_CHECK;

#endif
