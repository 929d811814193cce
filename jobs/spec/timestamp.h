/* timestamp.h - a point in time as a specification has it: policy.begin.
 *
 * "2026-12-01T08:00:00Z", "2026-12-01 08:00:00+01:00": RFC 3339, with its
 * zone; or "+2h": so long after the submission.
 */
#ifndef MGPU_JOBS_SPEC_TIMESTAMP_H
#define MGPU_JOBS_SPEC_TIMESTAMP_H

#include <stdbool.h>

#include "jobs/base/error.h"

struct when {
    bool is_after; /* the submission */
    double s;      /* seconds after it, else since 1970 */
};

enum { WHEN_HINT_CAP = 160 };

/* out  ret      untouched on failure
 *      ret_hint of a failure: what to write; "" for nothing. May be NULL
 * err  ERR_INVAL */
int when_parse(const char *text, struct when *ret, char ret_hint[WHEN_HINT_CAP],
               struct error *err) MUST_CHECK;

#endif
