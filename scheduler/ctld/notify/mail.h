/* mail.h - one mail, by a program that is called as mail(1) is.
 *
 * No shell is involved: the subject and the address are words of its argv, the
 * text is a file in memory that is its standard input, so that a program which
 * does not read holds up nobody. It gets no descriptor and no variable of the
 * daemon's, and a process group of its own, which ends as a whole.
 */
#ifndef MGPU_SCHEDULER_CTLD_NOTIFY_MAIL_H
#define MGPU_SCHEDULER_CTLD_NOTIFY_MAIL_H

#include <stdbool.h>
#include <sys/types.h>

#include "jobs/base/error.h"

struct mail {
    const char *program, *subject, *to, *text;
};

/* out  ret  the process; to be ended by mail_ended() or mail_kill() */
int mail_start(const struct mail *m, pid_t *ret, struct error *err) MUST_CHECK;
/* Whether it has ended, which is then over: at most once true.
 * err  set when it has, and did not do its work; else untouched */
bool mail_ended(pid_t pid, struct error *err);
/* All of its group, at once. */
void mail_kill(pid_t pid);

#endif
