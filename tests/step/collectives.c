/* collectives.c - the traffic of sharded weights lies beside the computing: by
 * the recorded calls of a step of all weights of Llama3 8B on eight ranks.
 *
 * Between the begin of a collective and where a launch needs it there are the
 * products of a whole layer, or of a piece of the output layer that with
 * another piece. Some have none: the pieces of the embedding and the first
 * layer, with which the step begins, and their sums, with which it ends; and
 * the piece with which the backward pass begins, where the forward pass ended
 * with another one.
 */
#include <string.h>

#include "tests/step/step.h"
#include "tests/tap.h"

enum {
    LAYERS = 32,
    MOST = 256,
    LAYER_PRODUCTS = 4,
    RANKS = 8,
    PIECES = 5, /* of embedding and output layer: of half a layer's size */
    CHUNKS = 4, /* of 8,192 labelled tokens */
    PIECE_ROWS = 26624,
    VOCAB = 128256,
    HIDDEN = 4096,
    ALONE = 2 * (PIECES + 1) + 1
};
static const int64_t layer_values = 218112000;
/* Gathers of a piece of the output layer. Each chunk goes the way back that the
 * one before came, with two pieces that are there: 0 to 4, and 2 to 0, and 2 to
 * 4, and 2 to 0. The backward pass takes each once. */
static const int32_t times[PIECES] = {3 + 1, 3 + 1, 4 + 1, 2 + 1, 2 + 1};

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

/* 7/8 of 2 bytes of each. */
static int64_t sent_of(int64_t values)
{
    return values * 2 / RANKS * (RANKS - 1);
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
        const bool is_layer = seen[i].bytes >= sent_of(layer_values);
        gathers += seen[i].is_gather;
        sent += seen[i].bytes;
        unawaited += seen[i].products < 0;
        alone += seen[i].products < (is_layer ? LAYER_PRODUCTS : 1);
    }
    /* Forward and backward each layer, and forward the embedding; and a sum of
     * each unit. */
    int32_t of_head = 0;
    int64_t want =
        sent_of(3 * LAYERS * layer_values + 2 * (int64_t)VOCAB * HIDDEN);
    for (int32_t i = 0; i < PIECES; i++) {
        const int32_t left = VOCAB - i * PIECE_ROWS;
        const int64_t rows = left < PIECE_ROWS ? left : PIECE_ROWS;
        of_head += times[i];
        want += sent_of((times[i] + 1) * (rows + (i == 0)) * HIDDEN);
    }
    is_int(gathers, PIECES + 2 * LAYERS + of_head, "gathers");
    is_int(n - gathers, 2 * PIECES + LAYERS, "sums");
    is_int(unawaited, 0, "all are awaited");
    is_int(alone, ALONE, "with nothing to lie beside");
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
