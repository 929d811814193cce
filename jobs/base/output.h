/* output.h - the end of what a program prints.
 *
 * A full disk is an error that nobody sees before the last byte has left, and
 * a reader that has seen enough (`| head`) is none.
 */
#ifndef MGPU_BASE_OUTPUT_H
#define MGPU_BASE_OUTPUT_H

#include <stdio.h>

#include "jobs/base/error.h"

/* From now on the process ends with 0, and silently, when nobody reads. */
void output_quiet_pipe(void);

/* Flushes and closes it. err  ERR_IO: something of it was not written */
int output_close(FILE *out, struct error *err) MUST_CHECK;

#endif
