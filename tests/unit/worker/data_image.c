/* data_image.c - JPEG and PNG files, good, turned, too large, damaged and
 * hostile, as samples. */
#include "worker/data/image/image_sample.h"

#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/rng.h"
#include "tests/golden/golden.h"
#include "tests/tap.h"
#include "tests/unit/worker/pictures.h"
#include "worker/data/image/decode.h"

static struct sample_room room;
static struct buf file = BUF_INIT;

static const struct view_draw first = {.seed = 1};

/* The sample of what is in `file`. */
static int decode(int32_t S, struct image_u8 *m, const uint8_t **pixels,
                  struct error *err)
{
    const struct view_conf conf = {.augment = AUGMENT_NONE, .S = S};
    return sample_decode(&room, (const uint8_t *)file.data, file.len, &conf,
                         &first, m, pixels, err);
}

/* The largest difference from v [H, W, C]; 256 when it is not that size. */
static int32_t off_by(int32_t S, int32_t H, int32_t W, int32_t C,
                      const uint8_t *v)
{
    struct image_u8 m;
    struct error err = ERROR_INIT;
    const uint8_t *p;
    int32_t most = 0;
    if (decode(S, &m, &p, &err) < 0) {
        tap_diag("%s", err.msg);
        return 257;
    }
    if (m.H != H || m.W != W || m.C != C || m.h != H || m.w != W || m.y0 ||
        m.x0)
        return 256;
    for (int32_t i = 0; i < H * W * C; i++)
        most = abs(p[i] - v[i]) > most ? abs(p[i] - v[i]) : most;
    return most;
}

static void refused(enum err_code code, const char *text)
{
    struct image_u8 m;
    struct error err = ERROR_INIT;
    const uint8_t *p;
    int rc = decode(28, &m, &p, &err);
    if (!ok(rc == -1 && err.code == code && strstr(err.msg, text),
            "refused: %s", text))
        tap_diag("rc %d, %d: %s", rc, err.code, err.msg);
}

/* ---- PNG -----------------------------------------------------------------
 */

/* Every kind holds 40 x 30 of the pattern, cut to its bits. */
static void test_png(void)
{
    static const struct {
        const char *name;
        struct paint p;
    } kinds[] = {
        {"8-bit RGB", {.C = 3}},
        {"interlaced RGB", {.C = 3, .progressive = true}},
        {"16-bit RGB", {.C = 3, .bits = 16}},
        {"RGB with alpha", {.C = 4}},
        {"16-bit RGB with alpha, interlaced",
         {.C = 4, .bits = 16, .progressive = true}},
        {"8-bit gray", {.C = 1}},
        {"1-bit gray", {.C = 1, .bits = 1}},
        {"2-bit gray, interlaced", {.C = 1, .bits = 2, .progressive = true}},
        {"4-bit gray", {.C = 1, .bits = 4}},
        {"16-bit gray", {.C = 1, .bits = 16}},
        {"gray with alpha", {.C = 2}},
        {"16-bit gray with alpha", {.C = 2, .bits = 16}},
        {"a palette with transparency", {.C = 1, .palette = true}},
        {"4-bit palette", {.C = 1, .palette = true, .bits = 4}},
    };
    enum { W = 30, H = 40 };
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        struct paint p = kinds[k].p;
        uint8_t v[W * H * 4], want[W * H * 3], *w = want;
        int32_t C = p.C < 3 && !p.palette ? 1 : 3;
        p.W = W;
        p.H = H;
        p.v = v;
        for (int32_t i = 0; i < W * H; i++) {
            for (int32_t c = 0; c < p.C; c++) {
                int32_t bits = p.bits && p.bits < 8 ? p.bits : 8;
                int32_t x = (i * 7 + c * 61 + i / W * 3) & 0xff;
                x = p.palette ? x % 8 : x >> (8 - bits);
                v[i * p.C + c] = (uint8_t)x;
                if (!p.palette && c < C)
                    *w++ = (uint8_t)(x * 255 / ((1 << bits) - 1));
            }
            for (int32_t c = 0; p.palette && c < 3; c++)
                *w++ = paint_palette(v[i], c);
        }
        paint_png(&p, &file);
        ok(off_by(40, H, W, C, want) == 0, "PNG: %s", kinds[k].name);
    }
}

