/* node_picture.c - see node_picture.h. */
#include "scheduler/policy/node_picture.h"

#include <stdlib.h>
#include <string.h>

/* More GPUs than this on a node: no sets, for they would be large. */
enum { GPUS_MAX = 256 };

static uint64_t *word_of(const struct node_picture *p, size_t i)
{
    int32_t free = p->nodes[i].gpus_free, top = p->n_levels - 1;
    size_t level = (size_t)(free < 0 ? 0 : free > top ? top : free);

    return &p->bits[level * p->n_words + i / 64];
}

/* Puts the node into its set, or takes it out. */
static void set_node(struct node_picture *p, size_t i, bool is_in)
{
    uint64_t bit = UINT64_C(1) << (i % 64);

    if (!p->bits || !p->nodes[i].is_up)
        return;
    if (is_in)
        *word_of(p, i) |= bit;
    else
        *word_of(p, i) &= ~bit;
}

int picture_init(struct node_picture *p, const struct policy_node *nodes,
                 size_t n, struct error *err)
{
    int32_t most = 0;
    bool has_parts = false;

    *p = (struct node_picture){.n = n, .n_words = (n + 63) / 64};
    for (size_t i = 0; i < n; i++) {
        most = nodes[i].gpus_total > most ? nodes[i].gpus_total : most;
        has_parts = has_parts || nodes[i].n_parts > 1;
    }
    p->nodes = malloc((n + 1) * sizeof(*p->nodes));
    if (!has_parts && most <= GPUS_MAX) {
        p->n_levels = most + 1;
        p->bits =
            calloc((size_t)p->n_levels * p->n_words + 1, sizeof(*p->bits));
    }
    if (!p->nodes || (p->n_levels > 0 && !p->bits))
        return error_set(err, ERR_NOMEM, "out of memory");
    if (n > 0)
        memcpy(p->nodes, nodes, n * sizeof(*nodes));
    for (size_t i = 0; i < n; i++)
        set_node(p, i, true);
    return 0;
}

void picture_clear(struct node_picture *p)
{
    free(p->nodes);
    free(p->bits);
    *p = (struct node_picture){.n = 0};
}

void picture_copy(struct node_picture *to, const struct node_picture *from)
{
    if (from->n > 0)
        memcpy(to->nodes, from->nodes, from->n * sizeof(*to->nodes));
    if (from->bits)
        memcpy(to->bits, from->bits,
               (size_t)from->n_levels * from->n_words * sizeof(*to->bits));
}

void picture_add(struct node_picture *p, const int32_t *at, struct place place,
                 int32_t sign)
{
    for (int32_t k = 0; k < place.nodes; k++)
        set_node(p, (size_t)at[k], false);
    place_add(p->nodes, at, place, sign);
    for (int32_t k = 0; k < place.nodes; k++)
        set_node(p, (size_t)at[k], true);
}

/* Whether the node of a set has room. The uppermost set also has nodes with
 * more free GPUs than any node has in all, where a failed GPU is in use. */
static bool has_room(const struct policy_node *node, const struct place *place)
{
    return place_may_use(place->classes, node) &&
           node->gpus_free >= place->per_node &&
           (!place->is_whole || place_is_empty(node));
}

/* The fullest nodes first, then the lowest index: so the first that are found
 * are those that best fit takes one after the other. */
static bool choose(const struct node_picture *p, const struct place *place,
                   int32_t *at)
{
    int32_t n = 0;

    for (int32_t l = place->per_node; l < p->n_levels; l++) {
        const uint64_t *words = &p->bits[(size_t)l * p->n_words];
        for (size_t w = 0; w < p->n_words; w++) {
            for (uint64_t left = words[w]; left != 0; left &= left - 1) {
                size_t i = w * 64 + (size_t)__builtin_ctzll(left);
                if (!has_room(&p->nodes[i], place))
                    continue;
                at[n++] = (int32_t)i;
                if (n == place->nodes)
                    return true;
            }
        }
    }
    return n == place->nodes;
}

bool picture_take(struct node_picture *p, struct place place, int32_t *ret_at)
{
    if (p->bits) {
        if (!choose(p, &place, ret_at))
            return false;
        picture_add(p, ret_at, place, -1);
        return true;
    }
    if (!place_fits(p->nodes, p->n, place))
        return false;
    place_take(p->nodes, p->n, place, ret_at);
    return true;
}
