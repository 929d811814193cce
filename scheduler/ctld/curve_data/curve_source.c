/* curve_source.c - see curve_source.h. */
#include "scheduler/ctld/curve_data/curve_source.h"

#include <math.h>
#include <string.h>

#include "db/view.h"
#include "jobs/wire/metric_rows.h"

static const struct curve {
    const char *name;
    enum store_view view;
    const char *amount; /* see struct curve_source */
} curves[] = {
    {"loss", VIEW_ITERATION, NULL},
    {"lr", VIEW_ITERATION, NULL},
    {"t_iter", VIEW_ITERATION, NULL},
    {"t_data", VIEW_ITERATION, NULL},
    {"t_h2d", VIEW_ITERATION, NULL},
    {"t_forward", VIEW_ITERATION, NULL},
    {"t_backward", VIEW_ITERATION, NULL},
    {"t_comm", VIEW_ITERATION, NULL},
    {"t_optimizer", VIEW_ITERATION, NULL},
    {"samples", VIEW_ITERATION, NULL},
    {"tokens", VIEW_ITERATION, NULL},
    {"gpu_mem_bytes", VIEW_ITERATION, NULL},
    {"samples_per_s", VIEW_ITERATION, "samples"},
    {"tokens_per_s", VIEW_ITERATION, "tokens"},
    {"seconds", VIEW_EPOCH, NULL},
    {"train_loss", VIEW_EPOCH, NULL},
    {"eval_loss", VIEW_EPOCH, NULL},
    {"eval_accuracy", VIEW_EPOCH, NULL},
};
enum { N_CURVES = sizeof(curves) / sizeof(curves[0]) };

/* Where the view has the column; -1: nowhere. */
static int column(enum store_view view, const char *name)
{
    for (int i = 0; i < VIEW_COLUMNS_MAX && views[view].columns[i]; i++)
        if (strcmp(views[view].columns[i], name) == 0)
            return i;
    return -1;
}

void curve_source_find(const char *of, bool is_own, struct curve_source *ret)
{
    const struct curve *c = NULL;
    for (size_t i = 0; i < N_CURVES && !is_own; i++)
        if (strcmp(curves[i].name, of) == 0)
            c = &curves[i];
    *ret = (struct curve_source){.view = c ? c->view : VIEW_METRIC,
                                 .name = of,
                                 .x = "iteration",
                                 .amount = c ? c->amount : NULL};
    if (ret->view == VIEW_EPOCH)
        ret->x = "epoch";
    const char *value = ret->view == VIEW_METRIC ? "value"
                        : ret->amount            ? ret->amount
                                                 : of;
    const char *const wanted[CURVE_COLUMNS_N] = {
        [CURVE_X] = ret->x,
        [CURVE_VALUE] = value,
        [CURVE_NAME] = "name",
        [CURVE_STARTED_AT] = "started_at",
        [CURVE_EPOCH] = "epoch",
        [CURVE_SAMPLES] = "samples",
        [CURVE_T_ITER] = ret->amount ? "t_iter" : "",
    };
    int place[CURVE_COLUMNS_N];
    for (int i = 0; i < CURVE_COLUMNS_N; i++) {
        place[i] = column(ret->view, wanted[i]);
        if (place[i] >= 0)
            ret->columns |= UINT32_C(1) << place[i];
    }
    for (int i = 0; i < CURVE_COLUMNS_N; i++) {
        const uint32_t before =
            place[i] < 0 ? 0 : (UINT32_C(1) << place[i]) - 1;
        ret->at[i] =
            place[i] < 0 ? -1 : __builtin_popcount(ret->columns & before);
    }
}

const struct store_cell *curve_source_cell(const struct curve_source *s,
                                           const struct store_cell *cells,
                                           enum curve_column column)
{
    static const struct store_cell none = {.kind = CELL_NULL};
    return s->at[column] < 0 ? &none : &cells[s->at[column]];
}

double curve_source_real(const struct curve_source *s,
                         const struct store_cell *cells,
                         enum curve_column column)
{
    const struct store_cell *c = curve_source_cell(s, cells, column);
    return c->kind == CELL_REAL  ? c->r
           : c->kind == CELL_INT ? (double)c->i
                                 : (double)NAN;
}

bool curve_source_has(const struct curve_source *s,
                      const struct store_cell *cells)
{
    const struct store_cell *name = curve_source_cell(s, cells, CURVE_NAME);
    if (curve_source_cell(s, cells, CURVE_X)->kind != CELL_INT)
        return false;
    return s->view != VIEW_METRIC ||
           (name->kind == CELL_TEXT && strcmp(name->s, s->name) == 0);
}

/* How many single letters differ, at least; enough of both names count. */
static size_t distance(const char *a, const char *b)
{
    size_t row[METRIC_NAME_CAP];
    const size_t m = strnlen(b, METRIC_NAME_CAP - 1);
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] && i < METRIC_NAME_CAP; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            const size_t up = row[j];
            size_t least = diagonal + (a[i - 1] != b[j - 1]);
            least = up + 1 < least ? up + 1 : least;
            least = row[j - 1] + 1 < least ? row[j - 1] + 1 : least;
            row[j] = least;
            diagonal = up;
        }
    }
    return row[m];
}

const char *curve_source_near(const char *of, const char *const *own, size_t n)
{
    const char *best = NULL;
    size_t least = 1 + strnlen(of, METRIC_NAME_CAP) / 3; /* a third is wrong */
    for (size_t i = 0; i < N_CURVES + n; i++) {
        const char *name = i < N_CURVES ? curves[i].name : own[i - N_CURVES];
        const size_t d = distance(of, name);
        if (d < least || (d == least && !best)) {
            least = d;
            best = name;
        }
    }
    return best;
}
