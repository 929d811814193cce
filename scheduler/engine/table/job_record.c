/* job_record.c - predicates and life cycle of one job record.
 *
 * A record answers here for itself: whether a dependency or a begin time keeps
 * it pending, whether its attempt is to end, until when a preemption reserves
 * its devices. No function needs the job table, the plan or the store, so
 * every file of the engine may call them.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/spec/gpu_sizes.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/store/archive_list.h"

void job_record_init(struct job_record *rec, uint64_t id)
{
    memset(rec, 0, sizeof(*rec));
    rec->job.id = id;
    rec->job.state = JOB_NEW;
    rec->job.exit_code = rec->attempt_exit = -1;
    rec->job.submit_s = rec->job.start_s = rec->job.end_s = NAN;
    rec->job.intent_s = rec->job.claim_s = rec->job.run_s = NAN;
    rec->job.stopped_s = rec->job.freed_s = rec->job.first_claim_s = NAN;
    rec->job.loss = rec->job.t_iter = NAN;
    rec->job.eval_loss = rec->job.eval_accuracy = NAN;
    rec->job.start_estimate_s = rec->job.beat_s = rec->job.requeue_s = NAN;
    rec->attempt_end_s = rec->start_now_s = rec->spoke_s = NAN;
    rec->stalled_s = rec->granted_s = NAN;
    rec->moved_s = rec->step_s = NAN;
    rec->ask_at_s = rec->release_at_s = rec->tell_at_s = INFINITY;
    rec->warn_at_s = rec->limit_at_s = INFINITY;
    rec->end_asked_s = rec->job.preempt_s = NAN;
    rec->job.resize.end_asked_s = rec->job.resize.ended_s = NAN;
    rec->job.resize.checkpoint_s = rec->job.resize.allocator_s = NAN;
    rec->job.resize.start_s = NAN;
    rec->preempted_s = rec->paused_s = -INFINITY;
    rec->met_s = rec->turn_s = NAN;
    rec->not_before_s = -INFINITY;
}

int eng_set_dir(struct job_record *rec, const char *jobs_dir, struct error *err)
{
    struct buf dir = BUF_INIT;
    int rc = buf_addf(&dir, err, "%s/%" PRIu64, jobs_dir, rec->job.id);
    char *text = rc == 0 ? buf_detach(&dir) : NULL;

    buf_clear(&dir);
    if (!text)
        return rc < 0 ? -1 : error_set(err, ERR_NOMEM, "out of memory");
    free(rec->dir);
    rec->job.dir = rec->dir = text;
    return 0;
}

struct job_record *job_record_new(const char *jobs_dir, uint64_t id)
{
    struct job_record *rec = malloc(sizeof(*rec));

    if (rec)
        job_record_init(rec, id);
    if (!rec || eng_set_dir(rec, jobs_dir, NULL) < 0) {
        free(rec);
        return NULL;
    }
    return rec;
}

void job_record_clear(struct job_record *rec)
{
    names_kept_drop(&rec->kept, NULL);
    texts_clear(&rec->own);
    free(rec->dir);
}

void job_record_free(struct job_record *rec)
{
    if (!rec)
        return;
    job_record_clear(rec);
    free(rec);
}

void eng_leaving_free(struct store_archived *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((char *)jobs[i].line);
    free(jobs);
}

size_t eng_at_id(struct job_record *const *list, size_t n, uint64_t id)
{
    size_t from = 0, to = n;

    if (n > 0 && list[n - 1]->job.id < id) /* mostly the newest is asked for */
        return n;
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (list[mid]->job.id < id)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

const char *job_display_id(const struct job *job, char out[JOB_DISPLAY_CAP])
{
    if (job->sweep > 0)
        (void)snprintf(out, JOB_DISPLAY_CAP, "%" PRIu64 "_%" PRId32, job->sweep,
                       job->number);
    else
        (void)snprintf(out, JOB_DISPLAY_CAP, "%" PRIu64, job->id);
    return out;
}

const char *job_held_name(enum job_held h)
{
    static const char *const names[] = {
        [HELD_NOT] = NULL,          [HELD_USER] = "user",
        [HELD_ADMIN] = "admin",     [HELD_DEPENDENCY] = "dependency",
        [HELD_CORRUPT] = "corrupt", [HELD_REFUSED] = "refused"};
    return names[h];
}

