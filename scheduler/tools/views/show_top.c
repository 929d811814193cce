/* show_top.c - print the cluster on one screen; see top.h.
 *
 * GPUs, running jobs and pending jobs share the height of the terminal: if
 * there are too many GPUs, each node has one line; if there are too many jobs,
 * the rest is counted.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/top.h"

enum { BAR = 16 };

/* ---- GPUs -----------------------------------------------------------------
 */

/* "########........  52 %"; share NAN: "-". */
static void draw_bar(double share, bool ascii, char *out, size_t cap)
{
    size_t len = 0;
    if (!isfinite(share)) {
        (void)snprintf(out, cap, "-");
        return;
    }
    share = fmin(fmax(share, 0), 1);
    for (int i = 0; i < BAR; i++) {
        bool is_full = i < (int)(share * (double)BAR + 0.5);
        const char *mark =
            ascii ? (is_full ? "#" : ".") : (is_full ? "█" : "·");
        len += (size_t)snprintf(out + len, cap - len, "%s", mark);
    }
    (void)snprintf(out + len, cap - len, "  %3.0f %%", 100 * share);
}

static int add_gpu(struct render_table *t, const struct show_conf *s,
                   const json_t *gpu, struct error *err)
{
    char bar[BAR * 4 + 16] = "";
    bool is_held = json_is_integer(json_object_get(gpu, "job"));
    if (is_held)
        draw_bar(field_real(gpu, "computing"), s->style.ascii, bar,
                 sizeof(bar));
    if (render_table_add(t, err, "%s:%" PRId64, field_str(gpu, "node"),
                         field_int(gpu, "index", 0)) < 0 ||
        render_table_add(t, err, "%s", field_str(gpu, "gpu_type")) < 0 ||
        render_table_add(t, err, "%s", bar) < 0)
        return -1;
    if (!is_held)
        return render_table_add(t, err, "%s", show_idle(gpu));
    return render_table_add(t, err, "%s %s %s", field_str(gpu, "display_id"),
                            field_str(gpu, "user"), field_str(gpu, "name"));
}

/* The GPUs of a node from gpus[from] on; returns the index of the next node. */
static size_t node_end(const json_t *gpus, size_t from)
{
    const json_t *first = json_array_get(gpus, from);
    size_t i = from;
    while (i < json_array_size(gpus) &&
           strcmp(field_str(json_array_get(gpus, i), "node"),
                  field_str(first, "node")) == 0 &&
           strcmp(field_str(json_array_get(gpus, i), "gpu_type"),
                  field_str(first, "gpu_type")) == 0)
        i++;
    return i;
}

/* "412 anna, 415 kyr": each job once. */
static void holders(const json_t *gpus, size_t from, size_t end, char *out,
                    size_t cap)
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = from; i < end; i++) {
        const json_t *gpu = json_array_get(gpus, i);
        int64_t job = field_int(gpu, "job", 0);
        size_t k = from;
        while (k < i && field_int(json_array_get(gpus, k), "job", 0) != job)
            k++;
        if (job > 0 && k == i && len < cap)
            len += (size_t)snprintf(
                out + len, cap - len, "%s%s %s", len ? ", " : "",
                field_str(gpu, "display_id"), field_str(gpu, "user"));
    }
}

static int add_node(struct render_table *t, const struct show_conf *s,
                    const json_t *gpus, size_t from, size_t end,
                    struct error *err)
{
    const json_t *first = json_array_get(gpus, from);
    char bar[BAR * 4 + 16] = "", who[400];
    double sum = 0;
    size_t n_held = 0, n_known = 0;
    for (size_t i = from; i < end; i++) {
        const json_t *gpu = json_array_get(gpus, i);
        double share = field_real(gpu, "computing");
        n_held += json_is_integer(json_object_get(gpu, "job")) ? 1 : 0;
        n_known += isfinite(share) ? 1 : 0;
        sum += isfinite(share) ? share : 0;
    }
    if (n_held > 0)
        draw_bar(n_known ? sum / (double)n_known : (double)NAN, s->style.ascii,
                 bar, sizeof(bar));
    holders(gpus, from, end, who, sizeof(who));
    if (render_table_add(t, err, "%s", field_str(first, "node")) < 0 ||
        render_table_add(t, err, "%s", field_str(first, "gpu_type")) < 0 ||
        render_table_add(t, err, "%zu/%zu", n_held, end - from) < 0 ||
        render_table_add(t, err, "%s", bar) < 0)
        return -1;
    return render_table_add(t, err, "%s", *who ? who : show_idle(first));
}

