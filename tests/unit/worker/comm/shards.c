/* shards.c - how an array is sharded, and what a Llama's shares take. */
#include "worker/comm/shards.h"

#include <stdlib.h>

#include "jobs/base/rng.h"
#include "tests/tap.h"
#include "worker/llm/llama.h"

enum { UNITS = 5 };
static const int64_t counts[UNITS] = {1000, 1, 384, 12345, 128};

/* Each element of the whole is on one rank, at a place of its own. */
static void test_parts(int32_t ranks)
{
    struct error err = ERROR_INIT;
    int64_t whole = 0, seen = 0;
    bool fits = true;
    for (int i = 0; i < UNITS; i++)
        whole += counts[i];
    char *taken = calloc((size_t)whole, 1);
    for (int32_t r = 0; r < ranks && taken != NULL; r++) {
        struct shards s;
        if (!ok(shards_init(&s, r, ranks, counts, UNITS, &err) == 0, "rank %d",
                r))
            continue;
        fits = fits && shards_whole(&s) == whole &&
               s.elements % SHARD_ALIGN == 0 &&
               s.elements - (whole + ranks - 1) / ranks <=
                   UNITS * (int64_t)SHARD_ALIGN;
        int64_t end = 0; /* of what is used of the shard */
        for (int32_t u = 0; u < UNITS; u++) {
            const struct shard_unit *unit = &s.units[u];
            const struct shard_part p =
                shards_part(&s, unit->first, unit->count);
            fits = fits && unit->at == end && p.at >= end &&
                   p.at + p.count <= end + unit->chunk &&
                   unit->chunk * ranks >= unit->count &&
                   unit->chunk * ranks <= s.largest;
            end += unit->chunk;
            for (int64_t i = p.first; i < p.first + p.count; i++) {
                fits = fits && taken[i] == 0 && shards_find(&s, i) == u;
                taken[i] = 1;
                seen++;
            }
        }
        fits = fits && end == s.elements;
        shards_clear(&s);
    }
    ok(fits && seen == whole, "%d ranks: %lld of %lld elements, each once",
       ranks, (long long)seen, (long long)whole);
    free(taken);
}

/* A part of a unit lies in the shard as it lies in the unit. */
static void test_pieces(void)
{
    struct error err = ERROR_INIT;
    struct shards s;
    struct rng rng;
    int wrong = 0;
    rng_seed(&rng, 7);
    if (!ok(shards_init(&s, 1, 3, counts, UNITS, &err) == 0, "rank 1 of 3"))
        return;
    for (int i = 0; i < 1000; i++) {
        const struct shard_unit *u = &s.units[i % UNITS];
        const int64_t first =
            u->first + (int64_t)(rng_uniform(&rng) * (double)u->count);
        const int64_t most = u->first + u->count - first;
        const int64_t n = 1 + (int64_t)(rng_uniform(&rng) * (double)(most - 1));
        const struct shard_part p = shards_part(&s, first, n);
        const int64_t own = u->first + u->chunk;
        for (int64_t at = first; at < first + n; at++) {
            const bool mine = at >= own && at < own + u->chunk;
            const bool has = at >= p.first && at < p.first + p.count;
            if (mine != has ||
                (mine && u->at + at - own != p.at + at - p.first))
                wrong++;
        }
    }
    ok(wrong == 0, "1000 pieces: %d elements elsewhere", wrong);
    shards_clear(&s);
}

/* Weights and gradients are an R-th of the whole, but for what fills chunks
 * up; two units are whole. */
static void test_plan(bool is_tied)
{
    struct llama_conf c = {.shape = {.hidden = 64,
                                     .ffn = 172,
                                     .layers = 5,
                                     .vocab = 512,
                                     .heads = 8,
                                     .kv_heads = 4,
                                     .head_dim = 8,
                                     .max_positions = 512,
                                     .norm_eps = 1e-5,
                                     .rope_theta = 1e4,
                                     .tied = is_tied},
                           .dt = DT_F32,
                           .is_full = true,
                           .batch = 1,
                           .batch_eval = 1,
                           .row_tokens = 64};
    const int64_t fill = (5 + 4) * (int64_t)SHARD_ALIGN * 4;
    struct error err = ERROR_INIT;
    struct model_plan whole;
    if (!ok(llama_plan(&c, &whole, &err) == 0, "whole: %s", err.msg))
        return;
    ok(whole.bytes_gathered == 0, "nothing is gathered");
    for (int32_t ranks = 2; ranks <= 8; ranks *= 2) {
        struct model_plan p;
        c.shared_by = ranks;
        if (!ok(llama_plan(&c, &p, &err) == 0, "%d ranks: %s", ranks, err.msg))
            continue;
        const int64_t share = whole.bytes_params / ranks;
        ok(p.params * 4 == p.bytes_params && p.bytes_params >= share &&
               p.bytes_params <= share + fill &&
               p.bytes_grads == p.bytes_params,
           "%d ranks: %lld of %lld bytes of weights", ranks,
           (long long)p.bytes_params, (long long)whole.bytes_params);
        /* The largest unit is a layer: embedding and output layer are two
         * pieces each. */
        const int64_t layer = 64 * (64 + 64 + 64) + 3 * 64 * 172 + 2 * 64;
        ok(p.bytes_gathered >= 2 * layer * 4 &&
               p.bytes_gathered <= 2 * (layer + ranks * SHARD_ALIGN) * 4,
           "and %lld of two units", (long long)p.bytes_gathered);
        ok(p.bytes_total - p.bytes_params - p.bytes_grads - p.bytes_gathered ==
               whole.bytes_total - whole.bytes_params - whole.bytes_grads +
                   (int64_t)(c.shape.hidden + 2 * c.row_tokens) * 4,
           "all else is as it is, but for the gradient of a norm, and two "
           "numbers of each token's logits");
        const int64_t whole_grads = p.bytes_grads;
        c.in_bwd = true;
        /* A layer's, and that of an embedding that is the output layer. */
        const int64_t most = is_tied ? layer + 512 * 64 : layer;
        ok(llama_plan(&c, &p, &err) == 0 && p.bytes_grads == p.parts * 4 &&
               p.parts >= most / ranks &&
               p.parts <= most / ranks + 3 * SHARD_ALIGN + 64 &&
               p.bytes_grads < whole_grads,
           "in the backward pass %lld bytes of gradients, not %lld",
           (long long)p.bytes_grads, (long long)whole_grads);
        c.in_bwd = false;
    }
}

