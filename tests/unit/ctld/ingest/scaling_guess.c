/* scaling_guess.c - what the store is told of sizes that a class did not run
 * on.
 */
#include "scheduler/ctld/ingest/scaling_guess.h"

#include <stdio.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "tests/tap.h"

static const char *filled(const struct throughput *m,
                          const struct scaling_sizes *sizes)
{
    static char text[4000];
    struct store_guess g[SCALING_GUESSES_MAX];
    struct buf b = BUF_INIT;
    size_t n = scaling_guess_fill(m, sizes, g);

    for (size_t i = 0; i < n; i++)
        if (buf_addf(&b, NULL, "%d/%d %s of %d/%d %.4g %.4g\n", g[i].gpus,
                     g[i].nodes, g[i].basis, g[i].base_gpus, g[i].base_nodes,
                     g[i].rate_ratio, g[i].t_iter_ratio) < 0)
            break;
    (void)snprintf(text, sizeof(text), "%s", buf_str(&b));
    buf_clear(&b);
    return text;
}

static struct throughput ran(bool is_weak)
{
    struct throughput m = {.is_weak = is_weak};

    throughput_add(&m, 1, 1, 0.5, 20);
    throughput_add(&m, 1, 2, 0.25, 20);
    return m;
}

static void test_assumed(void)
{
    struct throughput m = {.n = 0};
    struct scaling_sizes sizes = {.per_node = 4, .nodes = 3, .explore = 2};

    is_str(filled(&m, &sizes), "", "a class that never ran: none");
    m = ran(false);
    is_str(filled(&m, &sizes),
           "3/1 assumed of 1/1 3 0.3333\n4/1 assumed of 1/1 4 0.25\n",
           "none above twice the largest, none that ran");
    sizes.explore = 4;
    is_str(filled(&m, &sizes),
           "3/1 assumed of 1/1 3 0.3333\n4/1 assumed of 1/1 4 0.25\n"
           "8/2 assumed of 1/1 8 0.125\n",
           "and then whole nodes");
    sizes.parts = 12;
    sizes.nodes = 1;
    sizes.per_node = 8;
    sizes.explore = 3;
    is_str(filled(&m, &sizes),
           "3/1 assumed of 1/1 3 0.3333\n4/1 assumed of 1/1 4 0.25\n"
           "6/1 assumed of 1/1 6 0.1667\n",
           "only what the micro-batches can be divided among");
    m = (struct throughput){.n = 0};
    throughput_add(&m, 1, 4, 0.5, 20);
    sizes = (struct scaling_sizes){.per_node = 4, .nodes = 1, .explore = 2};
    is_str(filled(&m, &sizes),
           "1/1 assumed of 4/1 0.25 4\n2/1 assumed of 4/1 0.5 2\n"
           "3/1 assumed of 4/1 0.75 1.333\n",
           "fewer than ran");
}

static void test_weak(void)
{
    struct throughput m = ran(true);
    const struct scaling_sizes sizes = {
        .per_node = 4, .nodes = 1, .explore = 2};

    /* Two GPUs have twice the samples of an iteration in half the time. */
    is_str(filled(&m, &sizes),
           "3/1 assumed of 1/1 6 0.5\n4/1 assumed of 1/1 8 0.5\n",
           "an iteration of more GPUs has more samples");
}

static void test_fitted(void)
{
    struct throughput m = ran(false);
    const struct scaling_sizes sizes = {
        .per_node = 8, .nodes = 1, .explore = 1};

    throughput_add(&m, 1, 8, 0.1, 20);
    throughput_fit(&m);
    ok(strstr(filled(&m, &sizes), "4/1 fitted of 1/1 ") &&
           !strstr(filled(&m, &sizes), "assumed"),
       "between three sizes a curve is fitted");
}

static void test_many(void)
{
    struct throughput m = ran(false);
    struct store_guess g[SCALING_GUESSES_MAX];
    const struct scaling_sizes sizes = {
        .per_node = 8, .nodes = 1000, .explore = 1000};

    is_int((long long)scaling_guess_fill(&m, &sizes, g), SCALING_GUESSES_MAX,
           "no more than there is room for");
}

int main(void)
{
    test_assumed();
    test_weak();
    test_fitted();
    test_many();
    return tap_done();
}