/* Prints `most` lines at most, the title included. */
static int show_nodes_of(const struct show_conf *s, const json_t *gpus,
                         size_t most, struct error *err)
{
    static const struct render_column columns[] = {
        {"NODE", RENDER_LEFT}, {"TYPE", RENDER_LEFT}, {"ALLOC", RENDER_RIGHT},
        {"BUSY", RENDER_LEFT}, {"NOW", RENDER_LEFT},
    };
    struct render_table *t = NULL;
    size_t n = 0, n_more = 0, all = 0;
    for (size_t i = 0; i < json_array_size(gpus); i = node_end(gpus, i))
        all++;
    size_t shown = all < most ? all : most > 2 ? most - 2 : 1;
    int rc = render_table_create(columns, 5, &t, err);
    for (size_t i = 0; rc == 0 && i < json_array_size(gpus);) {
        size_t end = node_end(gpus, i);
        if (n++ < shown)
            rc = add_node(t, s, gpus, i, end, err);
        else
            n_more++;
        i = end;
    }
    if (rc == 0)
        render_table_print(t, &s->style, true, s->out);
    if (rc == 0 && n_more > 0)
        (void)fprintf(s->out, "and %zu nodes more\n", n_more);
    render_table_destroy(t);
    return rc;
}

static int show_gpus_of(const struct show_conf *s, const json_t *gpus,
                        struct error *err)
{
    static const struct render_column columns[] = {
        {"GPU", RENDER_LEFT},
        {"TYPE", RENDER_LEFT},
        {"BUSY", RENDER_LEFT},
        {"NOW", RENDER_LEFT},
    };
    struct render_table *t = NULL;
    size_t i;
    json_t *gpu;
    int rc = render_table_create(columns, 4, &t, err);
    json_array_foreach(gpus, i, gpu)
    {
        if (rc == 0)
            rc = add_gpu(t, s, gpu, err);
    }
    if (rc == 0)
        render_table_print(t, &s->style, true, s->out);
    render_table_destroy(t);
    return rc;
}

/* ---- jobs -----------------------------------------------------------------
 */

/* Prints `most` lines at most, the title included; 0: all. */
static int show_some(const struct show_conf *s, json_t *all, size_t most,
                     const char *format, struct error *err)
{
    struct show_conf conf = *s;
    json_t *jobs = NULL, *some = json_array();
    if (sweep_rows(all, s->expand, &jobs, err) < 0) {
        json_decref(some);
        return -1;
    }
    size_t n = json_array_size(jobs), shown = n;
    if (most > 0 && n + 1 > most)
        shown = most > 2 ? most - 2 : 1;
    for (size_t i = 0; i < shown; i++)
        (void)json_array_append(some, json_array_get(jobs, i));
    conf.format = format;
    conf.header = true;
    conf.sort = NULL;
    int rc =
        some ? show_jobs(&conf, some, err) : error_set(err, ERR_NOMEM, "jobs");
    if (rc == 0 && shown < n)
        (void)fprintf(s->out, "and %zu jobs more\n", n - shown);
    json_decref(some);
    json_decref(jobs);
    return rc;
}

int show_top(const struct show_conf *s, const json_t *top, struct error *err)
{
    const json_t *gpus = json_object_get(top, "gpus");
    json_t *runs = json_object_get(top, "jobs");
    json_t *waits = json_object_get(top, "queue");
    size_t n_gpus = json_array_size(gpus), n_runs = json_array_size(runs);
    /* Without the time, two lines of summary, two blank ones and the last line
     * of the screen. */
    size_t room = s->style.rows > 12 ? (size_t)s->style.rows - 6 : 7;
    size_t for_gpus = s->style.rows ? room * 2 / 5 : 0, for_runs = 0;
    bool by_node = for_gpus > 0 && n_gpus + 1 > for_gpus;

    show_summary(s, top);
    int rc = by_node ? show_nodes_of(s, gpus, for_gpus, err)
                     : show_gpus_of(s, gpus, err);
    (void)fputc('\n', s->out);
    if (for_gpus > 0) {
        room -= by_node || n_gpus + 1 > for_gpus ? for_gpus : n_gpus + 1;
        for_runs = n_runs + 1 < room / 2 ? n_runs + 1 : room / 2;
        room -= for_runs;
    }
    if (rc == 0)
        rc = show_some(s, runs, for_runs,
                       "id,name,user,gpus,step,rate,loss,elapsed,eta", err);
    (void)fputc('\n', s->out);
    if (rc == 0)
        rc = show_some(s, waits, for_gpus ? room : 0,
                       "id,name,user,st,gpus,eta,reason", err);
    return rc;
}
