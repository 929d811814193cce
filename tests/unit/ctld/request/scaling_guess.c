/* scaling_guess.c - sizes that were not measured, as rows of v_scaling beside
 * the measured ones.
 */
#include "scheduler/ctld/request/scaling_guess.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "tests/tap.h"

static struct error err;

static int note(struct scaling_guess *g, int64_t gpus, double samples_per_s,
                double speedup, const char *type)
{
    const struct store_cell cells[] = {
        {.name = "class", .kind = CELL_TEXT, .s = "cv/x"},
        {.name = "gpus", .kind = CELL_INT, .i = gpus},
        {.name = "nodes", .kind = CELL_INT, .i = 1},
        {.name = "samples_per_s", .kind = CELL_REAL, .r = samples_per_s},
        {.name = "speedup", .kind = CELL_REAL, .r = speedup},
        {.name = "gpu_type", .kind = type ? CELL_TEXT : CELL_NULL, .s = type},
    };
    return scaling_guess_note(g, cells, 6, &err);
}

static int row(void *arg, const struct store_cell *cells, size_t n,
               struct error *e)
{
    for (size_t i = 0; i < n; i++) {
        char one[64] = "-";
        if (cells[i].kind == CELL_TEXT)
            (void)snprintf(one, sizeof(one), "%s", cells[i].s);
        else if (cells[i].kind == CELL_INT)
            (void)snprintf(one, sizeof(one), "%lld", (long long)cells[i].i);
        else if (cells[i].kind == CELL_REAL && isfinite(cells[i].r))
            (void)snprintf(one, sizeof(one), "%.4g", cells[i].r);
        if (buf_addf(arg, e, "%s%s", i ? " " : "", one) < 0)
            return -1;
    }
    return buf_addstr(arg, "\n", e);
}

static const char *rows(const struct scaling_guess *g)
{
    static char text[4000];
    struct buf b = BUF_INIT;

    int rc = scaling_guess_rows(g, row, &b, &err);
    (void)snprintf(text, sizeof(text), "%s", rc == 0 ? buf_str(&b) : err.msg);
    buf_clear(&b);
    return text;
}

/* A model that has run on 1 and 2 GPUs, 0.5 s and 0.3 s, asked for 3 and 4. */
static struct scaling_guess guess(bool is_weak)
{
    struct scaling_guess g = {
        .m = {.is_weak = is_weak}, .n = 2, .type = "h100"};

    throughput_add(&g.m, 1, 1, 0.5, 20);
    throughput_add(&g.m, 1, 2, 0.3, 20);
    g.at[0].nodes = g.at[1].nodes = 1;
    g.at[0].per_node = 3;
    g.at[1].per_node = 4;
    return g;
}

static void test_assumed(void)
{
    struct scaling_guess g = guess(false);

    is_str(rows(&g), "", "without a measured row: none");
    ok(note(&g, 1, 64, 1, "a100") == 0, "a row of another type");
    is_str(rows(&g), "", "  is none of the model's");
    ok(note(&g, 1, 90, 1, NULL) == 0 && note(&g, 1, 60, 1, "h100") == 0 &&
           note(&g, 2, 100, 5. / 3, "h100") == 0 &&
           note(&g, 1, 90, 1, NULL) == 0,
       "rows without a type, and of its type");
    /* From 2 GPUs on as if perfect: 150 and 200 a second. */
    is_str(rows(&g),
           "cv/x 3 1 0.2 150 2.5 0.8333 0 assumed - 0 5.556 - h100\n"
           "cv/x 4 1 0.15 200 3.333 0.8333 0 assumed - 0 5.556 - h100\n",
           "the two sizes are assumed, from the smallest row of the type");
    scaling_guess_clear(&g);
    is_str(rows(&g), "", "cleared");
}

static void test_fitted(void)
{
    struct scaling_guess g = guess(true);

    throughput_add(&g.m, 1, 8, 0.4, 20);
    throughput_fit(&g.m);
    ok(note(&g, 1, 64, 1, NULL) == 0, "a row without a type alone");
    is_int(strncmp(rows(&g), "cv/x 3 1 ", 9), 0, "counts");
    ok(strstr(rows(&g), " 0 fitted - 0 ") && !strstr(rows(&g), "assumed"),
       "between three sizes a curve is fitted: %s", rows(&g));
    scaling_guess_clear(&g);
}

int main(void)
{
    test_assumed();
    test_fitted();
    return tap_done();
}
