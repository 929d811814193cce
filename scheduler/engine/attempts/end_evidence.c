/* end_evidence.c - see end_evidence.h. */
#include "scheduler/engine/attempts/end_evidence.h"

#include <math.h>
#include <signal.h>
#include <string.h>

#include "jobs/wire/json_scan.h"
#include "scheduler/engine/engine_internal.h"

/* ---- what its worker said --------------------------------------------------
 */
bool end_is_claimed(const struct job *job)
{
    return job->holder[0] != '\0';
}

bool end_has_finished(const struct job *job)
{
    return job->reported && job->report_code == 0 && job->report_stopped == 0;
}

/* Its worker reported that a rank was told to stop before its work was done. */
static bool was_stopped(const struct job *job)
{
    return job->reported && job->report_stopped == 1;
}

bool end_is_success(const struct job *job)
{
    return job->reported && job->report_code == 0 && !was_stopped(job);
}

bool end_was_saved(const struct job *job)
{
    return was_stopped(job) && job->saves &&
           (job->report_code == 0 || job->report_code == EXIT_SIGNAL + SIGTERM);
}

bool end_failed_before(const struct job *job, const struct ending *end)
{
    return end->is_forgotten && job->reported && job->report_code != 0 &&
           job->report_code < EXIT_SIGNAL && !was_stopped(job);
}

/* ---- who ended it ----------------------------------------------------------
 */
static bool is_by(const struct ending *end, int32_t signo)
{
    return end->signal == signo ||
           (end->signal == 0 && end->exit_code == EXIT_SIGNAL + signo);
}

/* SIGTERM tells a worker to stop, other signals are passed to its program. */
bool end_heeded_warning(const struct job *job, const struct ending *end)
{
    return job->is_warned && end->kind == ALLOC_EXITED &&
           (is_by(end, job->warn_signal) ||
            (job->warn_signal == SIGTERM && was_stopped(job)));
}

/* The engine may have seen its start later than it was, by at most this
 * much. */
static const double SEEN_S = 60;

static bool has_reached_limit(const struct engine *e,
                              const struct job_record *rec,
                              const struct ending *end)
{
    double ago_s = fmax(0, eng_ended_ago_s(e, rec, end) - SEEN_S);
    return !isnan(rec->start_now_s) &&
           rec->start_now_s + rec->job.attempt_limit_s <= eng_now(e) - ago_s;
}

bool end_was_warned(const struct engine *e, const struct job_record *rec,
                    const struct ending *end)
{
    bool is_term = is_by(end, SIGTERM) || was_stopped(&rec->job);
    return end->kind == ALLOC_EXITED && is_term &&
           has_reached_limit(e, rec, end);
}

bool end_is_slurms_limit(const struct engine *e, const struct job_record *rec,
                         const struct ending *end)
{
    return end->kind == ALLOC_EXITED && end->by == ALLOC_BY_LIMIT &&
           !rec->job.limit_hit && !has_reached_limit(e, rec, end);
}

bool end_is_fault(const struct job *job, const struct ending *end)
{
    return end->kind == ALLOC_EXITED &&
           (end->by == ALLOC_BY_FAULT || job->fault_node[0] != '\0');
}

/* A value without escapes is scanned in place, so memory that is short changes
 * no end. */
void end_spec_word(const struct job *job, const char *section, const char *key,
                   char ret[END_WORD_CAP])
{
    struct members all, in = {.n = 0};
    ret[0] = '\0';
    if (!job->spec || json_members_read(job->spec, &all) < 0)
        return;
    struct member v = members_get(&all, section ? section : key);
    if (section && json_members_of(&v, &in) < 0)
        in = (struct members){.n = 0};
    if (section)
        v = members_get(&in, key);
    if (v.kind == MEMBER_TEXT && v.len < END_WORD_CAP) {
        memcpy(ret, v.text, v.len);
        ret[v.len] = '\0';
    }
    json_members_clear(&in);
    json_members_clear(&all);
}

int32_t end_signal(const struct ending *end)
{
    int32_t by_code = end->exit_code - EXIT_SIGNAL;
    if (end->signal > 0)
        return end->signal;
    return by_code > 0 && sigabbrev_np(by_code) ? by_code : 0;
}

struct ending end_without_the_kill(const struct job *job,
                                   const struct ending *end)
{
    struct ending e = *end;
    char launch[END_WORD_CAP];
    if (e.signal != SIGKILL || !job->reported || job->report_code <= 0)
        return e;
    end_spec_word(job, NULL, "launch", launch);
    if (strcmp(launch, "mpi") != 0)
        return e;
    e.exit_code = job->report_code;
    e.signal = 0;
    e.signal = end_signal(&e);
    return e;
}
