/* show_scaling.c - print the speed-up that was measured with more GPUs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

static double cell(const json_t *reply, const json_t *row, const char *column)
{
    return show_cell(row, cells_column(reply, column));
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

/* The step time and its spread over the measured jobs, in the unit of the
 * time. */
static int add_time(struct render_table *t, const struct render_style *style,
                    double mean_s, double sd_s, struct error *err)
{
    static const struct {
        double least_s;
        const char *unit;
        int digits;
    } units[] = {{1, "s", 2}, {1e-3, "ms", 1}, {1e-6, "us", 0}};
    size_t u = 0;
    if (!isfinite(mean_s))
        return render_table_add(t, err, "-");
    while (u < 2 && mean_s < units[u].least_s)
        u++;
    double of = units[u].least_s;
    int d = units[u].digits;
    if (!isfinite(sd_s))
        return render_table_add(t, err, "%.*f %s", d, mean_s / of,
                                units[u].unit);
    return render_table_add(t, err, "%.*f %s %.*f %s", d, mean_s / of,
                            style->ascii ? "+-" : "±", d, sd_s / of,
                            units[u].unit);
}

/* GPU-hours per million samples, or tokens. */
static int add_hours(struct render_table *t, double hours, struct error *err)
{
    if (!isfinite(hours))
        return render_table_add(t, err, "-");
    return render_table_add(t, err, "%.*f", hours < 10 ? 3 : 1, hours);
}

/* The gain over the size before: samples, or tokens, per second for each GPU
 * that was added. */
static int add_gain(struct render_table *t, double gain, double gpus,
                    struct error *err)
{
    if (!isfinite(gain) || !(gpus > 0))
        return render_table_add(t, err, "-");
    return render_table_add(t, err, "%+.0f", gain / gpus);
}

static const char *text_of(const json_t *reply, const json_t *row,
                           const char *column)
{
    const char *text = json_string_value(
        json_array_get(row, (size_t)cells_column(reply, column)));
    return text ? text : "";
}

/* Rows of one class and one type of GPUs, "" if the type is unknown. */
struct part {
    const char *class, *type;
};

static bool is_of(const json_t *reply, const json_t *row, const struct part *p)
{
    return strcmp(text_of(reply, row, "class"), p->class) == 0 &&
           strcmp(text_of(reply, row, "gpu_type"), p->type) == 0;
}

/* The basis of all of its rows; NULL: they differ. */
static const char *common_basis(const json_t *reply, const struct part *p)
{
    const char *common = NULL;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(reply, "rows"), i, row)
    {
        const char *basis = text_of(reply, row, "basis");
        if (!is_of(reply, row, p))
            continue;
        if (common && strcmp(common, basis) != 0)
            return NULL;
        common = basis;
    }
    return common;
}

/* Whether one of its rows has a number there. */
static bool part_has(const json_t *reply, const struct part *p,
                     const char *column)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(reply, "rows"), i, row)
    {
        if (is_of(reply, row, p) && isfinite(cell(reply, row, column)))
            return true;
    }
    return false;
}

/* *io_gpus and *io_rate are those of the size before. */
static int add_size(struct render_table *t, const struct render_style *style,
                    const json_t *reply, const json_t *row, bool is_text,
                    double *io_gpus, double *io_rate, struct error *err)
{
    double g = cell(reply, row, "gpus");
    double r = cell(reply, row, is_text ? "tokens_per_s" : "samples_per_s");
    double hours = is_text ? g * 1e6 / r / 3600
                           : cell(reply, row, "gpu_hours_per_million");
    if (add(t, "n", g, err) < 0 ||
        add(t, "n", cell(reply, row, "nodes"), err) < 0 ||
        add_time(t, style, cell(reply, row, "t_iter"),
                 cell(reply, row, "t_iter_sd"), err) < 0 ||
        add(t, "n", r, err) < 0 ||
        add(t, "x", cell(reply, row, "speedup"), err) < 0 ||
        add(t, "%", cell(reply, row, "efficiency"), err) < 0 ||
        add_hours(t, hours, err) < 0 ||
        add_gain(t, r - *io_rate, g - *io_gpus, err) < 0 ||
        add(t, "n", cell(reply, row, "runs"), err) < 0 ||
        add(t, "n", cell(reply, row, "n"), err) < 0)
        return -1;
    *io_gpus = g;
    *io_rate = r;
    return 0;
}

