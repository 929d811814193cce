/* gz_text.h - read a text file that may be compressed with gzip.
 *
 * Traces and tables are published compressed, so every input file of mgpu-sim
 * may end in ".gz". */
#ifndef MGPU_SCHEDULER_SIM_TRACE_GZ_TEXT_H
#define MGPU_SCHEDULER_SIM_TRACE_GZ_TEXT_H

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

enum { GZ_TEXT_MAX = 256 << 20 }; /* bytes of text */

/* Appends the text of the file.
 * err  ERR_NOTFOUND, ERR_DENIED, ERR_IO the file; ERR_LIMIT the text is longer
 *      than GZ_TEXT_MAX; ERR_INVAL it is damaged, or has a NUL */
int gz_text_read(const char *path, struct buf *ret,
                 struct error *err) MUST_CHECK;

/* Writes the text, compressed. */
int gz_text_write(const char *path, const struct buf *text,
                  struct error *err) MUST_CHECK;

#endif
