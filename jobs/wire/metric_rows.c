/* metric_rows.c - see metric_rows.h.
 *
 * All members are collected first, because the kind of a line depends on keys
 * that may come last; then each finds its column or becomes a metric row. */
#include "jobs/wire/metric_rows.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "jobs/text/scalar.h"
#include "jobs/text/text.h"
#include "jobs/wire/metric_line.h"

/* ---- columns, in the order in which they are written --------------------- */

/* A loss may be infinite; a time, a rate or a share that is was not measured.
 */
enum column_type { COLUMN_I32, COLUMN_I64, COLUMN_DOUBLE, COLUMN_LOSS };

struct column {
    const char *name;
    enum column_type type;
    size_t at;
};

#define I32(row, m)                             \
    {                                           \
#m, COLUMN_I32, offsetof(struct row, m) \
    }
#define I64(row, m)                             \
    {                                           \
#m, COLUMN_I64, offsetof(struct row, m) \
    }
#define DOUBLE(row, m)                             \
    {                                              \
#m, COLUMN_DOUBLE, offsetof(struct row, m) \
    }

#define LOSS(row, m)                             \
    {                                            \
#m, COLUMN_LOSS, offsetof(struct row, m) \
    }

static const struct column iteration_columns[] = {
    I64(metric_iteration, iteration),      I32(metric_iteration, rank),
    I32(metric_iteration, epoch),          DOUBLE(metric_iteration, started_at),
    DOUBLE(metric_iteration, t_iter),      DOUBLE(metric_iteration, t_data),
    DOUBLE(metric_iteration, t_h2d),       DOUBLE(metric_iteration, t_forward),
    DOUBLE(metric_iteration, t_backward),  DOUBLE(metric_iteration, t_comm),
    DOUBLE(metric_iteration, t_optimizer), LOSS(metric_iteration, loss),
    DOUBLE(metric_iteration, lr),          I64(metric_iteration, samples),
    I64(metric_iteration, tokens),         I64(metric_iteration, gpu_mem_bytes),
};

static const struct column epoch_columns[] = {
    I32(metric_epoch, epoch),
    DOUBLE(metric_epoch, seconds),
    LOSS(metric_epoch, train_loss),
    LOSS(metric_epoch, eval_loss),
    DOUBLE(metric_epoch, eval_accuracy),
    DOUBLE(metric_epoch, samples_per_s),
    DOUBLE(metric_epoch, tokens_per_s),
};

static const struct column profile_columns[] = {
    I32(metric_profile, epoch), I32(metric_profile, rank),
    I64(metric_profile, calls), DOUBLE(metric_profile, total_s),
    I64(metric_profile, bytes), DOUBLE(metric_profile, sampled),
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The columns of a kind of row. */
struct shape {
    const struct column *columns;
    size_t n, at;
};

#define SHAPE(m)                                                        \
    {                                                                   \
        m##_columns, COUNT(m##_columns), offsetof(struct metric_row, m) \
    }
static const struct shape shapes[] = {
    [METRIC_ITERATION] = SHAPE(iteration),
    [METRIC_EPOCH] = SHAPE(epoch),
    [METRIC_PROFILE] = SHAPE(profile),
};

/* ---- writing ------------------------------------------------------------- */

static int add_number(struct buf *out, double v, struct error *err)
{
    char text[SCALAR_CAP];
    if (isnan(v))
        return buf_addstr(out, "null", err);
    if (isinf(v)) /* JSON's grammar has no word for it */
        return buf_addstr(out, v > 0 ? "1e999" : "-1e999", err);
    return buf_addstr(out, scalar_show_float(text, v), err);
}

/* Unreported integers are omitted, doubles are null. */
static int add_columns(struct buf *out, const struct metric_row *row,
                       const char *comma, struct error *err)
{
    const struct shape *sh = &shapes[row->kind];
    const char *body = (const char *)row + sh->at;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sh->n; i++) {
        const void *member = body + sh->columns[i].at;
        bool is_double = sh->columns[i].type >= COLUMN_DOUBLE;
        int64_t v = 0;
        if (sh->columns[i].type == COLUMN_I32)
            v = *(const int32_t *)member;
        else if (sh->columns[i].type == COLUMN_I64)
            v = *(const int64_t *)member;
        if (v < 0)
            continue;
        rc = buf_addf(out, err, "%s\"%s\":", comma, sh->columns[i].name);
        if (rc == 0 && is_double)
            rc = add_number(out, *(const double *)member, err);
        else if (rc == 0)
            rc = buf_addf(out, err, "%lld", (long long)v);
        comma = ",";
    }
    return rc;
}

static int add_profile(struct buf *out, const struct metric_row *row,
                       struct error *err)
{
    if (buf_addstr(out, "{\"profile\":", err) < 0 ||
        text_add_json(out, row->profile.metric, err) < 0)
        return -1;
    return add_columns(out, row, ",", err);
}

