/* pollux_table.c - the speed of Pollux' applications.
 *
 * A unit of work is an iteration of a job with a fixed batch; of an adaptive
 * one it is a unit of progress: what one step of the first batch gains. A job
 * of batch B on n GPUs takes local batches of B / n; if they exceed the memory
 * of a GPU it accumulates. One GPU accumulates at least once above the first
 * batch, to measure the noise of its gradients. An adaptive job takes the best
 * of 50 geometric batches, in each epoch. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/trace/digits.h"
#include "scheduler/sim/trace/pollux_app.h"
#include "scheduler/sim/trace/speed.h"

enum { APPS_MAX = 32, BATCHES = 50, PATH_CAP = 1024 };
enum { BATCH_MAX = 99999999 };
enum { MEMO_NODES = 64, MEMO_GPUS = 16 };
static const double EPSILON = 1e-8;

struct pollux_table {
    struct speed base;
    char dir[PATH_CAP];
    bool is_adaptive;
    struct pollux_app *apps; /* owned; [APPS_MAX] */
    /* Owned; [APPS_MAX] best_unit() of each application, by epoch and place;
     * 0: not known yet. */
    double *best[APPS_MAX];
    size_t n;
};

/* ---- speed ----------------------------------------------------------------
 */
/* Seconds for a unit of progress with this batch; INFINITY: none. */
static double unit_of(const struct pollux_app *a, double batch,
                      const struct speed_place *p, int32_t epoch)
{
    int32_t n = p->nodes * p->per_node;
    double local = ceil(batch / n - EPSILON), step_s, sync_s;
    double steps = ceil(local / a->max_local - EPSILON) - 1;

    if (n == 1 && batch > a->first_batch)
        steps = fmax(1, steps);
    local = ceil(local / (steps + 1) - EPSILON);
    if (pollux_app_step(a, p->nodes, p->per_node, local, &step_s, &sync_s) < 0)
        return INFINITY;
    double whole = n * local * (steps + 1);
    double time_s = step_s + steps * (step_s - sync_s);
    return time_s / pollux_app_gain(a, whole, epoch);
}

static double best_unit(const struct pollux_app *a, const struct speed_place *p,
                        int32_t epoch)
{
    double n = (double)p->nodes * p->per_node, best = INFINITY;
    double low = fmax(a->first_batch, a->min_local * n);

    if (low > a->last_batch)
        return INFINITY;
    for (int i = 0; i < BATCHES; i++) {
        double batch = low * pow(a->last_batch / low, i / (BATCHES - 1.0));
        best = fmin(best, unit_of(a, batch, p, epoch));
    }
    return best;
}

/* The same, computed once. */
static double known_best(const struct pollux_table *t, int32_t app,
                         const struct speed_place *p, int32_t epoch)
{
    if (p->nodes > MEMO_NODES || p->per_node > MEMO_GPUS)
        return best_unit(&t->apps[app], p, epoch);
    double *memo =
        &t->best[app][(epoch * MEMO_NODES + p->nodes - 1) * MEMO_GPUS +
                      p->per_node - 1];
    if (!(*memo > 0))
        *memo = best_unit(&t->apps[app], p, epoch);
    return *memo;
}

/* Units of progress that a unit of work gains in this epoch. */
static double progress_of(const struct pollux_table *t,
                          const struct pollux_app *a, const struct sim_job *job,
                          int32_t epoch)
{
    return t->is_adaptive ? 1 : pollux_app_gain(a, job->batch, epoch);
}

/* The work of an epoch. */
static double epoch_work(const struct pollux_table *t,
                         const struct pollux_app *a, const struct sim_job *job,
                         int32_t epoch)
{
    return (pollux_app_progress(a, epoch + 1) - pollux_app_progress(a, epoch)) /
           progress_of(t, a, job, epoch);
}

static double pollux_unit_s(const struct speed *s, const struct sim_job *job,
                            const struct speed_place *p, double done,
                            double *ret_until)
{
    const struct pollux_table *t = (const struct pollux_table *)s;
    const struct pollux_app *a = &t->apps[job->kind];
    int32_t epoch = 0;
    double until = epoch_work(t, a, job, 0);

    while (epoch + 1 < a->epochs && until <= done)
        until += epoch_work(t, a, job, ++epoch);
    *ret_until = until > done ? until : (double)INFINITY;
    if (p->nodes < 1 || p->per_node < 1)
        return NAN;
    bool is_ncf = strcmp(a->name, "ncf") == 0;
    double unit_s = INFINITY;
    if (!t->is_adaptive)
        unit_s =
            unit_of(a, job->batch, p, epoch) * progress_of(t, a, job, epoch);
    else if (is_ncf && p->nodes * p->per_node == 1)
        unit_s = unit_of(a, a->last_batch, p, epoch);
    else
        unit_s = known_best(t, job->kind, p, epoch);
    return isfinite(unit_s) ? unit_s : (double)NAN;
}

/* ---- files ----------------------------------------------------------------
 */
static int read_file(struct pollux_app *a, const char *path,
                     int (*read)(struct pollux_app *a, struct lines *l,
                                 struct error *err),
                     int32_t batch, struct error *err)
{
    struct lines l;

    if (lines_open(&l, path, err) < 0)
        return -1;
    int rc = read ? read(a, &l, err) : pollux_app_validation(a, batch, &l, err);
    lines_clear(&l);
    return rc;
}

