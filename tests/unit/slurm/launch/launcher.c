/* launcher.c - the child of a shepherd: its signals. */
#include "slurm/launch/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap.h"

/* The wait(2) status of a shell that does this. */
static int status_of(const char *script, enum launcher_kind kind)
{
    char text[256];
    char sh[] = "sh", c[] = "-c", *argv[] = {sh, c, text, NULL};
    struct launcher l;
    struct error err = ERROR_INIT;
    int status = -1;
    (void)snprintf(text, sizeof(text), "%s", script);
    if (launcher_start("test", argv, kind, &l, &err) < 0) {
        ok(false, "start: %s", err.msg);
        exit(tap_done());
    }
    if (waitpid(l.pid, &status, 0) != l.pid)
        tap_diag("waitpid");
    (void)close(l.out_fd);
    if (l.tty_fd >= 0)
        (void)close(l.tty_fd);
    return status;
}

static void a_users_signal_waits(void)
{
    static const char *const names[] = {"USR1", "USR2", "HUP"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char script[64];
        (void)snprintf(script, sizeof(script), "kill -%s $$; exit 7", names[i]);
        int rank = status_of(script, IS_THE_RANK);
        int launcher = status_of(script, LAUNCHES_RANKS);
        ok(WIFEXITED(rank) && WEXITSTATUS(rank) == 7,
           "%s does not end a rank that does not listen yet", names[i]);
        ok(WIFSIGNALED(launcher), "nor is it kept from a launcher");
    }
}

static void others_do_not(void)
{
    int status = status_of("kill -TERM $$; exit 7", IS_THE_RANK);
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM,
       "a rank can be told to end before it listens");
}

int main(void)
{
    a_users_signal_waits();
    others_do_not();
    return tap_done();
}
