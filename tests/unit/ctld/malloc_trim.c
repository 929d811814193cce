/* malloc_trim.c - memory that is free, below a few bytes that are not, goes
 * back to the system when a daemon begins, and when many jobs have left. */
#include "tests/live.h"
#include "tests/unit/ctld/rig.h"

enum {
    BLOCKS = 65536,
    BLOCK = 1000, /* bytes: too small to be a mapping of its own */
    MUCH = BLOCKS / 2 * BLOCK,
    WAIT_MS = 40000, /* it also goes after a minute */
    SWEEPS = 9,
    TASKS = 500, /* in all more than are many */
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

static void keep_one(struct ctld_conf *conf)
{
    conf->max_ended = 1;
}

static bool submit_and_cancel(int sweep)
{
    struct buf text = BUF_INIT;
    char path[48];
    sweep_text(&text, "swept", TASKS);
    (void)snprintf(path, sizeof(path), "/v1/jobs/%d/cancel", sweep * TASKS + 1);
    bool is = call(&r, "POST", "/v1/jobs", buf_str(&text), NULL) == 201 &&
              call(&r, "POST", path, "{}", NULL) == 200;
    buf_clear(&text);
    return is;
}

int main(void)
{
    bool is = true;

    if (!LIVE_IS_KNOWN)
        tap_skip_all("a sanitizer's allocator");
    rig_init(&r);
    size_t before = resident_bytes();
    fill();
    free_all_but_last();
    size_t kept = resident_bytes();
    ok(kept >= before + MUCH, "what is free stays with a process");
    r.tweak = keep_one;
    rig_up(&r, NULL);
    ok(comes_to(kept - MUCH), "and goes when a daemon begins");
    tap_diag("%zu bytes, then %zu, then %zu", before, kept, resident_bytes());

    void *last = blocks[BLOCKS - 1];
    fill();
    free_all_but_last();
    kept = resident_bytes();
    for (int i = 0; is && i < SWEEPS; i++)
        is = submit_and_cancel(i);
    ok(is, "%d jobs come, and all but one leave", SWEEPS * TASKS);
    ok(comes_to(kept - MUCH), "it goes with them");
    tap_diag("%zu bytes, then %zu", kept, resident_bytes());
    rig_down(&r);
    rig_clear(&r);
    free(last);
    free(blocks[BLOCKS - 1]);
    return tap_done();
}
