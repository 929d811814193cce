/* tree_yaml.c - build a tree from libyaml's events; tree.h has what it refuses.
 *
 * The bytes are checked first (size, UTF-8, control characters), because
 * libyaml reports no position for those. Then it reads events one by one and
 * checks every limit before the next: libyaml 0.2.5 needs quadratic time in the
 * depth of flow collections, so the depth must be checked while it parses.
 *
 * After an error that can be skipped (an alias, a duplicate key, a tag) parsing
 * continues; an error that makes the rest meaningless stops it. */
#include "jobs/schema/tree.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "jobs/schema/diagnostics.h"
#include "jobs/text/text.h"

/* One open collection. In a map, `key` waits for its value; key_bad: the value
 * will be parsed and dropped. */
struct frame {
    struct node *node;
    bool keep; /* else a bad key, or the value of one */
    bool lost; /* it, or an enclosing collection, is dropped: no need to
                * detect duplicate keys */
    bool has_key, key_bad;
    char *key;
    struct mark key_at;
};

/* A hash set of present keys, to detect duplicates: open addressing by map and
 * key. With a linear search, 5,000 keys would cost a daemon 0.2 s. It grows on
 * demand, because most texts have few. */
struct seen {
    const struct node *map, *child;
};

struct reader {
    yaml_parser_t yaml;
    struct spec_report *report;
    struct error *err;
    struct node *root;
    struct seen
        *seen; /* owned; [cap_seen], a power of two, half full at most */
    size_t n_seen, cap_seen;
    struct frame stack[TREE_MAX_DEPTH];
    const char *base; /* --set: the path of the value; NULL */
    int depth, n_nodes, n_documents;
    bool no_place; /* --set: marks have line 0 */
    bool any_top;  /* a list or a scalar at the top is allowed */
    bool stop;     /* a finding stopped the parser */
};

static struct mark place(const struct reader *r, const yaml_mark_t *from,
                         const yaml_mark_t *to)
{
    if (r->no_place)
        return (struct mark){.line = 0};
    struct mark m = {.line = (int32_t)from->line + 1,
                     .column = (int32_t)from->column + 1,
                     .width = 1};
    if (to && to->line == from->line && to->column > from->column)
        m.width = (int32_t)(to->column - from->column);
    return m;
}

/* The parser's position: "train.optimizer" and the key, or, with NULL, the key
 * whose value comes next. */
enum { HERE_CAP = 2 * TREE_MAX_KEY };
static const char *path_here(const struct reader *r, const char *key,
                             char out[HERE_CAP])
{
    const struct frame *top = r->depth > 0 ? &r->stack[r->depth - 1] : NULL;
    size_t len = 0;

    out[0] = '\0';
    for (int i = -1; i <= r->depth; i++) {
        const char *part = i < 0          ? r->base
                           : i < r->depth ? r->stack[i].node->key
                           : key || !top  ? key
                           : top->has_key ? top->key
                                          : NULL;
        if (part && len < HERE_CAP)
            len += (size_t)snprintf(out + len, HERE_CAP - len, "%s%s",
                                    len > 0 ? "." : "", part);
    }
    return out;
}

static void stop_at(struct reader *r, const char *code, struct mark at,
                    const char *message)
{
    diagnostics_add(r->report, code, at, NULL, NULL, "%s", message);
    r->stop = true;
}

