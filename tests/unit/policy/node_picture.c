/* node_picture.c - a picture answers as the functions of placement.h do, on
 * random nodes. */
#include "scheduler/policy/node_picture.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/base/rng.h"
#include "tests/tap.h"

enum { NODES = 130, CALLS = 4000, GPUS = 8 };

static int32_t draw(struct rng *r, int32_t from, int32_t to)
{
    return from + (int32_t)(rng_u32(r) % (uint32_t)(to - from + 1));
}

static void random_nodes(struct rng *r, struct policy_node *nodes, size_t n,
                         bool has_parts)
{
    for (size_t i = 0; i < n; i++) {
        int32_t gpus = draw(r, 1, GPUS);
        nodes[i] = (struct policy_node){
            .gpus_total = gpus,
            .gpus_free = draw(r, 0, gpus),
            .is_up = draw(r, 0, 9) > 0,
            .class_id = draw(r, 0, 2),
        };
    }
    for (size_t i = 0; has_parts && i + 1 < n; i += 2) {
        nodes[i].n_parts = nodes[i + 1].n_parts = 2;
        nodes[i + 1].part = 1;
        nodes[i].shared_total = nodes[i].gpus_total;
        nodes[i].shared_free = nodes[i].gpus_free;
        nodes[i + 1].gpus_total = nodes[i].gpus_total;
        nodes[i + 1].gpus_free = nodes[i].gpus_free;
    }
}

static struct place random_place(struct rng *r)
{
    return (struct place){.nodes = draw(r, 1, 4),
                          .per_node = draw(r, 0, GPUS),
                          .classes = (uint64_t)draw(r, 1, 7),
                          .is_whole = draw(r, 0, 9) == 0};
}

/* Takes and gives back at random, on the picture and on a plain copy. */
static bool is_equal_for(struct rng *r, size_t n, bool has_parts)
{
    struct policy_node plain[NODES];
    struct node_picture p, copy;
    struct {
        struct place place;
        int32_t at[4];
    } taken[64];
    size_t n_taken = 0;
    bool is = true;

    random_nodes(r, plain, n, has_parts);
    if (picture_init(&p, plain, n, NULL) < 0 ||
        picture_init(&copy, plain, n, NULL) < 0)
        return false;
    for (int i = 0; is && i < CALLS; i++) {
        struct place place = random_place(r);
        int32_t at[4], want[4];
        if (n_taken > 0 && (n_taken == 64 || draw(r, 0, 1) == 0)) {
            size_t k = (size_t)draw(r, 0, (int32_t)n_taken - 1);
            picture_add(&p, taken[k].at, taken[k].place, 1);
            place_add(plain, taken[k].at, taken[k].place, 1);
            taken[k] = taken[--n_taken];
            continue;
        }
        bool fits = place_fits(plain, n, place);
        if (fits)
            place_take(plain, n, place, want);
        is = picture_take(&p, place, at) == fits;
        if (!is || !fits)
            continue;
        is = memcmp(at, want, (size_t)place.nodes * sizeof(*at)) == 0;
        taken[n_taken].place = place;
        memcpy(taken[n_taken++].at, at, sizeof(at));
    }
    picture_copy(&copy, &p);
    is = is && memcmp(copy.nodes, plain, n * sizeof(*plain)) == 0;
    picture_clear(&p);
    picture_clear(&copy);
    return is;
}

int main(void)
{
    struct rng r;
    bool is = true, is_with_parts = true, is_small = true;

    rng_seed(&r, 1);
    for (int i = 0; i < 20; i++) {
        is = is && is_equal_for(&r, NODES, false);
        is_with_parts = is_with_parts && is_equal_for(&r, NODES, true);
        is_small = is_small && is_equal_for(&r, (size_t)draw(&r, 1, 5), false);
    }
    ok(is, "the same nodes as best fit takes");
    ok(is_small, "also of a few nodes");
    ok(is_with_parts, "also of machines with parts");
    return tap_done();
}
