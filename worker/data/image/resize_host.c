/* resize_host.c - see resize_host.h. Along x first, for the rows that are
 * stored, then along y: of 28 rows that become 224 only 28 are resized twice.
 */
#include "worker/data/image/resize_host.h"

#include <string.h>

/* Weights of output i of an axis: inputs lo..hi-1, as in image_u8.h. */
struct taps {
    int32_t lo, hi;
    double first, step, most, total;
};

static double weight(const struct taps *t, int32_t j)
{
    double apart = t->first + t->step * (double)(j - t->lo);
    double w = t->most - (apart < 0 ? -apart : apart);
    return w > 0 ? w : 0;
}

static struct taps taps_of(const struct image_axis *a, int32_t i, int32_t from,
                           int32_t stored)
{
    struct taps t;
    image_taps(a, i, &t.lo, &t.hi);
    t.lo = t.lo > from ? t.lo : from;
    t.hi = t.hi < from + stored ? t.hi : from + stored;
    t.first = (double)image_apart(a, i, t.lo);
    t.step = 2.0 * a->to;
    t.most = 2.0 * (a->n > a->to ? a->n : a->to);
    t.total = 0;
    for (int32_t j = t.lo; j < t.hi; j++)
        t.total += weight(&t, j);
    return t;
}

size_t resize_floats_bytes(const struct floats_conf *c)
{
    return (size_t)c->S * (size_t)c->S * (size_t)c->C * dtype_bytes(c->dt);
}

/* line [H, S, C] */
static void along_x(const struct floats_conf *c, const struct image_u8 *m,
                    const uint8_t *pixels, size_t stride, double *line)
{
    const struct image_axis a = image_axis_of(m->w, m->to_w);
    size_t C = (size_t)m->C, row = (size_t)c->S * C;
    memset(line, 0, (size_t)m->H * row * sizeof(*line));
    for (int32_t i = 0; i < c->S; i++) {
        int32_t ox = m->ox + (m->flip ? c->S - 1 - i : i);
        const struct taps t = taps_of(&a, ox, m->x0, m->W);
        for (int32_t j = t.lo; j < t.hi; j++) {
            const double w = weight(&t, j) / t.total;
            const uint8_t *p = pixels + (size_t)(j - m->x0) * C;
            double *to = line + (size_t)i * C;
            for (int32_t y = 0; y < m->H; y++, p += stride, to += row)
                for (size_t k = 0; k < C; k++)
                    to[k] += w * p[k];
        }
    }
}

static void store(const struct floats_conf *c, void *out, size_t at, size_t n,
                  const double *v)
{
    if (c->dt == DT_F64)
        memcpy((double *)out + at, v, n * sizeof(*v));
    else if (c->dt == DT_F32)
        for (size_t i = 0; i < n; i++)
            ((float *)out)[at + i] = (float)v[i];
    else
        for (size_t i = 0; i < n; i++)
            dtype_set(c->dt, out, (int64_t)(at + i), v[i]);
}

/* sum [S, C] := row `oy` of the result; v [S, c->C], or with planar [c->C, S],
 * normalised */
static void along_y(const struct floats_conf *c, const struct image_u8 *m,
                    const struct image_axis *a, int32_t oy, const double *line,
                    double *sum, double *v)
{
    const struct taps t = taps_of(a, oy, m->y0, m->H);
    size_t C = (size_t)m->C, n = (size_t)c->S * C, out = (size_t)c->C;
    memset(sum, 0, n * sizeof(*sum));
    for (int32_t j = t.lo; j < t.hi; j++) {
        const double w = weight(&t, j) / t.total;
        const double *from = line + (size_t)(j - m->y0) * n;
        for (size_t i = 0; i < n; i++)
            sum[i] += w * from[i];
    }
    for (size_t k = 0; k < out; k++) {
        const double scale = 1 / (255 * c->norm->std[k]);
        const double shift = c->norm->mean[k] / c->norm->std[k];
        const double *from = sum + (C > 1 ? k : 0);
        double *to = v + (c->planar ? k * (size_t)c->S : k);
        for (size_t i = 0; i < (size_t)c->S; i++)
            to[i * (c->planar ? 1 : out)] = from[i * C] * scale - shift;
    }
}

/* v, as along_y() leaves it, is row `oy` of out. */
static void store_row(const struct floats_conf *c, void *out, size_t oy,
                      const double *v)
{
    const size_t S = (size_t)c->S, C = (size_t)c->C;
    for (size_t k = 0; c->planar && k < C; k++)
        store(c, out, (k * S + oy) * S, S, v + k * S);
    if (!c->planar)
        store(c, out, oy * S * C, S * C, v);
}

int floats_resize(const struct floats_conf *c, const struct image_u8 *m,
                  const uint8_t *pixels, size_t stride, struct buf *room,
                  void *out, struct error *err)
{
    size_t lines = (size_t)m->H * (size_t)c->S * IMAGE_CHANNELS;
    size_t sums = (size_t)c->S * IMAGE_CHANNELS;
    if (m->C == 0) {
        memset(out, 0, resize_floats_bytes(c));
        return 0;
    }
    buf_reset(room);
    if (buf_reserve(room, (lines + 2 * sums) * sizeof(double), err) < 0)
        return -1;
    double *line = (void *)room->data, *sum = line + lines, *v = sum + sums;
    const struct image_axis a = image_axis_of(m->h, m->to_h);
    along_x(c, m, pixels, stride, line);
    for (int32_t i = 0; i < c->S; i++) {
        along_y(c, m, &a, m->oy + i, line, sum, v);
        store_row(c, out, (size_t)i, v);
    }
    return 0;
}