/* The slot of a key, or the free one for it. */
static struct seen *find_seen(struct reader *r, const struct node *map,
                              const char *key)
{
    uint64_t h = 14695981039346656037u ^ (uintptr_t)map; /* FNV-1a */
    for (const char *p = key; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    size_t at = (size_t)(h >> 32) & (r->cap_seen - 1);
    while (r->seen[at].map &&
           (r->seen[at].map != map || strcmp(r->seen[at].child->key, key) != 0))
        at = (at + 1) & (r->cap_seen - 1);
    return &r->seen[at];
}

/* Reserves space for one more key. Keys of the enclosing maps may not be
 * entered yet. */
static int reserve_seen(struct reader *r)
{
    size_t cap = r->cap_seen > 0 ? r->cap_seen : 64, n = r->cap_seen;
    struct seen *old = r->seen;

    while (cap < 2 * (r->n_seen + TREE_MAX_DEPTH + 1))
        cap *= 2;
    if (cap == n)
        return 0;
    struct seen *seen = calloc(cap, sizeof(*seen));
    if (!seen)
        return error_set(r->err, ERR_NOMEM, "YAML keys");
    r->seen = seen;
    r->cap_seen = cap;
    for (size_t i = 0; i < n; i++)
        if (old[i].map)
            *find_seen(r, old[i].map, old[i].child->key) = old[i];
    free(old);
    return 0;
}

/* ---- scalars and keys ---------------------------------------------------- */

/* Whether the text is acceptable; else adds a finding. */
static bool text_fits(struct reader *r, const yaml_event_t *ev, struct mark at,
                      bool is_key)
{
    const char *s = (const char *)ev->data.scalar.value;
    size_t len = ev->data.scalar.length;
    size_t max = is_key ? TREE_MAX_KEY : TREE_MAX_SCALAR;
    char here[HERE_CAP];
    if (len > max) {
        diagnostics_add(r->report, "E005", at, path_here(r, NULL, here), NULL,
                        "a %s of %zu bytes; at most %zu are accepted",
                        is_key ? "key" : "value", len, max);
        return false;
    }
    for (const char *p = s; p < s + len;) {
        int32_t cp = text_next(&p, s + len);
        if (!text_is_control(cp))
            continue;
        diagnostics_add(r->report, "E007", at, path_here(r, NULL, here), NULL,
                        "control character U+%04X is not accepted",
                        (unsigned)cp);
        return false;
    }
    return true;
}

static bool is_null(const yaml_event_t *ev)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    if (ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp((const char *)ev->data.scalar.value, words[i]) == 0)
            return true;
    return false;
}

static bool refuse_tag(struct reader *r, const void *tag, struct mark at)
{
    char here[HERE_CAP];
    if (tag)
        diagnostics_add(r->report, "E009", at, path_here(r, NULL, here),
                        "leave the tag out; the key decides the type",
                        "tags are not accepted");
    return tag != NULL;
}

static bool refuse_anchor(struct reader *r, const void *anchor, struct mark at)
{
    char here[HERE_CAP];
    if (anchor)
        diagnostics_add(r->report, "E003", at, path_here(r, NULL, here),
                        "write the value out where it is used",
                        "anchors and aliases are not accepted");
    return anchor != NULL;
}

/* A scalar where a key is expected. */
static int take_key(struct reader *r, struct frame *f, const yaml_event_t *ev,
                    struct mark at)
{
    const char *s = (const char *)ev->data.scalar.value;
    char q[TEXT_QUOTE_CAP], here[HERE_CAP];

    f->has_key = true;
    f->key_at = at;
    f->key_bad = !text_fits(r, ev, at, true);
    if (!f->key_bad && strcmp(s, "<<") == 0) {
        diagnostics_add(r->report, "E003", at, path_here(r, s, here),
                        "write the keys out where they are used",
                        "merge keys are not accepted");
        f->key_bad = true;
    }
    if (reserve_seen(r) < 0)
        return -1;
    const struct node *twin =
        f->key_bad || f->lost ? NULL : find_seen(r, f->node, s)->child;
    if (twin) {
        (void)text_quote(q, sizeof(q), s);
        diagnostics_add(r->report, "E006", at, path_here(r, s, here),
                        "leave one of them out",
                        "key '%s' is there twice; the first is on line %d", q,
                        twin->key_at.line);
        f->key_bad = true;
    }
    if (f->key_bad)
        return 0;
    f->key = strdup(s);
    return f->key ? 0 : error_set(r->err, ERR_NOMEM, "key of a YAML tree");
}

/* ---- add nodes to the tree ----------------------------------------------- */

/* Adds n, complete or just opened, to its parent. *ret_keep is false if it
 * belongs to a bad key: the caller frees it. */
