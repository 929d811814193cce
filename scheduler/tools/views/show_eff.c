/* show_eff.c - print how efficiently a job used its resources, and which key of
 * its specification would help.
 *
 * For one job it prints bars and notes, for several jobs one row each, and both
 * as JSON.
 *
 * Figures are shares of the step time, over all ranks, without the first three
 * iterations of each attempt, which warm up. A note appears if a figure is so
 * large that a change would be noticeable; the bounds are below.
 */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/state.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/gpu_figures.h"
#include "scheduler/tools/views/show.h"

enum { BAR = 30, WARM_UP = 3, RANKS_MAX = 1024 };

/* A fifth of the time is worth a change of the specification; less than a tenth
 * is not noticeable. */
static const double data_most = 0.15, copy_most = 0.1, comm_most = 0.3,
                    late_most = 0.2, efficiency_least = 0.6, limit_least = 0.3,
                    warm_up_least = 0.1;

struct figures {
    double iter, data, copy, compute, comm; /* seconds */
    double warm_up; /* of the iterations that are excluded */
    size_t n;
    int ranks;
    /* Of the last attempt with several ranks: a rank's own work. Those of
     * another attempt had other nodes, and ran for another time. */
    double rank_s[RANKS_MAX]; /* NAN: it has reported none yet */
    int late_ranks;
    struct gpu_figures gpus;
};

static double cell_of(const json_t *reply, const json_t *row, const char *name)
{
    double v = show_cell(row, cells_column(reply, name));
    return isfinite(v) ? v : 0;
}

/* Sums of phases that no row has are unknown. */
static void drop_unknown(const json_t *reply, struct figures *f)
{
    if (!cells_has(reply, "t_data"))
        f->data = NAN;
    if (!cells_has(reply, "t_h2d"))
        f->copy = NAN;
    if (!cells_has(reply, "t_comm"))
        f->comm = NAN;
    if (!cells_has(reply, "t_forward") && !cells_has(reply, "t_backward") &&
        !cells_has(reply, "t_optimizer"))
        f->compute = NAN;
}

/* Of one attempt. */
struct work {
    double rank_s[RANKS_MAX];
    size_t n[RANKS_MAX];
    int ranks;
};

static void keep_work(struct work *w, struct figures *f)
{
    if (w->ranks > 1) {
        f->late_ranks = w->ranks;
        for (int r = 0; r < w->ranks; r++)
            f->rank_s[r] =
                w->n[r] > 0 ? w->rank_s[r] / (double)w->n[r] : (double)NAN;
    }
    *w = (struct work){.ranks = 0};
}

static void gather(const json_t *job, const json_t *reply, struct figures *f)
{
    const json_t *rows = json_object_get(reply, "rows");
    struct work work = {.ranks = 0};
    double first = NAN;
    int attempt = 0;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) /* attempt by attempt */
    {
        double at = show_cell(row, cells_column(reply, "iteration"));
        int rank = (int)cell_of(reply, row, "rank");
        int of = (int)cell_of(reply, row, "attempt");
        first = isnan(first) || of != attempt ? at : first;
        if (of != attempt)
            keep_work(&work, f);
        attempt = of;
        double iter = cell_of(reply, row, "t_iter");
        if (at < first + (double)WARM_UP)
            f->warm_up += iter;
        if (at < first + (double)WARM_UP || rank < 0 || rank >= RANKS_MAX)
            continue;
        double comm = cell_of(reply, row, "t_comm");
        f->iter += iter;
        f->comm += comm;
        f->data += cell_of(reply, row, "t_data");
        f->copy += cell_of(reply, row, "t_h2d");
        f->compute += cell_of(reply, row, "t_forward") +
                      cell_of(reply, row, "t_backward") +
                      cell_of(reply, row, "t_optimizer");
        work.rank_s[rank] += iter - comm;
        work.n[rank]++;
        work.ranks = rank + 1 > work.ranks ? rank + 1 : work.ranks;
        f->ranks = rank + 1 > f->ranks ? rank + 1 : f->ranks;
        f->n++;
    }
    keep_work(&work, f);
    drop_unknown(reply, f);
    f->gpus = gpu_figures_of(job, reply);
}

/* CPU usage from the final report of the last attempt's worker; if there is
 * none, from the event of its end; NAN: unknown. */
