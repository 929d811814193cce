/* show_rows.c - print epochs and events: each row of the view is a row of the
 * table.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

enum render_paint show_state_paint(const char *state)
{
    static const struct {
        const char *state;
        enum render_paint paint;
    } paints[] = {
        {"STARTING", RENDER_GOOD},      {"RUNNING", RENDER_GOOD},
        {"CHECKPOINTING", RENDER_GOOD}, {"HELD", RENDER_ODD},
        {"STALLED", RENDER_ODD},        {"UNKNOWN", RENDER_ODD},
        {"REQUEUED", RENDER_ODD},       {"FAILED", RENDER_BAD},
        {"TIMEOUT", RENDER_BAD},        {"NODE_FAIL", RENDER_BAD},
    };
    for (size_t i = 0; i < sizeof(paints) / sizeof(paints[0]); i++)
        if (strcmp(state, paints[i].state) == 0)
            return paints[i].paint;
    return RENDER_PLAIN;
}

static int add_number(struct render_table *t, double v, const char *kind,
                      struct error *err)
{
    if (!isfinite(v))
        return render_table_add(t, err, "-");
    switch (*kind) {
    case 'i':
        return render_table_add(t, err, "%.0f", v);
    case 's':
        return render_table_add(t, err, "%.1f", v);
    case '%':
        return render_table_add(t, err, "%.2f %%", 100 * v);
    default:
        return render_table_add(t, err, "%.4f", v);
    }
}

int show_epochs(const struct show_conf *s, const json_t *epochs,
                struct error *err)
{
    static const struct render_column columns[] = {
        {"EPOCH", RENDER_RIGHT},      {"SECONDS", RENDER_RIGHT},
        {"TRAIN LOSS", RENDER_RIGHT}, {"TEST LOSS", RENDER_RIGHT},
        {"TEST ACC", RENDER_RIGHT},   {"SAMPLES/S", RENDER_RIGHT},
    };
    static const struct {
        const char *column, *kind;
    } cells[] = {
        {"epoch", "i"},     {"seconds", "s"},       {"train_loss", "f"},
        {"eval_loss", "f"}, {"eval_accuracy", "%"}, {"samples_per_s", "i"},
    };
    enum { N = sizeof(cells) / sizeof(*cells) };
    struct render_table *t = NULL;
    int rc = render_table_create(columns, N, &t, err);
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(epochs, "rows"), i, row)
    {
        for (size_t c = 0; rc == 0 && c < N; c++)
            rc = add_number(
                t, show_cell(row, show_column(epochs, cells[c].column)),
                cells[c].kind, err);
    }
    if (rc == 0) {
        render_table_print(t, &s->style, s->header, s->out);
        (void)show_removed(s->out, epochs);
    }
    render_table_destroy(t);
    return rc;
}

int show_events(const struct show_conf *s, const json_t *reply,
                struct error *err)
{
    static const struct render_column columns[] = {
        {"SEQ", RENDER_RIGHT},     {"TIME", RENDER_LEFT},
        {"ATTEMPT", RENDER_RIGHT}, {"EVENT", RENDER_LEFT},
        {"BY", RENDER_LEFT},       {"DETAIL", RENDER_LEFT},
    };
    struct render_table *t = NULL;
    int rc = render_table_create(columns, 6, &t, err);
    size_t i;
    json_t *e;
    json_array_foreach(json_object_get(reply, "events"), i, e)
    {
        char by[32] = "mgpu";
        int64_t uid = field_int(e, "uid", -1);
        json_t *detail = json_object_get(e, "detail");
        char *text = field_pairs(detail, "key"); /* without the idempotency
                                                    key */
        const char *asked = show_asked(e);
        if (uid >= 0)
            (void)snprintf(by, sizeof(by), "uid %" PRId64, uid);
        if (rc == 0 &&
            (render_table_add(t, err, "%" PRId64, field_int(e, "seq", 0)) < 0 ||
             render_table_add(t, err, "%s", field_str(e, "at")) < 0 ||
             render_table_add(t, err, "%" PRId64, field_int(e, "attempt", 0)) <
                 0 ||
             render_table_add(t, err, "%s", field_str(e, "event")) < 0 ||
             render_table_add(t, err, "%s", by) < 0 ||
             render_table_put(t,
                              asked  ? asked
                              : text ? text
                                     : "",
                              err) < 0))
            rc = -1;
        free(text);
    }
    if (rc == 0)
        render_table_print(t, &s->style, s->header, s->out);
    render_table_destroy(t);
    return rc;
}
