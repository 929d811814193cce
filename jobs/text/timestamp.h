/* timestamp.h - parse a point in time of a specification: policy.begin.
 *
 * "2026-12-01T08:00:00Z", "2026-12-01 08:00:00+01:00": RFC 3339, with its zone;
 * or "+2h": relative to the submission. */
#ifndef MGPU_JOBS_TEXT_TIMESTAMP_H
#define MGPU_JOBS_TEXT_TIMESTAMP_H

#include <stdbool.h>

#include "jobs/base/error.h"

struct when {
    bool is_after; /* relative to the submission */
    double s;      /* seconds after the submission, or since 1970 */
};

enum { WHEN_HINT_CAP = 160 };

/* out  ret      untouched on failure
 *      ret_hint on failure: what to write; "" for nothing. May be NULL
 * err  ERR_INVAL */
int timestamp_parse(const char *text, struct when *ret,
                    char ret_hint[WHEN_HINT_CAP], struct error *err) MUST_CHECK;

#endif
