/* fold_begin.c - an attempt begins: what was known of the one before is
 * forgotten; see fold.c. */
#include "scheduler/engine/events/fold_begin.h"

#include <math.h>
#include <string.h>

#include "scheduler/engine/events/fold_resize.h"
#include "scheduler/engine/table/job_record.h"

static void copy(char *dst, const char *src, size_t cap)
{
    memcpy(dst, src, strnlen(src, cap - 1) + 1);
    dst[cap - 1] = '\0';
}

void fold_begin_intent(struct job_record *rec, const struct store_event *ev,
                       const struct detail *d)
{
    struct job *job = &rec->job;

    job->attempt = ev->attempt;
    job->nodes = d->nodes;
    job->gpus = d->gpus;
    copy(job->gpu_type, d->gpu_type, sizeof(job->gpu_type));
    copy(job->account, d->account, sizeof(job->account));
    job->native_id[0] = job->place[0] = job->holder[0] = '\0';
    job->on_type[0] = job->pending_id[0] = '\0';
    job->requeue_wait_s = job->alloc_start_s = 0;
    job->claim_names_id = false;
    job->intent_s = ev->at_s;
    job->start_s = job->claim_s = job->run_s = job->stopped_s = NAN;
    job->stopped_for_s = 0;
    job->reported = job->limit_hit = job->release_asked = false;
    job->requeue_asked = job->is_preempted = job->is_warned = false;
    job->is_time_80 = false;
    job->saves_failed = job->report_code = 0;
    job->report_stopped = -1;
    job->fault_node[0] = job->cause[0] = '\0';
    job->needed_bytes = job->available_bytes = 0;
    job->iteration = job->iterations_total = 0;
    job->epoch = job->epochs_total = 0;
    job->loss = job->t_iter = job->beat_s = NAN;
    job->eval_loss = job->eval_accuracy = job->tokenised = NAN;
    rec->is_taken_back = rec->has_progress = false;
    rec->attempt_exit = -1;
    rec->attempt_signal = 0;
    rec->attempt_end_s = NAN;
    resize_planned(&job->resize);
    job->reason[0] = '\0';
}

void fold_begin_open(struct job_record *rec, const struct store_event *ev,
                     const struct detail *d)
{
    struct job *job = &rec->job;

    fold_begin_intent(rec, ev, d);
    job->gpus = job->nodes = 0;
    copy(job->holder, d->holder, sizeof(job->holder));
    job->start_s = job->claim_s = job->run_s = ev->at_s;
    job->first_claim_s = ev->at_s;
    job->first_claimed = ev->attempt;
}
