/* spec_editor.h - the job specification for editors, and one for a reader. */
#ifndef MGPU_JOBS_SPEC_SPEC_EDITOR_H
#define MGPU_JOBS_SPEC_SPEC_EDITOR_H

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

/* Appends its JSON Schema, json_schema.h. */
int spec_json_schema(struct buf *out, struct error *err) MUST_CHECK;

/* Appends the specification as YAML, as its user would write it: without the
 * keys whose values are the defaults. err ERR_NOMEM */
struct job_spec;
int spec_brief(const struct job_spec *spec, struct buf *out,
               struct error *err) MUST_CHECK;

#endif
