/* sacct_trace.c - read what Slurm recorded, as sacct(1) prints it with
 * --parsable2.
 *
 * The header names the columns, in any order. With --duplicates a job that was
 * requeued has several lines: the first one has the submit and the last one the
 * length, because a simulation does not repeat what ended the others. The
 * components of a heterogeneous job start together, so they are one job with
 * all their GPUs. Lines of steps are left out.
 *
 * sacct prints times of its machine's zone, without naming it; they are read as
 * times of this process's zone (TZ). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jobs/text/scalar.h"
#include "jobs/text/text.h"
#include "jobs/text/timestamp.h"
#include "scheduler/sim/trace/digits.h"
#include "scheduler/sim/trace/sim_trace.h"
#include "scheduler/sim/trace/slurm_text.h"

enum { GPUS_MAX = 65536, NODES_MAX = 65536 };
static const double TIME_MAX_S = 1e10, LENGTH_MAX_S = 10 * 365.0 * 86400;

enum column {
    COL_ID,
    COL_SUBMIT,
    COL_START,
    COL_STATE,
    COL_ALLOC,
    COL_END,
    COL_ELAPSED,
    COL_REQ,
    COL_ELIGIBLE,
    COL_LIMIT,
    COL_NODES,
    COL_USER,
    COL_NAME,
    COLUMNS
};
/* Those before COL_END must be there, and one of End and Elapsed. */
static const char *const names[COLUMNS] = {
    [COL_ID] = "JobID",          [COL_SUBMIT] = "Submit",
    [COL_START] = "Start",       [COL_STATE] = "State",
    [COL_ALLOC] = "AllocTRES",   [COL_END] = "End",
    [COL_ELAPSED] = "Elapsed",   [COL_REQ] = "ReqTRES",
    [COL_ELIGIBLE] = "Eligible", [COL_LIMIT] = "Timelimit",
    [COL_NODES] = "NNodes",      [COL_USER] = "User",
    [COL_NAME] = "JobName"};

/* Which job a line belongs to. */
struct place {
    uint64_t id;
    int64_t task;      /* of an array; -1: none */
    int64_t component; /* of a heterogeneous job; -1: none */
    double start_s;    /* of this run */
    bool is_resizing;  /* the next run goes on with it, on other GPUs */
    size_t job;        /* in the trace */
};

struct reader {
    struct lines *l;
    struct sim_trace *t;
    size_t field[COLUMNS]; /* SIZE_MAX: the file has no such column */
    size_t n_fields;
    struct place *places; /* owned; one for each job of the trace */
    size_t cap;
};

/* ---- fields ---------------------------------------------------------------
 */
/* "": the column is not there. */
static const char *text_at(const struct reader *r, enum column c)
{
    return r->field[c] < r->l->n ? r->l->field[r->field[c]] : "";
}

static int bad(const struct reader *r, enum column c, const char *allowed,
               struct error *err)
{
    char quoted[TEXT_QUOTE_CAP];
    return lines_error(r->l, r->field[c], err, "%s: '%s' is not %s", names[c],
                       text_quote(quoted, sizeof(quoted), text_at(r, c)),
                       allowed);
}

/* NAN: sacct does not know it, or there is no such column. */
static int moment(const struct reader *r, enum column c, double *ret,
                  struct error *err)
{
    const char *s = text_at(r, c);
    struct when when;
    int64_t n;

    *ret = NAN;
    if (slurm_text_is_unknown(s))
        return 0;
    if (scalar_int(s, &n) == 0) /* SLURM_TIME_FORMAT=%s */
        *ret = (double)n;
    else if (timestamp_parse(s, &when, NULL, NULL) == 0 && !when.is_after)
        *ret = when.s;
    else if (!slurm_text_time(s, ret))
        return bad(r, c, "a time, such as 2026-11-01T08:00:00", err);
    return *ret >= 0 && *ret <= TIME_MAX_S
               ? 0
               : bad(r, c, "a time of this epoch", err);
}

/* absent: the column is not there, or has no value. */
static int span(const struct reader *r, enum column c, double absent,
                double *ret, struct error *err)
{
    const char *s = text_at(r, c);

    *ret = absent;
    if (slurm_text_is_unknown(s) || strcasecmp(s, "UNLIMITED") == 0 ||
        strcasecmp(s, "Partition_Limit") == 0 || strcmp(s, "INVALID") == 0)
        return 0;
    return slurm_text_span(s, ret) ? 0 : bad(r, c, "[DAYS-]HH:MM:SS", err);
}

