/* columns.h - which columns the queue has: fields by name, formats that stand
 * for several, and the order of the rows. */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_COLUMNS_H
#define MGPU_SCHEDULER_TOOLS_COMMON_COLUMNS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "jobs/base/buf.h"
#include "jobs/wire/json_scan.h"
#include "scheduler/tools/common/render.h"

enum { COLUMNS_MAX = 32, COLUMN_TEXT_CAP = 512 };

struct field {
    const char *name, *title; /* "gpus", "GPUS" */
    enum render_align align;
    const char *doc;
    const char *key;   /* of the job's JSON, to sort by; NULL: by the text */
    const char *reads; /* "gpus,gpus_min": the members that text() looks at */
    bool is_number;    /* for programs it is what the key has, unrounded */
    void (*text)(const struct members *job, char *out, size_t cap);
    bool is_state; /* it is set off as the state is */
};

struct columns {
    const struct field *at[COLUMNS_MAX];
    size_t n;
};

/* "id,name,state", in any case, or the name of a format: "default", "long",
 * "why" ...; both may be mixed. NULL: default.
 * err  ERR_USAGE no such field, with a suggestion; too many */
int columns_parse(const char *text, struct columns *ret,
                  struct error *err) MUST_CHECK;
/* Adds the members of a job's JSON that the columns, and an order by `sort`
 * as of columns_sort(), look at: "display_id,name".
 * in  sort  NULL: none; one that does not exist adds nothing */
int columns_members(const struct columns *c, const char *sort, struct buf *ret,
                    struct error *err) MUST_CHECK;
/* What -o help prints. */
void columns_help(FILE *out);

/* By a field, "-" before it: the other way round; what has no value is last.
 * err  ERR_USAGE no such field;  ERR_NOMEM
 * own  the jobs of the array, in order: a new array, for json_decref() */
int columns_sort(const json_t *jobs, const char *by, json_t **ret,
                 struct error *err) MUST_CHECK;

#endif
