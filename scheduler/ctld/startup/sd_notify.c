/* sd_notify.c - see sd_notify.h. */
#include "scheduler/ctld/startup/sd_notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_un to; /* sun_family 0: nobody listens */
static socklen_t to_len;
static double watchdog_s;

/* "/path", or "@name" of an abstract socket. */
static void set_address(const char *path)
{
    size_t len = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || len < 2 ||
        len >= sizeof(to.sun_path))
        return;
    memcpy(to.sun_path, path, len);
    if (path[0] == '@')
        to.sun_path[0] = '\0';
    to.sun_family = AF_UNIX;
    to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len +
                         (path[0] == '/'));
}

/* 0 when it is not meant for this process. */
static double watchdog_of(const char *usec, const char *pid)
{
    char *end = NULL;
    double s = usec ? strtod(usec, &end) / 1e6 : 0;
    if (!usec || end == usec || *end || !(s > 0))
        return 0;
    return !pid || strtol(pid, NULL, 10) == (long)getpid() ? s / 2 : 0;
}

void notify_init(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    to = (struct sockaddr_un){.sun_family = 0};
    watchdog_s = 0;
    if (path)
        set_address(path);
    if (to.sun_family != 0)
        watchdog_s =
            watchdog_of(getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"));
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
}

void notify_say(const char *words)
{
    if (to.sun_family == 0)
        return;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    while (sendto(fd, words, strlen(words), MSG_NOSIGNAL,
                  (const struct sockaddr *)&to, to_len) < 0 &&
           errno == EINTR)
        ;
    (void)close(fd);
}

void notify_reloading(void)
{
    struct timespec now = {0};
    char words[80];
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    (void)snprintf(words, sizeof(words), "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
                   (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    notify_say(words);
}

double notify_watchdog_s(void)
{
    return watchdog_s;
}
