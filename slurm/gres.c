/* gres.c - see gres.h. */
#include "slurm/gres.h"

#include <stdio.h>
#include <string.h>

static const char *skip_word(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - p) >= n && memcmp(p, word, n) == 0 ? p + n : NULL;
}

/* Up to max; -1 when there is no digit. */
static int32_t number(const char **p, const char *end, int32_t max)
{
    int32_t v = -1;
    for (; *p < end && **p >= '0' && **p <= '9'; (*p)++) {
        v = (v < 0 ? 0 : v) * 10 + (**p - '0');
        v = v > max ? max : v;
    }
    return v;
}

/* "0,2-5" until something else. */
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

/* p is behind "gpu". */
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

/* type NULL: of any */
static int32_t count(const char *text, const char *type)
{
    struct gres_gpu g;
    int32_t n = 0;
    while (gres_next(&text, &g))
        if (type == NULL || strcmp(g.type, type) == 0)
            n += g.n;
    return n;
}

void gres_main(const char *total, const char *used, char type[GRES_TYPE_CAP],
               int32_t *ret_total, int32_t *ret_used)
{
    struct gres_gpu g;
    const char *p = total;
    type[0] = '\0';
    *ret_total = 0;
    *ret_used = 0;
    while (gres_next(&p, &g)) {
        int32_t n = count(total, g.type);
        if (n <= *ret_total)
            continue;
        *ret_total = n;
        /* With one type only, Slurm may name it in one of the two. */
        *ret_used = count(used, count(total, NULL) == n ? NULL : g.type);
        if (g.type[0] == '\0')
            memcpy(g.type, "gpu", sizeof("gpu"));
        memcpy(type, g.type, GRES_TYPE_CAP);
    }
}

void gres_others(const char *total, const char *type, char *ret, size_t cap)
{
    struct gres_gpu g;
    size_t at = 0;
    ret[0] = '\0';
    for (const char *p = total; gres_next(&p, &g);) {
        const char *name = g.type[0] ? g.type : "gpu";
        if (strcmp(name, type) == 0 || g.n == 0 || at >= cap)
            continue;
        int n = snprintf(ret + at, cap - at, "%s%d %s", at > 0 ? ", " : "", g.n,
                         name);
        at += n > 0 ? (size_t)n : 0;
    }
}
