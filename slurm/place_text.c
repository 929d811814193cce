/* place_text.c - write and parse "n1:0,1 n2:0-3"; see place_text.h. */
#include "slurm/place_text.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void place_text_begin(struct place_text *t)
{
    t->text[0] = '\0';
    t->len = 0;
    t->from = t->to = -1;
    t->is_first = 1;
}

static void add(struct place_text *t, const char *s)
{
    size_t room = sizeof(t->text) - 1 - t->len;
    size_t n = strnlen(s, room);
    memcpy(t->text + t->len, s, n);
    t->len += n;
    t->text[t->len] = '\0';
}

static void add_index(struct place_text *t, char before, int32_t index)
{
    char s[16];
    (void)snprintf(s, sizeof(s), "%c%d", before, index);
    add(t, s);
}

static void close_run(struct place_text *t)
{
    if (t->from < 0)
        return;
    add_index(t, t->is_first ? ':' : ',', t->from);
    if (t->to > t->from)
        add_index(t, t->to > t->from + 1 ? '-' : ',', t->to);
    t->from = t->to = -1;
    t->is_first = 0;
}

void place_text_node(struct place_text *t, const char *name)
{
    close_run(t);
    if (t->len > 0)
        add(t, " ");
    add(t, name);
    t->is_first = 1;
}

void place_text_index(struct place_text *t, int32_t index)
{
    assert(index >= 0 && index > t->to);
    if (t->from >= 0 && index == t->to + 1) {
        t->to = index;
        return;
    }
    close_run(t);
    t->from = t->to = index;
}

void place_text_cut(const char *text, char *ret, size_t cap)
{
    assert(cap >= 4);
    size_t len = strlen(text);
    size_t n = len < cap ? len : cap - 1;
    memcpy(ret, text, n);
    ret[n] = '\0';
    if (len >= cap)
        memcpy(ret + cap - 4, "...", 4);
}

void place_text_end(struct place_text *t, char *ret, size_t cap)
{
    close_run(t);
    place_text_cut(t->text, ret, cap);
}

/* Parses a decimal index at *p and moves past it; -1 if there is none. */
static int32_t take_index(const char **p, int32_t n)
{
    if (!isdigit((unsigned char)**p))
        return -1;
    char *end;
    long v = strtol(*p, &end, 10);
    if (v < 0 || v >= n)
        return -1;
    *p = end;
    return (int32_t)v;
}

int place_text_parse(const char *text, unsigned char *used, int32_t n,
                     struct error *err)
{
    const char *p = strchr(text, ':');
    if (!p)
        return 0;
    do {
        p++;
        int32_t from = take_index(&p, n);
        int32_t to = from;
        if (from >= 0 && *p == '-') {
            p++;
            to = take_index(&p, n);
        }
        if (from < 0 || to < from)
            return error_set(err, ERR_INVAL, "bad place '%s'", text);
        memset(used + from, 1, (size_t)(to - from) + 1);
    } while (*p == ',');
    if (*p != '\0')
        return error_set(err, ERR_INVAL, "bad place '%s'", text);
    return 0;
}
