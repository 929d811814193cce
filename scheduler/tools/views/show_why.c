/* show_why.c - print why a job is pending, or how it ended: the reasons, what
 * it needs, which nodes it may use, the jobs there, its start estimate, and
 * changes that would start it now. A dry run prints the same for a job that was
 * not submitted.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "jobs/spec/gpu_sizes.h"
#include "jobs/state.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

enum { TEXT_CAP = 600 };

static const char *safe(const char *text, char *out)
{
    return render_escape(*text ? text : "-", out, TEXT_CAP);
}

/* The exit code of --wait for the job, in words. */
static void code_text(int64_t code, char *out, size_t cap)
{
    const char *what = code == 124   ? "its time limit"
                       : code == 125 ? "it never ran, or was lost"
                       : code == 130 ? "cancelled by its user"
                       : code == 143 ? "cancelled by another user"
                                     : NULL;
    if (what)
        (void)snprintf(out, cap, "%" PRId64 ": %s", code, what);
    else if (code > 128 && code < 128 + 65)
        (void)snprintf(out, cap, "%" PRId64 ": signal %" PRId64, code,
                       code - 128);
    else
        (void)snprintf(out, cap, "%" PRId64, code);
}

static void print_reasons(const struct show_conf *s, const json_t *reply)
{
    char text[TEXT_CAP];
    size_t i;
    json_t *r;
    json_array_foreach(json_object_get(reply, "reasons"), i, r)
    {
        (void)fprintf(s->out, " %-10s %s\n",
                      i == 0   ? "because"
                      : i == 1 ? "also"
                               : "",
                      safe(field_str(r, "text"), text));
    }
}

static void print_head(const struct show_conf *s, const json_t *reply,
                       const json_t *job)
{
    char name[TEXT_CAP], user[TEXT_CAP], word[64], kind[64], state[64],
        since[64];
    enum render_paint paint = show_state_paint(field_str(job, "state"));
    (void)fprintf(
        s->out, "Job %" PRId64 "  %s  %s/%s  %s%s%s since %s (%s)\n",
        field_int(job, "id", 0), safe(field_str(job, "name"), name),
        safe(field_str(job, "user"), user),
        render_escape(field_str(job, "kind"), kind, sizeof(kind)),
        render_paint(&s->style, paint),
        render_escape(field_str(job, "state"), state, sizeof(state)),
        render_unpaint(&s->style, paint),
        render_escape(field_str(reply, "since"), since, sizeof(since)),
        render_duration(field_real(reply, "for_s"), word, sizeof(word)));
    print_reasons(s, reply);
    int64_t code = field_int(job, "exit_code", -1);
    if (code >= 0) {
        code_text(code, word, sizeof(word));
        (void)fprintf(s->out, " exit code  %s\n", word);
    }
}

static void print_range(const struct show_conf *s, int64_t lo, int64_t hi,
                        const char *what)
{
    if (lo == hi)
        (void)fprintf(s->out, "%" PRId64 " %s%s", lo, what, lo == 1 ? "" : "s");
    else
        (void)fprintf(s->out, "%" PRId64 "..%" PRId64 " %ss", lo, hi, what);
}

/* A node with GPUs of several types has consecutive entries, one per type. */
static size_t count_nodes(const json_t *nodes, bool are_up)
{
    const char *last = "";
    size_t i, n = 0;
    json_t *node;
    json_array_foreach(nodes, i, node)
    {
        const char *name = field_str(node, "name");
        n += field_yes(node, "is_up") == are_up &&
             (i == 0 || strcmp(name, last) != 0);
        last = name;
    }
    return n;
}

/* Nodes for which it is unknown whether their GPUs have what the job asks
 * for. */
static size_t count_unknown(const json_t *nodes)
{
    size_t n = 0, i;
    json_t *node;
    json_array_foreach(nodes, i, node) n +=
        json_is_null(json_object_get(node, "gpu_bytes"));
    return n;
}

