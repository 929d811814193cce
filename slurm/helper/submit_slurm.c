/* submit_slurm.c - submit one attempt as one batch job of Slurm. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/helper/calls_slurm.h"
#include "slurm/helper/time_limit.h"
#include "slurm/launch/attempt_dir.h"

/* A constant: no value of a job is ever part of a script. */
static const char script[] =
    "#!/bin/sh\nexec \"$MGPU_BATCH\" \"$" ATTEMPT_MARK "\"\n";

static const double MEGABYTE = 1 << 20;
enum { ENV_MAX = 16 };

struct text {
    struct buf room; /* the strings, each with its NUL */
    size_t at[ENV_MAX];
    char *env[ENV_MAX];
    uint32_t n;
    char tres[64];
};

static int set_env(struct text *t, const char *name, const char *value,
                   struct error *err)
{
    t->at[t->n++] = t->room.len;
    return buf_addf(&t->room, err, "%s=%s%c", name, value, '\0');
}

/* The environment of the script and its children, besides Slurm's own. */
static int make_env(const struct helper_conf *c, const struct alloc_req *r,
                    const char *mark, const struct rpc_owner *o, struct text *t,
                    struct error *err)
{
    const struct {
        const char *name, *value;
    } all[] = {{"PATH", "/usr/local/bin:/usr/bin:/bin"},
               {"HOME", o->home},
               {"USER", o->name},
               {"LOGNAME", o->name},
               {"SHELL", o->shell},
               {"LANG", "C.UTF-8"},
               {"MGPU_BATCH", c->batch},
               {ATTEMPT_MARK, r->dir},
               {ATTEMPT_SUBMISSION, mark},
               /* umask of the script, and of the output file that slurmd
                * creates */
               {"SLURM_UMASK", "0077"},
               /* With the default, 5 to 16 % of the starts of 4 ranks died in
                * MPI_Init under load, with this 0 of 709. */
               {"SLURM_PMIX_FENCE", "ring"}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (set_env(t, all[i].name, all[i].value, err) < 0)
            return -1;
    for (uint32_t i = 0; i < t->n; i++)
        t->env[i] = t->room.data + t->at[i];
    return 0;
}

static void say_size(job_desc_msg_t *d, const struct alloc_req *r,
                     struct text *t)
{
    int32_t ranks = r->gpus_per_node > 0 ? r->gpus_per_node : 1;
    const char *type = r->where.gpu_type;
    if (r->gpus_per_node > 0) {
        (void)snprintf(t->tres, sizeof(t->tres), "gres:gpu:%.32s%s%d",
                       type ? type : "", type ? ":" : "", r->gpus_per_node);
        d->tres_per_node = t->tres;
    }
    d->min_nodes = (uint32_t)r->nodes;
    d->max_nodes = (uint32_t)r->nodes;
    d->num_tasks = (uint32_t)(r->nodes * ranks);
    d->bitflags |= JOB_NTASKS_SET;
    d->ntasks_per_node = (uint16_t)ranks;
    d->cpus_per_task = (uint16_t)r->where.cpus_per_gpu;
    /* Without it one CPU per node is allocated, and srun fails later. */
    uint64_t cpus = (uint64_t)d->num_tasks * d->cpus_per_task;
    d->min_cpus = cpus < INT32_MAX ? (uint32_t)cpus : INT32_MAX;
    if (r->where.memory_bytes > 0)
        d->pn_min_memory =
            (uint64_t)ceil((double)r->where.memory_bytes / MEGABYTE);
    if (r->where.exclusive)
        d->shared = 0;
}

/* 0: no limit. */
static uint32_t shorter(uint32_t a, uint32_t b)
{
    return a > 0 && (b == 0 || a < b) ? a : b;
}

/* The shortest limit that Slurm may give a job that names none; 0: not known.
 */
static uint32_t own_minutes(const struct alloc_req *r)
{
    bool is_default = false;
    uint32_t minutes = rpc_partition_default(r->where.partition, &is_default);
    uint32_t wall = is_default ? 0 : rpc_partition_wall(r->uid, &r->where, 0);
    return shorter(minutes, wall);
}

/* The longest limit that Slurm takes for a job that names one; 0: any. A
 * MaxWall that is shorter than the job's is left out: Slurm says so. */
static uint32_t most_minutes(const struct alloc_req *r)
{
    uint32_t most = rpc_partition_minutes(r->where.partition);

    return shorter(most,
                   rpc_partition_wall(r->uid, &r->where, r->limit_s / 60));
}

static void say_limits(job_desc_msg_t *d, const struct helper_conf *c,
                       const struct alloc_req *r)
{
    double warn_s;
    if (r->limit_s > 0) {
        double minutes =
            time_limit_minutes(r->limit_s, c->limit_margin_s, most_minutes(r));
        d->time_limit = (uint32_t)minutes;
        warn_s = time_limit_warning_s(r->grace_s, r->limit_s, c->limit_margin_s,
                                      minutes);
    } else {
        warn_s = time_limit_own_warning_s(r->grace_s, c->limit_margin_s,
                                          own_minutes(r));
    }
    /* A warning before the limit, in case the daemon is down; to the ranks, not
     * to the script, which has to record how they ended. Under mpirun the
     * script forwards it; a SIGTERM would mean that the job is cancelled
     * (end_cause.h). */
    if (warn_s >= 1) {
        bool is_mpirun = c->launcher == BATCH_MPIRUN;
        d->warn_signal = is_mpirun ? SIGINT : SIGTERM;
        d->warn_flags = is_mpirun ? KILL_JOB_BATCH : 0;
        d->warn_time = (uint16_t)fmin(warn_s, UINT16_MAX - 2);
    }
    d->requeue = 0; /* the engine retries */
    d->kill_on_node_fail = 1;
}

/* slurm.h knows no const; libslurm only reads these. */
static char *plain(const char *s)
{
    union {
        const char *in;
        char *out;
    } u = {.in = s};
    return u.out;
}

static void say_where(job_desc_msg_t *d, const struct alloc_req *r)
{
    d->partition = plain(r->where.partition);
    d->account = plain(r->where.account);
    d->qos = plain(r->where.qos);
    d->features = plain(r->where.constraint);
    d->reservation = plain(r->where.reservation);
    d->exc_nodes = plain(r->where.exclude);
}

static int describe(job_desc_msg_t *d, const struct helper_conf *c,
                    const struct alloc_req *r, const char *mark,
                    const struct rpc_owner *o, struct text *t,
                    struct error *err)
{
    slurm_init_job_desc_msg(d);
    if (make_env(c, r, mark, o, t, err) < 0)
        return -1;
    d->environment = t->env;
    d->env_size = t->n;
    d->script = plain(script);
    d->name = plain(r->name);
    d->comment = plain(r->tag);
    d->user_id = o->uid;
    d->group_id = o->gid;
    d->work_dir = plain(r->dir);
    /* Relative to the directory: a '%' in the directory is then harmless. */
    d->std_out = plain("slurm-%j.out");
    d->std_in = plain("/dev/null");
    say_size(d, r, t);
    say_limits(d, c, r);
    say_where(d, r);
    return 0;
}

/* Why the job is pending, in Slurm's words; "": unknown. */
static void reason_of(uint32_t id, char *ret, size_t cap)
{
    job_info_msg_t *m = NULL;
    ret[0] = '\0';
    if (slurm_load_job(&m, rpc_job_id(id), 0) != SLURM_SUCCESS)
        return;
    for (uint32_t i = 0; i < m->record_count; i++) {
        const slurm_job_info_t *j = &m->job_array[i];
        if (j->job_id == id && j->state_reason != WAIT_NO_REASON)
            (void)snprintf(ret, cap, "%s",
                           j->state_desc ? j->state_desc
                                         : rpc_reason_name(j->state_reason));
    }
    for (char *p = ret; *p; p++)
        if (*p == '_')
            *p = ' '; /* the separator that Slurm's own tools use */
    slurm_free_job_info_msg(m);
}

/* Slurm accepts a job with 2015 as its warning, and keeps it pending for ever:
 * it needs more nodes, CPUs of a node or time than the partition allows, or a
 * partition that is closed to its account or QOS. (Nodes that are down or
 * drained now are 2068.) */
static int check_accepted(uint32_t id, uint32_t warning, bool *is_sure,
                          struct error *err)
{
    char reason[100];
    if (warning != ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE)
        return 0;
    reason_of(id, reason, sizeof(reason));
    if (slurm_kill_job(rpc_job_id(id), SIGKILL, 0) != SLURM_SUCCESS) {
        int errnum = errno;
        if (errnum != ESLURM_ALREADY_DONE && errnum != ESLURM_INVALID_JOB_ID) {
            *is_sure = false;
            return rpc_call_fail(errnum, "cancel a job that can never run",
                                 NULL, err);
        }
    }
    *is_sure = true;
    return error_set(err, ERR_INVAL, "Slurm: never starts: %s (%u)",
                     reason[0] ? reason
                               : "more nodes, CPUs or time than the partition "
                                 "has",
                     warning);
}

int rpc_submit(const struct helper_conf *conf, const struct alloc_req *req,
               const char *mark, const struct rpc_owner *owner,
               uint32_t *ret_id, bool *is_sure, struct error *err)
{
    struct text t = {.n = 0};
    job_desc_msg_t d;
    submit_response_msg_t *r = NULL;
    *is_sure = true;
    if (conf->is_system && owner->uid != 0 &&
        rpc_partitions_check(req->where.partition, err) < 0)
        return -1;
    if (describe(&d, conf, req, mark, owner, &t, err) < 0) {
        buf_clear(&t.room);
        return -1;
    }
    int rc = slurm_submit_batch_job(&d, &r);
    int errnum = errno;
    buf_clear(&t.room);
    if (rc != SLURM_SUCCESS || r == NULL) {
        rc = rpc_call_fail(errnum, NULL, is_sure, err);
    } else {
        uint32_t id = rpc_submitted_id(r);
        *ret_id = id;
        rc = check_accepted(id, r->error_code, is_sure, err);
    }
    slurm_free_submit_response_response_msg(r);
    return rc;
}
