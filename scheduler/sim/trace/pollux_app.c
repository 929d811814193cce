/* pollux_app.c - read the measurements of an application; see pollux_app.h. */
#include "scheduler/sim/trace/pollux_app.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 1 << 16, NODES_MAX = 64, REPLICAS_MAX = 4096 };
static const double LOCAL_MAX = 1e7, STEP_MAX_S = 1e6, STAT_MAX = 1e30;

static int add_step(struct pollux_app *a, const struct pollux_step *step,
                    struct error *err)
{
    if (a->n_steps == STEPS_MAX)
        return error_set(err, ERR_LIMIT, "%s: over %d rows", a->name,
                         STEPS_MAX);
    if (a->n_steps == a->cap_steps) {
        size_t cap = a->cap_steps ? 2 * a->cap_steps : 256;
        struct pollux_step *p = calloc(cap, sizeof(*p));
        if (!p)
            return error_set(err, ERR_NOMEM, "%zu rows", cap);
        if (a->n_steps > 0)
            memcpy(p, a->steps, a->n_steps * sizeof(*p));
        free(a->steps);
        a->steps = p;
        a->cap_steps = cap;
    }
    a->steps[a->n_steps++] = *step;
    return 0;
}

static int header(struct lines *l, const char *first, struct error *err)
{
    if (lines_next(l, ',') && strcmp(l->field[0], first) == 0)
        return 0;
    return lines_error(l, 0, err, "no header that begins with '%s'", first);
}

static int times(const struct lines *l, size_t i, struct pollux_step *step,
                 struct error *err)
{
    if (lines_real(l, i, "local_bsz", 1, LOCAL_MAX, &step->local, err) < 0 ||
        lines_real(l, i + 1, "step_time", 1e-9, STEP_MAX_S, &step->step_s,
                   err) < 0 ||
        lines_real(l, i + 2, "sync_time", 0, STEP_MAX_S, &step->sync_s, err) <
            0)
        return -1;
    return step->sync_s <= step->step_s
               ? 0
               : lines_error(l, i + 2, err, "sync_time is above step_time");
}

/* Digits of 1 to 9, one a node. */
static int nodes_of(const struct lines *l, struct pollux_step *step,
                    struct error *err)
{
    const char *s = l->field[0];
    size_t n = strspn(s, "123456789");

    if (n == 0 || n > 16 || s[n] != '\0')
        return lines_error(l, 0, err, "placement: '%.20s' is not digits of 1-9",
                           s);
    step->nodes = (int32_t)n;
    step->per_node = s[0] - '0';
    for (size_t i = 0; i < n; i++) {
        step->replicas += s[i] - '0';
        if (s[i] != s[0])
            step->per_node = 0;
    }
    return 0;
}

int pollux_app_placements(struct pollux_app *a, struct lines *l,
                          struct error *err)
{
    if (header(l, "placement", err) < 0)
        return -1;
    while (lines_next(l, ',')) {
        struct pollux_step step = {.nodes = 0};
        if (lines_count(l, 4, "placement,local_bsz,step_time,sync_time", err) <
                0 ||
            nodes_of(l, &step, err) < 0 || times(l, 1, &step, err) < 0 ||
            add_step(a, &step, err) < 0)
            return -1;
    }
    return 0;
}

int pollux_app_scalability(struct pollux_app *a, struct lines *l,
                           struct error *err)
{
    if (header(l, "num_nodes", err) < 0)
        return -1;
    while (lines_next(l, ',')) {
        struct pollux_step step = {.nodes = 0};
        int64_t nodes, replicas;
        if (lines_count(l, 5,
                        "num_nodes,num_replicas,local_bsz,step_time,sync_time",
                        err) < 0 ||
            lines_int(l, 0, "num_nodes", 1, NODES_MAX, &nodes, err) < 0 ||
            lines_int(l, 1, "num_replicas", nodes, REPLICAS_MAX, &replicas,
                      err) < 0 ||
            times(l, 2, &step, err) < 0)
            return -1;
        step.nodes = (int32_t)nodes;
        step.replicas = (int32_t)replicas;
        if (add_step(a, &step, err) < 0)
            return -1;
    }
    return 0;
}

