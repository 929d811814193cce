/* node_classes.c - which nodes a job may use: the placement options of its spec
 * against the inventory.
 *
 * Nodes that differ in nothing but their size are of one class, and the policy
 * gets a mask of classes (policy.h). With more than 64 kinds of nodes, the
 * kinds from the 64th on share the last class. A job may use that class only if
 * it may use each node in it, but it counts as fitting some day if it may use
 * any of them.
 *
 * Slurm has the last word. Where its rules are not known here, the engine
 * allows every node, and the attempt is pending in Slurm: counts, brackets and
 * mixed operators in a constraint; lists that were cut to their field; the
 * default partition of a cluster that marks none.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"

/* Whether "a*,b" contains the word, with or without its star. */
static bool list_has(const char *list, const char *word, size_t len)
{
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ","), m = n;
        if (m > 0 && p[m - 1] == '*')
            m--;
        if (m == len && strncmp(p, word, len) == 0)
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

/* ---- classes of nodes ------------------------------------------------------
 */
static bool is_alike(const struct engine *e, size_t i, size_t k)
{
    const struct alloc_node *a = &e->nodes[i], *b = &e->nodes[k];
    return eng_is_more(e, i) == eng_is_more(e, k) &&
           strcmp(a->partitions, b->partitions) == 0 &&
           strcmp(a->gpu_type, b->gpu_type) == 0 &&
           a->gpu_bytes == b->gpu_bytes &&
           strcmp(a->features, b->features) == 0 &&
           strcmp(a->reservation, b->reservation) == 0 &&
           a->next_starts == b->next_starts &&
           strcmp(a->next_reservation, b->next_reservation) == 0;
}

static void mark_avoided(const struct engine *e, bool *ret)
{
    const struct record_list *l = &e->lists.avoiding;

    for (size_t k = 0; k < l->n; k++) {
        const char *list = l->at[k]->job.exclude;
        for (size_t i = 0; i < e->n_nodes; i++)
            ret[i] = ret[i] ||
                     list_has(list, e->nodes[i].name, strlen(e->nodes[i].name));
    }
}

int eng_classify(struct engine *e, struct error *err)
{
    struct node_classes c = {.n = 0};
    bool *avoided = calloc(e->n_nodes + 1, sizeof(*avoided));

    c.of = calloc(e->n_nodes + 1, sizeof(*c.of));
    if (!c.of || !avoided || !mixed_gpu_nodes_index(e, &c)) {
        free(c.of);
        free(avoided);
        return error_set(err, ERR_NOMEM, "out of memory");
    }
    mark_avoided(e, avoided);
    for (size_t i = 0; i < e->n_nodes; i++) {
        const struct alloc_node *node = &e->nodes[i];
        int32_t k = 0;
        /* A node that some job avoids gets a class of its own. */
        while (k < c.n && (avoided[i] || avoided[c.first[k]] ||
                           !is_alike(e, c.first[k], i)))
            k++;
        if (k == POLICY_CLASSES)
            k--;
        else if (k == c.n)
            c.first[c.n++] = i;
        c.of[i] = k;
        c.has_partitions = c.has_partitions || node->partitions[0];
        c.has_default = c.has_default || strchr(node->partitions, '*');
        c.has_next = c.has_next || node->next_starts > 0;
    }
    free(avoided);
    eng_part_types(e, &c);
    free(e->classes.of);
    free(e->classes.by_name);
    e->classes = c;
    return 0;
}

/* ---- one node ------------------------------------------------------------
 */
/* Whether the list contains any of the words, or all of them; `ops` separate
 * the words. */
static bool has_words(const char *list, const char *words, const char *ops,
                      bool all)
{
    for (const char *p = words; *p;) {
        size_t n = strcspn(p, ops);
        if (list_has(list, p, n) != all)
            return !all;
        p += n + (p[n] != '\0');
    }
    return all;
}

/* A list that fills its field has been cut. */
#define IS_CUT(field) (strlen(field) >= sizeof(field) - 1)

static bool partition_fits(const struct node_classes *c,
                           const struct alloc_node *node, const char *wanted)
{
    if (IS_CUT(node->partitions))
        return true;
    if (wanted)
        return has_words(node->partitions, wanted, ",", false);
    return !c->has_default || strchr(node->partitions, '*') != NULL;
}

static bool constraint_fits(const struct alloc_node *node, const char *wanted)
{
    bool has_and = strchr(wanted, '&') != NULL;
    bool has_or = strchr(wanted, '|') != NULL;

    if ((has_and && has_or) || strpbrk(wanted, "[](){}*!,") ||
        IS_CUT(node->features))
        return true;
    return has_words(node->features, wanted, "&|", !has_or);
}