static void place_node(struct reader *r, struct node *n, bool *ret_keep)
{
    *ret_keep = true;
    if (r->depth == 0) {
        r->root = n;
        return;
    }
    struct frame *f = &r->stack[r->depth - 1];
    if (f->node->kind == NODE_LIST) {
        tree_append(f->node, n);
        return;
    }
    *ret_keep = !f->key_bad;
    if (!f->key_bad) {
        n->key = f->key;
        n->key_at = f->key_at;
        f->key = NULL;
        tree_append(f->node, n);
        if (!f->lost) {
            *find_seen(r, f->node, n->key) = (struct seen){f->node, n};
            r->n_seen++;
        }
    }
    f->has_key = f->key_bad = false;
}

static bool expects_key(const struct reader *r)
{
    return r->depth > 0 && r->stack[r->depth - 1].node->kind == NODE_MAP &&
           !r->stack[r->depth - 1].has_key;
}

static int on_leaf(struct reader *r, enum node_kind kind, const char *text,
                   struct mark at)
{
    struct node *n = tree_create(kind, at, r->err);
    if (!n)
        return -1;
    if (text && !(n->text = strdup(text))) {
        tree_destroy(n);
        return error_set(r->err, ERR_NOMEM, "value of a YAML tree");
    }
    bool keep = false;
    place_node(r, n, &keep);
    if (!keep)
        tree_destroy(n);
    return 0;
}

static int on_value(struct reader *r, const yaml_event_t *ev, struct mark at)
{
    if (!text_fits(r, ev, at, false))
        return on_leaf(r, NODE_BAD, NULL, at);
    enum node_kind kind = is_null(ev) ? NODE_NULL : NODE_SCALAR;
    return on_leaf(r, kind, (const char *)ev->data.scalar.value, at);
}

static int on_scalar(struct reader *r, const yaml_event_t *ev)
{
    struct mark at = place(r, &ev->start_mark, &ev->end_mark);
    if (ev->data.scalar.style == YAML_LITERAL_SCALAR_STYLE ||
        ev->data.scalar.style == YAML_FOLDED_SCALAR_STYLE)
        at.width = 1;
    (void)refuse_anchor(r, ev->data.scalar.anchor, at);
    (void)refuse_tag(r, ev->data.scalar.tag, at);
    if (expects_key(r))
        return take_key(r, &r->stack[r->depth - 1], ev, at);
    return on_value(r, ev, at);
}

static int on_alias(struct reader *r, const yaml_event_t *ev)
{
    struct mark at = place(r, &ev->start_mark, &ev->end_mark);
    (void)refuse_anchor(r, ev, at);
    if (!expects_key(r))
        return on_leaf(r, NODE_BAD, NULL, at);
    struct frame *f = &r->stack[r->depth - 1];
    f->has_key = f->key_bad = true;
    return 0;
}

static int on_open(struct reader *r, enum node_kind kind, const void *anchor,
                   const void *tag, const yaml_event_t *ev)
{
    struct mark at = place(r, &ev->start_mark, NULL);
    if (r->depth == TREE_MAX_DEPTH) {
        stop_at(r, "E004", at, "nested more than 16 deep");
        return 0;
    }
    bool bad = refuse_anchor(r, anchor, at);
    bad = refuse_tag(r, tag, at) || bad;
    struct node *n = tree_create(kind, at, r->err);
    if (!n)
        return -1;
    bool keep = false;
    if (expects_key(r)) {
        struct frame *f = &r->stack[r->depth - 1];
        if (!bad && f->keep)
            diagnostics_add(r->report, "E011", at, NULL, NULL,
                            "a key must be a single word");
        f->has_key = f->key_bad = true;
    } else
        place_node(r, n, &keep);
    bool lost = !keep || (r->depth > 0 && r->stack[r->depth - 1].lost);
    r->stack[r->depth++] =
        (struct frame){.node = n, .keep = keep, .lost = lost};
    return 0;
}

static void on_close(struct reader *r)
{
    struct frame *f = &r->stack[--r->depth];
    if (!f->keep)
        tree_destroy(f->node);
}

/* ---- the event loop ------------------------------------------------------ */

static void on_document(struct reader *r, const yaml_event_t *ev)
{
    struct mark at = place(r, &ev->start_mark, &ev->end_mark);
    if (r->n_documents++ > 0)
        stop_at(r, "E009", at, "more than one document");
    else if (ev->data.document_start.version_directive ||
             ev->data.document_start.tag_directives.start !=
                 ev->data.document_start.tag_directives.end)
        diagnostics_add(r->report, "E009", at, NULL, NULL,
                        "directives are not accepted");
}

