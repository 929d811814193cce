/* scaling_law.c - see scaling_law.h. */
#include "scheduler/sim/trace/scaling_law.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/scalar.h"

static const double GPUS_MAX = 65536, SPEEDUP_MAX = 65536;

static int bad(const char *text, struct error *err)
{
    return error_set(err, ERR_USAGE,
                     "--scaling: '%.60s' is not linear, amdahl:PART in 0..1, "
                     "power:EXPONENT in 0..1 or table:FILE",
                     text);
}

static int read_table(struct lines *l, struct scaling_law *ret,
                      struct error *err)
{
    struct scaling_law law = {.kind = LAW_TABLE};

    while (lines_next(l, ',')) {
        double gpus, speedup;
        if (lines_count(l, 2, "gpus,speedup", err) < 0 ||
            lines_real(l, 0, "gpus", 1, GPUS_MAX, &gpus, err) < 0 ||
            lines_real(l, 1, "speedup", 1e-3, SPEEDUP_MAX, &speedup, err) < 0)
            return -1;
        if (law.n == LAW_ROWS_MAX)
            return lines_error(l, 0, err, "over %d lines", LAW_ROWS_MAX);
        if (law.n == 0 && (gpus > 1 || speedup < 1 || speedup > 1))
            return lines_error(l, 0, err, "the first line is not 1,1");
        if (law.n > 0 && gpus <= law.rows[law.n - 1].gpus)
            return lines_error(l, 0, err,
                               "gpus: not more than in the line "
                               "before");
        law.rows[law.n].gpus = gpus;
        law.rows[law.n++].speedup = speedup;
    }
    if (law.n == 0)
        return error_set(err, ERR_INVAL, "%s: no line of gpus,speedup",
                         l->file);
    *ret = law;
    return 0;
}

static int open_table(const char *file, struct scaling_law *ret,
                      struct error *err)
{
    struct lines l;

    if (lines_open(&l, file, err) < 0)
        return -1;
    int rc = read_table(&l, ret, err);
    lines_clear(&l);
    return rc;
}

int scaling_law_parse(const char *text, struct scaling_law *ret,
                      struct error *err)
{
    static const char amdahl[] = "amdahl:", power[] = "power:",
                      table[] = "table:";
    struct scaling_law law = {.kind = LAW_POWER, .x = 1};
    const char *value = text + strcspn(text, ":") + 1;

    if (strncmp(text, table, strlen(table)) == 0)
        return open_table(value, ret, err);
    if (strncmp(text, amdahl, strlen(amdahl)) == 0)
        law.kind = LAW_AMDAHL;
    else if (strcmp(text, "linear") != 0 &&
             strncmp(text, power, strlen(power)) != 0)
        return bad(text, err);
    if (strcmp(text, "linear") != 0 &&
        (scalar_float(value, &law.x) < 0 || !(law.x >= 0 && law.x <= 1)))
        return bad(text, err);
    *ret = law;
    return 0;
}

/* The speed on n >= 1 GPUs, in units of that of one. */
static double speedup(const struct scaling_law *law, double n)
{
    size_t i = 0;

    switch (law->kind) {
    case LAW_AMDAHL:
        return 1 / (1 - law->x + law->x / n);
    case LAW_POWER:
        return pow(n, law->x);
    case LAW_TABLE:
        break;
    }
    while (i + 1 < law->n && law->rows[i + 1].gpus <= n)
        i++;
    if (i + 1 == law->n)
        return law->rows[i].speedup;
    double part =
        (n - law->rows[i].gpus) / (law->rows[i + 1].gpus - law->rows[i].gpus);
    return law->rows[i].speedup +
           part * (law->rows[i + 1].speedup - law->rows[i].speedup);
}

/* ---- speed ----------------------------------------------------------------
 */
struct law_speed {
    struct speed base;
    struct scaling_law law;
};

static int prepare(struct speed *s, struct sim_job *job, struct error *err)
{
    (void)s;
    (void)job;
    (void)err;
    return 0;
}

static double unit_s(const struct speed *s, const struct sim_job *job,
                     const struct speed_place *p, double done,
                     double *ret_until)
{
    const struct scaling_law *law = &((const struct law_speed *)s)->law;
    double gpus = (double)p->nodes * p->per_node;

    (void)done;
    *ret_until = INFINITY;
    if (!(gpus >= 1) || job->work_gpus < 1)
        return NAN;
    return speedup(law, job->work_gpus) / speedup(law, gpus);
}

/* The recorded length has the first start in it. */
static double restart_s(const struct speed *s, const struct sim_job *job,
                        int32_t attempt)
{
    (void)s;
    (void)job;
    return attempt <= 1 ? 0 : (double)NAN;
}

static void destroy(struct speed *s)
{
    free(s);
}

static const struct speed_ops ops = {
    .name = "law",
    .prepare = prepare,
    .unit_s = unit_s,
    .restart_s = restart_s,
    .beats = true,
    .destroy = destroy,
};

int scaling_law_speed(const struct scaling_law *law, struct speed **ret,
                      struct error *err)
{
    struct law_speed *s = calloc(1, sizeof(*s));

    if (!s)
        return error_set(err, ERR_NOMEM, "speed");
    s->base.ops = &ops;
    s->law = *law;
    *ret = &s->base;
    return 0;
}
