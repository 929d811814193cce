/* row.h - a row of data: its columns, where readers of files put it, and how a
 * bad one is handled. */
#ifndef MGPU_WORKER_DATA_ROWS_ROW_H
#define MGPU_WORKER_DATA_ROWS_ROW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/spec/spec_text.h"

/* ---- columns ------------------------------------------------------------- */

/* A template names the columns, and a map says what they are called in the
 * file. A column that the map lacks has the same name there; NULL is an empty
 * map. */

/* The name in the file; borrowed. */
const char *row_column_name(const struct spec_map *map, const char *column);

/* Borrowed of the row; NULL: it has no such column, or null in it. */
const json_t *row_column(const json_t *row, const struct spec_map *map,
                         const char *column);

/* out  ret  borrowed of the row; NULL: no such column, where it need not be
 * err  ERR_INVAL the column is missing, or no text */
int row_column_text(const json_t *row, const struct spec_map *map,
                    const char *column, bool needed, const char **ret,
                    struct error *err) MUST_CHECK;

/* ---- where rows go ------------------------------------------------------- */

enum { ROWS_NAMED = 3, ROW_BYTES_MAX = 32 << 20 };

/* Rows that are left out. */
struct rows_skipped {
    int32_t n;
    struct error why[ROWS_NAMED]; /* of the first of them */
};

void rows_skipped_add(struct rows_skipped *s, const struct error *why);

enum { ROW_KEYS = 8, ROW_KEY_CAP = 48 };

/* Keys of rows that nothing reads, each where it is first. */
struct row_keys {
    int32_t n;
    struct row_key {
        char name[ROW_KEY_CAP]; /* the beginning of it */
        int32_t file;
        int64_t line, rows; /* 1..; rows that have it */
    } key[ROW_KEYS];
};

/* More than ROW_KEYS names are not kept. */
void row_keys_add(struct row_keys *k, const char *name, int32_t file,
                  int64_t line, int64_t rows);

/* The place of a row: its file, its number there from 1 on, and its index
 * among the rows of all files. */
struct row_place {
    int32_t file, number, index;
};

/* in   row  borrowed until it returns
 * err  ERR_INVAL the row is bad */
typedef int row_take(void *arg, const json_t *row, struct row_place place,
                     struct error *err);

/* in   why  of a row that is left out since it cannot be read
 * err  the rest is not read */
typedef int row_left_out(void *arg, const struct error *why, struct error *err);

struct row_sink {
    row_take *take;
    /* NULL: such rows are counted in `skipped` as well. */
    row_left_out *left_out;
    void *arg;
    /* Leaves out a row for which take() fails with ERR_INVAL, and a line that
     * cannot be read. */
    bool skip_bad;
    int32_t most;  /* so many rows from the beginning; 0: all */
    int32_t rows;  /* that were read, bad ones as well */
    int64_t bytes; /* of the files, packed if they are, that were read */
    struct rows_skipped skipped;
    /* The file that is read: */
    const char *path;
    struct row_place place; /* of the next row */
    int64_t line;           /* where it begins */
    size_t row_bytes;       /* of its text */
};

/* There is no place for more rows. */
bool row_sink_is_full(const struct row_sink *s);

/* Gives a row away that begins at the line and has so many bytes of text.
 * own  row
 * err  "PATH: row 17: line 20: what is wrong" */
int row_sink_give(struct row_sink *s, json_t *row, int64_t line, size_t bytes,
                  struct error *err) MUST_CHECK;
/* Counts a row that cannot be read, whose message is in err, which is not NULL.
 * err  it may not be left out, and stays as it is */
int row_sink_leave_out(struct row_sink *s, struct error *err) MUST_CHECK;

#endif