static int add_value(struct buf *out, const struct metric_value *v,
                     struct error *err)
{
    int rc = buf_add(out, "{", 1, err);
    if (rc == 0 && v->iteration >= 0)
        rc = buf_addf(out, err, "\"iteration\":%lld,", (long long)v->iteration);
    if (rc == 0 && v->rank >= 0)
        rc = buf_addf(out, err, "\"rank\":%d,", v->rank);
    if (rc == 0)
        rc = text_add_json(out, v->name, err);
    if (rc == 0)
        rc = buf_add(out, ":", 1, err);
    return rc < 0 ? -1 : add_number(out, v->value, err);
}

int metric_row_encode(const struct metric_row *row, struct buf *out,
                      struct error *err)
{
    size_t before = out->len;
    int rc = 0;
    switch (row->kind) {
    case METRIC_ITERATION:
    case METRIC_EPOCH:
        rc = add_columns(out, row, "{", err);
        break;
    case METRIC_PROFILE:
        rc = add_profile(out, row, err);
        break;
    case METRIC_VALUE:
        rc = add_value(out, &row->value, err);
        break;
    }
    if (rc == 0)
        rc = buf_add(out, "}\n", 2, err);
    if (rc < 0 && out->data) { /* no partial lines */
        out->len = before;
        out->data[before] = '\0';
    }
    return rc;
}

/* ---- build rows from members --------------------------------------------- */

/* A whole number of the column's type; -1 stands for null. Beyond 2^53 doubles
 * are inexact. */
static int to_integer(const struct metric_member *m, double max, int64_t *ret,
                      struct error *err)
{
    if (isnan(m->value)) {
        *ret = -1;
        return 0;
    }
    if (m->value < 0 || m->value > max || m->value != floor(m->value))
        return error_set(err, ERR_INVAL,
                         "metrics: '%s' must be a whole number from 0",
                         m->name);
    *ret = (int64_t)m->value;
    return 0;
}

static int store(const struct column *col, const struct metric_member *m,
                 void *row, struct error *err)
{
    void *member = (char *)row + col->at;
    bool is_i32 = col->type == COLUMN_I32;
    int64_t v = 0;
    if (col->type >= COLUMN_DOUBLE) {
        const bool is_kept = isfinite(m->value) || col->type == COLUMN_LOSS;
        *(double *)member = is_kept ? m->value : (double)NAN;
        return 0;
    }
    if (to_integer(m, is_i32 ? INT32_MAX : 0x1p53, &v, err) < 0)
        return -1;
    if (is_i32)
        *(int32_t *)member = (int32_t)v;
    else
        *(int64_t *)member = v;
    return 0;
}

/* The line's own keys. */
struct line {
    int64_t iteration, rank, epoch; /* -1: missing */
    bool has_row;
    enum metric_kind kind; /* of the row */
};

static int read_line(const struct metric_member *members, size_t n,
                     int32_t rank, bool is_profile, struct line *ret,
                     struct error *err)
{
    *ret = (struct line){.iteration = -1, .rank = -1, .epoch = -1};
    for (size_t i = 0; i < n; i++) {
        const struct metric_member *m = &members[i];
        int rc = 0;
        if (strcmp(m->name, "iteration") == 0)
            rc = to_integer(m, 0x1p53, &ret->iteration, err);
        else if (strcmp(m->name, "rank") == 0)
            rc = to_integer(m, INT32_MAX, &ret->rank, err);
        else if (strcmp(m->name, "epoch") == 0)
            rc = to_integer(m, INT32_MAX, &ret->epoch, err);
        if (rc < 0)
            return -1;
    }
    if (ret->rank < 0)
        ret->rank = rank;
    if (is_profile && ret->epoch < 0)
        return error_set(err, ERR_INVAL, "metrics: a profile without an epoch");
    ret->has_row = ret->iteration >= 0 || ret->epoch >= 0;
    ret->kind = is_profile            ? METRIC_PROFILE
                : ret->iteration >= 0 ? METRIC_ITERATION
                                      : METRIC_EPOCH;
    return 0;
}

static void clear_row(struct metric_row *row, enum metric_kind kind)
{
    const struct shape *sh = &shapes[kind];
    *row = (struct metric_row){.kind = kind};
    for (size_t i = 0; i < sh->n; i++) {
        void *member = (char *)row + sh->at + sh->columns[i].at;
        if (sh->columns[i].type >= COLUMN_DOUBLE)
            *(double *)member = NAN;
        else if (sh->columns[i].type == COLUMN_I64)
            *(int64_t *)member = -1;
        else
            *(int32_t *)member = -1;
    }
}

/* In a line that we wrote, members come in the columns' order: *at is where the
 * search starts. */
static const struct column *find_column(const struct shape *sh,
                                        const char *name, size_t *at)
{
    for (size_t i = 0; i < sh->n; i++) {
        size_t j = (*at + i) % sh->n;
        if (strcmp(sh->columns[j].name, name) == 0) {
            *at = (j + 1) % sh->n;
            return &sh->columns[j];
        }
    }
    return NULL;
}

static bool is_of_epoch_alone(const char *name)
{
    size_t at = 0, other = 0;
    return find_column(&shapes[METRIC_EPOCH], name, &at) != NULL &&
           find_column(&shapes[METRIC_ITERATION], name, &other) == NULL;
}

