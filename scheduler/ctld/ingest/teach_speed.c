/* teach_speed.c - see teach_speed.h.
 *
 * The engine's models are in memory only. While jobs run, each batch of metric
 * rows adds to them; at the start one query of v_scaling(5) gives back what the
 * daemon before knew. The query reads all iterations, so it runs on the
 * reader's thread, and the daemon plans meanwhile with what it has. Queries of
 * users wait for it, so it is left out until somebody needs the speeds: a job
 * with a range of GPUs, under goodput.
 */
#include "scheduler/ctld/ingest/teach_speed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/ingest/attempt_metrics.h"
#include "scheduler/ctld/ingest/scaling_guess.h"
#include "scheduler/engine/teach.h"
#include "scheduler/policy/policy.h"

/* ---- while jobs run --------------------------------------------------------
 */
void teach_times_add(struct iteration_times *t, const struct metric_row *m)
{
    if (m->kind != METRIC_ITERATION || m->iteration.rank != 0 ||
        m->iteration.iteration < 1 || !(m->iteration.t_iter > 0) ||
        t->n == TIMES_MAX)
        return;
    t->at[t->n].iteration = m->iteration.iteration;
    t->at[t->n++].t_iter_s = m->iteration.t_iter;
}

static struct throughput_rate rate_of(const struct ctld *c,
                                      const struct job *job)
{
    const struct throughput *m = engine_throughput(c->engine, job);
    const struct throughput_rate none = {.per_s = NAN};

    return m && job->nodes > 0
               ? throughput_rate(m, job->nodes, job->gpus / job->nodes)
               : none;
}

/* Before the first iteration of the attempt is told. */
static void predict(const struct ctld *c, struct attempt_metrics *i,
                    const struct job *job)
{
    struct throughput_rate r = rate_of(c, job);

    i->is_compared = true;
    i->predicted_per_s = r.basis == RATE_MEASURED ? (double)NAN : r.per_s;
}

/* So many iterations tell the rate well enough. */
enum { COMPARE_N = 10 };
static void compare(struct ctld *c, struct attempt_metrics *i,
                    const struct job *job)
{
    struct throughput_rate r = rate_of(c, job);

    if (!isfinite(i->predicted_per_s) || r.basis != RATE_MEASURED ||
        r.n < COMPARE_N)
        return;
    c->stats.predictions++;
    c->stats.prediction_error += fabs(i->predicted_per_s / r.per_s - 1);
    i->predicted_per_s = NAN;
}

void teach_times(struct ctld *c, struct attempt_metrics *i,
                 const struct iteration_times *t)
{
    const struct job *job = engine_job(c->engine, i->job);
    size_t n = 0;

    if (!job || t->n == 0 || job->attempt != i->attempt)
        return;
    if (!i->is_compared)
        predict(c, i, job);
    for (size_t k = 0; k < t->n; k++) {
        struct error err = ERROR_INIT;
        int64_t iteration = t->at[k].iteration;
        if (iteration <= i->taught)
            continue;
        i->taught = iteration;
        if (engine_teach_iterations(c->engine, i->job, i->attempt,
                                    iteration - 1, 1, t->at[k].t_iter_s,
                                    &err) < 0) {
            log_warn("metrics",
                     "cannot record the speed of a job job=%llu why=\"%s\"",
                     (unsigned long long)i->job, err.msg);
            return;
        }
        n++;
    }
    compare(c, i, job);
    scaling_guess_note(c, i, job, n);
}

/* ---- lengths ---------------------------------------------------------------
 */
static int64_t int_at(const json_t *o, const char *section, const char *key)
{
    return json_integer_value(
        json_object_get(json_object_get(o, section), key));
}

/* Images of MNIST's training files. */
enum { MNIST_SAMPLES = 60000 };
static int64_t samples_of(const json_t *spec)
{
    const json_t *train = json_object_get(spec, "train");
    const json_t *dataset = json_object_get(spec, "dataset");
    const char *source = json_string_value(json_object_get(dataset, "source"));
    int64_t n = int_at(train, "dataset", "samples");

    if (n <= 0)
        n = int_at(spec, "dataset", "train_samples");
    return n <= 0 && source && strcmp(source, "mnist") == 0 ? MNIST_SAMPLES : n;
}

int64_t teach_iterations_of(const char *spec)
{
    json_t *o = json_loads(spec ? spec : "", 0, NULL);
    int64_t epochs = int_at(o, "train", "epochs");
    int64_t most = int_at(o, "train", "max_steps_per_epoch");
    int64_t batch = int_at(o, "train", "global_batch_size");
    int64_t parts = int_at(o, "train", "gradient_accumulation_steps");
    int64_t samples = samples_of(o);

    if (batch <= 0)
        batch = int_at(o, "train", "batch_size") * (parts > 0 ? parts : 1);
    int64_t steps =
        samples > 0 && batch > 0 ? (samples + batch - 1) / batch : 0;
    if (most > 0 && (steps == 0 || most < steps))
        steps = most;
    const int64_t limit = int_at(o, "train", "max_iterations");
    const bool trains = !json_is_true(
        json_object_get(json_object_get(o, "train"), "eval_only"));
    json_decref(o);
    const int64_t all =
        epochs > 0 && steps < INT64_MAX / epochs ? epochs * steps : 0;
    if (!trains)
        return 0;
    return limit > 0 && (all == 0 || limit < all) ? limit : all;
}

