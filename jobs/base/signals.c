/* signals.c - see signals.h. */
#include "jobs/base/signals.h"

#include <signal.h>
#include <stddef.h>

void signals_plain(void)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    /* SIGKILL, SIGSTOP and the two that libc keeps for itself say EINVAL. */
    for (int signo = 1; signo <= SIGRTMAX; signo++)
        (void)sigaction(signo, &plain, NULL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}