/* ---- JPEG ----------------------------------------------------------------
 */

/* Smooth enough for JPEG, and different in every direction. */
static uint8_t *smooth(int32_t H, int32_t W, int32_t C)
{
    uint8_t *v = malloc((size_t)(H * W * C)), *p = v;
    paint_must(v != NULL);
    for (int32_t y = 0; y < H; y++)
        for (int32_t x = 0; x < W; x++)
            for (int32_t c = 0; c < C; c++)
                *p++ = (uint8_t)(40 + (x * 2 + y + c * 30) % 180);
    return v;
}

static void test_jpeg(void)
{
    enum { W = 45, H = 37 };
    uint8_t *rgb = smooth(H, W, 3), *gray = smooth(H, W, 1);
    struct paint p = {.W = W, .H = H, .C = 3, .v = rgb};
    struct image_u8 m;
    struct error err = ERROR_INIT;
    const uint8_t *q;
    uint8_t plain[W * H * 3];
    paint_jpeg(&p, &file);
    int32_t off = off_by(40, H, W, 3, rgb);
    ok(off <= 6, "a JPEG is off by %d at most", off);
    if (decode(40, &m, &q, &err) == 0)
        memcpy(plain, q, sizeof(plain));
    p.progressive = true;
    paint_jpeg(&p, &file);
    is_int(off_by(40, H, W, 3, plain), 0, "progressive it is the same");
    p = (struct paint){.W = W, .H = H, .C = 1, .v = gray};
    paint_jpeg(&p, &file);
    off = off_by(40, H, W, 1, gray);
    ok(off <= 6, "gray stays one channel, off by %d", off);
    free(rgb);
    free(gray);
}

/* Adobe stores CMYK inverted: what is stored is light. */
static void test_cmyk(void)
{
    enum { W = 24, H = 24 };
    uint8_t v[W * H * 4], want[W * H * 3];
    for (int32_t i = 0; i < W * H; i++) {
        static const uint8_t ink[4] = {200, 120, 40, 230};
        memcpy(v + 4 * i, ink, 4);
        for (int32_t c = 0; c < 3; c++)
            want[3 * i + c] = (uint8_t)(ink[c] * ink[3] / 255.0 + 0.5);
    }
    struct paint p = {.W = W, .H = H, .C = 4, .v = v};
    for (int k = 0; k < 3; k++) {
        p.cmyk = k == 1;
        p.progressive = k == 2;
        paint_jpeg(&p, &file);
        int32_t off = off_by(24, H, W, 3, want);
        ok(off <= 3, "%s is off by %d", k == 1 ? "CMYK" : "YCCK", off);
    }
}

/* ---- turned --------------------------------------------------------------
 */

static void test_turned(const struct golden *g)
{
    static const uint8_t v[6] = {0, 1, 2, 3, 4, 5};
    for (int32_t o = 1; o <= 8; o++) {
        struct paint p = {.W = 3, .H = 2, .C = 1, .v = v, .orientation = o};
        uint8_t want[6];
        char line[32];
        size_t n;
        (void)snprintf(line, sizeof(line), "turned %d", o);
        double *up = golden_get(g, line, &n);
        for (int i = 0; i < 6; i++)
            want[i] = (uint8_t)up[2 + i];
        paint_png(&p, &file);
        ok(off_by(6, (int32_t)up[0], (int32_t)up[1], 1, want) == 0,
           "PNG: as PIL turns %d", o);
        free(up);
    }
}

