/* schema.h - a table of keys and the operations on it: defaults, parsing,
 * output; for jobs/.
 *
 * The job specification (spec_table.c) and mgpu.yaml (conf.c) are tables of
 * struct schema_key over a plain struct. Defaults, reading a tree, the
 * canonical JSON, the annotated YAML and the documentation all come from the
 * table, so a new key is one row and one member.
 *
 * A default is written like a user's value and parsed by the same code; a test
 * parses every default. */
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
    KEY_BOOL,     /* bool; a word may stand for true */
    KEY_ENUM,     /* an enum; words */
    KEY_TRISTATE, /* enum spec_tristate: auto, false, true */
    KEY_NAME,     /* char[SPEC_NAME_CAP]; with words: one of them */
    KEY_STRING,   /* char *, owned */
    KEY_WORD,     /* char *, owned: passed to the cluster's scheduler */
    KEY_PATH,     /* char *, owned, absolute */
    KEY_RANGE,    /* struct spec_range */
    KEY_DURATION, /* double, seconds */
    KEY_SIZE,     /* int64_t, bytes */
    KEY_SIZES,    /* struct spec_sizes; null: no bounds */
    KEY_NUMBERS,  /* struct spec_numbers */
    KEY_LIST,     /* struct spec_list */
    KEY_MAP,      /* struct spec_map */
    KEY_MAP_TREE, /* a map or a list without a member: the owner of the table */
    KEY_LIST_TREE /* reads and writes the node itself */
};

struct schema_word {
    const char *name; /* NULL ends the list */
    int32_t value;
    bool later;            /* known, but not supported by this version */
    const char *elsewhere; /* with later: never in such a file, but there */
};

struct schema_def { /* a default in one case; NULL ends */
    int when;       /* defined by the table, as are schema.cases, holds() */
    const char *def;
};

struct schema_key {
    const char *path;
    enum schema_type type;
    size_t at, size;               /* offset and size of the member */
    const char *def;               /* NULL: none; the member stays zero */
    const struct schema_def *defs; /* NULL, or others; the last that holds */
    const char *like; /* default, after defs: the value of this key above */
    double min, max;  /* of a number; both 0: any */
    bool above_min;   /* min itself is excluded */
    bool null_ok;     /* null sets none_value, or a NULL pointer */
    double none_value;
    bool name_only; /* KEY_WORD: as KEY_NAME */
    bool job_ok;    /* KEY_PATH: or a job's number, as in parent_ref.h */
    bool required;
    const char *code;                /* of a bad value's finding: "E013" */
    const struct schema_word *words; /* of KEY_ENUM; otherwise names for
                                      * values */
    enum fill_when fill;             /* when ${name} in it is substituted */
    int when;    /* defined by the table: when the key applies; 0: always */
    bool live;   /* mgpu.yaml: takes effect on reload */
    bool hidden; /* schema_yaml() masks values with secret names */
    const char *doc;
};

/* A key of an older version, and what takes its place. */
struct schema_gone {
    const char *path, *instead;
};

struct schema {
    const struct schema_key *keys;
    size_t n;
    const char *const *cases; /* names of the cases of schema_def, or NULL */
    bool (*holds)(int when, const void *obj);
    const char *const *extra; /* keys without a row, for the owner; or NULL */
    const char *const *later; /* keys of other versions; NULL ends */
    const char *notes;        /* prefix of free top-level keys; NULL: none */
    const struct schema_gone *gone; /* NULL, or ends with a NULL path */
};

/* The bases of relative paths, of a file's and of an option's, and the value of
 * ~; NULL: such paths are refused. */
struct schema_base {
    const char *dir, *typed_dir, *home;
};

/* Where the value of each key came from, by row. */
struct schema_from {
    const struct node *node; /* NULL: the default */
    bool bad;                /* reported; the member is not set */
};

/* ---- reading ------------------------------------------------------------- */

/* obj is zeroed memory of the table's struct. */
int schema_defaults(const struct schema *s, void *obj,
                    struct error *err) MUST_CHECK;

/* After schema_apply(), in the table's order: .defs and .like. */
int schema_defaults_by_case(const struct schema *s,
                            const struct schema_from *from, void *obj,
                            struct error *err) MUST_CHECK;

/* Sets the members that the tree names. Findings: E010 unknown key, E011 not a
 * scalar (list, map), E016 a ${name} that is not allowed, E018 a key of another
 * version, and each key's own code. from[s->n] is filled. */
int schema_apply(const struct schema *s, const struct node *root,
                 const struct schema_base *base, void *obj,
                 struct schema_from *from, struct spec_report *report,
                 struct error *err) MUST_CHECK;

/* Applies --set and --unset to the tree, before schema_apply() reads it. */
int schema_graft(const struct schema *s, struct node *root,
                 const struct spec_set *set, struct spec_report *report,
                 struct error *err) MUST_CHECK;

/* The row of a path; NULL if there is none. */
const struct schema_key *schema_find(const struct schema *s, const char *path);

/* Reports E010, with a suggestion; E018 for a key of another version. */
void schema_unknown(const struct schema *s, const char *path, struct mark at,
                    struct spec_report *report);

/* Whether it, or its section, belongs to another version. */
bool schema_is_later(const struct schema *s, const char *path);

/* For keys that are written as whole paths: finds the allowed path that is
 * closest to word, or ends in it. False: none. */
typedef bool schema_may(const struct schema_key *k);
bool schema_suggest(const struct schema *s, const char *word, schema_may *may,
                    char *out, size_t cap);

/* Sets the value at a path that schema_find() knows, or below one that is a
 * map, replacing the old value. Owns value, also on failure. */
int schema_put(const struct schema *s, struct node *root, const char *path,
               struct node *value, struct spec_report *report,
               struct error *err) MUST_CHECK;

/* Reads one scalar, list or map into its member. Returns 0 also if it was bad:
 * then *ret_bad is true and the member is unchanged. */
int schema_set(const struct schema_key *k, const struct node *value,
               const struct schema_base *base, void *obj,
               struct spec_report *report, bool *ret_bad,
               struct error *err) MUST_CHECK;

/* Whether both structs have the same value of the key. */
bool schema_same(const struct schema_key *k, const void *a, const void *b);

void schema_clear(const struct schema *s, void *obj);

/* ---- writing (schema_emit.c) --------------------------------------------- */

/* Called per row; false omits the row. */
typedef bool schema_filter(const struct schema_key *k, const void *obj);

/* One line, keys in the table's order. */
int schema_json(const struct schema *s, const void *obj, schema_filter *keep,
                struct buf *out, struct error *err) MUST_CHECK;

/* Block YAML; a line ends in "# " and what note() says; NULL: in neither. */
typedef void schema_note(void *arg, size_t row, char *out, size_t cap);
int schema_yaml(const struct schema *s, const void *obj, schema_filter *keep,
                schema_note *note, void *arg, struct buf *out,
                struct error *err) MUST_CHECK;

/* One value as schema_yaml() writes it. */
int schema_value(const struct schema_key *k, const void *obj, struct buf *out,
                 struct error *err) MUST_CHECK;

/* Whether a text may be in a specification: characters that the daemon refuses
 * in a file are refused in a dump, too. */
bool schema_can_say(const char *text);
/* Adds the finding that a value of k would begin with such a directory. */
void schema_refuse_dir(struct spec_report *report, struct mark at,
                       const struct schema_key *k, const char *dir);

/* Whether KEY_NAME accepts it. */
bool schema_is_name(const char *s);

/* Whether the name of an environment variable sounds like a secret. */
bool schema_is_secret(const char *name);

#endif
