/* row.c - see row.h. */
#include "worker/data/rows/row.h"

#include <stdio.h>
#include <string.h>

const char *row_column_name(const struct spec_map *map, const char *column)
{
    for (size_t i = 0; map != NULL && i < map->n; i++)
        if (strcmp(map->pairs[i].key, column) == 0)
            return map->pairs[i].value;
    return column;
}

const json_t *row_column(const json_t *row, const struct spec_map *map,
                         const char *column)
{
    const json_t *v = json_object_get(row, row_column_name(map, column));
    return json_is_null(v) ? NULL : v;
}

int row_column_text(const json_t *row, const struct spec_map *map,
                    const char *column, bool needed, const char **ret,
                    struct error *err)
{
    const json_t *v = row_column(row, map, column);
    const char *name = row_column_name(map, column);
    if (v == NULL && needed)
        return error_set(err, ERR_INVAL, "column '%.80s' is missing", name);
    if (v != NULL && !json_is_string(v))
        return error_set(err, ERR_INVAL, "column '%.80s' is no text", name);
    *ret = json_string_value(v);
    return 0;
}

bool row_sink_is_full(const struct row_sink *s)
{
    return s->most > 0 && s->rows >= s->most;
}

static void count(struct row_sink *s)
{
    s->rows++;
    s->place.number++;
    s->place.index++;
}

void rows_skipped_add(struct rows_skipped *s, const struct error *why)
{
    if (s->n < ROWS_NAMED)
        s->why[s->n] = *why;
    s->n++;
}

void row_keys_add(struct row_keys *k, const char *name, int32_t file,
                  int64_t line, int64_t rows)
{
    char cut[ROW_KEY_CAP];
    (void)snprintf(cut, sizeof(cut), "%s", name);
    for (int32_t i = 0; i < k->n; i++)
        if (strcmp(k->key[i].name, cut) == 0) {
            k->key[i].rows += rows;
            return;
        }
    if (k->n == ROW_KEYS)
        return;
    struct row_key *to = &k->key[k->n++];
    memcpy(to->name, cut, sizeof(cut));
    to->file = file;
    to->line = line;
    to->rows = rows;
}

int row_sink_leave_out(struct row_sink *s, struct error *err)
{
    if (!s->skip_bad || err->code != ERR_INVAL)
        return -1;
    if (s->left_out != NULL) {
        const struct error why = *err;
        if (s->left_out(s->arg, &why, err) < 0)
            return -1;
    } else {
        rows_skipped_add(&s->skipped, err);
    }
    count(s);
    return 0;
}

int row_sink_give(struct row_sink *s, json_t *row, int64_t line, size_t bytes,
                  struct error *err)
{
    s->line = line;
    s->row_bytes = bytes;
    int rc = s->take(s->arg, row, s->place, err);
    json_decref(row);
    if (rc == 0) {
        count(s);
        return 0;
    }
    (void)error_wrap(err, "%s: row %d: line %lld", s->path, s->place.number,
                     (long long)line);
    return row_sink_leave_out(s, err);
}
