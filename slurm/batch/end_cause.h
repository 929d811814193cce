/* end_cause.h - why Slurm tells a batch step to end.
 *
 * Slurm forgets a job minutes after its end, and where it keeps no accounting
 * nobody then knows whether its user cancelled it, a more important one took
 * its nodes, or a node failed. The step daemon says so to people, in the
 * job's output, just before it sends SIGTERM:
 *
 *   slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-21T20:19:05 ***
 *   slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT .. DUE TO TIME LIMIT ***
 *
 * A batch step that is told reads it there, and leaves a word of its own.
 */
#ifndef MGPU_SLURM_BATCH_END_CAUSE_H
#define MGPU_SLURM_BATCH_END_CAUSE_H

/* Out of the text of Slurm's output file. The words are those that Slurm has
 * for the state in which such a job ends; "REQUEUED" has none, and "ENDED" is
 * for what is not said, or not known to us. */
const char *told_word(const char *text, const char *slurm_id);

/* The same out of dir/slurm-<id>.out. */
const char *told_read(const char *dir, const char *slurm_id);

#endif
