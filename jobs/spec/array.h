/* array.h - the numbers of an array of jobs, as sbatch --array has them:
 * "0-15%4", "1,3,7-9", "0-30:10".
 */
#ifndef MGPU_JOBS_SPEC_ARRAY_H
#define MGPU_JOBS_SPEC_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/spec/spec.h"

enum { ARRAY_MAX = SPEC_TASKS_MAX }; /* a number is below it */

struct array {
    int32_t numbers[ARRAY_MAX]; /* ascending, each once */
    size_t n;                   /* 1 or more */
    int32_t max_parallel;       /* %4; 0: any number */
};

/* out  ret     untouched on failure
 *      ret_at  of a failure: the byte of text that is wrong, or its end
 * err  ERR_INVAL */
int array_parse(const char *text, struct array *ret, size_t *ret_at,
                struct error *err) MUST_CHECK;

#endif