static int on_event(struct reader *r, const yaml_event_t *ev)
{
    switch (ev->type) {
    case YAML_SCALAR_EVENT:
    case YAML_ALIAS_EVENT:
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        if (++r->n_nodes > TREE_MAX_NODES) {
            stop_at(r, "E005", place(r, &ev->start_mark, NULL),
                    "more than 10000 keys and values");
            return 0;
        }
        break;
    default:
        break;
    }
    switch (ev->type) {
    case YAML_DOCUMENT_START_EVENT:
        on_document(r, ev);
        return 0;
    case YAML_SCALAR_EVENT:
        return on_scalar(r, ev);
    case YAML_ALIAS_EVENT:
        return on_alias(r, ev);
    case YAML_SEQUENCE_START_EVENT:
        return on_open(r, NODE_LIST, ev->data.sequence_start.anchor,
                       ev->data.sequence_start.tag, ev);
    case YAML_MAPPING_START_EVENT:
        return on_open(r, NODE_MAP, ev->data.mapping_start.anchor,
                       ev->data.mapping_start.tag, ev);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        on_close(r);
        return 0;
    default:
        return 0;
    }
}

/* Translates libyaml's messages; `opened` is the start of the construct that it
 * was parsing. */
enum { HINT_CAP = 160 };
static void hint_of(const char *what, struct mark opened, char hint[HINT_CAP])
{
    static const struct {
        const char *what, *hint, *after; /* of the line, if it has a position */
    } rows[] = {
        {"cannot start any token",
         "indent with spaces, not tabs; quote text that begins with @, ` or %",
         NULL},
        {"tab character", "indent with spaces, not tabs", NULL},
        {"find expected ':'", "write key: value, with a blank after the colon",
         NULL},
        {"mapping values are not allowed",
         "the keys of a section begin in one column; quote a value that has "
         "': ' in it",
         NULL},
        {"did not find expected key",
         "the keys of a section begin in one column, as on the line before",
         NULL},
        {"did not find expected '-'", "the '-' of the list of line ",
         " stand in one column"},
        {"did not find expected ',' or", "close the bracket that line ",
         " opens"},
        {"unexpected end of stream", "close the quotes that line ", " opens"},
    };
    hint[0] = '\0';
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!strstr(what, rows[i].what))
            continue;
        if (!rows[i].after)
            (void)snprintf(hint, HINT_CAP, "%s", rows[i].hint);
        else if (opened.line > 0)
            (void)snprintf(hint, HINT_CAP, "%s%d%s", rows[i].hint, opened.line,
                           rows[i].after);
        return;
    }
}

static int syntax_error(struct reader *r)
{
    const yaml_parser_t *y = &r->yaml;
    if (y->error == YAML_MEMORY_ERROR)
        return error_set(r->err, ERR_NOMEM, "YAML parser");
    const char *what = y->problem ? y->problem : "unknown";
    /* An escaped lone surrogate: as bytes it would be E008. */
    bool is_utf = strstr(what, "invalid Unicode") != NULL;
    struct mark opened = place(r, &y->context_mark, NULL);
    /* libyaml reports a key without a colon on the next line. */
    bool is_before = strstr(what, "find expected ':'") && opened.line > 0;
    char hint[HINT_CAP];
    hint_of(what, opened, hint);
    diagnostics_add(r->report, is_utf ? "E008" : "E000",
                    is_before ? opened : place(r, &y->problem_mark, NULL), NULL,
                    hint, "not YAML that mgpu reads: %s%s%s", what,
                    y->context ? ", " : "", y->context ? y->context : "");
    r->stop = true;
    return 0;
}

static int read_events(struct reader *r)
{
    int rc = 0;
    bool done = false;
    while (rc == 0 && !done && !r->stop) {
        yaml_event_t ev;
        if (!yaml_parser_parse(&r->yaml, &ev)) {
            rc = syntax_error(r);
            break;
        }
        done = ev.type == YAML_STREAM_END_EVENT;
        rc = on_event(r, &ev);
        yaml_event_delete(&ev);
    }
    /* Parsing stopped: only the stack refers to what a bad key holds. */
    while (r->depth > 0) {
        free(r->stack[r->depth - 1].key);
        on_close(r);
    }
    return rc;
}

