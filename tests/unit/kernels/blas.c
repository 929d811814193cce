/* blas.c - OpenBLAS is opened when a device is made, and not before; where
 * there is no room for it, that is said. (A program that links it:
 * tests/cli/worker.bats.) */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "kernels/device.h"
#include "tests/tap.h"

/* A number of kB of /proc/self/status; 0: it is not known. */
static rlim_t status_kb(const char *key)
{
    char line[200];
    unsigned long long kb = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f != NULL && kb == 0 && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            (void)sscanf(line + strlen(key), ": %llu", &kb);
    if (f != NULL)
        (void)fclose(f);
    return kb;
}

static bool is_mapped(const char *name)
{
    char line[4400];
    bool found = false;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL)
        found = strstr(line, name) != NULL;
    if (f != NULL)
        (void)fclose(f);
    return found;
}

/* Without room its constructor would try for ever. */
static void test_no_room(void)
{
    struct error err = ERROR_INIT;
    struct device *d = NULL;
    struct rlimit was, small;
    if (getrlimit(RLIMIT_AS, &was) < 0)
        return;
    small = was;
    small.rlim_cur = (status_kb("VmSize") + 100 * 1024) * 1024;
    if (setrlimit(RLIMIT_AS, &small) < 0)
        return;
    int rc = device_host_create(1, &d, &err);
    (void)setrlimit(RLIMIT_AS, &was);
    ok(rc < 0 && d == NULL && err.code == ERR_NOMEM &&
           strstr(err.msg, "ulimit -v") != NULL,
       "100 MiB are not enough: %s", err.msg);
}

int main(void)
{
    struct error err = ERROR_INIT;
    struct device *d = NULL;
    const float a[2] = {2, 3};
    float c = 0;
    ok(!is_mapped("libopenblas"), "a program begins without it");
    test_no_room();
    ok(!is_mapped("libopenblas"), "and goes on without it");
    if (!ok(device_host_create(1, &d, &err) == 0, "with room: %s", err.msg))
        return tap_done();
    ok(is_mapped("libopenblas"), "a device has it");
    is_int(d->ops->gemm(d, DT_F32, false, true, 1, 1, 2, 1, a, 2, a, 2, 0, &c,
                        1, &err),
           0, "and multiplies");
    is_int((long long)c, 13, "right");
    d->ops->destroy(d);
    return tap_done();
}
