/* signal_slurm.c - end or signal a job, or change its time limit, after
 * checking that it is still ours.
 *
 * After a crash slurmctld reuses the ids of jobs that it has forgotten, so an
 * id alone identifies nothing: comment and user must be ours. */
#include <math.h>
#include <signal.h>
#include <string.h>

#include "slurm/helper/calls_slurm.h"
#include "slurm/helper/time_limit.h"

static int check(const job_info_msg_t *m, uint32_t id, const char *tag,
                 uid_t uid, bool *ret_is_pending, struct error *err)
{
    for (uint32_t i = 0; i < m->record_count; i++) {
        const slurm_job_info_t *j = &m->job_array[i];
        uint32_t state = j->job_state & JOB_STATE_BASE;
        if (j->job_id != id)
            continue;
        if (j->user_id != uid || !j->comment || strcmp(j->comment, tag) != 0)
            return error_set(err, ERR_NOTFOUND,
                             "Slurm's job %u is a different job now", id);
        if (state >= JOB_COMPLETE)
            return error_set(err, ERR_NOTFOUND, "Slurm's job %u has ended", id);
        *ret_is_pending = state == JOB_PENDING;
        return 0;
    }
    return error_set(err, ERR_NOTFOUND, "Slurm has no job %u", id);
}

/* Slurm sends SIGTERM to the batch step when it ends the job (end_cause.h); so
 * the helper sends SIGINT instead, which mgpu-batch treats like SIGTERM. */
static int batch_signal(const struct helper_conf *conf, int signo)
{
    return conf->launcher == BATCH_MPIRUN && signo == SIGTERM ? SIGINT : signo;
}

/* Under mpirun the ranks of the first node belong to the batch step, and
 * mpirun's daemons on other nodes kill their ranks on SIGTERM. SIGKILL still
 * goes to the daemons only: mgpu-batch has to live and record how the ranks
 * ended. */
static uint16_t flags_for(const struct helper_conf *conf, int signo)
{
    return conf->launcher == BATCH_MPIRUN && signo != SIGKILL ? KILL_JOB_BATCH
                                                              : KILL_STEPS_ONLY;
}

int rpc_signal(const struct helper_conf *conf, uint32_t slurm_id,
               const char *tag, uid_t uid, int signo, bool is_cancel,
               bool *is_sure, struct error *err)
{
    job_info_msg_t *m = NULL;
    bool is_pending = false;
    *is_sure = true;
    if (slurm_load_job(&m, rpc_job_id(slurm_id), 0) != SLURM_SUCCESS)
        return rpc_call_fail(errno, NULL, NULL, err);
    int rc = check(m, slurm_id, tag, uid, &is_pending, err);
    slurm_free_job_info_msg(m);
    if (rc < 0)
        return -1;
    /* SIGKILL to the ranks of a pending job would cancel it. */
    if (signo != 0 && is_pending)
        return error_set(err, ERR_STATE, "Slurm's job %u does not run yet",
                         slurm_id);
    /* Only a note: without it the job ends as FAILED in Slurm's accounting. */
    if (is_cancel)
        (void)slurm_kill_job(rpc_job_id(slurm_id), BATCH_CANCEL_SIGNAL,
                             KILL_JOB_BATCH);
    rc = signo == 0 ? slurm_kill_job(rpc_job_id(slurm_id), SIGKILL, 0)
                    : slurm_kill_job(rpc_job_id(slurm_id),
                                     (uint16_t)batch_signal(conf, signo),
                                     flags_for(conf, signo));
    return rc == SLURM_SUCCESS ? 0 : rpc_call_fail(errno, NULL, is_sure, err);
}

int rpc_limit(const struct helper_conf *conf, uint32_t slurm_id,
              const struct alloc_req *req, int32_t *ret_min, bool *is_sure,
              struct error *err)
{
    job_info_msg_t *m = NULL;
    bool is_pending = false;
    double minutes = time_limit_minutes(req->limit_s, conf->limit_margin_s, 0);
    job_desc_msg_t d;
    *is_sure = true;
    if (slurm_load_job(&m, rpc_job_id(slurm_id), 0) != SLURM_SUCCESS)
        return rpc_call_fail(errno, NULL, NULL, err);
    int rc = check(m, slurm_id, req->tag, req->uid, &is_pending, err);
    slurm_free_job_info_msg(m);
    if (rc < 0)
        return -1;
    slurm_init_job_desc_msg(&d);
    d.job_id = slurm_id;
    *ret_min = req->limit_s > 0 ? (int32_t)fmin(minutes, INT32_MAX) : 0;
    d.time_limit = *ret_min > 0 ? (uint32_t)*ret_min : INFINITE;
    return slurm_update_job(&d) == SLURM_SUCCESS
               ? 0
               : rpc_call_fail(errno, NULL, is_sure, err);
}