/* "validation-128.csv" or ".csv.gz"; 0: another file. */
static int32_t batch_of(const char *name)
{
    static const char head[] = "validation-";
    const size_t n = sizeof(head) - 1;
    const char *at = name + n;
    int32_t batch = 0;

    if (strncmp(name, head, n) != 0 || !digits_take(&at, BATCH_MAX, &batch) ||
        (strcmp(at, ".csv") != 0 && strcmp(at, ".csv.gz") != 0))
        return 0;
    return batch;
}

static int read_validations(struct pollux_app *a, const char *dir,
                            struct error *err)
{
    char path[PATH_CAP + 400];
    DIR *d = opendir(dir);
    struct dirent *e;
    int rc = 0;

    if (!d)
        return error_sys(err, errno, "open '%s'", dir);
    while (rc == 0 && (e = readdir(d))) {
        int32_t batch = batch_of(e->d_name);
        if (batch == 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        rc = read_file(a, path, NULL, batch, err);
    }
    (void)closedir(d);
    return rc;
}

/* "<dir>/<name>.csv", or with ".gz" if that is there only. */
static int read_named(struct pollux_app *a, const char *dir, const char *name,
                      int (*read)(struct pollux_app *a, struct lines *l,
                                  struct error *err),
                      struct error *err)
{
    char path[PATH_CAP + 400];
    struct error why = ERROR_INIT;

    (void)snprintf(path, sizeof(path), "%s/%s.csv", dir, name);
    int rc = read_file(a, path, read, 0, &why);
    if (rc < 0 && why.code == ERR_NOTFOUND) {
        (void)snprintf(path, sizeof(path), "%s/%s.csv.gz", dir, name);
        return read_file(a, path, read, 0, err);
    }
    if (rc < 0 && err)
        *err = why;
    return rc;
}

static int open_app(struct pollux_table *t, const char *name, struct error *err)
{
    char dir[PATH_CAP + 100];
    struct pollux_app *a = &t->apps[t->n];

    if (t->n == APPS_MAX)
        return error_set(err, ERR_LIMIT, "over %d applications", APPS_MAX);
    if (strchr(name, '/') || name[0] == '.')
        return error_set(err, ERR_INVAL, "no application '%s'", name);
    free(t->best[t->n]);
    t->best[t->n] = calloc((size_t)POLLUX_EPOCHS_MAX * MEMO_NODES * MEMO_GPUS,
                           sizeof(*t->best[0]));
    if (!t->best[t->n])
        return error_set(err, ERR_NOMEM, "application '%s'", name);
    *a = (struct pollux_app){.n_steps = 0};
    (void)snprintf(a->name, sizeof(a->name), "%s", name);
    (void)snprintf(dir, sizeof(dir), "%s/%s", t->dir, name);
    if (read_named(a, dir, "placements", pollux_app_placements, err) < 0 ||
        read_named(a, dir, "scalability", pollux_app_scalability, err) < 0 ||
        read_validations(a, dir, err) < 0 || pollux_app_finish(a, err) < 0) {
        pollux_app_clear(a);
        return -1;
    }
    t->n++;
    return 0;
}

/* The most GPUs with a local batch that was measured. */
static int32_t most_gpus(const struct pollux_table *t,
                         const struct pollux_app *a, const struct sim_job *job)
{
    double batch = t->is_adaptive ? a->last_batch : job->batch;
    return (int32_t)fmax(1, floor(batch / a->min_local));
}

static int pollux_prepare(struct speed *s, struct sim_job *job,
                          struct error *err)
{
    struct pollux_table *t = (struct pollux_table *)s;
    size_t i = 0;

    while (i < t->n && strcmp(t->apps[i].name, job->class) != 0)
        i++;
    if (i == t->n && open_app(t, job->class, err) < 0)
        return -1;
    job->kind = (int32_t)i;
    job->of_batch = t->is_adaptive ? 0 : job->batch;
    job->work = 0;
    for (int32_t e = 0; e < t->apps[i].epochs; e++)
        job->work += epoch_work(t, &t->apps[i], job, e);
    job->most_gpus = most_gpus(t, &t->apps[i], job);
    return 0;
}

static void pollux_destroy(struct speed *s)
{
    struct pollux_table *t = (struct pollux_table *)s;

    if (!t)
        return;
    for (size_t i = 0; i < t->n; i++)
        pollux_app_clear(&t->apps[i]);
    for (size_t i = 0; i < APPS_MAX; i++)
        free(t->best[i]);
    free(t->apps);
    free(t);
}

static bool pollux_adapts(const struct speed *s)
{
    return ((const struct pollux_table *)s)->is_adaptive;
}

static const struct speed_ops pollux_ops = {
    .name = "pollux",
    .prepare = pollux_prepare,
    .unit_s = pollux_unit_s,
    .beats = true,
    .adapts = pollux_adapts,
    .destroy = pollux_destroy,
};

int pollux_table_open(const char *dir, bool is_adaptive, struct speed **ret,
                      struct error *err)
{
    struct pollux_table *t = calloc(1, sizeof(*t));

    if (!t)
        return error_set(err, ERR_NOMEM, "tables");
    t->base.ops = &pollux_ops;
    t->is_adaptive = is_adaptive;
    t->apps = calloc(APPS_MAX, sizeof(*t->apps));
    if (!t->apps || strlen(dir) >= sizeof(t->dir)) {
        pollux_destroy(&t->base);
        return error_set(err, ERR_INVAL, "'%.60s': too long", dir);
    }
    memcpy(t->dir, dir, strlen(dir) + 1);
    *ret = &t->base;
    return 0;
}
