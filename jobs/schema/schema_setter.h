/* schema_setter.h - internals shared by schema_value.c and schema_text.c. */
#ifndef MGPU_JOBS_SCHEMA_SCHEMA_SETTER_H
#define MGPU_JOBS_SCHEMA_SCHEMA_SETTER_H

#include "jobs/schema/schema.h"

/* The state of one schema_set(). */
struct setter {
    const struct schema_key *k;
    const struct node *v;
    const struct schema_base *base;
    void *member;
    struct spec_report *report;
    struct error *err;
    bool bad;
};

/* Adds a finding at the value; marks it bad. hint may be NULL. */
void schema_complain(struct setter *t, const char *code, const char *hint,
                     const char *what);
/* Adds "'train.epochs' must be 1..10000, not 'x'", with the key's own code. */
void schema_refuse(struct setter *t, const char *hint, const char *must_be);
/* Adds E011: a list instead of a scalar, or similar. */
void schema_not_a(struct setter *t, const char *wanted);

/* Adds E016 for a ${ that is not allowed; true if it did. v is the value or a
 * part of it. */
bool schema_cannot_fill(struct setter *t, const struct node *v);

void setter_sizes(struct setter *t); /* schema_sizes.c */

/* Returns 0 also if the value was refused; -1 if memory is short. */
void schema_name(struct setter *t);
int schema_string(struct setter *t);
int schema_set_word(struct setter *t);
int schema_path(struct setter *t);
int schema_list(struct setter *t);
int schema_map(struct setter *t);

#endif
