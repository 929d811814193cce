/* data_fetch.c - batches from files: the same whatever the threads do, and
 * what becomes of files that cannot be read. */
#include "worker/data/prefetch.h"

#include <unistd.h>

#include "tests/tap.h"
#include "tests/unit/worker/digits.h"
#include "worker/data/sampler.h"

enum { DIGITS = 90, S = 20, BATCH = 8, BATCHES = 24 };

static char dir[] = "/tmp/mgpu-fetch-XXXXXX";
static struct dataset ds;

static void open_folder(void)
{
    struct error err = ERROR_INIT;
    const struct dataset_conf conf = {.source = SOURCE_IMAGE_FOLDER,
                                      .path = dir};
    if (dataset_open(&conf, DATASET_TRAIN, &ds, &err) < 0) {
        tap_diag("%s", err.msg);
        exit(1);
    }
}

static struct fetch *make(int32_t workers, bool skip)
{
    struct error err = ERROR_INIT;
    struct fetch *f = NULL;
    const struct fetch_conf conf = {
        .view = {.augment = AUGMENT_CROP, .is_train = true, .S = S},
        .batch = BATCH,
        .workers = workers,
        .skip_bad = skip};
    if (prefetch_create(&conf, &ds, &f, &err) < 0) {
        tap_diag("%s", err.msg);
        exit(1);
    }
    return f;
}

static void put(struct fetch *f, int32_t k)
{
    struct error err = ERROR_INIT;
    int32_t index[BATCH];
    for (int32_t i = 0; i < BATCH; i++)
        index[i] = (k * 13 + i * 7) % ds.n;
    index[k % BATCH] = SAMPLER_NONE;
    const struct fetch_ask ask = {
        .index = index, .n = BATCH - k % 3, .seed = 42, .epoch = k / 12};
    if (prefetch_put(f, &ask, &err) < 0) {
        tap_diag("%s", err.msg);
        exit(1);
    }
}

/* Labels, places and bytes in one number; not where the bytes lie. */
static uint64_t digest(const struct fetch_batch *b, const struct fetch_conf *c)
{
    struct prefetch_layout l = prefetch_layout(c, &ds);
    const int32_t *label = (const int32_t *)(const void *)b->stage;
    const struct image_u8 *list = (void *)(b->stage + l.list_at);
    uint64_t sum = 1469598103934665603u;
    for (int32_t i = 0; i < b->n; i++) {
        struct image_u8 m = list[i];
        const uint8_t *p = b->stage + l.bytes_at + m.at;
        m.at = label[i];
        for (size_t k = 0; k < sizeof(m); k++)
            sum = (sum ^ ((const uint8_t *)&m)[k]) * 1099511628211u;
        for (int32_t k = 0; k < m.H * m.W * m.C; k++)
            sum = (sum ^ p[k]) * 1099511628211u;
    }
    return sum;
}

static const struct fetch_conf layout_conf = {.view = {.S = S}, .batch = BATCH};

static uint64_t run(int32_t workers, int32_t *ret_valid)
{
    struct error err = ERROR_INIT;
    struct fetch *f = make(workers, false);
    uint64_t sum = 0;
    int32_t next = 0;
    *ret_valid = 0;
    for (int32_t k = 0; k < BATCHES; k++) {
        struct fetch_batch b;
        while (next < BATCHES && prefetch_has_room(f))
            put(f, next++);
        if (prefetch_take(f, &b, &err) < 0) {
            tap_diag("%s", err.msg);
            exit(1);
        }
        sum = sum * 31 + digest(&b, &layout_conf);
        *ret_valid += b.valid;
    }
    prefetch_destroy(f);
    return sum;
}

static void test_threads(void)
{
    int32_t valid, more;
    uint64_t want = run(0, &valid);
    is_int(valid, 24 * 8 - 24 - 21,
           "batches of eight, seven and six, "
           "less the padding in them");
    for (int32_t workers = 1; workers <= 9; workers += 2) {
        uint64_t got = run(workers, &more);
        ok(got == want && more == valid, "%d threads: the same bytes", workers);
    }
}

