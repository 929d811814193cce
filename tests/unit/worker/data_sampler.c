/* data_sampler.c - shuffles and shares: index by index as PyTorch's, and for
 * evaluation each sample exactly once. */
#include "worker/data/sampler.h"

#include "jobs/base/rng.h"
#include "tests/golden/golden.h"
#include "tests/tap.h"

enum { MOST = 64 };

static bool equal(const int32_t *got, size_t got_n, const double *want,
                  size_t want_n)
{
    bool same = got_n == want_n;
    for (size_t i = 0; same && i < got_n; i++)
        same = got[i] == (int32_t)want[i];
    return same;
}

static void test_randperm(const struct golden *g)
{
    static const struct {
        int32_t n;
        long long seed;
    } cases[] = {{1, 0}, {2, 1}, {10, 0}, {10, 42}, {100, (1LL << 32) + 7}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char line[64];
        int32_t perm[100];
        struct rng r;
        size_t n;
        (void)snprintf(line, sizeof(line), "randperm %d %lld", cases[i].n,
                       cases[i].seed);
        double *want = golden_get(g, line, &n);
        rng_seed(&r, (uint32_t)cases[i].seed);
        rng_permutation(&r, perm, cases[i].n);
        ok(equal(perm, (size_t)cases[i].n, want, n), "torch.%s", line);
        free(want);
    }
}

/* All of a rank's indices, through batches of `batch`. */
static size_t indices(const struct sampler *s, int32_t batch, int32_t *out)
{
    size_t n = 0;
    for (int32_t i = 0; i < sampler_batches(s, batch); i++)
        n += (size_t)sampler_batch(s, i, batch, out + n);
    return n;
}

static void test_distributed(const struct golden *g)
{
    static const struct {
        int32_t n, size;
    } shapes[] = {{10, 1}, {10, 2}, {10, 3}, {11, 3}, {2, 5}, {13, 4}};
    static const struct {
        int64_t seed, epoch;
        bool shuffle;
    } orders[] = {{0, 0, true}, {42, 3, true}, {7, 1, false}};
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < 6 * 3; i++) {
        int32_t n = shapes[i / 3].n, size = shapes[i / 3].size;
        int64_t seed = orders[i % 3].seed, epoch = orders[i % 3].epoch;
        bool shuffle = orders[i % 3].shuffle, same = true;
        for (int32_t rank = 0; rank < size; rank++) {
            struct sampler s;
            char line[80];
            int32_t got[MOST];
            size_t want_n;
            (void)snprintf(line, sizeof(line), "sampler %d %d %d %d %d %d", n,
                           size, rank, (int)seed, (int)epoch, shuffle);
            double *want = golden_get(g, line, &want_n);
            if (sampler_init(&s, n, rank, size, seed, shuffle, false, &err) < 0)
                exit(1);
            sampler_epoch(&s, epoch);
            same = same && equal(got, indices(&s, 3, got), want, want_n);
            sampler_clear(&s);
            free(want);
        }
        ok(same, "%d samples, %d ranks, %s", n, size,
           shuffle ? "shuffled" : "in order");
    }
}

/* How often each sample is seen over all ranks, and whether the ranks agree
 * on how many batches there are. */
static bool shares(int32_t n, int32_t size, bool eval, int32_t *times,
                   int32_t *ret_none)
{
    struct error err = ERROR_INIT;
    bool even = true;
    size_t each = 0;
    memset(times, 0, MOST * sizeof(*times));
    *ret_none = 0;
    for (int32_t rank = 0; rank < size; rank++) {
        struct sampler s;
        int32_t got[MOST];
        if (sampler_init(&s, n, rank, size, 1, true, eval, &err) < 0)
            exit(1);
        size_t k = indices(&s, 2, got);
        even = even && (rank == 0 || k == each);
        each = k;
        for (size_t i = 0; i < k; i++) {
            if (got[i] == SAMPLER_NONE)
                ++*ret_none;
            else
                times[got[i]]++;
        }
        sampler_clear(&s);
    }
    return even && (int32_t)each == (n + size - 1) / size;
}

static void test_shares(void)
{
    for (int32_t size = 1; size <= 4; size++) {
        bool even = true, exact = true, covered = true;
        for (int32_t n = 1; n <= 23; n++) {
            int32_t times[MOST], none, extra = 0;
            even = even && shares(n, size, true, times, &none);
            for (int32_t i = 0; i < n; i++)
                exact = exact && times[i] == 1;
            exact = exact && none == (n + size - 1) / size * size - n;
            even = even && shares(n, size, false, times, &none);
            for (int32_t i = 0; i < n; i++) {
                covered = covered && times[i] >= 1;
                extra += times[i] - 1;
            }
            covered = covered && none == 0 &&
                      extra == (n + size - 1) / size * size - n;
        }
        ok(even, "%d ranks: the same number of batches", size);
        ok(exact, "%d ranks: evaluation sees every sample once", size);
        ok(covered, "%d ranks: training sees all, and repeats few", size);
    }
}

static void test_batches(void)
{
    struct sampler s;
    struct error err = ERROR_INIT;
    int32_t index[8];
    if (sampler_init(&s, 10, 0, 1, 0, false, false, &err) < 0)
        exit(1);
    is_int(sampler_batches(&s, 4), 3, "ten samples are three batches of four");
    is_int(sampler_batch(&s, 0, 4, index), 4, "the first is full");
    is_int(sampler_batch(&s, 2, 4, index), 2, "the last is not");
    is_int(index[1], 9, "and ends with the last sample");
    is_int(sampler_batch(&s, 3, 4, index), 0, "after it there is none");
    is_int(sampler_batches(&s, 5), 2, "ten samples are two batches of five");
    is_int(sampler_batches(&s, 1 << 30), 1, "or one that is too large");
    sampler_clear(&s);
    sampler_clear(&s);
    sampler_clear(NULL);

    is_int(sampler_init(&s, 0, 0, 1, 0, false, false, &err), -1, "no samples");
    is_int(err.code, ERR_INVAL, "is invalid");
    is_int(sampler_init(&s, 5, 2, 2, 0, false, false, &err), -1, "rank 2 of 2");
    is_int(sampler_init(&s, 5, -1, 2, 0, false, false, &err), -1, "rank -1");
    is_int(sampler_init(&s, 5, 0, 0, 0, false, false, &err), -1, "no ranks");
}

int main(void)
{
    struct golden g;
    golden_open(&g, "tests/golden/data.txt");
    test_randperm(&g);
    test_distributed(&g);
    test_shares();
    test_batches();
    golden_close(&g);
    return tap_done();
}