static int tres(const struct reader *r, enum column c, const char *key,
                int32_t *ret, struct error *err)
{
    return slurm_text_tres(text_at(r, c), key, GPUS_MAX, ret)
               ? 0
               : bad(r, c, "a list such as cpu=8,gres/gpu=4", err);
}

/* "123", "123_4", "123+1", "123_4+1", "123_[5-9%2]". out  ret_part  a step's */
static int job_id(const struct reader *r, struct place *ret, bool *ret_part,
                  struct error *err)
{
    const char *s = text_at(r, COL_ID), *p = s;
    int32_t id, n = -1;

    *ret = (struct place){.task = -1, .component = -1};
    *ret_part = strchr(s, '.') != NULL;
    if (*ret_part)
        return 0;
    bool ok = digits_take(&p, INT32_MAX, &id);
    ret->id = ok ? (uint64_t)id : 0;
    if (ok && *p == '_' && p[1] == '[') { /* tasks that have not started */
        p += strlen(p);
    } else if (ok && *p == '_') {
        p++;
        ok = digits_take(&p, INT32_MAX, &n);
        ret->task = n;
    }
    if (ok && *p == '+') {
        p++;
        ok = digits_take(&p, INT32_MAX, &n);
        ret->component = n;
    }
    return ok && *p == '\0' ? 0 : bad(r, COL_ID, "a job, such as 123_4", err);
}

/* Copies as much as fits, and never a part of a character. */
static void copy_text(const char *s, char *ret, size_t cap)
{
    const char *p = s, *end = s + strlen(s);
    size_t n = 0;

    while (p < end) {
        const char *from = p;
        int32_t cp = text_next(&p, end);
        size_t len = (size_t)(p - from);
        bool is_plain = cp >= 0 && !text_is_control(cp);
        if (n + (is_plain ? len : 1) >= cap)
            break;
        memcpy(ret + n, is_plain ? from : "?", is_plain ? len : 1);
        n += is_plain ? len : 1;
    }
    ret[n] = '\0';
}

/* ---- records --------------------------------------------------------------
 */
/* Adds the job of the line, with the time since 1970. */
static int add(struct reader *r, const struct place *at,
               const struct sim_job *job, struct error *err)
{
    if (!r->places || r->t->n >= r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 256;
        struct place *p = calloc(cap, sizeof(*p));
        if (!p)
            return error_set(err, ERR_NOMEM, "trace of %zu jobs", cap);
        if (r->places)
            memcpy(p, r->places, r->t->n * sizeof(*p));
        free(r->places);
        r->places = p;
        r->cap = cap;
    }
    r->places[r->t->n] = *at;
    r->places[r->t->n].job = r->t->n;
    r->places[r->t->n].start_s = job->recorded_start_s;
    return sim_trace_add(r->t, job, err);
}

/* GPUs, nodes and who; the class is "USER/NAME/GPUS", whose jobs have the same
 * unit of work.  gpus 0: it had none */
static int describe(const struct reader *r, struct sim_job *job,
                    struct error *err)
{
    int32_t gpus = 0, nodes = 0;
    int64_t n;

    if (tres(r, COL_ALLOC, "gres/gpu", &gpus, err) < 0 ||
        (gpus == 0 && text_at(r, COL_ALLOC)[0] == '\0' &&
         tres(r, COL_REQ, "gres/gpu", &gpus, err) < 0) ||
        tres(r, COL_REQ, "node", &nodes, err) < 0)
        return -1;
    if (nodes == 0 && scalar_int(text_at(r, COL_NODES), &n) == 0 && n >= 1 &&
        n <= NODES_MAX)
        nodes = (int32_t)n;
    copy_text(text_at(r, COL_ID), job->name, sizeof(job->name));
    job->name[strcspn(job->name, "+")] = '\0'; /* of all components */
    copy_text(text_at(r, COL_USER), job->user, sizeof(job->user));
    copy_text(text_at(r, COL_NAME), job->label, sizeof(job->label));
    if (job->user[0] == '\0')
        (void)snprintf(job->user, sizeof(job->user), "trace");
    job->gpus_min = job->gpus_max = job->work_gpus = gpus;
    job->nodes = nodes;
    return 0;
}

/* When it was submitted, started and ended.
 * out  ret_started  false: it never did */
static int times(const struct reader *r, struct sim_job *job, bool *ret_started,
                 struct error *err)
{
    double submit_s, eligible_s, start_s, end_s, elapsed_s;