int pollux_app_validation(struct pollux_app *a, int32_t batch, struct lines *l,
                          struct error *err)
{
    if (a->n_validations == POLLUX_BATCHES_MAX)
        return error_set(err, ERR_LIMIT, "%s: over %d batch sizes", a->name,
                         POLLUX_BATCHES_MAX);
    if (!a->validations)
        a->validations = calloc(POLLUX_BATCHES_MAX, sizeof(*a->validations));
    if (!a->validations)
        return error_set(err, ERR_NOMEM, "validations");
    struct pollux_validation *v = &a->validations[a->n_validations++];
    *v = (struct pollux_validation){.batch = batch};
    if (header(l, "progress", err) < 0)
        return -1;
    while (lines_next(l, ',')) {
        double least = v->n > 0 ? v->progress[v->n - 1] : 0;
        if (v->n == POLLUX_EPOCHS_MAX)
            return lines_error(l, 0, err, "over %d epochs", POLLUX_EPOCHS_MAX);
        if (lines_count(l, 5, "progress,iteration,metric,grad_sqr,grad_var",
                        err) < 0 ||
            lines_real(l, 0, "progress", least, STAT_MAX, &v->progress[v->n],
                       err) < 0 ||
            lines_real(l, 3, "grad_sqr", 0, STAT_MAX, &v->grad_sqr[v->n], err) <
                0 ||
            lines_real(l, 4, "grad_var", 0, STAT_MAX, &v->grad_var[v->n], err) <
                0)
            return -1;
        v->n++;
    }
    return 0;
}

static int by_size(const void *a, const void *b)
{
    const struct pollux_step *x = a, *y = b;
    if (x->nodes != y->nodes)
        return x->nodes < y->nodes ? -1 : 1;
    if (x->replicas != y->replicas)
        return x->replicas < y->replicas ? -1 : 1;
    if (x->per_node != y->per_node)
        return x->per_node > y->per_node ? -1 : 1;
    return x->local < y->local ? -1 : x->local > y->local;
}

static int by_batch(const void *a, const void *b)
{
    int32_t x = ((const struct pollux_validation *)a)->batch;
    int32_t y = ((const struct pollux_validation *)b)->batch;
    return (x > y) - (x < y);
}

/* Epochs to the target, and limits of memory, as the simulator of Pollux has
 * them. */
static const struct {
    const char *name;
    int32_t epochs;
    double max_local;
} known[] = {
    {"bert", 2, 0},      {"cifar10", 100, 0},    {"ncf", 10, 0},
    {"imagenet", 90, 0}, {"deepspeech2", 80, 0}, {"yolov3", 50, 8},
};

int pollux_app_finish(struct pollux_app *a, struct error *err)
{
    if (a->n_steps == 0 || a->n_validations == 0)
        return error_set(err, ERR_INVAL,
                         "application '%s': no placement, or no validation",
                         a->name);
    qsort(a->steps, a->n_steps, sizeof(*a->steps), by_size);
    qsort(a->validations, a->n_validations, sizeof(*a->validations), by_batch);
    a->first_batch = a->validations[0].batch;
    a->last_batch = a->validations[a->n_validations - 1].batch;
    a->epochs = POLLUX_EPOCHS_MAX;
    for (size_t i = 0; i < a->n_validations; i++)
        if (a->validations[i].n < a->epochs)
            a->epochs = a->validations[i].n;
    a->min_local = INFINITY;
    for (size_t i = 0; i < a->n_steps; i++) {
        a->min_local = fmin(a->min_local, a->steps[i].local);
        a->max_local = fmax(a->max_local, a->steps[i].local);
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].name, a->name) != 0)
            continue;
        if (known[i].epochs < a->epochs)
            a->epochs = known[i].epochs;
        if (known[i].max_local > 0)
            a->max_local = known[i].max_local;
    }
    if (a->epochs < 1 || !(pollux_app_progress(a, a->epochs) > 0))
        return error_set(err, ERR_INVAL, "application '%s': no epoch", a->name);
    return 0;
}

void pollux_app_clear(struct pollux_app *a)
{
    free(a->steps);
    free(a->validations);
    *a = (struct pollux_app){.n_steps = 0};
}
