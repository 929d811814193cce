/* gpu_text.c - steps on text on an H100 and an H200, predicted; see
 * gpu_model.c.
 *
 * Two things say how far the model can be believed. The rates of a second
 * model, which was written apart from this code and from the launches, as a
 * script of sums over the shapes; it has attention at 340 TFLOP/s forward and
 * 300 backward, as kernels of this kind reach, where this one counts
 * instructions. And a published measurement of another trainer. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/bench/gpu_time.h"

static const char *const part_names[PARTS] = {
    [PART_PRODUCTS] = "products of the layers",
    [PART_WEIGHTS] = "gradients of weights",
    [PART_ADAPTERS] = "adapters",
    [PART_ATTENTION] = "attention",
    [PART_ROWS] = "norms, rotation, SwiGLU",
    [PART_BITS] = "fewer bits",
    [PART_HEAD] = "output layer",
    [PART_LOSS] = "loss, look-ups",
    [PART_OPTIMIZER] = "optimizer",
};

/* Tokens/s. goal: 0: none. second: by the second model, at commit b0b69dc6 with
 * attention on tensor cores, adapters that write first, NF4 in whole vectors,
 * 2,048 rows of logits at a time, SwiGLU and norms made again with their
 * gradients, layers made again without their last product, and 145
 * instructions per value in AdamW of 8 bits. It has no launches: where a kernel
 * has fewer than two blocks for each multiprocessor it cannot know how unevenly
 * they divide. Its full training makes logits twice, as ours did then, some 2 %
 * of the step. So it judges the steps of 16,384 tokens, and those of 8,192; how
 * far the others are is told. */
static const struct text {
    const char *name;
    struct step_text of;
    double goal[CARDS], second[CARDS];
} texts[] = {
    {"LoRA, 8 rows of 2,048",
     {STEP_LORA, STEP_LLAMA3_8B, 8, 2048, 2048, false},
     {15000, 16000},
     {15314.4, 16404.5}},
    {"LoRA, 2 rows of 2,048",
     {STEP_LORA, STEP_LLAMA3_8B, 2, 2048, 2048, false},
     {0, 0},
     {15143.8, 16217.9}},
    {"LoRA, 2 rows of 8,192",
     {STEP_LORA, STEP_LLAMA3_8B, 2, 8192, 8192, false},
     {10000, 10000},
     {11258.0, 11836.2}},
    {"QLoRA, 2 rows of 2,048",
     {STEP_QLORA, STEP_LLAMA3_8B, 2, 2048, 2048, false},
     {13500, 13500},
     {14351.2, 15312.3}},
    {"QLoRA, 8 rows of 2,048",
     {STEP_QLORA, STEP_LLAMA3_8B, 8, 2048, 2048, false},
     {14800, 15800},
     {15103.6, 16162.7}},
    {"DPO, 2 pairs of 2 x 1,024",
     {STEP_DPO, STEP_LLAMA3_8B, 2, 2048, 1024, false},
     {0, 0},
     {11540.5, 12251.1}},
    {"DPO, 8 pairs of 2 x 1,024",
     {STEP_DPO, STEP_LLAMA3_8B, 8, 2048, 1024, false},
     {11300, 11300},
     {11654.1, 12373.9}},
    {"full, 2 rows of 2,048, layers made again, an update each",
     {STEP_FULL, STEP_LLAMA3_8B, 2, 2048, 2048, true},
     {0, 0},
     {8854.2, 9068.5}},
    {"full, 4 rows of 2,048, an update each",
     {STEP_FULL, STEP_LLAMA3_8B, 4, 2048, 2048, false},
     {11000, 11000},
     {11397.2, 11678.1}},
    {"full, 4 rows of 2,048, layers made again, an update each",
     {STEP_FULL, STEP_LLAMA3_8B, 4, 2048, 2048, true},
     {9000, 9000},
     {9520.6, 9746.7}},
    {"full, 8 rows of 2,048, layers made again, an update each",
     {STEP_FULL, STEP_LLAMA3_8B, 8, 2048, 2048, true},
     {0, 0},
     {9892.7, 10125.1}},
};
enum { TEXTS = sizeof(texts) / sizeof(texts[0]) };

