/* explain.h - mgpu-submit --explain: the meaning of diagnostic codes. */
#ifndef MGPU_SCHEDULER_TOOLS_SUBMIT_EXPLAIN_H
#define MGPU_SCHEDULER_TOOLS_SUBMIT_EXPLAIN_H

#include <stdbool.h>

#include "jobs/base/error.h"

enum { EXPLAIN_MAX = 64 };

/* Prints a paragraph for each of the n codes, or the list of all codes if n is
 * 0; is_json: one document, mgpu.explain/1. Prints nothing on failure.
 *
 * err  ERR_USAGE unknown code, with a suggestion */
int explain(const char *const *words, int n, bool is_json,
            struct error *err) MUST_CHECK;

#endif