static void print_needs(const struct show_conf *s, const json_t *reply,
                        const json_t *job)
{
    static const char *const keys[] = {"partition", "gpu_type", "gpu_memory",
                                       "constraint", "reservation"};
    static const char *const words[] = {"partition", "type", "GPU memory",
                                        "constraint", "reservation"};
    const json_t *where = json_object_get(reply, "where");
    size_t n = count_nodes(json_object_get(reply, "nodes"), true);
    size_t n_down = count_nodes(json_object_get(reply, "nodes"), false);
    char word[TEXT_CAP];

    (void)fprintf(s->out, " needs      ");
    print_range(s, field_int(job, "gpus_min", 0), field_int(job, "gpus_max", 0),
                "GPU");
    (void)fprintf(s->out, " on ");
    print_range(s, field_int(reply, "nodes_min", 1),
                field_int(reply, "nodes_max", 1), "node");
    if (field_yes(where, "exclusive"))
        (void)fprintf(s->out, ", alone");
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        const char *v = field_str(where, keys[i]);
        if (*v)
            (void)fprintf(s->out, ", %s %s", words[i], safe(v, word));
    }
    (void)fprintf(s->out,
                  "\n may use    %zu node%s with %" PRId64 " GPUs, %" PRId64
                  " free now",
                  n, n == 1 ? "" : "s", field_int(reply, "gpus_total", 0),
                  field_int(reply, "gpus_free", 0));
    if (n_down > 0)
        (void)fprintf(s->out, "; %zu node%s down or drained", n_down,
                      n_down == 1 ? " is" : "s are");
    n = *field_str(where, "gpu_memory")
            ? count_unknown(json_object_get(reply, "nodes"))
            : 0;
    if (n > 0)
        (void)fprintf(s->out, "; %zu with unknown GPU memory", n);
    (void)fputc('\n', s->out);
}

static void print_depends(const struct show_conf *s, const json_t *reply)
{
    char word[TEXT_CAP], state[TEXT_CAP];
    size_t i;
    json_t *d;
    json_array_foreach(json_object_get(reply, "depends_on"), i, d)
    {
        (void)fprintf(
            s->out, " %-10s %s: job %" PRId64 " is %s%s\n",
            i == 0 ? "after" : "", safe(field_str(d, "depends_on"), word),
            field_int(d, "job", 0),
            *field_str(d, "state") ? safe(field_str(d, "state"), state)
                                   : "not there",
            field_yes(d, "is_met") ? ", satisfied" : "");
    }
}

/* The changes of the request with which it would start at once. */
static void print_changes(const struct show_conf *s, const json_t *reply)
{
    char word[TEXT_CAP];
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(reply, "would_start"), i, c)
    {
        (void)fprintf(s->out, " %-10s --set %s: ", i == 0 ? "now with" : "or",
                      safe(field_str(c, "set"), word));
        int64_t gpus = field_int(c, "gpus", 0),
                nodes = field_int(c, "nodes", 1);
        print_range(s, gpus, gpus, "GPU");
        (void)fprintf(s->out, " on ");
        print_range(s, nodes, nodes, "node");
        (void)fprintf(s->out, "%s\n",
                      *field_str(c, "partition") ? ", if you may" : "");
    }
}

/* "+-40 s", "+-3 min", "+-1.5 h"; "" if unknown. */
static const char *within(double s, char *out, size_t cap)
{
    if (!isfinite(s))
        out[0] = '\0';
    else if (s < 90)
        (void)snprintf(out, cap, " +-%.0f s", s);
    else if (s < 5400)
        (void)snprintf(out, cap, " +-%.0f min", s / 60);
    else
        (void)snprintf(out, cap, " +-%.1f h", s / 3600);
    return out;
}

static void print_queue(const struct show_conf *s, const json_t *reply,
                        const json_t *job)
{
    char native[TEXT_CAP], basis[TEXT_CAP], when[64];
    int64_t position = field_int(job, "position", 0);
    const char *start = field_str(job, "start_estimate");
    const char *later = field_str(reply, "start_forecast");
    const char *id = field_str(job, "native_id");

    if (position > 0 && (*start || *later))
        (void)fprintf(
            s->out,
            " queue      position %" PRId64
            "\n may start  %s,\n            if %s\n",
            position, render_escape(*start ? start : later, when, sizeof(when)),
            safe(field_str(reply, *start ? "basis" : "forecast_basis"), basis));
    else if (*start)
        (void)fprintf(s->out, " may start  %s,\n            if %s\n",
                      render_escape(start, when, sizeof(when)),
                      safe(field_str(reply, "basis"), basis));
    else if (position > 0)
        (void)fprintf(s->out,
                      " queue      position %" PRId64 "; no start estimate\n",
                      position);
    if (*field_str(reply, "start_expected"))
        (void)fprintf(s->out, " expected   %s%s,\n            if %s\n",
                      render_escape(field_str(reply, "start_expected"), when,
                                    sizeof(when)),
                      within(field_real(reply, "expected_within_s"), native,
                             sizeof(native)),
                      safe(field_str(reply, "expected_basis"), basis));
    print_changes(s, reply);
    if (*id && job_is_live(job))
        (void)fprintf(s->out, " known as   %s%s\n",
                      id[strspn(id, "0123456789")] ? "" : "Slurm ",
                      safe(id, native));
}

