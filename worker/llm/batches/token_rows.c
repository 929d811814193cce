/* token_rows.c - see token_rows.h. */
#include "worker/llm/batches/token_rows.h"

#include <string.h>

#include "worker/data/sampler.h"

int32_t token_rows_longest(const struct token_pick *p)
{
    int32_t longest = 1;
    for (int32_t i = 0; i < p->n; i++) {
        if (p->index[i] == SAMPLER_NONE)
            continue;
        const int32_t n = packing_tokens(p->packs, p->index[i]);
        longest = n > longest ? n : longest;
    }
    return longest;
}

int32_t token_rows_dense(const struct token_pick *p, int32_t n)
{
    int64_t tokens = 0;
    for (int32_t i = 0; i < p->n; i++)
        if (p->index[i] != SAMPLER_NONE)
            tokens += packing_tokens(p->packs, p->index[i]);
    return tokens > n ? (int32_t)((tokens + n - 1) / n) : 1;
}

/* Pairs of a token of n and one that it sees, of at most `window` <= n. */
static int64_t pairs_of(int64_t n, int64_t window)
{
    return window * (window + 1) / 2 + (n - window) * window;
}

/* A document whose first token is token `at` of the batch. A piece of a row
 * is one: its last token predicts the first of the next piece. */
static int put_document(struct token_rows *r, const struct token_data *d,
                        const struct pack_piece *piece, int32_t at,
                        struct error *err)
{
    const struct token_row *row = &token_data_rows(d)[piece->row];
    const size_t first = row->first + (size_t)piece->at;
    /* r->n_labelled is at most `at`, so that a label is read before its place
     * is written to. */
    int32_t *labels = r->label + at, after = -1, unused;
    const bool has_after = piece->at + piece->n < row->n;
    if (token_data_read(d, first, (size_t)piece->n, r->id + at, labels, err) <
            0 ||
        (has_after && token_data_read(d, first + (size_t)piece->n, 1, &unused,
                                      &after, err) < 0))
        return -1;
    for (int32_t i = 0; i < piece->n; i++) {
        const int32_t label = i + 1 < piece->n ? labels[i + 1] : after;
        r->pos[at + i] = i;
        if (label < 0)
            continue;
        r->labelled[r->n_labelled] = at + i;
        r->label[r->n_labelled++] = label;
    }
    r->tokens += piece->n;
    r->attends += pairs_of(piece->n, piece->n);
    r->windowed += pairs_of(
        piece->n, r->window > 0 && r->window < piece->n ? r->window : piece->n);
    return 0;
}

static int put_sample(struct token_rows *r, const struct token_pick *p,
                      int32_t sample, int32_t at, struct error *err)
{
    const struct packing *packs = p->packs;
    for (int32_t k = packs->first[sample]; k < packs->first[sample + 1]; k++) {
        if (put_document(r, p->data, &packs->piece[k], at, err) < 0)
            return -1;
        at += packs->piece[k].n;
    }
    return 0;
}

/* Both answers of each pair. */
static int put_pairs(struct token_rows *r, const struct token_pick *p,
                     struct error *err)
{
    int32_t at = 0;
    memset(r->answers, 0, 2 * (size_t)r->n * sizeof(*r->answers));
    for (int32_t i = 0; i < p->n; i++) {
        const int32_t pair = p->index[i];
        for (int32_t side = 0; pair != SAMPLER_NONE && side < 2; side++) {
            const struct pack_piece *piece =
                &p->packs->piece[p->packs->first[pair] + side];
            struct pair_answer *a = &r->answers[2 * i + side];
            a->first = r->n_labelled;
            if (put_document(r, p->data, piece, at, err) < 0)
                return -1;
            a->n = r->n_labelled - a->first;
            a->reference =
                p->reference != NULL ? p->reference[2 * pair + side] : 0;
            at += piece->n;
        }
    }
    return 0;
}

/* A counting sort. */
static void sort_by_id(struct token_rows *r, int32_t *counts, int32_t classes)
{
    const int32_t n = r->n * r->S;
    int32_t before = 0;
    memset(counts, 0, (size_t)classes * sizeof(*counts));
    for (int32_t i = 0; i < n; i++)
        counts[r->id[i]]++;
    for (int32_t c = 0; c < classes; c++) {
        const int32_t here = counts[c];
        counts[c] = before;
        before += here;
    }
    for (int32_t i = 0; i < n; i++)
        r->order[counts[r->id[i]]++] = i;
}

int token_rows_fill(struct token_rows *r, const struct token_pick *p,
                    int32_t *counts, int32_t classes, struct error *err)
{
    const size_t n = (size_t)r->n * (size_t)r->S;
    r->n_labelled = 0;
    r->tokens = r->attends = r->windowed = 0;
    for (size_t i = 0; i < n; i++)
        r->id[i] = p->pad;
    memset(r->pos, 0, n * sizeof(*r->pos));
    for (int32_t i = 0; i < p->n && r->answers == NULL; i++)
        if (p->index[i] != SAMPLER_NONE &&
            put_sample(r, p, p->index[i], i * r->S, err) < 0)
            return -1;
    if (r->answers != NULL && put_pairs(r, p, err) < 0)
        return -1;
    for (size_t i = (size_t)r->n_labelled; i < n; i++)
        r->labelled[i] = r->label[i] = -1;
    sort_by_id(r, counts, classes);
    return 0;
}
