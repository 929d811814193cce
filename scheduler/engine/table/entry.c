/* entry.c - predicates and life cycle of one job entry.
 *
 * An entry answers here for itself: whether a dependency or a begin time keeps
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

void eng_entry_init(struct entry *en, uint64_t id)
{
    memset(en, 0, sizeof(*en));
    en->job.id = id;
    en->job.state = JOB_NEW;
    en->job.exit_code = en->attempt_exit = -1;
    en->job.submit_s = en->job.start_s = en->job.end_s = NAN;
    en->job.intent_s = en->job.claim_s = en->job.run_s = NAN;
    en->job.stopped_s = NAN;
    en->job.loss = en->job.t_iter = en->job.eval_accuracy = NAN;
    en->job.start_estimate_s = en->job.beat_s = en->job.requeue_s = NAN;
    en->attempt_end_s = en->start_now_s = en->spoke_s = NAN;
    en->stalled_s = en->granted_s = NAN;
    en->moved_s = en->step_s = NAN;
    en->ask_at_s = en->release_at_s = en->tell_at_s = INFINITY;
    en->warn_at_s = en->limit_at_s = INFINITY;
    en->told_s = en->job.preempt_s = NAN;
    en->job.resize.told_s = en->job.resize.ended_s = NAN;
    en->job.resize.checkpoint_s = en->job.resize.allocator_s = NAN;
    en->job.resize.start_s = NAN;
    en->preempted_s = -INFINITY;
    en->not_before_s = -INFINITY;
}

int eng_set_dir(struct entry *en, const char *jobs_dir, struct error *err)
{
    struct buf dir = BUF_INIT;
    int rc = buf_addf(&dir, err, "%s/%" PRIu64, jobs_dir, en->job.id);
    char *text = rc == 0 ? buf_detach(&dir) : NULL;

    buf_clear(&dir);
    if (!text)
        return rc < 0 ? -1 : error_set(err, ERR_NOMEM, "out of memory");
    free(en->dir);
    en->job.dir = en->dir = text;
    return 0;
}

struct entry *eng_entry_new(const char *jobs_dir, uint64_t id)
{
    struct entry *en = malloc(sizeof(*en));

    if (en)
        eng_entry_init(en, id);
    if (!en || eng_set_dir(en, jobs_dir, NULL) < 0) {
        free(en);
        return NULL;
    }
    return en;
}

void eng_entry_clear(struct entry *en)
{
    names_kept_drop(&en->kept, NULL);
    texts_clear(&en->own);
    free(en->dir);
}

void eng_entry_free(struct entry *en)
{
    if (!en)
        return;
    eng_entry_clear(en);
    free(en);
}

void eng_leaving_free(struct store_archived *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((char *)jobs[i].line);
    free(jobs);
}

size_t eng_at_id(struct entry *const *list, size_t n, uint64_t id)
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

bool eng_is_ending(const struct entry *en)
{
    const struct job *job = &en->job;
    return job->cancel_asked || job->limit_hit || job->requeue_asked ||
           en->give_up;
}

bool eng_wants_release(const struct entry *en)
{
    return !en->job.release_asked && eng_is_ending(en);
}

bool eng_waits(const struct entry *en)
{
    return en->is_waiting || en->is_early;
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

double eng_grace(const struct entry *en)
{
    return en->job.is_preempted ? en->job.preempt_grace_s : en->job.grace_s;
}

double eng_owed_until(const struct entry *en)
{
    return en->job.preempted_for > 0
               ? en->preempted_s + en->job.preempt_grace_s +
                     POLICY_PREEMPT_SLACK_S
               : -(double)INFINITY;
}

bool eng_is_owed(const struct engine *e, const struct entry *en)
{
    return e->parts.conf->preempt.is_on && en->filed.is_owed &&
           !(job_state_is_live(en->job.state) && en->job.native_id[0]);
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
