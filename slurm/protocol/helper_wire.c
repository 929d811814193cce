/* helper_wire.c - encode and parse the JSON lines between daemon and helper.
 *
 * helper_messages.c has the tables of keys, json_struct.c reads and writes
 * them. A command has exactly its keys: the helper acts for users on its
 * content, and must not ignore an unknown key. News may omit zero values. */
#include "slurm/protocol/helper_wire.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/protocol/helper_messages.h"

/* ---- reading ------------------------------------------------------------- */
static int get_fields(const struct json_struct *m, json_t *o, int extra,
                      void *base, struct error *err)
{
    struct members all;
    json_members_of_json(o, &all);
    return json_struct_read(m, &all, extra, base, err);
}

static json_t *load(const char *line, size_t len, struct error *err)
{
    json_error_t why;
    if (len > HELPER_LINE_MAX) {
        (void)error_set(err, ERR_INVAL, "a line of %zu bytes, at most %d", len,
                        HELPER_LINE_MAX);
        return NULL;
    }
    json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, &why);
    if (o == NULL) {
        (void)error_set(err, ERR_INVAL, "%s at byte %d", why.text,
                        why.position);
        return NULL;
    }
    if (!json_is_object(o)) {
        json_decref(o);
        (void)error_set(err, ERR_INVAL, "not an object");
        return NULL;
    }
    return o;
}

/* The index of the message that o's `key` names; -1: unknown. */
static int which(const json_t *o, const char *key,
                 const struct json_struct *all, int n, struct error *err)
{
    const char *word = json_string_value(json_object_get(o, key));
    for (int i = 0; word != NULL && i < n; i++)
        if (strcmp(word, all[i].word) == 0)
            return i;
    return error_set(err, ERR_INVAL, "'%s' is unknown", key);
}

int helper_cmd_parse(const char *line, size_t len, struct helper_cmd *ret,
                     struct error *err)
{
    struct helper_cmd c = {.hold = NULL};
    json_t *o = load(line, len, err);
    if (o == NULL)
        return -1;
    int op = which(o, "op", helper_commands, HELPER_N_OPS, err);
    if (op < 0 || get_fields(&helper_commands[op], o, 1, &c, err) < 0) {
        json_decref(o);
        return -1;
    }
    c.op = (enum helper_op)op;
    c.hold = o;
    *ret = c;
    return 0;
}

void helper_cmd_clear(struct helper_cmd *c)
{
    json_decref(c->hold);
    *c = (struct helper_cmd){.hold = NULL};
}

static int get_nodes(json_t *o, struct helper_news *n, struct error *err)
{
    const json_t *all = json_object_get(o, "nodes");
    size_t count = json_array_size(all);
    if (!json_is_array(all) || json_object_size(o) != 2 ||
        count > HELPER_NODES_MAX)
        return error_set(err, ERR_INVAL, "'nodes' is not a list of nodes");
    if (count == 0)
        return 0;
    n->nodes = calloc(count, sizeof(*n->nodes));
    if (n->nodes == NULL)
        return error_set(err, ERR_NOMEM, "%zu nodes", count);
    for (size_t i = 0; i < count; i++) {
        json_t *v = json_array_get(all, i);
        if (!json_is_object(v))
            return error_set(err, ERR_INVAL, "node %zu is not an object", i);
        if (get_fields(&helper_node, v, 0, &n->nodes[i], err) < 0)
            return error_wrap(err, "node %zu", i);
    }
    n->n_nodes = count;
    return 0;
}

static int get_news(json_t *o, struct helper_news *n, struct error *err)
{
    int ev = which(o, "ev", helper_events, HELPER_N_EVS, err);
    if (ev < 0)
        return -1;
    n->ev = (enum helper_ev)ev;
    if (n->ev == HELPER_NODES)
        return get_nodes(o, n, err);
    n->is_ok = n->ev == HELPER_REPLY && !json_object_get(o, "code");
    bool has_failed = n->ev == HELPER_REPLY && !n->is_ok;
    return get_fields(has_failed ? &helper_failed : &helper_events[ev], o, 1, n,
                      err);
}

int helper_news_parse(const char *line, size_t len, struct helper_news *ret,
                      struct error *err)
{
    struct helper_news n = {.nodes = NULL};
    json_t *o = load(line, len, err);
    if (o == NULL)
        return -1;
    int rc = get_news(o, &n, err);
    json_decref(o);
    if (rc < 0) {
        helper_news_clear(&n);
        return -1;
    }
    if (n.ev == HELPER_DOWN)
        n.why.code = ERR_UNAVAIL;
    *ret = n;
    return 0;
}

void helper_news_clear(struct helper_news *n)
{
    free(n->nodes);
    *n = (struct helper_news){.nodes = NULL};
}

/* ---- writing ------------------------------------------------------------- */
/* Owns o. On failure out is unchanged. */
static int finish(json_t *o, struct buf *out, struct error *err)
{
    size_t before = out->len;
    int rc = json_struct_dump(o, out, err);
    json_decref(o);
    if (rc < 0)
        return -1;
    if (out->len - before > HELPER_LINE_MAX)
        rc = error_set(err, ERR_LIMIT, "a line of %zu bytes, at most %d",
                       out->len - before, HELPER_LINE_MAX);
    else if (buf_add(out, "\n", 1, NULL) < 0)
        rc = error_set(err, ERR_NOMEM, "out of memory");
    if (rc < 0) {
        out->len = before;
        out->data[before] = '\0';
    }
    return rc;
}

static json_t *begin(const char *key, const char *word, struct error *err)
{
    json_t *o = json_object();
    if (o == NULL || json_object_set_new(o, key, json_string(word)) < 0) {
        json_decref(o);
        (void)error_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    return o;
}

int helper_cmd_encode(const struct helper_cmd *c, struct buf *out,
                      struct error *err)
{
    const struct json_struct *m = &helper_commands[c->op];
    json_t *o = begin("op", m->word, err);
    if (o == NULL)
        return -1;
    if (json_struct_write(m, c, o, err) < 0) {
        json_decref(o);
        return -1;
    }
    return finish(o, out, err);
}

static int put_nodes(const struct helper_news *n, json_t *o, struct error *err)
{
    json_t *all = json_array();
    if (all == NULL || json_object_set_new(o, "nodes", all) < 0)
        return error_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < n->n_nodes; i++) {
        json_t *v = json_object();
        if (v == NULL || json_array_append_new(all, v) < 0)
            return error_set(err, ERR_NOMEM, "out of memory");
        if (json_struct_write(&helper_node, &n->nodes[i], v, err) < 0)
            return -1;
    }
    return 0;
}

int helper_news_encode(const struct helper_news *n, struct buf *out,
                       struct error *err)
{
    bool has_failed = n->ev == HELPER_REPLY && !n->is_ok;
    const struct json_struct *m =
        has_failed ? &helper_failed : &helper_events[n->ev];
    json_t *o = begin("ev", m->word, err);
    if (o == NULL)
        return -1;
    int rc = n->ev == HELPER_NODES ? put_nodes(n, o, err)
                                   : json_struct_write(m, n, o, err);
    if (rc < 0) {
        json_decref(o);
        return -1;
    }
    return finish(o, out, err);
}