static int print_holders(const struct show_conf *s, const json_t *holders,
                         struct error *err)
{
    static const struct render_column columns[] = {
        {"IN USE BY", RENDER_RIGHT}, {"USER", RENDER_LEFT},
        {"NAME", RENDER_LEFT},       {"GPUS", RENDER_RIGHT},
        {"PLACE", RENDER_LEFT},      {"ENDS BY", RENDER_LEFT},
    };
    struct render_table *t = NULL;
    if (render_table_create(columns, sizeof(columns) / sizeof(*columns), &t,
                            err) < 0)
        return -1;
    size_t i;
    json_t *h;
    int rc = 0;
    json_array_foreach(holders, i, h)
    {
        char id[48]; /* an older daemon sends only the id */
        (void)snprintf(id, sizeof(id), "%" PRId64, field_int(h, "job", 0));
        const char *display = field_str(h, "display_id");
        if (rc == 0 &&
            (render_table_add(t, err, "%s", *display ? display : id) < 0 ||
             render_table_add(t, err, "%s", field_str(h, "user")) < 0 ||
             render_table_add(t, err, "%s", field_str(h, "name")) < 0 ||
             render_table_add(t, err, "%" PRId64, field_int(h, "gpus", 0)) <
                 0 ||
             render_table_add(t, err, "%s", field_str(h, "place")) < 0 ||
             render_table_add(t, err, "%s",
                              *field_str(h, "ends") ? field_str(h, "ends")
                                                    : "no limit") < 0))
            rc = -1;
    }
    if (rc == 0) {
        (void)fputc('\n', s->out);
        render_table_print(t, &s->style, s->header, s->out);
    }
    render_table_destroy(t);
    return rc;
}

/* Why the policy goodput chose its number of GPUs. */
static void print_size(const struct show_conf *s, const json_t *reply)
{
    char text[TEXT_CAP];
    const char *size = field_str(reply, "size");

    if (*size)
        (void)fprintf(s->out, " size       %s\n", safe(size, text));
}

/* What Slurm would say of the request, or of the largest size of its range. */
static void print_cluster(const struct show_conf *s, const json_t *reply)
{
    char text[TEXT_CAP];
    const char *says = field_str(reply, "cluster");

    if (*says)
        (void)fprintf(s->out, " Slurm      %s\n", safe(says, text));
}

int show_why(const struct show_conf *s, const json_t *reply, const json_t *full,
             struct error *err)
{
    const json_t *job = json_object_get(reply, "job");
    const json_t *attempts = json_object_get(full, "attempts");
    const json_t *holders = json_object_get(reply, "holders");
    enum job_state state = JOB_NEW;

    print_head(s, reply, job);
    if (job_state_from_name(field_str(job, "state"), &state) == 0 &&
        job_state_is_final(state))
        return json_array_size(attempts) ? show_attempts(s, attempts, err) : 0;
    if (strcmp(field_str(job, "kind"), "run") == 0) {
        (void)fputs(" is a run: its program runs outside of mgpu, without "
                    "GPUs\n",
                    s->out);
        return 0;
    }
    print_depends(s, reply);
    print_needs(s, reply, job);
    print_queue(s, reply, job);
    print_size(s, reply);
    print_cluster(s, reply);
    if (state != JOB_QUEUED && state != JOB_DISPATCHING && state != JOB_UNKNOWN)
        return 0;
    (void)fputc('\n', s->out);
    if (show_nodes(s, reply, err) < 0)
        return -1;
    return json_array_size(holders) ? print_holders(s, holders, err) : 0;
}

/* ---- a dry run -------------------------------------------------------------
 */
/* "now, with 4 GPUs on 2 nodes: n1, n2" */
static void print_start(const struct show_conf *s, const json_t *start)
{
    const json_t *on = json_object_get(start, "on");
    int64_t gpus = field_int(start, "gpus", 0),
            nodes = field_int(start, "nodes", 1);
    const char *type = field_str(start, "gpu_type");
    char word[TEXT_CAP];
    size_t i, width = 0;
    json_t *name;

    (void)fprintf(s->out, " starts     now, with ");
    print_range(s, gpus, gpus, "GPU");
    if (*type)
        (void)fprintf(s->out, " of type %s", safe(type, word));
    (void)fprintf(s->out, " on ");
    print_range(s, nodes, nodes, "node");
    json_array_foreach(on, i, name)
    {
        const char *text = safe(json_string_value(name), word);
        bool is_new = i == 0 || width + strlen(text) > 66;
        width = is_new ? strlen(text) : width + 2 + strlen(text);
        (void)fprintf(s->out, "%s%s%s",
                      i == 0   ? ":\n            "
                      : is_new ? ",\n            "
                               : ", ",
                      text, i + 1 == json_array_size(on) ? "\n" : "");
    }
}

