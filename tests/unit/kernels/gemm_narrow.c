/* gemm_narrow.c - products with an edge of a few values, which our own code
 * computes, or of fp32 oneDNN where the build has it, with AVX-512 wide ones of
 * fp32, which oneDNN computes (kernels/gemm_host.c), and their neighbours,
 * which OpenBLAS computes.
 *
 *   gemm_narrow          all of it
 *   gemm_narrow show     what a device of the host multiplies with, and how
 *   gemm_narrow mdwe     the same where memory may not become executable */
#include <errno.h>
#include <libgen.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "kernels/blas_host.h"
#include "kernels/device.h"
#include "tests/tap.h"

enum { GAP = 3, FILL = 99 }; /* between rows, and what is there */

static struct device *d;

/* Small integers: every sum is exact in fp32, in whichever order. */
static float value(int64_t i)
{
    return (float)(i * 7 % 11 - 5);
}

static void *matrix(enum dtype dt, int32_t rows, int32_t ld)
{
    const int64_t n = (int64_t)rows * ld;
    void *ret = malloc((size_t)n * dtype_bytes(dt));
    if (ret == NULL)
        exit(1);
    for (int64_t i = 0; i < n; i++)
        dtype_set(dt, ret, i, value(i));
    return ret;
}

/* As dt holds it. */
static double rounded(enum dtype dt, double v)
{
    double ret = 0;
    dtype_set(dt, &ret, 0, v);
    return dtype_get(dt, &ret, 0);
}

/* One line of what multiplies, and one of a product that oneDNN takes. */
static int show(void)
{
    enum { M = 1030, N = 40, K = 64 };
    struct error err = ERROR_INIT;
    char text[400];
    void *A = matrix(DT_F32, M, K), *B = matrix(DT_F32, K, N),
         *C = matrix(DT_F32, M, N);
    blas_describe(text, sizeof(text));
    (void)puts(text);
    const int rc = d->ops->gemm(d, DT_F32, false, false, M, N, K, 1, A, K, B, N,
                                0, C, N, &err);
    (void)printf("code %d %s\n", rc < 0 ? (int)err.code : 0, err.msg);
    free(A);
    free(B);
    free(C);
    return 0;
}

struct factors {
    int32_t m, n, k, lda, ldb;
    bool ta, tb;
    enum dtype dt;
    void *A, *B;
};

static float product(const struct factors *f, int32_t row, int32_t col)
{
    float sum = 0;
    for (int32_t i = 0; i < f->k; i++) {
        const int64_t a =
            f->ta ? (int64_t)i * f->lda + row : (int64_t)row * f->lda + i;
        const int64_t b =
            f->tb ? (int64_t)col * f->ldb + i : (int64_t)i * f->ldb + col;
        sum += value(a) * value(b); /* any type holds them */
    }
    return sum;
}

/* How many values of C are wrong, and of the gaps between its rows.
 * in   beta  0: C holds NaN, which must not stay */
static int64_t wrong(const struct factors *f, double alpha, double beta,
                     void *C, int32_t ldc)
{
    struct error err = ERROR_INIT;
    int64_t bad = 0;
    for (int64_t i = 0; i < (int64_t)f->m * ldc; i++)
        dtype_set(f->dt, C, i,
                  i % ldc >= f->n ? FILL
                  : beta == 0     ? NAN
                                  : (double)value(i));
    if (d->ops->gemm(d, f->dt, f->ta, f->tb, f->m, f->n, f->k, alpha, f->A,
                     f->lda, f->B, f->ldb, beta, C, ldc, &err) < 0)
        return -1;
    for (int32_t i = 0; i < f->m; i++)
        for (int32_t k = 0; k < ldc; k++) {
            const int64_t at = (int64_t)i * ldc + k;
            const double was = beta == 0 ? 0 : beta * (double)value(at);
            const double want =
                k >= f->n ? FILL : alpha * (double)product(f, i, k) + was;
            bad += dtype_get(f->dt, C, at) != rounded(f->dt, want);
        }
    return bad;
}

#if defined(__SANITIZE_ADDRESS__)
/* The search for leaks at the end crashes in what the sanitizer noted of the
 * thread-local memory of a library that is loaded at run time. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "intercept_tls_get_addr=0";
}
#endif

/* in   gap  between rows */
static void test_type(enum dtype dt, int32_t m, int32_t n, int32_t k, bool ta,
                      bool tb, int32_t gap)
{
    static const double by[][2] = {{1, 0}, {2, 0}, {1, 1}, {0.5, 2}};
    struct factors f = {
        m,  n,    k,   (ta ? m : k) + gap, (tb ? k : n) + gap, ta, tb,
        dt, NULL, NULL};
    f.A = matrix(dt, ta ? k : m, f.lda);
    f.B = matrix(dt, tb ? n : k, f.ldb);
    void *C = matrix(dt, m, n + gap);
    int64_t bad = 0;
    for (size_t i = 0; i < sizeof(by) / sizeof(by[0]); i++)
        bad += wrong(&f, by[i][0], by[i][1], C, n + gap);
    ok(bad == 0, "%s %c%c [%d, %d] by [%d, %d]: %lld are wrong", dtype_name(dt),
       ta ? 'T' : 'N', tb ? 'T' : 'N', m, k, k, n, (long long)bad);
    free(f.A);
    free(f.B);
    free(C);
}

