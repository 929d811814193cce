/* run_groups.c - see run_groups.h. */
#include "scheduler/sim/output/run_groups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int32_t most; /* GPUs */
} sizes[RUN_SIZES] = {{"1 GPU", 1},
                      {"2-4 GPUs", 4},
                      {"5-8 GPUs", 8},
                      {"9-32 GPUs", 32},
                      {"over 32 GPUs", INT32_MAX}};

/* A job that counts, as a row. */
struct row {
    const char *user;
    int size;
    double jct_s, wait_s, slowdown, fairness; /* the last two may be NAN */
};

/* False: it did not complete. */
static bool make_row(const struct sim_conf *conf, const struct sim_output *o,
                     size_t i, struct row *ret)
{
    const struct sim_job *job = &conf->trace->jobs[i];
    int32_t gpus = job->work_gpus > 0 ? job->work_gpus : job->gpus_min;
    struct row r = {.user = job->user,
                    .jct_s = job->recorded_end_s - job->submit_s,
                    .wait_s = job->recorded_start_s - job->submit_s,
                    .slowdown = NAN,
                    .fairness = NAN};

    while (gpus > sizes[r.size].most)
        r.size++;
    if (o) {
        r.jct_s = o->results[i].end_s - job->submit_s;
        r.wait_s = o->results[i].start_s - job->submit_s;
        r.slowdown = o->results[i].slowdown;
        r.fairness = o->results[i].fairness;
    }
    *ret = r;
    return o ? o->results[i].is_completed : job->is_recorded;
}

/* Sums and their numbers. */
struct sums {
    size_t jobs, slow, fair;
    double jct_s, wait_s, slowdown, fairness;
};

static void add(struct sums *s, const struct row *r)
{
    s->jobs++;
    s->jct_s += r->jct_s;
    s->wait_s += r->wait_s;
    if (!isnan(r->slowdown)) {
        s->slow++;
        s->slowdown += r->slowdown;
    }
    if (!isnan(r->fairness)) {
        s->fair++;
        s->fairness += r->fairness;
    }
}

static double mean(double sum, size_t n)
{
    return n > 0 ? sum / (double)n : (double)NAN;
}

static struct run_group means(const struct sums *s)
{
    return (struct run_group){.jobs = s->jobs,
                              .jct_s = mean(s->jct_s, s->jobs),
                              .wait_s = mean(s->wait_s, s->jobs),
                              .slowdown = mean(s->slowdown, s->slow),
                              .fairness = mean(s->fairness, s->fair)};
}

/* JSON has no NAN. */
static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *group_json(const struct run_group *g)
{
    return json_pack("{s:I,s:o,s:o,s:o,s:o}", "jobs", (json_int_t)g->jobs,
                     "jct_s", real(g->jct_s), "wait_s", real(g->wait_s),
                     "slowdown", real(g->slowdown), "fairness",
                     real(g->fairness));
}

static int by_user(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return strcmp(x->user, y->user);
}

/* Of rows in the order of users. */
static int make_users(const struct row *rows, size_t n, struct run_groups *g,
                      struct error *err)
{
    double sum = 0, squares = 0;
    size_t fair = 0, next;

    for (size_t i = 0; i < n; i = next) {
        struct sums s = {.jobs = 0};
        for (next = i; next < n && by_user(&rows[i], &rows[next]) == 0; next++)
            add(&s, &rows[next]);
        struct run_group one = means(&s);
        if (json_object_set_new(g->users, rows[i].user, group_json(&one)) < 0)
            return error_set(err, ERR_NOMEM, "figures of users");
        if (isnan(one.fairness))
            continue;
        fair++;
        sum += one.fairness;
        squares += one.fairness * one.fairness;
    }
    g->jain = fair > 1 && squares > 0 ? sum * sum / ((double)fair * squares)
                                      : (double)NAN;
    return 0;
}

int run_groups_make(const struct sim_conf *conf, const struct sim_output *o,
                    struct run_groups *ret, struct error *err)
{
    struct run_groups g = {.users = json_object()};
    struct row *rows = calloc(conf->trace->n + 1, sizeof(*rows));
    struct sums by_size[RUN_SIZES] = {{.jobs = 0}};
    size_t n = 0;
    int rc =
        rows && g.users ? 0 : error_set(err, ERR_NOMEM, "figures of groups");

    for (size_t i = 0; rc == 0 && i < conf->trace->n; i++)
        if (make_row(conf, o, i, &rows[n])) {
            add(&by_size[rows[n].size], &rows[n]);
            n++;
        }
    if (rc == 0) {
        qsort(rows, n, sizeof(*rows), by_user);
        rc = make_users(rows, n, &g, err);
    }
    for (int i = 0; i < RUN_SIZES; i++)
        g.sizes[i] = means(&by_size[i]);
    free(rows);
    if (rc < 0)
        json_decref(g.users);
    else
        *ret = g;
    return rc;
}

json_t *run_groups_sizes_json(const struct run_groups *g)
{
    json_t *list = json_array();

    for (int i = 0; list && i < RUN_SIZES; i++) {
        if (g->sizes[i].jobs == 0)
            continue;
        json_t *one = group_json(&g->sizes[i]);
        if (!one ||
            json_object_set_new(one, "size", json_string(sizes[i].name)) < 0 ||
            json_array_append_new(list, one) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