static struct spec_range range_of(const json_t *resources, const char *key)
{
    const json_t *o = json_object_get(resources, key);
    return (struct spec_range){(int32_t)field_int(o, "min", 1),
                               (int32_t)field_int(o, "max", 1)};
}

/* Of training on a range of GPUs: which numbers it may have, and whether its
 * losses depend on the number. */
static void print_sizes(const struct show_conf *s, const json_t *reply)
{
    const json_t *spec = json_object_get(reply, "spec");
    const json_t *train = json_object_get(spec, "train");
    const json_t *resources = json_object_get(spec, "resources");
    int64_t all = field_int(train, "global_batch_size", 0);
    int64_t one = field_int(train, "batch_size", 1);
    const struct gpu_sizes sizes = {
        .gpus = range_of(resources, "gpus"),
        .nodes = range_of(resources, "nodes"),
        .per_node = (int32_t)field_int(resources, "gpus_per_node", 0),
        .parts = all > 0 && one > 0 ? (int32_t)(all / one) : 0};
    char text[GPU_SIZES_CAP];

    if (!train || sizes.gpus.min == sizes.gpus.max)
        return;
    (void)fprintf(s->out, " sizes      %s GPUs; ",
                  gpu_sizes_text(&sizes, text));
    if (all > 0)
        (void)fprintf(s->out, "the global batch is %" PRId64 " with each\n",
                      all);
    else
        (void)fputs("the global batch, and the curve of the losses,\n"
                    "            change with the number "
                    "(train.global_batch_size keeps them)\n",
                    s->out);
}

static void print_sweep(const struct show_conf *s, const json_t *reply)
{
    int64_t n = field_int(reply, "n_tasks", 1),
            most = field_int(reply, "max_parallel", 0),
            tried = field_int(reply, "n_tried", n),
            starts = field_int(reply, "n_start", 0);

    if (!field_yes(reply, "is_sweep"))
        return;
    (void)fprintf(s->out, " sweep      %" PRId64 " jobs", n);
    if (most > 0)
        (void)fprintf(s->out, ", at most %" PRId64 " at a time", most);
    (void)fputs("; ", s->out);
    if (tried < n)
        (void)fprintf(s->out, "of the first %" PRId64 ", ", tried);
    (void)fprintf(s->out, "%" PRId64 " start%s now\n", starts,
                  starts == 1 ? "s" : "");
}

/* Prints the part for a pending job. */
static void print_waits(const struct show_conf *s, const json_t *reply,
                        const json_t *job)
{
    char text[TEXT_CAP];

    if (field_yes(reply, "is_sweep"))
        (void)fprintf(s->out, " waits      task %" PRId64 " first\n",
                      field_int(job, "task", 0));
    else
        (void)fprintf(s->out, " starts     not now: it would be %s\n",
                      safe(field_str(job, "state"), text));
    print_reasons(s, reply);
    print_depends(s, reply);
    print_queue(s, reply, job);
}

int show_dry_run(const struct show_conf *s, const json_t *reply,
                 const char *file, struct error *err)
{
    const json_t *job = json_object_get(reply, "job");
    const json_t *start = json_object_get(reply, "start");
    const json_t *scaling = json_object_get(reply, "scaling");
    int64_t n = field_int(reply, "n_tried", field_int(reply, "n_tasks", 1));
    char word[TEXT_CAP];

    (void)fprintf(s->out, "%s: %s; nothing was submitted\n", safe(file, word),
                  json_is_false(json_object_get(reply, "fits"))
                      ? "can never fit on the nodes there are"
                      : "fits");
    print_sweep(s, reply);
    print_needs(s, reply, job);
    print_sizes(s, reply);
    if (json_is_object(start) && *field_str(reply, "cluster"))
        (void)fprintf(s->out, " starts     not now: Slurm %s\n",
                      safe(field_str(reply, "cluster"), word));
    else if (json_is_object(start))
        print_start(s, start);
    else
        print_cluster(s, reply);
    if (field_int(reply, "n_start", 0) < n)
        print_waits(s, reply, job);
    if (!json_is_object(scaling))
        return 0;
    (void)fprintf(s->out,
                  "\nmeasured on such jobs before, as job %" PRId64 ":\n",
                  field_int(reply, "alike", 0));
    return show_scaling(s, scaling, err);
}