/* Bytes of the golden picture; see pattern() of the generator. */
static void test_gray(const struct golden *g)
{
    enum { W = 50, H = 40, EACH = 37 };
    uint8_t v[W * H * 3];
    const struct paint png = {.W = W, .H = H, .C = 3, .v = v};
    const struct view_conf conf = {.S = 50, .gray = true};
    struct image_u8 m;
    struct error err = ERROR_INIT;
    const uint8_t *p;
    double got[W * H / EACH + 1];
    size_t n = 0;
    for (int32_t y = 0; y < H; y++)
        for (int32_t x = 0; x < W; x++)
            for (int32_t c = 0; c < 3; c++)
                v[(y * W + x) * 3 + c] =
                    (uint8_t)(x * 7 + y * 13 + c * 29 + x * y % 17 * 5);
    paint_png(&png, &file);
    is_int(sample_decode(&room, (const uint8_t *)file.data, file.len, &conf,
                         &first, &m, &p, &err),
           0, "a colour picture as gray");
    ok(m.C == 1 && m.W == W && m.H == H, "has one channel");
    for (int32_t i = 0; i < W * H; i += EACH)
        got[n++] = p[i];
    golden_is(g, "gray", got, n, 0);
}

/* A gray view is the gray of the view: parts, turns, whole boxes (one mean is
 * rounded for three) and gray files, which stay as they are. */
static void test_gray_views(void)
{
    enum { W = 64, H = 48 };
    for (int32_t k = 0; k < 12; k++) {
        bool colour = k % 4 < 3;
        uint8_t *v = smooth(H, W, colour ? 3 : 1), want[40000] = {0};
        struct paint jpeg = {.W = W,
                             .H = H,
                             .C = colour ? 3 : 1,
                             .v = v,
                             .orientation = 1 + k % 8};
        struct view_conf conf = {
            .augment = AUGMENT_CROP, .is_train = true, .S = k < 6 ? 40 : 10};
        const struct view_draw draw = {.seed = k, .sample = 1};
        struct image_u8 m, n;
        struct error err = ERROR_INIT;
        const uint8_t *p;
        int32_t most = 0;
        paint_jpeg(&jpeg, &file);
        paint_must(sample_decode(&room, (const uint8_t *)file.data, file.len,
                                 &conf, &draw, &m, &p, &err) == 0);
        for (int32_t i = 0; i < m.H * m.W; i++)
            want[i] = m.C == 1 ? p[i] : image_gray(p + (ptrdiff_t)i * 3);
        conf.gray = true;
        paint_must(sample_decode(&room, (const uint8_t *)file.data, file.len,
                                 &conf, &draw, &n, &p, &err) == 0);
        for (int32_t i = 0; i < m.H * m.W; i++)
            most = abs(p[i] - want[i]) > most ? abs(p[i] - want[i]) : most;
        bool boxes = n.H < n.h || n.W < n.w || m.H * m.W < W * H / 4;
        m.C = 1;
        ok(memcmp(&m, &n, sizeof(m)) == 0 && most <= (boxes ? 1 : 0),
           "view %d: the same part, off by %d", k, most);
        free(v);
    }
}

/* Turning and then cutting is cutting out of the turned: for each way up the
 * sample of a JPEG is that of the upright file. */
