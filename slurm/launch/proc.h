/* proc.h - processes as /proc shows them.
 *
 * A process is signalled through a pidfd that was opened before the look
 * that chose it, so a pid that was reused in between is never hit.
 */
#ifndef MGPU_SLURM_LAUNCH_PROC_H
#define MGPU_SLURM_LAUNCH_PROC_H

#include <stdint.h>
#include <sys/types.h>

#include "jobs/base/error.h"

/* When the process began, in clock ticks since boot.
 * err ERR_NOTFOUND there is no such process */
int proc_start_ticks(pid_t pid, uint64_t *ret, struct error *err) MUST_CHECK;

/* Signals every direct child of parent but `spare` (0: none). Returns how
 * many there were. */
int proc_signal_children(pid_t parent, pid_t spare, int signo);

/* How many children the calling thread's process has, by one small file;
 * only for a process of one thread. -1 when the kernel does not say. */
int proc_n_own_children(void);

/* Signals every descendant of root but `spare` (0: none) and root itself.
 * Returns how many there were; those that have ended but were not waited for
 * do not count. */
int proc_signal_tree(pid_t root, pid_t spare, int signo);

/* Signals every process of ours with `entry` ("NAME=value") in the
 * environment that it was started with. Returns how many there were; -1 and
 * err. Counted with them, since they may still hold a GPU, are those of our
 * user that began at since_ticks (proc_start_ticks()) or later and are ending
 * just now, so far that nobody can say any more what they were started with;
 * UINT64_MAX: none of these. 0 so means that all are gone, whole. */
int proc_signal_marked(const char *entry, uint64_t since_ticks, int signo,
                       struct error *err);

#endif