static double cpu_of(const json_t *reply)
{
    int64_t attempt = field_int(json_object_get(reply, "job"), "attempt", 0);
    double share = NAN;
    bool is_said = false; /* by its worker */
    size_t i;
    json_t *e;
    json_array_foreach(json_object_get(reply, "events"), i, e)
    {
        const json_t *detail = json_object_get(e, "detail");
        int64_t cpu_ms = field_int(detail, "cpu_ms", -1);
        int64_t cores_ms = field_int(detail, "cores_ms", 0);
        if (field_int(e, "attempt", 0) != attempt || cpu_ms < 0 ||
            cores_ms <= 0 || is_said)
            continue;
        share = (double)cpu_ms / (double)cores_ms;
        is_said = strcmp(field_str(e, "event"), "report") == 0;
    }
    return share;
}

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

/* The efficiency measured at the size of this job; NAN without a smaller size
 * to compare with. */
static double efficiency_of(const json_t *scaling, int64_t gpus)
{
    double found = NAN, least = NAN;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(scaling, "rows"), i, row)
    {
        double n = show_cell(row, cells_column(scaling, "gpus"));
        least = n < least || isnan(least) ? n : least;
        if (n == (double)gpus)
            found = show_cell(row, cells_column(scaling, "efficiency"));
    }
    return least < (double)gpus ? found : NAN;
}

/* ---- notes ---------------------------------------------------------------
 */

static const json_t *spec_of(const json_t *job, const char *section,
                             const char *key)
{
    const json_t *o = json_object_get(json_object_get(job, "spec"), section);
    return json_object_get(o, key);
}

static int note_data(FILE *out, const json_t *job, const struct figures *f)
{
    if (!(f->data >= data_most * f->iter))
        return 0;
    const json_t *workers = spec_of(job, "dataset", "workers");
    const json_t *cpus = spec_of(job, "resources", "cpus_per_gpu");
    char has[64] = "as many as its cores allow";
    if (json_is_integer(workers))
        (void)snprintf(has, sizeof(has), "%" PRId64,
                       (int64_t)json_integer_value(workers));
    (void)fprintf(out,
                  "  * It waited for data for %.0f %% of the time: raise\n"
                  "    dataset.workers (%s)",
                  100 * f->data / f->iter, has);
    if (json_is_integer(cpus))
        (void)fprintf(out, " or resources.cpus_per_gpu (%" PRId64 ")",
                      (int64_t)json_integer_value(cpus));
    else
        (void)fputs("\n    or resources.cpus_per_gpu", out);
    (void)fputs(".\n", out);
    return 1;
}

static int note_copy(FILE *out, const json_t *job, const struct figures *f)
{
    const json_t *pin = spec_of(job, "train", "pin_memory");
    if (!(f->copy >= copy_most * f->iter))
        return 0;
    (void)fprintf(
        out, "  * Copies from the host took %.0f %% of the time: %s.\n",
        100 * f->copy / f->iter,
        json_is_false(pin) ? "set train.pin_memory: true"
                           : "a smaller dataset.image_size moves less");
    return 1;
}

static int note_comm(FILE *out, int64_t gpus, const struct figures *f)
{
    if (f->ranks < 2 || !(f->comm >= comm_most * f->iter))
        return 0;
    (void)fprintf(out,
                  "  * Ranks waited for each other for %.0f %% of the time: a "
                  "larger\n    train.batch_size, or fewer GPUs than %" PRId64
                  " (resources.gpus), would lose\n    less.\n",
                  100 * f->comm / f->iter, gpus);
    return 1;
}

/* One slow rank makes all others wait. */
static int note_late(FILE *out, const struct figures *f)
{
    int slow = 0, n = 0;
    double sum = 0, most_s = -INFINITY;
    for (int r = 0; r < f->late_ranks; r++) {
        if (isnan(f->rank_s[r]))
            continue;
        n++;
        sum += f->rank_s[r];
        slow = f->rank_s[r] > most_s ? r : slow;
        most_s = fmax(most_s, f->rank_s[r]);
    }
    double others = n > 1 ? (sum - most_s) / (n - 1) : 0;
    if (n < 2 || most_s < (1 + late_most) * others)
        return 0;
    (void)fprintf(out,
                  "  * Rank %d needs %.0f %% longer than the others, who wait "
                  "for it:\n    look at its node and GPU.\n",
                  slow, 100 * (most_s / others - 1));
    return 1;
}

static int note_efficiency(FILE *out, int64_t gpus, double efficiency)
{
    if (!(efficiency < efficiency_least) || gpus < 2)
        return 0;
    (void)fprintf(out,
                  "  * %" PRId64 " GPUs did the work of %.1f: see --scaling, "
                  "and give\n    resources.gpus a range.\n",
                  gpus, efficiency * (double)gpus);
    return 1;
}

/* The signal that warned its last attempt of the time limit and ended it early;
 * 0: none. */
