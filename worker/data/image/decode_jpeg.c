/* decode_jpeg.c - JPEG files through libjpeg-turbo.
 *
 * The library reports errors by a function that must not return: it jumps
 * back to where the decoder was set up. What it calls a warning is an error
 * here when the picture is damaged by it, and nothing when only a header is
 * odd. A progressive file may have any number of scans over the whole
 * picture: more than SCANS_MAX are a bomb.
 */
#include "worker/data/image/decode.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jerror.h>
#include <jpeglib.h>

#include "worker/data/image/exif.h"

enum { SCANS_MAX = 200, MEMORY_MAX = 1 << 29, APP1_MAX = 0xffff };

struct jpeg {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf out;
    struct error *err;
    uint8_t *row; /* [W * C] */
    const struct decode_sink *sink;
};

static struct jpeg *of(j_common_ptr c)
{
    return c->client_data;
}

/* The library's text of its current message. */
static void set_text(j_common_ptr c)
{
    char text[JMSG_LENGTH_MAX];
    c->err->format_message(c, text);
    enum err_code code =
        c->err->msg_code == JERR_OUT_OF_MEMORY ? ERR_NOMEM : ERR_INVAL;
    (void)error_set(of(c)->err, code, "JPEG: %.160s", text);
}

static void on_error(j_common_ptr c)
{
    set_text(c);
    longjmp(of(c)->out, 1);
}

static void on_message(j_common_ptr c, int level)
{
    if (level >= 0)
        return;
    switch (c->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
    case JWRN_TOO_MUCH_DATA:
        return;
    default:
        on_error(c);
    }
}

static void no_output(j_common_ptr c)
{
    (void)c;
}

static void on_progress(j_common_ptr c)
{
    const struct jpeg *j = of(c);
    if (j->c.input_scan_number <= SCANS_MAX)
        return;
    (void)error_set(j->err, ERR_LIMIT, "JPEG: more than %d scans", SCANS_MAX);
    longjmp(of(c)->out, 1);
}

static int32_t orientation_of(const struct jpeg *j)
{
    for (jpeg_saved_marker_ptr m = j->c.marker_list; m; m = m->next) {
        int32_t o = exif_orientation(m->data, m->data_length);
        if (o != 1)
            return o;
    }
    return 1;
}

/* In place: 4 bytes of Adobe's inverted CMYK to 3; as PIL rounds it. */
static void cmyk_to_rgb(uint8_t *p, uint32_t pixels)
{
    const uint8_t *q = p;
    for (uint32_t i = 0; i < pixels; i++, q += 4) {
        uint32_t k = q[3];
        for (int c = 0; c < 3; c++) {
            uint32_t t = (255u - q[c]) * k + 128;
            *p++ = (uint8_t)(k - ((t + (t >> 8)) >> 8));
        }
    }
}

static int set_up(struct jpeg *j, struct error *err)
{
    struct jpeg_decompress_struct *c = &j->c;
    int32_t halvings = 0;
    if (decode_check_size(c->image_width, c->image_height, err) < 0)
        return -1;
    switch (c->jpeg_color_space) {
    case JCS_GRAYSCALE:
        c->out_color_space = JCS_GRAYSCALE;
        break;
    case JCS_CMYK:
    case JCS_YCCK:
        c->out_color_space = JCS_CMYK;
        break;
    default:
        c->out_color_space = JCS_RGB;
    }
    const struct picture p = {
        .W = (int32_t)c->image_width,
        .H = (int32_t)c->image_height,
        .C = c->out_color_space == JCS_GRAYSCALE ? 1 : 3,
        .orientation = orientation_of(j),
        .can_shrink = true,
    };
    if (j->sink->begin(j->sink->arg, &p, &halvings, err) < 0)
        return -1;
    c->scale_num = 1;
    c->scale_denom = 1u << halvings;
    return 0;
}

static int read_rows(struct jpeg *j, struct error *err)
{
    struct jpeg_decompress_struct *c = &j->c;
    (void)jpeg_start_decompress(c);
    j->row = malloc((size_t)c->output_width * (size_t)c->output_components);
    if (!j->row)
        return error_set(err, ERR_NOMEM, "JPEG: a row of %u pixels",
                         c->output_width);
    while (c->output_scanline < c->output_height) {
        int32_t y = (int32_t)c->output_scanline;
        JSAMPROW rows[1] = {j->row};
        (void)jpeg_read_scanlines(c, rows, 1);
        if (c->out_color_space == JCS_CMYK)
            cmyk_to_rgb(j->row, c->output_width);
        if (!j->sink->row(j->sink->arg, y, j->row))
            return 0;
    }
    (void)jpeg_finish_decompress(c);
    return 0;
}

/* Everything that may jump; what it allocates is in *j. */
static int run(struct jpeg *j, const uint8_t *bytes, size_t n,
               struct error *err)
{
    if (setjmp(j->out) != 0)
        return -1;
    jpeg_create_decompress(&j->c);
    j->c.client_data = j;
    j->c.progress = &j->progress;
    j->c.mem->max_memory_to_use = MEMORY_MAX;
    jpeg_mem_src(&j->c, bytes, (unsigned long)n);
    jpeg_save_markers(&j->c, JPEG_APP0 + 1, APP1_MAX);
    (void)jpeg_read_header(&j->c, TRUE);
    if (set_up(j, err) < 0)
        return -1;
    return read_rows(j, err);
}

int decode_jpeg(const uint8_t *bytes, size_t n, const struct decode_sink *sink,
                struct error *err)
{
    struct error mine = ERROR_INIT;
    struct jpeg j = {.err = err ? err : &mine, .sink = sink};
    j.c.err = jpeg_std_error(&j.errors);
    j.c.client_data = &j;
    j.errors.error_exit = on_error;
    j.errors.emit_message = on_message;
    j.errors.output_message = no_output;
    j.progress.progress_monitor = on_progress;
    int rc = run(&j, bytes, n, j.err);
    jpeg_destroy_decompress(&j.c);
    free(j.row);
    return rc;
}
