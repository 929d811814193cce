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

static void mask_users(int how)
{
    static const int users[] = {SIGUSR1, SIGUSR2, SIGHUP};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++)
        (void)sigaddset(&set, users[i]);
    (void)sigprocmask(how, &set, NULL);
}

void signals_hold_users(void)
{
    mask_users(SIG_BLOCK);
}

void signals_let_users_in(void)
{
    mask_users(SIG_UNBLOCK);
}
