/* collectives.c - the traffic of sharded weights lies beside the computing: by
 * the recorded calls of a step of all weights of Llama3 8B on eight ranks.
 *
 * Between the begin of a collective and where a launch needs it there are the
 * products of a whole layer. Five have none: the embedding and the first layer
 * with which the step begins, their sums with which it ends, and the layer
 * behind the output layer, whose weights and gradient take both slots.
 */
#include <string.h>

#include "tests/step/step.h"
#include "tests/tap.h"

enum { LAYERS = 32, MOST = 256, LAYER_PRODUCTS = 4, ALONE = 5, RANKS = 8 };

struct seen {
    bool is_gather;
    int64_t bytes;
    int32_t products; /* beside it; -1: it is not awaited yet */
    int32_t from;     /* products before it */
};

static int32_t find(const struct step *s, struct seen ret[MOST])
{
    int32_t products = 0, n = 0;
    for (int32_t i = 0; i < s->n; i++) {
        const struct step_launch *l = &s->at[i];
        const bool is_gather = strcmp(l->kernel, STEP_GATHER) == 0;
        products += strcmp(l->kernel, STEP_PRODUCT) == 0;
        if ((is_gather || strcmp(l->kernel, STEP_SCATTER) == 0) && n < MOST)
            ret[n++] = (struct seen){is_gather, l->bytes, -1, products};
        if (strcmp(l->kernel, STEP_AWAITED) == 0 && l->ticket < n)
            ret[l->ticket].products = products - ret[l->ticket].from;
    }
    return n;
}

static void test(struct device *d, bool recomputes)
{
    static struct step s;
    const struct step_text of = {STEP_FULL, STEP_LLAMA3_8B, 4,
                                 2048,      2048,           recomputes};
    const char *what = recomputes ? "layers made again" : "layers kept";
    struct error err = ERROR_INIT;
    struct seen seen[MOST];
    int64_t bytes = 0, sent = 0;
    int32_t gathers = 0, alone = 0, unawaited = 0;
    if (!ok(step_record_shared(d, &of, RANKS, &s, &bytes, &err) == 0,
            "%s: a step: %s", what, err.msg))
        return;
    const int32_t n = find(&s, seen);
    for (int32_t i = 0; i < n; i++) {
        gathers += seen[i].is_gather;
        sent += seen[i].bytes;
        unawaited += seen[i].products < 0;
        alone += seen[i].products < LAYER_PRODUCTS;
    }
    /* Each unit forward, each layer backward; and a sum of each unit. */
    is_int(gathers, LAYERS + 2 + LAYERS, "gathers");
    is_int(n - gathers, LAYERS + 2, "sums");
    is_int(unawaited, 0, "all are awaited");
    is_int(alone, ALONE, "with nothing to lie beside");
    /* Each layer thrice, the others twice: 7/8 of 2 bytes of 8.03 G values, and
     * once more of those of the layers. */
    const int64_t layers = (int64_t)LAYERS * 218112000;
    const int64_t ends = 2 * (int64_t)128256 * 4096 + 4096;
    const int64_t want = (3 * layers + 2 * ends) * 2 / 8 * 7;
    ok(sent >= want && sent <= want + want / 1000, "%lld bytes sent, of %lld",
       (long long)sent, (long long)want);
}

int main(void)
{
    struct device *d = NULL;
    struct error err = ERROR_INIT;

    if (!ok(device_record_create(&d, &err) == 0, "a device: %s", err.msg))
        return tap_done();
    test(d, false);
    test(d, true);
    d->ops->destroy(d);
    return tap_done();
}