static void test_turned_part(void)
{
    enum { W = 64, H = 48 };
    const struct view_conf conf = {
        .augment = AUGMENT_CROP, .is_train = true, .S = 20};
    const struct view_draw draw = {.seed = 5, .sample = 2};
    struct image_u8 m, n;
    struct error err = ERROR_INIT;
    const uint8_t *p;
    uint8_t *v = smooth(H, W, 3), kept[60000];
    for (int32_t o = 2; o <= 8; o++) {
        struct exif_turn {
            bool swap, x, y;
        } t = {o >= 5, o == 2 || o == 3 || o >= 7,
               o == 3 || o == 4 || o == 6 || o == 7};
        int32_t SW = t.swap ? H : W, SH = t.swap ? W : H;
        uint8_t stored[W * H * 3];
        struct paint up = {.W = W, .H = H, .C = 3, .v = v};
        struct paint turned = {
            .W = SW, .H = SH, .C = 3, .v = stored, .orientation = o};
        for (int32_t y = 0; y < SH; y++)
            for (int32_t x = 0; x < SW; x++) {
                int32_t a = t.x ? SW - 1 - x : x, b = t.y ? SH - 1 - y : y;
                const uint8_t *from = v + 3 * (t.swap ? a * W + b : b * W + a);
                memcpy(stored + 3 * (y * SW + x), from, 3);
            }
        paint_png(&up, &file);
        int rc = sample_decode(&room, (uint8_t *)file.data, file.len, &conf,
                               &draw, &m, &p, &err);
        size_t bytes = (size_t)(m.H * m.W * m.C);
        if (rc == 0 && bytes <= sizeof(kept))
            memcpy(kept, p, bytes);
        paint_png(&turned, &file);
        rc += sample_decode(&room, (uint8_t *)file.data, file.len, &conf, &draw,
                            &n, &p, &err);
        ok(rc == 0 && memcmp(&m, &n, sizeof(m)) == 0 &&
               memcmp(kept, p, bytes) == 0,
           "the part of a picture turned by %d", o);
    }
    free(v);
}

/* ---- sizes ---------------------------------------------------------------
 */

/* Each pixel of the 28 x 28 pattern, blown up. */
static void paint_blocks(int32_t fy, int32_t fx, bool jpeg,
                         const uint8_t *pattern)
{
    int32_t H = 28 * fy, W = 28 * fx;
    uint8_t *v = malloc((size_t)(H * W * 3));
    struct paint p = {.W = W, .H = H, .C = 3, .v = v};
    paint_must(v != NULL);
    for (int32_t y = 0; y < H; y++)
        for (int32_t x = 0; x < W; x++)
            memcpy(v + 3 * (y * W + x), pattern + 3 * (y / fy * 28 + x / fx),
                   3);
    if (jpeg)
        paint_jpeg(&p, &file);
    else
        paint_png(&p, &file);
    free(v);
}

static void test_reduced(void)
{
    uint8_t *pattern = paint_pattern(28, 28);
    paint_blocks(10, 7, false, pattern);
    is_int(off_by(28, 28, 28, 3, pattern), 0, "means of 10 x 7 pixels");
    paint_blocks(1, 5, false, pattern);
    is_int(off_by(28, 28, 28, 3, pattern), 0, "of 1 x 5");
    paint_blocks(8, 8, true, pattern);
    int32_t off = off_by(28, 28, 28, 3, pattern);
    ok(off <= 3, "a JPEG decoded at an eighth is off by %d", off);
    paint_blocks(16, 24, true, pattern);
    off = off_by(28, 28, 28, 3, pattern);
    ok(off <= 3, "and reduced further, by %d", off);
    free(pattern);
}

/* Whatever the shape, a sample is of the planned size at most, and stored
 * whole. */
static void test_bounds(void)
{
    struct rng r;
    bool good = true;
    rng_seed(&r, 3);
    for (int k = 0; k < 300; k++) {
        int32_t W = 1 + (int32_t)(rng_u32(&r) % (k % 7 ? 300 : 3000));
        int32_t H = 1 + (int32_t)(rng_u32(&r) % (k % 5 ? 200 : 5));
        const struct view_conf conf = {.augment = (enum spec_augment)(k % 3),
                                       .is_train = k / 3 % 2 == 0,
                                       .S = 1 + (int32_t)(rng_u32(&r) % 60)};
        const struct view_draw draw = {.sample = k};
        uint8_t *v = smooth(H, W, 1);
        struct paint p = {
            .W = W, .H = H, .C = 1, .v = v, .orientation = 1 + k % 8};
        struct image_u8 m;
        struct error err = ERROR_INIT;
        const uint8_t *q;
        if (k % 2)
            paint_png(&p, &file);
        else
            paint_jpeg(&p, &file);
        bool fits =
            sample_decode(&room, (uint8_t *)file.data, file.len, &conf, &draw,
                          &m, &q, &err) == 0 &&
            image_u8_check(&m, (int64_t)m.H * m.W, conf.S, 3, &err) == 0;
        if (!fits)
            tap_diag("%d x %d to %d: %s", W, H, conf.S, err.msg);
        good = good && fits;
        free(v);
    }
    ok(good, "300 shapes, ways up and views");
}

