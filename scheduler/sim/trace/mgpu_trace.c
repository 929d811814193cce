/* mgpu_trace.c - read `mgpu:` traces, one JSON object a line, and traces of
 * Gavel, with tabs.
 *
 *   {"t":0,"name":"a","user":"anna","class":"lora","iterations":1000,
 *    "gpus":"1..4","limit_s":7200,"priority":0}
 *
 * user, program, limit_s and priority may be absent. Gavel's columns: the job
 * type, the command, an option, a flag, then steps, arrival and scale factor at
 * the end. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/sim/trace/digits.h"
#include "scheduler/sim/trace/sim_trace.h"

static const double TIME_MAX_S = 1e10, WORK_MAX = 1e15;
enum { GPUS_MAX = 65536, PRIORITY_MAX = 50 };

static int member_number(const struct lines *l, const json_t *o,
                         const char *key, double min, double max, double absent,
                         double *ret, struct error *err)
{
    const json_t *v = json_object_get(o, key);
    double x = v ? json_number_value(v) : absent;

    if ((v && !json_is_number(v)) || !(x >= min && x <= max))
        return lines_error(l, 0, err, "\"%s\" is not a number in %g..%g", key,
                           min, max);
    *ret = x;
    return 0;
}

static int member_text(const struct lines *l, const json_t *o, const char *key,
                       const char *absent, char *ret, size_t cap,
                       struct error *err)
{
    const json_t *v = json_object_get(o, key);
    const char *s = v ? json_string_value(v) : absent;

    if (!s || !*s || strlen(s) >= cap)
        return lines_error(l, 0, err, "\"%s\" is not a text of 1 to %zu bytes",
                           key, cap - 1);
    memcpy(ret, s, strlen(s) + 1);
    return 0;
}

/* "1..4", "4", or the number 4. */
static int member_gpus(const struct lines *l, const json_t *o,
                       struct sim_job *job, struct error *err)
{
    const json_t *v = json_object_get(o, "gpus");
    const char *s = json_string_value(v);
    int32_t min = 0, max = 0;

    if (json_is_integer(v) && json_integer_value(v) >= 1 &&
        json_integer_value(v) <= GPUS_MAX)
        min = max = (int32_t)json_integer_value(v);
    else if (s && digits_take(&s, GPUS_MAX, &min)) {
        max = min;
        if (strncmp(s, "..", 2) == 0) {
            s += 2;
            min = digits_take(&s, GPUS_MAX, &max) ? min : 0;
        }
        if (*s != '\0')
            min = 0;
    }
    if (min < 1 || max < min || max > GPUS_MAX)
        return lines_error(l, 0, err,
                           "\"gpus\" is not a number or a range in 1..%d, such "
                           "as \"1..4\"",
                           GPUS_MAX);
    job->gpus_min = min;
    job->gpus_max = max;
    return 0;
}

static int from_object(const struct lines *l, const json_t *o,
                       struct sim_job *job, struct error *err)
{
    double priority = 0;

    if (member_number(l, o, "t", 0, TIME_MAX_S, NAN, &job->submit_s, err) < 0 ||
        member_text(l, o, "name", NULL, job->name, sizeof(job->name), err) <
            0 ||
        member_text(l, o, "user", "trace", job->user, sizeof(job->user), err) <
            0 ||
        member_text(l, o, "class", NULL, job->class, sizeof(job->class), err) <
            0 ||
        (json_object_get(o, "program") &&
         member_text(l, o, "program", NULL, job->program, sizeof(job->program),
                     err) < 0) ||
        member_number(l, o, "iterations", 1, WORK_MAX, NAN, &job->work, err) <
            0 ||
        member_gpus(l, o, job, err) < 0 ||
        member_number(l, o, "limit_s", 0, TIME_MAX_S, 0, &job->limit_s, err) <
            0 ||
        member_number(l, o, "priority", -PRIORITY_MAX, PRIORITY_MAX, 0,
                      &priority, err) < 0)
        return -1;
    job->priority = (int32_t)priority;
    return 0;
}

int mgpu_trace_read(struct lines *l, struct sim_trace *t, struct error *err)
{
    while (lines_next(l, '\0')) {
        struct sim_job job = {.work = 0};
        json_error_t why;
        json_t *o = json_loads(l->field[0], 0, &why);
        if (!o)
            return lines_error(l, 0, err, "not a JSON object: %s", why.text);
        int rc = json_is_object(o)
                     ? from_object(l, o, &job, err)
                     : lines_error(l, 0, err, "not a JSON object");
        json_decref(o);
        if (rc < 0 || sim_trace_add(t, &job, err) < 0)
            return -1;
    }
    return 0;
}

int gavel_trace_read(struct lines *l, struct sim_trace *t, struct error *err)
{
    while (lines_next(l, '\t')) {
        struct sim_job job = {.user = "trace"};
        int64_t gpus, steps;
        size_t n = l->n;
        if (n < 6)
            return lines_error(
                l, 0, err,
                "%zu fields, expected the job type, the command, ..., steps, "
                "arrival and scale factor with tabs between",
                n);
        if (lines_name(l, 0, "job type", job.class, sizeof(job.class), err) <
                0 ||
            lines_int(l, n - 3, "steps", 1, (int64_t)WORK_MAX, &steps, err) <
                0 ||
            lines_real(l, n - 2, "arrival", 0, TIME_MAX_S, &job.submit_s, err) <
                0 ||
            lines_int(l, n - 1, "scale factor", 1, GPUS_MAX, &gpus, err) < 0)
            return -1;
        (void)snprintf(job.name, sizeof(job.name), "job-%zu", t->n + 1);
        job.work = (double)steps;
        job.gpus_min = job.gpus_max = (int32_t)gpus;
        if (sim_trace_add(t, &job, err) < 0)
            return -1;
    }
    return 0;
}
