/* gemm_narrow.c - products of fp32 with an edge of a few values, which oneDNN
 * computes where the build has it (kernels/gemm_host.c), and their neighbours,
 * which OpenBLAS computes.
 *
 *   gemm_narrow          all of it
 *   gemm_narrow show     what a device of the host multiplies with */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/blas_host.h"
#include "kernels/device.h"
#include "tests/tap.h"

enum { GAP = 3, FILL = 99 }; /* between rows, and what is there */

static struct device *d;

static int show(void)
{
    char text[400];
    blas_describe(text, sizeof(text));
    (void)puts(text);
    return 0;
}

/* Small integers: every sum is exact in fp32, in whichever order. */
static float value(int64_t i)
{
    return (float)(i * 7 % 11 - 5);
}

static float *matrix(int32_t rows, int32_t ld)
{
    const int64_t n = (int64_t)rows * ld;
    float *ret = malloc((size_t)n * sizeof(*ret));
    if (ret == NULL)
        exit(1);
    for (int64_t i = 0; i < n; i++)
        ret[i] = value(i);
    return ret;
}

struct factors {
    int32_t m, n, k, lda, ldb;
    bool ta, tb;
    float *A, *B;
};

static float product(const struct factors *f, int32_t row, int32_t col)
{
    float sum = 0;
    for (int32_t i = 0; i < f->k; i++) {
        const int64_t a =
            f->ta ? (int64_t)i * f->lda + row : (int64_t)row * f->lda + i;
        const int64_t b =
            f->tb ? (int64_t)col * f->ldb + i : (int64_t)i * f->ldb + col;
        sum += f->A[a] * f->B[b];
    }
    return sum;
}

/* How many values of C are wrong, and of the gaps between its rows.
 * in   beta  0: C holds NaN, which must not stay */
static int64_t wrong(const struct factors *f, double alpha, double beta,
                     float *C, int32_t ldc)
{
    struct error err = ERROR_INIT;
    int64_t bad = 0;
    for (int64_t i = 0; i < (int64_t)f->m * ldc; i++)
        C[i] = i % ldc >= f->n ? FILL : beta == 0 ? NAN : value(i);
    if (d->ops->gemm(d, DT_F32, f->ta, f->tb, f->m, f->n, f->k, alpha, f->A,
                     f->lda, f->B, f->ldb, beta, C, ldc, &err) < 0)
        return -1;
    for (int32_t i = 0; i < f->m; i++)
        for (int32_t k = 0; k < ldc; k++) {
            const int64_t at = (int64_t)i * ldc + k;
            const double was = beta == 0 ? 0 : beta * (double)value(at);
            const double want =
                k >= f->n ? FILL : alpha * (double)product(f, i, k) + was;
            bad += (double)C[at] != want;
        }
    return bad;
}

static void test_shape(int32_t m, int32_t n, int32_t k, bool ta, bool tb)
{
    static const double by[][2] = {{1, 0}, {2, 0}, {1, 1}, {0.5, 2}};
    struct factors f = {
        m, n, k, (ta ? m : k) + GAP, (tb ? k : n) + GAP, ta, tb, NULL, NULL};
    f.A = matrix(ta ? k : m, f.lda);
    f.B = matrix(tb ? n : k, f.ldb);
    float *C = matrix(m, n + GAP);
    int64_t bad = 0;
    for (size_t i = 0; i < sizeof(by) / sizeof(by[0]); i++)
        bad += wrong(&f, by[i][0], by[i][1], C, n + GAP);
    ok(bad == 0, "%c%c [%d, %d] by [%d, %d]: %lld are wrong", ta ? 'T' : 'N',
       tb ? 'T' : 'N', m, k, k, n, (long long)bad);
    free(f.A);
    free(f.B);
    free(C);
}

/* Each row of the table of gemm_host.c at its ends, and just outside. */
static void test_shapes(void)
{
    static const int32_t edges[] = {1, 8, 24, 64, 65};
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

/* What `show` prints with a library in `dir` before others. */
static void shown(const char *dir, char *ret, size_t cap)
{
    char self[2048], command[5000];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    (void)snprintf(command, sizeof(command),
                   "LD_LIBRARY_PATH='%s' '%s' show 2>&1", dir, self);
    FILE *f = popen(command, "re");
    ret[0] = '\0';
    if (f != NULL && fgets(ret, (int)cap, f) != NULL)
        ret[strcspn(ret, "\n")] = '\0';
    if (f != NULL)
        (void)pclose(f);
}

/* OpenBLAS multiplies all where oneDNN cannot be opened, and that is said. */
static void test_broken(const char *text)
{
    char dir[] = "/tmp/mgpu-dnnl.XXXXXX", file[100], other[400];
    const char *names[] = {"libdnnl.so.2", "libdnnl.so.3", "libdnnl.so.3.6"};
    if (strstr(text, "oneDNN") == NULL || mkdtemp(dir) == NULL)
        return;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(file, sizeof(file), "%s/%s", dir, names[i]);
        FILE *f = fopen(file, "we");
        ok(f != NULL && fputs("no library\n", f) >= 0 && fclose(f) == 0,
           "a file that is no library");
    }
    shown(dir, other, sizeof(other));
    ok(strstr(other, "(oneDNN cannot be opened: ") != NULL, "it says so: %s",
       other);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(file, sizeof(file), "%s/%s", dir, names[i]);
        (void)unlink(file);
    }
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
    test_shape(2100, 64, 40, false, true);
    test_shape(24, 200, 1030, true, false);
    ok(omp_get_max_threads() == 2, "the next kernel has both threads");
    d->ops->destroy(d);
}

int main(int argc, char **argv)
{
    char text[400];
    if (!make_device(1))
        return tap_done();
    if (argc > 1 && strcmp(argv[1], "show") == 0)
        return show();
    blas_describe(text, sizeof(text));
    ok(strncmp(text, "OpenBLAS ", 9) == 0, "%s", text);
    test_shapes();
    test_broken(text);
    d->ops->destroy(d);
    test_team();
    return tap_done();
}
