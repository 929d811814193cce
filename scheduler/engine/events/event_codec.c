/* event_codec.c - encode and decode the details of all events but SUBMIT.
 *
 * A table has one row per member; the same rows serve both directions. See
 * event_codec.h.
 */
#include "scheduler/engine/events/event_codec.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "jobs/wire/json_scan.h"
#include "scheduler/engine/events/json_nomem.h"

const char eng_taken_back[] = "TakenBack: ";

/* The length of the UTF-8 character at s, or 0. */
static size_t utf8_len(const unsigned char *s)
{
    static const struct {
        unsigned char mask, lead, lo, hi; /* limits of the second byte */
        size_t len;
    } forms[] = {
        {0x80, 0x00, 0x00, 0x00, 1}, {0xe0, 0xc0, 0x80, 0xbf, 2},
        {0xff, 0xe0, 0xa0, 0xbf, 3}, {0xff, 0xed, 0x80, 0x9f, 3},
        {0xf0, 0xe0, 0x80, 0xbf, 3}, {0xff, 0xf0, 0x90, 0xbf, 4},
        {0xff, 0xf4, 0x80, 0x8f, 4}, {0xf8, 0xf0, 0x80, 0xbf, 4},
    };
    if (s[0] == 0xc0 || s[0] == 0xc1 || s[0] > 0xf4)
        return 0;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if ((s[0] & forms[i].mask) != forms[i].lead)
            continue;
        if (forms[i].len > 1 && (s[1] < forms[i].lo || s[1] > forms[i].hi))
            return 0;
        for (size_t k = 2; k < forms[i].len; k++) {
            if ((s[k] & 0xc0) != 0x80)
                return 0;
        }
        return forms[i].len;
    }
    return 0;
}

static void copy(char *dst, size_t cap, const char *src, size_t n_src)
{
    const unsigned char *s = (const unsigned char *)src, *end = s + n_src;
    size_t at = 0;

    while (s < end && *s) {
        size_t len = utf8_len(s);
        bool is_bad = len == 0 || *s < 0x20 || *s == 0x7f;
        size_t n = is_bad ? 1 : len;
        if (at + n + 1 > cap)
            break;
        memcpy(dst + at, is_bad ? "?" : (const char *)s, n);
        at += n;
        s += n;
    }
    dst[at] = '\0';
}

void text_copy(char *dst, size_t cap, const char *src)
{
    copy(dst, cap, src, strlen(src));
}

void text_take(char *dst, size_t cap, const struct member *m)
{
    if (m->kind == MEMBER_TEXT)
        copy(dst, cap, m->text, m->len);
    else
        dst[0] = '\0';
}

void detail_because(struct detail *d, const char *what, const char *why)
{
    text_copy(d->why, sizeof(d->why), what);
    size_t len = strlen(d->why), cap = sizeof(d->why);
    text_copy(d->why + len, cap - len, why);
    if (len + strlen(why) < cap)
        return;
    /* Cut between words, and show that it is cut. */
    size_t end = strlen(d->why), most = cap - sizeof(" ...");
    end = end < most ? end : most;
    while (end > len && d->why[end] != ' ')
        end--;
    if (end > len)
        (void)snprintf(d->why + end, cap - end, " ...");
}

/* ---- the small details -----------------------------------------------------
 */
#define FIELD(kind, name, min)                               \
    {                                                        \
#name, offsetof(struct detail, name),                \
            sizeof(((struct detail *)NULL)->name), kind, min \
    }
#define NUMBER(name) FIELD(FIELD_INT32, name, 0)

