/* columns.h - the columns of the queue: fields by name, formats that stand for
 * several fields, and the order of the rows.
 */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_COLUMNS_H
#define MGPU_SCHEDULER_TOOLS_COMMON_COLUMNS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "jobs/base/buf.h"
#include "jobs/wire/json_scan.h"
#include "jobs/wire/metric_rows.h"
#include "scheduler/tools/common/render.h"

enum { COLUMNS_MAX = 32, COLUMN_TEXT_CAP = 512 };

struct field {
    const char *name, *title; /* "gpus", "GPUS" */
    enum render_align align;
    const char *doc;
    const char *key;   /* member of the job's JSON to sort by; NULL: sort by
                          the text */
    const char *reads; /* "gpus,gpus_min": the members that text() reads */
    bool is_number;    /* CSV and JSON have the value of key, unrounded */
    void (*text)(const struct members *job, char *out, size_t cap);
    bool is_state; /* highlighted like the state */
};

/* A column "metric.val_acc" is of a metric that jobs named themselves: at[i] is
 * queue_own_field, and the value is in "values" of the job's JSON, which
 * fetch_own_columns() and fetch_take_values() set. */
enum { COLUMN_OWN_CAP = METRIC_NAME_CAP + 8 };

struct columns {
    const struct field *at[COLUMNS_MAX];
    char own[COLUMNS_MAX][COLUMN_OWN_CAP]; /* "metric.val_acc"; else "" */
    size_t n;
};

/* Whether a column, or the order, is of one.  in  sort  NULL: none */
bool columns_have_own(const struct columns *c, const char *sort);
/* Appends their names, "acc,val_acc", percent-encoded for a query. */
int columns_own_names(const struct columns *c, const char *sort,
                      struct buf *ret, struct error *err) MUST_CHECK;
/* Its value of a job; NULL: none. */
const json_t *columns_own_value(const char *word, const json_t *values);
/* The title and the text of column i. */
const char *columns_title(const struct columns *c, size_t i);
void columns_text(const struct columns *c, size_t i, const struct members *job,
                  char *out, size_t cap);

/* "id,name,state", ignoring case, or the name of a format: "default", "long",
 * "why" ...; both may be mixed. NULL: default.
 * err  ERR_USAGE no such field, with a suggestion; too many */
int columns_parse(const char *text, struct columns *ret,
                  struct error *err) MUST_CHECK;
/* Adds the members of a job's JSON that the columns need, and those of an order
 * by `sort` as in columns_sort(): "display_id,name".
 * in   sort  NULL: none; an unknown field adds nothing */
int columns_members(const struct columns *c, const char *sort, struct buf *ret,
                    struct error *err) MUST_CHECK;
/* Prints the help of -o. */
void columns_help(FILE *out);

/* Sorts by a field; with "-" before it, descending. Jobs without a value come
 * last.
 * err  ERR_USAGE no such field;  ERR_NOMEM
 * own  the jobs of the array, in order: a new array, for json_decref() */
int columns_sort(const json_t *jobs, const char *by, json_t **ret,
                 struct error *err) MUST_CHECK;

#endif
