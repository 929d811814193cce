/* gpu_shared.c - a step whose weights eight ranks shard, predicted; see
 * gpu_model.c.
 *
 * The recorded calls have the collectives among the launches. They run on a
 * stream of their own, one after the other: each begins when the launches
 * before it are done, and the launches behind where it is awaited begin when
 * it is. What the ranks' traffic adds to a step is what is left over.
 *
 * Not in the model: the multiprocessors that NCCL takes from the products.
 *
 * src  350 GB/s: what NCCL's all-gathers reach among eight GPUs of an HGX H100
 *      by NVLink, of 450 in each direction. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/bench/gpu_time.h"

enum { RANKS = 8, TICKETS = 16 };
static const double link_bytes_s = 350e9, collective_s = 20e-6;
static const double goal_of_one = 0.97;

static const struct shared {
    const char *name;
    struct step_text of;
} cases[] = {
    {"full, 4 rows of 2,048",
     {STEP_FULL, STEP_LLAMA3_8B, 4, 2048, 2048, false}},
    {"the same, layers made again",
     {STEP_FULL, STEP_LLAMA3_8B, 4, 2048, 2048, true}},
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

/* Of both passes, seconds: the optimizer's launches are fewer on each rank, and
 * would hide what the traffic costs. */
struct passes {
    double s[CARDS]; /* with what the launches wait for */
    double waited_s[CARDS];
    double sent_s; /* of the collectives by themselves */
};

/* When what is under way is done, by ticket. */
struct stream {
    double end_s, done_s[TICKETS];
};

/* A collective, or where it is awaited; no: another launch. */
static bool take_collective(const struct step_launch *l, int card,
                            struct stream *in, struct passes *x)
{
    double *done_s = &in->done_s[l->ticket % TICKETS];
    double *now_s = &x->s[card];
    if (strcmp(l->kernel, STEP_AWAITED) == 0) {
        x->waited_s[card] += fmax(0, *done_s - *now_s);
        *now_s = fmax(*now_s, *done_s);
        return true;
    }
    if (strcmp(l->kernel, STEP_GATHER) != 0 &&
        strcmp(l->kernel, STEP_SCATTER) != 0)
        return false;
    const double s = collective_s + (double)l->bytes / link_bytes_s;
    in->end_s = fmax(in->end_s, *now_s) + s;
    *done_s = in->end_s;
    if (card == 0)
        x->sent_s += s;
    return true;
}

static int predict(struct device *d, const struct facts *f,
                   const struct step_text *of, int32_t ranks,
                   struct passes *ret, struct error *err)
{
    static struct step s;
    struct stream in[CARDS] = {{.end_s = 0}};
    struct passes x = {.sent_s = 0};
    int64_t bytes;

    if (step_record_shared(d, of, ranks, &s, &bytes, err) < 0)
        return -1;
    for (int32_t i = 0; i < s.n; i++) {
        const struct step_launch *l = &s.at[i];
        struct traffic t;
        struct total one;
        double per;
        bool is_collective = false;
        for (int c = 0; c < CARDS; c++)
            is_collective = take_collective(l, c, &in[c], &x);
        if (is_collective)
            continue;
        if (time_launch(f, l, &t, &one, &per, err) < 0)
            return -1;
        for (int c = 0; c < CARDS && t.part != PART_OPTIMIZER; c++)
            x.s[c] += one.s[ESTIMATE][c];
    }
    *ret = x;
    return 0;
}

int shared_model(struct device *d, const struct facts *f, bool *ret_missed,
                 struct error *err)
{
    bool is_reached = true;

    (void)printf(
        "\n| Llama3 8B, bf16, fsdp on %d ranks | card | ms, one rank | "
        "ms, %d | of these waited | ms of traffic | of one |\n"
        "|---|---|---|---|---|---|---|\n",
        RANKS, RANKS);
    for (int i = 0; i < CASES; i++) {
        struct passes a, b;
        if (predict(d, f, &cases[i].of, 0, &a, err) < 0 ||
            predict(d, f, &cases[i].of, RANKS, &b, err) < 0)
            return -1;
        for (int c = 0; c < CARDS; c++) {
            const double of_one = a.s[c] / b.s[c];
            (void)printf("| %s | %s | %.1f | %.1f | %.1f | %.1f | %.3f |\n",
                         cases[i].name, card_names[c], a.s[c] * 1e3,
                         b.s[c] * 1e3, b.waited_s[c] * 1e3, b.sent_s * 1e3,
                         of_one);
            is_reached = is_reached && of_one >= goal_of_one;
        }
    }
    (void)printf("\nGoal: both passes at %.2f of one rank's rate, %s.\n",
                 goal_of_one, is_reached ? "reached" : "missed");
    *ret_missed = !is_reached;
    return 0;
}
