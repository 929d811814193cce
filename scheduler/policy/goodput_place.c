/* goodput_place.c - what of the chosen sizes fits on the nodes, and when.
 *
 * A policy names sizes, and the allocator names the nodes, best fit. So this
 * plays what the allocator will do: first the starts that fit on what is free
 * now, then, once the jobs that were told to stop have gone, the sizes that
 * they come back with and the jobs that wait for their GPUs, large ones first.
 * A size that does not fit becomes the next smaller one. A job that comes back
 * to its present size is not told to stop at all, and keeps its place.
 */
#include <string.h>

#include "scheduler/policy/goodput_plan.h"
#include "scheduler/policy/goodput_rigid.h"

static bool is_live(const struct gp_job *j)
{
    return j->now >= 0;
}

static bool moves(const struct gp_job *j)
{
    return is_live(j) && j->chosen != j->now;
}

/* Takes the job's GPUs, of this size only. out ret if true */
static bool take_place(const struct gp *g, struct node_picture *nodes,
                       const struct policy_job *as, struct place *ret)
{
    bool is_one = as->nodes_min == as->nodes_max &&
                  as->gpus_min == as->gpus_max && as->n_sets == 0;

    *ret = place_of(as, as->nodes_min, as->gpus_min / as->nodes_min);
    return (is_one || place_find(nodes->nodes, nodes->n, as, ret)) &&
           picture_take(nodes, *ret, g->at);
}

static bool take(const struct gp *g, struct node_picture *nodes,
                 const struct policy_job *as)
{
    struct place place;

    return take_place(g, nodes, as, &place);
}

static void give_back(struct node_picture *nodes, const struct policy_job *job)
{
    if (job->at && job->nodes > 0)
        picture_add(nodes, job->at,
                    place_of(job, job->nodes, job->gpus / job->nodes), 1);
}

/* ---- what leaves, and comes back ------------------------------------------
 */
/* The sizes of the jobs that were told to resize by earlier plans. False: they
 * do not fit all together. */
static bool take_leaving(const struct gp *g, struct node_picture *nodes)
{
    const struct policy_view *v = g->p->view;
    bool fits = true;

    for (size_t i = 0; i < g->n_leaving; i++)
        if (gp_leaves(&v->jobs[g->leaving[i]]))
            give_back(nodes, &v->jobs[g->leaving[i]]);
    for (size_t i = 0; i < g->n_leaving; i++)
        if (policy_is_resizing(&v->jobs[g->leaving[i]]))
            fits = take(g, nodes, &v->jobs[g->leaving[i]]) && fits;
    return fits;
}

static bool any_leaving(const struct gp *g)
{
    for (size_t i = 0; i < g->n_leaving; i++)
        if (policy_is_resizing(&g->p->view->jobs[g->leaving[i]]))
            return true;
    return false;
}

/* ---- one round ------------------------------------------------------------
 */
/* Promised sizes first, then what backfill starts, in its order, for other jobs
 * may leave no room for it otherwise; then the head; then the others. Large
 * ones first, then the order of the view. */
static int32_t turn_of(const struct gp *g, size_t i)
{
    const struct gp_job *j = &g->jobs[i];
    int32_t gpus = j->chosen < 0 ? 0 : j->sizes[j->chosen].gpus;

    gpus = gpus < g->gpus ? gpus : g->gpus;
    if (j->is_backfilled || j == g->head)
        return g->gpus + (j == g->head ? 2 : 1);
    return (j->is_forced ? g->gpus : gp_n_turns(g) - 1) - gpus;
}

static bool is_in_line(const struct gp_job *j)
{
    return moves(j) || (!is_live(j) && j->chosen >= 0);
}

/* The jobs that get another size or start. A round only takes jobs away. */
static void find_movers(struct gp *g)
{
    g->n_movers = 0;
    for (size_t i = 0; i < g->n; i++)
        if (is_in_line(&g->jobs[i]))
            g->movers[g->n_movers++] = i;
}