static int warning_of(const json_t *reply)
{
    const json_t *job = json_object_get(reply, "job");
    int64_t attempt = field_int(job, "attempt", 0);
    int signo = 0;
    size_t i;
    json_t *e;
    if (!(field_real(job, "elapsed_s") < field_real(job, "limit_s")))
        return 0;
    json_array_foreach(json_object_get(reply, "events"), i, e)
    {
        const char *what = field_str(e, "event");
        if (field_int(e, "attempt", 0) != attempt)
            continue;
        if (strcmp(what, "limit") == 0)
            return 0;
        if (strcmp(what, "warn") == 0)
            signo =
                (int)field_int(json_object_get(e, "detail"), "signal", signo);
    }
    /* Training writes a checkpoint on USR1, and continues. */
    return strcmp(field_str(job, "kind"), "command") != 0 && signo == SIGUSR1
               ? 0
               : signo;
}

/* Training ends on TERM, with a checkpoint, as intended. */
static void note_warning(FILE *out, const json_t *job, int signo,
                         const char *limit)
{
    const char *name = sigabbrev_np(signo);
    bool is_heeded =
        strcmp(field_str(job, "kind"), "command") != 0 && signo == SIGTERM;
    (void)fprintf(out,
                  "  * It ended at SIG%s, which warned of its time limit of "
                  "%s:\n    %s.\n",
                  name ? name : "?", limit,
                  is_heeded ? "raise resources.time_limit, or lower "
                              "resources.warn_before"
                            : "let the program handle it, or leave out "
                              "resources.warn_signal");
}

static int note_limit(FILE *out, const json_t *reply)
{
    const json_t *job = json_object_get(reply, "job");
    char ran[32], limit[32], less[32];
    enum job_state state = JOB_NEW;
    double ran_s = field_real(job, "elapsed_s");
    double limit_s = field_real(job, "limit_s");
    (void)job_state_from_name(field_str(job, "state"), &state);
    render_duration(ran_s, ran, sizeof(ran));
    render_duration(limit_s, limit, sizeof(limit));
    int signo = state == JOB_TIMEOUT ? warning_of(reply) : 0;
    if (signo > 0) {
        note_warning(out, job, signo, limit);
        return 1;
    }
    if (state == JOB_TIMEOUT) {
        (void)fprintf(out,
                      "  * It ended at its time limit of %s: raise "
                      "resources.time_limit.\n",
                      limit);
        return 1;
    }
    if (state != JOB_COMPLETED || !(ran_s < limit_least * limit_s))
        return 0;
    /* One and a half times what it took, in whole minutes. */
    render_duration(60 * ceil(1.5 * ran_s / 60), less, sizeof(less));
    (void)fprintf(out,
                  "  * It used %s of a time limit of %s: %s would let it "
                  "start\n    earlier where time is scarce.\n",
                  ran, limit, less);
    return 1;
}

/* Explains why the figures of a short job are unreliable; there is nothing to
 * change. */
static void tell_warm_up(FILE *out, const struct figures *f)
{
    double share = f->warm_up / (f->warm_up + f->iter);
    if (f->n > 0 && f->iter > 0 && share > warm_up_least)
        (void)fprintf(out,
                      "  An attempt's first three iterations, %.0f %% of the "
                      "time, warm up: they are\n  left out here, and not in "
                      "--gpus.\n",
                      100 * share);
}

/* Not of one machine, where they may be slots of the CPU. */
static int note_gpus(FILE *out, const json_t *reply, const struct figures *f)
{
    const json_t *job = json_object_get(reply, "job");
    const char *id = field_str(job, "native_id");
    enum job_state state = JOB_NEW;
    bool is_slurm = *id && id[strspn(id, "0123456789")] == '\0';

    (void)job_state_from_name(field_str(job, "state"), &state);
    if (!is_slurm || field_int(job, "gpus", 0) < 1 || isfinite(f->gpus.busy) ||
        strcmp(field_str(job, "kind"), "command") != 0)
        return 0;
    (void)fputs(job_state_is_final(state)
                    ? "  * How busy its GPUs were is not known: no worker of "
                      "its last attempt could\n    ask NVML and report it; "
                      "the job's log has the reason.\n"
                    : "  * How busy its GPUs are is known at the end of its "
                      "attempt, from NVML.\n",
                out);
    return 1;
}

