/* wire.c - times, and where the daemon is looked for. */
#include "jobs/wire/wire.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/tap.h"

static void is_time(double at_s, const char *want)
{
    char got[WIRE_TIME_CAP];
    wire_time(at_s, got);
    is_str(got, want, want[0] != '\0' ? want : "no time");
}

static void test_time(void)
{
    is_time(0, "1970-01-01T00:00:00.000Z");
    is_time(NAN, "");
    is_time(INFINITY, "");
    is_time(1e300, "");
    is_time(-1e300, "");
    is_time(951827696.999, "2000-02-29T12:34:56.999Z");
    is_time(-0.001, "1969-12-31T23:59:59.999Z");
    is_time(253402300799.0, "9999-12-31T23:59:59.000Z");
    is_time(253402300800.0, "");
    /* Each millisecond of a second survives the trip through a double. */
    bool same = true;
    for (int ms = 0; ms < 1000; ms++) {
        char got[WIRE_TIME_CAP], want[WIRE_TIME_CAP + 8];
        wire_time(1795255331.0 + (double)ms / 1000.0, got);
        (void)snprintf(want, sizeof(want), "2026-11-21T10:02:11.%03dZ", ms);
        same = same && strcmp(got, want) == 0;
    }
    ok(same, "every millisecond prints as itself");
}

static void listen_at(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 ||
        bind(fd, (const struct sockaddr *)(const void *)&a, sizeof(a)) < 0)
        tap_diag("bind '%s' failed", path);
    (void)close(fd);
}

static void test_urls(void)
{
    struct error err = ERROR_INIT;
    char url[128], dir[] = "/tmp/mgpu-wire.XXXXXX", path[64], want[80];

    (void)setenv("MGPU_URL", "http://n1:80", 1);
    is_int(wire_default_url(url, sizeof(url), &err), 0, "MGPU_URL is taken");
    is_str(url, "http://n1:80", "as it is");
    is_int(wire_default_url(url, 13, &err), 0, "it may just fit");
    is_int(wire_default_url(url, 12, &err), -1, "one byte more does not");
    is_int(err.code, ERR_LIMIT, "and says so");

    (void)unsetenv("MGPU_URL");
    if (mkdtemp(dir) == NULL) {
        ok(false, "mkdtemp");
        return;
    }
    (void)setenv("XDG_RUNTIME_DIR", dir, 1);
    is_int(wire_default_url(url, sizeof(url), &err), 0, "without a socket");
    is_str(url, "unix:/run/mgpu/ctld.sock", "the system's daemon");
    (void)snprintf(path, sizeof(path), "%s/mgpu", dir);
    (void)mkdir(path, 0700);
    is_int(wire_personal_socket(path, sizeof(path), &err), 0, "personal path");
    listen_at(path);
    is_int(wire_default_url(url, sizeof(url), &err), 0, "with a socket");
    (void)snprintf(want, sizeof(want), "unix:%s/mgpu/ctld.sock", dir);
    is_str(url, want, "the personal daemon");
    (void)unlink(path);
    (void)snprintf(path, sizeof(path), "%s/mgpu", dir);
    (void)rmdir(path);
    (void)rmdir(dir);

    (void)setenv("XDG_RUNTIME_DIR", "relative", 1);
    is_int(wire_personal_socket(path, sizeof(path), &err), 0, "no directory");
    (void)snprintf(want, sizeof(want), "/tmp/mgpu-%lu/ctld.sock",
                   (unsigned long)getuid());
    is_str(path, want, "a relative XDG_RUNTIME_DIR is ignored");
}

int main(void)
{
    test_time();
    test_urls();
    return tap_done();
}
