/* output.h - close a program's standard output and detect lost output.
 *
 * A full disk may only be reported when the last byte is written; a reader that
 * exits early (`| head`) is no error. */
#ifndef MGPU_BASE_OUTPUT_H
#define MGPU_BASE_OUTPUT_H

#include <stdio.h>

#include "jobs/base/error.h"

/* Opens /dev/null for each of the descriptors 0, 1 and 2 that is closed: 0 not
 * for reading, 1 and 2 not for writing, so that their use fails with EBADF as
 * before. Otherwise a library's descriptor (libcurl's eventfd) may become
 * standard output, and receive what is printed. Call it first in main(). */
void output_reserve(void);

/* From now on the process exits with 0, silently, when its reader has gone. */
void output_quiet_pipe(void);

/* Flushes and closes it. err  ERR_IO: some output was not written */
int output_close(FILE *out, struct error *err) MUST_CHECK;

#endif
