/* decode_png.c - PNG files through libpng.
 *
 * As with libjpeg an error is a jump back to where the decoder was set up.
 * Chunks that are not needed are skipped unread: no text or profile can be a
 * bomb. Interlaced files are held whole, all others by the row.
 */
#include "worker/data/image/decode.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "worker/data/image/exif.h"

enum { CHUNK_MAX = 1 << 20, CHUNKS_MAX = 16 };

struct png {
    png_structp p;
    png_infop info;
    const uint8_t *bytes;
    size_t n, at;
    struct error *err;
    const struct decode_sink *sink;
    uint8_t *rows;  /* one, or all when interlaced */
    png_bytep *row; /* interlaced: [H] */
};

static void on_error(png_structp p, png_const_charp text)
{
    const struct png *d = png_get_error_ptr(p);
    enum err_code code =
        strcmp(text, "Out of memory") == 0 ? ERR_NOMEM : ERR_INVAL;
    (void)error_set(d->err, code, "PNG: %.160s", text);
    png_longjmp(p, 1);
}

static void on_warning(png_structp p, png_const_charp text)
{
    (void)p;
    (void)text;
}

static void on_read(png_structp p, png_bytep out, size_t n)
{
    struct png *d = png_get_io_ptr(p);
    if (n > d->n - d->at)
        png_error(p, "the file ends too early");
    memcpy(out, d->bytes + d->at, n);
    d->at += n;
}

static void limit_chunks(png_structp p)
{
    static const png_byte unread[] = "iCCP\0iTXt\0sPLT\0tEXt\0zTXt";
    png_set_user_limits(p, DECODE_SIDE_MAX, DECODE_SIDE_MAX);
    png_set_chunk_malloc_max(p, CHUNK_MAX);
    png_set_chunk_cache_max(p, CHUNKS_MAX);
    png_set_keep_unknown_chunks(p, PNG_HANDLE_CHUNK_NEVER, NULL, 0);
    png_set_keep_unknown_chunks(p, PNG_HANDLE_CHUNK_NEVER, unread, 5);
}

/* Converts to 8 bits, gray or RGB, without alpha. */
static void set_transforms(png_structp p, png_infop info)
{
    int kind = png_get_color_type(p, info), bits = png_get_bit_depth(p, info);
    if (bits == 16)
        png_set_strip_16(p);
    if (kind == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(p);
    else if (kind == PNG_COLOR_TYPE_GRAY && bits < 8)
        png_set_expand_gray_1_2_4_to_8(p);
    if (kind & PNG_COLOR_MASK_ALPHA || png_get_valid(p, info, PNG_INFO_tRNS))
        png_set_strip_alpha(p);
}

static int32_t orientation_of(struct png *d)
{
    png_uint_32 n = 0;
    png_bytep exif = NULL;
    if (png_get_eXIf_1(d->p, d->info, &n, &exif) == 0)
        return 1;
    return exif_orientation(exif, n);
}

static int set_up(struct png *d, struct picture *pic, struct error *err)
{
    int32_t none = 0;
    png_uint_32 W = png_get_image_width(d->p, d->info);
    png_uint_32 H = png_get_image_height(d->p, d->info);
    if (decode_check_size(W, H, err) < 0)
        return -1;
    set_transforms(d->p, d->info);
    int passes = png_set_interlace_handling(d->p);
    png_read_update_info(d->p, d->info);
    *pic = (struct picture){
        .W = (int32_t)W,
        .H = (int32_t)H,
        .C = png_get_channels(d->p, d->info),
        .orientation = orientation_of(d),
    };
    if (pic->C != 1 && pic->C != 3)
        return error_set(err, ERR_INVAL, "PNG: %d channels", pic->C);
    if (d->sink->begin(d->sink->arg, pic, &none, err) < 0)
        return -1;
    size_t stride = png_get_rowbytes(d->p, d->info);
    d->rows = malloc(passes > 1 ? stride * H : stride);
    if (passes > 1)
        d->row = malloc(H * sizeof(*d->row));
    if (!d->rows || (passes > 1 && !d->row))
        return error_set(err, ERR_NOMEM, "PNG: %u x %u pixels", W, H);
    for (png_uint_32 y = 0; d->row && y < H; y++)
        d->row[y] = d->rows + y * stride;
    return 0;
}

static void read_rows(struct png *d, const struct picture *pic)
{
    if (d->row)
        png_read_image(d->p, d->row);
    for (int32_t y = 0; y < pic->H; y++) {
        if (!d->row)
            png_read_row(d->p, d->rows, NULL);
        if (!d->sink->row(d->sink->arg, y, d->row ? d->row[y] : d->rows))
            return;
    }
    png_read_end(d->p, NULL);
}

/* Everything that may jump; what it allocates is in *d. */
static int run(struct png *d, struct error *err)
{
    struct picture pic;
    if (setjmp(png_jmpbuf(d->p)) != 0)
        return -1;
    png_set_read_fn(d->p, d, on_read);
    limit_chunks(d->p);
    png_read_info(d->p, d->info);
    if (set_up(d, &pic, err) < 0)
        return -1;
    read_rows(d, &pic);
    return 0;
}

int decode_png(const uint8_t *bytes, size_t n, const struct decode_sink *sink,
               struct error *err)
{
    struct error mine = ERROR_INIT;
    struct png d = {
        .bytes = bytes, .n = n, .err = err ? err : &mine, .sink = sink};
    int rc = -1;
    d.p =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, &d, on_error, on_warning);
    d.info = d.p ? png_create_info_struct(d.p) : NULL;
    if (d.info)
        rc = run(&d, d.err);
    else
        (void)error_set(d.err, ERR_NOMEM, "PNG");
    if (d.p)
        png_destroy_read_struct(&d.p, &d.info, NULL);
    free(d.rows);
    free(d.row);
    return rc;
}
