/* advice.c - how efficiently a job used its resources, and which key of its
 * specification would help; see advice.h.
 *
 * A note appears if a figure is so large that a change would be noticeable; the
 * bounds are below.
 */
#include "jobs/advice/advice.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/state.h"
#include "jobs/text/render_time.h"
#include "jobs/wire/cells.h"
#include "jobs/wire/field.h"

enum { WARM_UP = 3, RANKS_MAX = ADVICE_RANKS_MAX };

/* A fifth of the time is worth a change of the specification; less than a tenth
 * is not noticeable. */
static const double data_most = 0.15, copy_most = 0.1, comm_most = 0.3,
                    late_most = 0.2, efficiency_least = 0.6, limit_least = 0.3;

static double cell_of(const json_t *reply, const json_t *row, const char *name)
{
    double v = show_cell(row, cells_column(reply, name));
    return isfinite(v) ? v : 0;
}

/* Sums of phases that no row has are unknown. */
static void drop_unknown(const json_t *reply, struct advice_figures *f)
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

static void keep_work(struct work *w, struct advice_figures *f)
{
    if (w->ranks > 1) {
        f->late_ranks = w->ranks;
        for (int r = 0; r < w->ranks; r++)
            f->rank_s[r] =
                w->n[r] > 0 ? w->rank_s[r] / (double)w->n[r] : (double)NAN;
    }
    *w = (struct work){.ranks = 0};
}

void advice_gather(const json_t *reply, const json_t *iterations,
                   struct advice_figures *f)
{
    const json_t *rows = json_object_get(iterations, "rows");
    struct work work = {.ranks = 0};
    double first = NAN;
    int attempt = 0;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) /* attempt by attempt */
    {
        double at = show_cell(row, cells_column(iterations, "iteration"));
        int rank = (int)cell_of(iterations, row, "rank");
        int of = (int)cell_of(iterations, row, "attempt");
        first = isnan(first) || of != attempt ? at : first;
        if (of != attempt)
            keep_work(&work, f);
        attempt = of;
        double iter = cell_of(iterations, row, "t_iter");
        if (at < first + (double)WARM_UP)
            f->warm_up += iter;
        if (at < first + (double)WARM_UP || rank < 0 || rank >= RANKS_MAX)
            continue;
        double comm = cell_of(iterations, row, "t_comm");
        f->iter += iter;
        f->comm += comm;
        f->data += cell_of(iterations, row, "t_data");
        f->copy += cell_of(iterations, row, "t_h2d");
        f->compute += cell_of(iterations, row, "t_forward") +
                      cell_of(iterations, row, "t_backward") +
                      cell_of(iterations, row, "t_optimizer");
        work.rank_s[rank] += iter - comm;
        work.n[rank]++;
        work.ranks = rank + 1 > work.ranks ? rank + 1 : work.ranks;
        f->ranks = rank + 1 > f->ranks ? rank + 1 : f->ranks;
        f->n++;
    }
    keep_work(&work, f);
    drop_unknown(iterations, f);
    f->gpus = gpu_figures_of(reply, iterations);
}

/* CPU usage from the final report of the last attempt's worker; if there is
 * none, from the event of its end; NAN: unknown. */
double advice_cpu(const json_t *reply)
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

/* The efficiency measured at the size of this job; NAN without a smaller size
 * to compare with. */
double advice_scaling(const json_t *scaling, int64_t gpus)
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

static int note_data(FILE *out, const json_t *job,
                     const struct advice_figures *f)
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

static int note_copy(FILE *out, const json_t *job,
                     const struct advice_figures *f)
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

static int note_comm(FILE *out, int64_t gpus, const struct advice_figures *f)
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
static int note_late(FILE *out, const struct advice_figures *f)
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

/* Not of one machine, where they may be slots of the CPU. */
static int note_gpus(FILE *out, const json_t *reply,
                     const struct advice_figures *f)
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

int advice_notes(FILE *out, const json_t *reply, const struct advice_figures *f,
                 double efficiency)
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
    return n;
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

static int put_shares(json_t *row, const json_t *reply,
                      const struct advice_figures *f, double efficiency)
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
        {"cpu", advice_cpu(reply)},
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

int advice_row(const json_t *reply, const json_t *iterations,
               const json_t *scaling, json_t **ret, struct error *err)
{
    const json_t *job = json_object_get(reply, "job");
    double efficiency = advice_scaling(scaling, field_int(job, "gpus", 0));
    struct advice_figures *f = calloc(1, sizeof(*f));
    char *text = NULL;
    size_t len = 0;
    FILE *mem = f ? open_memstream(&text, &len) : NULL;
    json_t *row = mem ? json_object() : NULL;
    int bad = row ? 0 : -1;
    if (mem) {
        advice_gather(reply, iterations, f);
        (void)advice_notes(mem, reply, f, efficiency);
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
