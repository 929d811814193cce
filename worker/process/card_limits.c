/* card_limits.c - see card_limits.h.
 *
 * A name is compared as a whole: a part of a card (MIG), and a variant with
 * other limits under a longer name, is another card.
 *
 * src  NVIDIA's data sheets. Where a sheet has products with sparsity alone,
 *      half of that. H100 (SXM, PCIe) and H200: the table of the H100's white
 *      paper, rounded by the sheets to 989, 756 and 67, and 3.35, 2.0 and 4.8
 *      TB/s. A100: 312 TFLOP/s, and 1,555, 1,935 or 2,039 GB/s. L40S: 362 and
 *      864 GB/s, without a figure for fp64. B200: the sheet of HGX B200, and 8
 *      TB/s, the higher one of those that NVIDIA gives for it.
 *      Names: nvidia-smi's in public logs.
 */
#include "worker/process/card_limits.h"

#include <stddef.h>
#include <string.h>

/* TFLOP/s of products and TB/s; fp16 is as fast as bf16. fp64 0: no figure. */
static const struct {
    const char *name;
    double bf16, tf32, fp32, fp64, bandwidth;
} cards[] = {
    {"NVIDIA H100 80GB HBM3", 989.4, 494.7, 66.9, 66.9, 3.35},
    {"NVIDIA H100 PCIe", 756, 378, 51.2, 51.2, 2.0},
    {"NVIDIA H200", 989.4, 494.7, 66.9, 66.9, 4.8},
    {"NVIDIA A100-SXM4-40GB", 312, 156, 19.5, 19.5, 1.555},
    {"NVIDIA A100-PCIE-40GB", 312, 156, 19.5, 19.5, 1.555},
    {"NVIDIA A100-SXM4-80GB", 312, 156, 19.5, 19.5, 2.039},
    {"NVIDIA A100 80GB PCIe", 312, 156, 19.5, 19.5, 1.935},
    {"NVIDIA L40S", 362, 183, 91.6, 0, 0.864},
    {"NVIDIA B200", 2250, 1100, 75, 37, 8.0},
};
enum { CARDS = sizeof(cards) / sizeof(cards[0]) };

static const double tera = 1e12;

bool card_limits_find(const char *card, enum dtype dt, bool tf32,
                      struct card_limits *ret)
{
    int i = 0;
    while (i < CARDS && strcmp(card, cards[i].name) != 0)
        i++;
    if (i == CARDS)
        return false;
    const double flop = dt == DT_F64           ? cards[i].fp64
                        : dt == DT_F32 && tf32 ? cards[i].tf32
                        : dt == DT_F32         ? cards[i].fp32
                                               : cards[i].bf16;
    if (!(flop > 0))
        return false;
    *ret = (struct card_limits){.flop_s = flop * tera,
                                .byte_s = cards[i].bandwidth * tera};
    return true;
}
