/* nvml.c - GPUs as a fake driver tells them; names as types. */
#include "slurm/nvml.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fake_nvml.h"
#include "tests/tap.h"

static void test_types(void)
{
    static const char *const rows[][2] = {
        {"NVIDIA H100 80GB HBM3", "h100"},
        {"NVIDIA H200", "h200"},
        {"NVIDIA A100-SXM4-40GB", "a100"},
        {"Tesla V100-SXM2-16GB", "v100"},
        {"NVIDIA GeForce RTX 4090", "rtx4090"},
        {"NVIDIA TITAN RTX", "titanrtx"},
        {"NVIDIA", "gpu"},
        {"", "gpu"},
    };
    char type[32];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        nvml_type_of(rows[i][0], type, sizeof(type));
        is_str(type, rows[i][1], rows[i][0]);
    }
    char name[200];
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    nvml_type_of(name, type, sizeof(type));
    is_int((long long)strlen(type), 31, "a long name is cut");
}

static void test_list(const char *library)
{
    struct nvml_gpu gpus[4];
    struct error err = ERROR_INIT;
    size_t n = 0;
    is_int(nvml_list(library, gpus, 4, &n, &err), 0, "list the GPUs");
    ok(n == 2, "there are two");
    is_str(gpus[0].uuid, "GPU-aaaa", "in the order of their PCI addresses");
    is_str(gpus[1].uuid, "GPU-bbbb", "not of the driver's");
    is_str(gpus[0].type, "h100", "of this type");
    is_int(nvml_list(library, gpus, 1, &n, &err), -1, "room for one");
    is_int(err.code, ERR_LIMIT, "is not enough");

    (void)setenv("FAKE_NVML", "broken", 1);
    is_int(nvml_list(library, gpus, 4, &n, &err), -1, "a broken driver");
    is_int(err.code, ERR_EXTERN, "is told from none");
    is_str(err.msg, "NVML: start: Driver Not Loaded (9)", "in its own words");
    (void)setenv("FAKE_NVML", "fallen", 1);
    is_int(nvml_list(library, gpus, 4, &n, &err), 0, "one that is lost");
    ok(n == 2 && gpus[0].is_lost && gpus[0].uuid[0] == '\0',
       "is there, and nothing is known of it");
    ok(!gpus[1].is_lost && strcmp(gpus[1].uuid, "GPU-aaaa") == 0,
       "the other one is");
    (void)setenv("FAKE_NVML", "none", 1);
    is_int(nvml_list(library, gpus, 4, &n, &err), 0, "a driver without GPUs");
    ok(n == 0, "has none");
    (void)unsetenv("FAKE_NVML");
}

static void test_missing(void)
{
    struct nvml_gpu gpus[1];
    struct error err = ERROR_INIT;
    size_t n = 7;
    is_int(nvml_list("/nonexistent.so", gpus, 1, &n, &err), -1, "no library");
    is_int(err.code, ERR_NOTFOUND, "is a machine without a driver");
    is_int(nvml_list("libm.so.6", gpus, 1, &n, &err), -1, "another library");
    is_int(err.code, ERR_EXTERN, "is not NVML");
    ok(n == 7, "the count is left alone");
}

int main(void)
{
    char dir[] = "/tmp/nvml.XXXXXX";
    char library[64];
    char source[64];
    test_types();
    test_missing();
    if (!mkdtemp(dir))
        return 1;
    (void)snprintf(source, sizeof(source), "%s/nvml.c", dir);
    if (fake_nvml_build(dir, library, sizeof(library)))
        test_list(library);
    else
        tap_diag("no C compiler: the fake driver is left out");
    (void)unlink(library);
    (void)unlink(source);
    (void)rmdir(dir);
    return tap_done();
}