/* Prints all notes; *ret_n: how many. */
static void all_notes(FILE *out, const json_t *reply, const struct figures *f,
                      double efficiency, int *ret_n)
{
    const json_t *job = json_object_get(reply, "job");
    int64_t gpus = field_int(job, "gpus", 0);
    int n = 0;
    if (f->n > 0 && f->iter > 0)
        n += note_data(out, job, f) + note_copy(out, job, f) +
             note_comm(out, gpus, f) + note_late(out, f) +
             gpu_figures_note(out, job, &f->gpus, f->compute / f->iter,
                              fmax(f->comm, fmax(f->data, f->copy)) / f->iter);
    n += note_efficiency(out, gpus, efficiency) + note_limit(out, reply) +
         note_gpus(out, reply, f);
    *ret_n = n;
}

/* A string for each " * note\n continued\n". own json_decref(); NULL: out of
 * memory */
static json_t *note_list(char *text)
{
    json_t *list = json_array();
    for (char *at = text; list && *at;) {
        char *to = at, *end = strstr(at + 1, "\n  * ");
        char *next = end ? end + 1 : at + strlen(at);
        char *from = at + strspn(at, " *");
        for (char *p = from; p < next; p++) {
            bool is_blank = *p == ' ' || *p == '\n';
            if (!is_blank)
                *to++ = *p;
            else if (to > at && to[-1] != ' ')
                *to++ = ' ';
        }
        while (to > at && to[-1] == ' ')
            to--;
        if (json_array_append_new(list, json_stringn(at, (size_t)(to - at))) <
            0) {
            json_decref(list);
            list = NULL;
        }
        at = next;
    }
    return list;
}

static int put_members(json_t *row, const json_t *job)
{
    static const char *const members[] = {
        "id", "display_id", "name", "user", "state", "gpus", "limit_s"};
    int bad = 0;
    for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++) {
        json_t *v = json_object_get(job, members[i]);
        bad |= json_object_set_new(row, members[i],
                                   v ? json_incref(v) : json_null());
    }
    return bad;
}

static int put_shares(json_t *row, const json_t *reply, const struct figures *f,
                      double efficiency)
{
    const json_t *job = json_object_get(reply, "job");
    double whole = f->n > 0 && f->iter > 0 ? f->iter : NAN;
    double used = field_real(job, "elapsed_s") / field_real(job, "limit_s");
    const struct {
        const char *name;
        double share;
    } shares[] = {
        {"computing", f->compute / whole},
        {"waiting_for_data", f->data / whole},
        {"copying", f->copy / whole},
        {"waiting_for_ranks", f->comm / whole},
        {"efficiency", field_int(job, "gpus", 0) > 1 ? efficiency : NAN},
        {"gpus_busy", f->gpus.busy},
        {"gpu_memory", f->gpus.memory},
        {"sol", f->gpus.limit},
        {"cpu", cpu_of(reply)},
        {"limit_used", used},
    };
    int bad = 0;
    for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++)
        bad |= json_object_set_new(row, shares[i].name,
                                   isfinite(shares[i].share)
                                       ? json_real(shares[i].share)
                                       : json_null());
    return bad;
}

int show_eff_row(const json_t *reply, const json_t *iterations,
                 const json_t *scaling, json_t **ret, struct error *err)
{
    const json_t *job = json_object_get(reply, "job");
    double efficiency = efficiency_of(scaling, field_int(job, "gpus", 0));
    struct figures *f = calloc(1, sizeof(*f));
    char *text = NULL;
    size_t len = 0;
    FILE *mem = f ? open_memstream(&text, &len) : NULL;
    json_t *row = mem ? json_object() : NULL;
    int n = 0, bad = row ? 0 : -1;
    if (mem) {
        gather(reply, iterations, f);
        all_notes(mem, reply, f, efficiency, &n);
        bad |= fclose(mem);
    }
    if (!bad)
        bad = put_members(row, job) | put_shares(row, reply, f, efficiency) |
              json_object_set_new(row, "notes", note_list(text));
    free(text);
    free(f);
    if (bad) {
        json_decref(row);
        return error_set(err, ERR_NOMEM, "efficiency");
    }
    *ret = row;
    return 0;
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
    double efficiency = efficiency_of(scaling, gpus);
    struct figures *f = calloc(1, sizeof(*f));
    if (!f)
        return error_set(err, ERR_NOMEM, "figures");
    gather(reply, iterations, f);
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
    known_bar(s, "CPU", cpu_of(reply));
    known_bar(s, "time limit used",
              field_real(job, "elapsed_s") / field_real(job, "limit_s"));
    (void)fputs("Notes\n", s->out);
    int n = 0;
    tell_warm_up(s->out, f);
    all_notes(s->out, reply, f, efficiency, &n);
    if (n == 0)
        (void)fputs("  nothing stands out\n", s->out);
    free(f);
    return 0;
}
