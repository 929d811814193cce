/* blas_choice.c - the code that OpenBLAS takes for a processor: the choice, and
 * what becomes of it where the library is older than the processor or broken.
 *
 *   blas_choice          all of it
 *   blas_choice show     what a device of the host multiplies with
 *
 * The library is tests/fake/openblas.c but in the last case. */
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/blas_host.h"
#include "kernels/device.h"
#include "kernels/host_cpu.h"
#include "tests/tap.h"

static int show(void)
{
    struct device *d = NULL;
    struct error err = ERROR_INIT;
    char text[400];
    if (device_host_create(1, &d, &err) < 0) {
        (void)puts(err.msg);
        return 1;
    }
    blas_describe(text, sizeof(text));
    (void)puts(text);
    d->ops->destroy(d);
    return 0;
}

/* ---- the choice -----------------------------------------------------------
 */

static void test_table(void)
{
    static const struct {
        struct host_cpu cpu;
        enum blas_level level;
        const char *cores[BLAS_CORES + 1];
    } table[] = {
        {{.avx2 = false}, BLAS_SSE, {NULL}},
        {{.avx2 = true}, BLAS_AVX2, {"Haswell"}},
        {{.avx2 = true, .avx512 = true}, BLAS_AVX512, {"SkylakeX", "Haswell"}},
        {{.avx2 = true, .avx512 = true, .avx512_bf16 = true},
         BLAS_AVX512,
         {"Cooperlake", "SkylakeX", "Haswell"}},
    };
    const char *got[BLAS_CORES];
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        size_t n = host_cpu_cores(table[i].cpu, got), want = 0;
        while (table[i].cores[want] != NULL)
            want++;
        is_int((long long)n, (long long)want, "its core types");
        for (size_t k = 0; k < n && k < want; k++)
            is_str(got[k], table[i].cores[k], "each of them");
        is_int(host_cpu_level(table[i].cpu), table[i].level, "its level");
    }
    is_int(host_cpu_core_level("Prescott"), BLAS_SSE, "Prescott");
    is_int(host_cpu_core_level("Sandybridge"), BLAS_SSE, "no FMA");
    is_int(host_cpu_core_level("zen"), BLAS_AVX2, "zen");
    is_int(host_cpu_core_level("SkylakeX"), BLAS_AVX512, "SkylakeX");
    is_int(host_cpu_core_level("Diamondrapids"), BLAS_AVX512, "a newer one");
}

/* ---- a library ------------------------------------------------------------
 */

static char self[4096], fake_dir[64];

/* What "show" prints with the fake, or with the machine's where fake is NULL.
 */
static void shown(const char *fake, const char *env, char *ret, size_t cap)
{
    char command[9000];
    if (fake == NULL)
        (void)snprintf(command, sizeof(command), "env %s '%s' show", env, self);
    else
        (void)snprintf(command, sizeof(command),
                       "env -u OPENBLAS_CORETYPE LD_LIBRARY_PATH='%s' "
                       "FAKE_OPENBLAS='%s ' %s '%s' show",
                       fake_dir, fake, env, self);
    FILE *f = popen(command, "re");
    ret[0] = '\0';
    if (f != NULL && fgets(ret, (int)cap, f) != NULL)
        ret[strcspn(ret, "\n")] = '\0';
    if (f != NULL)
        (void)pclose(f);
}

static bool has_core(const char *text, const char *core)
{
    const char *at = strstr(text, "core type ");
    size_t n = strlen(core);
    return at != NULL && strncmp(at + 10, core, n) == 0 &&
           strcspn(at + 10, " ") == n;
}

/* The library takes Prescott by itself; the i best core types fail. */
static void test_older(const char *how)
{
    const char *cores[BLAS_CORES];
    size_t n = host_cpu_cores(host_cpu(), cores);
    char fake[200] = "Prescott", text[400];
    for (size_t i = 0; i <= n; i++) {
        const char *want = i < n ? cores[i] : "Prescott";
        shown(fake, "", text, sizeof(text));
        ok(has_core(text, want), "%zu core types that %s: %s: %s", i, how, want,
           text);
        ok((strchr(text, '(') != NULL) == (n > 0 && i > 0),
           "it says what failed");
        size_t at = strlen(fake);
        if (i < n)
            (void)snprintf(fake + at, sizeof(fake) - at, " %s=%s", how,
                           cores[i]);
    }
}

static void test_own(void)
{
    const struct host_cpu cpu = host_cpu();
    char text[400];
    const char *own = cpu.avx512 ? "Newerlake" : "Zen";
    shown(own, "", text, sizeof(text));
    ok(!cpu.avx2 || has_core(text, own), "its own choice stands: %s", text);
    ok(!cpu.avx2 || strchr(text, '(') == NULL, "without a word more");
    shown("SkylakeX", "MGPU_HOST_SIMD=256", text, sizeof(text));
    ok(!cpu.avx2 || has_core(text, "Haswell"),
       "without AVX-512 where it is not wanted: %s", text);
}

static void test_users(void)
{
    const bool avx2 = host_cpu().avx2;
    char text[400];
    shown("Haswell", "OPENBLAS_CORETYPE=Nehalem", text, sizeof(text));
    ok(has_core(text, "Nehalem"), "a user's core type wins: %s", text);
    ok(!avx2 || strstr(text, "unset OPENBLAS_CORETYPE") != NULL,
       "it says that it is poorer");
    shown("Haswell", "OPENBLAS_CORETYPE=SapphireRapids", text, sizeof(text));
    ok(strchr(text, '(') == NULL, "of a better one it says nothing: %s", text);
}

static void test_hang(void)
{
    const char *cores[BLAS_CORES];
    char fake[100], text[400];
    if (getenv("MGPU_TEST_ALL") == NULL ||
        host_cpu_cores(host_cpu(), cores) == 0)
        return;
    (void)snprintf(fake, sizeof(fake), "Prescott hang=%s", cores[0]);
    shown(fake, "", text, sizeof(text));
    ok(!has_core(text, cores[0]), "a core type that does not return: %s", text);
}

/* What all tests here compute with. */
static void test_machine(void)
{
    char text[400], core[40] = "";
    shown(NULL, "-u OPENBLAS_CORETYPE", text, sizeof(text));
    const char *at = strstr(text, "core type ");
    if (at != NULL)
        (void)sscanf(at + 10, "%39s", core);
    ok(host_cpu_core_level(core) >= host_cpu_level(host_cpu()),
       "the machine's library has its processor's code: %s", text);
    ok(strstr(text, "OpenBLAS 0.") == text, "it has a version");
}

int main(int argc, char **argv)
{
    char target[4200], name[200];
    if (argc > 1 && strcmp(argv[1], "show") == 0)
        return show();
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    test_table();
    (void)snprintf(fake_dir, sizeof(fake_dir), "/tmp/mgpu-blas.XXXXXX");
    if (!ok(mkdtemp(fake_dir) != NULL, "a directory"))
        return tap_done();
    (void)snprintf(target, sizeof(target), "%s", self);
    (void)snprintf(name, sizeof(name), "%s/libopenblas.so.0", fake_dir);
    /* build/VARIANT/tests/unit/kernels/blas_choice */
    char *tests = dirname(dirname(dirname(target)));
    (void)strncat(tests, "/fake/openblas.so",
                  sizeof(target) - strlen(tests) - 1);
    ok(symlink(tests, name) == 0, "the library");
    test_older("wrong");
    test_older("crash");
    test_own();
    test_users();
    test_hang();
    test_machine();
    (void)unlink(name);
    (void)rmdir(fake_dir);
    return tap_done();
}
