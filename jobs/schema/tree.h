/* tree.h - a YAML file as a tree of untyped nodes, each with its position.
 *
 * A scalar is its text; the schema decides its type (schema.h). tree_parse()
 * refuses the parts of YAML that our files must not use, before anything is
 * built from them. */
#ifndef MGPU_JOBS_SCHEMA_TREE_H
#define MGPU_JOBS_SCHEMA_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/spec/spec.h"

enum {
    TREE_MAX_BYTES = 1 << 20,
    TREE_MAX_DEPTH = 16, /* libyaml's time is quadratic in the depth of [ and
                          * { */
    TREE_MAX_NODES = 10000,
    TREE_MAX_KEY = 128,
    TREE_MAX_SCALAR = 65536,
};

struct mark {
    int32_t line, column; /* from 1; line 0: not from a file */
    int32_t width;
    const char *option; /* if line is 0: its origin, as in struct spec_set */
};

enum node_kind {
    NODE_NULL, /* empty, ~ or null, without quotes */
    NODE_SCALAR,
    NODE_LIST,
    NODE_MAP,
    NODE_BAD, /* already reported; skip it */
};

struct node {
    enum node_kind kind;
    char *key; /* in a map; elsewhere NULL. owned */
    struct mark key_at, at;
    bool is_typed; /* given on the command line or in the environment */
    char *text;    /* of a scalar; owned */
    struct node *first, *last; /* children; owned */
    struct node *next;
};

/* Parses text into a tree.
 *
 * Findings: E000 not YAML, E001 the top is not a mapping, E002 too long, E003
 * anchor, alias or merge, E004 too deep, E005 too many or too long, E006 a key
 * twice, E007 control character, E008 not UTF-8, E009 tag, directive or second
 * document, E011 a key that is not a word.
 *
 * out  ret  the top, a NODE_MAP; NULL if parsing had to stop. The caller frees
 *      it with tree_destroy()
 * err  ERR_NOMEM only */
int tree_parse(const char *text, size_t len, struct spec_report *report,
               struct node **ret, struct error *err) MUST_CHECK;

/* Parses the value of --set at `path`: one that begins with [ { " or ' is a
 * YAML flow value, any other is the plain scalar itself. All marks have line 0.
 * out  ret  NULL if a finding was added */
int tree_parse_value(const char *path, const char *value,
                     struct spec_report *report, struct node **ret,
                     struct error *err) MUST_CHECK;

struct node *tree_create(enum node_kind kind, struct mark at,
                         struct error *err);
void tree_destroy(struct node *n);
struct node *tree_child(const struct node *map, const char *key); /* or NULL */
void tree_append(struct node *parent, struct node *child); /* owns child */
void tree_remove(struct node *map, const char *key);
size_t tree_count(const struct node *n); /* number of children */
/* A copy of n and its descendants, without its siblings. NULL and ERR_NOMEM. */
struct node *tree_clone(const struct node *n, struct error *err);

/* Appends n as JSON: scalars as strings, since a tree has no types; NODE_BAD as
 * null. tree_parse() reads it back. */
int tree_json(const struct node *n, struct buf *out,
              struct error *err) MUST_CHECK;

#endif
