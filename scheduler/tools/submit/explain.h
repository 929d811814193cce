/* explain.h - mgpu-submit --explain: what the codes of findings mean. */
#ifndef MGPU_SCHEDULER_TOOLS_SUBMIT_EXPLAIN_H
#define MGPU_SCHEDULER_TOOLS_SUBMIT_EXPLAIN_H

#include <stdbool.h>

#include "jobs/base/error.h"

enum { EXPLAIN_MAX = 64 };

/* Prints a paragraph for each of the n codes, or with n 0 the list of all;
 * is_json: one document, mgpu.explain/1. Nothing is printed on failure.
 *
 * err  ERR_USAGE there is no such code, and which may be meant
 */
int explain(const char *const *words, int n, bool is_json,
            struct error *err) MUST_CHECK;

#endif
