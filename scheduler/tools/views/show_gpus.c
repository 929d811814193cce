/* show_gpus.c - print the allocation history of each GPU: one line per GPU with
 * the share of each time slice in which it was allocated, then the jobs that
 * had it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

enum { SLICES_MOST = 60, SLICES_LEAST = 8 };

/* The time from from_s to to_s in which a job had the GPU, cut to the
 * period. */
struct span {
    const json_t *hold; /* borrowed */
    double from_s, to_s;
    bool is_on; /* it still has the GPU */
};

struct period {
    double since_s, until_s;
    size_t n_slices;
};

static bool has_index(const json_t *list, int64_t index)
{
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v)
    {
        if (json_integer_value(v) == index)
            return true;
    }
    return false;
}

static struct span span_of(const json_t *hold, const struct period *p)
{
    double to_s = field_time(hold, "to");
    return (struct span){.hold = hold,
                         .from_s = fmax(field_time(hold, "from"), p->since_s),
                         .to_s =
                             isnan(to_s) ? p->until_s : fmin(to_s, p->until_s),
                         .is_on = isnan(to_s)};
}

/* ---- a line for each GPU --------------------------------------------------
 */

struct line {
    double held_s, known_s, computed_s; /* known: part of the allocated time
                                           for which computed is known */
    double slices[SLICES_MOST];         /* allocated seconds per slice */
    const json_t *last;
    bool is_on;
};

static void add_span(struct line *l, const struct span *s,
                     const struct period *p)
{
    double wide = (p->until_s - p->since_s) / (double)p->n_slices;
    double share = field_real(s->hold, "computing");
    double held_s = s->to_s - s->from_s;
    if (!(held_s >= 0))
        return;
    l->held_s += held_s;
    if (isfinite(share)) {
        l->known_s += held_s;
        l->computed_s += share * held_s;
    }
    for (size_t i = 0; i < p->n_slices; i++) {
        double lo = fmax(s->from_s, p->since_s + (double)i * wide);
        double hi = fmin(s->to_s, p->since_s + (double)(i + 1) * wide);
        l->slices[i] += hi > lo ? hi - lo : 0;
    }
    if (!l->is_on) {
        l->last = s->hold;
        l->is_on = s->is_on;
    }
}

static struct line line_of(const json_t *holds, const char *node, int64_t index,
                           const struct period *p)
{
    struct line l = {.held_s = 0};
    size_t i;
    json_t *h;
    json_array_foreach(holds, i, h)
    {
        struct span s = span_of(h, p);
        if (strcmp(field_str(h, "node"), node) == 0 &&
            has_index(json_object_get(h, "gpus"), index))
            add_span(&l, &s, p);
    }
    return l;
}

/* An idle slice looks different from one that was allocated for a moment; above
 * that, the height is the share. */
static void draw(const struct line *l, const struct period *p, bool ascii,
                 char *out, size_t cap)
{
    static const char *const utf8[] = {"·", "▁", "▂", "▃", "▄",
                                       "▅", "▆", "▇", "█"};
    static const char *const plain[] = {".", "_", ":", "-", "=",
                                        "+", "*", "%", "#"};
    double wide = (p->until_s - p->since_s) / (double)p->n_slices;
    size_t len = 0;
    for (size_t i = 0; i < p->n_slices; i++) {
        double share = wide > 0 ? fmin(l->slices[i] / wide, 1) : 0;
        size_t level = share > 0 ? (size_t)(share * 7 + 1.5) : 0;
        const char *bar = (ascii ? plain : utf8)[level < 8 ? level : 8];
        size_t n = strlen(bar);
        if (len + n >= cap)
            break;
        memcpy(out + len, bar, n);
        len += n;
    }
    out[len] = '\0';
}

static void percent(double part, double whole, char *out, size_t cap)
{
    if (whole > 0)
        (void)snprintf(out, cap, "%.0f %%", 100 * fmin(part / whole, 1));
    else
        (void)snprintf(out, cap, "-");
}

static int add_gpu(struct render_table *t, const struct show_conf *s,
                   const json_t *node, int64_t index, const json_t *holds,
                   const struct period *p, struct error *err)
{
    const char *name = field_str(node, "name");
    struct line l = line_of(holds, name, index, p);
    char held[16], computing[16], bars[SLICES_MOST * 4], who[200];
    percent(l.held_s, p->until_s - p->since_s, held, sizeof(held));
    percent(l.computed_s, l.known_s, computing, sizeof(computing));
    draw(&l, p, s->style.ascii, bars, sizeof(bars));
    const char *idle = show_idle(node);
    bool is_well = strcmp(idle, "free") == 0;
    if (is_well && has_index(json_object_get(node, "drained"), index)) {
        idle = "drained";
        is_well = false;
    }
    if (l.is_on)
        (void)snprintf(who, sizeof(who), "%s %.60s%s%s",
                       field_str(l.last, "display_id"),
                       field_str(l.last, "user"), is_well ? "" : ", ",
                       is_well ? "" : idle);
    else
        (void)snprintf(who, sizeof(who), "%s", idle);
    if (render_table_add(t, err, "%s:%" PRId64, name, index) < 0 ||
        render_table_add(t, err, "%s", field_str(node, "gpu_type")) < 0 ||
        render_table_add(t, err, "%s", held) < 0 ||
        render_table_add(t, err, "%s", computing) < 0 ||
        render_table_add(t, err, "%s", bars) < 0)
        return -1;
    return render_table_add(t, err, "%s", who);
}

