/* parent_ref.c - which texts name a job to go on from, and which are paths. */
#include "jobs/text/parent_ref.h"

#include <stddef.h>

#include "tests/tap.h"

int main(void)
{
    static const struct {
        const char *text;
        enum parent_word is;
        struct parent_ref ref;
    } t[] = {
        {"12", PARENT_JOB, {12, -1, false}},
        {"12_3", PARENT_JOB, {12, 3, false}},
        {"12_0", PARENT_JOB, {12, 0, false}},
        {"12:best", PARENT_JOB, {12, -1, true}},
        {"12_3:best", PARENT_JOB, {12, 3, true}},
        {"9223372036854775807", PARENT_JOB, {INT64_MAX, -1, false}},
        {"9223372036854775808", PARENT_NONE, {0}},
        {"1_2147483647", PARENT_JOB, {1, INT32_MAX, false}},
        {"1_2147483648", PARENT_NONE, {0}},
        {"12:", PARENT_BAD, {0}},
        {"12:last", PARENT_BAD, {0}},
        {"12:bests", PARENT_BAD, {0}},
        {"12_3:step-4", PARENT_BAD, {0}},
        {"", PARENT_NONE, {0}},
        {"0", PARENT_NONE, {0}},
        {"012", PARENT_NONE, {0}},
        {"12_03", PARENT_NONE, {0}},
        {"12_", PARENT_NONE, {0}},
        {"-1", PARENT_NONE, {0}},
        {"+1", PARENT_NONE, {0}},
        {" 1", PARENT_NONE, {0}},
        {"12 ", PARENT_NONE, {0}},
        {"12a", PARENT_NONE, {0}},
        {"12/out", PARENT_NONE, {0}},
        {"./12", PARENT_NONE, {0}},
        {"/jobs/12", PARENT_NONE, {0}},
        {"best", PARENT_NONE, {0}},
    };
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        struct parent_ref r = {.job = 7};
        ok(parent_ref_parse(t[i].text, &r) == t[i].is, "'%s' is what it is",
           t[i].text);
        if (t[i].is != PARENT_JOB)
            ok(r.job == 7, "  and nothing is set");
        else
            ok(r.job == t[i].ref.job && r.task == t[i].ref.task &&
                   r.is_best == t[i].ref.is_best,
               "  job %llu, task %d%s", (unsigned long long)r.job, (int)r.task,
               r.is_best ? ", its best" : "");
    }
    return tap_done();
}
