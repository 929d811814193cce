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
    char text[32];
    if (isinf(v))
        return render_table_add(t, err, "%s", v > 0 ? "inf" : "-inf");
    if (isnan(v))
        return render_table_add(t, err, "-");
    switch (*kind) {
    case 'i':
        return render_table_add(t, err, "%.0f", v);
    case 's':
        return render_table_add(t, err, "%.1f", v);
    case '%':
        return render_table_put(t, render_accuracy(v, text, sizeof(text)), err);
    default:
        return render_table_add(t, err, "%.4f", v);
    }
}

/* A language model has tokens, and no accuracy. */
int show_epochs(const struct show_conf *s, const json_t *epochs,
                struct error *err)
{
    enum { N = 6 };
    struct epoch_column {
        struct render_column head;
        const char *name, *kind;
    };
    static const struct epoch_column images[N] = {
        {{"EPOCH", RENDER_RIGHT}, "epoch", "i"},
        {{"SECONDS", RENDER_RIGHT}, "seconds", "s"},
        {{"TRAIN LOSS", RENDER_RIGHT}, "train_loss", "f"},
        {{"TEST LOSS", RENDER_RIGHT}, "eval_loss", "f"},
        {{"TEST ACC", RENDER_RIGHT}, "eval_accuracy", "%"},
        {{"SAMPLES/S", RENDER_RIGHT}, "samples_per_s", "i"},
    };
    static const struct epoch_column tokens = {
        {"TOKENS/S", RENDER_RIGHT}, "tokens_per_s", "i"};
    struct render_column heads[N];
    const struct epoch_column *used[N];
    bool is_text = cells_has(epochs, tokens.name);
    size_t n = 0, i;
    for (i = 0; i < N; i++) {
        const struct epoch_column *c = &images[i];
        if (is_text && strcmp(c->name, "eval_accuracy") == 0 &&
            !cells_has(epochs, c->name))
            continue;
        used[n] =
            is_text && strcmp(c->name, "samples_per_s") == 0 ? &tokens : c;
        heads[n] = used[n]->head;
        n++;
    }
    struct render_table *t = NULL;
    int rc = render_table_create(heads, n, &t, err);
    json_t *row;
    json_array_foreach(json_object_get(epochs, "rows"), i, row)
    {
        for (size_t c = 0; rc == 0 && c < n; c++)
            rc = add_number(t,
                            show_cell(row, cells_column(epochs, used[c]->name)),
                            used[c]->kind, err);
    }
    if (rc == 0) {
        render_table_print(t, &s->style, s->header, s->out);
        (void)cells_removed(s->out, epochs);
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
        const char *asked = cells_asked(e);
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

void show_parent(const struct show_conf *s, const json_t *job)
{
    const char *id = field_str(job, "parent_display_id");
    char word[600];
    if (!*field_str(job, "resumed_from"))
        return;
    (void)fprintf(s->out, " continues  %s%s", *id ? "job " : "",
                  render_escape(*id ? id : field_str(job, "resumed_from"), word,
                                sizeof(word)));
    if (*id)
        (void)fprintf(
            s->out, ", %s",
            render_escape(field_str(job, "resumed_from"), word, sizeof(word)));
    (void)fputc('\n', s->out);
}
