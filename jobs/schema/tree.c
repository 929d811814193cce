/* tree.c - create, search, clone and free nodes; tree_yaml.c parses. See
 * tree.h. */
#include "jobs/schema/tree.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"

struct node *tree_create(enum node_kind kind, struct mark at, struct error *err)
{
    struct node *n = calloc(1, sizeof(*n));
    if (!n) {
        (void)error_set(err, ERR_NOMEM, "node of a YAML tree");
        return NULL;
    }
    n->kind = kind;
    n->at = at;
    return n;
}

/* Recursion depth: that of the tree, TREE_MAX_DEPTH, and once more for
 * --set. */
void tree_destroy(struct node *n) // NOLINT(misc-no-recursion)
{
    if (!n)
        return;
    int saved = errno;
    for (struct node *c = n->first, *next = NULL; c; c = next) {
        next = c->next;
        tree_destroy(c);
    }
    free(n->key);
    free(n->text);
    free(n);
    errno = saved;
}

struct node *tree_child(const struct node *map, const char *key)
{
    for (struct node *c = map->first; c; c = c->next)
        if (c->key && strcmp(c->key, key) == 0)
            return c;
    return NULL;
}

void tree_append(struct node *parent, struct node *child)
{
    child->next = NULL;
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
}

void tree_remove(struct node *map, const char *key)
{
    struct node *before = NULL;
    for (struct node *c = map->first; c; before = c, c = c->next) {
        if (strcmp(c->key, key) != 0)
            continue;
        if (before)
            before->next = c->next;
        else
            map->first = c->next;
        if (map->last == c)
            map->last = before;
        tree_destroy(c);
        return;
    }
}

size_t tree_count(const struct node *n)
{
    size_t count = 0;
    for (const struct node *c = n->first; c; c = c->next)
        count++;
    return count;
}

/* Recursion depth: that of the tree. */
struct node *tree_clone(const struct node *n, // NOLINT(misc-no-recursion)
                        struct error *err)
{
    struct node *copy = tree_create(n->kind, n->at, err);
    if (!copy)
        return NULL;
    copy->key_at = n->key_at;
    copy->is_typed = n->is_typed;
    copy->key = n->key ? strdup(n->key) : NULL;
    copy->text = n->text ? strdup(n->text) : NULL;
    if ((n->key && !copy->key) || (n->text && !copy->text)) {
        tree_destroy(copy);
        (void)error_set(err, ERR_NOMEM, "copy of a YAML tree");
        return NULL;
    }
    for (const struct node *c = n->first; c; c = c->next) {
        struct node *child = tree_clone(c, err);
        if (!child) {
            tree_destroy(copy);
            return NULL;
        }
        tree_append(copy, child);
    }
    return copy;
}

int tree_json(const struct node *n, // NOLINT(misc-no-recursion)
              struct buf *out, struct error *err)
{
    if (n->kind == NODE_SCALAR)
        return text_add_json(out, n->text, err);
    if (n->kind != NODE_LIST && n->kind != NODE_MAP)
        return buf_addstr(out, "null", err);
    bool is_map = n->kind == NODE_MAP;
    int rc = buf_addstr(out, is_map ? "{" : "[", err);
    for (const struct node *c = n->first; rc == 0 && c; c = c->next) {
        if (c != n->first)
            rc = buf_addstr(out, ",", err);
        if (rc == 0 && is_map)
            rc = text_add_json(out, c->key, err);
        if (rc == 0 && is_map)
            rc = buf_addstr(out, ":", err);
        if (rc == 0)
            rc = tree_json(c, out, err);
    }
    return rc < 0 ? -1 : buf_addstr(out, is_map ? "}" : "]", err);
}
