/* schema.h - a table of keys, and what can be done with one; for jobs/.
 *
 * The job specification (spec_table.c) and mgpu.yaml (conf.c) are tables of
 * struct schema_key over a plain struct. Defaults, reading a tree, the
 * canonical JSON, the annotated YAML and the documentation all come from the
 * table, so a new key is one row and one member.
 *
 * A default is written as the user would write it and goes through the same
 * reader; a test reads every default once.
 */
#ifndef MGPU_JOBS_SCHEMA_SCHEMA_H
#define MGPU_JOBS_SCHEMA_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/schema/diagnostics.h"
#include "jobs/schema/interpolate.h"
#include "jobs/schema/tree.h"
#include "jobs/spec/spec.h"

enum schema_type {
    KEY_INT,      /* int32_t or int64_t, by size; words name values */
    KEY_FLOAT,    /* double */
    KEY_BOOL,     /* bool; one word may stand for true */
    KEY_ENUM,     /* an enum; words */
    KEY_TRISTATE, /* enum spec_tristate: auto, false, true */
    KEY_NAME,     /* char[SPEC_NAME_CAP]; with words: one of them */
    KEY_STRING,   /* char *, owned */
    KEY_WORD,     /* char *, owned: what a cluster's scheduler is told */
    KEY_PATH,     /* char *, owned, absolute */
    KEY_RANGE,    /* struct spec_range */
    KEY_DURATION, /* double, seconds */
    KEY_SIZE,     /* int64_t, bytes */
    KEY_SIZES,    /* struct spec_sizes; null is none */
    KEY_NUMBERS,  /* struct spec_numbers */
    KEY_LIST,     /* struct spec_list */
    KEY_MAP,      /* struct spec_map */
    KEY_MAP_TREE, /* a map or a list with no member: who owns the table */
    KEY_LIST_TREE /* reads the node itself, and writes it */
};

struct schema_word {
    const char *name; /* NULL ends the list */
    int32_t value;
    bool later; /* known, but not supported by this version */
};

struct schema_key {
    const char *path;
    enum schema_type type;
    size_t at, size; /* offset and size of the member */
    const char *def; /* NULL: none; the zeroed member stays */
    double min, max; /* of a number; both 0: any */
    bool above_min;  /* min itself is out */
    bool null_ok;    /* null is none_value, or a NULL pointer */
    double none_value;
    bool name_only; /* KEY_WORD: as KEY_NAME */
    bool required;
    const char *code;                /* of a bad value: "E013" */
    const struct schema_word *words; /* of KEY_ENUM; names for values else */
    enum fill_when fill;             /* when ${name} in it is replaced */
    int when;    /* the table's own: when the key applies; 0: always */
    bool live;   /* mgpu.yaml: read again on reload */
    bool hidden; /* values are masked in schema_yaml() when secret */
    const char *doc;
};

/* A key of an older version, and what takes its place. */
struct schema_gone {
    const char *path, *instead;
};

struct schema {
    const struct schema_key *keys;
    size_t n;
    const char *const *later; /* keys of other versions; NULL ends */
    const char *notes;        /* prefix of free top-level keys; NULL: none */
    const struct schema_gone *gone; /* NULL, or ends with a NULL path */
};

/* Where relative paths start and what ~ is; NULL: such paths are refused. */
struct schema_base {
    const char *dir, *home;
};

/* The absolute directory of a file; *ret stays NULL when file is NULL. The
 * caller frees with free(). */
int schema_dir_of(const char *file, char **ret, struct error *err) MUST_CHECK;

/* What a tree said about each key of the table, by row. */
struct schema_from {
    const struct node *node; /* NULL: the default stands */
    bool bad;                /* reported; the member is not set */
};

/* ---- reading (schema.c, schema_value.c, schema_text.c)
 * ---------------------------------- */

