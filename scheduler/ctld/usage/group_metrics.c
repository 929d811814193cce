/* group_metrics.c - see group_metrics.h. The number of series is bounded: what
 * does not fit any more is counted together, under "other". */
#include "scheduler/ctld/usage/group_metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/usage/pending_reasons.h"
#include "scheduler/engine/account.h"

enum { GROUPS_MAX = 256, VALUE_CAP = 64, N_LABELS = 3 };

static const char *const words[N_LABELS] = {"partition", "gpu_type", "account"};

struct group {
    char value[N_LABELS][VALUE_CAP]; /* of the labels in use, else "" */
    int64_t jobs[JOB_STATE_N], gpus;
    struct pending_reasons reasons;
};

struct groups {
    bool has[N_LABELS];
    const char *partition; /* of jobs that name none; "": not told */
    struct group *v;       /* owned; [GROUPS_MAX] */
    size_t n;
};

static const char *first_of(const char *a, const char *b)
{
    return a && a[0] ? a : b ? b : "";
}

static void name(const struct groups *g, const struct ctld *c,
                 const struct job *job, struct group *ret)
{
    const struct alloc_where *own = &job->where, *def = &c->conf.where;
    bool is_live = job_state_is_live(job->state);
    const char *type =
        first_of(job->gpu_type, first_of(own->gpu_type, def->gpu_type));
    const char *of[N_LABELS] = {
        first_of(own->partition, first_of(def->partition, g->partition)),
        is_live ? first_of(job->on_type, type) : type,
        first_of(engine_account(c->engine, job), ""),
    };
    for (int i = 0; i < N_LABELS; i++)
        if (g->has[i])
            (void)snprintf(ret->value[i], VALUE_CAP, "%s", of[i]);
}

static struct group *find(struct groups *g, const struct group *like)
{
    for (size_t i = 0; i < g->n; i++)
        if (memcmp(g->v[i].value, like->value, sizeof(like->value)) == 0)
            return &g->v[i];
    if (g->n == GROUPS_MAX)
        return &g->v[GROUPS_MAX - 1];
    struct group *new = &g->v[g->n++];
    memcpy(new->value, like->value, sizeof(new->value));
    for (int i = 0; i < N_LABELS && g->n == GROUPS_MAX; i++)
        (void)snprintf(new->value[i], VALUE_CAP, "other");
    return new;
}

static void count(struct groups *g, struct ctld *c)
{
    const struct job *j = engine_next_since(c->engine, 0, INFINITY);
    for (; j; j = engine_next_since(c->engine, j->id, INFINITY)) {
        struct group like = {.gpus = 0};
        if (job_state_is_final(j->state))
            continue;
        name(g, c, j, &like);
        struct group *at = find(g, &like);
        at->jobs[j->state]++;
        pending_reasons_add(&at->reasons, j);
        at->gpus += job_state_is_live(j->state) && j->place[0] ? j->gpus : 0;
    }
}

/* OpenMetrics wants a backslash before a backslash and a quote. */
int group_metrics_add_value(struct buf *b, const char *value)
{
    if (buf_add(b, "\"", 1, NULL) < 0)
        return -1;
    for (const char *p = value; *p; p++)
        if (((*p == '\\' || *p == '"') && buf_add(b, "\\", 1, NULL) < 0) ||
            buf_add(b, *p == '\n' ? "?" : p, 1, NULL) < 0)
            return -1;
    return buf_add(b, "\"", 1, NULL);
}

static int add_labels(const struct groups *g, const struct group *of,
                      const char *before, struct buf *b)
{
    for (int i = 0; i < N_LABELS; i++) {
        if (!g->has[i])
            continue;
        if (buf_addf(b, NULL, "%s%s=", before, words[i]) < 0 ||
            group_metrics_add_value(b, of->value[i]) < 0)
            return -1;
        before = ",";
    }
    return 0;
}

static int add_jobs(const struct groups *g, struct buf *b)
{
    int rc = buf_addstr(b,
                        "# HELP mgpu_group_jobs Jobs that have not ended, by "
                        "state and group.\n# TYPE mgpu_group_jobs gauge\n",
                        NULL);
    for (size_t i = 0; rc == 0 && i < g->n; i++)
        for (int s = 0; rc == 0 && s < JOB_STATE_N; s++) {
            if (g->v[i].jobs[s] == 0)
                continue;
            rc |= buf_addf(b, NULL, "mgpu_group_jobs{state=\"%s\"",
                           job_state_name((enum job_state)s));
            rc |= add_labels(g, &g->v[i], ",", b);
            rc |= buf_addf(b, NULL, "} %lld\n", (long long)g->v[i].jobs[s]);
        }
    return rc;
}

static int add_gpus(const struct groups *g, struct buf *b)
{
    int rc = buf_addstr(b,
                        "# HELP mgpu_group_gpus GPUs or slots that jobs of the "
                        "group have.\n# TYPE mgpu_group_gpus gauge\n",
                        NULL);
    for (size_t i = 0; rc == 0 && i < g->n; i++) {
        rc |= buf_addstr(b, "mgpu_group_gpus{", NULL);
        rc |= add_labels(g, &g->v[i], "", b);
        rc |= buf_addf(b, NULL, "} %lld\n", (long long)g->v[i].gpus);
    }
    return rc;
}

static int add_pending(const struct groups *g, struct buf *b)
{
    int rc = buf_addstr(b,
                        "# HELP mgpu_group_pending Jobs that are queued, or "
                        "pending in Slurm, by the token of their reason and "
                        "group.\n# TYPE mgpu_group_pending gauge\n",
                        NULL);
    for (size_t i = 0; rc == 0 && i < g->n; i++) {
        const struct pending_reasons *r = &g->v[i].reasons;
        for (size_t k = 0; rc == 0 && k < r->n; k++) {
            rc |= buf_addstr(b, "mgpu_group_pending{reason=", NULL);
            rc |= group_metrics_add_value(b, r->at[k].token);
            rc |= add_labels(g, &g->v[i], ",", b);
            rc |= buf_addf(b, NULL, "} %llu\n", (unsigned long long)r->at[k].n);
        }
    }
    return rc;
}

/* Borrowed until the allocator's next poll. */
static const char *default_partition(struct alloc *a)
{
    const struct alloc_partition *v = NULL;
    size_t n = a->ops->partitions ? a->ops->partitions(a, &v) : 0;
    for (size_t i = 0; i < n; i++)
        if (v[i].is_default)
            return v[i].name;
    return "";
}

int group_metrics_add(struct ctld *c, struct buf *b)
{
    const struct spec_list *labels = c->conf.metrics_labels;
    struct groups g = {.n = 0};
    if (!labels || labels->n == 0)
        return 0;
    for (size_t i = 0; i < labels->n; i++)
        for (int k = 0; k < N_LABELS; k++)
            g.has[k] = g.has[k] || strcmp(labels->items[i], words[k]) == 0;
    g.v = calloc(GROUPS_MAX, sizeof(*g.v));
    if (!g.v)
        return -1;
    g.partition = default_partition(c->parts.alloc);
    count(&g, c);
    int rc = add_jobs(&g, b) | add_pending(&g, b) | add_gpus(&g, b);
    free(g.v);
    return rc == 0 ? 0 : -1;
}