/* ---- what is refused -----------------------------------------------------
 */

static void put32(size_t at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        file.data[at + (size_t)i] = (char)(v >> (24 - 8 * i));
}

static void test_limits(void)
{
    uint8_t v[64 * 3] = {0};
    struct paint p = {.W = 8, .H = 8, .C = 3, .v = v};
    paint_png(&p, &file);
    put32(16, 65536);
    refused(ERR_INVAL, "PNG: "); /* libpng looks at the checksum first */
    paint_jpeg(&p, &file);
    size_t at = 0;
    while (
        !((uint8_t)file.data[at] == 0xff && (uint8_t)file.data[at + 1] == 0xc0))
        at++; /* the frame header: height and width */
    put32(at + 5, 0xffffffff);
    refused(ERR_INVAL, "Maximum supported image dimension");
    put32(at + 5, 0xea60ea60);
    refused(ERR_LIMIT, "60000 x 60000 pixels; at most 33554432");
    buf_reset(&file);
    refused(ERR_INVAL, "the file is empty");
    paint_must(buf_add(&file, "hello", 5, NULL) == 0);
    refused(ERR_INVAL, "not a JPEG or PNG file");
}

/* 6000 x 6000 pixels of nothing: 36 million in a small file. */
static void test_bomb(void)
{
    uint8_t *v = calloc(6000, 6000);
    struct paint p = {.W = 6000, .H = 6000, .C = 1, .v = v, .bits = 1};
    paint_must(v != NULL);
    paint_png(&p, &file);
    tap_diag("%zu bytes", file.len);
    refused(ERR_LIMIT, "6000 x 6000 pixels; at most 33554432");
    free(v);
}

/* Cut anywhere it is refused; with any byte wrong it is read or refused, and
 * under the sanitizers nothing else happens. */
static void test_damage(const struct paint *p, bool jpeg, const char *name)
{
    struct image_u8 m;
    struct error err = ERROR_INIT;
    const uint8_t *q;
    if (jpeg)
        paint_jpeg(p, &file);
    else
        paint_png(p, &file);
    size_t n = file.len, cut = 0, said = 0;
    for (file.len = 0; file.len < n; file.len++) {
        err = (struct error)ERROR_INIT;
        cut += decode(28, &m, &q, &err) == -1;
        said += err.code == ERR_INVAL && err.msg[0];
    }
    ok(cut == n && said == n,
       "%s of %zu bytes: cut anywhere, refused %zu "
       "times with a reason",
       name, n, said);
    for (size_t i = 0; i < n; i++) {
        file.data[i] ^= 0x55;
        if (decode(28, &m, &q, &err) == 0)
            said++;
        file.data[i] ^= 0x55;
    }
    ok(decode(28, &m, &q, &err) == 0, "%s: and whole again it is read", name);
}

static void test_damaged(void)
{
    uint8_t *rgb = paint_pattern(16, 16);
    struct paint p = {.W = 16, .H = 16, .C = 3, .v = rgb, .orientation = 6};
    test_damage(&p, true, "JPEG");
    test_damage(&p, false, "PNG");
    p.progressive = true;
    test_damage(&p, true, "progressive JPEG");
    test_damage(&p, false, "interlaced PNG");
    free(rgb);
}