/* By insertion, for a settled cluster changes few sizes at a time. */
enum { FEW = 32 };
static void sort_few(struct gp *g, size_t n)
{
    for (size_t k = 1; k < n; k++) {
        size_t i = g->line[k], at = k;
        int32_t turn = turn_of(g, i);
        for (; at > 0 && turn_of(g, g->line[at - 1]) > turn; at--)
            g->line[at] = g->line[at - 1];
        g->line[at] = i;
    }
}

/* A counting sort. */
static void sort_many(struct gp *g, size_t n)
{
    size_t *at = g->turns, n_turns = (size_t)gp_n_turns(g), sum = 0;

    memset(at, 0, n_turns * sizeof(*at));
    for (size_t k = 0; k < n; k++)
        at[turn_of(g, g->movers[k])]++;
    for (size_t k = 0; k < n_turns; k++) {
        size_t here = at[k];
        at[k] = sum;
        sum += here;
    }
    for (size_t k = 0; k < n; k++)
        g->line[at[turn_of(g, g->movers[k])]++] = g->movers[k];
}

static size_t line_up(struct gp *g)
{
    size_t n = 0;

    for (size_t k = 0; k < g->n_movers; k++)
        if (is_in_line(&g->jobs[g->movers[k]]))
            g->movers[n++] = g->movers[k];
    g->n_movers = n;
    if (n <= FEW) {
        memcpy(g->line, g->movers, n * sizeof(*g->line));
        sort_few(g, n);
    } else {
        sort_many(g, n);
    }
    return n;
}

/* Of equal requests the second cannot fit if the first did not, until nodes
 * change: long queues have few sizes. */
struct failed {
    int32_t nodes, per_node;
    uint64_t classes;
    bool is_whole;
};
static bool has_failed(const struct failed *f, const struct policy_job *as,
                       const struct gp_size *s)
{
    return f->nodes == s->nodes && f->per_node == s->per_node &&
           f->classes == as->classes && as->n_sets == 0 &&
           f->is_whole == (as->is_exclusive != 0);
}

/* Starts on what is free now. */
static void start_now(struct gp *g, size_t n, bool some_leave)
{
    struct failed f = {.nodes = 0};

    for (size_t k = 0; k < n; k++) {
        struct gp_job *j = &g->jobs[g->line[k]];
        j->starts = false;
        if (is_live(j) || j->chosen < 0)
            continue;
        struct policy_job as = gp_as(j, j->chosen);
        const struct gp_size *s = &j->sizes[j->chosen];
        if (has_failed(&f, &as, s))
            continue;
        if (!take(g, &g->free, &as)) {
            f = (struct failed){s->nodes, s->per_node, as.classes,
                                as.is_exclusive != 0};
            continue;
        }
        struct place place = place_of(&as, s->nodes, s->per_node);
        j->starts = true;
        if (!some_leave)
            continue;
        memcpy(g->kept_at, g->at, (size_t)place.nodes * sizeof(*g->at));
        picture_copy(&g->soon, &g->free);
        j->starts = take_leaving(g, &g->soon);
        if (!j->starts)
            picture_add(&g->free, g->kept_at, place, 1);
    }
}

/* ---- growth onto what is free now -----------------------------------------
 */
/* Takes what is free on the nodes that others wait for out of the picture (sign
 * -1), or puts it back. */
static void close_wanted(struct gp *g, int32_t sign)
{
    const struct policy_view *v = g->p->view;

    for (size_t i = 0; i < v->n_nodes; i++) {
        int32_t at = (int32_t)i;
        if (!v->nodes[i].is_wanted)
            continue;
        if (sign < 0)
            g->closed[i] = place_free(&g->free.nodes[i]);
        picture_add(&g->free, &at,
                    (struct place){.nodes = 1, .per_node = g->closed[i]}, sign);
    }
}

/* Which of its own GPUs the job does not use again are not free yet. */
static void not_yet(struct gp *g, const struct policy_job *job,
                    struct place place)
{
    int32_t own = job->gpus / job->nodes;

    for (int32_t k = 0; k < job->nodes; k++) {
        int32_t kept = 0;
        for (int32_t i = 0; i < place.nodes; i++)
            kept = g->at[i] == job->at[k] ? place.per_node : kept;
        struct place left = place_of(job, 1, own - kept);
        if (job->is_exclusive ? kept == 0 : own > kept)
            picture_add(&g->free, &job->at[k], left, -1);
    }
}