bool eng_names_limit(const struct job *job, double limit_s)
{
    return isfinite(limit_s) &&
           !(job->limit_is_default && limit_s >= job->limit_s);
}

bool eng_is_ending(const struct job_record *rec)
{
    const struct job *job = &rec->job;
    return job->cancel_asked || job->limit_hit || job->requeue_asked ||
           rec->give_up;
}

bool eng_wants_release(const struct job_record *rec)
{
    return !rec->job.release_asked && eng_is_ending(rec);
}

bool eng_waits(const struct job_record *rec)
{
    return rec->is_waiting || rec->is_early;
}

double job_record_eligible_s(const struct job_record *rec)
{
    const struct job *job = &rec->job;
    double s = fmax(job->submit_s, job->begin_s);

    return fmax(fmax(s, job->freed_s), fmax(rec->met_s, rec->turn_s));
}

bool eng_target(const struct job *job, struct gpu_sizes *ret)
{
    const struct job_resize *r = &job->resize;
    int32_t gpus = r->gpus > 0 ? r->gpus : r->planned_gpus;
    int32_t nodes = r->gpus > 0 ? r->nodes : r->planned_nodes;

    if (gpus == 0)
        return false;
    *ret = (struct gpu_sizes){.gpus = {gpus, gpus},
                              .nodes = {nodes, nodes},
                              .per_node = job->per_node,
                              .parts = job->parts};
    if (nodes == 0)
        ret->nodes = (struct spec_range){job->nodes_min, job->nodes_max};
    return true;
}

struct gpu_sizes eng_sizes(const struct job *job)
{
    struct gpu_sizes s = {.gpus = {job->gpus_min, job->gpus_max},
                          .nodes = {job->nodes_min, job->nodes_max},
                          .per_node = job->per_node,
                          .parts = job->parts};
    (void)eng_target(job, &s);
    return s;
}

double eng_grace(const struct job_record *rec)
{
    return rec->job.is_preempted ? rec->job.preempt_grace_s : rec->job.grace_s;
}

double eng_reserved_until(const struct job_record *rec)
{
    return rec->job.preempted_for > 0
               ? rec->preempted_s + rec->job.preempt_grace_s +
                     POLICY_PREEMPT_SLACK_S
               : -(double)INFINITY;
}

bool eng_has_reservation(const struct engine *e, const struct job_record *rec)
{
    return e->parts.conf->preempt.is_on && rec->places.has_reservation &&
           !(job_state_is_live(rec->job.state) && rec->job.native_id[0]);
}

double eng_reconcile_at(const struct engine *e)
{
    double s = e->parts.conf->reconcile_s;
    return eng_now(e) + (s > 0 ? s : 1);
}

#define OR(a, b) ((a) ? (a) : (b))

const char *eng_account(const struct engine_conf *conf, const struct job *job)
{
    bool has_attempt =
        job_state_is_live(job->state) || job_state_is_final(job->state);
    const char *own = job->account[0] ? job->account : NULL;

    if (job->where.account)
        return job->where.account;
    return has_attempt ? OR(own, conf->where.account)
                       : OR(conf->where.account, own);
}

struct alloc_where eng_where(const struct engine_conf *conf,
                             const struct job *job, int32_t gpus_per_node)
{
    const struct alloc_where *own = &job->where, *def = &conf->where;
    int64_t memory = conf->memory_per_gpu_bytes > 0
                         ? conf->memory_per_gpu_bytes *
                               (gpus_per_node > 0 ? gpus_per_node : 1)
                         : def->memory_bytes;
    return (struct alloc_where){
        .partition = OR(own->partition, def->partition),
        .account = OR(own->account, def->account),
        .qos = OR(own->qos, def->qos),
        .constraint = OR(own->constraint, def->constraint),
        .reservation = OR(own->reservation, def->reservation),
        .gpu_type = OR(own->gpu_type, def->gpu_type),
        .exclude = job->exclude[0] ? job->exclude : NULL,
        .cpus_per_gpu = OR(own->cpus_per_gpu, def->cpus_per_gpu),
        .memory_bytes = OR(own->memory_bytes, memory),
        .gpu_min_bytes = own->gpu_min_bytes,
        .gpu_max_bytes = own->gpu_max_bytes,
        .exclusive = eng_is_exclusive(conf, job),
    };
}
