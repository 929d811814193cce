/* end_evidence.h - what is known of the end of an attempt: what its worker said
 * of its work, and who ended it.
 *
 * Whoever ends an attempt tells its ranks to stop with SIGTERM, and many
 * programs then save their work and exit with 0. So an exit code of 0 is not
 * yet the end of the work. The worker's final report tells the two apart: it
 * says whether a rank was told to stop before its work was done. In training
 * the work is done when the ranks have agreed that the last iteration is over,
 * in a command when the program of each rank has ended before it was told. */
#ifndef MGPU_SCHEDULER_ENGINE_ATTEMPTS_END_EVIDENCE_H
#define MGPU_SCHEDULER_ENGINE_ATTEMPTS_END_EVIDENCE_H

#include "scheduler/engine/attempts/attempts.h"

/* A worker has claimed its lease: it did run. */
bool end_is_claimed(const struct job *job);
/* Its worker reported 0, and that no rank had been told to stop: whatever ended
 * the attempt then took nothing from it. */
bool end_has_finished(const struct job *job);
/* Its worker reported 0, and not that it was stopped. The workers of an earlier
 * release do not say. Enough where nobody is known to have ended it. */
bool end_is_success(const struct job *job);
/* Its ranks were told to stop, by nobody that the engine knows, and the job
 * saves its work: it exits with 0, and training with 128 + SIGTERM. */
bool end_was_saved(const struct job *job);
/* Its worker had reported a failure of its own before slurmctld lost the
 * attempt. slurmctld kills what it has forgotten, so a rank that was told to
 * stop, or that a signal killed, may have ended because of that. */
bool end_failed_before(const struct job *job, const struct ending *end);

/* It ended by the warning that the engine sent: the warning came because of the
 * limit, so the limit caused the end. */
bool end_heeded_warning(const struct job *job, const struct ending *end);
/* It ended by the warning of the cluster's scheduler, which comes only if the
 * daemon, which warns earlier, was not running. */
bool end_was_warned(const struct engine *e, const struct job_record *rec,
                    const struct ending *end);
/* The cluster's scheduler ended it for a limit of its own, which came before
 * the job's. */
bool end_is_slurms_limit(const struct engine *e, const struct job_record *rec,
                         const struct ending *end);
/* A device of the attempt has failed, and the attempt with it. */
bool end_is_fault(const struct job *job, const struct ending *end);

/* The word at section.key of its specification, or at key where section is
 * NULL; "": there is none, or it does not fit. Some ends depend on keys that
 * only the start of an attempt needs: the record has none of them. */
enum { END_WORD_CAP = 32 };
void end_spec_word(const struct job *job, const char *section, const char *key,
                   char ret[END_WORD_CAP]);

/* The signal as the launcher reports it, or from an exit code like a shell's;
 * 0: none. A launcher has exit codes of its own in that range, too. */
int32_t end_signal(const struct ending *end);
/* The launcher of an MPI program kills all ranks when one has failed; the
 * worker of that one reports how. */
struct ending end_without_the_kill(const struct job *job,
                                   const struct ending *end);

#endif