/* Gives the job its own GPUs and what is free now. If that is too little, it
 * keeps its size. */
static bool grow_now(struct gp *g, struct gp_job *j, bool some_leave)
{
    const struct policy_job *job = j->job;
    struct policy_job as = gp_as(j, j->chosen);
    struct place own = place_of(job, job->nodes, job->gpus / job->nodes), place;

    give_back(&g->free, job);
    bool fits = take_place(g, &g->free, &as, &place);
    if (fits && some_leave) {
        memcpy(g->kept_at, g->at, (size_t)place.nodes * sizeof(*g->at));
        picture_copy(&g->soon, &g->free);
        fits = take_leaving(g, &g->soon);
        memcpy(g->at, g->kept_at, (size_t)place.nodes * sizeof(*g->at));
        if (!fits)
            picture_add(&g->free, g->at, place, 1);
    }
    if (fits) {
        not_yet(g, job, place);
    } else {
        picture_add(&g->free, job->at, own, -1);
        j->chosen = j->now;
    }
    return fits;
}

static void grow_bound(struct gp *g, size_t n, bool some_leave)
{
    bool is_shared = g->p->view->is_shared;

    if (is_shared)
        close_wanted(g, -1);
    for (size_t k = 0; k < n; k++) {
        struct gp_job *j = &g->jobs[g->line[k]];
        j->has_grown =
            j->is_bound && j->chosen > j->now && grow_now(g, j, some_leave);
    }
    if (is_shared)
        close_wanted(g, 1);
}

/* Finds room for the job once the others have left, on fewer GPUs if need be.
 * A live job stops at its present size. */
static void fit_later(struct gp *g, struct gp_job *j)
{
    int32_t size = j->chosen;

    if (size < 0)
        return; /* it is to wait */
    for (; size >= 0 && size != j->now; size--) {
        if (!j->sizes[size].is_idle_use)
            continue;
        struct policy_job as = gp_as(j, size);
        if (take(g, &g->soon, &as))
            break;
    }
    j->chosen = size < 0 ? j->now : size;
}

/* False: a job has a smaller size, which may fit now, or keeps its present one.
 * So the round is played again. */
static bool play(struct gp *g, bool some_leave)
{
    size_t n = line_up(g);

    picture_copy(&g->free, &g->now);
    start_now(g, n, some_leave);
    grow_bound(g, n, some_leave);
    picture_copy(&g->soon, &g->free);
    (void)take_leaving(g, &g->soon);
    for (size_t k = 0; k < n; k++)
        if (moves(&g->jobs[g->line[k]]) && !g->jobs[g->line[k]].has_grown)
            give_back(&g->soon, g->jobs[g->line[k]].job);
    for (size_t k = 0; k < n; k++) {
        struct gp_job *j = &g->jobs[g->line[k]];
        if (j->starts || j->has_grown || (is_live(j) && !moves(j)))
            continue;
        int32_t wanted = j->chosen;
        fit_later(g, j);
        if (j->chosen != wanted && j->chosen >= 0)
            return false;
    }
    return true;
}

/* ---- who need not go ------------------------------------------------------
 */
static int32_t free_soon(const struct gp *g)
{
    int32_t n = 0;

    for (size_t i = 0; i < g->p->view->n_nodes; i++)
        n += g->soon.nodes[i].is_up ? place_free(&g->soon.nodes[i]) : 0;
    return n;
}

/* Jobs that were to become smaller stay if nobody gets what they give up.
 * False: there are none. */
static bool keep_some(struct gp *g)
{
    int32_t free = free_soon(g);
    bool has_kept = false;

    for (size_t i = 0; i < g->n_movers; i++) {
        struct gp_job *j = &g->jobs[g->movers[i]];
        int32_t least = j->chosen < 0 ? 0 : j->sizes[j->chosen].gpus;
        if (!moves(j) || j->yields || j->chosen > j->now ||
            j->sizes[j->now].gpus - least > free)
            continue;
        free -= j->sizes[j->now].gpus - least;
        j->chosen = j->now;
        has_kept = true;
    }
    return has_kept;
}

/* ---- what is left on the nodes --------------------------------------------
 */
