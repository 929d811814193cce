/* image_sample.c - see image_sample.h.
 *
 * Along each axis a stored pixel belongs to one box (one pixel of the reduced
 * picture) or to none. Boxes of a row lie `step` bytes apart for columns and
 * `row_step` for rows, which is also how a picture is turned upright.
 */
#include "worker/data/image/image_sample.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/plain_file.h"
#include "jobs/text/text.h"
#include "worker/data/image/decode.h"
#include "worker/data/image/exif.h"

/* One axis of the upright picture. */
struct axis {
    int32_t start, len; /* the part, in pixels as decoded */
    int32_t by;         /* pixels per box */
    int32_t from, n;    /* the boxes that are kept */
};

/* One axis of the stored picture. */
struct stored {
    struct axis axis; /* what it is upright */
    int32_t len;
    bool back;
};

struct maker {
    struct sample_room *room;
    const struct view_conf *conf;
    const struct view_draw *draw;
    struct image_u8 image;
    struct axis x, y; /* upright */
    struct stored cols, rows;
    size_t row_step;
    int32_t first, end;   /* the stored columns that are kept */
    int32_t last_row;     /* stored */
    const int32_t *place; /* [cols.len] of a column, in values; -1: none */
    uint8_t *pixels;      /* [H, W, C] */
    uint8_t *gray;        /* [cols.len], one row; NULL: as it is stored */
    uint64_t *sums;       /* the same, where boxes are larger than a pixel */
};

/* The box of position i, or -1. */
static int32_t box_of(const struct stored *s, int32_t i)
{
    int32_t at = (s->back ? s->len - 1 - i : i) - s->axis.start;
    int32_t box = at / s->axis.by - s->axis.from;
    bool in = at >= 0 && at < s->axis.len && box >= 0 && box < s->axis.n;
    return in ? box : -1;
}

/* How many pixels box i of an axis has: the last may have fewer. */
static int32_t pixels_in(const struct axis *a, int32_t i)
{
    int32_t rest = a->len - (a->from + i) * a->by;
    return rest < a->by ? rest : a->by;
}

/* The part [start, start + len) of `side`, halved; what of it is needed for
 * the S outputs from o on. out ret_n: the part, in boxes. */
static struct axis plan_axis(int32_t start, int32_t len, int32_t side,
                             int32_t halvings, int32_t to, int32_t o, int32_t S,
                             int32_t *ret_n)
{
    int32_t round_up = (1 << halvings) - 1, lo, hi, unused;
    struct axis a = {.start = start >> halvings,
                     .len = (len + round_up) >> halvings};
    side = (side + round_up) >> halvings;
    a.len = a.len < side - a.start ? a.len : side - a.start;
    a.by = a.len / to > 1 ? a.len / to : 1;
    *ret_n = (a.len - 1) / a.by + 1;
    const struct image_axis axis = image_axis_of(*ret_n, to);
    image_taps(&axis, o, &lo, &unused);
    image_taps(&axis, o + S - 1, &unused, &hi);
    a.from = lo;
    a.n = hi - lo;
    return a;
}

static int32_t halvings_of(const struct view *v)
{
    int32_t k = 0;
    while (k < DECODE_HALVINGS_MAX && v->h >> (k + 1) >= v->to_h &&
           v->w >> (k + 1) >= v->to_w)
        k++;
    return k;
}

static int take_room(struct maker *m, bool to_gray, struct error *err)
{
    struct sample_room *r = m->room;
    size_t values =
        (size_t)m->image.H * (size_t)m->image.W * (size_t)m->image.C;
    size_t places = (size_t)m->cols.len * sizeof(int32_t);
    bool boxes = m->x.by > 1 || m->y.by > 1;
    buf_reset(&r->pixels);
    buf_reset(&r->sums);
    buf_reset(&r->place);
    buf_reset(&r->gray);
    if (values > sample_bytes(m->conf))
        return error_set(err, ERR_INTERNAL, "a sample of %zu bytes", values);
    if (buf_reserve(&r->pixels, values, err) < 0 ||
        buf_reserve(&r->place, places, err) < 0 ||
        (to_gray && buf_reserve(&r->gray, (size_t)m->cols.len, err) < 0) ||
        (boxes && buf_reserve(&r->sums, values * sizeof(*m->sums), err) < 0))
        return -1;
    m->pixels = (uint8_t *)r->pixels.data;
    m->gray = to_gray ? (uint8_t *)r->gray.data : NULL;
    m->place = (int32_t *)(void *)r->place.data;
    m->sums = boxes ? (uint64_t *)(void *)r->sums.data : NULL;
    if (boxes)
        memset(m->sums, 0, values * sizeof(*m->sums));
    return 0;
}

