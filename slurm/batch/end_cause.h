/* end_cause.h - why Slurm ends a batch step, read from slurmstepd's message.
 *
 * Slurm forgets a job minutes after its end. Where it keeps no accounting,
 * nothing then says whether the user cancelled the job, a job of higher
 * priority preempted it, or a node failed. The step daemon writes the cause to
 * the job's output just before it sends SIGTERM:
 *
 *   slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-21T20:19:05 ***
 *   slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT .. DUE TO TIME LIMIT ***
 *
 * A batch step that receives the SIGTERM reads the message and records the
 * cause. */
#ifndef MGPU_SLURM_BATCH_END_CAUSE_H
#define MGPU_SLURM_BATCH_END_CAUSE_H

/* Extracts the cause from the text of Slurm's output file. The words are
 * Slurm's for the state in which such a job ends; "REQUEUED" is not such a
 * state, and "ENDED" stands for a cause that is missing or unknown to us. */
const char *end_cause_word(const char *text, const char *slurm_id);

/* The same from dir/slurm-<id>.out. */
const char *end_cause_read(const char *dir, const char *slurm_id);

#endif
