/* export.h - export the rows of a job, or the queue, for other programs. */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_EXPORT_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_EXPORT_H

#include <stdint.h>
#include <stdio.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

enum export_format { EXPORT_CSV, EXPORT_JSONL, EXPORT_TENSORBOARD, EXPORT_SVG };

/* err  ERR_USAGE unknown format */
int export_format_of(const char *word, enum export_format *ret,
                     struct error *err) MUST_CHECK;
/* By the suffix of a file's name. err ERR_USAGE it is none of a format */
int export_format_of_file(const char *path, enum export_format *ret,
                          struct error *err) MUST_CHECK;

/* Exports all rows of a view ("iterations", "epochs", "values", "profile") of
 * all attempts, page by page, so that a long job is no problem. CSV follows RFC
 * 4180, with a header line; JSON Lines have one object per row. An unknown
 * value is empty, or null. */
int export_rows(struct client *c, const char *word, const char *view,
                enum export_format format, FILE *out,
                struct error *err) MUST_CHECK;

/* Exports mgpu.queue/1 as CSV: a header line, unless it is switched off, and
 * one line per job, tasks of sweeps included. Numbers are unrounded, times in
 * seconds; a missing value is empty.
 * err  ERR_USAGE no such column */
int export_queue(const struct show_conf *s, const json_t *reply, FILE *out,
                 struct error *err) MUST_CHECK;

/* Exports mgpu.usage/1 as CSV; hours and seconds are unrounded. err ERR_IO */
int export_usage(const json_t *reply, bool header, FILE *out,
                 struct error *err) MUST_CHECK;

/* Writes a TensorBoard event file into `dir`, which it creates: scalars by
 * iteration (train/, time/) and by epoch (epoch/), and values (metric/).
 * err  ERR_IO; no file is left */
int export_tensorboard(struct client *c, const char *word, const char *dir,
                       struct error *err) MUST_CHECK;

/* ---- for its test -------------------------------------------------------- */

/* CRC-32C (Castagnoli), as in RFC 3720. */
uint32_t export_crc32c(const void *data, size_t n);

#endif
