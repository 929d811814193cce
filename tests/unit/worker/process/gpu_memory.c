/* gpu_memory.c - how full a GPU is, by a driver that the test builds. */
#include "worker/process/gpu_memory.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fake_nvml.h"
#include "tests/tap.h"

static void test_reads(const char *library)
{
    struct error err = ERROR_INIT;
    struct gpu_memory *m = NULL;
    int64_t used = 0, total = 0;
    ok(gpu_memory_open(library, "0000:18:00.0", &m, &err) == 0, "opens: %s",
       err.msg);
    ok(gpu_memory_read(m, &used, &total, &err) == 0, "reads");
    is_int(used, 3LL << 30, "what is used of that GPU");
    is_int(total, 80LL << 30, "of all it has");
    (void)setenv("FAKE_NVML", "lost", 1);
    ok(gpu_memory_read(m, &used, &total, &err) == -1 &&
           err.code == ERR_EXTERN && used == 3LL << 30,
       "a GPU that is gone: %s", err.msg);
    (void)unsetenv("FAKE_NVML");
    gpu_memory_close(m);
}

static void refused(const char *library, const char *bus, enum err_code code)
{
    struct error err = ERROR_INIT;
    struct gpu_memory *m = NULL;
    ok(gpu_memory_open(library, bus, &m, &err) == -1 && err.code == code &&
           m == NULL,
       "%s", err.msg);
}

int main(void)
{
    char dir[] = "/tmp/mgpu-nvml-XXXXXX", library[256], source[256];
    (void)unsetenv("FAKE_NVML");
    if (mkdtemp(dir) == NULL || !fake_nvml_build(dir, library, sizeof(library)))
        tap_skip_all("no C compiler");
    test_reads(library);
    refused("/nowhere/libnvidia-ml.so.1", "0000:18:00.0", ERR_NOTFOUND);
    refused("libm.so.6", "0000:18:00.0", ERR_EXTERN);
    refused(library, "0000:77:00.0", ERR_EXTERN);
    (void)setenv("FAKE_NVML", "broken", 1);
    refused(library, "0000:18:00.0", ERR_EXTERN);
    (void)snprintf(source, sizeof(source), "%s/nvml.c", dir);
    (void)unlink(source);
    (void)unlink(library);
    ok(rmdir(dir) == 0, "nothing is left");
    return tap_done();
}
