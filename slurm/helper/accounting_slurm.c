/* accounting_slurm.c - query Slurm's accounting for a job that slurmctld has
 * forgotten.
 *
 * Accounting stores no comment by default, so the query identifies a job by its
 * working directory, which is the attempt's own. */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/slurmdb.h>

#include "slurm/helper/calls_slurm.h"

enum { EARLIER_S = 3600 }; /* clocks differ */

/* When slurmctld started, and whether it keeps accounts. With a second
 * controller the first one may have died meanwhile. */
static int ask_conf(struct helper_news *ret, struct error *err)
{
    slurm_conf_t *conf = NULL;
    if (slurm_load_ctl_conf(0, &conf) != SLURM_SUCCESS)
        return rpc_call_fail(errno, "configuration", NULL, err);
    const char *type = conf->accounting_storage_type;
    ret->booted = conf->control_cnt > 1 ? 0 : (int64_t)conf->boot_time;
    ret->has_accounting = type && strstr(type, "slurmdbd");
    rpc_free_conf(conf);
    return 0;
}

static void say_who(uint32_t uid, char *ret, size_t cap)
{
    struct passwd pw;
    struct passwd *found = NULL;
    char room[16384];
    ret[0] = '\0';
    if (uid >= (uint32_t)-2) /* nobody: Slurm itself */
        return;
    if (getpwuid_r(uid, &pw, room, sizeof(room), &found) == 0 && found)
        (void)snprintf(ret, cap, "by %.40s", pw.pw_name);
    else
        (void)snprintf(ret, cap, "by user %lu", (unsigned long)uid);
}

static void take(const slurmdb_job_rec_t *j, struct helper_news *ret)
{
    uint32_t status = j->exitcode;
    (void)snprintf(ret->job.state, sizeof(ret->job.state), "%s",
                   rpc_scan_state_word(j->state & JOB_STATE_BASE));
    /* Other ends name a user, too: that of the controller. */
    ret->job.reason[0] = '\0';
    if ((j->state & JOB_STATE_BASE) == JOB_CANCELLED)
        say_who(j->requid, ret->job.reason, sizeof(ret->job.reason));
    ret->slurm_id = j->jobid;
    ret->job.ended = j->end > 0 ? j->end : 0;
    ret->exit_code = (int32_t)((status >> 8) & 0xff);
    ret->signal = (int32_t)(status & 0x7f);
    ret->signal = ret->signal > 64 ? 0 : ret->signal;
}

/* A job that accounting shows as running may be over all the same: slurmctld
 * has forgotten it, and cannot report its end. */
static bool has_ended(const slurmdb_job_rec_t *j)
{
    return (j->state & JOB_STATE_BASE) >= JOB_COMPLETE;
}

/* The job that ended last, unless one has the requested id. */
static void pick(list_t *jobs, const char *dir, uint32_t slurm_id,
                 struct helper_news *ret)
{
    const slurmdb_job_rec_t *best = NULL;
    list_itr_t *at = slurm_list_iterator_create(jobs);
    slurmdb_job_rec_t *j;
    while ((j = slurm_list_next(at))) {
        bool is_it = j->work_dir && strcmp(j->work_dir, dir) == 0 &&
                     (slurm_id == 0 || j->jobid == slurm_id);
        if (is_it && has_ended(j) && (!best || j->end >= best->end))
            best = j;
    }
    if (best)
        take(best, ret);
    slurm_list_iterator_destroy(at);
}

static int ask_accounting(void *conn, const struct alloc_req *req,
                          uint32_t slurm_id, struct helper_news *ret,
                          struct error *err)
{
    char uid[24];
    char name[256];
    slurmdb_job_cond_t cond = {
        .flags =
            JOBCOND_FLAG_DUP | JOBCOND_FLAG_NO_STEP | JOBCOND_FLAG_NO_TRUNC,
        .usage_start = req->since > EARLIER_S ? req->since - EARLIER_S : 1,
        .userid_list = slurm_list_create(NULL),
        .jobname_list = slurm_list_create(NULL),
        .db_flags = SLURMDB_JOB_FLAG_NOTSET,
    };
    (void)snprintf(uid, sizeof(uid), "%lu", (unsigned long)req->uid);
    (void)snprintf(name, sizeof(name), "%s", req->name);
    (void)slurm_list_append(cond.userid_list, uid);
    (void)slurm_list_append(cond.jobname_list, name);
    list_t *jobs = slurmdb_jobs_get(conn, &cond);
    int errnum = errno;
    slurm_list_destroy(cond.userid_list);
    slurm_list_destroy(cond.jobname_list);
    if (!jobs)
        return error_set(err, ERR_UNAVAIL,
                         "accounting (slurmdbd) does not answer: %s",
                         slurm_strerror(errnum));
    pick(jobs, req->dir, slurm_id, ret);
    slurm_list_destroy(jobs);
    return 0;
}

int rpc_accounting_recall(const struct alloc_req *req, uint32_t slurm_id,
                          struct helper_news *ret, struct error *err)
{
    if (ask_conf(ret, err) < 0)
        return -1;
    if (!ret->has_accounting)
        return 0;
    uint16_t flags = 0;
    void *conn = slurmdb_connection_get(&flags);
    if (!conn)
        return error_set(err, ERR_UNAVAIL,
                         "accounting (slurmdbd) does not answer: %s",
                         slurm_strerror(errno));
    int rc = ask_accounting(conn, req, slurm_id, ret, err);
    (void)slurmdb_connection_close(&conn);
    return rc;
}
