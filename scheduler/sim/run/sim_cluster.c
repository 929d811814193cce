/* sim_cluster.c - see sim_cluster.h. */
#include "scheduler/sim/run/sim_cluster.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 65536, GPUS_MAX = 1024 };

static int bad(const char *text, struct error *err)
{
    return error_set(err, ERR_USAGE,
                     "--cluster: '%.60s' is not NODESxGPUS[:TYPE][,...], such "
                     "as 4x8:h100,2x4 (nodes 1..%d, GPUs 1..%d)",
                     text, NODES_MAX, GPUS_MAX);
}

/* A number of at most 5 digits; 0: none. */
static int32_t number(const char **p)
{
    int32_t n = 0;
    for (int i = 0; i < 5 && isdigit((unsigned char)**p); i++)
        n = 10 * n + *(*p)++ - '0';
    return isdigit((unsigned char)**p) ? 0 : n;
}

/* Reads one group; NULL: it is none. */
static const char *group(const char *p, struct sim_group *ret)
{
    ret->nodes = number(&p);
    if (*p++ != 'x' || ret->nodes < 1 || ret->nodes > NODES_MAX)
        return NULL;
    ret->gpus = number(&p);
    if (ret->gpus < 1 || ret->gpus > GPUS_MAX)
        return NULL;
    if (*p != ':')
        return p;
    size_t n = strcspn(++p, ",");
    if (n == 0 || n >= sizeof(ret->type))
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)p[i]) && !strchr("_.-", p[i]))
            return NULL;
    memcpy(ret->type, p, n);
    ret->type[n] = '\0';
    return p + n;
}

int sim_cluster_parse(const char *text, struct sim_cluster *ret,
                      struct error *err)
{
    struct sim_cluster c = {.n_groups = 0};
    const char *p = text;

    if (strlen(text) >= sizeof(c.text))
        return bad(text, err);
    memcpy(c.text, text, strlen(text) + 1);
    for (;;) {
        struct sim_group *g = &c.groups[c.n_groups];
        if (c.n_groups == CLUSTER_GROUPS_MAX || !(p = group(p, g)))
            return bad(text, err);
        c.n_groups++;
        c.nodes += g->nodes;
        c.gpus_total += g->nodes * g->gpus;
        if (g->gpus > c.gpus_max)
            c.gpus_max = g->gpus;
        if (c.nodes > NODES_MAX)
            return bad(text, err);
        if (*p == '\0')
            break;
        if (*p++ != ',')
            return bad(text, err);
    }
    *ret = c;
    return 0;
}

const struct sim_group *sim_cluster_group(const struct sim_cluster *c,
                                          int32_t i)
{
    int32_t k = 0;

    while (k + 1 < c->n_groups && i >= c->groups[k].nodes)
        i -= c->groups[k++].nodes;
    return &c->groups[k];
}

struct speed_place sim_cluster_fit(const struct sim_cluster *c, int32_t gpus)
{
    for (int32_t k = 0; k < c->n_groups; k++) {
        const struct sim_group *g = &c->groups[k];
        for (int32_t n = (gpus + g->gpus - 1) / g->gpus; n <= g->nodes; n++)
            if (n > 0 && gpus % n == 0)
                return (struct speed_place){g->type, n, gpus / n};
    }
    return (struct speed_place){"", 0, 0};
}

/* The smallest size from `gpus` on that fits; 0: none does. */
static int32_t size_that_fits(const struct sim_cluster *c, int32_t gpus)
{
    for (int32_t g = gpus; g <= c->gpus_total; g++)
        if (sim_cluster_fit(c, g).nodes > 0)
            return g;
    return 0;
}

void sim_cluster_fit_jobs(const struct sim_cluster *c, struct sim_trace *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++) {
        struct sim_job *job = &t->jobs[i];
        int32_t gpus = size_that_fits(c, job->gpus_max);
        if (gpus == 0) {
            t->left_out.too_large++;
            continue;
        }
        t->left_out.rounded += gpus != job->gpus_max;
        job->gpus_min = job->gpus_max = job->work_gpus = gpus;
        t->jobs[n++] = *job;
    }
    t->n = n;
}
