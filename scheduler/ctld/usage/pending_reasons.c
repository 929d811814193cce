/* pending_reasons.c - see pending_reasons.h. */
#include "scheduler/ctld/usage/pending_reasons.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/engine/job.h"

static const char slurms[] = "Slurm(";
enum {
    SLURMS_LEN = sizeof(slurms) - 1,
    WORD_MAX = REASON_TOKEN_CAP - SLURMS_LEN - 2
};

/* Slurm shows a text of its own or of an administrator in place of a reason's
 * name; its first word is the token. */
static void slurms_token(const char *text, char ret[REASON_TOKEN_CAP])
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                            "abcdefghijklmnopqrstuvwxyz0123456789_");

    if (n > WORD_MAX)
        n = WORD_MAX;
    (void)snprintf(ret, REASON_TOKEN_CAP, "%s%.*s)", slurms,
                   n > 0 ? (int)n : WORD_MAX, n > 0 ? text : "Other");
}

/* False: the job does not wait. */
static bool token_of(const struct job *job, char ret[REASON_TOKEN_CAP])
{
    if (job->state == JOB_QUEUED) {
        reason_token(job->reason, ret);
        return true;
    }
    if (job->state != JOB_DISPATCHING || job->native_id[0] != '\0' ||
        strncmp(job->reason, slurms, SLURMS_LEN) != 0 ||
        !strchr(job->reason, ')'))
        return false;
    slurms_token(job->reason + SLURMS_LEN, ret);
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
