/* gpu_model.c - a training step on an H100 and an H200, predicted without one.
 *
 *   gpu_model FACTS [--check] [--launches] [gpu-bench's .tsv]
 *
 * MobileNetV2, 224x224, batch 256, bf16: what mgpu-worker launches is recorded
 * (tests/step/step.h), each launch moves what tests/step/traffic.c says of its
 * shape, and its instructions per value are those of the hot loop in the
 * machine code, FACTS, as `tests/lint/sass.sh --facts` prints them. A launch
 * takes the longer of its bytes at the bandwidth that it reaches and its
 * instructions at the rate that it reaches, and a constant.
 *
 * Not in the model: latency, how evenly blocks divide the work, what the caches
 * keep from one kernel to the next, and the loader's kernels. Nothing of it has
 * been measured yet: it serves to compare one version with the next, and to
 * be compared line by line with the first measurement, which it prints beside
 * itself if it gets the figures of `make gpu-bench`.
 *
 * --check exits with 1 if the goals below are missed. --launches prints a line
 * for each launch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/error.h"
#include "kernels/exec/exec_cuda.h"
#include "tests/step/traffic.h"

/* ---- constants --------------------------------------------------------------
 */
/* src  NVIDIA's data sheets of the H100 and H200 SXM: 3.35 and 4.8 TB/s, of
 *      which a copy reaches some 90 %; a scheduler issues an instruction of a
 *      warp per cycle, at 1.755 GHz. The shares are estimates for kernels of
 *      this kind, to be replaced by measurements. */
enum { CARDS = 2, SCHEDULERS = 4, WARP = 32 };
static const char *const card_names[CARDS] = {"H100", "H200"};
static const double bandwidth[CARDS] = {3.0e12, 4.3e12};
static const double clock_hz = 1.755e9;
static const double launch_s = 2e-6;
static const double issue_share = 0.7;
static const double stream_share = 0.85;  /* of the bandwidth, rows */
static const double product_share = 0.75; /* products on tensor cores */
static const double weights_share = 0.4;  /* a library's dw: split sums */
static const double back_share = 0.65; /* our dw: shares of rows in registers */
static const double odd_share = 0.7;   /* of these, rows of no 16 bytes: stem */

enum { SIZE = 224, BATCH = 256 };
static const double goal_images_s = 20000; /* on an H100 */
enum { GOAL_LAUNCHES = 260 };

static const char *const group_names[GROUPS] = {
    [GROUP_STEM] = "stem, both ways",
    [GROUP_PW_FWD] = "1x1, forward",
    [GROUP_DW_FWD] = "depthwise, forward",
    [GROUP_PW_BWD] = "1x1, backward",
    [GROUP_DW_BWD] = "depthwise, backward",
    [GROUP_SUMS] = "statistics and folds",
    [GROUP_HEAD] = "head, both ways",
    [GROUP_OPTIMIZER] = "weights and scalars",
};

/* What the rows of gpu-bench are sums of (tests/bench/kernels.c). */
static const struct {
    const char *row, *op;
} bench_ops[] = {
    {"im2col3", "im2col3"},
    {"pw_fwd", "pw_fwd"},
    {"pw_bwd", "pw_bwd"},
    {"dw_fwd", "dw_fwd"},
    {"dw_bwd", "dw_bwd"},
    {"norm, last row", "norm_apply"},
    {"norm, last row", "norm_grads"},
    {"avgpool_fwd", "avgpool_fwd"},
    {"avgpool_bwd", "avgpool_bwd"},
    {"dropout", "dropout"},
    {"sgd", "sgd"},
};
enum { BENCH_OPS = sizeof(bench_ops) / sizeof(bench_ops[0]) };

struct fact {
    char kernel[96];
    double instructions, stored, loaded; /* of its hot loop; bytes */
};

struct total {
    int32_t launches;
    double bytes, instructions, s[CARDS];
};

struct gpu_model {
    struct fact *facts;
    size_t n_facts;
    bool tells_launches, has_missed;
    struct step step;
    struct total groups[GROUPS], ops[BENCH_OPS], all;
};

static void must(int rc, const struct error *err)
{
    if (rc < 0) {
        (void)fprintf(stderr, "gpu_model: %s\n", err->msg);
        exit(error_exit_status(err->code));
    }
}

/* ---- machine code -----------------------------------------------------------
 */

static int read_facts(struct gpu_model *m, const char *path, struct error *err)
{
    FILE *f = fopen(path, "r");
    struct fact one;
    char line[256];

    if (f == NULL)
        return error_set(err, ERR_IO, "'%s' cannot be opened", path);
    while (fgets(line, sizeof(line), f) != NULL) {
        if (sscanf(line, "%95s %*d %*d %lf %lf %lf", one.kernel,
                   &one.instructions, &one.stored, &one.loaded) != 4)
            continue;
        struct fact *more =
            realloc(m->facts, (m->n_facts + 1) * sizeof(*m->facts));
        if (more == NULL)
            break;
        m->facts = more;
        m->facts[m->n_facts++] = one;
    }
    (void)fclose(f);
    return m->n_facts > 0 ? 0
                          : error_set(err, ERR_INVAL,
                                      "'%s' names no kernel: it is to be what "
                                      "tests/lint/sass.sh --facts prints",
                                      path);
}

