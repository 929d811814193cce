/* reference_file.h - log p of answers by a reference, in a file: a header with
 * a checksum and the values, in this machine's byte order. */
#ifndef MGPU_WORKER_LLM_FILES_REFERENCE_FILE_H
#define MGPU_WORKER_LLM_FILES_REFERENCE_FILE_H

#include <stdint.h>

#include "jobs/base/error.h"

/* err  ERR_NOTFOUND; ERR_INVAL it is damaged, or has another number of values;
 *      ERR_IO; ret is then undefined */
int reference_file_read(const char *dir, const char *name, double *ret,
                        int64_t n, struct error *err) MUST_CHECK;
/* No part of a file is ever at that name.
 * err  ERR_IO */
int reference_file_write(const char *dir, const char *name, const double *v,
                         int64_t n, struct error *err) MUST_CHECK;

#endif
