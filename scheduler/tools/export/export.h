/* export.h - a job's rows for other programs. */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_EXPORT_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_EXPORT_H

#include <stdint.h>
#include <stdio.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

enum export_format { EXPORT_CSV, EXPORT_JSONL, EXPORT_TENSORBOARD };

/* err  ERR_USAGE another word */
int export_format_of(const char *word, enum export_format *ret,
                     struct error *err) MUST_CHECK;

/* All rows of a view ("iterations", "epochs", "values", "profile") of all
 * attempts, in pages, so that a long job fits too. CSV is RFC 4180's, with a
 * line of names; JSON Lines have an object each. What is not known is empty,
 * or null. */
int export_rows(struct client *c, const char *word, const char *view,
                enum export_format format, FILE *out,
                struct error *err) MUST_CHECK;

/* mgpu.queue/1 as CSV: a line of the columns' names, if there is to be a
 * header, and one for each job, those of a sweep too. Numbers are as the daemon
 * has them, times in seconds; what has no value is empty.
 * err  ERR_USAGE no such column */
int export_queue(const struct show_conf *s, const json_t *reply, FILE *out,
                 struct error *err) MUST_CHECK;

/* An event file of TensorBoard in `dir`, which is made: scalars by iteration
 * (train/, time/) and by epoch (epoch/), and values (metric/).
 * err  ERR_IO no file is left */
int export_tensorboard(struct client *c, const char *word, const char *dir,
                       struct error *err) MUST_CHECK;

/* ---- for its test -------------------------------------------------------- */

/* Castagnoli's, of RFC 3720. */
uint32_t export_crc32c(const void *data, size_t n);

#endif