/* Instructions for each value that the hot loop stores, or else loads. */
static int per_value(const struct gpu_model *m, const struct step_launch *l,
                     double *ret, struct error *err)
{
    for (size_t i = 0; i < m->n_facts; i++) {
        const struct fact *f = &m->facts[i];
        const double bytes = f->stored > 0 ? f->stored : f->loaded;
        if (strcmp(f->kernel, l->kernel) != 0)
            continue;
        *ret = bytes > 0 ? f->instructions * l->op.value / bytes : 0;
        return 0;
    }
    return error_set(err, ERR_NOTFOUND,
                     "the machine code has no kernel '%s', which a step "
                     "launches: build the objects again",
                     l->kernel);
}

/* The share of a block's lanes that have work: vectors of a row first, then
 * rows (struct rect of kernels/exec/exec.h). */
static double busy_lanes(const struct step_launch *l, int32_t columns)
{
    const char *comma = strchr(l->kernel, ',');
    long width = comma != NULL ? strtol(comma + 1, NULL, 10) : 0;
    const long tiles = columns / (width > 0 ? width : 1);

    if (tiles < 1)
        return 1;
    if (tiles <= CUDA_LANES)
        return (double)(CUDA_LANES / tiles * tiles) / CUDA_LANES;
    return (double)tiles /
           (double)((tiles + CUDA_LANES - 1) / CUDA_LANES * CUDA_LANES);
}

/* ---- time -------------------------------------------------------------------
 */

static double share_of(const struct traffic *t)
{
    const double odd = t->is_odd ? odd_share : 1;

    switch (t->role) {
    case ROLE_PRODUCT:
        return odd * product_share;
    case ROLE_WEIGHTS:
        return odd * weights_share;
    case ROLE_BACK:
        return odd * back_share;
    case ROLE_STREAM:
    case ROLE_SUMS:
    case ROLE_TILES:
        break;
    }
    return stream_share;
}

static void add(struct total *to, const struct total *x)
{
    to->launches += x->launches;
    to->bytes += x->bytes;
    to->instructions += x->instructions;
    for (int c = 0; c < CARDS; c++)
        to->s[c] += x->s[c];
}

static int predict_launch(struct gpu_model *m, const struct step_launch *l,
                          struct error *err)
{
    struct traffic t;
    double per = 0;
    const char *op = l->op.name != NULL ? l->op.name : "-";

    if (traffic_of(l, &t, err) < 0 ||
        (t.values > 0 && per_value(m, l, &per, err) < 0))
        return -1;
    struct total x = {.launches = 1, .bytes = t.bytes};
    x.instructions =
        t.values * per / WARP / busy_lanes(l, t.columns) + t.beside;
    const double sms = l->grid < STEP_SMS ? (double)l->grid : STEP_SMS;
    const double by_issue =
        t.uneven * x.instructions / (sms * SCHEDULERS * clock_hz * issue_share);
    for (int c = 0; c < CARDS; c++) {
        const double by_bytes = t.bytes / (bandwidth[c] * share_of(&t));
        x.s[c] = launch_s + (by_bytes > by_issue ? by_bytes : by_issue);
    }
    add(&m->groups[t.group], &x);
    add(&m->all, &x);
    for (int i = 0; i < BENCH_OPS; i++)
        if (strcmp(bench_ops[i].op, op) == 0)
            add(&m->ops[i], &x);
    if (m->tells_launches)
        (void)printf("%-22s %-28s %5d %5d %6lld %9.3f MB %5.1f per value "
                     "%8.1f us %8.1f us\n",
                     op, l->kernel, l->op.K, l->op.N, (long long)l->grid,
                     t.bytes / 1e6, per, x.s[0] * 1e6, x.s[1] * 1e6);
    return 0;
}

/* ---- tables -----------------------------------------------------------------
 */

static void print_row(const char *name, const struct total *x)
{
    (void)printf("| %s | %d | %.1f | %.1f | %.2f | %.2f |\n", name, x->launches,
                 x->bytes / BATCH / 1e6, x->instructions / 1e9, x->s[0] * 1e3,
                 x->s[1] * 1e3);
}

static void print_groups(const struct gpu_model *m)
{
    (void)printf(
        "| group | launches | MB per image | G instructions | ms, %s | "
        "ms, %s |\n|---|---|---|---|---|---|\n",
        card_names[0], card_names[1]);
    for (int g = 0; g < GROUPS; g++)
        print_row(group_names[g], &m->groups[g]);
    print_row("all", &m->all);
    (void)printf("\nPredicted: %.0f images/s on an %s, %.0f on an %s; %d "
                 "launches a step.\n",
                 BATCH / m->all.s[0], card_names[0], BATCH / m->all.s[1],
                 card_names[1], m->all.launches);
}

