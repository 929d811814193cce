/* llm_floor.c - the floor of three steps by hand: LoRA, full, and pairs.
 *
 * 2 layers of 4 hidden values, 2 heads of 2 with one of keys and values, 8 in
 * the MLP, 16 tokens in the vocabulary. Weights: q, k, v 4 x 8 = 32, o 16, gate
 * and up 4 x 16 = 64, down 8 x 4 = 32, together 144; the output layer 64. A
 * batch has 10 tokens in documents of 6 and 4, which are 21 + 10 pairs of
 * tokens, and 6 labels. Values have two bytes. Rates are powers of two, so that
 * all sums are exact. */
#include "worker/llm/llama_shape.h"

#include "kernels/dtype.h"
#include "tests/tap.h"
#include "worker/train/optimizer.h"

static const double never = 0x1p60; /* as fast as to take no time */

static struct llama_shape shape_of(bool is_full, bool tied)
{
    const struct llama_config c = {.hidden = 4,
                                   .ffn = 8,
                                   .layers = 2,
                                   .vocab = 16,
                                   .heads = 2,
                                   .kv_heads = 1,
                                   .head_dim = 2,
                                   .tied = tied};
    struct llama_shape s = {.rank = 0};
    struct error err = ERROR_INIT;
    if (llama_shape_init(&s, &c, is_full, 2, 4, LORA_Q | LORA_V | LORA_DOWN,
                         &err) < 0)
        tap_diag("%s", err.msg);
    return s;
}

static const struct llama_work work = {.tokens = 10,
                                       .labelled = 6,
                                       .attends = 31,
                                       .value_bytes = 2,
                                       .weight_bytes = 2};

static double floor_of(const struct llama_shape *s, const struct llama_work *w,
                       double flop_s, double byte_s)
{
    struct card_floor f = {.card = {flop_s, byte_s}};
    llama_shape_floor(s, w, &f);
    return f.s;
}

static void is_exact(double is, double wanted, const char *what)
{
    /* What takes no time adds less than half of a unit in all. */
    ok(is == wanted, "%s: %.17g, by hand %.17g", what, is, wanted);
}

/* Rank 2: A of q and v is 4 x 4, their B (4 + 2) x 2, 28 values; of down 2 x 8
 * and 4 x 2, 24. Operations: forward 2 * 10 * (144 + 28 + 24) = 3,920 a layer;
 * backward with the input's gradient, and those of A and B beside theirs, 2 *
 * 10
 * * (144 + 56 + 48) = 4,960, but in the first layer without what q, k, v's
 * input would get, 2 * 10 * (32 + 16) less. The output layer 2 * 6 * 64 = 768
 * each way. Attention 4 * 31 * 4 = 496 forward, 1,240 backward.
 *
 * Bytes forward: q, k, v 2 * (32 + 10 * 12 + 28) = 360, o 2 * (16 + 80) = 192,
 * gate and up 2 * (64 + 200) = 528, down 2 * (32 + 120 + 24) = 352; 1,432.
 * Backward: 2 * (32 + 10 * (8 + 4 + 4) + 56) = 496, 2 * (16 + 10 * (4 + 4)) =
 * 192, 2 * (64 + 200) = 528, 2 * (32 + 10 * (4 + 8 + 8) + 48) = 560; 1,776, and
 * the first layer's q, k, v 2 * (10 * (8 + 4) + 56) = 352. The output layer 2 *
 * (64 + 24) = 176 each way. Attention 2 * 10 * 12 = 240 and 480. */
static void test_lora(void)
{
    const struct llama_shape s = shape_of(false, false);
    struct llama_work w = work;
    is_exact(floor_of(&s, &w, 1, never),
             2 * 3920 + 4960 + (4960 - 960) + 2 * 768 + 2 * (496 + 1240),
             "LoRA: operations");
    is_exact(floor_of(&s, &w, never, 1),
             2 * 1432 + 1776 + (1776 - 496 + 352) + 2 * 176 + 2 * (240 + 480),
             "LoRA: bytes");
    /* At two operations a second and one byte each takes the longer: of o the
     * bytes, of all others the operations. Forward 600 + 192 + 640 + 560,
     * backward 880 + 192 + 640 + 800, and 400 for the first layer's q, k, v. */
    is_exact(floor_of(&s, &w, 2, 1),
             2 * 1992 + 2512 + (2512 - 880 + 400) + 2 * 384 + 2 * (248 + 620),
             "LoRA: the longer of the two for each operation");
    /* Of four bits: 3 / 2 bytes less for each of 144 + 144 weights forward and
     * 144 + 112 backward. */
    w.weight_bytes = 0.5;
    is_exact(floor_of(&s, &w, never, 1), 8064 - 1.5 * (288 + 256),
             "QLoRA: bytes");
    /* The reference's forward pass has no adapters. */
    w = work;
    w.has_reference = true;
    is_exact(floor_of(&s, &w, 1, never), 21808 + 2 * 2880 + 768 + 2 * 496,
             "pairs: operations of the reference, too");
    /* The second layer has a window with 20 pairs of 31: 11 * 4 * 4 operations
     * less forward, and 11 * 10 * 4 backward. */
    struct llama_shape windowed = s;
    windowed.c.window = 3;
    windowed.c.windowed[0] = 2;
    w = work;
    w.windowed = 20;
    is_exact(floor_of(&windowed, &w, 1, never),
             floor_of(&s, &w, 1, never) - 11 * (16 + 40),
             "a window: operations of the pairs in it");
}

/* Operations: 2 * 10 * 144 = 2,880 a layer and way, three ways; the output
 * layer 768, three ways. Bytes: forward 2 * (32 + 120) = 304, 192, 528, 2 * (32
 * + 120) = 304; backward 2 * (32 + 160 + 32) = 448, 2 * (16 + 120 + 16) = 304,
 * 2 * (64 + 240 + 64) = 736, 2 * (32 + 200 + 32) = 528; the output layer 2 *
 * (64
 * + 24) = 176 and 2 * (64 + 48 + 64) = 352; the embedding's gradient 128. */
static void test_full(void)
{
    const struct llama_shape s = shape_of(true, false);
    const struct llama_shape tied = shape_of(true, true);
    is_exact(floor_of(&s, &work, 1, never),
             2 * 3 * 2880 + 3 * 768 + 2 * (496 + 1240), "full: operations");
    is_exact(floor_of(&s, &work, never, 1),
             2 * (1328 + 2016) + 176 + 352 + 128 + 2 * 720, "full: bytes");
    is_exact(floor_of(&tied, &work, never, 1),
             2 * (1328 + 2016) + 176 + 352 + 2 * 720,
             "full, tied: no gradient beside the output layer's");
}

/* Weights are read and written, and so is each mean. */
static void test_update(void)
{
    struct job_spec spec = {.train.optimizer.name = OPTIM_ADAMW};
    is_exact(optimizer_moves(&spec, DT_BF16, 100), 100 * 2 * (2 + 2 * 4),
             "adamw: bytes of an update");
    spec.train.optimizer.name = OPTIM_ADAMW8;
    is_exact(optimizer_moves(&spec, DT_BF16, 100), 100 * 2 * (2 + 2),
             "adamw8bit: bytes of an update");
    spec.train.optimizer.name = OPTIM_SGD;
    is_exact(optimizer_moves(&spec, DT_F64, 100), 100 * 2 * 8,
             "sgd without momentum: bytes of an update");
}

int main(void)
{
    test_lora();
    test_full();
    test_update();
    return tap_done();
}
