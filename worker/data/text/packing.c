/* packing.c - see packing.h. */
#include "worker/data/text/packing.h"

#include <stdlib.h>
#include <string.h>

struct maker {
    const struct packing_conf *conf;
    const struct token_row *rows;
    struct buf pieces; /* struct pack_piece */
    struct buf first;  /* int32_t */
    int32_t packs;
    struct error *err;
};

static int begin_pack(struct maker *m)
{
    const int32_t at = (int32_t)(m->pieces.len / sizeof(struct pack_piece));
    m->packs++;
    return buf_add(&m->first, &at, sizeof(at), m->err);
}

static int add_piece(struct maker *m, struct pack_piece p)
{
    return buf_add(&m->pieces, &p, sizeof(p), m->err);
}

/* ---- in order ------------------------------------------------------------ */

static int pack_in_order(struct maker *m, int32_t n)
{
    const int32_t most = m->conf->max_seq_len;
    int32_t room = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t len = m->rows[i].n;
        int32_t at = 0;
        while (at < len) {
            const bool begins =
                room == 0 || (len - at > room && !m->conf->split);
            if (begins && begin_pack(m) < 0)
                return -1;
            room = begins ? (most > 0 ? most : len) : room;
            const int32_t part = len - at < room ? len - at : room;
            if (add_piece(m, (struct pack_piece){i, at, part}) < 0)
                return -1;
            at += part;
            room = most > 0 ? room - part : 0;
        }
    }
    return 0;
}

/* ---- pairs --------------------------------------------------------------- */

static int pack_pairs(struct maker *m, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if ((i % 2 == 0 && begin_pack(m) < 0) ||
            add_piece(m, (struct pack_piece){i, 0, m->rows[i].n}) < 0)
            return -1;
    return 0;
}

/* ---- best fit ------------------------------------------------------------ */

struct placed {
    struct pack_piece piece;
    int32_t pack;
    int32_t key; /* the first row of its pack */
};

/* The packs of a window by their room: a list for each room, and a bit where
 * the list has a pack. */
struct shelf {
    int32_t most;
    uint64_t *bit;                /* [most / 64 + 1] */
    int32_t *head;                /* [most + 1]; -1: no pack has this room */
    int32_t next[PACKING_WINDOW]; /* of each pack */
    int32_t room[PACKING_WINDOW];
    int32_t key[PACKING_WINDOW];
    int32_t packs;
};

static void put_on(struct shelf *s, int32_t pack)
{
    const int32_t room = s->room[pack];
    s->next[pack] = s->head[room];
    s->head[room] = pack;
    s->bit[room / 64] |= 1ULL << (room % 64);
}

static int32_t take_off(struct shelf *s, int32_t room)
{
    const int32_t pack = s->head[room];
    s->head[room] = s->next[pack];
    if (s->head[room] < 0)
        s->bit[room / 64] &= ~(1ULL << (room % 64));
    return pack;
}

/* The least room of n or more; -1: there is none. */
static int32_t least_room(const struct shelf *s, int32_t n)
{
    uint64_t word = s->bit[n / 64] & (~0ULL << (n % 64));
    for (int32_t i = n / 64; i <= s->most / 64; i++, word = s->bit[i]) {
        if (word != 0)
            return i * 64 + __builtin_ctzll(word);
        if (i == s->most / 64)
            break;
    }
    return -1;
}

static int longest_first(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->piece.n != y->piece.n)
        return x->piece.n > y->piece.n ? -1 : 1;
    if (x->piece.row != y->piece.row)
        return x->piece.row < y->piece.row ? -1 : 1;
    return x->piece.at < y->piece.at ? -1 : 1;
}

/* Packs by their first rows, and rows in order within them. */
static int in_order(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->pack != y->pack)
        return x->pack < y->pack ? -1 : 1;
    if (x->piece.row != y->piece.row)
        return x->piece.row < y->piece.row ? -1 : 1;
    return x->piece.at < y->piece.at ? -1 : 1;
}

