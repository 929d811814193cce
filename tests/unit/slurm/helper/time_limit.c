/* time_limit.c - Slurm's limit is later than the job's, and its warning does
 * not come before the job's, not even a minute early. */
#include "slurm/helper/time_limit.h"

#include <stddef.h>

#include "tests/tap.h"

static void test_minutes(void)
{
    static const struct {
        double limit_s, margin_s, most, minutes;
    } all[] = {
        {600, 120, 0, 12},  {601, 120, 0, 13},
        {600, 0, 0, 10},    {600, 120, 11, 11}, /* the margin is ours */
        {660, 120, 11, 11}, {661, 120, 11, 14}, /* refused by Slurm */
        {20, 0, 0, 1},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        ok(time_limit_minutes(all[i].limit_s, all[i].margin_s, all[i].most) ==
               all[i].minutes,
           "%g s with %g s, at most %g min: %g min", all[i].limit_s,
           all[i].margin_s, all[i].most, all[i].minutes);
}

static void test_warning(void)
{
    static const struct {
        double grace_s, limit_s, margin_s, most, warning_s;
    } all[] = {
        {120, 3600, 120, 0, 60}, /* the defaults */
        {30, 3600, 120, 0, 30},
        {120, 3600, 600, 0, 120},
        /* An update rounds to another minute. */
        {120, 3601, 120, 0, 60},
        {120, 32, 0, 0, 0},
        {120, 3600, 60, 0, 0},
        {120, 3600, 120, 60, 0}, /* the partition takes no more */
        {120, 3600, 120, 61, 0},
        {0, 3600, 600, 0, 0},
        {0.5, 3600, 600, 0, 0},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        double minutes =
            time_limit_minutes(all[i].limit_s, all[i].margin_s, all[i].most);
        double s = time_limit_warning_s(all[i].grace_s, all[i].limit_s,
                                        all[i].margin_s, minutes);
        ok(s == all[i].warning_s,
           "limit %g s, margin %g s, grace %g s: warned %g s before",
           all[i].limit_s, all[i].margin_s, all[i].grace_s, all[i].warning_s);
        ok(s == 0 || minutes * 60 - s - 60 >= all[i].limit_s,
           "which is not before the job's limit");
    }
}

static void test_own(void)
{
    static const struct {
        double grace_s, margin_s, minutes, warning_s;
    } all[] = {
        {120, 120, 1, 0},
        {120, 120, 2, 30},
        {120, 120, 3, 60},
        {120, 0, 5, 120},
        {120, 0, 60, 120},
        {3600, 0, 60, 1770},
        /* Not known, or none: an update may give it one. */
        {120, 120, 0, 60},
        {120, 600, 0, 120},
        {120, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        ok(time_limit_own_warning_s(all[i].grace_s, all[i].margin_s,
                                    all[i].minutes) == all[i].warning_s,
           "Slurm's own %g min, grace %g s, margin %g s: warned %g s before",
           all[i].minutes, all[i].grace_s, all[i].margin_s, all[i].warning_s);
}

int main(void)
{
    test_minutes();
    test_warning();
    test_own();
    return tap_done();
}
