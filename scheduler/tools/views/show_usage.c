/* show_usage.c - print who used how many GPU-hours, one row per user, account,
 * class or node. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

enum { NAME_CAP = 512 };

/* "12.34", "1234": enough digits to compare rows. */
static char *hours(double h, char *out, size_t cap)
{
    if (!isfinite(h))
        (void)snprintf(out, cap, "-");
    else
        (void)snprintf(out, cap, "%.*f", h < 100 ? 2 : 0, h);
    return out;
}

static void percent(double part, double whole, char *out, size_t cap)
{
    if (whole > 0 && isfinite(part))
        (void)snprintf(out, cap, "%.0f %%", 100 * part / whole);
    else
        (void)snprintf(out, cap, "-");
}

/* ---- names -----------------------------------------------------------------
 */
/* Of "command/python3-2f0c9e51a4b7d803" the length before the digits, which are
 * a hash; 0: it is of another kind. */
static size_t before_digits(const char *class)
{
    static const char command[] = "command/";
    size_t len = strlen(class), tail = 1 + 16;
    if (strncmp(class, command, sizeof(command) - 1) != 0 || len <= tail ||
        class[len - tail] != '-' ||
        strspn(class + len - tail + 1, "0123456789abcdef") != tail - 1)
        return 0;
    return len - tail;
}

/* "command/python3 resnet": the digits of a class of commands give way to the
 * name of its newest job. */
static void name_of(const json_t *row, char out[NAME_CAP])
{
    const char *name = field_str(row, "name"),
               *job = field_str(row, "job_name");
    size_t len = before_digits(name);
    if (len > 0)
        (void)snprintf(out, NAME_CAP, "%.*s%s%s", (int)len, name,
                       *job ? " " : "", job);
    else
        (void)snprintf(out, NAME_CAP, "%s", *name ? name : "-");
}

/* How many rows have each name. own json_decref() */
static json_t *count_names(const json_t *rows)
{
    json_t *counts = json_object(), *row;
    char name[NAME_CAP];
    size_t i;
    json_array_foreach(rows, i, row)
    {
        name_of(row, name);
        (void)json_object_set_new(counts, name,
                                  json_integer(field_int(counts, name, 0) + 1));
    }
    return counts;
}

/* Classes that differ in the words of their command alone keep four of the
 * digits. */
static void unique_name(const json_t *row, const json_t *counts,
                        char out[NAME_CAP])
{
    const char *name = field_str(row, "name");
    size_t len = before_digits(name), end;
    name_of(row, out);
    if (len == 0 || field_int(counts, out, 0) < 2)
        return;
    end = strlen(out);
    (void)snprintf(out + end, NAME_CAP - end, " #%.4s", name + len + 1);
}

/* ---- rows ------------------------------------------------------------------
 */
static int add_row(struct render_table *t, const json_t *row,
                   const json_t *counts, struct error *err)
{
    char name[NAME_CAP];
    char used[32], busy[32], share[16], wait[32];
    double busy_h = field_real(row, "busy_gpu_hours");
    unique_name(row, counts, name);
    percent(busy_h, field_real(row, "measured_gpu_hours"), share,
            sizeof(share));
    if (render_table_add(t, err, "%s", name) < 0 ||
        render_table_add(t, err, "%" PRId64, field_int(row, "jobs", 0)) < 0 ||
        render_table_add(t, err, "%" PRId64, field_int(row, "failed", 0)) < 0 ||
        render_table_add(
            t, err, "%s",
            hours(field_real(row, "gpu_hours"), used, sizeof(used))) < 0 ||
        render_table_add(t, err, "%s", hours(busy_h, busy, sizeof(busy))) < 0 ||
        render_table_add(t, err, "%s", share) < 0)
        return -1;
    return render_table_add(
        t, err, "%s",
        render_duration(field_real(row, "mean_wait_s"), wait, sizeof(wait)));
}

static void title(const json_t *reply, char out[16])
{
    size_t n = 0;
    for (const char *p = field_str(reply, "by"); *p && n < 15; p++)
        out[n++] = (char)toupper((unsigned char)*p);
    out[n] = '\0';
}

int show_usage(const struct show_conf *s, const json_t *reply,
               struct error *err)
{
    char by[16], cluster[200], since[20], until[20];
    title(reply, by);
    const struct render_column columns[] = {
        {by, RENDER_KEY},
        {"JOBS", RENDER_RIGHT},
        {"FAILED", RENDER_RIGHT},
        {"GPU-HOURS", RENDER_RIGHT},
        {"BUSY-HOURS", RENDER_RIGHT},
        {"BUSY", RENDER_RIGHT},
        {"MEAN-WAIT", RENDER_RIGHT},
    };
    struct render_table *t = NULL;
    size_t i;
    json_t *row;
    if (s->header)
        (void)fprintf(
            s->out, "%s  from %s to %s UTC\n",
            render_escape(field_str(reply, "cluster"), cluster,
                          sizeof(cluster)),
            render_escape(field_str(reply, "since"), since, sizeof(since)),
            render_escape(field_str(reply, "until"), until, sizeof(until)));
    int rc = render_table_create(columns, sizeof(columns) / sizeof(*columns),
                                 &t, err);
    json_t *counts = count_names(json_object_get(reply, "rows"));
    json_array_foreach(json_object_get(reply, "rows"), i, row)
    {
        if (rc == 0)
            rc = add_row(t, row, counts, err);
    }
    json_decref(counts);
    if (rc == 0)
        render_table_print(t, &s->style, s->header, s->out);
    render_table_destroy(t);
    return rc;
}