/* Sets the box of each stored column, and the first and last column needed. */
static void place_columns(struct maker *m, size_t step)
{
    int32_t *place = (int32_t *)(void *)m->room->place.data;
    m->first = m->cols.len;
    m->end = 0;
    for (int32_t i = 0; i < m->cols.len; i++) {
        int32_t box = box_of(&m->cols, i);
        place[i] = box < 0 ? -1 : (int32_t)((size_t)box * step);
        if (box < 0)
            continue;
        m->first = i < m->first ? i : m->first;
        m->end = i + 1;
    }
    for (int32_t i = 0; i < m->rows.len; i++)
        m->last_row = box_of(&m->rows, i) >= 0 ? i : m->last_row;
}

static int begin(void *arg, const struct picture *p, int32_t *ret_halvings,
                 struct error *err)
{
    struct maker *m = arg;
    struct exif_turn turn = exif_turn(p->orientation);
    int32_t W = turn.swap ? p->H : p->W, H = turn.swap ? p->W : p->H, h, w;
    struct view v;
    augment_view_of(m->conf, m->draw, W, H, &v);
    int32_t k = p->can_shrink ? halvings_of(&v) : 0, up = (1 << k) - 1;
    bool to_gray = m->conf->gray && p->C != 1;
    m->y = plan_axis(v.top, v.h, H, k, v.to_h, v.oy, m->conf->S, &h);
    m->x = plan_axis(v.left, v.w, W, k, v.to_w, v.ox, m->conf->S, &w);
    m->image = (struct image_u8){.H = m->y.n,
                                 .W = m->x.n,
                                 .C = to_gray ? 1 : p->C,
                                 .y0 = m->y.from,
                                 .x0 = m->x.from,
                                 .h = h,
                                 .w = w,
                                 .to_h = v.to_h,
                                 .to_w = v.to_w,
                                 .oy = v.oy,
                                 .ox = v.ox,
                                 .flip = v.flip};
    m->cols = (struct stored){.axis = turn.swap ? m->y : m->x,
                              .len = (p->W + up) >> k,
                              .back = turn.x_back};
    m->rows = (struct stored){.axis = turn.swap ? m->x : m->y,
                              .len = (p->H + up) >> k,
                              .back = turn.y_back};
    size_t x_step = (size_t)m->image.C, y_step = (size_t)m->x.n * x_step;
    m->row_step = turn.swap ? x_step : y_step;
    if (take_room(m, to_gray, err) < 0)
        return -1;
    place_columns(m, turn.swap ? y_step : x_step);
    *ret_halvings = k;
    return 0;
}

static void copy_row(const struct maker *m, size_t base, const uint8_t *row)
{
    int32_t C = m->image.C;
    const uint8_t *p = row + (ptrdiff_t)m->first * C;
    for (int32_t i = m->first; i < m->end; i++) {
        uint8_t *out = m->pixels + base + m->place[i];
        for (int32_t c = 0; c < C; c++)
            out[c] = *p++;
    }
}

static void add_row(const struct maker *m, size_t base, const uint8_t *row)
{
    int32_t C = m->image.C;
    const uint8_t *p = row + (ptrdiff_t)m->first * C;
    for (int32_t i = m->first; i < m->end; i++) {
        uint64_t *out = m->sums + base + m->place[i];
        for (int32_t c = 0; c < C; c++)
            out[c] += *p++;
    }
}

static const uint8_t *gray_row(const struct maker *m, const uint8_t *row)
{
    for (int32_t i = m->first; i < m->end; i++)
        m->gray[i] = image_gray(row + (ptrdiff_t)i * IMAGE_CHANNELS);
    return m->gray;
}

