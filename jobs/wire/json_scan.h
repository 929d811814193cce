/* json_scan.h - what a JSON object says, member by member.
 *
 * Of a list of a hundred thousand jobs the daemon reads as many submits, and
 * who asked for it as many rows: a tree of each costs ten times what is taken
 * from it. What we write ourselves is mostly bare - no blanks between the
 * members, escapes in nothing but trees within it - and is read here where it
 * stands. All else is left to the JSON library, which alone says what is
 * damaged: what is bare means to both the same.
 */
#ifndef MGPU_JOBS_WIRE_JSON_SCAN_H
#define MGPU_JOBS_WIRE_JSON_SCAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "jobs/base/error.h"

enum member_kind {
    MEMBER_NONE, /* there is none of that name */
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
    const char *text; /* MEMBER_TEXT, UTF-8, with no NUL behind it; of a tree
                         that is bare its JSON */
    size_t len;
    int64_t n;    /* MEMBER_INT; 0 for all others */
    double x;     /* MEMBER_INT and MEMBER_REAL; 0 for all others */
    json_t *tree; /* MEMBER_TREE that is not bare */
    bool is_bare;
};

enum { MEMBERS_MAX = 48 }; /* with more of them it is not bare */
struct members {
    json_t *o; /* NULL: it is bare */
    size_t n;
    struct {
        const char *key;
        size_t len;
        struct member value;
    } at[MEMBERS_MAX]; /* set as far as n */
};

/* The end of the object at `text` if it is bare; NULL: it is not, or is none.
 * What follows is not looked at. */
const char *members_end(const char *text);
/* in   text  an object and nothing more, borrowed until members_clear()
 * own  *ret  members_clear()
 * err  -1: it is none, or the library lacked memory */
int members_read(const char *text, struct members *ret) MUST_CHECK;
/* The same of a text with a comma where the object's first brace should be. */
int members_read_rest(const char *text, struct members *ret) MUST_CHECK;
/* The same of the object at `text`, and not beyond `end`, where a NUL is.
 * out  ret_end  behind it */
int members_read_next(const char *text, const char *end, struct members *ret,
                      const char **ret_end) MUST_CHECK;
/* Those of a tree. in  m  borrowed, with what it is borrowed from
 * err  -1: it is no object */
int members_of(const struct member *m, struct members *ret) MUST_CHECK;
/* Those of an object that the library read, borrowed: nothing is to clear. */
void members_of_json(json_t *o, struct members *ret);
void members_clear(struct members *m);

/* The last of that name. */
struct member members_find(const struct members *m, const char *name,
                           size_t len);
static inline struct member members_get(const struct members *m,
                                        const char *name)
{
    return members_find(m, name, strlen(name)); /* mostly known beforehand */
}
bool members_has(const struct members *m, const char *name,
                 enum member_kind kind);
/* NULL: it is no text, or without memory. own  the caller frees */
char *member_dup(const struct member *m);
/* NULL: it is no tree, or without memory. own  json_decref() */
json_t *member_tree(const struct member *m);

#endif
