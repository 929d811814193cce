/* resume_job.h - look for the job that train.resume_from names, before the
 * submit: the daemon knows the job, and this machine may have its checkpoint.
 */
#ifndef MGPU_SCHEDULER_TOOLS_SUBMIT_RESUME_JOB_H
#define MGPU_SCHEDULER_TOOLS_SUBMIT_RESUME_JOB_H

#include "jobs/spec/spec.h"

/* Zeroed, but for url, it has asked nothing yet. */
struct resume_job {
    const char *url; /* of the daemon; NULL: the default */
    struct client *client;
    bool is_away; /* the daemon does not answer: the submit will say so */
};

/* spec_look.parent, with a struct resume_job: each job is asked for
 * each time that it is named. */
int resume_job_look(void *arg, const struct job_spec *s, const char *named,
                    struct error *err) MUST_CHECK;
void resume_job_clear(struct resume_job *r);

#endif
