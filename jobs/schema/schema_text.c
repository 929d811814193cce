/* schema_text.c - read strings, paths, lists and maps into their members. See
 * schema.h; numbers and words are in schema_value.c.
 *
 * These members own memory: the old value is freed when the new one is
 * complete. */
#include "jobs/schema/schema_setter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/parent_ref.h"
#include "jobs/text/text.h"

/* ---- strings ------------------------------------------------------------- */

/* A finding must not quote a secret, and nothing is substituted in one. */
static enum fill_when fill_of(const struct setter *t, const struct node *v)
{
    bool is_secret = t->k->hidden && v->key && schema_is_secret(v->key);
    return is_secret ? FILL_NONE : t->k->fill;
}

bool schema_cannot_fill(struct setter *t, const struct node *v)
{
    char hint[FILL_HINT_CAP];
    struct error why = ERROR_INIT;
    if (!v->text || !strstr(v->text, "${") ||
        interpolate_check(v->text, fill_of(t, v), hint, &why) == 0)
        return false;
    diagnostics_add(t->report, "E016", v->at, t->k->path, hint,
                    "%s%s%s: %.180s", t->k->path,
                    v->key && v != t->v ? "." : "",
                    v->key && v != t->v ? v->key : "", why.msg);
    t->bad = true;
    return true;
}

bool schema_can_say(const char *text)
{
    const char *end = text + strlen(text);
    if (end - text > TREE_MAX_SCALAR || strstr(text, "${"))
        return false;
    while (text < end) {
        int32_t cp = text_next(&text, end);
        if (cp < 0 || text_is_control(cp))
            return false;
    }
    return true;
}

bool schema_is_name(const char *s)
{
    size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                         "0123456789._-");
    return n > 0 && s[n] == '\0' && n < SPEC_NAME_CAP && !strchr("._-", *s);
}

static void refuse_name(struct setter *t)
{
    schema_refuse(t,
                  "letters, digits, '.', '_' and '-'; a letter or digit first; "
                  "at most 63",
                  "a name");
}

void schema_name(struct setter *t)
{
    if (!schema_is_name(t->v->text))
        refuse_name(t);
    else
        (void)snprintf(t->member, SPEC_NAME_CAP, "%s", t->v->text);
}

static int store_string(struct setter *t, char *s)
{
    if (!s)
        return error_set(t->err, ERR_NOMEM, "value of '%s'", t->k->path);
    char **member = t->member;
    free(*member);
    *member = s;
    return 0;
}

int schema_string(struct setter *t)
{
    return store_string(t, strdup(t->v->text));
}

/* Partitions, accounts, constraints: printable ASCII without blanks, so that
 * they cannot end a line or a field in another program's format. */
static bool is_word(const char *s)
{
    size_t n = 0;
    while (s[n] > ' ' && s[n] < 0x7f)
        n++;
    return n > 0 && n <= 127 && s[n] == '\0';
}

int schema_set_word(struct setter *t)
{
    if (t->k->name_only && !schema_is_name(t->v->text))
        refuse_name(t);
    else if (!is_word(t->v->text) && !strstr(t->v->text, "${"))
        schema_refuse(t, "printable ASCII without blanks; at most 127",
                      "a word");
    else
        return schema_string(t);
    return 0;
}

void schema_refuse_dir(struct spec_report *report, struct mark at,
                       const struct schema_key *k, const char *dir)
{
    char q[TEXT_QUOTE_CAP];
    diagnostics_add(
        report, k->code, at, k->path,
        "give the directory another name, or write the whole path of "
        "another one",
        "the directory '%s' has ${, control characters or bytes that "
        "are not UTF-8 in its name",
        text_quote(q, sizeof(q), dir));
}

static int join(struct setter *t, const char *dir, const char *rest)
{
    struct buf b = BUF_INIT;
    size_t len = strlen(dir);
    if (!schema_can_say(dir)) {
        schema_refuse_dir(t->report, t->v->at, t->k, dir);
        t->bad = true;
        return 0;
    }
    const char *slash = len > 0 && dir[len - 1] == '/' ? "" : "/";
    if (buf_addf(&b, t->err, "%s%s%s", dir, *rest ? slash : "", rest) < 0)
        return -1;
    if (b.len >= 4096) { /* PATH_MAX */
        schema_complain(t, t->k->code, NULL,
                        "the path is longer than 4095 bytes");
        buf_clear(&b);
        return 0;
    }
    return store_string(t, buf_detach(&b));
}

/* Whether the text is a job's number, or means to be one. */
static bool is_job(struct setter *t)
{
    struct parent_ref job;
    const enum parent_word is = parent_ref_parse(t->v->text, &job);
    if (is == PARENT_BAD)
        schema_refuse(t, "a directory of such a name is written with ./",
                      "a path, or a job such as 12, 12_3 or 12:best");
    return is != PARENT_NONE;
}

