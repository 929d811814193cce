/* mem_guess.c - the in-memory store's guesses about sizes of classes. The
 * caller holds the lock. */
#include <stdlib.h>
#include <string.h>

#include "db/mem/mem.h"

int mem_type_cmp(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) : (a != NULL) - (b != NULL);
}

static void guess_clear(struct mem_guess *g)
{
    free(g->class);
    free(g->gpu_type);
    free(g->basis);
    *g = (struct mem_guess){.class = NULL};
}

static int guess_init(struct mem_guess *ret, const char *class,
                      const char *gpu_type, const struct store_guess *from,
                      struct error *err)
{
    *ret = (struct mem_guess){.class = strdup(class),
                              .gpu_type = gpu_type ? strdup(gpu_type) : NULL,
                              .basis = strdup(from->basis),
                              .g = *from};
    ret->g.basis = ret->basis;
    if (ret->class && ret->basis && (ret->gpu_type || !gpu_type))
        return 0;
    guess_clear(ret);
    return error_set(err, ERR_NOMEM, "a guess");
}

/* The old ones of the class and type go when the new ones are complete. */
int mem_guesses_set(struct mem_guesses *gs, const char *class,
                    const char *gpu_type, const struct store_guess *guesses,
                    size_t n, struct error *err)
{
    struct mem_guess *at = calloc(gs->n + n + 1, sizeof(*at));
    size_t k = 0;

    if (!at)
        return error_set(err, ERR_NOMEM, "%zu guesses", n);
    for (; k < n; k++)
        if (guess_init(&at[k], class, gpu_type, &guesses[k], err) < 0)
            break;
    if (k < n) {
        while (k > 0)
            guess_clear(&at[--k]);
        free(at);
        return -1;
    }
    for (size_t i = 0; i < gs->n; i++) {
        struct mem_guess *old = &gs->at[i];
        if (strcmp(old->class, class) == 0 &&
            mem_type_cmp(old->gpu_type, gpu_type) == 0)
            guess_clear(old);
        else
            at[k++] = *old;
    }
    free(gs->at);
    *gs = (struct mem_guesses){.at = at, .n = k};
    return 0;
}

void mem_guesses_clear(struct mem_guesses *gs)
{
    for (size_t i = 0; i < gs->n; i++)
        guess_clear(&gs->at[i]);
    free(gs->at);
    *gs = (struct mem_guesses){.n = 0};
}
