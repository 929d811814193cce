/* job_file.h - the specification of a job, from its file. */
#ifndef MGPU_WORKER_MODEL_TOOL_JOB_FILE_H
#define MGPU_WORKER_MODEL_TOOL_JOB_FILE_H

#include "jobs/spec/spec.h"

/* A job of kind llm. Findings are printed on standard error, with their lines.
 * out  ret  end it with spec_clear()
 * err  ERR_INVAL it is no such job; ERR_NOTFOUND, ERR_IO */
int job_file_read(const char *file, struct job_spec *ret,
                  struct error *err) MUST_CHECK;

#endif
