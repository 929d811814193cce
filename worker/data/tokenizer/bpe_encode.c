/* bpe_encode.c - see bpe_encode.h: added tokens are found, what is between
 * them is changed and cut into pieces, and each piece is merged.
 *
 * Bytes that are no UTF-8 are pieces of their own, so that they come back as
 * they were. */
#include "worker/data/tokenizer/bpe_encode.h"

#include "jobs/text/text.h"
#include "worker/data/tokenizer/bpe_merge.h"
#include "worker/data/tokenizer/text_cut.h"

struct encoding {
    const struct bpe_parts *parts;
    struct pretokenizer *const *pieces;
    size_t full; /* bytes of ids in ret that are enough */
    struct buf work, ids, normal[2], marks[2];
    struct buf *ret;
};

/* Pieces of pieces: the patterns from `at` on are to come. */
struct level {
    struct encoding *e;
    int at;
};

/* ---- a piece --------------------------------------------------------------
 */

static int put_id(struct buf *b, int32_t id, struct error *err)
{
    return buf_add(b, &id, sizeof(id), err);
}

/* The token of a character, or those of its bytes. */
static int put_char(struct encoding *e, const char *at, size_t n,
                    struct error *err)
{
    const int32_t id = bpe_vocab_find(&e->parts->vocab, at, n);
    if (id >= 0)
        return put_id(&e->ids, id, err);
    for (size_t i = 0; i < n; i++)
        if (put_id(&e->ids, e->parts->byte_id[(unsigned char)at[i]], err) < 0)
            return -1;
    return 0;
}

static int merge_chars(struct encoding *e, const char *piece, size_t n,
                       struct error *err)
{
    const char *p = piece, *end = piece + n;
    buf_reset(&e->ids);
    while (p < end) {
        const char *at = p;
        if (text_next(&p, end) < 0)
            p = at + 1;
        if (put_char(e, at, (size_t)(p - at), err) < 0)
            return -1;
    }
    return bpe_merge_ids(&e->parts->vocab, (int32_t *)(void *)e->ids.data,
                         e->ids.len / sizeof(int32_t), &e->work, e->ret, err);
}

/* Returns 1: there are enough ids already. */
static int add_piece(struct encoding *e, const char *piece, size_t n,
                     struct error *err)
{
    const struct bpe_vocab *v = &e->parts->vocab;
    if (e->ret->len >= e->full)
        return 1;
    if (e->parts->whole) {
        const int32_t id = bpe_vocab_find(v, piece, n);
        if (id >= 0)
            return put_id(e->ret, id, err);
    }
    return e->parts->chars ? merge_chars(e, piece, n, err)
                           : bpe_merge(v, piece, n, &e->work, e->ret, err);
}

static int cut_piece(void *arg, const char *piece, size_t n, struct error *err)
{
    const struct level *l = arg;
    struct level next = {l->e, l->at + 1};
    if (l->at == l->e->parts->patterns)
        return add_piece(l->e, piece, n, err);
    return pretokenize(l->e->pieces[l->at], piece, n, cut_piece, &next, err);
}

/* ---- added tokens ---------------------------------------------------------
 */

typedef int use_text(struct encoding *e, const char *text, size_t len,
                     enum text_place place, struct error *err);

/* Uses what is between the tokens, which become ids. */
static int each_between(struct encoding *e, const struct added_tokens *a,
                        const char *text, size_t len, enum text_place place,
                        use_text *use, struct error *err)
{
    struct added_find f = {.at = 0};
    int rc = 0;
    while (rc == 0 && added_tokens_next(a, text, len, &f)) {
        if (f.from > f.at)
            rc = use(e, text + f.at, f.from - f.at, place, err);
        if (rc == 0)
            rc = e->ret->len >= e->full ? 1 : put_id(e->ret, f.id, err);
        place = TEXT_BEHIND;
    }
    if (rc == 0 && f.at < len)
        rc = use(e, text + f.at, len - f.at, place, err);
    return rc;
}

static int use_formed(struct encoding *e, const char *text, size_t len,
                      enum text_place place, struct error *err)
{
    struct level first = {e, 0};
    if (text_steps_apply(&e->parts->marks, text, len, place, e->marks, &text,
                         &len, err) < 0)
        return -1;
    return cut_piece(&first, text, len, err);
}

static int use_raw(struct encoding *e, const char *text, size_t len,
                   enum text_place place, struct error *err)
{
    if (text_steps_apply(&e->parts->normal, text, len, place, e->normal, &text,
                         &len, err) < 0)
        return -1;
    return each_between(e, &e->parts->formed, text, len, place, use_formed,
                        err);
}

/* ---- a text ---------------------------------------------------------------
 */

static int use_slice(struct encoding *e, const struct text_slice *s,
                     enum text_place place, struct error *err)
{
    return s->utf8 ? each_between(e, &e->parts->raw, s->at, s->len, place,
                                  use_raw, err)
                   : add_piece(e, s->at, s->len, err);
}

/* The next bytes that all are UTF-8, or all are not. */
static bool next_run(const char **p, const char *end, struct text_slice *ret)
{
    const char *from = *p, *next = *p;
    if (from == end)
        return false;
    ret->utf8 = text_next(&next, end) >= 0;
    *p = ret->utf8 ? next : from + 1;
    while (*p < end) {
        next = *p;
        if ((text_next(&next, end) >= 0) != ret->utf8)
            break;
        *p = ret->utf8 ? next : *p + 1;
    }
    ret->at = from;
    ret->len = (size_t)(*p - from);
    return true;
}

/* Merges cross all of it, so it is not cut. */
static int use_whole(struct encoding *e, const char *text, size_t len,
                     enum text_place place, struct error *err)
{
    const char *p = text, *end = text + len;
    struct text_slice s;
    int rc = 0;
    if (len > TOKENIZER_SPM_BYTES)
        return error_set(err, ERR_INVAL,
                         "a text of %zu bytes: with a BPE of characters at "
                         "most %d are read",
                         len, TOKENIZER_SPM_BYTES);
    while (rc == 0 && next_run(&p, end, &s)) {
        rc = use_slice(e, &s, place, err);
        place = TEXT_GOES_ON;
    }
    return rc;
}

static int use_slices(struct encoding *e, const char *text, size_t len,
                      enum text_place place, struct error *err)
{
    struct text_cut cut = text_cut_of(text, len);
    struct text_slice s;
    int rc = 0;
    while (rc == 0 && text_cut_next(&cut, &s)) {
        rc = use_slice(e, &s, place, err);
        place = TEXT_GOES_ON;
    }
    return rc;
}

int bpe_encode_text(const struct bpe_parts *p,
                    struct pretokenizer *const *pieces, const char *text,
                    size_t len, enum text_place place, size_t most,
                    struct buf *ret, struct error *err)
{
    struct encoding e = {
        .parts = p, .pieces = pieces, .full = SIZE_MAX, .ret = ret};
    if (most > 0 && most < (SIZE_MAX - ret->len) / sizeof(int32_t))
        e.full = ret->len + most * sizeof(int32_t);
    const int rc = p->chars ? use_whole(&e, text, len, place, err)
                            : use_slices(&e, text, len, place, err);
    buf_clear(&e.work);
    buf_clear(&e.ids);
    for (int i = 0; i < 2; i++) {
        buf_clear(&e.normal[i]);
        buf_clear(&e.marks[i]);
    }
    return rc < 0 ? -1 : 0;
}
