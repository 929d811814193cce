/* pictures.h - JPEG and PNG files made by the tests themselves.
 *
 * For tests only: whatever is wrong ends the program.
 */
#ifndef MGPU_TESTS_PICTURES_H
#define MGPU_TESTS_PICTURES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

#include "jobs/base/buf.h"

/* How a file is written; all 0 is the plainest. */
struct paint {
    int32_t W, H;
    int32_t C;           /* of the values: 1 gray, 2 with alpha, 3, 4 */
    const uint8_t *v;    /* [H, W, C] */
    int32_t orientation; /* 1..8; 0: no EXIF */
    bool progressive;    /* JPEG; PNG: interlaced */
    bool cmyk;           /* JPEG of 4: Adobe's */
    int32_t quality;     /* JPEG; 0: 100 */
    int32_t bits;        /* PNG: 1, 2, 4, 16; 0: 8 */
    bool palette;        /* PNG of 1: v are indexes of paint_palette() */
};

static inline void paint_must(bool good)
{
    if (!good) {
        (void)fputs("pictures.h: cannot write a picture\n", stderr);
        exit(1);
    }
}

/* As tests/golden/images.py draws it: [H, W, 3]. */
static inline uint8_t *paint_pattern(int32_t H, int32_t W)
{
    uint8_t *v = malloc((size_t)H * (size_t)W * 3), *p = v;
    paint_must(v != NULL);
    for (int32_t y = 0; y < H; y++)
        for (int32_t x = 0; x < W; x++)
            for (int32_t c = 0; c < 3; c++)
                *p++ = (uint8_t)(x * 7 + y * 13 + c * 29 + x * y % 17 * 5);
    return v;
}

static inline uint8_t paint_palette(int32_t i, int32_t c)
{
    return (uint8_t)(255 - 37 * i - 11 * c);
}

/* "Exif\0\0" and a TIFF of one entry: the orientation. */
static inline void paint_exif(int32_t orientation, uint8_t ret[32])
{
    static const uint8_t head[] = {'E', 'x',  'i', 'f', 0, 0, 'M', 'M',
                                   0,   '*',  0,   0,   0, 8, 0,   1,
                                   1,   0x12, 0,   3,   0, 0, 0,   1};
    memset(ret, 0, 32);
    memcpy(ret, head, sizeof(head));
    ret[25] = (uint8_t)orientation;
}

static inline void paint_jpeg(const struct paint *p, struct buf *out)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr e;
    unsigned char *mem = NULL;
    unsigned long n = 0;
    uint8_t exif[32];
    c.err = jpeg_std_error(&e);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &mem, &n);
    c.image_width = (JDIMENSION)p->W;
    c.image_height = (JDIMENSION)p->H;
    c.input_components = p->C;
    c.in_color_space = p->C == 1   ? JCS_GRAYSCALE
                       : p->C == 3 ? JCS_RGB
                                   : JCS_CMYK;
    jpeg_set_defaults(&c);
    if (p->C == 4) /* the default; YCCK is the other kind */
        jpeg_set_colorspace(&c, p->cmyk ? JCS_CMYK : JCS_YCCK);
    jpeg_set_quality(&c, p->quality ? p->quality : 100, TRUE);
    for (int i = 0; i < c.num_components; i++)
        c.comp_info[i].h_samp_factor = c.comp_info[i].v_samp_factor = 1;
    if (p->progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    if (p->orientation) {
        paint_exif(p->orientation, exif);
        jpeg_write_marker(&c, JPEG_APP0 + 1, exif, sizeof(exif));
    }
    for (int32_t y = 0; y < p->H; y++) {
        const uint8_t *at = p->v + (size_t)y * (size_t)p->W * (size_t)p->C;
        JSAMPROW row = (JSAMPROW)(uintptr_t)at;
        (void)jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    buf_reset(out);
    paint_must(buf_add(out, mem, n, NULL) == 0);
    jpeg_destroy_compress(&c);
    free(mem);
}

static inline void paint_write(png_structp p, png_bytep bytes, size_t n)
{
    paint_must(buf_add(png_get_io_ptr(p), bytes, n, NULL) == 0);
}

static inline int paint_kind(const struct paint *p)
{
    static const int kinds[] = {0, PNG_COLOR_TYPE_GRAY,
                                PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                PNG_COLOR_TYPE_RGBA};
    return p->palette ? PNG_COLOR_TYPE_PALETTE : kinds[p->C];
}

/* 16 bits: the value is the high byte, the low byte is 0x7f. */
static inline void paint_row(png_structp p, const struct paint *paint,
                             const uint8_t *v)
{
    size_t n = (size_t)paint->W * (size_t)paint->C;
    uint8_t *row = malloc(2 * n);
    paint_must(row != NULL);
    for (size_t i = 0; i < n; i++) {
        if (paint->bits == 16) {
            row[2 * i] = v[i];
            row[2 * i + 1] = 0x7f;
        } else {
            row[i] = v[i];
        }
    }
    png_write_row(p, row);
    free(row);
}

static inline void paint_png(const struct paint *p, struct buf *out)
{
    png_structp w =
        png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(w);
    uint8_t exif[32];
    png_color colors[8];
    int passes;
    paint_must(w && info && !setjmp(png_jmpbuf(w)));
    buf_reset(out);
    png_set_write_fn(w, out, paint_write, NULL);
    png_set_IHDR(w, info, (png_uint_32)p->W, (png_uint_32)p->H,
                 p->bits ? p->bits : 8, paint_kind(p),
                 p->progressive ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    for (int i = 0; i < 8; i++)
        colors[i] = (png_color){paint_palette(i, 0), paint_palette(i, 1),
                                paint_palette(i, 2)};
    if (p->palette) {
        png_byte alpha[2] = {0, 99};
        png_set_PLTE(w, info, colors, 8);
        png_set_tRNS(w, info, alpha, 2, NULL);
    }
    if (p->orientation) {
        paint_exif(p->orientation, exif);
        png_set_eXIf_1(w, info, sizeof(exif) - 6, exif + 6);
    }
    png_write_info(w, info);
    if (p->bits && p->bits < 8)
        png_set_packing(w);
    passes = png_set_interlace_handling(w);
    for (; passes > 0; passes--)
        for (int32_t y = 0; y < p->H; y++)
            paint_row(w, p, p->v + (size_t)y * (size_t)(p->W * p->C));
    png_write_end(w, NULL);
    png_destroy_write_struct(&w, &info);
}

static inline void paint_file(const char *path, const struct buf *b)
{
    FILE *f = fopen(path, "wb");
    paint_must(f && fwrite(b->data, 1, b->len, f) == b->len && fclose(f) == 0);
}

#endif