static int show_lines(const struct show_conf *s, const json_t *reply,
                      const struct period *p, struct error *err)
{
    static const struct render_column columns[] = {
        {"GPU", RENDER_LEFT},     {"TYPE", RENDER_LEFT},
        {"ALLOC", RENDER_RIGHT},  {"COMPUTING", RENDER_RIGHT},
        {"HISTORY", RENDER_LEFT}, {"NOW", RENDER_LEFT},
    };
    const json_t *holds = json_object_get(reply, "holds");
    struct render_table *t = NULL;
    size_t i;
    json_t *node;
    int rc = render_table_create(columns, sizeof(columns) / sizeof(*columns),
                                 &t, err);
    json_array_foreach(json_object_get(reply, "nodes"), i, node)
    {
        int64_t from, n = field_gpus(node, &from);
        for (int64_t g = 0; rc == 0 && g < n; g++)
            rc = add_gpu(t, s, node, from + g, holds, p, err);
    }
    if (rc == 0)
        render_table_print(t, &s->style, s->header, s->out);
    render_table_destroy(t);
    return rc;
}

/* ---- a line for each job --------------------------------------------------
 */

/* "0-2,5" for a list of indexes. */
static void indexes(const json_t *gpus, char *out, size_t cap)
{
    size_t n = json_array_size(gpus), len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < n && len < cap;) {
        int64_t from = json_integer_value(json_array_get(gpus, i)), to = from;
        for (i++; i < n; i++, to++)
            if (json_integer_value(json_array_get(gpus, i)) != to + 1)
                break;
        len += (size_t)snprintf(out + len, cap - len,
                                from == to ? "%s%" PRId64
                                           : "%s%" PRId64 "-%" PRId64,
                                len ? "," : "", from, to);
    }
}

/* "20:39:10" if it is on the day on which the period ends, else "11-20
 * 20:39". */
static void moment_text(const json_t *o, const char *key, const char *today,
                        char *out, size_t cap)
{
    const char *text = field_str(o, key);
    if (strlen(text) < 19)
        (void)snprintf(out, cap, "-");
    else if (strncmp(text, today, 10) == 0)
        (void)snprintf(out, cap, "%.8s", text + 11);
    else
        (void)snprintf(out, cap, "%.5s %.5s", text + 5, text + 11);
}

static int add_hold(struct render_table *t, const json_t *h, const char *today,
                    const struct period *p, struct error *err)
{
    const struct span span = span_of(h, p);
    char gpus[200], held[32], share[16] = "-", from[24], to[24] = "now";
    double computing = field_real(h, "computing");
    indexes(json_object_get(h, "gpus"), gpus, sizeof(gpus));
    if (isfinite(computing))
        percent(computing, 1, share, sizeof(share));
    moment_text(h, "from", today, from, sizeof(from));
    if (!span.is_on)
        moment_text(h, "to", today, to, sizeof(to));
    if (render_table_add(t, err, "%s", field_str(h, "display_id")) < 0 ||
        render_table_add(t, err, "%s", field_str(h, "user")) < 0 ||
        render_table_add(t, err, "%s", field_str(h, "name")) < 0 ||
        render_table_add(t, err, "%s:%s", field_str(h, "node"), gpus) < 0 ||
        render_table_add(t, err, "%s", from) < 0 ||
        render_table_add(t, err, "%s", to) < 0 ||
        render_table_add(
            t, err, "%s",
            render_duration(span.to_s - span.from_s, held, sizeof(held))) < 0)
        return -1;
    return render_table_add(t, err, "%s", share);
}

static int show_holds(const struct show_conf *s, const json_t *reply,
                      const struct period *p, struct error *err)
{
    static const struct render_column columns[] = {
        {"JOBID", RENDER_RIGHT}, {"USER", RENDER_LEFT},
        {"NAME", RENDER_LEFT},   {"GPUS", RENDER_LEFT},
        {"FROM", RENDER_LEFT},   {"TO", RENDER_LEFT},
        {"ALLOC", RENDER_RIGHT}, {"COMPUTING", RENDER_RIGHT},
    };
    const json_t *holds = json_object_get(reply, "holds");
    struct render_table *t = NULL;
    size_t i;
    json_t *h;
    int rc = render_table_create(columns, sizeof(columns) / sizeof(*columns),
                                 &t, err);
    json_array_foreach(holds, i, h)
    {
        if (rc == 0)
            rc = add_hold(t, h, field_str(reply, "until"), p, err);
    }
    if (rc == 0) {
        (void)fputc('\n', s->out);
        render_table_print(t, &s->style, s->header, s->out);
    }
    render_table_destroy(t);
    return rc;
}

/* As many slices as fit on the line. */
static size_t slices_of(const struct show_conf *s)
{
    int room = s->style.columns ? s->style.columns - 48 : SLICES_MOST;
    return room > SLICES_MOST    ? SLICES_MOST
           : room < SLICES_LEAST ? SLICES_LEAST
                                 : (size_t)room;
}

int show_gpus(const struct show_conf *s, const json_t *reply, struct error *err)
{
    struct period p = {.since_s = field_time(reply, "since"),
                       .until_s = field_time(reply, "until"),
                       .n_slices = slices_of(s)};
    char each[32], cluster[200], since[20], until[20];
    if (!(p.until_s > p.since_s))
        p.until_s = p.since_s + 1;
    if (s->header)
        (void)fprintf(
            s->out, "%s  from %s to %s UTC, one bar = %s\n",
            render_escape(field_str(reply, "cluster"), cluster,
                          sizeof(cluster)),
            render_escape(field_str(reply, "since"), since, sizeof(since)),
            render_escape(field_str(reply, "until"), until, sizeof(until)),
            render_duration((p.until_s - p.since_s) / (double)p.n_slices, each,
                            sizeof(each)));
    int rc = show_lines(s, reply, &p, err);
    if (rc == 0 && json_array_size(json_object_get(reply, "holds")) > 0)
        rc = show_holds(s, reply, &p, err);
    return rc;
}
