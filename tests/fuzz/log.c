/* log.c - libFuzzer: what a job's own directory says of its log, as the daemon
 * reads it for who follows it: `times`, and lines with the labels of ranks. The
 * first byte chooses which.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/log/log_times.h"
#include "jobs/log/rank_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Where the log is to be read from, or UINT64_MAX. */
static uint64_t find(const char *text, size_t n, double since_s)
{
    int32_t ranks = -1;
    uint64_t at = UINT64_MAX;
    struct error err = ERROR_INIT;
    if (log_times_find(text, n, since_s, &ranks, &at, &err) == 0) {
        if (ranks < 0 || at > INT64_MAX)
            abort();
        return at;
    }
    if (err.code != ERR_INVAL || ranks != -1 || at != UINT64_MAX)
        abort();
    return at;
}

/* All of the log was written after -INFINITY. Who asks for less is not given
 * more, and what is not yet in the file hides nothing. */
static void times(const char *text, size_t n)
{
    static const double since_s[] = {-INFINITY,  -1e9, 0,       1e-3,
                                     1763712000, 1e15, INFINITY};
    uint64_t before = 0;
    if (find(text, n, since_s[0]) == UINT64_MAX) {
        if (find(text, n, INFINITY) != UINT64_MAX)
            abort();
        return;
    }
    for (size_t i = 0; i < sizeof(since_s) / sizeof(since_s[0]); i++) {
        uint64_t at = find(text, n, since_s[i]);
        uint64_t part = find(text, n - n / 3, since_s[i]);
        if (at < before || (i == 0 && at != 0) ||
            (part != UINT64_MAX && part > at))
            abort();
        before = at;
    }
}

/* In pieces it is the same as at once. The first two bytes: whose, how long a
 * piece is. */
static void lines(const uint8_t *data, size_t size)
{
    if (size < 2)
        return;
    int32_t rank = data[0] & 1 ? data[0] : 1 << (data[0] % 31);
    size_t piece = 1 + data[1], n = size - 2;
    struct rank_lines whole = {.rank = rank}, parts = {.rank = rank};
    char *a = malloc(n + 1), *b = malloc(n + 1);
    if (!a || !b)
        abort();
    memcpy(a, data + 2, n);
    memcpy(b, data + 2, n);
    if (data[1] & 1) {
        rank_lines_gap(&whole);
        rank_lines_gap(&parts);
    }
    size_t n_a = rank_lines_take(&whole, a, n), n_b = 0;
    for (size_t at = 0; at < n; at += piece) {
        size_t m = n - at < piece ? n - at : piece;
        size_t got = rank_lines_take(&parts, b + at, m);
        if (got > m)
            abort();
        memmove(b + n_b, b + at, got);
        n_b += got;
    }
    if (n_a > n || n_a != n_b || memcmp(a, b, n_a) != 0)
        abort();
    free(a);
    free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    /* Of a size of its own, so that a read past its end is seen. */
    char *text = malloc(size > 1 ? size - 1 : 1);
    if (!text)
        abort();
    memcpy(text, data + 1, size - 1);
    if (data[0] % 2 == 0)
        times(text, size - 1);
    else
        lines(data + 1, size - 1);
    free(text);
    return 0;
}
