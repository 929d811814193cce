/* array.h - parse the task numbers of a job array, in the syntax of sbatch
 * --array: "0-15%4", "1,3,7-9", "0-30:10". */
#ifndef MGPU_JOBS_TEXT_ARRAY_H
#define MGPU_JOBS_TEXT_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/spec/spec.h"

enum { ARRAY_MAX = SPEC_TASKS_MAX }; /* numbers are below it */

struct array {
    int32_t numbers[ARRAY_MAX]; /* ascending, without duplicates */
    size_t n;                   /* 1 or more */
    int32_t max_parallel;       /* %4; 0: unlimited */
};

/* out  ret     untouched on failure
 *      ret_at  on failure: position of the error in text, or its end
 * err  ERR_INVAL */
int array_parse(const char *text, struct array *ret, size_t *ret_at,
                struct error *err) MUST_CHECK;

#endif
