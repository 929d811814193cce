/* rng.h - a seeded generator with a documented stream (never rand()).
 *
 * The stream is MT19937 (Matsumoto, Nishimura 1998), the generator behind
 * torch.Generator("cpu"), so that shuffles can be compared with PyTorch's
 * batch by batch. Secrets come from rng_secret(), which asks the kernel.
 */
#ifndef MGPU_BASE_RNG_H
#define MGPU_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct rng {
    uint32_t mt[624];
    uint32_t at;
};

void rng_seed(struct rng *r, uint32_t seed);
uint32_t rng_u32(struct rng *r);
double rng_uniform(struct rng *r); /* [0, 1), 53 bits, from two draws */
double rng_normal(struct rng *r);  /* mean 0, variance 1; Box-Muller */

/* perm := a permutation of 0..n-1, the one that torch.randperm(n) draws
 * from this generator state: for i in 0..n-2, swap(i, i + u32 % (n - i)).
 */
void rng_permutation(struct rng *r, int32_t *perm, int32_t n);

/* Fills n bytes from getrandom(2). */
int rng_secret(void *out, size_t n, struct error *err) MUST_CHECK;

/* A 256-bit secret as 64 hexadecimal digits and a NUL. */
enum { RNG_TOKEN_CAP = 65 };
int rng_token(char ret[RNG_TOKEN_CAP], struct error *err) MUST_CHECK;

#endif
