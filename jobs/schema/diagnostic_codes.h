/* diagnostic_codes.h - what each code of a finding means: mgpu-submit
 * --explain.
 *
 * One row per code that a specification or mgpu.yaml can be told of, by the
 * parser here or by the daemon. tests/unit/jobs/pages.c holds the rows
 * and the pages against the sources, and each example is parsed by
 * tests/unit/jobs/schema/diagnostic_codes.c: the wrong one has the code, the
 * right one has no finding.
 */
#ifndef MGPU_JOBS_SCHEMA_DIAGNOSTIC_CODES_H
#define MGPU_JOBS_SCHEMA_DIAGNOSTIC_CODES_H

#include <stddef.h>

struct code_note {
    const char *code;  /* "E024", "W102" */
    const char *title; /* one line, lower case, no full stop */
    const char *text;  /* a paragraph, to be wrapped */
    /* Lines of a specification, or a whole one, which begins with "version:"
     * or "kind:" or "-". Lines that begin with "#" or "$ " are no YAML. */
    const char *wrong, *right;
    const char *see; /* where to read: "mgpu-job(5), SWEEPS" */
};

/* In order of the codes; *ret_n rows. */
const struct code_note *code_notes(size_t *ret_n);

/* As people type it: "E024", "e024", "24" of an error. NULL: there is none. */
const struct code_note *code_find(const char *word);

/* The nearest code to a word that is none; NULL: nothing is near. */
const char *code_near(const char *word);

#endif