static void judge(struct gpu_model *m)
{
    const bool is_fast = BATCH / m->all.s[0] >= goal_images_s;
    const bool is_short = m->all.launches <= GOAL_LAUNCHES;

    m->has_missed = !is_fast || !is_short;
    (void)printf("Goals: %.0f images/s on an %s, %s; %d launches, %s.\n",
                 goal_images_s, card_names[0], is_fast ? "reached" : "missed",
                 GOAL_LAUNCHES, is_short ? "reached" : "missed");
}

/* ---- beside a measurement ---------------------------------------------------
 * The .tsv of tests/gpu/bench.sh: `cell` has images/s of whole steps, `roof`
 * the time of each op. */

static void compare_line(const char *what, double predicted_ms,
                         double measured_ms)
{
    (void)printf("| %s | %.2f | %.2f | %.2f |\n", what, predicted_ms,
                 measured_ms, measured_ms / predicted_ms);
}

static void compare_step(const struct gpu_model *m, int card, const char *row)
{
    double by_default = 0, tuned = 0;

    if (sscanf(row, "nodata\t%lf\t%lf", &by_default, &tuned) < 1)
        return;
    if (by_default > 0)
        compare_line("a step", m->all.s[card] * 1e3, BATCH / by_default * 1e3);
    if (tuned > 0)
        compare_line("a step, tuned", m->all.s[card] * 1e3,
                     BATCH / tuned * 1e3);
}

/* | operation | GB, least | GB, as it moves | GF | ms | ... */
static void compare_op(const struct gpu_model *m, int card, const char *row)
{
    char name[32];
    double measured_ms = 0, predicted_s = 0;

    if (sscanf(row, "| %31[^|]| %*f | %*f | %*f | %lf", name, &measured_ms) !=
        2)
        return;
    for (size_t n = strlen(name); n > 0 && name[n - 1] == ' ';)
        name[--n] = '\0';
    for (int i = 0; i < BENCH_OPS; i++)
        if (strcmp(bench_ops[i].row, name) == 0)
            predicted_s += m->ops[i].s[card];
    if (predicted_s > 0)
        compare_line(name, predicted_s * 1e3, measured_ms);
}

static int compare(const struct gpu_model *m, const char *path,
                   struct error *err)
{
    static const char cell[] = "cell\t224\t256\tbf16\t";
    static const char roof[] = "roof\t224\t256\tbf16\t";
    FILE *f = fopen(path, "r");
    char line[512], card[256] = "";
    int at = 0;

    if (f == NULL)
        return error_set(err, ERR_IO, "'%s' cannot be opened", path);
    while (fgets(line, sizeof(line), f) != NULL) {
        if (card[0] == '\0' && sscanf(line, "# %*s on %255[^\n]", card) == 1) {
            at = strstr(card, card_names[1]) != NULL;
            (void)printf("\nPredicted for an %s, measured on %s:\n\n"
                         "| what | ms, predicted | ms, measured | ratio |\n"
                         "|---|---|---|---|\n",
                         card_names[at], card);
        }
        if (strncmp(line, cell, sizeof(cell) - 1) == 0)
            compare_step(m, at, line + sizeof(cell) - 1);
        if (strncmp(line, roof, sizeof(roof) - 1) == 0)
            compare_op(m, at, line + sizeof(roof) - 1);
    }
    (void)fclose(f);
    return card[0] != '\0' ? 0
                           : error_set(err, ERR_INVAL,
                                       "'%s' does not begin with '# COMMIT on "
                                       "CARD': it is to be the .tsv that `make "
                                       "gpu-bench` writes",
                                       path);
}

int main(int argc, char **argv)
{
    static struct gpu_model m;
    struct error err = ERROR_INIT;
    struct device *d = NULL;
    const char *measured = NULL;
    bool checks = false;

    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--check") == 0)
            checks = true;
        else if (strcmp(argv[i], "--launches") == 0)
            m.tells_launches = true;
        else
            measured = argv[i];
    }
    if (argc < 2) {
        (void)fprintf(stderr, "usage: gpu_model FACTS [--check] [--launches] "
                              "[TSV of make gpu-bench]\n");
        return 64;
    }
    must(read_facts(&m, argv[1], &err), &err);
    must(device_record_create(&d, &err), &err);
    must(step_record(d, SIZE, BATCH, DT_BF16, &m.step, &err), &err);
    for (int32_t i = 0; i < m.step.n; i++)
        must(predict_launch(&m, &m.step.at[i], &err), &err);
    print_groups(&m);
    judge(&m);
    if (measured != NULL)
        must(compare(&m, measured, &err), &err);
    d->ops->destroy(d);
    free(m.facts);
    return checks && m.has_missed ? 1 : 0;
}
