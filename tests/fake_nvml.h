/* fake_nvml.h - a library with two GPUs, for machines without any.
 *
 * Built when a test runs, with the C compiler that is there. What it says
 * depends on FAKE_NVML: "broken" does not start, "none" has no GPU, "lost" no
 * memory any more, and of "fallen" the first one is not on its bus.
 */
#ifndef MGPU_TESTS_FAKE_NVML_H
#define MGPU_TESTS_FAKE_NVML_H

#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* The GPUs are listed against the order of their PCI addresses. */
static const char fake_nvml_source[] =
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "static int is(const char *s)\n"
    "{ const char *e = getenv(\"FAKE_NVML\"); return e && !strcmp(e, s); }\n"
    "int nvmlInit_v2(void) { return is(\"broken\") ? 9 : 0; }\n"
    "int nvmlShutdown(void) { return 0; }\n"
    "const char *nvmlErrorString(int c)\n"
    "{ return c == 9 ? \"Driver Not Loaded\" : \"?\"; }\n"
    "int nvmlDeviceGetCount_v2(unsigned *n)\n"
    "{ *n = is(\"none\") ? 0 : 2; return 0; }\n"
    "static char gpus[2];\n"
    "int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d)\n"
    "{ *d = &gpus[i]; return i == 0 && is(\"fallen\") ? 15 : i < 2 ? 0 : 2; }\n"
    "int nvmlDeviceGetName(void *d, char *s, unsigned cap)\n"
    "{ (void)d; snprintf(s, cap, \"NVIDIA H100 80GB HBM3\"); return 0; }\n"
    "int nvmlDeviceGetUUID(void *d, char *s, unsigned cap)\n"
    "{ snprintf(s, cap, \"GPU-%s\", d == gpus ? \"bbbb\" : \"aaaa\");\n"
    "  return 0; }\n"
    "struct pci { char old[16]; unsigned x[5]; char bus[32]; };\n"
    "int nvmlDeviceGetPciInfo_v3(void *d, struct pci *p)\n"
    "{ memset(p, 0, sizeof(*p)); snprintf(p->bus, sizeof(p->bus),\n"
    "  \"00000000:%s:00.0\", d == gpus ? \"9A\" : \"18\"); return 0; }\n"
    "int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **d)\n"
    "{ *d = &gpus[strstr(bus, \"9A\") == NULL];\n"
    "  return strstr(bus, \"9A\") || strstr(bus, \"18\") ? 0 : 6; }\n"
    "int nvmlDeviceGetMemoryInfo(void *d, unsigned long long m[3])\n"
    "{ m[0] = 80ull << 30; m[2] = d == gpus ? 1ull << 30 : 3ull << 30;\n"
    "  m[1] = m[0] - m[2]; return is(\"lost\") ? 15 : 0; }\n";

/* Whether it was built; the caller removes the two files in dir. */
static inline bool fake_nvml_build(const char *dir, char *ret, size_t cap)
{
    char source[256];
    (void)snprintf(source, sizeof(source), "%s/nvml.c", dir);
    (void)snprintf(ret, cap, "%s/nvml.so", dir);
    FILE *f = fopen(source, "we");
    if (!f)
        return false;
    bool is_written = fputs(fake_nvml_source, f) >= 0;
    is_written = fclose(f) == 0 && is_written;
    char *const argv[] = {(char[]){"cc"},
                          (char[]){"-shared"},
                          (char[]){"-fPIC"},
                          (char[]){"-o"},
                          ret,
                          source,
                          NULL};
    pid_t pid;
    int status = 1;
    return is_written &&
           posix_spawnp(&pid, "cc", NULL, NULL, argv, environ) == 0 &&
           waitpid(pid, &status, 0) == pid && status == 0;
}

#endif