static void test_shape(int32_t m, int32_t n, int32_t k, bool ta, bool tb)
{
    test_type(DT_F32, m, n, k, ta, tb, GAP);
    test_type(DT_F16, m, n, k, ta, tb, GAP);
    test_type(DT_BF16, m, n, k, ta, tb, GAP);
}

/* The least wide ones, and just below; with 1,030 rows in pieces. */
static void test_wide(void)
{
    static const int32_t edges[][3] = {{256, 256, 256}, {255, 300, 260},
                                       {261, 255, 257}, {300, 259, 255},
                                       {257, 263, 269}, {1030, 256, 300}};
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
        for (int t = 0; t < 4; t++)
            test_type(DT_F32, edges[i][0], edges[i][1], edges[i][2], t == 3,
                      t & 1, t == 2 ? GAP : 0);
}

/* Each class of gemm_host.c at its ends, and just outside. */
static void test_shapes(void)
{
    static const int32_t edges[] = {1, 8, 16, 24, 33, 64, 65};
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
        for (int tb = 0; tb < 2; tb++) {
            test_shape(255, edges[i], 33, false, tb);
            test_shape(256, edges[i], 40, false, tb);
            test_shape(512, 70, edges[i], false, tb);
            test_shape(64, edges[i], 256, true, tb);
            test_shape(257, edges[i], 255, true, tb);
            test_shape(edges[i], 256, 300, true, tb);
        }
    test_shape(300, 16, 0, false, true);
    test_shape(16, 16, 0, true, false);
}

/* What is printed with a library in `dir` before others: "LINE; LINE; ". */
static void shown(const char *dir, const char *env, const char *how, char *ret,
                  size_t cap)
{
    char self[2048], command[5000];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    (void)snprintf(command, sizeof(command),
                   "env -u MGPU_DNNL LD_LIBRARY_PATH='%s' %s '%s' %s 2>&1", dir,
                   env, self, how);
    FILE *f = popen(command, "re");
    const size_t got = f != NULL ? fread(ret, 1, cap - 1, f) : 0;
    ret[got] = '\0';
    for (char *at = ret; (at = strchr(at, '\n')) != NULL;)
        *at = ';';
    if (f != NULL)
        (void)pclose(f);
}

enum { NAMES = 3 };
static const char *const names[NAMES] = {"libdnnl.so.2", "libdnnl.so.3",
                                         "libdnnl.so.3.6"};

static void remove_names(const char *dir)
{
    char file[100];
    for (size_t i = 0; i < NAMES; i++) {
        (void)snprintf(file, sizeof(file), "%s/%s", dir, names[i]);
        (void)unlink(file);
    }
}

/* OpenBLAS multiplies all where oneDNN cannot be opened, and that is said. */
static void test_no_library(const char *dir)
{
    char file[100], text[1000];
    for (size_t i = 0; i < NAMES; i++) {
        (void)snprintf(file, sizeof(file), "%s/%s", dir, names[i]);
        FILE *f = fopen(file, "we");
        ok(f != NULL && fputs("no library\n", f) >= 0 && fclose(f) == 0,
           "a file that is no library");
    }
    shown(dir, "", "show", text, sizeof(text));
    ok(strstr(text, "(oneDNN cannot be opened: ") && strstr(text, "code 0 "),
       "it says so: %s", text);
    remove_names(dir);
}

