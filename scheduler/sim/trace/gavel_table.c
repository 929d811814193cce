/* gavel_table.c - throughputs of Gavel, JSON: GPU type, job type with scale
 * factor, "null" for a job that runs alone, in steps a second.
 *
 * A cluster without GPU types has "v100", the one of the file's first
 * experiments. Over several nodes the type is "<type>_unconsolidated". */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/trace/speed.h"

struct gavel_table {
    struct speed base;
    json_t *types;
};

static double rate_of(const struct gavel_table *t, const struct sim_job *job,
                      const char *gpu_type, int32_t gpus, bool is_spread)
{
    char type[80], key[SIM_CLASS_CAP + 32];

    (void)snprintf(type, sizeof(type), "%.31s%s",
                   gpu_type[0] ? gpu_type : "v100",
                   is_spread ? "_unconsolidated" : "");
    (void)snprintf(key, sizeof(key), "('%s', %d)", job->class, (int)gpus);
    const json_t *of = json_object_get(json_object_get(t->types, type), key);
    return json_number_value(json_object_get(of, "null"));
}

static double gavel_unit_s(const struct speed *s, const struct sim_job *job,
                           const struct speed_place *p, double done,
                           double *ret_until)
{
    const struct gavel_table *t = (const struct gavel_table *)s;
    int32_t gpus = p->nodes * p->per_node;
    double rate = rate_of(t, job, p->gpu_type, gpus, p->nodes > 1);

    (void)done;
    *ret_until = INFINITY;
    if (!(rate > 0) && p->nodes > 1)
        rate = rate_of(t, job, p->gpu_type, gpus, false);
    return rate > 0 && isfinite(rate) ? 1 / rate : (double)NAN;
}

static int gavel_prepare(struct speed *s, struct sim_job *job,
                         struct error *err)
{
    const struct gavel_table *t = (const struct gavel_table *)s;
    const char *type;
    json_t *value;

    json_object_foreach(t->types, type, value)
    {
        if (rate_of(t, job, type, job->gpus_min, false) > 0)
            return 0;
    }
    return error_set(err, ERR_INVAL,
                     "job '%s': the table has no throughput of ('%s', %d)",
                     job->name, job->class, (int)job->gpus_min);
}

static void gavel_destroy(struct speed *s)
{
    struct gavel_table *t = (struct gavel_table *)s;

    if (!t)
        return;
    json_decref(t->types);
    free(t);
}

static const struct speed_ops gavel_ops = {
    .name = "gavel",
    .prepare = gavel_prepare,
    .unit_s = gavel_unit_s,
    .beats = true,
    .destroy = gavel_destroy,
};

int gavel_table_read(const char *file, const char *text, size_t len,
                     struct speed **ret, struct error *err)
{
    json_error_t why;
    struct gavel_table *t = calloc(1, sizeof(*t));

    if (!t)
        return error_set(err, ERR_NOMEM, "table");
    t->base.ops = &gavel_ops;
    t->types = json_loadb(text, len, 0, &why);
    if (!t->types || !json_is_object(t->types)) {
        int line = t->types ? 1 : why.line, column = t->types ? 1 : why.column;
        const char *what = t->types ? "not a JSON object" : why.text;
        gavel_destroy(&t->base);
        return error_set(err, ERR_INVAL, "%s:%d:%d: %s", file, line, column,
                         what);
    }
    *ret = &t->base;
    return 0;
}