/* src  LLMQ, benchmarks/H100x1.md of github.com/IST-DASLab/llmq at 7f895bd:
 *      Qwen2.5-7B in bf16, 4 rows of 1,024 tokens, 128 of these per update,
 *      nothing made again, one H100: 13,863 tokens/s in the last step that is
 *      shown. Its attention is cuDNN's, for which the rates in TFLOP/s are
 * those of the second model, forward and backward. */
static const struct step_text llmq = {STEP_FULL, STEP_QWEN2_7B, 4,
                                      1024,      1024,          false};
static const double llmq_tokens_s = 13863;
static const double cudnn_fwd = 500e12, cudnn_bwd = 420e12;

static const double most_apart = 0.05, even_tokens = 8192;

struct text_times {
    struct total parts[PARTS], all;
    double tokens;
    int64_t bytes; /* planned */
};

static int predict_text(struct device *d, const struct facts *f,
                        const struct step_text *of, bool launches,
                        struct text_times *ret, struct error *err)
{
    static struct step s;
    struct text_times x = {.tokens = (double)of->rows * of->row_tokens};

    if (step_record_text(d, of, &s, &x.bytes, err) < 0)
        return -1;
    for (int32_t i = 0; i < s.n; i++) {
        const struct step_launch *l = &s.at[i];
        struct traffic t;
        struct total one;
        double per = 0;
        if (time_launch(f, l, &t, &one, &per, err) < 0)
            return -1;
        total_add(&x.parts[t.part], &one);
        total_add(&x.all, &one);
        if (launches)
            (void)printf("%-14s %-26s %6lld %6lld %6lld %9.3f MB %8.1f us "
                         "%8.1f us\n",
                         l->op.name != NULL ? l->op.name : "-", l->kernel,
                         (long long)l->m, (long long)l->n, (long long)l->k,
                         one.bytes / 1e6, one.s[ESTIMATE][0] * 1e6,
                         one.s[ESTIMATE][1] * 1e6);
    }
    *ret = x;
    return 0;
}

static double rate_by(const struct text_times *x, enum estimate e, int card)
{
    return x->tokens / x->all.s[e][card];
}

static double rate(const struct text_times *x, int card)
{
    return rate_by(x, ESTIMATE, card);
}

static void print_part(const char *name, const struct total *x)
{
    (void)printf("| %s | %d | %.2f | %.2f | %.1f | %.1f | %.1f |\n", name,
                 x->launches, x->bytes / 1e9, x->instructions / 1e9,
                 x->flop / 1e12, x->s[ESTIMATE][0] * 1e3,
                 x->s[ESTIMATE][1] * 1e3);
}

static void print_text(const struct text *t, const struct text_times *x)
{
    (void)printf("\nLlama 3 8B, bf16, %s: %.0f tokens, %.1f GiB planned\n\n"
                 "| part | launches | GB | G instructions | TFLOP on tensor "
                 "cores | ms, %s | ms, %s |\n|---|---|---|---|---|---|---|\n",
                 t->name, x->tokens, (double)x->bytes / (1 << 30),
                 card_names[0], card_names[1]);
    for (int p = 0; p < PARTS; p++)
        if (x->parts[p].launches > 0)
            print_part(part_names[p], &x->parts[p]);
    print_part("all", &x->all);
    (void)printf("\nPredicted: %.0f tokens/s on an %s, %.0f on an %s; "
                 "carefully %.0f and %.0f.\n",
                 rate(x, 0), card_names[0], rate(x, 1), card_names[1],
                 rate_by(x, CAREFUL, 0), rate_by(x, CAREFUL, 1));
}

static bool judge_goals(const struct text *t, const struct text_times *x)
{
    bool is_reached = true;

    for (int c = 0; c < CARDS; c++) {
        const bool is = rate(x, c) >= t->goal[c];
        const bool is_careful = rate_by(x, CAREFUL, c) >= t->goal[c];
        if (t->goal[c] > 0)
            (void)printf("Goal: %.0f tokens/s on an %s, %s, carefully %s.\n",
                         t->goal[c], card_names[c], is ? "reached" : "missed",
                         is_careful ? "reached" : "missed");
        is_reached = is_reached && is;
    }
    return is_reached;
}

