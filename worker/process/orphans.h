/* orphans.h - reap and kill processes that a program leaves behind.
 *
 * One that became a daemon is in no process group that could be killed, but
 * it holds the GPU, and the launcher's end of the output: mpirun waits for
 * it, for ever. So this process adopts whatever is orphaned below it.
 */
#ifndef MGPU_WORKER_PROCESS_ORPHANS_H
#define MGPU_WORKER_PROCESS_ORPHANS_H

#include <sys/types.h>

enum { STRAYS_SPARED_MAX = 8 };

/* Children that were there before: an MPI process that no launcher started
 * has one. */
struct strays {
    pid_t spared[STRAYS_SPARED_MAX];
    int n_spared;
};

/* Makes this process the parent of orphans from now on. */
void orphans_adopt(struct strays *s);
/* Takes leave of those that have ended, but for `child` (0: of all). */
void orphans_reap(pid_t child);
/* Kills all children but the spared, and waits for that, for patience_s at
 * most. */
void orphans_kill(struct strays *s, double patience_s);

#endif
