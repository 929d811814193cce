/* feasibility.c - refuse jobs that can never fit the cluster.
 *
 * The check runs at submit, so that no job is pending without end. Nodes that
 * are down and reservations are ignored: both end. Without an inventory nothing
 * is known, and the job is accepted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/text/scalar.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/policy/placement.h"

/* Ends every refusal here that is not for a user limit. */
#define KEEP "; --force-queue keeps it pending [E201]"

static bool any_fits(const struct engine *e, const struct alloc_where *w,
                     bool has_gpus)
{
    for (size_t i = 0; i < e->n_nodes; i++) {
        if (eng_node_fits(e, i, w, has_gpus, false))
            return true;
    }
    return false;
}

/* "a100, h100": the GPU types of the nodes that w allows. */
static int list_types(const struct engine *e, const struct alloc_where *w,
                      struct buf *out, struct error *err)
{
    for (size_t i = 0; i < e->n_nodes; i++) {
        const char *type = e->nodes[i].gpu_type;
        bool is_known = type[0] == '\0' || !eng_node_fits(e, i, w, true, false);
        for (size_t k = 0; k < i && !is_known; k++)
            is_known = strcmp(e->nodes[k].gpu_type, type) == 0 &&
                       eng_node_fits(e, k, w, true, false);
        if (!is_known && (buf_addstr(out, out->len ? ", " : "", err) < 0 ||
                          buf_addstr(out, type, err) < 0))
            return -1;
    }
    return 0;
}

static int refuse_type(const struct engine *e, const struct alloc_where *w,
                       struct error *err)
{
    const struct alloc_where any = {.partition = w->partition};
    struct buf types = BUF_INIT;
    int rc = list_types(e, &any, &types, err);

    if (rc == 0)
        rc = error_set(err, ERR_INVAL,
                       "can never fit: no node%s%s has GPUs of type '%s'; "
                       "there is: %s" KEEP,
                       w->partition ? " of partition " : "",
                       w->partition ? w->partition : "", w->gpu_type,
                       types.len ? buf_str(&types) : "none");
    buf_clear(&types);
    return rc;
}

/* "a100 40G, t4 15360M": GPU types and memory of the nodes that w allows; w has
 * no memory request. */
static int list_memory(const struct engine *e, const struct alloc_where *w,
                       struct buf *out, struct error *err)
{
    for (size_t i = 0; i < e->n_nodes; i++) {
        const struct alloc_node *n = &e->nodes[i];
        char size[SCALAR_CAP];
        bool is_known =
            n->gpus_total < 1 || !eng_node_fits(e, i, w, true, false);
        for (size_t k = 0; k < i && !is_known; k++)
            is_known = strcmp(e->nodes[k].gpu_type, n->gpu_type) == 0 &&
                       e->nodes[k].gpu_bytes == n->gpu_bytes &&
                       eng_node_fits(e, k, w, true, false);
        if (!is_known &&
            buf_addf(out, err, "%s%s %s", out->len > 0 ? ", " : "", n->gpu_type,
                     scalar_show_size(size, n->gpu_bytes)) < 0)
            return -1;
    }
    return 0;
}

static int refuse_memory(const struct engine *e, const struct alloc_where *w,
                         const struct alloc_where *any, struct error *err)
{
    struct buf has = BUF_INIT;
    char asked[SCALAR_SIZES_CAP];
    int rc = list_memory(e, any, &has, err);

    if (rc == 0)
        rc = error_set(
            err, ERR_INVAL,
            "can never fit: no such node has GPUs of %s each; there is: "
            "%s" KEEP,
            scalar_show_sizes(asked, w->gpu_min_bytes, w->gpu_max_bytes),
            has.len > 0 ? buf_str(&has) : "none");
    buf_clear(&has);
    return rc;
}

/* Names the first of the job's requests for placement that no node meets; 0 if
 * some node meets all of them. */
static int refuse_words(const struct engine *e, const struct alloc_where *w,
                        bool has_gpus, struct error *err)
{
    struct alloc_where some = {.partition = w->partition};

    if (!any_fits(e, &some, has_gpus))
        return error_set(err, ERR_INVAL,
                         "can never fit: no node is in %s%s" KEEP,
                         w->partition ? "partition " : "the default partition",
                         w->partition ? w->partition : "");
    some.gpu_type = w->gpu_type;
    if (!any_fits(e, &some, has_gpus))
        return refuse_type(e, w, err);
    const struct alloc_where before = some;
    some.gpu_min_bytes = w->gpu_min_bytes;
    some.gpu_max_bytes = w->gpu_max_bytes;
    if (!any_fits(e, &some, has_gpus))
        return refuse_memory(e, w, &before, err);
    some.constraint = w->constraint;
    if (!any_fits(e, &some, has_gpus))
        return error_set(
            err, ERR_INVAL,
            "can never fit: no such node has the features '%s'" KEEP,
            w->constraint);
    return 0;
}

/* "1 node", "2 to 4 nodes of 4 each" */
static void describe_need(const struct job *job, char *out, size_t cap)
{
    char each[24] = "";
    if (job->per_node > 0)
        (void)snprintf(each, sizeof(each), " of %" PRId32 " each",
                       job->per_node);
    if (job->nodes_min < job->nodes_max)
        (void)snprintf(out, cap, "%" PRId32 " to %" PRId32 " nodes%s",
                       job->nodes_min, job->nodes_max, each);
    else
        (void)snprintf(out, cap, "%" PRId32 " node%s%s", job->nodes_min,
                       job->nodes_min == 1 ? "" : "s", each);
}

