/* parent_ref.h - the word that names a job whose checkpoint another job goes on
 * from: "12", "12_3" for a task of a sweep, or either with ":best". */
#ifndef MGPU_JOBS_TEXT_PARENT_REF_H
#define MGPU_JOBS_TEXT_PARENT_REF_H

#include <stdbool.h>
#include <stdint.h>

struct parent_ref {
    uint64_t job; /* or the sweep */
    int32_t task; /* its number in the sweep; -1: job is no task's sweep */
    bool is_best; /* the checkpoint of the best evaluation; else the newest */
};

/* What a text is. A directory whose name begins like a job's number is written
 * "./12". */
enum parent_word {
    PARENT_NONE, /* a path, as far as this file knows */
    PARENT_JOB,
    PARENT_BAD /* it begins with the number of a job and a ':', and goes on with
                  a word that is not known */
};
/* out  ret  set only for PARENT_JOB */
enum parent_word parent_ref_parse(const char *text, struct parent_ref *ret);

#endif