static const struct {
    const char *name;
    size_t offset, cap;
    enum { FIELD_TEXT, FIELD_INT32, FIELD_INT64, FIELD_REAL } kind;
    int32_t min; /* of a number; a smaller value is not written */
} fields[] = {
    FIELD(FIELD_TEXT, native_id, 0),
    FIELD(FIELD_TEXT, place, 0),
    FIELD(FIELD_TEXT, holder, 0),
    NUMBER(nodes),
    NUMBER(gpus),
    FIELD(FIELD_TEXT, gpu_type, 0),
    NUMBER(exit_code),
    NUMBER(signal),
    NUMBER(retry),
    NUMBER(stopped),
    NUMBER(wait_ms),
    FIELD(FIELD_INT64, left_ms, 1),
    FIELD(FIELD_TEXT, why, 0),
    FIELD(FIELD_TEXT, held, 0),
    FIELD(FIELD_INT32, priority, INT32_MIN + 1),
    FIELD(FIELD_INT64, limit_ms, 0),
    FIELD(FIELD_INT32, limit_default, 1),
    NUMBER(max_parallel),
    FIELD(FIELD_TEXT, partition, 0),
    FIELD(FIELD_TEXT, account, 0),
    FIELD(FIELD_TEXT, exclude, 0),
    FIELD(FIELD_TEXT, fault_node, 0),
    FIELD(FIELD_TEXT, cause, 0),
    FIELD(FIELD_INT64, needed_bytes, 1),
    FIELD(FIELD_INT64, available_bytes, 0),
    FIELD(FIELD_INT64, for_job, 1),
    NUMBER(grace_ms),
    NUMBER(to_gpus),
    NUMBER(to_nodes),
    FIELD(FIELD_INT32, barred_gpus, 1),
    NUMBER(saves_failed),
    FIELD(FIELD_INT64, cpu_ms, 0),
    FIELD(FIELD_INT64, cores_ms, 1),
    FIELD(FIELD_INT64, gpu_busy_ms, 0),
    FIELD(FIELD_INT64, gpus_ms, 1),
    FIELD(FIELD_INT64, ended_ms, 1),
    FIELD(FIELD_INT64, iteration, 1),
    FIELD(FIELD_INT64, iterations_total, 1),
    FIELD(FIELD_INT32, epoch, 1),
    FIELD(FIELD_INT32, epochs_total, 1),
    FIELD(FIELD_REAL, loss, 0),
    FIELD(FIELD_REAL, t_iter, 0),
    FIELD(FIELD_REAL, eval_accuracy, 0),
};
enum { N_FIELDS = sizeof(fields) / sizeof(fields[0]) };

static json_t *text_value(const char *at, size_t cap)
{
    char clean[sizeof(((struct detail *)NULL)->place)]; /* the longest */

    if (at[0] == '\0')
        return NULL;
    assert(cap <= sizeof(clean));
    text_copy(clean, cap, at);
    return json_string(clean);
}

/* NULL: the member is not written. */
static json_t *value_of(const struct detail *d, size_t i)
{
    const char *at = (const char *)d + fields[i].offset;
    int64_t n = 0;
    double x;

    switch (fields[i].kind) {
    case FIELD_TEXT:
        return text_value(at, fields[i].cap);
    case FIELD_REAL:
        memcpy(&x, at, sizeof(x));
        return isfinite(x) ? json_real(x) : NULL;
    case FIELD_INT32: {
        int32_t short_n;
        memcpy(&short_n, at, sizeof(short_n));
        n = short_n;
        break;
    }
    case FIELD_INT64:
        memcpy(&n, at, sizeof(n));
        break;
    }
    return n >= fields[i].min ? json_integer(n) : NULL;
}

static void take_value(const struct member *m, size_t i, struct detail *ret)
{
    char *at = (char *)ret + fields[i].offset;
    int32_t short_n = (int32_t)m->n;
    bool is_int = m->kind == MEMBER_INT;

    if (fields[i].kind == FIELD_TEXT && m->kind == MEMBER_TEXT)
        text_take(at, fields[i].cap, m);
    else if (fields[i].kind == FIELD_INT32 && is_int)
        memcpy(at, &short_n, sizeof(short_n));
    else if (fields[i].kind == FIELD_INT64 && is_int)
        memcpy(at, &m->n, sizeof(m->n));
    else if (fields[i].kind == FIELD_REAL && (is_int || m->kind == MEMBER_REAL))
        memcpy(at, &m->x, sizeof(m->x));
}

int detail_encode(const struct detail *d, char **ret_text, struct error *err)
{
    lack_forget(); /* out of memory counts as a value that is not there */
    json_t *o = json_object();
    char *text = NULL;

    for (size_t i = 0; o && i < N_FIELDS; i++) {
        json_t *v = value_of(d, i);
        if (v && json_object_set_new(o, fields[i].name, v) < 0) {
            json_decref(o);
            o = NULL;
        }
    }
    bool is_empty = o && json_object_size(o) == 0;
    if (o && !is_empty)
        text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    if (lack_was_there() || (!text && !is_empty)) {
        free(text);
        return error_set(err, ERR_NOMEM, "out of memory");
    }
    *ret_text = text;
    return 0;
}

int detail_decode(const char *text, struct detail *ret, struct error *err)
{
    static const struct detail nothing = DETAIL_INIT;
    struct members m;

    if (!text) {
        *ret = nothing;
        return 0;
    }
    lack_forget();
    bool is_read = members_read(text, &m) == 0;
    if (is_read && lack_was_there())
        members_clear(&m);
    if (!is_read || lack_was_there())
        return lack_refuse("an event's detail is no object", err);
    *ret = nothing;
    for (size_t i = 0; i < N_FIELDS; i++) {
        const struct member v = members_get(&m, fields[i].name);
        take_value(&v, i, ret);
    }
    members_clear(&m);
    return 0;
}