/* Whether both are less than 5 % apart; a row of the table. */
static bool compare_rates(const char *name, const char *card, double here,
                          double there)
{
    const bool is_near = fabs(here / there - 1) <= most_apart;

    (void)printf("| %s | %s | %.0f | %.0f | %+.1f %%%s |\n", name, card, here,
                 there, 100 * (here / there - 1), is_near ? "" : ", too far");
    return is_near;
}

/* ---- another trainer ------------------------------------------------------
 */

/* What a launch takes where LLMQ does the same otherwise: in the update, which
 * 128 steps share, nothing; in attention, what cuDNN's takes. */
static double llmq_s(const struct step_launch *l, enum text_part part,
                     double ours_s)
{
    const double pairs =
        (double)l->op.rows * (l->document + 1) / 2 * l->op.heads;
    const double flop = 4 * pairs * l->op.D;

    if (part == PART_OPTIMIZER || strncmp(l->kernel, "attend_dq", 9) == 0)
        return 0;
    if (strncmp(l->kernel, "attend_mma", 10) == 0)
        return flop / cudnn_fwd;
    if (strncmp(l->kernel, "attend_dkv", 10) == 0)
        return 2.5 * flop / cudnn_bwd;
    return ours_s;
}

/* Of a step in its shape as it is, and as LLMQ would make it; on an H100. */
static int predict_llmq(struct device *d, const struct facts *f,
                        double *ret_ours_s, double *ret_s, struct error *err)
{
    static struct step s;
    int64_t bytes;
    double ours_s = 0, its_s = 0;

    if (step_record_text(d, &llmq, &s, &bytes, err) < 0)
        return -1;
    for (int32_t i = 0; i < s.n; i++) {
        const struct step_launch *l = &s.at[i];
        struct traffic t;
        struct total one;
        double per;
        if (time_launch(f, l, &t, &one, &per, err) < 0)
            return -1;
        if (t.part != PART_OPTIMIZER)
            ours_s += one.s[ESTIMATE][0];
        its_s += llmq_s(l, t.part, one.s[ESTIMATE][0]);
    }
    *ret_ours_s = ours_s;
    *ret_s = its_s;
    return 0;
}

static int compare_llmq(struct device *d, const struct facts *f, bool *ret_near,
                        struct error *err)
{
    const double tokens = (double)llmq.rows * llmq.row_tokens;
    double ours_s = 0, its_s = 0;

    if (predict_llmq(d, f, &ours_s, &its_s, err) < 0)
        return -1;
    (void)printf(
        "\n| tokens/s, Qwen2.5 7B, full, 4 rows of 1,024 | card | here | "
        "measured by LLMQ | apart |\n|---|---|---|---|---|\n");
    *ret_near = compare_rates("as LLMQ makes it", card_names[0], tokens / its_s,
                              llmq_tokens_s);
    (void)printf("\nOurs would make %.0f: it has its own attention.\n",
                 tokens / ours_s);
    return 0;
}

static bool compare_second(const struct text_times *x)
{
    bool is_near = true;

    (void)printf("\n| tokens/s | card | here | second model | apart |\n"
                 "|---|---|---|---|---|\n");
    for (int i = 0; i < TEXTS; i++)
        for (int c = 0; c < CARDS; c++)
            if (!compare_rates(texts[i].name, card_names[c], rate(&x[i], c),
                               texts[i].second[c]) &&
                x[i].tokens >= even_tokens)
                is_near = false;
    return is_near;
}

int text_model(struct device *d, const struct facts *f, bool launches,
               bool *ret_missed, struct error *err)
{
    static struct text_times x[TEXTS];
    bool is_reached = true, is_near = true;

    for (int i = 0; i < TEXTS; i++) {
        if (predict_text(d, f, &texts[i].of, launches, &x[i], err) < 0)
            return -1;
        print_text(&texts[i], &x[i]);
        is_reached = judge_goals(&texts[i], &x[i]) && is_reached;
    }
    is_reached = compare_second(x) && is_reached;
    if (compare_llmq(d, f, &is_near, err) < 0)
        return -1;
    *ret_missed = !is_reached || !is_near;
    return 0;
}
