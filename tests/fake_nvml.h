/* fake_nvml.h - a library with two GPUs, for machines without any.
 *
 * Built when a test runs, with the C compiler that is there. What it says
 * depends on FAKE_NVML: "broken" does not start, "none" has no GPU, "lost" no
 * memory any more, and of "fallen" the first one is not on its bus.
 *
 * Who watches the two is told what the file FAKE_NVML_SAYS has: lines
 *   xid GPU NUMBER    an event, once for each watch
 *   fallen GPU, ecc GPU COUNT, failed GPU, reset GPU    what it then is
 *   mute              nothing can be asked any more
 *   deaf              no GPU has events
 *   impatient         who waits for events is told at once that a GPU is lost
 * where GPU is 0 for GPU-aaaa, 1 for GPU-bbbb.
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
    "#define _GNU_SOURCE\n"
    "#include <dlfcn.h>\n"
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "#include <unistd.h>\n"
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
    "  m[1] = m[0] - m[2]; return is(\"lost\") ? 15 : 0; }\n"
    /* Each call is a letter of the GPU's in a file beside the library. */
    "int nvmlDeviceGetUtilizationRates(void *d, unsigned u[2])\n"
    "{ char name[512]; Dl_info me; FILE *f = 0;\n"
    "  if (dladdr(gpus, &me)) {\n"
    "    snprintf(name, sizeof(name), \"%s.asked\", me.dli_fname);\n"
    "    f = fopen(name, \"a\"); }\n"
    "  u[0] = d == gpus ? 25 : 75; u[1] = 0;\n"
    "  if (f) { fputc(d == gpus ? 'b' : 'a', f); fclose(f); } return 0; }\n"
    /* The n-th line that begins so, of this GPU (-1: any); -1: none. */
    "static long said(const char *what, int gpu, int n, int *at)\n"
    "{ const char *name = getenv(\"FAKE_NVML_SAYS\");\n"
    "  FILE *f = name ? fopen(name, \"r\") : 0; char word[16], line[80];\n"
    "  long ret = -1, v; int i;\n"
    "  while (f && ret < 0 && fgets(line, sizeof(line), f)) {\n"
    "    i = -1; v = 0;\n"
    "    if (!strchr(line, '\\n') ||\n"
    "        sscanf(line, \"%15s %d %ld\", word, &i, &v) < 1 ||\n"
    "        strcmp(word, what) || (gpu >= 0 && i != gpu) || n-- > 0)\n"
    "      continue;\n"
    "    ret = v; if (at) *at = i; }\n"
    "  if (f) fclose(f); return ret; }\n"
    "static int of(void *d) { return d == gpus; }\n"
    "static int state(void *d)\n"
    "{ return said(\"fallen\", of(d), 0, 0) >= 0 ? 15 :\n"
    "    said(\"reset\", of(d), 0, 0) >= 0 ? 16 : 0; }\n"
    "int nvmlDeviceGetHandleByUUID(const char *uuid, void **d)\n"
    "{ *d = &gpus[!strstr(uuid, \"bbbb\")]; return strncmp(uuid, \"GPU-\", 4)\n"
    "    ? 6 : state(*d) == 15 ? 15 : 0; }\n"
    "int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *t)\n"
    "{ *t = 40; while (said(\"mute\", -1, 0, 0) >= 0) usleep(10000);\n"
    "  return sensor ? 2 : state(d); }\n"
    "int nvmlDeviceGetTotalEccErrors(void *d, int type, int counter,\n"
    "                                unsigned long long *n)\n"
    "{ long e = said(\"ecc\", of(d), 0, 0); *n = e > 0 ? e : 0;\n"
    "  return type != 1 || counter != 0 ? 2 : state(d); }\n"
    "int nvmlDeviceGetRemappedRows(void *d, unsigned *c, unsigned *u,\n"
    "                              unsigned *p, unsigned *f)\n"
    "{ *c = *u = *p = 0; *f = said(\"failed\", of(d), 0, 0) >= 0;\n"
    "  return state(d); }\n"
    "struct event { void *d; unsigned long long type, data; unsigned x[2]; };\n"
    "static int n_events;\n"
    "int nvmlEventSetCreate(void **s) { *s = &n_events; return 0; }\n"
    "int nvmlEventSetFree(void *s) { return s == &n_events ? 0 : 2; }\n"
    "int nvmlDeviceRegisterEvents(void *d, unsigned long long types, void *s)\n"
    "{ (void)d; return s != &n_events || types != 8 ? 2\n"
    "    : said(\"deaf\", -1, 0, 0) >= 0 ? 3 : 0; }\n"
    "int nvmlEventSetWait_v2(void *s, struct event *e, unsigned ms)\n"
    "{ (void)s; for (;;) { int gpu = 0;\n"
    "    long xid = said(\"xid\", -1, n_events, &gpu);\n"
    "    if (xid >= 0) { n_events++; e->d = &gpus[!gpu]; e->type = 8;\n"
    "      e->data = (unsigned long long)xid; return 0; }\n"
    "    if (said(\"impatient\", -1, 0, 0) >= 0) return 15;\n"
    "    if (ms < 10) return 10;\n"
    "    usleep(10000); ms -= 10; } }\n";

/* Adds a line to what FAKE_NVML_SAYS names. */
static inline bool fake_nvml_say(const char *file, const char *line)
{
    FILE *f = fopen(file, "ae");
    if (!f)
        return false;
    bool is_said = fprintf(f, "%s\n", line) > 0;
    return fclose(f) == 0 && is_said;
}

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