/* GPU counts of the nodes that w allows. */
struct size {
    int32_t largest, n;
    int64_t all;
};

static struct size size_of(const struct engine *e, const struct alloc_where *w,
                           bool has_gpus)
{
    struct size s = {0};
    for (size_t i = 0; i < e->n_nodes; i++) {
        int32_t gpus = e->nodes[i].gpus_total;
        if (!eng_node_fits(e, i, w, has_gpus, false))
            continue;
        s.n++;
        s.all += gpus;
        s.largest = gpus > s.largest ? gpus : s.largest;
    }
    return s;
}

/* w with the k-th GPU type. */
static struct alloc_where of_type(const struct engine *e,
                                  const struct alloc_where *w, size_t k)
{
    struct alloc_where there = *w;
    there.gpu_type = e->nodes[e->classes.of_type[k]].gpu_type;
    return there;
}

/* The sizes for the GPU type with the most GPUs. */
static struct size size_of_one_type(const struct engine *e,
                                    const struct alloc_where *w)
{
    struct size most = {0};
    for (size_t k = 0; k < e->classes.n_types; k++) {
        const struct alloc_where there = of_type(e, w, k);
        struct size s = size_of(e, &there, true);
        most = s.all > most.all ? s : most;
    }
    return most;
}

static int refuse_size(const struct engine *e, const struct job *job,
                       const struct alloc_where *w, struct error *err)
{
    bool one_type = eng_wants_type(e, job);
    struct size s =
        one_type ? size_of_one_type(e, w) : size_of(e, w, job->gpus_max > 0);
    const char *type = w->gpu_type && job->gpus_max > 0 ? w->gpu_type : "";
    const char *of = *type ? " of type " : one_type ? " of one type" : "";
    const char *part =
        w->partition && e->classes.has_partitions ? w->partition : "";
    char needs[64], has[96];
    describe_need(job, needs, sizeof(needs));
    if (s.n == 1)
        (void)snprintf(has, sizeof(has), "has %" PRId64, s.all);
    else
        (void)snprintf(has, sizeof(has),
                       "has %" PRId32 ", all %" PRId32
                       " together have %" PRId64,
                       s.largest, s.n, s.all);
    return error_set(err, ERR_INVAL,
                     "can never fit: needs %" PRId32 " GPU%s%s%s on %s; the "
                     "%s node%s%s %s; %s" KEEP,
                     job->gpus_min, job->gpus_min == 1 ? "" : "s", of, type,
                     needs, s.n == 1 ? "only" : "largest",
                     *part ? " of partition " : "", part, has,
                     s.all >= job->gpus_min ? "raise resources.nodes"
                                            : "lower resources.gpus");
}

int eng_feasibility_check(const struct engine *e, const struct job *job,
                          struct error *err)
{
    const struct alloc_where w = eng_where(e->parts.conf, job, 1);
    bool has_gpus = job->gpus_max > 0;
    struct policy_job pj = {.gpus_min = job->gpus_min,
                            .gpus_max = job->gpus_max,
                            .nodes_min = job->nodes_min,
                            .nodes_max = job->nodes_max,
                            .per_node = job->per_node,
                            .parts = job->parts,
                            .classes_ever = 1};

    if (e->n_nodes == 0)
        return 0;
    if (refuse_words(e, &w, has_gpus, err) < 0 ||
        eng_partition_check(e, job, err) < 0)
        return -1;
    struct policy_node *nodes = calloc(e->n_nodes, sizeof(*nodes));
    if (!nodes)
        return error_set(err, ERR_NOMEM, "out of memory");
    bool one_type = eng_wants_type(e, job);
    for (size_t i = 0; i < e->n_nodes; i++)
        nodes[i].gpus_total = e->nodes[i].gpus_total;
    bool fits = false;
    for (size_t k = 0; !fits && k < (one_type ? e->classes.n_types : 1); k++) {
        const struct alloc_where there = one_type ? of_type(e, &w, k) : w;
        for (size_t i = 0; i < e->n_nodes; i++)
            nodes[i].class_id = !eng_node_fits(e, i, &there, has_gpus, false);
        fits = place_ever(nodes, e->n_nodes, &pj, true);
    }
    free(nodes);
    return fits ? 0 : refuse_size(e, job, &w, err);
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool wants_same(const struct job *a, const struct job *b)
{
    return a->gpus_min == b->gpus_min && a->gpus_max == b->gpus_max &&
           a->nodes_min == b->nodes_min && a->nodes_max == b->nodes_max &&
           a->per_node == b->per_node && a->parts == b->parts &&
           a->where.exclusive == b->where.exclusive &&
           !(a->limit_s < b->limit_s || a->limit_s > b->limit_s) &&
           same_text(a->where.account, b->where.account) &&
           same_text(a->where.qos, b->where.qos) &&
           eng_same_where(&a->where, &b->where);
}

int eng_feasibility_check_as(const struct engine *e, const struct job *job,
                             struct fit_memo *memo, struct error *err)
{
    for (size_t i = 0; memo && i < FIT_MEMO && memo->of[i]; i++)
        if (wants_same(memo->of[i], job))
            return 0;
    if (eng_feasibility_check(e, job, err) < 0)
        return -1;
    if (memo)
        memo->of[memo->next++ % FIT_MEMO] = job;
    return 0;
}