static void place(struct shelf *s, struct placed *p)
{
    const int32_t room = least_room(s, p->piece.n);
    if (room >= 0) {
        p->pack = take_off(s, room);
    } else {
        p->pack = s->packs++;
        s->room[p->pack] = s->most;
        s->key[p->pack] = p->piece.row;
    }
    s->room[p->pack] -= p->piece.n;
    if (p->piece.row < s->key[p->pack])
        s->key[p->pack] = p->piece.row;
    put_on(s, p->pack);
}

static void clear_shelf(struct shelf *s)
{
    for (int32_t i = 0; i < s->packs; i++) {
        s->head[s->room[i]] = -1;
        s->bit[s->room[i] / 64] = 0;
    }
    s->packs = 0;
}

static int pack_window(struct maker *m, struct shelf *s, struct placed *list,
                       int32_t n)
{
    int32_t last = -1;
    qsort(list, (size_t)n, sizeof(*list), longest_first);
    for (int32_t i = 0; i < n; i++)
        place(s, &list[i]);
    for (int32_t i = 0; i < n; i++)
        list[i].key = s->key[list[i].pack];
    qsort(list, (size_t)n, sizeof(*list), in_order);
    for (int32_t i = 0; i < n; i++) {
        if (list[i].pack != last && begin_pack(m) < 0)
            return -1;
        last = list[i].pack;
        if (add_piece(m, list[i].piece) < 0)
            return -1;
    }
    clear_shelf(s);
    return 0;
}

static int pack_windows(struct maker *m, struct shelf *s, struct placed *list,
                        int32_t rows)
{
    int32_t n = 0;
    for (int32_t i = 0; i < rows; i++)
        for (int32_t at = 0; at < m->rows[i].n; at += s->most) {
            const int32_t rest = m->rows[i].n - at;
            list[n++] = (struct placed){
                .piece = {i, at, rest < s->most ? rest : s->most}};
            if (n == PACKING_WINDOW && pack_window(m, s, list, n) < 0)
                return -1;
            n %= PACKING_WINDOW;
        }
    return pack_window(m, s, list, n);
}

static int pack_best_fit(struct maker *m, int32_t rows)
{
    const size_t most = (size_t)m->conf->max_seq_len;
    struct shelf *s = calloc(1, sizeof(*s));
    struct placed *list = calloc(PACKING_WINDOW, sizeof(*list));
    int rc = -1;
    if (s != NULL) {
        s->most = m->conf->max_seq_len;
        s->bit = calloc(most / 64 + 1, sizeof(*s->bit));
        s->head = malloc((most + 1) * sizeof(*s->head));
    }
    if (s != NULL && s->bit != NULL && s->head != NULL && list != NULL) {
        memset(s->head, 0xff, (most + 1) * sizeof(*s->head));
        rc = pack_windows(m, s, list, rows);
    } else {
        (void)error_set(m->err, ERR_NOMEM, "packing");
    }
    if (s != NULL) {
        free(s->bit);
        free(s->head);
    }
    free(s);
    free(list);
    return rc;
}

/* ---- all ----------------------------------------------------------------- */

int packing_of(const struct token_data *d, const struct packing_conf *conf,
               struct packing *ret, struct error *err)
{
    struct maker m = {.conf = conf, .rows = token_data_rows(d), .err = err};
    int rc;
    if (conf->pairs)
        rc = pack_pairs(&m, d->n);
    else if (conf->max_seq_len > 0 && conf->order == PACKING_BEST_FIT)
        rc = pack_best_fit(&m, d->n);
    else
        rc = pack_in_order(&m, d->n);
    const int32_t packs = m.packs;
    if (rc == 0)
        rc = begin_pack(&m); /* the end of the last */
    if (rc < 0) {
        buf_clear(&m.pieces);
        buf_clear(&m.first);
        return -1;
    }
    *ret = (struct packing){
        .n = packs,
        .first = (int32_t *)(void *)buf_detach(&m.first),
        .piece = (struct pack_piece *)(void *)buf_detach(&m.pieces)};
    return 0;
}

void packing_clear(struct packing *p)
{
    if (p == NULL)
        return;
    free(p->first);
    free(p->piece);
    memset(p, 0, sizeof(*p));
}

int32_t packing_tokens(const struct packing *p, int32_t i)
{
    int32_t n = 0;
    for (int32_t k = p->first[i]; k < p->first[i + 1]; k++)
        n += p->piece[k].n;
    return n;
}
