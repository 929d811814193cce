/* gpu_model.c - training steps on an H100 and an H200, predicted without one.
 *
 *   gpu_model FACTS [--check] [--launches] [gpu-bench's .tsv]
 *   gpu_model FACTS --table STEPS         (gpu_table.c)
 *
 * MobileNetV2, 224x224, batch 256, bf16, and Llamas (gpu_text.c): what
 * mgpu-worker launches is recorded (tests/step/step.h), each launch moves what
 * tests/step/traffic.c says of its shape, and its instructions per value are
 * those of the hot loop in the machine code, FACTS, as `tests/lint/sass.sh
 * --facts` prints them. gpu_time.c makes a time of it.
 *
 * Not in the model: latency, how evenly blocks divide the work, what the caches
 * keep from one kernel to the next, and the loader's kernels. Nothing of it has
 * been measured yet: it serves to compare one version with the next, and to
 * be compared line by line with the first measurement, which it prints beside
 * itself if it gets the figures of `make gpu-bench`.
 *
 * --check exits with 1 if the goals are missed. --launches prints a line for
 * each launch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/error.h"
#include "tests/bench/gpu_time.h"

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

struct gpu_model {
    struct facts facts;
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

static int predict_launch(struct gpu_model *m, const struct step_launch *l,
                          struct error *err)
{
    struct traffic t;
    struct total x;
    double per = 0;
    const char *op = l->op.name != NULL ? l->op.name : "-";

    if (time_launch(&m->facts, l, &t, &x, &per, err) < 0)
        return -1;
    total_add(&m->groups[t.group], &x);
    total_add(&m->all, &x);
    for (int i = 0; i < BENCH_OPS; i++)
        if (strcmp(bench_ops[i].op, op) == 0)
            total_add(&m->ops[i], &x);
    if (m->tells_launches)
        (void)printf("%-22s %-28s %5d %5d %6lld %9.3f MB %5.1f per value "
                     "%8.1f us %8.1f us\n",
                     op, l->kernel, l->op.K, l->op.N, (long long)l->grid,
                     t.bytes / 1e6, per, x.s[ESTIMATE][0] * 1e6,
                     x.s[ESTIMATE][1] * 1e6);
    return 0;
}

/* ---- tables -----------------------------------------------------------------
 */

static void print_row(const char *name, const struct total *x)
{
    (void)printf("| %s | %d | %.1f | %.1f | %.2f | %.2f | %.2f | %.2f |\n",
                 name, x->launches, x->bytes / BATCH / 1e6,
                 x->instructions / 1e9, x->s[ESTIMATE][0] * 1e3,
                 x->s[ESTIMATE][1] * 1e3, x->s[CAREFUL][0] * 1e3,
                 x->s[CAREFUL][1] * 1e3);
}

static double images_s(const struct gpu_model *m, enum estimate e, int card)
{
    return BATCH / m->all.s[e][card];
}

static void print_groups(const struct gpu_model *m)
{
    (void)printf("| group | launches | MB per image | G instructions | "
                 "ms, %s | ms, %s | careful, %s | careful, %s |\n"
                 "|---|---|---|---|---|---|---|---|\n",
                 card_names[0], card_names[1], card_names[0], card_names[1]);
    for (int g = 0; g < GROUPS; g++)
        print_row(group_names[g], &m->groups[g]);
    print_row("all", &m->all);
    (void)printf("\nPredicted: %.0f images/s on an %s, %.0f on an %s; "
                 "carefully %.0f and %.0f; %d launches a step.\n",
                 images_s(m, ESTIMATE, 0), card_names[0],
                 images_s(m, ESTIMATE, 1), card_names[1],
                 images_s(m, CAREFUL, 0), images_s(m, CAREFUL, 1),
                 m->all.launches);
}

/* The rest of the table that scripts read, see gpu_time.h. */
static void print_table(const struct gpu_model *m)
{
    (void)printf("cv\t%d %d bf16\t%.0f\t%.0f\t%.0f\t%.0f\n", SIZE, BATCH,
                 images_s(m, ESTIMATE, 0), images_s(m, ESTIMATE, 1),
                 images_s(m, CAREFUL, 0), images_s(m, CAREFUL, 1));
    (void)printf("copy\tTB/s\t%.2f\t%.2f\n", card_copies(0) / 1e12,
                 card_copies(1) / 1e12);
}

static void judge(struct gpu_model *m)
{
    const bool is_fast = images_s(m, ESTIMATE, 0) >= goal_images_s;
    const bool is_careful = images_s(m, CAREFUL, 0) >= goal_images_s;
    const bool is_short = m->all.launches <= GOAL_LAUNCHES;

    m->has_missed = !is_fast || !is_short;
    (void)printf("Goals: %.0f images/s on an %s, %s, carefully %s; "
                 "%d launches, %s.\n",
                 goal_images_s, card_names[0], is_fast ? "reached" : "missed",
                 is_careful ? "reached" : "missed", GOAL_LAUNCHES,
                 is_short ? "reached" : "missed");
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
        compare_line("a step", m->all.s[ESTIMATE][card] * 1e3,
                     BATCH / by_default * 1e3);
    if (tuned > 0)
        compare_line("a step, tuned", m->all.s[ESTIMATE][card] * 1e3,
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
            predicted_s += m->ops[i].s[ESTIMATE][card];
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
    bool checks = false, has_missed = false, is_exposed = false;
    bool is_table = false;

    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--check") == 0)
            checks = true;
        else if (strcmp(argv[i], "--launches") == 0)
            m.tells_launches = true;
        else if (strcmp(argv[i], "--table") == 0)
            is_table = true;
        else
            measured = argv[i];
    }
    if (argc < 2 || (is_table && measured == NULL)) {
        (void)fprintf(stderr, "usage: gpu_model FACTS [--check] [--launches] "
                              "[TSV of make gpu-bench]\n"
                              "       gpu_model FACTS --table STEPS\n");
        return 64;
    }
    must(facts_read(&m.facts, argv[1], &err), &err);
    must(device_record_create(&d, &err), &err);
    if (is_table)
        must(table_print(d, &m.facts, measured, &err), &err);
    must(step_record(d, SIZE, BATCH, DT_BF16, &m.step, &err), &err);
    for (int32_t i = 0; i < m.step.n; i++)
        must(predict_launch(&m, &m.step.at[i], &err), &err);
    if (is_table) {
        print_table(&m);
        d->ops->destroy(d);
        facts_clear(&m.facts);
        return 0;
    }
    print_groups(&m);
    judge(&m);
    must(text_model(d, &m.facts, m.tells_launches, &has_missed, &err), &err);
    must(shared_model(d, &m.facts, &is_exposed, &err), &err);
    has_missed = has_missed || is_exposed;
    if (measured != NULL)
        must(compare(&m, measured, &err), &err);
    d->ops->destroy(d);
    facts_clear(&m.facts);
    return checks && (m.has_missed || has_missed) ? 1 : 0;
}
