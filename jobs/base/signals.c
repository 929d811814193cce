/* signals.c - parse signal names, reset and block signals; see signals.h. */
#include "jobs/base/signals.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

int signals_of_job(const char *text, const char **ret_name, struct error *err)
{
    static const struct {
        const char *name;
        int signo;
    } known[] = {
        {"TERM", SIGTERM}, {"INT", SIGINT},   {"KILL", SIGKILL},
        {"HUP", SIGHUP},   {"QUIT", SIGQUIT}, {"USR1", SIGUSR1},
        {"USR2", SIGUSR2}, {"STOP", SIGSTOP}, {"CONT", SIGCONT},
    };
    const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        char number[16];
        (void)snprintf(number, sizeof(number), "%d", known[i].signo);
        if (strcasecmp(known[i].name, name) != 0 && strcmp(number, text) != 0)
            continue;
        if (ret_name)
            *ret_name = known[i].name;
        return known[i].signo;
    }
    return error_set(err, ERR_INVAL,
                     "signal '%.20s': expected TERM, INT, KILL, HUP, QUIT, "
                     "USR1, USR2, STOP or CONT, or its number",
                     text);
}

void signals_plain(void)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    /* SIGKILL, SIGSTOP and the two that libc reserves fail with EINVAL. */
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
