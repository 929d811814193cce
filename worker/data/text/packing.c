/* packing.c - see packing.h. */
#include "worker/data/text/packing.h"

#include <stdlib.h>
#include <string.h>

int packing_of(const struct token_data *d, int32_t max_seq_len,
               struct packing *ret, struct error *err)
{
    const struct token_row *rows = token_data_rows(d);
    struct packing p = {.n = 0};
    p.first = malloc(((size_t)d->n + 1) * sizeof(*p.first));
    if (p.first == NULL)
        return error_set(err, ERR_NOMEM, "packing: %d rows", d->n);
    int32_t room = 0;
    for (int32_t i = 0; i < d->n; i++) {
        if (rows[i].n > room) {
            p.first[p.n++] = i;
            room = max_seq_len;
        }
        room -= max_seq_len > 0 ? rows[i].n : 0;
    }
    p.first[p.n] = d->n;
    *ret = p;
    return 0;
}

void packing_clear(struct packing *p)
{
    if (p == NULL)
        return;
    free(p->first);
    memset(p, 0, sizeof(*p));
}

int32_t packing_tokens(const struct packing *p, const struct token_data *d,
                       int32_t i)
{
    const struct token_row *rows = token_data_rows(d);
    int32_t n = 0;
    for (int32_t k = p->first[i]; k < p->first[i + 1]; k++)
        n += rows[k].n;
    return n;
}