/* The best gain per GPU that a further size of the job brings, if it waits or
 * keeps its present size; 0: none. out ret_size */
static double best_step(const struct gp_job *j, int32_t left, int32_t *ret_size)
{
    double best = 0, value = is_live(j) ? j->sizes[j->now].hoped : 0;
    int32_t has = is_live(j) ? j->sizes[j->now].gpus : 0;

    if (j->is_forced || j->is_barred || j->is_bound ||
        (is_live(j) ? moves(j) : j->chosen >= 0))
        return 0;
    for (int32_t k = j->chosen + 1; k < j->n; k++) {
        int32_t more = j->sizes[k].gpus - has;
        if (more > left)
            break; /* so are all that follow */
        if (!j->sizes[k].is_idle_use || more <= 0)
            continue;
        double gain = j->weight * (j->sizes[k].hoped - value) / more;
        if (gain > best) {
            best = gain;
            *ret_size = k;
        }
    }
    return best;
}

/* The job with the best step; g->n: none. A gain never grows while GPUs become
 * fewer, so only that of the best job is looked at again. */
static size_t best_left(const struct gp *g, int32_t left, int32_t *ret_size)
{
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i < g->n; i++)
            best = g->gains[i] > g->gains[best] ? i : best;
        if (g->n == 0 || g->gains[best] <= 0)
            return g->n;
        double gain = best_step(&g->jobs[best], left, ret_size);
        if (gain >= g->gains[best])
            return best;
        g->gains[best] = gain;
    }
}

/* On the nodes that are free now and stay so. */
static bool start_on_left(struct gp *g, const struct policy_job *as)
{
    struct place place;

    if (!take_place(g, &g->free, as, &place))
        return false;
    for (int32_t k = 0; k < place.nodes; k++)
        if (place_free(&g->soon.nodes[g->at[k]]) < place.per_node) {
            picture_add(&g->free, g->at, place, 1);
            return false;
        }
    picture_add(&g->soon, g->at, place, -1);
    return true;
}

static bool grow_on_left(struct gp *g, const struct gp_job *j,
                         const struct policy_job *as)
{
    struct place own =
        place_of(j->job, j->job->nodes, j->job->gpus / j->job->nodes);

    give_back(&g->soon, j->job);
    if (take(g, &g->soon, as))
        return true;
    picture_add(&g->soon, j->job->at, own, -1);
    return false;
}

/* Jobs that became smaller, or wait, because nodes x GPUs did not fit, leave
 * GPUs to others. */
enum { FAILURES_MAX = 64 };
static void fill(struct gp *g)
{
    int32_t left = free_soon(g), size = 0, n_failed = 0;
    size_t i;

    for (i = 0; left > 0 && i < g->n; i++)
        g->gains[i] = best_step(&g->jobs[i], left, &size);
    while (left > 0 && n_failed < FAILURES_MAX &&
           (i = best_left(g, left, &size)) < g->n) {
        struct gp_job *j = &g->jobs[i];
        struct policy_job as = gp_as(j, size);
        bool fits =
            is_live(j) ? grow_on_left(g, j, &as) : start_on_left(g, &as);
        if (!fits) {
            /* Try its smaller sizes, if there are any. */
            n_failed++;
            gp_sizes_rule_out(g, j, size);
            continue;
        }
        left -= j->sizes[size].gpus - (is_live(j) ? j->sizes[j->now].gpus : 0);
        j->chosen = size;
        j->starts = !is_live(j);
    }
}

static bool lacks_room(const struct gp *g)
{
    return g->head && g->head->is_forced && g->head->chosen < 0;
}

void gp_place(struct gp *g)
{
    bool some_leave = any_leaving(g);
    bool wants_head = g->head && g->head->is_forced;

    find_movers(g);
    /* Each further round has fewer resizes. */
    do {
        while (!play(g, some_leave))
            ;
        if (wants_head && lacks_room(g) && gp_rigid_make_room(g)) {
            g->head->chosen = 0;
            find_movers(g);
            while (!play(g, some_leave))
                ;
        }
        wants_head = false;
    } while ((lacks_room(g) && gp_rigid_take_back(g)) || keep_some(g));
    fill(g);
}
