/* diagnostics.h - add findings to a struct spec_report (spec.h); for jobs/
 * alone.
 *
 * A report keeps its first fifty findings in the order of their positions;
 * errors displace warnings. diagnostics_init() allocates all memory, so a
 * finding is never lost because memory is short. */
#ifndef MGPU_JOBS_SCHEMA_DIAGNOSTICS_H
#define MGPU_JOBS_SCHEMA_DIAGNOSTICS_H

#include "jobs/schema/tree.h"
#include "jobs/spec/spec.h"

enum { REPORT_CAP = 50 };

/* Buffer size for messages: enough for every key of ours. */
enum { PATH_CAP = 128 };

int diagnostics_init(struct spec_report *r, struct error *err) MUST_CHECK;

/* code "E..." or "W..."; path and hint may be NULL. */
void diagnostics_add(struct spec_report *r, const char *code, struct mark at,
                     const char *path, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));

/* The origin of a finding without a line: "--set", or another option. */
const char *diagnostics_option(const struct spec_finding *f);

/* -1 with "3 errors, 1 warning" if there are errors, else 0. */
int diagnostics_verdict(const struct spec_report *r,
                        struct error *err) MUST_CHECK;

/* diagnostics_print() for any file; `tail` ends the summary line if there are
 * errors. */
int report_print(const struct spec_report *r, const char *file,
                 const char *text, size_t len, const char *tail,
                 struct buf *out, struct error *err) MUST_CHECK;

#endif
