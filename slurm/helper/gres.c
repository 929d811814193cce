/* gres.c - parse "gpu:h100:2(IDX:0,2)" and its variants; see gres.h. */
#include "slurm/helper/gres.h"

#include <string.h>

static const char *skip_word(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - p) >= n && memcmp(p, word, n) == 0 ? p + n : NULL;
}

/* Parses a number up to max; -1 if there is no digit. */
static int32_t number(const char **p, const char *end, int32_t max)
{
    int32_t v = -1;
    for (; *p < end && **p >= '0' && **p <= '9'; (*p)++) {
        v = (v < 0 ? 0 : v) * 10 + (**p - '0');
        v = v > max ? max : v;
    }
    return v;
}

/* Parses "0,2-5" up to any other character. */
static void read_indexes(const char *p, const char *end, struct gres_gpu *ret)
{
    while (p < end) {
        int32_t a = number(&p, end, GRES_GPUS_MAX);
        int32_t b = a;
        if (a < 0)
            return;
        if (p < end && *p == '-') {
            p++;
            b = number(&p, end, GRES_GPUS_MAX);
        }
        for (int32_t i = a; i <= b && i < GRES_GPUS_MAX; i++)
            ret->at[i] = 1;
        ret->has_indexes = true;
        if (p == end || *p != ',')
            return;
        p++;
    }
}

/* p is after "gpu". */
static bool read_gpu(const char *p, const char *end, struct gres_gpu *ret)
{
    *ret = (struct gres_gpu){.n = 0};
    const char *paren = memchr(p, '(', (size_t)(end - p));
    const char *stop = paren ? paren : end;
    if (p < stop && *p != ':')
        return false; /* "gpu_mem:5" */
    const char *last = stop;
    while (last > p && *last != ':')
        last--;
    if (last == stop)
        return false;
    const char *n = last + 1;
    ret->n = number(&n, stop, GRES_GPUS_MAX);
    if (ret->n < 0 || n != stop)
        return false;
    if (last > p) {
        size_t len = (size_t)(last - p - 1);
        len = len < GRES_TYPE_CAP ? len : GRES_TYPE_CAP - 1;
        memcpy(ret->type, p + 1, len);
    }
    for (p = stop; p < end; p++) {
        const char *indexes = skip_word(p, end, "IDX:");
        if (indexes != NULL) {
            read_indexes(indexes, end, ret);
            break;
        }
    }
    return true;
}

bool gres_next(const char **text, struct gres_gpu *ret)
{
    const char *p = *text ? *text : "";
    bool is = false;
    while (*p && !is) {
        const char *end = p;
        for (int depth = 0; *end && (depth > 0 || *end != ','); end++) {
            depth += *end == '(';
            depth -= *end == ')' && depth > 0;
        }
        const char *name = skip_word(p, end, "gres:");
        name = skip_word(name ? name : p, end, "gpu");
        is = name != NULL && read_gpu(name, end, ret);
        p = *end ? end + 1 : end;
    }
    *text = p;
    return is;
}

static const char *type_of(const struct gres_gpu *g)
{
    return g->type[0] ? g->type : "gpu";
}

int32_t gres_indexes(const char *text, const char *type,
                     unsigned char at[GRES_GPUS_MAX])
{
    struct gres_gpu g;
    int32_t n = 0;
    while (gres_next(&text, &g)) {
        if (type != NULL && strcmp(type_of(&g), type) != 0)
            continue;
        n += g.n;
        for (int32_t k = 0; g.has_indexes && k < GRES_GPUS_MAX; k++)
            at[k] |= g.at[k];
    }
    return n;
}

/* Appends a type at ret[n], if there is room; else NULL. */
static struct gres_kind *kind_of(const struct gres_gpu *g,
                                 struct gres_kind *ret, size_t *n)
{
    const char *type = type_of(g);
    for (size_t i = 0; i < *n; i++)
        if (strcmp(ret[i].type, type) == 0)
            return &ret[i];
    if (*n == GRES_KINDS_MAX)
        return NULL;
    struct gres_kind *k = &ret[(*n)++];
    *k = (struct gres_kind){.total = 0};
    memcpy(k->type, type, strlen(type) + 1);
    return k;
}

size_t gres_kinds(const char *total, const char *used,
                  struct gres_kind ret[GRES_KINDS_MAX])
{
    unsigned char at[GRES_GPUS_MAX] = {0}; /* not used */
    struct gres_gpu g;
    size_t n = 0;
    while (gres_next(&total, &g)) {
        struct gres_kind *k = g.n > 0 ? kind_of(&g, ret, &n) : NULL;
        if (k != NULL)
            k->total += g.n;
    }
    /* With one type only, Slurm may omit it in one of the two strings. */
    for (size_t i = 0; i < n; i++)
        ret[i].used = gres_indexes(used, n > 1 ? ret[i].type : NULL, at);
    if (n == 0)
        ret[n++] = (struct gres_kind){.total = 0};
    return n;
}
