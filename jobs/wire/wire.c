/* wire.c - format times for the wire, and locate the daemon's socket. */
#include "jobs/wire/wire.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Years 0 to 9999 have a four-digit form; other values are not valid times and
 * print as "", like NAN. */
static const double first_s = -62167219200.0, end_s = 253402300800.0;

void wire_time(double at_s, char ret[WIRE_TIME_CAP])
{
    ret[0] = '\0';
    if (!(at_s >= first_s && at_s < end_s))
        return;
    /* A double near 2^31 resolves 0.24 us: 10.123 is stored a little below, so
     * add half of a tenth of a millisecond before truncating. */
    double ms = floor(at_s * 1e3 + 0.05);
    time_t s = (time_t)floor(ms / 1e3);
    int rest = (int)(ms - (double)s * 1e3);
    struct tm tm;
    if (gmtime_r(&s, &tm) == NULL)
        return;
    size_t n = strftime(ret, WIRE_TIME_CAP, "%Y-%m-%dT%H:%M:%S", &tm);
    /* strftime() pads the year to four digits or not, depending on the C
     * library. */
    if (n == 0 || n + 6 > WIRE_TIME_CAP) {
        ret[0] = '\0';
        return;
    }
    (void)snprintf(ret + n, WIRE_TIME_CAP - n, ".%03dZ", rest);
}

static int copy_path(char *ret, size_t cap, struct error *err, const char *a,
                     const char *b)
{
    if (strlen(a) + strlen(b) >= cap)
        return error_set(err, ERR_LIMIT, "path '%s%s' is too long", a, b);
    (void)snprintf(ret, cap, "%s%s", a, b);
    return 0;
}

/* A relative XDG_RUNTIME_DIR must be ignored, according to its
 * specification. */
int wire_personal_socket(char *ret, size_t cap, struct error *err)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    if (run != NULL && run[0] == '/')
        return copy_path(ret, cap, err, run, "/mgpu/ctld.sock");
    char dir[64];
    (void)snprintf(dir, sizeof(dir), "/tmp/mgpu-%lu", (unsigned long)getuid());
    return copy_path(ret, cap, err, dir, "/ctld.sock");
}

int wire_default_url(char *ret, size_t cap, struct error *err)
{
    const char *url = getenv("MGPU_URL");
    if (url != NULL && url[0] != '\0')
        return copy_path(ret, cap, err, url, "") < 0
                   ? error_wrap(err, "MGPU_URL")
                   : 0;
    char path[256];
    struct stat st;
    /* Another user's socket in /tmp is not this user's daemon. */
    if (wire_personal_socket(path, sizeof(path), NULL) == 0 &&
        lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_uid == getuid())
        return copy_path(ret, cap, err, "unix:", path);
    return copy_path(ret, cap, err, "unix:", "/run/mgpu/ctld.sock");
}
