/* gpu_time.h - how long a launch takes on an H100 and an H200, predicted: for
 * gpu_model.c, gpu_text.c and gpu_table.c, which sum it up. */
#ifndef MGPU_TESTS_BENCH_GPU_TIME_H
#define MGPU_TESTS_BENCH_GPU_TIME_H

#include "tests/step/traffic.h"

enum { CARDS = 2 };
extern const char *const card_names[CARDS];
double card_copies(int card); /* bytes/s, read and written */

/* What is read of the machine code, by kernel (tests/lint/sass.sh). */
struct fact {
    char kernel[96];
    double instructions, stored, loaded; /* of its hot loop; bytes */
    double path, fetch, mma; /* of its loop over tiles: instructions, those of
                              * loops that fetch, products */
};
struct facts {
    struct fact *at;
    size_t n;
};

/* in   path  what `sass.sh --facts` prints
 * err  ERR_IO it cannot be opened; ERR_INVAL it names no kernel */
int facts_read(struct facts *ret, const char *path,
               struct error *err) MUST_CHECK;
void facts_clear(struct facts *f);

/* What products reach has two estimates: the 1x1 products of images, and on
 * text those of a library. */
enum estimate { ESTIMATE, CAREFUL, ESTIMATES };

struct total {
    int32_t launches;
    double bytes, instructions; /* of warps */
    double flop;                /* on tensor cores, of a step on text */
    double s[ESTIMATES][CARDS];
};
void total_add(struct total *to, const struct total *x);

/* out  ret_per  instructions per value of the hot loop; 0: they do not count
 * err  ERR_NOTFOUND the launch, its op or its kernel is unknown: named */
int time_launch(const struct facts *f, const struct step_launch *l,
                struct traffic *ret_traffic, struct total *ret, double *ret_per,
                struct error *err) MUST_CHECK;

/* gpu_text.c: the tables of steps on text. *ret_missed: a goal is, or the model
 * is too far from what it is compared with.
 * in   launches  print each
 * err  as time_launch() */
int text_model(struct device *d, const struct facts *f, bool launches,
               bool *ret_missed, struct error *err) MUST_CHECK;
/* gpu_shared.c: the table of steps whose weights eight ranks shard.
 * err  as time_launch() */
int shared_model(struct device *d, const struct facts *f, bool *ret_missed,
                 struct error *err) MUST_CHECK;

/* gpu_table.c: predictions that a script reads beside what it measures, of the
 * steps that a file names (tests/gpu/steps.txt).
 *
 *   step    METHOD SHAPE ROWS TOKENS TYPE HOW DOCUMENTS, tokens/s on each card,
 *           and carefully on each
 *   kernel  that step, name (of a product with its m x n x k), launches, ms in
 *           all on each card, GB
 *
 * and gpu_model.c adds
 *
 *   cv      SIZE BATCH TYPE, images/s like tokens/s above
 *   copy    TB/s, on each card
 *
 * err  ERR_IO it cannot be opened; ERR_INVAL a line is no step: its number; as
 *      time_launch() */
int table_print(struct device *d, const struct facts *f, const char *steps,
                struct error *err) MUST_CHECK;

#endif
