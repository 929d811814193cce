/* card_limits.h - what a GPU can do at most, and how long work takes on it at
 * least.
 *
 * The floor of an operation is the longer of two times: its multiplications at
 * the card's peak, and what it has to read and write, each value once, at the
 * card's bandwidth. Work that fits between a read and a write (norms,
 * activations, dropout, casts) costs nothing more. What is computed twice to
 * save memory, padding and waits for other ranks are no part of it, so an
 * iteration loses by them.
 */
#ifndef MGPU_WORKER_PROCESS_CARD_LIMITS_H
#define MGPU_WORKER_PROCESS_CARD_LIMITS_H

#include <stdbool.h>

#include "kernels/dtype.h"

struct card_limits {
    double flop_s; /* of products, without sparsity; a product and its sum are
                      two */
    double byte_s; /* of its memory */
};

/* in   card  its name, as CUDA says it
 *      tf32  products of fp32 may round their factors to TF32
 * out  ret   only if true
 * Returns false for a card that is not in the table, or one without a figure
 * for the type. */
bool card_limits_find(const char *card, enum dtype dt, bool tf32,
                      struct card_limits *ret);

struct card_floor {
    struct card_limits card;
    double s; /* of what was added */
};

static inline void card_floor_add(struct card_floor *io, double flop,
                                  double bytes)
{
    const double products_s = flop / io->card.flop_s;
    const double memory_s = bytes / io->card.byte_s;
    io->s += products_s > memory_s ? products_s : memory_s;
}

#endif
