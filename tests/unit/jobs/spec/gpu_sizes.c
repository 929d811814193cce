/* gpu_sizes.c - which numbers of GPUs a job may have. */
#include "jobs/spec/gpu_sizes.h"

#include <string.h>

#include "tests/tap.h"

static const struct {
    struct gpu_sizes sizes;
    const char *text;
    int32_t nearest; /* of what has none */
} rows[] = {
    {{{1, 8}, {1, 1}, 0, 0}, "1..8", 0},
    {{{1, 8}, {1, 1}, 0, 12}, "1, 2, 3, 4, 6", 0},
    {{{1, 12}, {2, 2}, 0, 12}, "2, 4, 6, 12", 0},
    {{{1, 12}, {1, 3}, 2, 12}, "2, 4, 6", 0},
    {{{1, 2}, {1, 1}, 0, 12}, "1, 2", 0},
    {{{0, 0}, {3, 3}, 0, 12}, "0", 0},
    {{{0, 0}, {5, 5}, 0, 12}, "", 0},
    {{{7, 11}, {1, 1}, 0, 12}, "", 6},
    {{{5, 5}, {1, 1}, 0, 12}, "", 4},
    {{{10, 11}, {1, 1}, 0, 12}, "", 12},
    {{{8, 11}, {1, 1}, 0, 7}, "", 7},
    {{{1, 3}, {4, 4}, 0, 7}, "", 0},
    {{{1, 1024}, {1, 1}, 0, 720720},
     "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 21, 22, "
     "24, 26, ...",
     0},
};

int main(void)
{
    char text[GPU_SIZES_CAP];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct gpu_sizes *s = &rows[i].sizes;
        is_str(gpu_sizes_text(s, text), rows[i].text, "sizes");
        ok(gpu_sizes_any(s) == (rows[i].text[0] != '\0'), "  any");
        ok(gpu_sizes_several(s) == (strpbrk(rows[i].text, ",.") != NULL),
           "  several");
        if (!gpu_sizes_any(s))
            is_int(gpu_sizes_nearest(s), rows[i].nearest, "  the nearest");
    }
    const struct gpu_sizes s = {{1, 8}, {1, 2}, 0, 12};
    ok(gpu_sizes_have(&s, 4, 0) && gpu_sizes_have(&s, 4, 1) &&
           gpu_sizes_have(&s, 4, 2),
       "4 on either number of nodes");
    ok(gpu_sizes_have(&s, 3, 1) && !gpu_sizes_have(&s, 3, 2),
       "3 not on 2 nodes");
    ok(!gpu_sizes_have(&s, 4, 3), "nor on more nodes than it may have");
    ok(!gpu_sizes_have(&s, 12, 2), "12 is outside its range");
    return tap_done();
}
