/* output.c - see output.h. */
#include "jobs/base/output.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static void on_pipe(int signo)
{
    (void)signo;
    _exit(0);
}

void output_quiet_pipe(void)
{
    struct sigaction sa = {.sa_handler = on_pipe};
    (void)sigaction(SIGPIPE, &sa, NULL);
}

int output_close(FILE *out, struct error *err)
{
    bool failed = ferror(out) != 0;
    errno = 0;
    if (fflush(out) != 0)
        failed = true;
    int why = errno;
    if (fclose(out) != 0 && !failed) {
        failed = true;
        why = errno;
    }
    if (!failed)
        return 0;
    return error_set(err, ERR_IO, "write to standard output: %s",
                     why ? strerror(why) : "failed");
}
