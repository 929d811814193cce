/* tree.h - a YAML file as a small tree, each node with its place.
 *
 * The tree knows no types: a scalar is its text, and the schema decides what
 * it means (schema.h). What a file of ours may not be is refused while it is
 * read, before anything is built from it: see tree_parse().
 */
#ifndef MGPU_JOBS_SCHEMA_TREE_H
#define MGPU_JOBS_SCHEMA_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/spec/spec.h"

enum {
    TREE_MAX_BYTES = 1 << 20,
    TREE_MAX_DEPTH = 16, /* libyaml is quadratic in the depth of [ and { */
    TREE_MAX_NODES = 10000,
    TREE_MAX_KEY = 128,
    TREE_MAX_SCALAR = 65536,
};

struct mark {
    int32_t line, column; /* from 1; line 0: not from a file */
    int32_t width;
    const char *option; /* of line 0: what said it, as in struct spec_set */
};

enum node_kind {
    NODE_NULL, /* nothing, ~ or null, without quotes */
    NODE_SCALAR,
    NODE_LIST,
    NODE_MAP,
    NODE_BAD, /* already reported; to be passed over */
};

struct node {
    enum node_kind kind;
    char *key; /* in a map; NULL elsewhere. owned */
    struct mark key_at, at;
    char *text;                /* of a scalar; owned */
    struct node *first, *last; /* children; owned */
    struct node *next;
};

/* Reads text into a tree.
 *
 * Findings: E000 not YAML, E001 the top is no mapping, E002 too long, E003
 * anchor, alias or merge, E004 too deep, E005 too many or too long, E006 a
 * key twice, E007 control character, E008 not UTF-8, E009 tag, directive or
 * second document, E011 a key that is no word.
 *
 * out  ret  the top, a NODE_MAP; NULL when reading could not go on. The
 *           caller ends it with node_destroy()
 * err  ERR_NOMEM only
 */
int tree_parse(const char *text, size_t len, struct spec_report *report,
               struct node **ret, struct error *err) MUST_CHECK;

/* For a file of few keys, whose first mistake is enough.
 *
 * in   file  for messages
 * out  ret   NULL: there is nothing in it but blanks and comments
 * err  ERR_CONFIG "FILE:3:5: found a tab" */
int tree_load(const char *text, size_t len, const char *file, struct node **ret,
              struct error *err) MUST_CHECK;

/* A value of --set at `path`: [ { " or ' begins a YAML flow value, all else
 * is the plain scalar itself. All marks are line 0.
 * out  ret  NULL when a finding was added */
int tree_parse_value(const char *path, const char *value,
                     struct spec_report *report, struct node **ret,
                     struct error *err) MUST_CHECK;

struct node *node_create(enum node_kind kind, struct mark at,
                         struct error *err);
void node_destroy(struct node *n);
struct node *node_child(const struct node *map, const char *key); /* or NULL */
void node_append(struct node *parent, struct node *child); /* takes child */
void node_remove(struct node *map, const char *key);
size_t node_count(const struct node *n); /* children */
/* A copy of n and all below it, without its siblings. NULL and ERR_NOMEM. */
struct node *node_clone(const struct node *n, struct error *err);

/* Appends n as JSON: scalars as strings, whatever they look like, since a
 * tree knows no types; NODE_BAD as null. tree_parse() reads it back. */
int tree_json(const struct node *n, struct buf *out,
              struct error *err) MUST_CHECK;

#endif
