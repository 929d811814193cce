/* curve_reply.c - see curve_reply.h. */
#include "scheduler/ctld/curves/curve_reply.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The shortest text that is read as the same number. */
static int add_number(struct buf *out, double v, struct error *err)
{
    char text[40];
    if (isinf(v))
        return buf_addstr(out, v > 0 ? ",\"Infinity\"" : ",\"-Infinity\"", err);
    if (isnan(v))
        return buf_addstr(out, ",null", err);
    (void)snprintf(text, sizeof(text), ",%.15g", v);
    if (strtod(text + 1, NULL) != v)
        (void)snprintf(text, sizeof(text), ",%.17g", v);
    return buf_addstr(out, text, err);
}

static int add_bucket(struct buf *out, const struct thinning_bucket *b,
                      struct error *err)
{
    if (buf_addf(out, err, "[%" PRId32 ",%" PRId64 ",%" PRId64, b->attempt,
                 b->first, b->last) < 0 ||
        add_number(out, b->time_s, err) < 0 ||
        add_number(out, b->epoch > 0 ? (double)b->epoch : (double)NAN, err) <
            0 ||
        add_number(out, (double)b->samples, err) < 0 ||
        add_number(out, b->min, err) < 0 || add_number(out, b->max, err) < 0 ||
        add_number(out, b->value, err) < 0)
        return -1;
    return buf_addf(out, err,
                    ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", b->n,
                    b->none, b->plus_inf, b->minus_inf);
}

static int add_head(const struct curve_reply *r, struct buf *out,
                    struct error *err)
{
    const struct thinning *t = r->curve;
    int64_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += t->at[i].n;
    json_t *of = json_string(r->of);
    char *name = of ? json_dumps(of, JSON_ENCODE_ANY) : NULL;
    json_decref(of);
    if (!name)
        return error_set(err, ERR_NOMEM, "curve");
    int rc = buf_addf(out, err,
                      "{\"schema\":\"mgpu.curve/1\",\"job\":%" PRIu64
                      ",\"rows_removed\":%s,\"of\":%s,\"x\":\"%s\","
                      "\"complete\":%s,\"width\":%" PRId64 ",\"n\":%" PRId64
                      ",\"cursor\":",
                      r->job, r->rows_removed ? "true" : "false", name, r->x,
                      r->is_complete ? "true" : "false", t->width, n);
    free(name);
    if (rc == 0)
        rc = r->cursor.attempt == 0
                 ? buf_addstr(out, "null", err)
                 : buf_addf(out, err, "\"%" PRId32 ".%" PRId64 "\"",
                            r->cursor.attempt, r->cursor.x);
    if (rc == 0 && r->is_kept)
        rc = buf_addf(out, err, ",\"before\":%" PRId64 ",\"whole\":%s",
                      r->before, r->is_whole ? "true" : "false");
    return rc;
}

int curve_reply_write(const struct curve_reply *r, struct buf *out,
                      struct error *err)
{
    const struct thinning *t = r->curve;
    int rc = add_head(r, out, err);
    if (rc == 0)
        rc = buf_addstr(out,
                        ",\"columns\":[\"attempt\",\"first\",\"last\","
                        "\"time\",\"epoch\",\"samples\",\"min\",\"max\","
                        "\"value\",\"n\",\"none\",\"plus_inf\","
                        "\"minus_inf\"],\"rows\":[",
                        err);
    for (size_t i = 0; rc == 0 && i < t->n; i++) {
        rc = i > 0 ? buf_addstr(out, ",", err) : 0;
        if (rc == 0)
            rc = add_bucket(out, &t->at[i], err);
    }
    return rc == 0 ? buf_addstr(out, "]}", err) : -1;
}
