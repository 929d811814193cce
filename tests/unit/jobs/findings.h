/* findings.h - what a parser found, as a row of a test has it. */
#ifndef MGPU_TESTS_UNIT_JOBS_FINDINGS_H
#define MGPU_TESTS_UNIT_JOBS_FINDINGS_H

#include <stdio.h>

#include "jobs/schema/diagnostics.h"

/* "E011 1:10 W001 2:1": code, line and column of each; cut to fit. */
static inline const char *findings_text(const struct spec_report *r, char *out,
                                        size_t cap)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < r->n && len < cap; i++)
        len += (size_t)snprintf(out + len, cap - len, "%s%s %d:%d",
                                i ? " " : "", r->findings[i].code,
                                r->findings[i].line, r->findings[i].column);
    return out;
}

#endif
