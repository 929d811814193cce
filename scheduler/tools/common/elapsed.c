/* elapsed.c - advance the relative times of a job between two updates; see
 * elapsed.h.
 *
 * When an update arrives, each duration is stored as a moment; when the job is
 * shown, it is turned back into seconds.
 */
#include "scheduler/tools/common/elapsed.h"

#include <math.h>

#include "scheduler/tools/common/client.h"

/* The members of a job that change with time. */
static const struct {
    const char *at, *s;
    int sign; /* -1: it counts down, 1: it counts up */
    bool is_run;
} goes_by[] = {
    {"due_s", "start_in_s", -1, false},
    {"began_s", "elapsed_s", 1, true},
    {"until_s", "left_s", -1, true},
    {"done_s", "eta_s", -1, true},
};
enum { N_GO_BY = sizeof(goes_by) / sizeof(goes_by[0]) };

void elapsed_note(json_t *job, double now_s)
{
    for (size_t i = 0; i < N_GO_BY; i++) {
        double s = field_real(job, goes_by[i].s);
        if (isfinite(s) && job_is_live(job) == goes_by[i].is_run)
            (void)json_object_set_new(job, goes_by[i].at,
                                      json_real(now_s - goes_by[i].sign * s));
    }
}

bool elapsed_by(json_t *job, double now_s)
{
    bool does = false;
    for (size_t i = 0; i < N_GO_BY; i++) {
        double s = goes_by[i].sign * (now_s - field_real(job, goes_by[i].at));
        if (!isfinite(s))
            continue;
        (void)json_object_set_new(job, goes_by[i].s, json_real(s > 0 ? s : 0));
        does = true;
    }
    return does;
}
