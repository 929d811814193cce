/* augment.h - choose the part of a picture that becomes a sample, and its size.
 *
 *   none   all of it, to S x S, whatever its shape
 *   flip   the same; in training half of them are mirrored
 *   crop   in training a random part, as torchvision's RandomResizedCrop
 *          (8 to 100 % of the area, 3:4 to 4:3), half of them mirrored; in
 *          evaluation the shorter side to 8/7 S (256 for 224), then the
 *          middle, as torchvision's Resize and CenterCrop
 *
 * What is drawn depends on the seed, the epoch and the sample alone, never on
 * threads or ranks.
 */
#ifndef MGPU_WORKER_DATA_IMAGE_AUGMENT_H
#define MGPU_WORKER_DATA_IMAGE_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/spec/spec.h"

/* In pixels of the upright picture: the part h x w at (top, left) is resized to
 * to_h x to_w; S x S of that from (oy, ox) on is the sample. */
struct view {
    int32_t top, left, h, w;
    int32_t to_h, to_w, oy, ox;
    bool flip;
};

struct view_conf {
    enum spec_augment augment;
    bool is_train;
    int32_t S;
    bool gray; /* one channel, whatever the picture has */
};

struct view_draw {
    int64_t seed, epoch;
    int32_t sample;
};

/* in  W, H  1..IMAGE_SIDE_MAX */
void augment_view_of(const struct view_conf *conf, const struct view_draw *draw,
                     int32_t W, int32_t H, struct view *ret);

/* Block `n` of the counter-based stream of a sample: Philox4x32-10.
 * src Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" */
void augment_view_random(const struct view_draw *draw, uint32_t n,
                         uint32_t ret[4]);

#endif
