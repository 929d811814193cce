/* job_attempt_cells.c - what several views say of the state, the rows and the
 * events of a job.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/state.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

bool cells_removed(FILE *out, const json_t *reply)
{
    bool has_some = json_array_size(json_object_get(reply, "rows")) > 0;
    if (!field_yes(reply, "rows_removed"))
        return false;
    (void)fprintf(out,
                  "its rows %s removed: it ended longer ago than "
                  "store.metrics_retention keeps them\n",
                  has_some ? "are being" : "were");
    return true;
}

const char *cells_asked(const json_t *event)
{
    const json_t *detail = json_object_get(event, "detail");
    bool is = strcmp(field_str(event, "event"), "preempt") == 0 &&
              field_int(event, "uid", -1) >= 0 &&
              !json_object_get(detail, "for_job") &&
              !json_object_get(detail, "to_gpus");
    return is ? "asked to be queued again" : NULL;
}

const char *attempt_state(const json_t *attempt)
{
    const char *name = field_str(attempt, "state");
    enum job_state s;
    bool went_on = *field_str(attempt, "ended") != '\0' &&
                   job_state_from_name(name, &s) == 0 && job_state_is_live(s);
    return went_on ? "REQUEUED" : name;
}

bool job_is_live(const json_t *job)
{
    enum job_state s = JOB_NEW;
    return job_state_from_name(field_str(job, "state"), &s) == 0 &&
           job_state_is_live(s);
}