/* obj is zeroed memory of the table's struct. */
int schema_defaults(const struct schema *s, void *obj,
                    struct error *err) MUST_CHECK;

/* Sets the members that the tree names. Findings: E010 unknown key, E011 not
 * a scalar (list, map), E016 a ${name} that may not be there, E018 of another
 * version, and each key's own code. from[s->n] is filled. */
int schema_apply(const struct schema *s, const struct node *root,
                 const struct schema_base *base, void *obj,
                 struct schema_from *from, struct spec_report *report,
                 struct error *err) MUST_CHECK;

/* --set and --unset: changes the tree, so that schema_apply() sees one. */
int schema_graft(const struct schema *s, struct node *root,
                 const struct spec_set *set, struct spec_report *report,
                 struct error *err) MUST_CHECK;

/* The row of a path; NULL when there is none. */
const struct schema_key *schema_find(const struct schema *s, const char *path);

/* E010, with what may have been meant; E018 for a key of another version. */
void schema_unknown(const struct schema *s, const char *path, struct mark at,
                    struct spec_report *report);

/* Whether it is of another version, or in a section that is. */
bool schema_is_later(const struct schema *s, const char *path);

/* Where keys are written as whole paths: the one of those that may be there
 * that comes closest to word, or to which it is the end. False: none does. */
typedef bool schema_may(const struct schema_key *k);
bool schema_suggest(const struct schema *s, const char *word, schema_may *may,
                    char *out, size_t cap);

/* Puts value at a path that schema_find() knows, or below one that is a map;
 * what stands there goes. Takes value, also on failure. */
int schema_put(const struct schema *s, struct node *root, const char *path,
               struct node *value, struct spec_report *report,
               struct error *err) MUST_CHECK;

/* One scalar, list or map into its member. 0 also when it was bad: then
 * *ret_bad is true and the member is as before. */
int schema_set(const struct schema_key *k, const struct node *value,
               const struct schema_base *base, void *obj,
               struct spec_report *report, bool *ret_bad,
               struct error *err) MUST_CHECK;

/* Whether both have the same value there. */
bool schema_same(const struct schema_key *k, const void *a, const void *b);

void schema_clear(const struct schema *s, void *obj);

/* ---- writing (schema_emit.c) --------------------------------------------- */

/* Called per row; false leaves the row out. */
typedef bool schema_filter(const struct schema_key *k, const void *obj);

/* One line, keys in the table's order. */
int schema_json(const struct schema *s, const void *obj, schema_filter *keep,
                struct buf *out, struct error *err) MUST_CHECK;

/* Block YAML; each line ends in "# " and what note() writes. */
typedef void schema_note(void *arg, size_t row, char *out, size_t cap);
int schema_yaml(const struct schema *s, const void *obj, schema_filter *keep,
                schema_note *note, void *arg, struct buf *out,
                struct error *err) MUST_CHECK;

/* One value as schema_yaml() has it. */
int schema_value(const struct schema_key *k, const void *obj, struct buf *out,
                 struct error *err) MUST_CHECK;

/* ---- words about a key --------------------------------------------------- */

enum { RANGE_CAP = 120 };
const char *schema_range(const struct schema_key *k, char out[RANGE_CAP]);
const char *schema_type_name(const struct schema_key *k);
void schema_each(const struct schema *s,
                 void (*each)(void *arg, const char *path, const char *type,
                              const char *def, const char *range,
                              const char *doc),
                 void *arg);

/* Whether a text may stand in a specification: what the daemon would refuse in
 * a file it would refuse in a dump, too. */
bool schema_can_say(const char *text);
/* The finding that a value of k would begin with such a directory. */
void schema_refuse_dir(struct spec_report *report, struct mark at,
                       const struct schema_key *k, const char *dir);

/* What a KEY_NAME takes. */
bool schema_is_name(const char *s);

/* Whether the name of an environment variable sounds like a secret. */
bool schema_is_secret(const char *name);

#endif
