/* notify_program.h - one run of notify.program: an event, told to a program.
 *
 * No shell is involved. The JSON is a file in memory that is the program's
 * standard input, so that a program which does not read holds up nobody. It
 * gets no descriptor and no variable of the daemon's, and a process group of
 * its own, which ends as a whole.
 */
#ifndef MGPU_SCHEDULER_CTLD_NOTIFY_NOTIFY_PROGRAM_H
#define MGPU_SCHEDULER_CTLD_NOTIFY_NOTIFY_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>

#include "jobs/base/error.h"

/* in   argv  ends with NULL; argv[0] is absolute
 * out  ret  the process; end it with notify_program_ended() or
 *           notify_program_kill() */
int notify_program_start(char *const *argv, const char *text, pid_t *ret,
                         struct error *err) MUST_CHECK;
/* Whether it has ended: at most once true.
 * err  set when it has, and failed; else untouched */
bool notify_program_ended(pid_t pid, struct error *err);
/* All of its group, at once. */
void notify_program_kill(pid_t pid);

#endif