static double devices_of(const json_t *reply, const json_t *row)
{
    return cell(reply, row, "gpus") + cell(reply, row, "nodes") / 1e6;
}

/* A program with a single class so far says nothing that the class does not. */
static bool is_told(const json_t *reply, const json_t *row)
{
    double classes = cell(reply, row, "classes");

    return strncmp(text_of(reply, row, "class"), "program/", 8) != 0 ||
           classes > 1;
}

/* The next row of the part, by GPUs and nodes, after `last`; NULL: there is
 * none. Measured rows and guesses come one behind the other. */
static const json_t *next_row(const json_t *reply, const struct part *p,
                              const json_t *last)
{
    const json_t *next = NULL;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(reply, "rows"), i, row)
    {
        if (is_of(reply, row, p) &&
            (!last || devices_of(reply, row) > devices_of(reply, last)) &&
            (!next || devices_of(reply, row) < devices_of(reply, next)))
            next = row;
    }
    return next;
}

/* Prints what all rows have in common above them, so that 80 columns are
 * enough. */
static int print_part(const struct show_conf *s, const json_t *reply,
                      const struct part *p, struct error *err)
{
    bool is_text = part_has(reply, p, "tokens_per_s");
    const struct render_column columns[] = {
        {"GPUS", RENDER_RIGHT},
        {"NODES", RENDER_RIGHT},
        {"IT TIME", RENDER_RIGHT},
        {is_text ? "TOKENS/S" : "SAMPLES/S", RENDER_RIGHT},
        {"SPEED-UP", RENDER_RIGHT},
        {"EFF", RENDER_RIGHT},
        {"GPU-H", RENDER_RIGHT},
        {"+1 GPU", RENDER_RIGHT},
        {"RUNS", RENDER_RIGHT},
        {"N", RENDER_RIGHT},
        {"BASIS", RENDER_LEFT},
    };
    const char *common = common_basis(reply, p);
    struct render_table *t = NULL;
    double gpus = NAN, rate = NAN;
    int rc = render_table_create(
        columns, sizeof(columns) / sizeof(columns[0]) - (common ? 1 : 0), &t,
        err);
    for (const json_t *row = next_row(reply, p, NULL); row && rc == 0;
         row = next_row(reply, p, row)) {
        rc = add_size(t, &s->style, reply, row, is_text, &gpus, &rate, err);
        if (rc == 0 && !common)
            rc = render_table_put(t, text_of(reply, row, "basis"), err);
    }
    if (rc == 0) {
        char name[400], type[100], basis[32];
        if (s->header)
            (void)fprintf(s->out, "%s%s%s%s%s\n",
                          render_escape(p->class, name, sizeof(name)),
                          p->type[0] ? "  " : "",
                          render_escape(p->type, type, sizeof(type)),
                          common ? "  " : "",
                          render_escape(common, basis, sizeof(basis)));
        render_table_print(t, &s->style, s->header, s->out);
    }
    render_table_destroy(t);
    return rc;
}

/* Whether a row before the i-th is of the same part. */
static bool was_printed(const json_t *reply, size_t i, const struct part *p)
{
    for (size_t k = 0; k < i; k++)
        if (is_of(reply, json_array_get(json_object_get(reply, "rows"), k), p))
            return true;
    return false;
}

int show_scaling(const struct show_conf *s, const json_t *reply,
                 struct error *err)
{
    const json_t *rows = json_object_get(reply, "rows");
    const char *what = cells_has(reply, "tokens_per_s") ? "tokens" : "samples";
    bool is_first = true;
    size_t i;
    json_t *row;
    if (json_array_size(rows) == 0)
        (void)fprintf(s->out, "nothing measured yet: a run needs more than "
                              "three iterations\n");
    json_array_foreach(rows, i, row)
    {
        const struct part p = {text_of(reply, row, "class"),
                               text_of(reply, row, "gpu_type")};
        if (!p.class[0] || !is_told(reply, row) || was_printed(reply, i, &p))
            continue;
        if (!is_first)
            (void)fputc('\n', s->out);
        is_first = false;
        if (print_part(s, reply, &p, err) < 0)
            return -1;
    }
    if (!is_first && s->header)
        (void)fprintf(
            s->out,
            "\nIT TIME is the mean of N iterations and their standard "
            "deviation, GPU-H the\nGPU-hours of a million %s, +1 "
            "GPU what each further GPU adds in %s/s.\n",
            what, what);
    return 0;
}
