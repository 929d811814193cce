/* goodput_place.c - what of the chosen sizes fits on the nodes, and when.
 *
 * A policy names sizes, and the allocator names the nodes, best fit. So this
 * plays what the allocator will do: first the starts that fit on what is free
 * now, then, once the jobs that were told to stop have gone, the sizes that
 * they come back with and the jobs that wait for their GPUs, large ones first.
 * A size that does not fit becomes the next smaller one. A job that comes back
 * to its present size is not told to stop at all, and keeps its place.
 */
#include "scheduler/policy/goodput_plan.h"

static bool is_live(const struct gp_job *j)
{
    return j->now >= 0;
}

static bool moves(const struct gp_job *j)
{
    return is_live(j) && j->chosen != j->now;
}

/* Takes the job's GPUs, of this size only. */
static bool take(const struct gp *g, struct node_picture *nodes,
                 const struct policy_job *as)
{
    bool is_one = as->nodes_min == as->nodes_max &&
                  as->gpus_min == as->gpus_max && as->n_sets == 0;
    struct place place =
        place_of(as, as->nodes_min, as->gpus_min / as->nodes_min);

    return (is_one || place_find(nodes->nodes, nodes->n, as, &place)) &&
           picture_take(nodes, place, g->at);
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
static bool take_told(const struct gp *g, struct node_picture *nodes)
{
    const struct policy_view *v = g->p->view;
    bool fits = true;

    for (size_t i = 0; i < v->n_jobs; i++)
        if (gp_leaves(&v->jobs[i]))
            give_back(nodes, &v->jobs[i]);
    for (size_t i = 0; i < v->n_jobs; i++)
        if (policy_is_resizing(&v->jobs[i]))
            fits = take(g, nodes, &v->jobs[i]) && fits;
    return fits;
}

static bool any_told(const struct policy_view *v)
{
    for (size_t i = 0; i < v->n_jobs; i++)
        if (policy_is_resizing(&v->jobs[i]))
            return true;
    return false;
}

/* ---- one round ------------------------------------------------------------
 */
/* Promised sizes first, then large ones, then the order of the view. */
static bool goes_before(const struct gp *g, size_t a, size_t b)
{
    const struct gp_job *x = &g->jobs[a], *y = &g->jobs[b];
    int32_t m = x->chosen < 0 ? 0 : x->sizes[x->chosen].gpus;
    int32_t n = y->chosen < 0 ? 0 : y->sizes[y->chosen].gpus;

    if (x->is_forced != y->is_forced)
        return x->is_forced;
    return m != n ? m > n : a < b;
}

static void sift(const struct gp *g, size_t *line, size_t n, size_t k)
{
    size_t top = line[k];

    for (size_t c = 2 * k + 1; c < n; c = 2 * k + 1) {
        if (c + 1 < n && goes_before(g, line[c], line[c + 1]))
            c++;
        if (!goes_before(g, top, line[c]))
            break;
        line[k] = line[c];
        k = c;
    }
    line[k] = top;
}

/* The jobs that get another size or start. */
static size_t line_up(struct gp *g)
{
    size_t n = 0;

    for (size_t i = 0; i < g->n; i++)
        if (moves(&g->jobs[i]) ||
            (!is_live(&g->jobs[i]) && g->jobs[i].chosen >= 0))
            g->line[n++] = i;
    for (size_t k = n / 2; k-- > 0;)
        sift(g, g->line, n, k);
    for (size_t k = n; k > 1; k--) {
        size_t last = g->line[0];
        g->line[0] = g->line[k - 1];
        g->line[k - 1] = last;
        sift(g, g->line, k - 1, 0);
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
static void start_now(struct gp *g, size_t n, bool told)
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
        picture_copy(&g->soon, &g->free);
        j->starts = !told || take_told(g, &g->soon);
        if (!j->starts)
            picture_add(&g->free, g->at, place, 1);
    }
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
static bool play(struct gp *g, bool told)
{
    size_t n = line_up(g);

    picture_copy(&g->free, &g->now);
    start_now(g, n, told);
    picture_copy(&g->soon, &g->free);
    (void)take_told(g, &g->soon);
    for (size_t k = 0; k < n; k++)
        if (is_live(&g->jobs[g->line[k]]))
            give_back(&g->soon, g->jobs[g->line[k]].job);
    for (size_t k = 0; k < n; k++) {
        struct gp_job *j = &g->jobs[g->line[k]];
        if (j->starts)
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

/* A job that was to become smaller stays if nobody gets what it gives up. */
static bool keep_one(struct gp *g)
{
    int32_t free = free_soon(g);

    for (size_t i = 0; i < g->n; i++) {
        struct gp_job *j = &g->jobs[i];
        int32_t least = j->chosen < 0 ? 0 : j->sizes[j->chosen].gpus;
        if (!moves(j) || j->yields || j->chosen > j->now ||
            j->sizes[j->now].gpus - least > free)
            continue;
        j->chosen = j->now;
        return true;
    }
    return false;
}

/* ---- what is left on the nodes --------------------------------------------
 */
/* The best gain per GPU that a further size of a job brings which waits, or
 * keeps its present size. out ret_size */
static size_t best_left(const struct gp *g, int32_t left, int32_t *ret_size)
{
    size_t best = g->n;
    double most = 0;

    for (size_t i = 0; i < g->n; i++) {
        const struct gp_job *j = &g->jobs[i];
        bool is_open = !j->is_forced && !j->is_barred &&
                       (is_live(j) ? !moves(j) : j->chosen < 0);
        int32_t has = is_open && is_live(j) ? j->sizes[j->now].gpus : 0;
        double value = is_open && is_live(j) ? j->sizes[j->now].hoped : 0;
        for (int32_t k = j->chosen + 1; is_open && k < j->n; k++) {
            int32_t more = j->sizes[k].gpus - has;
            if (!j->sizes[k].is_idle_use || more <= 0 || more > left)
                continue;
            double gain = (j->sizes[k].hoped - value) / more;
            if (gain > most) {
                most = gain;
                best = i;
                *ret_size = k;
            }
        }
    }
    return best;
}

/* On the nodes that are free now and stay so. */
static bool start_on_left(struct gp *g, const struct policy_job *as)
{
    struct place place;

    if (!place_find(g->free.nodes, g->free.n, as, &place) ||
        !picture_take(&g->free, place, g->at))
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

    while (left > 0 && n_failed < FAILURES_MAX &&
           (i = best_left(g, left, &size)) < g->n) {
        struct gp_job *j = &g->jobs[i];
        struct policy_job as = gp_as(j, size);
        bool fits =
            is_live(j) ? grow_on_left(g, j, &as) : start_on_left(g, &as);
        if (!fits) {
            /* Try its smaller sizes, if there are any. */
            n_failed++;
            j->sizes[size].is_idle_use = false;
            continue;
        }
        left -= j->sizes[size].gpus - (is_live(j) ? j->sizes[j->now].gpus : 0);
        j->chosen = size;
        j->starts = !is_live(j);
    }
}

void gp_place(struct gp *g)
{
    bool told = any_told(g->p->view);
    bool wants_head = g->head && g->head->is_forced;

    /* Each further round has one resize less. */
    do {
        while (!play(g, told))
            ;
        if (wants_head && g->head->chosen < 0 && gp_make_room(g)) {
            g->head->chosen = 0;
            while (!play(g, told))
                ;
        }
        wants_head = false;
    } while (keep_one(g));
    fill(g);
}
