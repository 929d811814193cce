/* show_eff.c - print how efficiently a job used its resources, and which key of
 * its specification would help (jobs/advice).
 *
 * For one job it prints bars and notes, for several jobs one row each.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/advice/advice.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

enum { BAR = 30 };

static const double warm_up_least = 0.1; /* less is not noticeable */

static void bar(const struct show_conf *s, const char *name, double share)
{
    if (!isfinite(share))
        return;
    double at = share < 0 ? 0 : share > 1 ? 1 : share;
    int full = (int)lround(at * (double)BAR);
    (void)fprintf(s->out, " %-20s [", name);
    for (int i = 0; i < BAR; i++)
        (void)fputs(i >= full ? " " : s->style.ascii ? "#" : "█", s->out);
    (void)fprintf(s->out, "] %3.0f %%\n", 100 * share);
}

/* A bar for a resource that every job has; prints "-" if it is unknown. */
static void known_bar(const struct show_conf *s, const char *name, double share)
{
    if (isfinite(share))
        bar(s, name, share);
    else
        (void)fprintf(s->out, " %-20s -\n", name);
}

/* Explains why the figures of a short job are unreliable; there is nothing to
 * change. */
static void tell_warm_up(FILE *out, const struct advice_figures *f)
{
    double share = f->warm_up / (f->warm_up + f->iter);
    if (f->n > 0 && f->iter > 0 && share > warm_up_least)
        (void)fprintf(out,
                      "  An attempt's first three iterations, %.0f %% of the "
                      "time, warm up: they are\n  left out here, and not in "
                      "--gpus.\n",
                      100 * share);
}

static int add_share(struct render_table *t, const json_t *row, const char *key,
                     struct error *err)
{
    double v = field_real(row, key);
    return isfinite(v) ? render_table_add(t, err, "%.0f %%", 100 * v)
                       : render_table_add(t, err, "-");
}

int show_eff_rows(const struct show_conf *s, const json_t *reply,
                  struct error *err)
{
    static const struct render_column columns[] = {
        {"JOBID", RENDER_RIGHT}, {"NAME", RENDER_LEFT},
        {"USER", RENDER_LEFT},   {"GPUS", RENDER_RIGHT},
        {"COMP", RENDER_RIGHT},  {"DATA", RENDER_RIGHT},
        {"COPY", RENDER_RIGHT},  {"RANKS", RENDER_RIGHT},
        {"EFF", RENDER_RIGHT},   {"SOL", RENDER_RIGHT},
        {"LIMIT", RENDER_RIGHT}, {"NOTES", RENDER_RIGHT},
    };
    static const char *const shares[] = {"computing",  "waiting_for_data",
                                         "copying",    "waiting_for_ranks",
                                         "efficiency", "sol",
                                         "limit_used"};
    struct render_table *t = NULL;
    int rc = render_table_create(columns, sizeof(columns) / sizeof(*columns),
                                 &t, err);
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(reply, "jobs"), i, row)
    {
        if (rc == 0 &&
            (render_table_put(t, field_str(row, "display_id"), err) < 0 ||
             render_table_put(t, field_str(row, "name"), err) < 0 ||
             render_table_put(t, field_str(row, "user"), err) < 0 ||
             render_table_add(t, err, "%" PRId64, field_int(row, "gpus", 0)) <
                 0))
            rc = -1;
        for (size_t k = 0; rc == 0 && k < sizeof(shares) / sizeof(*shares); k++)
            rc = add_share(t, row, shares[k], err);
        size_t n = json_array_size(json_object_get(row, "notes"));
        if (rc == 0)
            rc = n ? render_table_add(t, err, "%zu", n)
                   : render_table_add(t, err, "-");
    }
    if (rc == 0)
        render_table_print(t, &s->style, s->header, s->out);
    if (rc == 0 && s->header)
        (void)fputs(
            "\nShares of the iterations' time, without the first three: "
            "computing, waiting for\ndata, copying, waiting for ranks; EFF "
            "against one GPU; SOL of the GPU's\nlimit; of the time limit. "
            "--eff JOB has the notes.\n",
            s->out);
    render_table_destroy(t);
    return rc;
}

int show_eff(const struct show_conf *s, const json_t *reply,
             const json_t *iterations, const json_t *scaling, struct error *err)
{
    const json_t *job = json_object_get(reply, "job");
    int64_t gpus = field_int(job, "gpus", 0);
    double efficiency = advice_scaling(scaling, gpus);
    struct advice_figures *f = calloc(1, sizeof(*f));
    if (!f)
        return error_set(err, ERR_NOMEM, "figures");
    advice_gather(reply, iterations, f);
    if (f->n == 0 || f->iter <= 0) {
        (void)fputs(f->n == 0
                        ? "no iterations recorded beyond the first three\n"
                        : "its iterations came without their times\n",
                    s->out);
    } else {
        known_bar(s, "computing", f->compute / f->iter);
        known_bar(s, "waiting for data", f->data / f->iter);
        known_bar(s, "copying", f->copy / f->iter);
        known_bar(s, "waiting for ranks", f->comm / f->iter);
    }
    bar(s, "parallel efficiency", gpus > 1 ? efficiency : NAN);
    bar(s, "GPU's limit reached", f->gpus.limit);
    bar(s, "GPUs busy", f->gpus.busy);
    known_bar(s, "GPU memory", f->gpus.memory);
    known_bar(s, "CPU", advice_cpu(reply));
    known_bar(s, "time limit used",
              field_real(job, "elapsed_s") / field_real(job, "limit_s"));
    (void)fputs("Notes\n", s->out);
    tell_warm_up(s->out, f);
    if (advice_notes(s->out, reply, f, efficiency) == 0)
        (void)fputs("  nothing stands out\n", s->out);
    free(f);
    return 0;
}
