/* json_scan.h - read the members of a JSON object without building a tree.
 *
 * For a list of a hundred thousand jobs the daemon reads as many submits, and
 * the client as many rows: a tree of each costs ten times as much as its
 * members. Our own output is mostly bare - no blanks between the members,
 * escapes only in nested objects - and is scanned in place. Everything else
 * goes to the JSON library, which alone decides what is damaged: both read a
 * bare object in the same way. */
#ifndef MGPU_JOBS_WIRE_JSON_SCAN_H
#define MGPU_JOBS_WIRE_JSON_SCAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "jobs/base/error.h"

enum member_kind {
    MEMBER_NONE, /* no member of that name */
    MEMBER_NULL,
    MEMBER_FALSE,
    MEMBER_TRUE,
    MEMBER_INT,
    MEMBER_REAL,
    MEMBER_TEXT,
    MEMBER_TREE /* an object or an array */
};

/* Borrowed from the members. */
struct member {
    enum member_kind kind;
    const char *text; /* MEMBER_TEXT, UTF-8, without a NUL; for a bare tree
                       * its JSON */
    size_t len;
    int64_t n;    /* MEMBER_INT; 0 for all others */
    double x;     /* MEMBER_INT and MEMBER_REAL; 0 for all others */
    json_t *tree; /* MEMBER_TREE that is not bare */
    bool is_bare;
};

enum { MEMBERS_MAX = 56 }; /* an object with more members is not bare */
struct members {
    json_t *o; /* NULL: it is bare */
    size_t n;
    struct {
        const char *key;
        size_t len;
        struct member value;
    } at[MEMBERS_MAX]; /* the first n are set */
};

/* The end of the bare object at `text`; NULL: not bare, or not an object.
 * Ignores the text after it. */
const char *json_members_end(const char *text);
/* in   text  an object and nothing else, borrowed until json_members_clear()
 * own  *ret  json_members_clear()
 * err  -1: not an object, or memory is short */
int json_members_read(const char *text, struct members *ret) MUST_CHECK;
/* The same for a text with a comma in place of the object's first brace. */
int json_members_read_rest(const char *text, struct members *ret) MUST_CHECK;
/* The same for the object at `text`, which ends at or before `end`, where a NUL
 * is.
 * out  ret_end  the byte after it */
int json_members_read_next(const char *text, const char *end,
                           struct members *ret,
                           const char **ret_end) MUST_CHECK;
/* The members of a tree. in  m  borrowed, with what it is borrowed from
 * err  -1: not an object */
int json_members_of(const struct member *m, struct members *ret) MUST_CHECK;
/* The members of an object that the library parsed, borrowed: nothing to
 * clear. */
void json_members_of_json(json_t *o, struct members *ret);
void json_members_clear(struct members *m);

/* The last member of that name. */
struct member json_members_find(const struct members *m, const char *name,
                                size_t len);
static inline struct member members_get(const struct members *m,
                                        const char *name)
{
    return json_members_find(m, name, strlen(name)); /* the length is mostly a
                                                      * constant */
}
bool json_members_has(const struct members *m, const char *name,
                      enum member_kind kind);
/* NULL: not a text, or memory is short. own  the caller frees */
char *json_member_dup(const struct member *m);
/* NULL: not a tree, or memory is short. own  json_decref() */
json_t *json_member_tree(const struct member *m);

#endif
