/* cv_floor.c - the floor of a step of MobileNetV2 by hand.
 *
 * Width 0.1, three of four images of 64 x 64, bf16, 10 classes. By the paper's
 * table, 3 * side * side * channels values (weights: with two of the norm):
 *
 *   layers                        side     in      out    weights  skips
 *   1 stem, 3 to 8                64, 32   36,864  24,576    232
 *   1 depthwise of 8              32       24,576  24,576     88
 *   1 of 8 to 8                   32       24,576  24,576     80   24,576
 *   1 of 8 to 48                  32       24,576 147,456    480
 *   1 depthwise of 48             32, 16  147,456  36,864    528
 *   2 of 48 to 8                  16       36,864   6,144    400    6,144
 *   2 of 8 to 48                  16        6,144  36,864    480
 *   1 depthwise of 48             16       36,864  36,864    528
 *   1 depthwise of 48             16, 8    36,864   9,216    528
 *   3 of 48 to 8                  8         9,216   1,536    400  2 * 1,536
 *   3 of 8 to 48                  8         1,536   9,216    480
 *   2 depthwise of 48             8         9,216   9,216    528
 *   1 depthwise of 48             8, 4      9,216   2,304    528
 *   4 of 48 to 8                  4         2,304     384    400  3 * 384
 *   4 of 8 to 48                  4           384   2,304    480
 *   4 depthwise of 48             4         2,304   2,304    528
 *   1 of 48 to 16                 4         2,304     768    800
 *   3 of 16 to 96                 4           768   4,608  1,728
 *   2 of 96 to 16                 4         4,608     768  1,568  2 * 768
 *   2 depthwise of 96             4         4,608   4,608  1,056
 *   1 depthwise of 96             4, 2      4,608   1,152  1,056
 *   3 of 96 to 16                 2         1,152     192  1,568  2 * 192
 *   3 of 16 to 96                 2           192   1,152  1,728
 *   3 depthwise of 96             2         1,152   1,152  1,056
 *   1 of 96 to 32                 2         1,152     384  3,136
 *   1 of 32 to 1,280              2           384  15,360 43,520
 *   52 layers                            534,336 512,832 86,080   36,864
 *
 * The classifier has 1,280 * 10 + 10 weights, and 3 * 1,280 pooled values. */
#include "tests/tap.h"
#include "worker/cv/mobilenet_internal.h"
#include "worker/process/card_limits.h"
#include "worker/train/optimizer.h"

static const double never = 0x1p60; /* as fast as to take no time */

static double floor_of(const struct mobilenet *m, int32_t valid, double flop_s,
                       double byte_s)
{
    struct card_floor f = {.card = {flop_s, byte_s}};
    const struct batch b = {.n = 4, .valid = valid, .tokens = -1};
    mobilenet_floor(&m->model, &b, &f);
    return f.s;
}

int main(void)
{
    struct mobilenet m = {.conf = {.dt = DT_BF16,
                                   .width_mult = 0.1,
                                   .num_classes = 10,
                                   .image_size = 64,
                                   .batch = 4}};
    struct error err = ERROR_INIT;
    if (arch_build(&m.conf, &m.arch, &err) < 0)
        tap_diag("%s", err.msg);

    /* Multiplications of the layers but the depthwise ones: values of the
     * output times channels of the input, of the stem times 27. */
    const double stem = 24576 * 27;
    const double layers = 24576 * 8 + 147456 * 8 + 2 * (6144 * 48 + 36864 * 8) +
                          3 * (1536 * 48 + 9216 * 8) +
                          4 * (384 * 48 + 2304 * 8) + 768 * 48 + 3 * 4608 * 16 +
                          2 * 768 * 96 + 3 * (192 * 96 + 1152 * 16) + 384 * 96 +
                          15360 * 32;
    const double classifier = 3 * 1280 * 10;
    ok(floor_of(&m, 3, 1, never) ==
           2 * (2 * stem + 3 * layers + 3 * classifier),
       "operations: %.17g", floor_of(&m, 3, 1, never));

    /* Forward each layer reads its input, its weights and what a skip brings,
     * and writes its output. Backward it reads the gradient of its output (of
     * the last layer 3 * 1,280 pooled ones), the output, its input, what a skip
     * brings and its weights, and writes gradients of the weights and, but for
     * the stem, of the input. Then pooling, and the classifier both ways. */
    const double forward = 534336 + 512832 + 86080 + 36864;
    const double backward = (512832 - 15360 + 3840) + 512832 + 534336 + 36864 +
                            (534336 - 36864) + 2 * 86080;
    const double head =
        (15360 + 3840) + (3840 + 12810 + 30) + (30 + 2 * 3840 + 2 * 12810);
    ok(floor_of(&m, 3, never, 1) == 2 * (forward + backward + head),
       "bytes: %.17g", floor_of(&m, 3, never, 1));

    /* 98,890 weights of two bytes, and a momentum of four, both ways. */
    const struct job_spec spec = {
        .train.optimizer = {.name = OPTIM_SGD, .momentum = 0.9}};
    is_int(m.arch.params, 86080 + 12810, "weights");
    ok(optimizer_moves(&spec, DT_BF16, m.arch.params) == 98890 * 2 * (2 + 4),
       "sgd: bytes of an update");
    ok(floor_of(&m, 0, 1, 1) == 0, "no image, no work");
    return tap_done();
}
