/* paper_results.h - what the reports compare own runs with: the results that
 * the papers printed, from jobs/paper/<name>.csv, and the tables of comparisons
 * without known results.
 *
 * The files are built into the program, so that a report needs only a daemon.
 * Their format is described in jobs/paper/README.md.
 */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_PAPER_RESULTS_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_PAPER_RESULTS_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/base/error.h"

enum {
    PAPER_KEYS = 6,
    PAPER_METRICS = 6,
    PAPER_ROWS = 64,
    PAPER_NOTES = 8,
    PAPER_LIKES = 16,
    PAPER_VALUES = 4
};

/* Which columns a report has; a set of bits for the tables of columns. */
enum paper_view {
    PAPER_TIMES = 1,  /* seconds and speed-up */
    PAPER_SHARES = 2, /* what the metrics add up to */
    PAPER_METHODS = 4,
    PAPER_LAYOUT = 8,
    PAPER_PRINTED = PAPER_TIMES | PAPER_SHARES /* from a file */
};

struct paper_metric {
    const char *name;     /* "h2d" */
    const char *prefixes; /* prefixes of names in v_profile: "a | b" */
};

struct paper_row {
    const char *keys[PAPER_KEYS];
    /* NAN: not printed. accuracy is in percent. */
    double time_s, accuracy, s_per_it, metrics[PAPER_METRICS];
};

struct paper {
    const char *name; /* "table2" */
    enum paper_view view;
    const char *title, *source, *platform, *job;
    /* What is missing beside the file when it is submitted; NULL: nothing. */
    const char *needs;
    const char *set;  /* "key=/PLACE ...", of all jobs; NULL: none */
    const char *each; /* "key=/PLACE", of each row of the sweep; NULL: none */
    const char *notes[PAPER_NOTES];
    struct {
        const char *key, *value;
    } like[PAPER_LIKES];
    /* Times are compared with those of the rows that have this value of this
     * key; NULL: no comparison. */
    const char *compare_key, *compare_value;
    bool has_accuracy, has_s_per_it; /* at most one of them */
    const char *keys[PAPER_KEYS];
    /* Without a file: titles of the keys, "<" before that of a left-aligned
     * one, and of the quotients by the figures that are compared with; the last
     * key's values in the order of their rows, with the words of the table. A
     * run that does not say its last key has the first value, if `is_first`. */
    const char *titles[PAPER_KEYS], *quotient;
    struct {
        const char *value, *word;
    } values[PAPER_VALUES];
    bool is_first;
    struct paper_metric metrics[PAPER_METRICS];
    struct paper_row rows[PAPER_ROWS];
    size_t n_notes, n_like, n_keys, n_metrics, n_rows;
    char *text; /* owned; all strings above point into it. NULL: constants */
};

/* err  ERR_USAGE no such report, with the existing ones; ERR_INVAL the file is
 *      malformed; ERR_NOMEM
 * own  *ret: paper_clear() */
int paper_load(const char *name, struct paper *ret,
               struct error *err) MUST_CHECK;
/* The same from a text of the caller. */
int paper_parse(const char *name, const char *text, struct paper *ret,
                struct error *err) MUST_CHECK;
void paper_clear(struct paper *p);

/* The i-th report's name; NULL past the last. */
const char *paper_name(size_t i);

#endif
