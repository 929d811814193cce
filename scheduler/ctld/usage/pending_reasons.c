/* pending_reasons.c - see pending_reasons.h. */
#include "scheduler/ctld/usage/pending_reasons.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/engine/job.h"

static const char slurms[] = "Slurm(";

/* False: the job does not wait. */
static bool token_of(const struct job *job, char ret[REASON_TOKEN_CAP])
{
    size_t len = strcspn(job->reason, ")") + 1;

    if (job->state == JOB_QUEUED) {
        reason_token(job->reason, ret);
        return true;
    }
    if (job->state != JOB_DISPATCHING || job->native_id[0] != '\0' ||
        strncmp(job->reason, slurms, sizeof(slurms) - 1) != 0 ||
        job->reason[len - 1] != ')')
        return false;
    (void)snprintf(ret, REASON_TOKEN_CAP, "%.*s", (int)len, job->reason);
    return true;
}

void pending_reasons_add(struct pending_reasons *r, const struct job *job)
{
    char token[REASON_TOKEN_CAP];
    size_t i = 0;

    if (!token_of(job, token))
        return;
    while (i < r->n && strcmp(r->at[i].token, token) != 0)
        i++;
    if (i == PENDING_REASONS_MAX)
        i--;
    if (i == PENDING_REASONS_MAX - 1)
        (void)snprintf(token, sizeof(token), "other");
    memcpy(r->at[i].token, token, sizeof(token));
    r->at[i].n++;
    r->n = i < r->n ? r->n : i + 1;
}
