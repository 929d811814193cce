/* rng.c - MT19937 and its derived draws; see rng.h. */
#include "jobs/base/rng.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/random.h>

enum { N = 624, M = 397 };

void rng_seed(struct rng *r, uint32_t seed)
{
    r->mt[0] = seed;
    for (uint32_t i = 1; i < N; i++)
        r->mt[i] = 1812433253u * (r->mt[i - 1] ^ (r->mt[i - 1] >> 30)) + i;
    r->at = N;
}

static void refill(struct rng *r)
{
    for (uint32_t i = 0; i < N; i++) {
        uint32_t y =
            (r->mt[i] & 0x80000000u) | (r->mt[(i + 1) % N] & 0x7fffffffu);
        r->mt[i] = r->mt[(i + M) % N] ^ (y >> 1) ^ ((y & 1) ? 0x9908b0dfu : 0);
    }
    r->at = 0;
}

uint32_t rng_u32(struct rng *r)
{
    if (r->at >= N)
        refill(r);
    uint32_t y = r->mt[r->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

double rng_uniform(struct rng *r)
{
    uint64_t hi = rng_u32(r) >> 5, lo = rng_u32(r) >> 6;
    return (double)(hi << 26 | lo) * 0x1p-53;
}

double rng_normal(struct rng *r)
{
    double u = 1.0 - rng_uniform(r); /* (0, 1]: the logarithm is finite */
    double v = rng_uniform(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

void rng_permutation(struct rng *r, int32_t *perm, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        perm[i] = i;
    for (int32_t i = 0; i < n - 1; i++) {
        int32_t j = i + (int32_t)(rng_u32(r) % (uint32_t)(n - i));
        int32_t t = perm[i];
        perm[i] = perm[j];
        perm[j] = t;
    }
}

int rng_secret(void *out, size_t n, struct error *err)
{
    char *p = out;
    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_sys(err, errno, "get random bytes");
        p += got;
        n -= (size_t)got;
    }
    return 0;
}

int rng_token(char ret[RNG_TOKEN_CAP], struct error *err)
{
    unsigned char raw[32];
    if (rng_secret(raw, sizeof(raw), err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(raw); i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", raw[i]);
    return 0;
}