/* The scans of a progressive file again and again. */
static void test_scans(void)
{
    uint8_t *rgb = paint_pattern(16, 16);
    struct paint p = {.W = 16, .H = 16, .C = 3, .v = rgb, .progressive = true};
    size_t at = 0;
    paint_jpeg(&p, &file);
    while (
        !((uint8_t)file.data[at] == 0xff && (uint8_t)file.data[at + 1] == 0xc4))
        at++; /* the first table, which the first scan follows */
    struct buf one = BUF_INIT;
    paint_must(buf_add(&one, file.data + at, file.len - at - 2, NULL) == 0);
    file.len = at;
    for (int i = 0; i < 300; i++)
        paint_must(buf_add(&file, one.data, one.len, NULL) == 0);
    paint_must(buf_add(&file, "\xff\xd9", 2, NULL) == 0);
    refused(ERR_INVAL, "JPEG: ");
    buf_clear(&one);
    free(rgb);
}

static void test_files(void)
{
    static char dir[] = "/tmp/mgpu-image-XXXXXX";
    const struct view_conf conf = {.S = 28};
    struct image_u8 m;
    struct error err = ERROR_INIT;
    const uint8_t *q;
    char path[64], link[64], want[200];
    uint8_t *rgb = paint_pattern(16, 16);
    struct paint p = {.W = 16, .H = 16, .C = 3, .v = rgb};
    paint_must(mkdtemp(dir) != NULL);
    (void)snprintf(path, sizeof(path), "%s/a\nb.png", dir);
    (void)snprintf(link, sizeof(link), "%s/l.png", dir);
    paint_png(&p, &file);
    paint_file(path, &file);
    is_int(sample_read(&room, path, &conf, &first, &m, &q, &err), 0, "a file");
    paint_must(symlink(path, link) == 0);
    is_int(sample_read(&room, link, &conf, &first, &m, &q, &err), -1,
           "a link to it");
    (void)snprintf(want, sizeof(want), "%s: a symbolic link is not followed",
                   link);
    is_str(err.msg, want, "is not followed");
    is_int(sample_read(&room, dir, &conf, &first, &m, &q, &err), -1,
           "a directory");
    ok(strstr(err.msg, ": not a regular file") != NULL, "%s", err.msg);
    file.len = 20;
    paint_file(path, &file);
    is_int(sample_read(&room, path, &conf, &first, &m, &q, &err), -1,
           "cut off");
    (void)snprintf(want, sizeof(want), "%s/a\\nb.png: PNG: ", dir);
    ok(strncmp(err.msg, want, strlen(want)) == 0, "by name: %s", err.msg);
    (void)unlink(link);
    paint_must(mkfifo(link, 0600) == 0);
    is_int(sample_read(&room, link, &conf, &first, &m, &q, &err), -1,
           "a pipe that nobody writes does not hang");
    paint_must(truncate(path, DECODE_BYTES_MAX + 1) == 0);
    is_int(sample_read(&room, path, &conf, &first, &m, &q, &err), -1,
           "64 MiB and a byte");
    is_int(err.code, ERR_LIMIT, "are too many");
    (void)unlink(path);
    is_int(sample_read(&room, path, &conf, &first, &m, &q, &err), -1, "gone");
    is_int(err.code, ERR_NOTFOUND, "is not found");
    (void)unlink(link);
    (void)rmdir(dir);
    free(rgb);
}

int main(void)
{
    struct golden g;
    golden_open(&g, "tests/golden/images.txt");
    test_png();
    test_jpeg();
    test_cmyk();
    test_turned(&g);
    test_turned_part();
    test_gray(&g);
    test_gray_views();
    test_reduced();
    test_bounds();
    test_limits();
    test_bomb();
    test_damaged();
    test_scans();
    test_files();
    golden_close(&g);
    sample_room_clear(&room);
    buf_clear(&file);
    return tap_done();
}
