/* sim_nodes.c - nodes that fail and come back, and the places of attempts. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/run/sim_world.h"

/* From a failure to the return of the node. */
static const double REPAIR_S = 3600;

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Sums of uniform numbers: the same bits with every math library. */
double sim_normal(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t x = mix(mix(mix(seed) ^ a) ^ (b << 32));
    double sum = 0;

    for (int i = 0; i < 12; i++) {
        x = mix(x);
        sum += (double)(x >> 11) / 9007199254740992.0;
    }
    return sum - 6;
}

/* ---- places ---------------------------------------------------------------
 */
/* "0-3,5": the number of indexes. out  ret_mask  those below 64 */
static int32_t count(const char *p, uint64_t *ret_mask)
{
    int32_t n = 0;
    char *end;

    *ret_mask = 0;
    while (*p && *p != ' ') {
        long a = strtol(p, &end, 10), b = a;
        if (end == p)
            break;
        if (*end == '-')
            b = strtol(end + 1, &end, 10);
        for (long i = a; i >= 0 && i <= b && i < 64; i++)
            *ret_mask |= UINT64_C(1) << (unsigned)i;
        n += (int32_t)(b - a) + 1;
        p = *end == ',' ? end + 1 : end;
    }
    return n;
}

int32_t sim_place_each(const char *place,
                       void (*each)(void *arg, int32_t node, int32_t gpus,
                                    uint64_t mask),
                       void *arg)
{
    int32_t n = 0;
    uint64_t mask;

    for (const char *p = place; *p;) {
        p += strspn(p, " ");
        size_t len = strcspn(p, " ");
        if (p[len] == '\0' && len >= 3 && strcmp(p + len - 3, "...") == 0)
            return -1; /* of this node a part is missing */
        const char *colon = strchr(p, ':');
        if (*p != 'n' || !colon)
            break;
        int32_t node = (int32_t)strtol(p + 1, NULL, 10) - 1;
        int32_t gpus = count(colon + 1, &mask);
        each(arg, node, gpus, mask);
        n++;
        p += len;
    }
    return n;
}

/* ---- failures -------------------------------------------------------------
 */
/* The time to the next failure of a node, drawn from its rate. */
static double draw(struct sim_world *w)
{
    double rate = w->conf->failures_per_node_day / 86400;
    return -log(1 - rng_uniform(&w->rng)) / rate;
}

int sim_nodes_begin(struct sim_world *w, struct error *err)
{
    if (!(w->conf->failures_per_node_day > 0))
        return 0;
    for (int32_t i = 0; i < w->conf->cluster->nodes; i++)
        if (sim_timer_add(w, SIM_BEGIN_S + draw(w), DUE_FAILURE, i, 0, err) < 0)
            return -1;
    return 0;
}

static bool is_on(const struct sim_world *w, const struct sim_state *s,
                  int32_t node)
{
    for (size_t k = s->span; k < s->span + s->n_spans; k++)
        if (w->out->spans[k].node == node)
            return true;
    return false;
}

int sim_node_fail(struct sim_world *w, int32_t node, struct error *err)
{
    const struct alloc_fake_outcome how = {.lose = 1, .why = "its node failed"};

    w->is_down[node] = true;
    w->n_downs++;
    sim_account(w);
    w->down_total += w->gpus[node];
    for (size_t k = 0; k < w->n_live; k++) {
        struct sim_state *s = &w->jobs[w->live[k]];
        if (!is_on(w, s, node))
            continue;
        s->done = s->is_stopping ? s->done : s->saved;
        s->from_s = INFINITY;
        s->is_stopping = true;
        struct error late = ERROR_INIT; /* NOTFOUND: it has just ended */
        if (alloc_fake_end(w->cluster, s->id, s->attempt, &how, &late) < 0 &&
            late.code != ERR_NOTFOUND)
            return error_set(err, late.code, "%s", late.msg);
    }
    if (alloc_fake_changed(w->cluster, err) < 0)
        return -1;
    return sim_timer_add(w, sim_now(w) + REPAIR_S, DUE_REPAIR, node, 0, err);
}

int sim_node_repair(struct sim_world *w, int32_t node, struct error *err)
{
    sim_account(w);
    w->is_down[node] = false;
    w->n_downs++;
    w->down_total -= w->gpus[node];
    if (alloc_fake_changed(w->cluster, err) < 0)
        return -1;
    return sim_timer_add(w, sim_now(w) + draw(w), DUE_FAILURE, node, 0, err);
}
