/* spec_editor.h - the job specification for editors. */
#ifndef MGPU_JOBS_SPEC_SPEC_EDITOR_H
#define MGPU_JOBS_SPEC_SPEC_EDITOR_H

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

/* Appends its JSON Schema, json_schema.h. */
int spec_json_schema(struct buf *out, struct error *err) MUST_CHECK;

#endif