    *ret_started = false;
    if (moment(r, COL_SUBMIT, &submit_s, err) < 0 ||
        moment(r, COL_ELIGIBLE, &eligible_s, err) < 0 ||
        moment(r, COL_START, &start_s, err) < 0 ||
        moment(r, COL_END, &end_s, err) < 0 ||
        span(r, COL_ELAPSED, NAN, &elapsed_s, err) < 0 ||
        span(r, COL_LIMIT, INFINITY, &job->limit_s, err) < 0)
        return -1;
    if (isnan(submit_s))
        return bad(r, COL_SUBMIT, "a time", err);
    if (isnan(elapsed_s))
        elapsed_s = end_s - start_s;
    /* A job that was cancelled in the queue has a Start in some versions. */
    if (isnan(start_s) || strcmp(text_at(r, COL_STATE), "PENDING") == 0 ||
        (!(elapsed_s > 0) && text_at(r, COL_ALLOC)[0] == '\0'))
        return 0;
    if (isnan(elapsed_s))
        return lines_error(r->l, r->field[COL_START], err,
                           "the job has started, and neither End nor Elapsed "
                           "says how long it ran");
    /* In the second of two equal hours in autumn. */
    if (start_s < submit_s && start_s + 3600 >= submit_s)
        start_s += 3600;
    job->submit_s =
        eligible_s > submit_s && eligible_s <= start_s ? eligible_s : submit_s;
    if (start_s < job->submit_s || elapsed_s < 0)
        return bad(r, COL_START, "at Submit or later, and before End", err);
    if (elapsed_s > LENGTH_MAX_S)
        return lines_error(r->l, r->field[COL_START], err,
                           "the job ran for over ten years");
    job->work = elapsed_s;
    job->recorded_start_s = start_s;
    /* Elapsed is without the time for which it was suspended. */
    job->recorded_end_s = fmax(start_s + elapsed_s, end_s);
    job->recorded_gpu_s = elapsed_s * job->work_gpus;
    job->is_recorded = true;
    *ret_started = true;
    return 0;
}

static int read_record(struct reader *r, struct error *err)
{
    struct sim_job job = {.work = 0};
    struct place at;
    bool is_part, is_started;
    size_t n = r->l->n;

    /* A name with '|' is only told apart at the end of the line. */
    if (n < r->n_fields ||
        (n > r->n_fields && r->field[COL_NAME] + 1 != r->n_fields))
        return lines_error(r->l, 0, err, "%zu fields, the header has %zu", n,
                           r->n_fields);
    if (job_id(r, &at, &is_part, err) < 0)
        return -1;
    at.is_resizing = strncmp(text_at(r, COL_STATE), "RESIZING", 8) == 0;
    if (is_part) {
        r->t->left_out.parts++;
        return 0;
    }
    if (describe(r, &job, err) < 0 || times(r, &job, &is_started, err) < 0)
        return -1;
    if (!is_started)
        r->t->left_out.never_started++;
    else if (job.gpus_min == 0 && at.component < 0)
        r->t->left_out.without_gpus++;
    else
        return add(r, &at, &job, err);
    return 0;
}

/* ---- jobs of several lines ------------------------------------------------
 */
static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->task != y->task)
        return x->task < y->task ? -1 : 1;
    if (x->component != y->component)
        return x->component < y->component ? -1 : 1;
    if (x->start_s < y->start_s || x->start_s > y->start_s)
        return x->start_s < y->start_s ? -1 : 1;
    return (x->job > y->job) - (x->job < y->job);
}

/* A requeued job: the later run counts, from the first submit on. */
static void join_runs(struct sim_job *into, const struct sim_job *later)
{
    const struct sim_job first = *into;

    *into = *later;
    into->submit_s = fmin(first.submit_s, later->submit_s);
    into->recorded_start_s = first.recorded_start_s;
    into->recorded_gpu_s += first.recorded_gpu_s;
}

/* One run that was resized: as long as its GPU time takes on the size that had
 * most of it. */
static void join_sizes(struct sim_job *into, const struct sim_job *later)
{
    double before = into->work * into->work_gpus;
    double after = later->work * later->work_gpus;

    if (after > before)
        into->gpus_min = into->gpus_max = into->work_gpus = later->gpus_min;
    if (into->work_gpus > 0)
        into->work = (before + after) / into->work_gpus;
    else
        into->work += later->work;
    into->nodes = 0;
    into->recorded_gpu_s += later->recorded_gpu_s;
    into->recorded_end_s = fmax(into->recorded_end_s, later->recorded_end_s);
}

