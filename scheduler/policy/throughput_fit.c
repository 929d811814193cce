/* throughput_fit.c - a curve through the measured iteration times of a class.
 *
 * The curve is that of Pollux (Qiao et al., OSDI 2021):
 *
 *   T_grad = a + b / g          the batch is constant; b if it grows with g
 *   T_sync = 0                  on one GPU
 *            r + q (g - 2)      on one node
 *            R + Q (g - 2)      on several
 *   T_iter = (T_grad^y + T_sync^y)^(1/y),  y in 1..10
 *
 * All seven parameters are positive, so theta holds their logarithms. The fit
 * minimises the squared error of log T_iter, plus a weak pull towards the first
 * guess that keeps parameters in place which no measured size depends on. It is
 * Gauss-Newton with the analytic gradient and Levenberg's damping.
 */
#include <math.h>
#include <string.h>

#include "scheduler/policy/throughput.h"

enum { A, B, R1, Q1, RN, QN, Y, N = THROUGHPUT_THETA };
enum { STEPS = 60 };
static const double PULL = 1e-3; /* weight of the first guess */
static const double Y_MAX = 10;

struct point {
    double g;
    bool is_one, is_wide, is_weak;
};

static struct point point_of(const struct throughput *m, int32_t nodes,
                             int32_t per_node)
{
    return (struct point){.g = (double)nodes * per_node,
                          .is_one = nodes == 1 && per_node == 1,
                          .is_wide = nodes > 1,
                          .is_weak = m->is_weak};
}

/* log T_iter. out ret_d[N], its derivatives by theta; NULL: not wanted */
static double log_time(const double theta[N], const struct point *p,
                       double *ret_d)
{
    double a = exp(theta[A]), b = exp(theta[B]) / (p->is_weak ? 1 : p->g);
    double grad = a + b, sync = 0, r = 0, q = 0;
    double y = fmin(fmax(exp(theta[Y]), 1), Y_MAX);

    if (!p->is_one) {
        r = exp(theta[p->is_wide ? RN : R1]);
        q = exp(theta[p->is_wide ? QN : Q1]) * (p->g - 2);
        sync = r + q;
    }
    double share = sync > 0 ? 1 / (1 + pow(sync / grad, y)) : 1;
    double log_s = log(grad) - log(share) / y;
    if (!ret_d)
        return log_s;
    memset(ret_d, 0, N * sizeof(*ret_d));
    ret_d[A] = share * a / grad;
    ret_d[B] = share * b / grad;
    if (sync > 0) {
        ret_d[p->is_wide ? RN : R1] = (1 - share) * r / sync;
        ret_d[p->is_wide ? QN : Q1] = (1 - share) * q / sync;
        if (y > 1 && y < Y_MAX)
            ret_d[Y] = log(share) / y + (1 - share) * log(sync / grad);
    }
    return log_s;
}

/* The measured times say how large the parts may be: mostly work, some of it
 * serial, and little for the others. */
static void first_guess(const struct throughput *m, double theta[N])
{
    const struct throughput_row *first = &m->rows[0];
    double g = (double)first->nodes * first->per_node;
    double one_s = first->mean_s * (m->is_weak ? 1 : g);

    theta[A] = log(0.1 * one_s);
    theta[B] = log(0.9 * one_s);
    theta[R1] = log(0.05 * one_s);
    theta[Q1] = log(0.002 * one_s);
    theta[RN] = log(1.1 * 0.05 * one_s);
    theta[QN] = log(0.002 * one_s);
    theta[Y] = log(1.5);
}

/* Sum of squares. out h, v: J'J and -J'r; NULL: not wanted */
static double squares(const struct throughput *m, const double theta[N],
                      const double guess[N], double (*h)[N], double *v)
{
    double sum = 0, d[N] = {0};

    for (int i = 0; h && i < N; i++) {
        memset(h[i], 0, sizeof(h[i]));
        h[i][i] = PULL;
        v[i] = -PULL * (theta[i] - guess[i]);
    }
    for (int i = 0; i < N; i++)
        sum += PULL * (theta[i] - guess[i]) * (theta[i] - guess[i]);
    for (int32_t k = 0; k < m->n; k++) {
        const struct throughput_row *row = &m->rows[k];
        struct point p = point_of(m, row->nodes, row->per_node);
        double off = log_time(theta, &p, h ? d : NULL) - log(row->mean_s);
        sum += off * off;
        for (int i = 0; h && i < N; i++) {
            v[i] -= d[i] * off;
            for (int j = 0; j < N; j++)
                h[i][j] += d[i] * d[j];
        }
    }
    return sum;
}

/* Solves (h + damp) x = v by elimination; h is positive definite. */
static void solve(double h[N][N], double v[N], double damp, double x[N])
{
    double a[N][N];

    memcpy(a, h, sizeof(a));
    memcpy(x, v, N * sizeof(*x));
    for (int i = 0; i < N; i++)
        a[i][i] *= 1 + damp;
    for (int i = 0; i < N; i++)
        for (int k = i + 1; k < N; k++) {
            double f = a[k][i] / a[i][i];
            for (int j = i; j < N; j++)
                a[k][j] -= f * a[i][j];
            x[k] -= f * x[i];
        }
    for (int i = N - 1; i >= 0; i--) {
        for (int j = i + 1; j < N; j++)
            x[i] -= a[i][j] * x[j];
        x[i] /= a[i][i];
    }
}

void throughput_fit(struct throughput *m)
{
    double theta[N], guess[N], h[N][N], v[N], x[N], to[N], damp = 1e-2;

    bool was_fitted = m->is_fitted;

    m->is_fitted = m->n >= THROUGHPUT_FIT_SIZES;
    if (!m->is_fitted)
        return;
    first_guess(m, guess);
    memcpy(theta, was_fitted ? m->theta : guess, sizeof(theta));
    double best = squares(m, theta, guess, h, v);
    for (int step = 0; step < STEPS && damp < 1e8; step++) {
        solve(h, v, damp, x);
        for (int i = 0; i < N; i++)
            to[i] = theta[i] + fmin(fmax(x[i], -2), 2);
        double now = squares(m, to, guess, NULL, NULL);
        if (!(now < best)) {
            damp *= 8;
            continue;
        }
        bool is_done = best - now < 1e-12;
        memcpy(theta, to, sizeof(theta));
        best = squares(m, theta, guess, h, v);
        damp = fmax(damp / 4, 1e-9);
        if (is_done)
            break;
    }
    memcpy(m->theta, theta, sizeof(theta));
}

double throughput_curve_s(const struct throughput *m, int32_t nodes,
                          int32_t per_node)
{
    struct point p = point_of(m, nodes, per_node);

    return exp(log_time(m->theta, &p, NULL));
}

void throughput_stretch(struct throughput *m, double factor)
{
    for (int i = 0; i < N; i++)
        if (i != Y) /* a power; the others are logarithms of seconds */
            m->theta[i] += log(factor);
}
