/* rng.c - the stream is MT19937's and the permutation is torch.randperm's. */
#include "jobs/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

static struct rng r;

/* Matsumoto and Nishimura's own seed: the 10,000th draw of seed 5489 is in
 * ISO C++ [rand.predef]. */
static void test_stream(void)
{
    rng_seed(&r, 5489);
    is_int(rng_u32(&r), 3499211612LL, "first draw of seed 5489");
    for (int i = 2; i < 10000; i++)
        (void)rng_u32(&r);
    is_int(rng_u32(&r), 4123659995LL, "10,000th draw of seed 5489");
    rng_seed(&r, 5489);
    is_int(rng_u32(&r), 3499211612LL, "seeding again starts again");
}

/* >>> torch.manual_seed(0); torch.randperm(10)
 * tensor([4, 1, 7, 5, 3, 9, 0, 8, 6, 2]) */
static void test_permutation(void)
{
    static const int32_t want[] = {4, 1, 7, 5, 3, 9, 0, 8, 6, 2};
    int32_t got[10];
    rng_seed(&r, 0);
    rng_permutation(&r, got, 10);
    ok(memcmp(got, want, sizeof(got)) == 0, "torch.randperm(10), seed 0");

    enum { N = 1000 };
    static int32_t big[N];
    static unsigned char seen[N];
    rng_permutation(&r, big, N);
    int bad = 0;
    for (int i = 0; i < N; i++)
        bad += big[i] < 0 || big[i] >= N || seen[big[i]]++;
    is_int(bad, 0, "each of 1000 is there once");
    int32_t one = 7;
    rng_permutation(&r, &one, 1);
    is_int(one, 0, "a permutation of one");
    rng_permutation(&r, NULL, 0);
}

/* With n = 100,000 the mean of a uniform is within 1/2 +- 5 / sqrt(12 n),
 * of a normal within +- 5 / sqrt(n): five standard deviations. */
static void test_moments(void)
{
    const int n = 100000;
    double sum = 0, squares = 0, normal = 0;
    int outside = 0;
    rng_seed(&r, 1);
    for (int i = 0; i < n; i++) {
        double u = rng_uniform(&r);
        double z = rng_normal(&r);
        outside += u < 0 || u >= 1;
        sum += u;
        normal += z;
        squares += z * z;
    }
    is_int(outside, 0, "uniform is in [0, 1)");
    ok(fabs(sum / n - 0.5) < 5 / sqrt(12.0 * n), "mean %g", sum / n);
    ok(fabs(normal / n) < 5 / sqrt((double)n), "normal mean %g", normal / n);
    ok(fabs(squares / n - 1) < 5 * sqrt(2.0 / n), "variance %g", squares / n);
}

static void test_secrets(void)
{
    char a[RNG_TOKEN_CAP], b[RNG_TOKEN_CAP];
    struct error err = ERROR_INIT;
    is_int(rng_token(a, &err), 0, "a token");
    is_int(rng_token(b, &err), 0, "another");
    ok(strcmp(a, b) != 0, "differ");
    is_int((long long)strspn(a, "0123456789abcdef"), 64, "64 digits");
    is_int(a[64], '\0', "and a NUL");
    is_int(rng_secret(a, 0, &err), 0, "no bytes");
}

int main(void)
{
    test_stream();
    test_permutation();
    test_moments();
    test_secrets();
    return tap_done();
}