static void teach_length(struct ctld *c, const struct job *job)
{
    if (strcmp(job->kind, "command") != 0 && !job->is_run)
        engine_teach_length(c->engine, job->id, teach_iterations_of(job->spec));
}

/* ---- at the start ----------------------------------------------------------
 */
struct size {
    char *class; /* owned */
    char gpu_type[32];
    struct throughput_row row;
};

struct recall {
    struct task task;
    struct ctld *c;
    struct size *sizes; /* owned */
    size_t n, cap;
    struct error err;
    int rc;
};

static int size_row(void *arg, const struct store_cell *cells, size_t n,
                    struct error *err)
{
    struct recall *r = arg;
    const char *class = store_cell_text(cells, n, "class");
    const char *gpu_type = store_cell_text(cells, n, "gpu_type");
    const char *basis = store_cell_text(cells, n, "basis");
    const int64_t gpus = store_cell(cells, n, "gpus")->i,
                  nodes = store_cell(cells, n, "nodes")->i;
    const double sd = store_cell_real(cells, n, "t_iter_sd");

    if (basis == NULL || strcmp(basis, "measured") != 0)
        return 0; /* the model makes its own guesses */
    if (r->n == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 64;
        struct size *p = realloc(r->sizes, cap * sizeof(*p));
        if (!p)
            return error_set(err, ERR_NOMEM, "speeds");
        r->sizes = p;
        r->cap = cap;
    }
    struct size s = {.class = class ? strdup(class) : NULL};
    if (!s.class)
        return error_set(err, ERR_NOMEM, "speeds");
    (void)snprintf(s.gpu_type, sizeof(s.gpu_type), "%s",
                   gpu_type ? gpu_type : "");
    s.row.mean_s = store_cell_real(cells, n, "t_iter");
    s.row.n = store_cell(cells, n, "n")->i;
    s.row.var_s2 = isfinite(sd) ? sd * sd : 0;
    s.row.nodes = (int32_t)nodes;
    s.row.per_node = nodes > 0 ? (int32_t)(gpus / nodes) : 0;
    r->sizes[r->n++] = s;
    return 0;
}

static void recall_run(struct task *t)
{
    struct recall *r = (struct recall *)t;
    struct store *s = r->c->parts.store;
    const struct store_query q = {.view = VIEW_SCALING};

    r->rc = s->metrics->query(s, &q, size_row, r, &r->err);
}

bool teach_class_is_weak(const char *class)
{
    if (strncmp(class, "command/", 8) == 0 ||
        strncmp(class, "program/", 8) == 0)
        return false;
    for (const char *p = class; (p = strstr(p, "/b")) != NULL; p += 2) {
        size_t n = strspn(p + 2, "0123456789");
        if (n > 0)
            return strncmp(p + 2 + n, "-g", 2) != 0;
    }
    return true;
}

static void recall_done(struct task *t)
{
    struct recall *r = (struct recall *)t;
    size_t n_taught = 0, n_over = 0;

    if (r->rc < 0)
        log_warn("metrics", "cannot read the speeds of earlier jobs why=\"%s\"",
                 r->err.msg);
    for (size_t i = 0; i < r->n; i++) {
        const struct size *s = &r->sizes[i];
        struct error err = ERROR_INIT;
        /* A size of unequal nodes, or without a time, is none of a model. */
        n_taught +=
            engine_teach(r->c->engine, s->class, s->gpu_type,
                         teach_class_is_weak(s->class), &s->row, &err) == 0;
        n_over += err.code == ERR_LIMIT;
        free(s->class);
    }
    if (n_over > 0)
        log_warn("metrics", "no room for the speeds of earlier jobs sizes=%zu",
                 n_over);
    if (n_taught > 0)
        log_info("metrics", "read the speeds of earlier jobs sizes=%zu",
                 n_taught);
    free(r->sizes);
    free(r);
}

static int recall(struct ctld *c, struct error *err)
{
    struct recall *r = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, ERR_NOMEM, "speeds");
    r->task = (struct task){.run = recall_run, .done = recall_done};
    r->c = c;
    if (work_queue_post(c->reader, &r->task, err) < 0) {
        free(r);
        return -1;
    }
    c->has_recalled = true;
    return 0;
}

static bool needs_speeds(const struct ctld *c, const struct job *job)
{
    bool has_range =
        job->gpus_min < job->gpus_max || job->nodes_min < job->nodes_max;

    return has_range && !c->has_recalled &&
           engine_policy(c->engine) == &policy_goodput;
}

/* NULL: after the last. */
static const struct job *next_active(const struct ctld *c, uint64_t after)
{
    const struct job *job = engine_next_since(c->engine, after, INFINITY);

    while (job && job_state_is_final(job->state))
        job = engine_next_since(c->engine, job->id, INFINITY);
    return job;
}

int teach_policy(struct ctld *c, struct error *err)
{
    const struct job *job = next_active(c, 0);

    while (job && !needs_speeds(c, job))
        job = next_active(c, job->id);
    return job ? recall(c, err) : 0;
}

void teach_submit(struct ctld *c, const struct job *job)
{
    struct error err = ERROR_INIT;

    teach_length(c, job);
    /* The reader has too much to do: the next job tries again. */
    if (needs_speeds(c, job) && recall(c, &err) < 0)
        log_warn("metrics", "cannot read the speeds of earlier jobs why=\"%s\"",
                 err.msg);
}

int teach_begin(struct ctld *c, struct error *err)
{
    for (const struct job *job = next_active(c, 0); job;
         job = next_active(c, job->id))
        teach_length(c, job);
    return teach_policy(c, err);
}
