/* spec_base.c - merge a specification over a base one; see spec.h.
 *
 * A member of the upper one replaces that of the lower one; two mappings are
 * merged key by key. A list is a value like any other: merging halves of two
 * lists would give a value that no user wrote. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/schema/diagnostics.h"
#include "jobs/spec/spec_read.h"

static const char head[] = "template ";

bool spec_mark_is_base(struct mark at)
{
    return at.line == 0 && at.option &&
           strncmp(at.option, head, sizeof(head) - 1) == 0;
}

struct spec_base {
    struct node *root;
    char **places;  /* owned; by line, "template mine:12". NULL: not needed */
    size_t n_lines; /* number of lines plus one */
};

static int32_t last_line(const struct node *n) // NOLINT(misc-no-recursion)
{
    int32_t last = n->at.line > n->key_at.line ? n->at.line : n->key_at.line;
    for (const struct node *c = n->first; c; c = c->next) {
        int32_t line = last_line(c);
        last = line > last ? line : last;
    }
    return last;
}

/* Names the positions in a text that is not the file, like those of an
 * option. */
static int name_place(struct spec_base *b, const char *name, struct mark *io,
                      struct error *err)
{
    char text[120];
    char **place = &b->places[io->line];

    if (io->line > 0 && !*place) {
        (void)snprintf(text, sizeof(text), "%s%.80s:%d", head, name,
                       (int)io->line);
        *place = strdup(text);
        if (!*place)
            return error_set(err, ERR_NOMEM, "template");
    }
    *io = (struct mark){.column = io->column, .option = *place};
    return 0;
}

static int name_places(struct spec_base *b, // NOLINT(misc-no-recursion)
                       const char *name, struct node *n, struct error *err)
{
    if (name_place(b, name, &n->at, err) < 0 ||
        name_place(b, name, &n->key_at, err) < 0)
        return -1;
    for (struct node *c = n->first; c; c = c->next)
        if (name_places(b, name, c, err) < 0)
            return -1;
    return 0;
}

int spec_base_create(const char *text, size_t len, const char *name,
                     struct spec_base **ret, struct spec_report *report,
                     struct error *err)
{
    struct spec_base *b = calloc(1, sizeof(*b));
    if (!b)
        return error_set(err, ERR_NOMEM, "template");
    int rc = diagnostics_init(report, err);
    if (rc == 0)
        rc = tree_parse(text, len, report, &b->root, err);
    if (rc == 0)
        rc = diagnostics_verdict(report, err);
    if (rc == 0) {
        b->n_lines = (size_t)last_line(b->root) + 1;
        b->places = calloc(b->n_lines, sizeof(*b->places));
        rc = b->places ? name_places(b, name, b->root, err)
                       : error_set(err, ERR_NOMEM, "template");
    }
    if (rc == 0)
        *ret = b;
    else
        spec_base_destroy(b);
    return rc;
}

void spec_base_destroy(struct spec_base *b)
{
    if (!b)
        return;
    tree_destroy(b->root);
    for (size_t i = 0; b->places && i < b->n_lines; i++)
        free(b->places[i]);
    free(b->places);
    free(b);
}

/* Swaps the contents of two nodes with the same key; their siblings stay. */
static void swap(struct node *a, struct node *b)
{
    struct node was = *a, *after_a = a->next, *after_b = b->next;
    *a = *b;
    *b = was;
    a->next = after_a;
    b->next = after_b;
}

/* Merges all members of `over`. */
static void lay(struct node *below, struct node *over) // NOLINT(*-no-recursion)
{
    for (struct node *c = over->first, *next = NULL; c; c = next) {
        struct node *b = tree_child(below, c->key);
        next = c->next;
        if (!b) {
            tree_append(below, c);
            continue;
        }
        if (b->kind == NODE_MAP && c->kind == NODE_MAP)
            lay(b, c);
        else
            swap(b, c);
        tree_destroy(c);
    }
    over->first = over->last = NULL;
}

int spec_reading_merge(struct reading *r, const struct spec_base *base,
                       struct error *err)
{
    struct node *root = tree_clone(base->root, err);
    if (!root)
        return -1;
    root->at = r->root->at;
    lay(root, r->root);
    tree_destroy(r->root);
    r->root = root;
    return 0;
}
