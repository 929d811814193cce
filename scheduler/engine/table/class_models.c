/* class_models.c - see class_models.h, and teach.h for who tells what. */
#include "scheduler/engine/table/class_models.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/teach.h"

static size_t bucket_of(const char *class, const char *gpu_type)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */

    for (const char *p = class; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    for (const char *p = gpu_type; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    return (size_t)(h ^ h >> 32) % MODEL_BUCKETS;
}

void eng_models_clear(struct eng_models *t)
{
    for (size_t i = 0; i < MODEL_BUCKETS; i++) {
        struct eng_model *next;
        for (struct eng_model *m = t->buckets[i]; m; m = next) {
            next = m->next;
            free(m->borrowing);
            free(m->class);
            free(m);
        }
    }
    *t = (struct eng_models){.n = 0};
}

static struct eng_model *look_up(const struct eng_models *t, const char *class,
                                 const char *gpu_type)
{
    struct eng_model *m = t->buckets[bucket_of(class, gpu_type)];

    while (m &&
           (strcmp(m->class, class) != 0 || strcmp(m->gpu_type, gpu_type) != 0))
        m = m->next;
    return m;
}

struct eng_model *eng_models_find(const struct eng_models *t, const char *class,
                                  const char *gpu_type)
{
    struct eng_model *m = look_up(t, class, gpu_type);

    if (m && m->needs_fit) {
        throughput_fit(&m->m);
        m->needs_fit = false;
    }
    return m;
}

static void add_untyped(const struct eng_models *t, struct eng_model *m)
{
    const struct eng_model *u = NULL;

    if (m->untyped_of == t->n_untyped || m->gpu_type[0] == '\0')
        return;
    m->untyped_of = t->n_untyped;
    u = look_up(t, m->class, "");
    if (!u)
        return;
    for (int32_t i = 0; i < u->m.n; i++) {
        const struct throughput_row *row = &u->m.rows[i];
        if (!throughput_row(&m->m, row->nodes, row->per_node))
            (void)throughput_set(&m->m, row);
    }
    m->needs_fit = true;
}

static bool is_program(const char *class)
{
    return strncmp(class, "program/", 8) == 0;
}

static bool has_room(const struct eng_models *t, const char *class)
{
    return is_program(class)
               ? t->n_programs < MODELS_PROGRAMS
               : t->n - t->n_programs < MODELS_MAX - MODELS_PROGRAMS;
}

int eng_models_get(struct eng_models *t, const char *class,
                   const char *gpu_type, bool is_weak, struct eng_model **ret,
                   struct error *err)
{
    char type[sizeof((*ret)->gpu_type)];

    text_copy(type, sizeof(type), gpu_type);
    struct eng_model *m = look_up(t, class, type);
    if (!m && !has_room(t, class))
        return error_set(err, ERR_LIMIT, "no room for class '%.100s'", class);
    if (!m) {
        struct eng_model **at = &t->buckets[bucket_of(class, type)];
        m = calloc(1, sizeof(*m));
        if (!m || !(m->class = strdup(class))) {
            free(m);
            return error_set(err, ERR_NOMEM, "out of memory");
        }
        memcpy(m->gpu_type, type, sizeof(type));
        m->m.is_weak = is_weak;
        m->next = *at;
        *at = m;
        t->n++;
        t->n_programs += is_program(class);
    }
    add_untyped(t, m);
    *ret = m;
    return 0;
}

static void drop(struct eng_models *t, const char *class)
{
    struct eng_model **at = &t->buckets[bucket_of(class, "")];

    while (*at && (strcmp((*at)->class, class) != 0 || (*at)->gpu_type[0]))
        at = &(*at)->next;
    struct eng_model *m = *at;
    if (!m)
        return;
    *at = m->next;
    t->n--;
    free(m->borrowing);
    free(m->class);
    free(m);
}

/* ---- of a job -------------------------------------------------------------
 */
/* The first type of the inventory that has GPUs. */
static const char *first_type(const struct engine *e)
{
    for (size_t i = 0; i < e->n_nodes; i++)
        if (e->nodes[i].gpus_total > 0)
            return e->nodes[i].gpu_type;
    return "";
}

/* The type as the inventory spells it. */
static const char *as_known(const struct engine *e, const char *type)
{
    for (size_t i = 0; i < e->n_nodes; i++)
        if (strcasecmp(e->nodes[i].gpu_type, type) == 0)
            return e->nodes[i].gpu_type;
    return type;
}

const char *eng_model_type(const struct engine *e, const struct job_record *rec)
{
    const struct job *job = &rec->job;
    const char *asked = eng_where(e->parts.conf, job, 1).gpu_type;

    if (job->on_type[0] && job->state != JOB_QUEUED && job->state != JOB_HELD)
        return job->on_type;
    return asked && asked[0] ? as_known(e, asked) : first_type(e);
}

static struct eng_model *class_model(const struct engine *e,
                                     const struct job_record *rec)
{
    struct eng_model *m = NULL;

    if (!rec->own.class)
        return NULL;
    m = eng_models_find(&e->models, rec->own.class, eng_model_type(e, rec));
    if (!m) /* it has run before runs had a type, or not at all */
        return eng_models_find(&e->models, rec->own.class, "");
    add_untyped(&e->models, m);
    return m;
}

/* "job/12": no class is named so. */
enum { OWN_CAP = 32 };
static const char *own_name(const struct job_record *rec, char ret[OWN_CAP])
{
    (void)snprintf(ret, OWN_CAP, "job/%" PRIu64, rec->job.id);
    return ret;
}

struct eng_model *eng_model_of(const struct engine *e,
                               const struct job_record *rec)
{
    char name[OWN_CAP];

    return rec->has_own_rates
               ? eng_models_find(&e->models, own_name(rec, name), "")
               : class_model(e, rec);
}

/* Iterations of the whole job; 0: unknown. */
static int64_t total_of(const struct job_record *rec)
{
    return rec->job.iterations_total > 0 ? rec->job.iterations_total
                                         : rec->iterations_expected;
}

struct eng_work eng_work_of(const struct job_record *rec,
                            const struct eng_model *m)
{
    const struct job *job = &rec->job;
    int32_t gpus = job->gpus > 0 ? job->gpus : 1;
    double unit = m->m.is_weak ? gpus : 1;
    double done = (double)job->iteration, all = (double)total_of(rec);
    double of_class = m->n_done > 0 ? m->done_units : 0;

    if (!(all > 0) && of_class > 0)
        return (struct eng_work){of_class, fmax(of_class - done * unit, unit)};
    if (!(all > 0))
        return (struct eng_work){NAN, NAN};
    double left = fmax(all - done, 1); /* it ends soon */
    return (struct eng_work){all * unit, left * unit};
}

double eng_left_s(const struct engine *e, const struct job_record *rec,
                  int32_t nodes, int32_t gpus)
{
    struct eng_model *m = eng_model_of(e, rec);

    if (!m || nodes < 1 || gpus < 1 || gpus % nodes != 0)
        return NAN;
    struct throughput_rate r =
        throughput_rate(eng_program_speed(m), nodes, gpus / nodes);
    return r.basis == RATE_ASSUMED || !(r.per_s > 0)
               ? (double)NAN
               : eng_work_of(rec, m).left / r.per_s;
}

bool engine_is_weak(const struct job *job)
{
    return job->parts == 0 && strcmp(job->kind, "command") != 0;
}

const struct throughput *engine_throughput(const struct engine *e,
                                           const struct job *job)
{
    const struct job_record *rec = eng_find(e, job->id);
    const struct eng_model *m = rec ? class_model(e, rec) : NULL;

    return m ? &m->m : NULL;
}

const char *engine_model_class(const struct engine *e, const struct job *job)
{
    const struct job_record *rec = eng_find(e, job->id);

    return rec ? rec->own.class : NULL;
}

const char *engine_model_type(const struct engine *e, const struct job *job)
{
    const struct job_record *rec = eng_find(e, job->id);

    return rec ? eng_model_type(e, rec) : "";
}

/* ---- teaching -------------------------------------------------------------
 */
int engine_teach(struct engine *e, const char *class, const char *gpu_type,
                 bool is_weak, const struct throughput_row *row,
                 struct error *err)
{
    struct eng_model *m;
    struct throughput one = {.n = 0};

    if (strncmp(class, "job/", 4) == 0 || !throughput_set(&one, row))
        return error_set(err, ERR_INVAL,
                         "class '%.100s': no iteration time of a size", class);
    if (eng_models_get(&e->models, class, gpu_type, is_weak, &m, err) < 0)
        return -1;
    if (!throughput_set(&m->m, row))
        return error_set(err, ERR_LIMIT, "class '%.100s': over %d sizes", class,
                         THROUGHPUT_SIZES);
    m->needs_fit = true;
    e->models.n_untyped += gpu_type[0] == '\0';
    return 0;
}

/* The first iteration that the attempt reported, or the first that is told:
 * warm-up counts from there. */
static int64_t first_of(struct job_record *rec, int64_t from)
{
    bool is_known = rec->pace_of == rec->job.attempt;

    return is_known && rec->pace_iteration - 1 < from ? rec->pace_iteration - 1
                                                      : from;
}

int engine_teach_iterations(struct engine *e, uint64_t id, int32_t attempt,
                            int64_t from, int64_t n, double t_iter_s,
                            struct error *err)
{
    struct job_record *rec = eng_find(e, id);
    struct eng_model *m;

    if (!rec || rec->job.attempt != attempt || rec->job.gpus < 1 ||
        rec->job.nodes < 1 || !rec->own.class ||
        !job_state_is_live(rec->job.state))
        return 0;
    if (rec->taught_of != attempt) {
        rec->taught_of = attempt;
        rec->taught_from = first_of(rec, from);
    }
    int64_t cold = rec->taught_from + THROUGHPUT_WARM_UP - from;
    n -= cold > 0 ? cold : 0;
    if (n < 1)
        return 0;
    if (eng_models_get(&e->models, rec->own.class, eng_model_type(e, rec),
                       engine_is_weak(&rec->job), &m, err) < 0)
        return -1;
    throughput_add(&m->m, rec->job.nodes, rec->job.gpus / rec->job.nodes,
                   t_iter_s, n);
    m = eng_program_of(e, rec);
    if (m)
        throughput_add(&m->m, rec->job.nodes, rec->job.gpus / rec->job.nodes,
                       t_iter_s, n);
    return 0;
}

int engine_teach_job(struct engine *e, uint64_t id,
                     const struct throughput_row *rows, size_t n,
                     struct error *err)
{
    struct job_record *rec = eng_find(e, id);
    struct eng_model *m;
    char name[OWN_CAP];

    if (!rec || job_state_is_final(rec->job.state))
        return 0;
    if (eng_models_get(&e->models, own_name(rec, name), "",
                       engine_is_weak(&rec->job), &m, err) < 0)
        return -1;
    rec->has_own_rates = true;
    m->m.n = 0;
    for (size_t i = 0; i < n; i++)
        if (!throughput_set(&m->m, &rows[i]))
            return error_set(err, ERR_INVAL,
                             "job %" PRIu64 ": no iteration time of a size",
                             id);
    throughput_fit(&m->m);
    return 0;
}

void engine_teach_length(struct engine *e, uint64_t id, int64_t iterations)
{
    struct job_record *rec = eng_find(e, id);

    if (rec && iterations > 0)
        rec->iterations_expected = iterations;
}

static void note_done(struct eng_model *m, int32_t gpus, int64_t iterations)
{
    double units = (double)iterations * (m->m.is_weak ? gpus : 1);

    m->n_done++;
    m->done_units += (units - m->done_units) / (double)m->n_done;
}

void eng_models_note(struct engine *e, const struct job_record *rec,
                     const struct store_event *ev)
{
    char name[OWN_CAP];

    if (!job_state_is_final(rec->job.state))
        return;
    if (rec->has_own_rates)
        drop(&e->models, own_name(rec, name));
    if (ev->ev != EV_FINISH || rec->job.iteration < 1 || !rec->own.class)
        return;
    struct eng_model *m;
    if (eng_models_get(&e->models, rec->own.class, eng_model_type(e, rec),
                       engine_is_weak(&rec->job), &m, NULL) == 0)
        note_done(m, rec->job.gpus, rec->job.iteration);
    m = eng_program_of(e, rec);
    if (m)
        note_done(m, rec->job.gpus, rec->job.iteration);
}
