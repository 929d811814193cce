/* golden.h - reads "name: value value ..." files written by the generators.
 *
 * For tests only: whatever is wrong ends the program with a message.
 */
#ifndef MGPU_TESTS_GOLDEN_H
#define MGPU_TESTS_GOLDEN_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "tests/tap.h"

struct golden {
    const char *path;
    struct buf text;
};

/* path is relative to the tree, which $MGPU_SRC names; "." without it. */
static inline const char *golden_path(const char *path, char out[4096])
{
    const char *src = getenv("MGPU_SRC");
    (void)snprintf(out, 4096, "%s/%s", src ? src : ".", path);
    return out;
}

static inline void golden_open(struct golden *g, const char *path)
{
    char full[4096];
    struct error err = ERROR_INIT;
    memset(g, 0, sizeof(*g));
    g->path = path;
    if (buf_read_file(&g->text, golden_path(path, full), 1 << 20, &err) < 0) {
        tap_diag("%s", err.msg);
        exit(1);
    }
}

static inline void golden_close(struct golden *g)
{
    buf_clear(&g->text);
}

/* The values of the line `name`, from malloc. */
static inline double *golden_get(const struct golden *g, const char *name,
                                 size_t *ret_n)
{
    size_t len = strlen(name), n = 0;
    const char *p = buf_str(&g->text);
    while (p && !(strncmp(p, name, len) == 0 && p[len] == ':')) {
        p = strchr(p, '\n');
        p = p ? p + 1 : NULL;
    }
    double *v = calloc(4096, sizeof(*v));
    if (!p || !v) {
        tap_diag("%s: no line '%s'", g->path, name);
        exit(1);
    }
    for (p += len + 1; *p == ' ' && n < 4096; n++) {
        char *end;
        v[n] = strtod(p, &end);
        p = end;
    }
    *ret_n = n;
    return v;
}

/* The largest difference, relative to the largest value wanted; NAN counts
 * as infinite. */
static inline double golden_error(const double *got, const double *want,
                                  size_t n)
{
    double scale = 0, worst = 0;
    for (size_t i = 0; i < n; i++)
        scale = fmax(scale, fabs(want[i]));
    for (size_t i = 0; i < n; i++) {
        double e = fabs(got[i] - want[i]);
        worst = e <= worst ? worst : (isnan(e) ? INFINITY : e);
    }
    return scale > 0 ? worst / scale : worst;
}

/* As golden_error() for pairs (sum, sum of squares) of tensors, each of them
 * relative to its own tensor, so that a small one cannot hide; but what is
 * 10^-6 of the largest or less counts as zero with rounding errors. */
static inline double golden_sums_error(const double *got, const double *want,
                                       size_t n)
{
    double worst = 0, most = 0;
    for (size_t i = 0; i + 1 < n; i += 2)
        most = fmax(most, want[i + 1]);
    for (size_t i = 0; i + 1 < n; i += 2) {
        double scale = fmax(want[i + 1], 1e-12 * most);
        if (scale == 0) { /* all are 0 */
            worst = got[i] == 0 && got[i + 1] == 0 ? worst : INFINITY;
            continue;
        }
        double e = fmax(fabs(got[i] - want[i]) / sqrt(scale),
                        fabs(got[i + 1] - want[i + 1]) / scale);
        worst = e <= worst ? worst : (isnan(e) ? INFINITY : e);
    }
    return worst;
}

/* One test: n values as the line says, within tolerance. */
static inline void golden_test(const struct golden *g, const char *name,
                               const double *got, size_t n, double tolerance,
                               double (*error)(const double *got,
                                               const double *want, size_t n))
{
    size_t want_n;
    double *want = golden_get(g, name, &want_n);
    double e = n == want_n ? error(got, want, n) : INFINITY;
    if (!ok(e <= tolerance, "%s: within %.0e", name, tolerance))
        tap_diag("%zu values for %zu, error %.3g", n, want_n, e);
    free(want);
}

static inline void golden_is(const struct golden *g, const char *name,
                             const double *got, size_t n, double tolerance)
{
    golden_test(g, name, got, n, tolerance, golden_error);
}

static inline void golden_is_sums(const struct golden *g, const char *name,
                                  const double *got, size_t n, double tolerance)
{
    golden_test(g, name, got, n, tolerance, golden_sums_error);
}

#endif