/* What is taken stays until the next is taken. */
static void test_stages(void)
{
    struct error err = ERROR_INIT;
    struct fetch_batch a, b;
    for (int32_t workers = 0; workers <= 2; workers += 2) {
        struct fetch *f = make(workers, false);
        int32_t room = 0;
        is_int(prefetch_take(f, &a, &err), -1, "nothing was put");
        is_int(err.code, ERR_STATE, "so nothing can be taken");
        for (; prefetch_has_room(f); room++)
            put(f, room);
        is_int(room, workers ? 3 : 2, "room at the start");
        if (prefetch_take(f, &a, &err) < 0)
            exit(1);
        uint64_t was = digest(&a, &layout_conf);
        ok(!prefetch_has_room(f), "a batch that is taken keeps its room");
        const struct fetch_ask ask = {.index = &room, .n = 1};
        is_int(prefetch_put(f, &ask, &err), -1, "so no more is put");
        is_int(err.code, ERR_STATE, "yet");
        ok(digest(&a, &layout_conf) == was, "and it stays as it is");
        if (prefetch_take(f, &b, &err) < 0)
            exit(1);
        ok(prefetch_has_room(f) && a.stage != b.stage,
           "until the next is taken");
        put(f, 9);
        prefetch_reset(f);
        prefetch_reset(f);
        is_int(prefetch_take(f, &b, &err), -1, "nothing is left after a reset");
        put(f, 5);
        if (prefetch_take(f, &a, &err) < 0)
            exit(1);
        uint64_t after = digest(&a, &layout_conf);
        put(f, 0);
        prefetch_destroy(f); /* with work to do */
        f = make(0, false);
        put(f, 5);
        if (prefetch_take(f, &a, &err) < 0)
            exit(1);
        ok(digest(&a, &layout_conf) == after, "what is put then is right");
        prefetch_destroy(f);
    }
    prefetch_destroy(NULL);
}

static void test_refused(void)
{
    struct error err = ERROR_INIT;
    struct fetch *f = make(1, false);
    const int32_t bad[] = {0, DIGITS}, worse[] = {-2};
    struct fetch_ask ask = {.index = bad, .n = 2};
    is_int(prefetch_put(f, &ask, &err), -1, "a sample behind the last");
    is_str(err.msg, "sample 90 of 90", "is named");
    ask = (struct fetch_ask){.index = worse, .n = 1};
    is_int(prefetch_put(f, &ask, &err), -1, "a negative one");
    ask = (struct fetch_ask){.index = bad, .n = 0};
    is_int(prefetch_put(f, &ask, &err), -1, "none");
    ask.n = BATCH + 1;
    is_int(prefetch_put(f, &ask, &err), -1, "too many");
    prefetch_destroy(f);
    const struct fetch_conf none = {.view = {.S = S}};
    is_int(prefetch_create(&none, &ds, &f, &err), -1, "no batch");
}

static void path_of(int32_t i, char path[400])
{
    (void)snprintf(path, 400, "%s/%s", dir, folder_name(&ds.folder, i));
}

/* Samples 3 and 5 are damaged; all of the first eight are asked for. */
static void test_bad(void)
{
    int32_t index[BATCH] = {0, 1, 2, 3, 4, 5, 6, 7};
    const struct fetch_ask ask = {.index = index, .n = BATCH};
    char path[400];
    path_of(3, path);
    if (truncate(path, 60) < 0)
        exit(1);
    path_of(5, path);
    if (truncate(path, 0) < 0)
        exit(1);
    for (int32_t workers = 0; workers <= 6; workers += 3) {
        struct error err = ERROR_INIT;
        struct fetch_batch b;
        struct fetch *f = make(workers, false);
        path_of(3, path);
        if (prefetch_put(f, &ask, &err) < 0)
            exit(1);
        is_int(prefetch_take(f, &b, &err), -1, "two files are damaged");
        ok(strncmp(err.msg, path, strlen(path)) == 0,
           "%d threads: the first of them is named: %s", workers, err.msg);
        prefetch_destroy(f);
        f = make(workers, true);
        if (prefetch_put(f, &ask, &err) < 0 || prefetch_take(f, &b, &err) < 0)
            exit(1);
        const int32_t *label = (const int32_t *)(const void *)b.stage;
        ok(b.n == 8 && b.valid == 6 && b.bad == 2 && label[3] == -1 &&
               label[5] == -1 && label[4] >= 0,
           "passed over they have no label");
        ok(strncmp(b.first_bad.msg, path, strlen(path)) == 0,
           "and are named: %s", b.first_bad.msg);
        prefetch_destroy(f);
    }
    path_of(5, path);
    (void)unlink(path);
    struct error err = ERROR_INIT;
    struct fetch_batch b;
    struct fetch *f = make(2, true);
    if (prefetch_put(f, &ask, &err) < 0 || prefetch_take(f, &b, &err) < 0)
        exit(1);
    is_int(b.bad, 2, "a file that is gone is one of them");
    prefetch_destroy(f);
}

int main(void)
{
    struct dataset digits;
    if (!mkdtemp(dir))
        return 1;
    digits_open(&digits, DIGITS + 20);
    digits_write(dir, "train", &digits, 0, DIGITS);
    digits_write(dir, "val", &digits, DIGITS, DIGITS + 20);
    open_folder();
    test_threads();
    test_stages();
    test_refused();
    test_bad();
    dataset_clear(&ds);
    dataset_clear(&digits);
    digits_remove(dir);
    return tap_done();
}