int schema_path(struct setter *t)
{
    const char *s = t->v->text;
    if (*s == '\0' || strpbrk(s, "\t\n\r")) {
        schema_refuse(t, NULL, "a path in one line");
        return 0;
    }
    if (t->k->job_ok && is_job(t))
        return t->bad ? 0 : schema_string(t);
    if (*s == '~') {
        if (s[1] != '\0' && s[1] != '/')
            schema_refuse(t, "write the whole path",
                          "a path; ~user is not known");
        else if (!t->base->home)
            schema_refuse(t, "write the whole path", "a path without ~ here");
        else
            return join(t, t->base->home, s + 1 + (s[1] == '/'));
        return 0;
    }
    if (t->k->fill == FILL_START && interpolate_is_below_output(s))
        return schema_string(t);
    if (*s == '/')
        return join(t, "/", s + 1);
    const char *dir = t->v->is_typed ? t->base->typed_dir : t->base->dir;
    if (!dir) {
        schema_refuse(t, NULL, "an absolute path here");
        return 0;
    }
    while (strncmp(s, "./", 2) == 0)
        s += 2;
    return join(t, dir, s);
}

/* ---- lists and maps ------------------------------------------------------ */

static void free_list(struct spec_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->items[i]);
    free(l->items);
    *l = (struct spec_list){.items = NULL};
}

static void free_map(struct spec_map *m)
{
    for (size_t i = 0; i < m->n; i++) {
        free(m->pairs[i].key);
        free(m->pairs[i].value);
    }
    free(m->pairs);
    *m = (struct spec_map){.pairs = NULL};
}

static bool item_is_fine(struct setter *t, const struct node *c)
{
    if (c->kind == NODE_BAD) {
        t->bad = true;
        return false;
    }
    if (c->kind != NODE_SCALAR) {
        diagnostics_add(t->report, "E011", c->at, t->k->path,
                        c->kind == NODE_NULL ? "write '' for an empty text"
                                             : NULL,
                        "each value of '%s' must be a text", t->k->path);
        t->bad = true;
        return false;
    }
    return !schema_cannot_fill(t, c);
}

int schema_list(struct setter *t)
{
    struct spec_list l = {.items = NULL};
    if (t->v->kind != NODE_LIST && t->v->kind != NODE_NULL) {
        schema_not_a(t, "a list ([a, b])");
        return 0;
    }
    size_t n = tree_count(t->v);
    l.items = calloc(n + 1, sizeof(*l.items)); /* NULL at the end, as in argv */
    if (!l.items)
        return error_set(t->err, ERR_NOMEM, "'%s'", t->k->path);
    for (const struct node *c = t->v->first; c; c = c->next) {
        if (!item_is_fine(t, c))
            continue;
        l.items[l.n] = strdup(c->text);
        if (!l.items[l.n++]) {
            free_list(&l);
            return error_set(t->err, ERR_NOMEM, "'%s'", t->k->path);
        }
    }
    if (t->bad) {
        free_list(&l);
        return 0;
    }
    free_list(t->member);
    *(struct spec_list *)t->member = l;
    return 0;
}

int schema_map(struct setter *t)
{
    struct spec_map m = {.pairs = NULL};
    if (t->v->kind != NODE_MAP && t->v->kind != NODE_NULL) {
        schema_not_a(t, "a mapping (key: value)");
        return 0;
    }
    m.pairs = calloc(tree_count(t->v) + 1, sizeof(*m.pairs));
    if (!m.pairs)
        return error_set(t->err, ERR_NOMEM, "'%s'", t->k->path);
    for (const struct node *c = t->v->first; c; c = c->next) {
        if (!item_is_fine(t, c))
            continue;
        struct spec_pair *p = &m.pairs[m.n++];
        p->key = strdup(c->key);
        p->value = strdup(c->text);
        if (!p->key || !p->value) {
            free_map(&m);
            return error_set(t->err, ERR_NOMEM, "'%s'", t->k->path);
        }
    }
    if (t->bad) {
        free_map(&m);
        return 0;
    }
    free_map(t->member);
    *(struct spec_map *)t->member = m;
    return 0;
}

void schema_clear(const struct schema *s, void *obj)
{
    int saved = errno;
    for (size_t i = 0; i < s->n; i++) {
        void *member = (char *)obj + s->keys[i].at;
        switch (s->keys[i].type) {
        case KEY_STRING:
        case KEY_WORD:
        case KEY_PATH:
            free(*(char **)member);
            *(char **)member = NULL;
            break;
        case KEY_LIST:
            free_list(member);
            break;
        case KEY_MAP:
            free_map(member);
            break;
        default:
            break;
        }
    }
    errno = saved;
}
