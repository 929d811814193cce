/* proc.h - find and signal processes through /proc.
 *
 * A process is signalled through a pidfd that was opened before the examination
 * that chose it, so a reused pid is never signalled. */
#ifndef MGPU_SLURM_LAUNCH_PROC_H
#define MGPU_SLURM_LAUNCH_PROC_H

#include <stdint.h>
#include <sys/types.h>

#include "jobs/base/error.h"

/* When the process began, in clock ticks since boot.
 * err ERR_NOTFOUND there is no such process */
int proc_start_ticks(pid_t pid, uint64_t *ret, struct error *err) MUST_CHECK;

/* Signals every direct child of parent except `spare` (0: none). Returns how
 * many there were. */
int proc_signal_children(pid_t parent, pid_t spare, int signo);

/* How many children the calling thread's process has, read from one small file;
 * only for a process with one thread. -1 if the kernel does not provide it. */
int proc_n_own_children(void);

/* Signals every descendant of root except `spare` (0: none) and root itself.
 * Returns how many there were; zombies do not count. */
int proc_signal_tree(pid_t root, pid_t spare, int signo);

/* Signals every process of ours that was started with `entry` ("NAME=value") in
 * its environment. Returns how many there were; -1 and err. A process of our
 * user that began at since_ticks (proc_start_ticks()) or later and is exiting,
 * so that its environment is already unreadable, counts, too, since it may
 * still hold a GPU; UINT64_MAX: do not count these. So 0 means that all of them
 * have ended completely. */
int proc_signal_marked(const char *entry, uint64_t since_ticks, int signo,
                       struct error *err);

#endif
