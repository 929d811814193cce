/* decode.c - images per second from files, by thread, beside raw bytes.
 *
 *   decode [W H [SIZE]]    default 500 375 224, as most of ImageNet is
 *
 * Writes a folder of pictures below /tmp, which is in the page cache then,
 * and takes batches from it as training does: cut, reduced, but not resized,
 * which the device does. "raw" is the same number of samples from memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "tests/unit/worker/pictures.h"
#include "worker/data/prefetch.h"

enum { FILES = 64, BATCH = 32 };

static char dir[] = "/tmp/mgpu-decode-XXXXXX";

static void check(int rc, const struct error *err)
{
    if (rc < 0) {
        fprintf(stderr, "%s\n", err->msg);
        exit(1);
    }
}

/* Something with edges and with noise in it: about 1.5 bits per pixel. */
static void write_folder(const char *kind, int32_t W, int32_t H)
{
    uint8_t *v = malloc((size_t)(W * H) * 3);
    struct buf b = BUF_INIT;
    char path[200];
    size_t bytes = 0;
    uint32_t r = 1;
    paint_must(v != NULL);
    for (int i = 0; i < FILES; i++) {
        for (int32_t k = 0; k < W * H; k++) {
            int32_t x = k % W, y = k / W;
            r = r * 1664525 + 1013904223;
            for (int32_t c = 0; c < 3; c++)
                v[3 * k + c] =
                    (uint8_t)(((x / 40 + y / 30 + i) % 5) * 40 + (x + y) / 16 +
                              c * 9 + (int32_t)(r >> 29));
        }
        const struct paint p = {.W = W, .H = H, .C = 3, .v = v, .quality = 90};
        if (kind[0] == 'j')
            paint_jpeg(&p, &b);
        else
            paint_png(&p, &b);
        bytes += b.len;
        (void)snprintf(path, sizeof(path), "%s/k/%03d.%s", dir, i, kind);
        paint_file(path, &b);
    }
    printf("%s: %d files of %d x %d, %zu KiB each\n", kind, FILES, W, H,
           bytes / FILES / 1024);
    buf_clear(&b);
    free(v);
}

static double measure(const struct dataset *ds, enum spec_augment augment,
                      int32_t S, int32_t workers)
{
    struct error err = ERROR_INIT;
    struct fetch *f = NULL;
    struct fetch_batch b;
    const struct fetch_conf conf = {
        .view = {.augment = augment, .is_train = true, .S = S},
        .batch = BATCH,
        .workers = workers};
    int32_t index[BATCH], put = 0, taken = 0;
    check(prefetch_create(&conf, ds, &f, &err), &err);
    double start = clock_real.now_s(&clock_real), t;
    do {
        for (; prefetch_has_room(f); put++) {
            for (int32_t i = 0; i < BATCH; i++)
                index[i] = (put * BATCH + i) % ds->n;
            const struct fetch_ask ask = {
                .index = index, .n = BATCH, .epoch = put};
            check(prefetch_put(f, &ask, &err), &err);
        }
        check(prefetch_take(f, &b, &err), &err);
        taken++;
        t = clock_real.now_s(&clock_real) - start;
    } while (t < 1.5);
    prefetch_destroy(f);
    return taken * BATCH / t;
}

static void bench(const char *kind, int32_t W, int32_t H, int32_t S)
{
    static const char *const names[] = {"none", "flip", "crop"};
    struct error err = ERROR_INIT;
    struct dataset ds;
    char command[200];
    const struct dataset_conf conf = {
        .source = SOURCE_IMAGE_FOLDER, .path = dir, .split = 0.001};
    write_folder(kind, W, H);
    check(dataset_open(&conf, DATASET_TRAIN, &ds, &err), &err);
    for (int a = 0; a < 3; a += 2)
        for (int32_t workers = 0; workers <= 4; workers += workers + 1)
            printf("  augment %s, %d threads: %8.0f images/s\n", names[a],
                   workers, measure(&ds, (enum spec_augment)a, S, workers));
    dataset_clear(&ds);
    (void)snprintf(command, sizeof(command), "rm -f '%s'/k/*", dir);
    (void)!system(command);
}

static void bench_raw(int32_t S)
{
    int32_t labels[FILES] = {0};
    struct dataset ds = {.n = FILES, .H = S, .W = S, .C = 3, .labels = labels};
    ds.images = calloc(FILES, (size_t)(S * S) * 3);
    paint_must(ds.images != NULL);
    printf("raw: %d x %d from memory\n  %28.0f images/s\n", S, S,
           measure(&ds, AUGMENT_NONE, S, 0));
    free(ds.images);
}

int main(int argc, char **argv)
{
    int32_t W = argc > 2 ? atoi(argv[1]) : 500;
    int32_t H = argc > 2 ? atoi(argv[2]) : 375;
    int32_t S = argc > 3 ? atoi(argv[3]) : 224;
    char path[100];
    if (W < 1 || H < 1 || S < 1 || !mkdtemp(dir))
        return 1;
    (void)snprintf(path, sizeof(path), "%s/k", dir);
    paint_must(mkdir(path, 0700) == 0);
    bench("jpg", W, H, S);
    bench("png", W, H, S);
    bench_raw(S);
    (void)rmdir(path);
    (void)rmdir(dir);
    return 0;
}
