/* goodput_groups.c - jobs of one user that came together count as one.
 *
 * Splitting a job into parts must not pay, and what an honest user sends over a
 * day must not count against him: so a group has the jobs of one user that came
 * within GROUP_S of the first of them. A job counts as often as its group has
 * work of its length: longer ones count once, shorter ones as their part of it.
 * Of n equal parts each counts n times, a long job among short ones about once.
 * A count is a factor of the length by which the job is ranked and ages, and
 * divides its weight (goodput_value.c).
 */
#include <math.h>
#include <stdlib.h>

#include "scheduler/policy/goodput_plan.h"

/* Who sends his parts one after the other waits for that himself. With 30
 * minutes honest users pay: at a load of 1.1 all jobs take a quarter longer. */
static const double GROUP_S = 600;

struct member {
    int32_t user;
    double submit_s, left_s; /* left_s INFINITY: not known */
    size_t order;
};

static int by_arrival(const void *x, const void *y)
{
    const struct member *a = x, *b = y;

    if (a->user != b->user)
        return a->user < b->user ? -1 : 1;
    if (a->submit_s < b->submit_s || a->submit_s > b->submit_s)
        return a->submit_s < b->submit_s ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static int by_length(const void *x, const void *y)
{
    const struct member *a = x, *b = y;

    if (a->left_s < b->left_s || a->left_s > b->left_s)
        return a->left_s < b->left_s ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

bool gp_groups_matter(const struct policy_view *v)
{
    for (size_t i = 1; v->is_fair && i < v->n_jobs; i++)
        if (v->jobs[i].user != v->jobs[0].user)
            return true;
    return false;
}

/* A group, the shortest first. */
static void count(const struct member *m, size_t n, double *ret)
{
    double shorter_s = 0;

    for (size_t k = 0; k < n; k++) {
        double others = (double)(n - k) + shorter_s / m[k].left_s;
        ret[m[k].order] = isfinite(m[k].left_s) ? others : (double)n;
        shorter_s += m[k].left_s;
    }
}

int gp_groups_count(const struct policy_view *v, double *ret, struct error *err)
{
    struct member *m;
    size_t n = 0;

    for (size_t i = 0; i < v->n_jobs; i++)
        ret[i] = 1;
    if (!gp_groups_matter(v))
        return 0;
    m = malloc(v->n_jobs * sizeof(*m));
    if (!m)
        return error_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < v->n_jobs; i++) {
        double left_s = v->jobs[i].goodput.left_one_s;
        bool is_known = isfinite(left_s) && left_s > 0;
        m[i] = (struct member){.user = v->jobs[i].user,
                               .submit_s = v->jobs[i].submit_s,
                               .left_s = is_known ? left_s : (double)INFINITY,
                               .order = i};
    }
    qsort(m, v->n_jobs, sizeof(*m), by_arrival);
    for (size_t from = 0; from < v->n_jobs; from += n) {
        for (n = 1; from + n < v->n_jobs && m[from + n].user == m[from].user &&
                    m[from + n].submit_s <= m[from].submit_s + GROUP_S;)
            n++;
        if (n == 1)
            continue;
        qsort(&m[from], n, sizeof(*m), by_length);
        count(&m[from], n, ret);
    }
    free(m);
    return 0;
}
