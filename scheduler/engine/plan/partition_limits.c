/* partition_limits.c - refuse jobs that their partition never takes: too long,
 * on too many nodes, or charged to an account or a QOS that it does not allow;
 * and the time limit of those that name none.
 *
 * Slurm accepts some of these and keeps them pending for ever; and a job that
 * waits in our queue would learn of it only when its turn has come. What the
 * job leaves to Slurm, such as its account, is not checked.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "jobs/text/scalar.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"

/* in  list  "a,b"
 *     same  as strncmp(3): Slurm ignores the case of accounts and QOSes, and
 *           not that of partitions */
static bool has(const char *list, const char *word,
                int (*same)(const char *a, const char *b, size_t n))
{
    size_t n = strlen(word);
    for (const char *p = list; *p;) {
        size_t len = strcspn(p, ",");
        if (len == n && same(p, word, n) == 0)
            return true;
        p += len + (p[len] == ',');
    }
    return false;
}

static int refuse_name(const char *what, const char *name, const char *allow,
                       const char *deny, const char *part, struct error *err)
{
    if (!name || (!allow[0] && !deny[0]) ||
        has(allow[0] ? allow : deny, name, strncasecmp) == (allow[0] != '\0'))
        return 0;
    return allow[0]
               ? error_set(err, ERR_INVAL,
                           "%s '%s' may not use partition %s, which takes %s",
                           what, name, part, allow)
               : error_set(err, ERR_INVAL, "%s '%s' may not use partition %s",
                           what, name, part);
}

/* As Slurm writes it: "30:00", "1-00:00:00". */
static void show_minutes(int32_t minutes, char *out, size_t cap)
{
    int32_t days = minutes / 1440, rest = minutes % 1440;
    if (days > 0)
        (void)snprintf(out, cap, "%" PRId32 "-%02" PRId32 ":%02" PRId32 ":00",
                       days, rest / 60, rest % 60);
    else
        (void)snprintf(out, cap, "%02" PRId32 ":%02" PRId32 ":00", rest / 60,
                       rest % 60);
}

static int check_one(const struct alloc_partition *p, const struct job *job,
                     const struct alloc_where *w, struct error *err)
{
    char limit[SCALAR_CAP], most[32];
    bool counts = !w->qos; /* a QOS may override limits of partitions */

    if (counts && p->max_minutes > 0 && job->limit_s > 60.0 * p->max_minutes &&
        job->limit_s < (double)INT32_MAX) {
        show_minutes(p->max_minutes, most, sizeof(most));
        return error_set(
            err, ERR_INVAL, "time limit %s is above the %s of partition %s",
            scalar_show_duration(limit, job->limit_s), most, p->name);
    }
    if (counts && p->max_nodes > 0 && job->nodes_min > p->max_nodes)
        return error_set(err, ERR_INVAL,
                         "%" PRId32 " nodes are more than the %" PRId32
                         " that partition %s gives to a job",
                         job->nodes_min, p->max_nodes, p->name);
    return refuse_name("account", w->account, p->allow_accounts,
                       p->deny_accounts, p->name, err) < 0
               ? -1
               : refuse_name("QOS", w->qos, p->allow_qos, p->deny_qos, p->name,
                             err);
}

static bool is_meant(const struct alloc_where *w,
                     const struct alloc_partition *p)
{
    return w->partition ? has(w->partition, p->name, strncmp) : p->is_default;
}

int eng_partition_check(const struct engine *e, const struct job *job,
                        struct error *err)
{
    struct alloc *a = e->parts.alloc;
    const struct alloc_where w = eng_where(e->parts.conf, job, 1);
    const struct alloc_partition *parts = NULL;
    size_t n = a->ops->partitions ? a->ops->partitions(a, &parts) : 0;
    struct error first = ERROR_INIT;

    for (size_t i = 0; i < n; i++) {
        struct error why = ERROR_INIT;
        if (!is_meant(&w, &parts[i]))
            continue;
        if (check_one(&parts[i], job, &w, &why) == 0)
            return 0; /* one of several is enough */
        if (first.code == ERR_NONE)
            first = why;
    }
    return first.code == ERR_NONE
               ? 0
               : error_set(err, first.code,
                           "can never start: %s; --force-queue keeps it "
                           "pending [E201]",
                           first.msg);
}

double eng_partition_limit_s(const struct engine *e, const struct job *job,
                             const char **ret)
{
    struct alloc *a = e->parts.alloc;
    const struct alloc_where w = eng_where(e->parts.conf, job, 1);
    const struct alloc_partition *parts = NULL;
    size_t n = a->ops->partitions ? a->ops->partitions(a, &parts) : 0;
    double least_s = (double)INFINITY;

    for (size_t i = 0; i < n; i++) {
        double limit_s = 60.0 * parts[i].default_minutes;
        if (limit_s <= 0 || limit_s >= least_s || !is_meant(&w, &parts[i]))
            continue;
        least_s = limit_s;
        *ret = parts[i].name;
    }
    return least_s;
}