static bool reservation_fits(const struct alloc_node *node, const char *wanted)
{
    if (!wanted)
        return node->reservation[0] == '\0';
    return node->reservation[0] &&
           list_has(wanted, node->reservation, strlen(node->reservation));
}

/* A GPU reports less memory than it is sold with, because it reserves some for
 * itself ("24G"). So nine tenths of the requested minimum are enough. */
static bool memory_fits(const struct alloc_node *node,
                        const struct alloc_where *w)
{
    return node->gpu_bytes == 0 ||
           (node->gpu_bytes >= w->gpu_min_bytes / 10 * 9 &&
            (w->gpu_max_bytes == 0 || node->gpu_bytes <= w->gpu_max_bytes));
}

bool engine_memory_fits(const struct engine *e, const struct job *job, size_t i)
{
    const struct alloc_where w = eng_where(e->parts.conf, job, 1);
    return i < e->n_nodes && memory_fits(&e->nodes[i], &w);
}

bool eng_node_fits(const struct engine *e, size_t i,
                   const struct alloc_where *w, bool has_gpus, bool now)
{
    const struct alloc_node *node = &e->nodes[i];

    if (w->exclude && list_has(w->exclude, node->name, strlen(node->name)))
        return false;
    if (!has_gpus && eng_is_more(e, i))
        return false; /* the entry before it counts the node already */
    if (has_gpus && w->gpu_type && strcasecmp(w->gpu_type, node->gpu_type) != 0)
        return false;
    if (has_gpus && !memory_fits(node, w))
        return false;
    /* Only Slurm nodes have partitions; elsewhere the options for Slurm mean
     * nothing. */
    if (!e->classes.has_partitions)
        return true;
    if (!partition_fits(&e->classes, node, w->partition))
        return false;
    if (w->constraint && !constraint_fits(node, w->constraint))
        return false;
    return !now || reservation_fits(node, w->reservation);
}

bool engine_node_fits(const struct engine *e, const struct job *job, size_t i,
                      bool now)
{
    const struct alloc_where w = eng_where(e->parts.conf, job, 1);
    return i < e->n_nodes && eng_node_fits(e, i, &w, job->gpus_max > 0, now);
}

struct alloc_where engine_where(const struct engine *e, const struct job *job)
{
    int32_t per_node = job->nodes > 0 ? job->gpus / job->nodes : 1;
    struct alloc_where w = eng_where(e->parts.conf, job, per_node);
    if (job->gpu_type[0] && job->state != JOB_QUEUED && job->state != JOB_HELD)
        w.gpu_type = job->gpu_type;
    return w;
}

/* ---- masks ---------------------------------------------------------------
 */
static struct class_masks masks(const struct engine *e,
                                const struct alloc_where *w, bool has_gpus)
{
    struct class_masks m = {.now = 0};
    uint64_t closed = 0; /* classes with a node that does not fit now */

    for (size_t i = 0; i < e->n_nodes; i++) {
        int32_t k = e->classes.of[i];
        uint64_t bit = UINT64_C(1) << (unsigned)k;
        if (k < POLICY_CLASSES - 1 && e->classes.first[k] != i)
            continue;
        if (eng_node_fits(e, i, w, has_gpus, false))
            m.ever |= bit;
        if (!eng_node_fits(e, i, w, has_gpus, true))
            closed |= bit;
    }
    m.now = m.ever & ~closed;
    return m;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool eng_same_where(const struct alloc_where *a, const struct alloc_where *b)
{
    return same_text(a->partition, b->partition) &&
           same_text(a->constraint, b->constraint) &&
           same_text(a->reservation, b->reservation) &&
           same_text(a->gpu_type, b->gpu_type) &&
           a->gpu_min_bytes == b->gpu_min_bytes &&
           a->gpu_max_bytes == b->gpu_max_bytes &&
           same_text(a->exclude, b->exclude);
}

struct class_masks eng_masks(const struct engine *e, const struct job *job,
                             struct mask_memo *memo)
{
    struct alloc_where w = eng_where(e->parts.conf, job, 1);
    bool has_gpus = job->gpus_max > 0;

    for (size_t i = 0; i < MASK_MEMO; i++) {
        const struct mask_memo_row *row = &memo->rows[i];
        if (row->is_used && row->has_gpus == has_gpus &&
            eng_same_where(&row->where, &w))
            return row->masks;
    }
    struct mask_memo_row *row = &memo->rows[memo->next++ % MASK_MEMO];
    *row = (struct mask_memo_row){.is_used = true,
                                  .has_gpus = has_gpus,
                                  .where = w,
                                  .masks = masks(e, &w, has_gpus)};
    return row->masks;
}