/* "step" is another name of "iteration", in a line without one that is no row
 * of an epoch: loggers count on through the epochs, and add the step to each
 * line. What cannot be the number of one stays a value. */
static void name_step(struct metric_member *members, size_t n)
{
    struct metric_member *step = NULL;
    int64_t number = 0;
    bool has_epoch = false, is_epoch = false;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(members[i].name, "iteration") == 0)
            return;
        if (strcmp(members[i].name, "step") == 0 &&
            to_integer(&members[i], 0x1p53, &number, NULL) == 0 && number >= 0)
            step = &members[i];
        has_epoch = has_epoch || (strcmp(members[i].name, "epoch") == 0 &&
                                  !isnan(members[i].value));
        is_epoch = is_epoch || is_of_epoch_alone(members[i].name);
    }
    if (step && !(has_epoch && is_epoch))
        memcpy(step->name, "iteration", sizeof("iteration"));
}

/* Fills in the first row, if the line has one; *ret_used counts the columns
 * beyond its key. */
static void fill_row(const struct metric_member *members, size_t n,
                     const struct line *line, struct metric_row *row,
                     size_t *ret_used, struct metric_ignored *ignored)
{
    const struct shape *sh = &shapes[line->kind];
    size_t at = 0;

    clear_row(row, line->kind);
    *ret_used = line->kind != METRIC_ITERATION || line->epoch >= 0;
    for (size_t i = 0; i < n; i++) {
        const struct column *col = find_column(sh, members[i].name, &at);
        if (!col)
            continue;
        if (store(col, &members[i], (char *)row + sh->at, NULL) < 0) {
            metric_ignore(ignored, col->name, "must be a whole number from 0");
            continue;
        }
        *ret_used += !metric_is_line_key(col->name);
    }
    if (line->kind == METRIC_ITERATION)
        row->iteration.rank = (int32_t)line->rank;
    if (line->kind == METRIC_PROFILE)
        row->profile.rank = (int32_t)line->rank;
}

static bool is_column(const struct line *line, const char *name)
{
    size_t at = 0;
    return metric_is_line_key(name) ||
           (line->has_row &&
            find_column(&shapes[line->kind], name, &at) != NULL);
}

static size_t count_values(const struct metric_member *members, size_t n,
                           const struct line *line)
{
    size_t values = 0;
    for (size_t i = 0; i < n; i++)
        values += !is_column(line, members[i].name);
    return values;
}

static size_t add_values(const struct metric_member *members, size_t n,
                         const struct line *line, struct metric_row *rows,
                         size_t n_rows, size_t cap)
{
    for (size_t i = 0; i < n; i++) {
        if (is_column(line, members[i].name))
            continue;
        if (n_rows == cap)
            return cap + 1;
        struct metric_row *row = &rows[n_rows++];
        row->kind = METRIC_VALUE;
        row->value = (struct metric_value){.rank = (int32_t)line->rank,
                                           .iteration = line->iteration,
                                           .value = members[i].value};
        memcpy(row->value.name, members[i].name, METRIC_NAME_CAP);
    }
    return n_rows;
}

int metric_line_decode_named(const char *line, size_t len, int32_t rank,
                             struct metric_row *rows, size_t cap, size_t *ret_n,
                             struct metric_ignored *ret_ignored,
                             struct error *err)
{
    struct metric_member members[METRIC_MEMBERS_CAP];
    char profile[METRIC_NAME_CAP];
    struct line self;
    size_t n = 0, n_rows = 0, used = 0;

    ret_ignored->n = 0;
    if (metric_members_read(line, len, members, &n, profile, ret_ignored, err) <
        0)
        return -1;
    name_step(members, n);
    if (read_line(members, n, rank, profile[0] != '\0', &self, err) < 0)
        return -1;
    if (self.has_row && cap == 0)
        return error_set(err, ERR_LIMIT, "metrics: no room for a row");
    if (self.has_row)
        fill_row(members, n, &self, &rows[0], &used, ret_ignored);
    if (profile[0] != '\0')
        memcpy(rows[0].profile.metric, profile, sizeof(profile));
    /* A line that only has values of an iteration makes no second iteration
     * row: the actual one may come on another line. */
    n_rows = self.has_row &&
             (used > 0 ||
              (count_values(members, n, &self) == 0 && ret_ignored->n == 0));
    n_rows = add_values(members, n, &self, rows, n_rows, cap);
    if (n_rows > cap)
        return error_set(err, ERR_LIMIT, "metrics: more than %zu rows", cap);
    *ret_n = n_rows;
    return 0;
}

int metric_line_decode(const char *line, size_t len, int32_t rank,
                       struct metric_row *rows, size_t cap, size_t *ret_n,
                       struct error *err)
{
    struct metric_ignored ignored;
    return metric_line_decode_named(line, len, rank, rows, cap, ret_n, &ignored,
                                    err);
}

bool metric_is_total(const struct metric_row *row)
{
    return row->kind == METRIC_VALUE &&
           (strcmp(row->value.name, "iterations_total") == 0 ||
            strcmp(row->value.name, "epochs_total") == 0);
}
