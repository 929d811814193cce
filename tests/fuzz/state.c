/* state.c - any sequence of events: the life of a job keeps its rules.
 *
 * A final state is never left, a live job is never final, a refused event
 * changes nothing, and names lead back to what they name.
 */
#include "jobs/state.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check_names(enum job_state s, enum job_event ev)
{
    enum job_state s2 = JOB_STATE_N;
    enum job_event ev2 = EV_N;
    if (job_state_from_name(job_state_name(s), &s2) < 0 || s2 != s)
        abort();
    if (job_event_from_name(job_event_name(ev), &ev2) < 0 || ev2 != ev)
        abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    enum job_state s = JOB_NEW;
    for (size_t i = 0; i < size; i++) {
        enum job_event ev = (enum job_event)(data[i] % EV_N);
        enum job_state to = s;
        struct error err = ERROR_INIT;
        check_names(s, ev);
        if (job_state_next(s, ev, &to, &err) < 0) {
            if (to != s || err.code != ERR_STATE)
                abort();
            continue;
        }
        if (job_state_is_final(s))
            abort();
        if (job_state_is_final(to) && job_state_is_live(to))
            abort();
        /* Devices are had by an intent alone, and a run begins without. */
        if (job_state_is_live(to) && !job_state_is_live(s) &&
            !job_event_begins(ev))
            abort();
        s = to;
    }
    return 0;
}
