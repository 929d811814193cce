/* simulation_output.c - see simulation.h. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/output/gantt_svg.h"
#include "scheduler/sim/output/run_lines.h"
#include "scheduler/sim/simulation.h"

/* "a.svg" of the second of several runs is "a.2.svg", "a.csv.gz" "a.2.csv.gz".
 */
static void numbered(const char *path, size_t i, size_t n, char *ret,
                     size_t cap)
{
    const char *slash = strrchr(path, '/');
    const char *dot = strchr(slash ? slash + 1 : path, '.');
    int stem = dot ? (int)(dot - path) : (int)strlen(path);

    if (n == 1 || strcmp(path, "-") == 0)
        (void)snprintf(ret, cap, "%s", path);
    else
        (void)snprintf(ret, cap, "%.*s.%zu%s", stem, path, i + 1,
                       dot ? dot : "");
}

static int write_text(struct simulation *s, const char *path,
                      int (*make)(const struct sim_conf *conf,
                                  const struct sim_output *o, struct buf *out,
                                  struct error *err),
                      struct error *err)
{
    char name[4096];

    for (size_t i = 0; path && i < s->n_runs; i++) {
        struct buf text = BUF_INIT;
        numbered(path, i, s->n_runs, name, sizeof(name));
        int rc = make(&s->args->conf, &s->runs[i].out, &text, err);
        if (rc == 0)
            rc = sim_csv_write(name, &text, err);
        buf_clear(&text);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static void add_stranded(const struct past *p, json_t *o)
{
    json_t *list = json_array();

    for (size_t i = 0; i < p->n_stranded; i++) {
        const struct past_stranded *one = &p->stranded[i];
        (void)json_array_append_new(
            list, json_pack("{s:I, s:s, s:i, s:f, s:o, s:b}", "job",
                            (json_int_t)one->job, "name", one->name, "gpus",
                            one->gpus, "from_s", one->from_s, "until_s",
                            isfinite(one->until_s) ? json_real(one->until_s)
                                                   : json_null(),
                            "is_left_out", one->is_last));
    }
    (void)json_object_set_new(o, "stranded", list);
    (void)json_object_set_new(o, "recorded_makespan_granted_s",
                              json_real(p->granted_s));
}

static int write_json(struct simulation *s, const char *note,
                      const char *missing, struct error *err)
{
    struct buf text = BUF_INIT;
    json_t *o =
        run_json(&s->args->conf, &s->recorded, s->runs, s->n_runs, note);
    if (o && missing[0])
        (void)json_object_set_new(o, "not_replayed", json_string(missing));
    if (o && s->past.n_stranded > 0)
        add_stranded(&s->past, o);
    if (o && s->replicates.n > 0)
        (void)json_object_set_new(o, "replicates",
                                  run_replicates_json(&s->replicates));
    char *dump = o ? json_dumps(o, JSON_REAL_PRECISION(12)) : NULL;
    int rc = dump ? buf_addf(&text, err, "%s\n", dump)
                  : error_set(err, ERR_NOMEM, "figures");

    if (rc == 0)
        rc = sim_csv_write(s->args->json, &text, err);
    free(dump);
    json_decref(o);
    buf_clear(&text);
    return rc;
}

static int write_cdf(struct simulation *s, struct error *err)
{
    struct buf text = BUF_INIT;
    int rc = run_lines_cdf(&s->args->conf, s->runs, s->n_runs, &text, err);

    if (rc == 0)
        rc = sim_csv_write(s->args->cdf, &text, err);
    buf_clear(&text);
    return rc;
}

static void print_recorded(const struct simulation *s, const char *stranded)
{
    bool is_less = s->past.granted_s < s->trace.recorded_s && *stranded;

    if (s->trace.recorded_s > 0)
        (void)printf("recorded makespan: %.1f s", s->trace.recorded_s);
    if (is_less)
        (void)printf(", without stranded jobs %.1f s", s->past.granted_s);
    (void)printf("%s%s", s->trace.recorded_s > 0 ? "\n" : "", stranded);
}

static void print_notes(const struct simulation *s,
                        const struct simulation_notes *notes)
{
    if (s->args->from_db)
        print_recorded(s, buf_str(&notes->stranded));
    if (notes->guessed.len > 0)
        (void)printf("sizes without a measurement: %s\n",
                     buf_str(&notes->guessed));
    if (notes->missing.len > 0)
        (void)printf("not repeated: %s\n", buf_str(&notes->missing));
}

static int make_notes(const struct simulation *s, struct simulation_notes *n,
                      struct error *err)
{
    bool is_past = s->args->from_db != NULL;
    int rc = is_past ? past_not_replayed(&s->past, &n->missing, err) : 0;

    if (rc == 0)
        rc = past_stranded_say(&s->past, &n->stranded, err);
    for (size_t i = 0; is_past && rc == 0 && i < s->n_runs; i++)
        rc = replay_left_out(&s->replays[i], s->runs[i].name, s->ran,
                             s->runs[i].out.n_not_applied, &n->missing, err);
    if (rc == 0 && s->speed->ops->guessed)
        rc = s->speed->ops->guessed(s->speed, &n->guessed, err);
    return rc;
}

static int write_figures(struct simulation *s,
                         const struct simulation_notes *notes,
                         struct error *err)
{
    const struct sim_args *a = s->args;

    if (a->json && write_json(s, buf_str(&notes->guessed),
                              buf_str(&notes->missing), err) < 0)
        return -1;
    if (!a->json || strcmp(a->json, "-") != 0) {
        if (a->sweep)
            (void)printf("%s, %.*s:\n", s->runs[0].name,
                         (int)strcspn(a->sweep, "="), a->sweep);
        if (run_table(&s->recorded, s->runs, s->n_runs, stdout, err) < 0)
            return -1;
        print_notes(s, notes);
        if (s->replicates.n > 0 &&
            run_replicates_table(&s->replicates, s->runs, stdout, err) < 0)
            return -1;
    }
    return a->html ? simulation_page(s, notes, err) : 0;
}

int simulation_write(struct simulation *s, struct error *err)
{
    const struct sim_args *a = s->args;
    struct simulation_notes notes = {BUF_INIT, BUF_INIT, BUF_INIT};
    int rc = run_figures_recorded(&a->conf, &s->recorded, err);

    if (rc == 0)
        rc = make_notes(s, &notes, err);
    if (rc == 0)
        rc = write_figures(s, &notes, err);
    buf_clear(&notes.guessed);
    buf_clear(&notes.missing);
    buf_clear(&notes.stranded);
    if (rc < 0 || write_text(s, a->jobs, jobs_csv, err) < 0 ||
        write_text(s, a->events, events_csv, err) < 0 ||
        write_text(s, a->gantt, gantt_svg, err) < 0)
        return -1;
    return a->cdf ? write_cdf(s, err) : 0;
}
