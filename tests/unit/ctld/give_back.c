/* give_back.c - memory that is free, below a few bytes that are not, goes back
 * to the system when a daemon begins. */
#include "tests/live.h"
#include "tests/unit/ctld/rig.h"

enum {
    BLOCKS = 65536,
    BLOCK = 1000, /* bytes: too small to be a mapping of its own */
    MOST = BLOCKS / 4 * 3 * BLOCK,
    WAIT_MS = 60000,
};

static struct rig r;
static void *blocks[BLOCKS];

static size_t resident_bytes(void)
{
    char line[128], *second = NULL; /* pages: of all, and in memory */
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f || !fgets(line, sizeof(line), f))
        exit(1);
    (void)fclose(f);
    (void)strtoull(line, &second, 10);
    return strtoull(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void fill(void)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK);
        if (!blocks[i])
            exit(1);
        memset(blocks[i], 1, BLOCK);
    }
}

static void free_all_but_last(void)
{
    for (size_t i = 0; i < BLOCKS - 1; i++)
        free(blocks[i]);
}

static bool comes_to(size_t most)
{
    for (int ms = 0; ms < WAIT_MS; ms += 5) {
        if (resident_bytes() <= most)
            return true;
        (void)poll(NULL, 0, 5);
    }
    return false;
}

int main(void)
{
    if (!LIVE_IS_KNOWN)
        tap_skip_all("a sanitizer's allocator");
    rig_init(&r);
    size_t before = resident_bytes();
    fill();
    free_all_but_last();
    size_t kept = resident_bytes();
    ok(kept >= before + MOST, "what is free stays with a process");
    rig_up(&r, NULL);
    ok(comes_to(kept - MOST), "and goes when a daemon begins");
    tap_diag("%zu bytes, then %zu, then %zu", before, kept, resident_bytes());
    rig_down(&r);
    rig_clear(&r);
    free(blocks[BLOCKS - 1]);
    return tap_done();
}
