/* versions.c - what the libraries of a GPU say of themselves.
 *
 *   versions 12|13
 *
 * One line each: name, version, file; or name, `-` and why it does not open.
 * The argument is the CUDA that the program was built with, by which NVIDIA
 * names cuBLASLt and CUPTI. Needs no GPU: only the driver's own version does.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ISO C has no cast from an object to a function pointer. */
static int find(void *lib, const char *name, void *ret)
{
    void *symbol = dlsym(lib, name);
    memcpy(ret, &symbol, sizeof(symbol));
    return symbol != NULL ? 0 : -1;
}

static int of_driver(void *lib, char *ret, size_t cap)
{
    int (*init)(void), (*version)(char *, unsigned);
    if (find(lib, "nvmlInit_v2", &init) < 0 ||
        find(lib, "nvmlSystemGetDriverVersion", &version) < 0 || init() != 0)
        return -1;
    return version(ret, (unsigned)cap) == 0 ? 0 : -1;
}

/* 13000 */
static int of_cuda(void *lib, char *ret, size_t cap)
{
    int (*version)(int *), v = 0;
    if (find(lib, "cuDriverGetVersion", &version) < 0 || version(&v) != 0)
        return -1;
    (void)snprintf(ret, cap, "%d.%d", v / 1000, v % 1000 / 10);
    return 0;
}

/* 130001 is 13.0.1; CUPTI of CUDA 12 counts on its own. */
static void dotted(unsigned long v, char *ret, size_t cap)
{
    if (v < 10000)
        (void)snprintf(ret, cap, "%lu", v);
    else
        (void)snprintf(ret, cap, "%lu.%lu.%lu", v / 10000, v / 100 % 100,
                       v % 100);
}

static int of_result(void *lib, const char *name, char *ret, size_t cap)
{
    size_t (*version)(void);
    if (find(lib, name, &version) < 0)
        return -1;
    dotted((unsigned long)version(), ret, cap);
    return 0;
}

static int of_out(void *lib, const char *name, char *ret, size_t cap)
{
    int (*version)(uint32_t *);
    uint32_t v = 0;
    if (find(lib, name, &version) < 0 || version(&v) != 0)
        return -1;
    dotted(v, ret, cap);
    return 0;
}

static int of_cublas(void *lib, char *ret, size_t cap)
{
    return of_result(lib, "cublasLtGetVersion", ret, cap);
}
static int of_nccl(void *lib, char *ret, size_t cap)
{
    return of_out(lib, "ncclGetVersion", ret, cap);
}
static int of_cupti(void *lib, char *ret, size_t cap)
{
    return of_out(lib, "cuptiGetVersion", ret, cap);
}
static int of_cudnn(void *lib, char *ret, size_t cap)
{
    return of_result(lib, "cudnnGetVersion", ret, cap);
}

static const struct {
    const char *name, *pattern; /* %s: the argument */
    int (*version)(void *lib, char *ret, size_t cap);
    const char *symbol; /* of the library, to find its file */
} libraries[] = {
    {"driver", "libnvidia-ml.so.1", of_driver, "nvmlInit_v2"},
    {"CUDA of the driver", "libcuda.so.1", of_cuda, "cuDriverGetVersion"},
    {"cuBLASLt", "libcublasLt.so.%s", of_cublas, "cublasLtGetVersion"},
    {"NCCL", "libnccl.so.2", of_nccl, "ncclGetVersion"},
    {"CUPTI", "libcupti.so.%s", of_cupti, "cuptiGetVersion"},
    {"cuDNN", "libcudnn.so.9", of_cudnn, "cudnnGetVersion"},
};

static void tell(size_t i, const char *cuda)
{
    char file[64], version[96] = "";
    Dl_info info = {.dli_fname = NULL};
    const char *at = strstr(libraries[i].pattern, "%s");
    int stem = at != NULL ? (int)(at - libraries[i].pattern) : 63;
    (void)snprintf(file, sizeof(file), "%.*s%s", stem, libraries[i].pattern,
                   at != NULL ? cuda : "");
    void *lib = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    if (lib == NULL) {
        (void)printf("%s - %s\n", libraries[i].name, dlerror());
        return;
    }
    if (libraries[i].version(lib, version, sizeof(version)) < 0)
        (void)snprintf(version, sizeof(version), "does not say its version");
    void *symbol = dlsym(lib, libraries[i].symbol);
    if (symbol == NULL || dladdr(symbol, &info) == 0)
        info.dli_fname = file;
    (void)printf("%s %s %s\n", libraries[i].name, version, info.dli_fname);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: versions CUDA\n");
        return 64;
    }
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        tell(i, argv[1]);
    return 0;
}