static bool take_row(void *arg, int32_t y, const uint8_t *pixels)
{
    const struct maker *m = arg;
    int32_t box = box_of(&m->rows, y);
    if (box >= 0) {
        size_t base = (size_t)box * m->row_step;
        if (m->gray)
            pixels = gray_row(m, pixels);
        if (m->sums)
            add_row(m, base, pixels);
        else
            copy_row(m, base, pixels);
    }
    /* If the last row is needed, the decoder reads to the end of the file and
     * checks what follows the rows. */
    return y < m->last_row || m->last_row == m->rows.len - 1;
}

static void finish_boxes(const struct maker *m)
{
    const uint64_t *sum = m->sums;
    uint8_t *out = m->pixels;
    for (int32_t y = 0; sum && y < m->image.H; y++) {
        int32_t rows = pixels_in(&m->y, y);
        for (int32_t x = 0; x < m->image.W; x++) {
            uint64_t n = (uint64_t)rows * (uint64_t)pixels_in(&m->x, x);
            for (int32_t c = 0; c < m->image.C; c++)
                *out++ = (uint8_t)((*sum++ + n / 2) / n);
        }
    }
}

size_t sample_bytes(const struct view_conf *conf)
{
    size_t side = 2 * (size_t)conf->S + 4;
    return side * side * (conf->gray ? 1 : IMAGE_CHANNELS);
}

void sample_room_clear(struct sample_room *r)
{
    if (!r)
        return;
    buf_clear(&r->file);
    buf_clear(&r->pixels);
    buf_clear(&r->sums);
    buf_clear(&r->place);
    buf_clear(&r->gray);
}

int sample_decode(struct sample_room *room, const uint8_t *bytes, size_t n,
                  const struct view_conf *conf, const struct view_draw *draw,
                  struct image_u8 *ret, const uint8_t **ret_pixels,
                  struct error *err)
{
    struct maker m = {.room = room, .conf = conf, .draw = draw};
    const struct decode_sink sink = {
        .arg = &m, .begin = begin, .row = take_row};
    if (decode_image(bytes, n, &sink, err) < 0)
        return -1;
    finish_boxes(&m);
    *ret = m.image;
    *ret_pixels = m.pixels;
    return 0;
}

/* ---- files ---------------------------------------------------------------
 */

static int read_fd(int fd, off_t size, struct buf *b, struct error *err)
{
    if (size > DECODE_BYTES_MAX)
        return error_set(err, ERR_LIMIT, "%lld bytes; at most %d",
                         (long long)size, DECODE_BYTES_MAX);
    if (buf_reserve(b, (size_t)size, err) < 0)
        return -1;
    while (b->len < (size_t)size) {
        ssize_t n = read(fd, b->data + b->len, (size_t)size - b->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_sys(err, errno, "read");
        if (n == 0)
            break; /* it has become shorter; the decoder will say so */
        b->len += (size_t)n;
        b->data[b->len] = '\0';
    }
    return 0;
}

static int read_file(const char *path, struct buf *b, struct error *err)
{
    struct stat st;
    struct error why = ERROR_INIT;
    int fd = plain_file_open(path, O_NOFOLLOW, &st, &why);
    if (fd < 0 && why.code == ERR_INVAL)
        return error_set(err, ERR_INVAL, "not a regular file");
    if (fd < 0 && errno == ELOOP)
        return error_set(err, ERR_INVAL, "a symbolic link is not followed");
    if (fd < 0)
        return error_sys(err, errno, "open");
    buf_reset(b);
    int rc = read_fd(fd, st.st_size, b, err);
    (void)close(fd);
    return rc;
}

int sample_read(struct sample_room *room, const char *path,
                const struct view_conf *conf, const struct view_draw *draw,
                struct image_u8 *ret, const uint8_t **ret_pixels,
                struct error *err)
{
    char q[160];
    if (read_file(path, &room->file, err) < 0 ||
        sample_decode(room, (const uint8_t *)buf_str(&room->file),
                      room->file.len, conf, draw, ret, ret_pixels, err) < 0)
        return error_wrap(err, "%s", text_quote(q, sizeof(q), path));
    return 0;
}