/* Likewise where it opens, but fails or is wrong when it multiplies. */
static void test_failing(const char *dir)
{
    static const struct {
        const char *env, *say;
        enum err_code code; /* of a product with oneDNN */
        const char *why;    /* of that */
    } table[] = {
        {"", " and oneDNN 0.1.0 with AVX2;", 0, ""},
        {"FAKE_DNNL=isa=512",
         " and oneDNN 0.1.0 with AVX-512 (its matmul is not there);", 0, ""},
        {"FAKE_DNNL=status=3", "(oneDNN 0.1.0 is not used: it cannot make its",
         0, ""},
        {"FAKE_DNNL=status=1", "(oneDNN 0.1.0 is not used: it has no memory)",
         0, ""},
        {"FAKE_DNNL=status=5", "(oneDNN 0.1.0 is not used: it fails)", 0, ""},
        {"FAKE_DNNL=wrong", "(oneDNN 0.1.0 is not used: it multiplies wrongly)",
         0, ""},
        /* 1, 4, 512 and 0: its own loop, TBB, SYCL, and none for CPUs */
        {"FAKE_DNNL=runtime=1", " and oneDNN 0.1.0 with AVX2;", 0, ""},
        {"FAKE_DNNL=runtime=4",
         "is not used: it has threads that are not OpenMP's)", 0, ""},
        {"FAKE_DNNL=runtime=512",
         "is not used: it has threads that are not OpenMP's)", 0, ""},
        {"FAKE_DNNL=runtime=0",
         "is not used: it has threads that are not OpenMP's)", 0, ""},
        {"FAKE_DNNL=late=1", " and oneDNN 0.1.0 with AVX2;", ERR_NOMEM,
         "oneDNN has no memory (1)"},
        {"FAKE_DNNL=late=3", " and oneDNN 0.1.0 with AVX2;", ERR_EXTERN,
         "oneDNN cannot make its code"},
        {"FAKE_DNNL=late=5", " and oneDNN 0.1.0 with AVX2;", ERR_EXTERN,
         "oneDNN fails (5)"},
    };
    char fake[2100], file[100], text[1000], code[30];
    const ssize_t n = readlink("/proc/self/exe", fake, 2000);
    fake[n > 0 ? n : 0] = '\0';
    /* build/VARIANT/tests/unit/kernels/gemm_narrow */
    char *tests = dirname(dirname(dirname(fake)));
    (void)strcat(tests, "/fake/dnnl.so");
    for (size_t i = 0; i < NAMES; i++) {
        (void)snprintf(file, sizeof(file), "%s/%s", dir, names[i]);
        ok(symlink(tests, file) == 0, "the library");
    }
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        shown(dir, table[i].env, "show", text, sizeof(text));
        (void)snprintf(code, sizeof(code), ";code %d ", (int)table[i].code);
        ok(strstr(text, table[i].say) && strstr(text, code) &&
               strstr(text, table[i].why),
           "%s: it says \"%s\", code %d: %s", table[i].env, table[i].say,
           (int)table[i].code, text);
    }
    remove_names(dir);
}

/* systemd's MemoryDenyWriteExecute=, and Linux's own: version 2 of oneDNN fails
 * there, version 3 does not, and somebody multiplies. */
static void test_mdwe(void)
{
    char text[1000];
    shown("", "", "mdwe", text, sizeof(text));
    if (strncmp(text, "no PR_SET_MDWE", 14) == 0)
        tap_diag("left out, where memory may not become executable: %s", text);
    else
        ok(strstr(text, ";code 0 ") != NULL,
           "a product where memory may not become executable: %s", text);
}

static void test_left_out(void)
{
    char text[1000];
    shown("", "MGPU_DNNL=0", "show", text, sizeof(text));
    ok(strstr(text, " without oneDNN (MGPU_DNNL=0);") &&
           strstr(text, ";code 0 "),
       "it is left out: %s", text);
    shown("", "MGPU_DNNL=1", "show", text, sizeof(text));
    ok(strstr(text, " and oneDNN ") != NULL, "or asked for: %s", text);
}

static void test_broken(void)
{
    char dir[] = "/tmp/mgpu-dnnl.XXXXXX", text[1000];
    shown("", "", "show", text, sizeof(text));
    if (strstr(text, "oneDNN") == NULL || !ok(mkdtemp(dir) != NULL, "a folder"))
        return; /* the build or the processor is without it */
    test_left_out();
    test_no_library(dir);
    test_failing(dir);
    test_mdwe();
    (void)rmdir(dir);
}

static bool make_device(int32_t threads)
{
    struct error err = ERROR_INIT;
    if (device_host_create(threads, &d, &err) == 0)
        return true;
    ok(false, "a device: %s", err.msg);
    return false;
}

/* Small ones are computed by one thread alone; the team is there again. */
static void test_team(void)
{
    if (!make_device(2))
        return;
    test_shape(300, 16, 40, false, true);
    test_shape(2100, 64, 60, false, true);
    test_shape(24, 200, 1030, true, false);
    test_shape(400, 24, 1030, true, false);
    ok(omp_get_max_threads() == 2, "the next kernel has both threads");
    d->ops->destroy(d);
}

int main(int argc, char **argv)
{
    enum { SET_MDWE = 65, REFUSE_EXEC_GAIN = 1 }; /* Linux 6.3 */
    char text[400];
    if (argc > 1 && strcmp(argv[1], "mdwe") == 0 &&
        prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) < 0)
        return printf("no PR_SET_MDWE: %s\n", strerror(errno)) < 0;
    if (!make_device(1))
        return tap_done();
    if (argc > 1)
        return show();
    blas_describe(text, sizeof(text));
    ok(strncmp(text, "OpenBLAS ", 9) == 0, "%s", text);
    test_shapes();
    test_wide();
    test_broken();
    d->ops->destroy(d);
    test_team();
    return tap_done();
}
