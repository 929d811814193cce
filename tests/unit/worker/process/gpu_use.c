/* gpu_use.c - how busy GPUs are, by a driver that the test builds. */
#include "worker/process/gpu_use.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/fake_nvml.h"
#include "tests/tap.h"

enum { EACH_MS = 5, TRIES = 2000 };

/* Until the library has been asked so often: it counts in a file. */
static bool asked(const char *path, long n)
{
    const struct timespec moment = {.tv_nsec = 5000000};
    for (int i = 0; i < TRIES; i++) {
        FILE *f = fopen(path, "re");
        long size = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
        if (f)
            (void)fclose(f);
        if (size >= n)
            return true;
        (void)nanosleep(&moment, NULL);
    }
    return false;
}

static struct gpu_used use(const char *library, const char *list,
                           const char *count, long n, struct error *why)
{
    struct gpu_use *u = NULL;
    struct error err = ERROR_INIT;

    (void)unlink(count);
    if (gpu_use_begin(library, list, EACH_MS, &u, &err) < 0)
        tap_diag("%s", err.msg);
    if (n > 0)
        ok(asked(count, n), "%s: it is sampled", list);
    return gpu_use_end(u, why);
}

int main(void)
{
    char dir[] = "/tmp/mgpu-nvml-XXXXXX", library[256], path[256];
    struct error why = ERROR_INIT;

    if (mkdtemp(dir) == NULL || !fake_nvml_build(dir, library, sizeof(library)))
        tap_skip_all("no C compiler");
    char count[280];
    (void)snprintf(count, sizeof(count), "%s.asked", library);
    (void)unsetenv("FAKE_NVML");
    /* The first of the list is busy for a quarter, the other for three. */
    struct gpu_used a = use(library, "0", count, 4, &why);
    ok(why.code == ERR_NONE && a.gpus_ms > 0, "all that it has: %lld ms",
       (long long)a.gpus_ms);
    ok(llabs(4 * a.busy_ms - a.gpus_ms) <= 4, "  a quarter of it busy");
    a = use(library, "GPU-aaaa", count, 4, &why);
    ok(llabs(4 * a.busy_ms - 3 * a.gpus_ms) <= 6,
       "by its name, three quarters");
    a = use(library, "1,GPU-bbbb", count, 8, &why);
    ok(llabs(2 * a.busy_ms - a.gpus_ms) <= 4, "two, half of both");
    a = use(library, "7", count, 0, &why);
    ok(a.gpus_ms == 0, "one that is not there has none");
    (void)setenv("FAKE_NVML", "broken", 1);
    a = use(library, "0", count, 0, &why);
    ok(a.gpus_ms == 0, "nor has one whose driver does not start");
    (void)unsetenv("FAKE_NVML");
    a = use("/nowhere/libnvidia-ml.so.1", "0", count, 0, &why);
    ok(a.gpus_ms == 0, "nor where there is no driver");
    a = use(library, "", count, 0, &why);
    ok(a.gpus_ms == 0 && why.code == ERR_NONE, "no GPU, no question");
    (void)unlink(count);
    (void)unlink(library);
    (void)snprintf(path, sizeof(path), "%s/nvml.c", dir);
    (void)unlink(path);
    ok(rmdir(dir) == 0, "nothing is left");
    return tap_done();
}
