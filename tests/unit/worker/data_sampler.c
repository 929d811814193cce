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

/* What the golden file says of a long list: how many there are, the first
 * three, the last, and two sums, the second of which sees a swap. */
static bool digest_is(const int32_t *got, size_t n, const double *want,
                      size_t want_n)
{
    double sum = 0, weighted = 0;
    for (size_t i = 0; i < n; i++) {
        sum += got[i];
        weighted += (double)got[i] * (double)(i % 1009 + 1);
    }
    return n >= 3 && want_n == 7 && want[0] == (double)n && want[1] == got[0] &&
           want[2] == got[1] && want[3] == got[2] && want[4] == got[n - 1] &&
           want[5] == sum && want[6] == weighted;
}

static void test_long(const struct golden *g)
{
    static const struct {
        int32_t n;
        long long seed;
    } cases[] = {{1000, 3}, {60000, 0}, {60000, 1234567}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char line[64];
        int32_t *perm = malloc((size_t)cases[i].n * sizeof(*perm));
        struct rng r;
        size_t n;
        if (!perm)
            exit(1);
        (void)snprintf(line, sizeof(line), "randperm digest %d %lld",
                       cases[i].n, cases[i].seed);
        double *want = golden_get(g, line, &n);
        rng_seed(&r, (uint32_t)cases[i].seed);
        rng_permutation(&r, perm, cases[i].n);
        ok(digest_is(perm, (size_t)cases[i].n, want, n), "torch.%s", line);
        free(perm);
        free(want);
    }
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
            if (sampler_init(&s, n, rank, size, seed,
                             shuffle ? SAMPLER_SHUFFLE : 0, &err) < 0)
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

/* One line of the golden file: rank r of `size` in some epoch. */
static bool rank_is(const struct golden *g, int32_t n, int32_t size,
                    int32_t rank, int64_t seed, int64_t epoch, uint32_t flags)
{
    struct error err = ERROR_INIT;
    struct sampler s;
    char line[96];
    int32_t got[257];
    size_t want_n;
    (void)snprintf(line, sizeof(line), "epochs %d %d %d %d %d %d %d", n, size,
                   rank, (int)seed, (int)epoch, (flags & SAMPLER_SHUFFLE) != 0,
                   (flags & SAMPLER_DROP_LAST) != 0);
    double *want = golden_get(g, line, &want_n);
    if (sampler_init(&s, n, rank, size, seed, flags, &err) < 0)
        exit(1);
    sampler_epoch(&s, epoch);
    bool same = digest_is(got, indices(&s, 32, got), want, want_n);
    if (!same)
        tap_diag("%s", line);
    sampler_clear(&s);
    free(want);
    return same;
}

/* Several epochs, world sizes, with and without drop_last. */
static void test_epochs(const struct golden *g)
{
    static const int32_t sizes[] = {1, 2, 4, 7};
    static const int64_t epochs[] = {0, 1, 5};
    for (uint32_t k = 0; k < 4 * 4; k++) {
        int32_t size = sizes[k / 4];
        uint32_t flags =
            (k & 1 ? SAMPLER_SHUFFLE : 0) | (k & 2 ? SAMPLER_DROP_LAST : 0);
        bool same = true;
        for (int i = 0; i < 3; i++)
            for (int32_t n = 100; n <= 257; n += 157)
                same =
                    rank_is(g, n, size, size - 1, 11, epochs[i], flags) && same;
        ok(same, "%d ranks, three epochs%s%s", size,
           flags & SAMPLER_SHUFFLE ? ", shuffled" : "",
           flags & SAMPLER_DROP_LAST ? ", the rest dropped" : "");
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
        if (sampler_init(&s, n, rank, size, 1,
                         SAMPLER_SHUFFLE | (eval ? SAMPLER_EVAL : 0), &err) < 0)
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
    if (sampler_init(&s, 10, 0, 1, 0, 0, &err) < 0)
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

    is_int(sampler_init(&s, 0, 0, 1, 0, 0, &err), -1, "no samples");
    is_int(err.code, ERR_INVAL, "is invalid");
    is_int(sampler_init(&s, 5, 2, 2, 0, 0, &err), -1, "rank 2 of 2");
    is_int(sampler_init(&s, 5, -1, 2, 0, 0, &err), -1, "rank -1");
    is_int(sampler_init(&s, 5, 0, 0, 0, 0, &err), -1, "no ranks");
    is_int(sampler_init(&s, 2, 0, 3, 0, SAMPLER_DROP_LAST, &err), -1,
           "nothing is left for a rank");
    is_str(err.msg,
           "sampler: 2 samples for 3 ranks, and the rest is to be dropped",
           "which is said");
}

int main(void)
{
    struct golden g;
    golden_open(&g, "tests/golden/data.txt");
    test_randperm(&g);
    test_long(&g);
    test_distributed(&g);
    test_epochs(&g);
    test_shares();
    test_batches();
    golden_close(&g);
    return tap_done();
}