/* ---- checks before libyaml ----------------------------------------------- */

/* libyaml's messages about these are useless, and it would stop at them. */
static bool bytes_are_fine(struct reader *r, const char *text, size_t len)
{
    struct mark at = {.line = r->no_place ? 0 : 1, .column = 1, .width = 1};
    if (len > TREE_MAX_BYTES) {
        diagnostics_add(r->report, "E002", at, NULL, NULL,
                        "%zu bytes; at most 1 MiB is accepted", len);
        return false;
    }
    const char *end = text + len;
    for (const char *p = text; p < end;) {
        const char *from = p;
        int32_t cp = text_next(&p, end);
        if (cp < 0) {
            diagnostics_add(r->report, "E008", at, NULL, "save it as UTF-8",
                            "not UTF-8: byte 0x%02X at offset %zu",
                            (unsigned char)*from, (size_t)(from - text));
            return false;
        }
        if (text_is_control(cp)) {
            diagnostics_add(r->report, "E007", at, NULL, NULL,
                            "control character U+%04X is not accepted",
                            (unsigned)cp);
            return false;
        }
        bool ends = cp == '\n' || (cp == '\r' && !(p < end && *p == '\n'));
        if (ends && !r->no_place)
            at.line++;
        at.column = ends ? 1 : at.column + 1;
    }
    return true;
}

static int read_tree(struct reader *r, const char *text, size_t len)
{
    if (!bytes_are_fine(r, text, len)) {
        r->stop = true;
        return 0;
    }
    if (!yaml_parser_initialize(&r->yaml))
        return error_set(r->err, ERR_NOMEM, "YAML parser");
    yaml_parser_set_encoding(&r->yaml, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r->yaml, (const unsigned char *)text, len);
    int rc = read_events(r);
    yaml_parser_delete(&r->yaml);
    free(r->seen);
    if (rc == 0 && !r->stop && !r->any_top &&
        (!r->root || r->root->kind != NODE_MAP)) {
        struct mark top = {.line = 1, .column = 1, .width = 1};
        stop_at(r, "E001", r->root ? r->root->at : top,
                "expected a mapping (key: value)");
    }
    return rc;
}

static int finish(struct reader *r, int rc, struct node **ret)
{
    if (rc < 0 || r->stop) {
        tree_destroy(r->root);
        r->root = NULL;
    }
    if (rc == 0)
        *ret = r->root;
    return rc;
}

int tree_parse(const char *text, size_t len, struct spec_report *report,
               struct node **ret, struct error *err)
{
    struct reader r = {.report = report, .err = err};
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        len -= 3;
    }
    return finish(&r, read_tree(&r, text, len), ret);
}

int tree_parse_value(const char *path, const char *value,
                     struct spec_report *report, struct node **ret,
                     struct error *err)
{
    struct reader r = {.report = report,
                       .err = err,
                       .base = path,
                       .no_place = true,
                       .any_top = true};
    size_t len = strlen(value);
    int rc = 0;
    if (len > 0 && strchr("[{\"'", value[0]))
        rc = read_tree(&r, value, len);
    else {
        /* Handle the scalar as it is, through a synthetic event. */
        yaml_event_t ev = {.type = YAML_SCALAR_EVENT};
        ev.data.scalar.value = (yaml_char_t *)value; /* only read */
        ev.data.scalar.length = len;
        ev.data.scalar.style = YAML_PLAIN_SCALAR_STYLE;
        r.stop = !bytes_are_fine(&r, value, len);
        rc = r.stop ? 0 : on_value(&r, &ev, (struct mark){.line = 0});
    }
    /* Findings about values have no path yet. */
    for (size_t i = 0; i < report->n; i++) {
        struct spec_finding *f = &report->findings[i];
        if (f->line == 0 && f->path[0] == '\0')
            (void)text_quote(f->path, sizeof(f->path), path);
    }
    return finish(&r, rc, ret);
}
