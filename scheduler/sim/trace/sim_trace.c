/* sim_trace.c - see sim_trace.h. */
#include "scheduler/sim/trace/sim_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS_MAX = 10 << 20 };

void sim_trace_clear(struct sim_trace *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->jobs[i].spec);
        free(t->jobs[i].vary);
    }
    free(t->jobs);
    *t = (struct sim_trace){.n = 0};
}

int sim_trace_add(struct sim_trace *t, const struct sim_job *job,
                  struct error *err)
{
    if (t->n == JOBS_MAX)
        return error_set(err, ERR_LIMIT, "over %d jobs", JOBS_MAX);
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 256;
        struct sim_job *p = calloc(cap, sizeof(*p));
        if (!p)
            return error_set(err, ERR_NOMEM, "trace of %zu jobs", cap);
        if (t->n > 0)
            memcpy(p, t->jobs, t->n * sizeof(*p));
        free(t->jobs);
        t->jobs = p;
        t->cap = cap;
    }
    t->jobs[t->n++] = *job;
    return 0;
}

struct keyed {
    double submit_s;
    size_t i;
};

static int by_time(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    if (x->submit_s < y->submit_s || x->submit_s > y->submit_s)
        return x->submit_s < y->submit_s ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

int sim_trace_sort(struct sim_trace *t, struct error *err)
{
    struct keyed *keys = calloc(t->n + 1, sizeof(*keys));
    struct sim_job *sorted = calloc(t->n + 1, sizeof(*sorted));

    if (!keys || !sorted) {
        free(keys);
        free(sorted);
        return error_set(err, ERR_NOMEM, "sort %zu jobs", t->n);
    }
    for (size_t i = 0; i < t->n; i++)
        keys[i] = (struct keyed){t->jobs[i].submit_s, i};
    qsort(keys, t->n, sizeof(*keys), by_time);
    for (size_t i = 0; i < t->n; i++)
        sorted[i] = t->jobs[keys[i].i];
    free(keys);
    free(t->jobs);
    t->jobs = sorted;
    t->cap = t->n + 1;
    return 0;
}

static const struct {
    const char *name;
    int (*read)(struct lines *l, struct sim_trace *t, struct error *err);
} formats[] = {
    [TRACE_CSV] = {"csv", csv_trace_read},
    [TRACE_MGPU] = {"mgpu", mgpu_trace_read},
    [TRACE_POLLUX] = {"pollux", pollux_trace_read},
    [TRACE_GAVEL] = {"gavel", gavel_trace_read},
};

const char *trace_format_name(enum trace_format f)
{
    size_t n = sizeof(formats) / sizeof(formats[0]);
    return (size_t)f < n ? formats[f].name : NULL;
}

int sim_trace_load(enum trace_format f, const char *file, struct sim_trace *ret,
                   struct error *err)
{
    struct sim_trace t = {.n = 0};
    struct lines l;
    const char *slash = strrchr(file, '/');

    if (lines_open(&l, file, err) < 0)
        return -1;
    (void)snprintf(t.name, sizeof(t.name), "%s", slash ? slash + 1 : file);
    int rc = formats[f].read(&l, &t, err);
    if (rc == 0 && t.n == 0)
        rc = error_set(err, ERR_INVAL, "%s: no job", file);
    if (rc == 0)
        rc = sim_trace_sort(&t, err);
    lines_clear(&l);
    if (rc < 0)
        sim_trace_clear(&t);
    else
        *ret = t;
    return rc;
}
