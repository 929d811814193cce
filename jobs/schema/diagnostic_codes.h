/* diagnostic_codes.h - explanations of the codes of findings: mgpu-submit
 * --explain.
 *
 * One row per code that the parser or the daemon reports about a specification
 * or mgpu.yaml. tests/unit/jobs/pages.c compares the rows and the pages with
 * the sources, and tests/unit/jobs/schema/diagnostic_codes.c parses each
 * example: the wrong one has the code, the right one has no finding. */
#ifndef MGPU_JOBS_SCHEMA_DIAGNOSTIC_CODES_H
#define MGPU_JOBS_SCHEMA_DIAGNOSTIC_CODES_H

#include <stddef.h>

struct code_note {
    const char *code;  /* "E024", "W102" */
    const char *title; /* one line, lower case, no full stop */
    const char *text;  /* a paragraph, not wrapped */
    /* Lines of a specification, or a whole one, which begins with "version:" or
     * "kind:" or "-". Lines that begin with "#" or "$ " are not YAML. */
    const char *wrong, *right;
    const char *see; /* reference: "mgpu-job(5), SWEEPS" */
};

/* In order of the codes; *ret_n rows. */
const struct code_note *code_notes(size_t *ret_n);

/* Accepts "E024", "e024", and "24" for an error. NULL: unknown. */
const struct code_note *code_find(const char *word);

/* The code closest to an unknown word; NULL: none is close. */
const char *code_near(const char *word);

#endif