/* 70B in four bits on eight ranks: an embedding and an output layer of 2.0 GiB
 * each travel in pieces that are no larger than a layer. */
static void test_slots(bool is_tied)
{
    struct llama_conf c = {.shape = {.hidden = 8192,
                                     .ffn = 28672,
                                     .layers = 80,
                                     .vocab = 128256,
                                     .heads = 64,
                                     .kv_heads = 8,
                                     .head_dim = 128,
                                     .max_positions = 8192,
                                     .norm_eps = 1e-5,
                                     .rope_theta = 5e5,
                                     .tied = is_tied},
                           .dt = DT_BF16,
                           .rank = 16,
                           .alpha = 32,
                           .targets = 127,
                           .quantizer = QUANTIZER_NF4,
                           .batch = 1,
                           .batch_eval = 1,
                           .row_tokens = 2048,
                           .shared_by = 8};
    const int64_t values = (int64_t)8192 * (10240 + 8192 + 3 * 28672);
    const int64_t embed = (int64_t)128256 * 8192 * 2;
    struct error err = ERROR_INIT;
    struct model_plan p, whole;
    struct llama_conf all = c;
    all.unit_rows = c.shape.vocab;
    if (!ok(llama_plan(&c, &p, &err) == 0 &&
                llama_plan(&all, &whole, &err) == 0,
            "70B: %s", err.msg))
        return;
    /* A code of 4 bits for each value and a scaler for each 64, and less than
     * a ten-thousandth for factors, means and norms. */
    const int64_t layer = values / 2 + values / 64;
    ok(p.bytes_gathered >= 2 * layer &&
           p.bytes_gathered <= 2 * layer + 2 * layer / 1000 &&
           whole.bytes_gathered >= 2 * embed,
       "%s: two slots take %.2f GiB, and %.2f with whole embeddings",
       is_tied ? "tied" : "untied", (double)p.bytes_gathered / (1 << 30),
       (double)whole.bytes_gathered / (1 << 30));
    ok(p.bytes_base >= whole.bytes_base &&
           p.bytes_base <= whole.bytes_base + 16 * SHARD_ALIGN,
       "a share is as large as it was: %lld bytes, %lld",
       (long long)p.bytes_base, (long long)whole.bytes_base);
}

/* 8B, all weights: a layer has 218,112,000 values, and an embedding
 * 525,336,576, which was beside its gradient. */
static void test_trained_slots(bool is_tied)
{
    struct llama_conf c = {.shape = {.hidden = 4096,
                                     .ffn = 14336,
                                     .layers = 32,
                                     .vocab = 128256,
                                     .heads = 32,
                                     .kv_heads = 8,
                                     .head_dim = 128,
                                     .max_positions = 8192,
                                     .norm_eps = 1e-5,
                                     .rope_theta = 5e5,
                                     .tied = is_tied},
                           .dt = DT_BF16,
                           .is_full = true,
                           .batch = 1,
                           .batch_eval = 1,
                           .row_tokens = 2048};
    static const int32_t ranks[] = {8, 16, 64};
    const int64_t layer = 218112000, fill = 2 * (int64_t)SHARD_ALIGN;
    struct error err = ERROR_INIT;
    for (int i = 0; i < 3; i++) {
        struct model_plan p;
        c.shared_by = ranks[i];
        if (!ok(llama_plan(&c, &p, &err) == 0, "8B: %s", err.msg))
            continue;
        ok(p.bytes_gathered >= 2 * layer * 2 &&
               p.bytes_gathered <= 2 * (layer + fill * ranks[i]) * 2,
           "8B, all weights, %d ranks: two slots take %lld bytes", ranks[i],
           (long long)p.bytes_gathered);
        /* A slot holds a piece and its gradient. */
        c.unit_rows = 390 * 256;
        const int64_t both = 2 * (int64_t)c.unit_rows * 4096;
        if (!ok(llama_plan(&c, &p, &err) == 0, "8B: %s", err.msg))
            continue;
        ok(p.bytes_gathered >= 2 * both * 2 &&
               p.bytes_gathered <= 2 * (both + 2 * 4096 + fill * ranks[i]) * 2,
           "and with pieces of %d rows %lld", c.unit_rows,
           (long long)p.bytes_gathered);
        c.unit_rows = 0;
    }
}

int main(void)
{
    for (int32_t ranks = 1; ranks <= 8; ranks++)
        test_parts(ranks);
    test_pieces();
    test_plan(true);
    test_plan(false);
    test_slots(true);
    test_slots(false);
    test_trained_slots(true);
    test_trained_slots(false);
    return tap_done();
}
