/* throughput.h - how fast the jobs of a class train on different sizes.
 *
 * A model belongs to one class of jobs on one type of GPU (workload_class.c of
 * the engine names the classes). It keeps the running mean of the iteration
 * time of each size, nodes x GPUs per node, that a job of the class has run on.
 * From these it tells the rate of any size:
 *
 *   measured  the class has run on the size;
 *   fitted    it has not, but on at least three others: a curve through them
 *             (throughput_fit.c) tells the rate;
 *   assumed   else: the size scales perfectly from the largest measured size
 *             below it.
 *
 * A rate is in units of work per second. The unit is an iteration if an
 * iteration has the same samples on any size (a constant global batch), and
 * else the share of one GPU of an iteration. So the rates of two sizes compare
 * as samples per second do.
 *
 * Pure: no clock, no file, no memory of its own. The engine holds one model for
 * each class (engine/plan/class_models.h), and the daemon stores its rows.
 */
#ifndef MGPU_SCHEDULER_POLICY_THROUGHPUT_H
#define MGPU_SCHEDULER_POLICY_THROUGHPUT_H

#include <stdbool.h>
#include <stdint.h>

/* In the order of trust. */
enum rate_basis { RATE_ASSUMED, RATE_FITTED, RATE_MEASURED };
/* "assumed", "fitted", "measured" */
const char *throughput_basis_name(enum rate_basis b);

/* A measured size: what is stored of it. */
struct throughput_row {
    int32_t nodes, per_node;
    int64_t n;     /* iterations that were measured */
    double mean_s; /* of the iteration time; > 0 */
    double var_s2; /* variance of the iteration time */
};

/* The first iterations of an attempt are left out: they compile, allocate and
 * fill caches. */
enum { THROUGHPUT_WARM_UP = 3 };
/* The mean follows the last so many iterations, so that a new driver or a
 * larger batch is noticed. */
enum { THROUGHPUT_WINDOW = 200 };
/* A single iteration that is so many standard deviations off counts as one
 * that is just so many off. */
#define THROUGHPUT_OUTLIER 4.0
/* A curve that is so far off a measured size is fitted again. */
#define THROUGHPUT_REFIT 0.15

enum { THROUGHPUT_SIZES = 40, THROUGHPUT_THETA = 7, THROUGHPUT_FIT_SIZES = 3 };

/* {0} is the model of a class that has never run. */
struct throughput {
    bool is_weak; /* the samples of an iteration grow with the GPUs */
    bool is_fitted;
    int32_t n;
    struct throughput_row rows[THROUGHPUT_SIZES]; /* by GPUs, then by nodes */
    /* Logarithms of the curve's parameters, as in throughput_fit.c. */
    double theta[THROUGHPUT_THETA];
};

/* Notes iterations of one size. Ignores what is no time, and a new size once
 * the model has THROUGHPUT_SIZES.
 * in   t_iter_s  their mean
 *      n  how many, without the first THROUGHPUT_WARM_UP of the attempt */
void throughput_add(struct throughput *m, int32_t nodes, int32_t per_node,
                    double t_iter_s, int64_t n);
/* Sets a row, as it was stored; the model is m->rows[0..m->n) again after one
 * call for each, and throughput_fit(). False: the row is not valid, or there is
 * no room for it. */
bool throughput_set(struct throughput *m, const struct throughput_row *row);

/* Adds the sizes that `from` has and m lacks, and its curve, if m has none: as
 * many times as fast as m is on the sizes that both have, or as it is if there
 * is none. */
void throughput_borrow(struct throughput *m, const struct throughput *from);

struct throughput_rate {
    double per_s; /* NAN: the class has never run on so few GPUs */
    /* The same without a fitted curve, for the use of GPUs that would idle: a
     * pessimistic guess must not keep them idle. >= per_s */
    double hoped_per_s;
    enum rate_basis basis;
    int64_t n; /* iterations; 0: not measured */
};
struct throughput_rate throughput_rate(const struct throughput *m,
                                       int32_t nodes, int32_t per_node);
/* The row of a measured size; NULL: it has not run. */
const struct throughput_row *throughput_row(const struct throughput *m,
                                            int32_t nodes, int32_t per_node);
/* GPUs of the largest measured size; 0: the class has never run. */
int32_t throughput_largest(const struct throughput *m);
/* Units of work per second of a job that takes so long for an iteration. */
double throughput_units(const struct throughput *m, int32_t gpus,
                        double t_iter_s);

/* ---- throughput_fit.c ---------------------------------------------------- */
/* Fits the curve to the rows; m->is_fitted says whether there are enough. */
void throughput_fit(struct throughput *m);
/* Makes all times of the curve so many times as long. in m->is_fitted */
void throughput_stretch(struct throughput *m, double factor);
/* The curve's iteration time. in m->is_fitted */
double throughput_curve_s(const struct throughput *m, int32_t nodes,
                          int32_t per_node);

#endif
