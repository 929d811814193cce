/* show_scaling.c - what further GPUs brought, as it was measured. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/client.h"
#include "scheduler/tools/show.h"

static double cell(const json_t *reply, const json_t *row, const char *column)
{
    return show_cell(row, show_column(reply, column));
}

static int add(struct render_table *t, const char *fmt, double v,
               struct error *err)
{
    char text[32] = "-";
    if (isfinite(v) && strcmp(fmt, "%") == 0)
        (void)snprintf(text, sizeof(text), "%.0f %%", 100 * v);
    else if (isfinite(v) && strcmp(fmt, "x") == 0)
        (void)snprintf(text, sizeof(text), "%.2f", v);
    else if (isfinite(v))
        (void)snprintf(text, sizeof(text), "%.0f", v);
    return render_table_add(t, err, "%s", text);
}

/* The time of an iteration, and how far those that were measured lie off. */
static int add_time(struct render_table *t, const struct render_style *style,
                    double mean_s, double sd_s, struct error *err)
{
    char mean[32] = "-", sd[32];
    if (isfinite(mean_s))
        (void)render_time(mean_s, mean, sizeof(mean));
    if (!isfinite(mean_s) || !isfinite(sd_s))
        return render_table_add(t, err, "%s", mean);
    (void)render_time(sd_s, sd, sizeof(sd));
    return render_table_add(t, err, "%s %s %s", mean, style->ascii ? "+-" : "±",
                            sd);
}

/* What a million samples cost. */
static int add_hours(struct render_table *t, double hours, struct error *err)
{
    if (!isfinite(hours))
        return render_table_add(t, err, "-");
    return render_table_add(t, err, "%.*f", hours < 10 ? 3 : 1, hours);
}

/* Of the size before, in samples per second and GPU that came with it. */
static int add_gain(struct render_table *t, double gain, double gpus,
                    struct error *err)
{
    if (!isfinite(gain) || !(gpus > 0))
        return render_table_add(t, err, "-");
    return render_table_add(t, err, "%+.0f /s", gain / gpus);
}

static int print_class(const struct show_conf *s, const json_t *reply,
                       const char *class, struct error *err)
{
    static const struct render_column columns[] = {
        {"GPUS", RENDER_RIGHT},      {"NODES", RENDER_RIGHT},
        {"IT TIME", RENDER_RIGHT},   {"SAMPLES/S", RENDER_RIGHT},
        {"SPEED-UP", RENDER_RIGHT},  {"EFF", RENDER_RIGHT},
        {"GPU-HOURS", RENDER_RIGHT}, {"A NEW GPU", RENDER_RIGHT},
        {"RUNS", RENDER_RIGHT},      {"N", RENDER_RIGHT},
        {"BASIS", RENDER_LEFT},
    };
    struct render_table *t = NULL;
    double gpus = NAN, rate = NAN;
    size_t i;
    json_t *row;
    int rc = render_table_create(columns, sizeof(columns) / sizeof(columns[0]),
                                 &t, err);
    json_array_foreach(json_object_get(reply, "rows"), i, row)
    {
        const char *c = json_string_value(
            json_array_get(row, (size_t)show_column(reply, "class")));
        const char *basis = json_string_value(
            json_array_get(row, (size_t)show_column(reply, "basis")));
        if (rc < 0 || !c || strcmp(c, class) != 0)
            continue;
        double g = cell(reply, row, "gpus");
        double r = cell(reply, row, "samples_per_s");
        if (add(t, "n", g, err) < 0 ||
            add(t, "n", cell(reply, row, "nodes"), err) < 0 ||
            add_time(t, &s->style, cell(reply, row, "t_iter"),
                     cell(reply, row, "t_iter_sd"), err) < 0 ||
            add(t, "n", r, err) < 0 ||
            add(t, "x", cell(reply, row, "speedup"), err) < 0 ||
            add(t, "%", cell(reply, row, "efficiency"), err) < 0 ||
            add_hours(t, cell(reply, row, "gpu_hours_per_million"), err) < 0 ||
            add_gain(t, r - rate, g - gpus, err) < 0 ||
            add(t, "n", cell(reply, row, "runs"), err) < 0 ||
            add(t, "n", cell(reply, row, "n"), err) < 0 ||
            render_table_add(t, err, "%s", basis ? basis : "-") < 0)
            rc = -1;
        gpus = g;
        rate = r;
    }
    if (rc == 0) {
        char name[400];
        if (s->header)
            (void)fprintf(s->out, "%s\n",
                          render_escape(class, name, sizeof(name)));
        render_table_print(t, &s->style, s->header, s->out);
    }
    render_table_destroy(t);
    return rc;
}

int show_scaling(const struct show_conf *s, const json_t *reply,
                 struct error *err)
{
    const json_t *rows = json_object_get(reply, "rows");
    int c_class = show_column(reply, "class");
    const char *last = "";
    size_t i;
    json_t *row;
    if (json_array_size(rows) == 0)
        (void)fprintf(s->out, "nothing measured yet: a run needs more than "
                              "three iterations\n");
    json_array_foreach(rows, i, row)
    {
        const char *class =
            json_string_value(json_array_get(row, (size_t)c_class));
        if (!class || strcmp(class, last) == 0)
            continue;
        if (*last)
            (void)fputc('\n', s->out);
        last = class;
        if (print_class(s, reply, class, err) < 0)
            return -1;
    }
    if (*last && s->header)
        (void)fputs("\nIT TIME is the mean of N iterations and their standard "
                    "deviation; GPU-HOURS\nare what a million samples take.\n",
                    s->out);
    return 0;
}