static void join_components(struct sim_job *into, const struct sim_job *other)
{
    int64_t gpus = (int64_t)into->gpus_min + other->gpus_min;

    into->gpus_min = into->gpus_max = into->work_gpus =
        (int32_t)(gpus < GPUS_MAX ? gpus : GPUS_MAX);
    into->nodes = 0;
    into->work = fmax(into->work, other->work);
    into->limit_s = fmax(into->limit_s, other->limit_s);
    into->recorded_gpu_s += other->recorded_gpu_s;
    into->recorded_end_s = fmax(into->recorded_end_s, other->recorded_end_s);
}

/* Joins the lines of each job. Those that are joined to another have work
 * NAN. */
static void join_lines(struct reader *r)
{
    struct sim_job *jobs = r->t->jobs;
    size_t n = r->t->n, run = 0, whole = 0;

    if (!r->places)
        return; /* there is no job */
    qsort(r->places, n, sizeof(*r->places), by_place);
    for (size_t i = 1; i < n; i++) {
        const struct place *a = &r->places[run], *b = &r->places[i];
        if (a->id != b->id || a->task != b->task ||
            a->component != b->component) {
            run = i;
            continue;
        }
        (r->places[i - 1].is_resizing ? join_sizes : join_runs)(&jobs[a->job],
                                                                &jobs[b->job]);
        jobs[b->job].work = NAN;
        r->t->left_out.merged++;
    }
    for (size_t i = 1; i < n; i++) {
        const struct place *a = &r->places[whole], *b = &r->places[i];
        if (isnan(jobs[b->job].work))
            continue;
        if (a->id != b->id || a->task != b->task || b->component < 0) {
            whole = i;
            continue;
        }
        join_components(&jobs[a->job], &jobs[b->job]);
        jobs[b->job].work = NAN;
        r->t->left_out.merged++;
    }
}

/* The first start: what was queued before is there from then on, because a file
 * has the jobs of a while, and nothing of the cluster before. */
static double begin_of(const struct sim_trace *t)
{
    double first_s = INFINITY;

    for (size_t i = 0; i < t->n; i++)
        first_s = fmin(first_s, t->jobs[i].recorded_start_s);
    return first_s;
}

/* Leaves whole jobs with GPUs, in their time since the first start. */
static void finish(struct reader *r)
{
    struct sim_trace *t = r->t;
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++) {
        struct sim_job *job = &t->jobs[i];
        bool is_whole = !isnan(job->work);
        if (is_whole && job->gpus_min == 0)
            t->left_out.without_gpus++;
        if (!is_whole || job->gpus_min == 0)
            continue;
        (void)snprintf(job->class, sizeof(job->class), "%s/%s/%" PRId32,
                       job->user, job->label, job->gpus_min);
        /* Slurm looks at limits now and then. */
        job->limit_s = fmax(job->limit_s, job->work + 1);
        t->jobs[n++] = *job;
    }
    t->n = n;
    t->epoch_s = n > 0 ? begin_of(t) : 0;
    for (size_t i = 0; i < n; i++) {
        struct sim_job *job = &t->jobs[i];
        job->submit_s = fmax(job->submit_s - t->epoch_s, 0);
        job->recorded_start_s -= t->epoch_s;
        job->recorded_end_s -= t->epoch_s;
    }
}

/* ---- header ---------------------------------------------------------------
 */
static int read_header(struct reader *r, struct error *err)
{
    if (!lines_next(r->l, '|'))
        return 0; /* empty: the caller says that it has no job */
    r->n_fields = r->l->n;
    for (int c = 0; c < COLUMNS; c++) {
        r->field[c] = SIZE_MAX;
        for (size_t i = 0; i < r->l->n; i++)
            if (strcasecmp(r->l->field[i], names[c]) == 0)
                r->field[c] = i;
        if (c < COL_END && r->field[c] == SIZE_MAX)
            return lines_error(r->l, 0, err,
                               "the header has no column %s: expected the "
                               "output of sacct --parsable2 --format=...",
                               names[c]);
    }
    if (r->field[COL_END] == SIZE_MAX && r->field[COL_ELAPSED] == SIZE_MAX)
        return lines_error(r->l, 0, err,
                           "the header has neither End nor Elapsed");
    return 0;
}

int sacct_trace_read(struct lines *l, struct sim_trace *t, struct error *err)
{
    struct reader r = {.l = l, .t = t};
    int rc = read_header(&r, err);

    while (rc == 0 && lines_next(l, '|')) {
        struct error why = ERROR_INIT;
        if (read_record(&r, &why) == 0)
            continue;
        if (why.code == ERR_INVAL)
            rc = sim_trace_bad_line(t, &why, err);
        else
            rc = error_set(err, why.code, "%s", why.msg);
    }
    if (rc == 0) {
        join_lines(&r);
        finish(&r);
    }
    free(r.places);
    return rc;
}
