/* class_models.h - a throughput model for each class of jobs and type of GPU.
 */
#ifndef MGPU_SCHEDULER_ENGINE_TABLE_CLASS_MODELS_H
#define MGPU_SCHEDULER_ENGINE_TABLE_CLASS_MODELS_H

#include "jobs/base/error.h"
#include "scheduler/policy/policy.h"

struct engine;
struct job_record;
struct store_event;

/* 44 MB at most, a quarter of it of programs: so a long sweep leaves room for
 * them. A class that comes later is never measured. */
enum { MODELS_MAX = 8192, MODELS_PROGRAMS = MODELS_MAX / 4 };
/* Sizes of a curve: one node's, then whole nodes. */
enum { CURVE_MAX = 96 };

struct eng_model {
    struct eng_model *next; /* in its bucket */
    char *class;            /* owned */
    char gpu_type[32];
    struct throughput m;
    /* Of the program of its jobs, on the same type (program_models.c). */
    struct eng_model *program;    /* borrowed; NULL: none, or not looked for */
    struct throughput *borrowing; /* owned; m with what the program has run
                                      on; NULL: it needs nothing so far */
    uint64_t untyped_of;          /* eng_models.n_untyped of the last look */
    bool needs_fit;               /* rows were told since the last fit */
    /* Finished runs: their number and the mean of their work, in the model's
     * units. */
    int64_t n_done;
    double done_units;
    /* The curve of the last view that asked for it. */
    uint64_t curve_of;
    struct policy_curve curve;
    struct policy_rate rates[CURVE_MAX];
    /* The types of GPUs in the order in which jobs of the class try them, and
     * at the end any nodes; of the last view that asked for it (job_curves.c).
     */
    uint64_t order_of;
    size_t n_types; /* 0: nothing tells one from the other */
    uint64_t sets[POLICY_CLASSES + 1];
    uint8_t types[POLICY_CLASSES]; /* indexes of node_classes.types */
};

enum { MODEL_BUCKETS = 1024 };
struct eng_models { /* all zero: empty */
    struct eng_model *buckets[MODEL_BUCKETS];
    size_t n, n_programs; /* n: of both */
    uint64_t n_views;
    uint64_t n_untyped; /* sizes taught of classes without a type of GPU */
};

void eng_models_clear(struct eng_models *t);
/* NULL: there is none. Fits its curve if rows were told: at a start thousands
 * are, of classes that no job may ever have again. */
struct eng_model *eng_models_find(const struct eng_models *t, const char *class,
                                  const char *gpu_type);
/* The model, new if there was none. Runs that were recorded before they had a
 * type of GPU count for each type, on the sizes that it has not been measured
 * on. err  ERR_LIMIT, ERR_NOMEM */
int eng_models_get(struct eng_models *t, const char *class,
                   const char *gpu_type, bool is_weak, struct eng_model **ret,
                   struct error *err) MUST_CHECK;

/* The type of the GPUs that the job has; before, that it would get; "": not
 * known. */
const char *eng_model_type(const struct engine *e,
                           const struct job_record *rec);
/* That of the job itself, or of its class; NULL: there is none. */
struct eng_model *eng_model_of(const struct engine *e,
                               const struct job_record *rec);
/* ---- program_models.c ---------------------------------------------------- */
/* Names the model of the job's program to m, that of its class. Users with the
 * same command have one class and a program each: the last call counts. */
void eng_program_link(struct engine *e, const struct job_record *rec,
                      struct eng_model *m);
/* The model of its program on a type; NULL: there is none. */
struct eng_model *eng_program_find(const struct engine *e,
                                   const struct job_record *rec,
                                   const char *gpu_type);
/* The model of its program on the GPUs that it has, new if there was none;
 * NULL: it has no program, or there is no room. */
struct eng_model *eng_program_of(struct engine *e,
                                 const struct job_record *rec);
/* The same; m, that of its class, may have it already. */
const struct eng_model *eng_program_look(const struct engine *e,
                                         const struct job_record *rec,
                                         const struct eng_model *m);
/* What is known of the class: what it has run on, and for other sizes what its
 * program has. Valid until the next call that changes e. */
const struct throughput *eng_program_speed(struct eng_model *m);

/* Units of work of the whole job, and of what is left of it; NAN: unknown. */
struct eng_work {
    double all, left;
};
struct eng_work eng_work_of(const struct job_record *rec,
                            const struct eng_model *m);
/* Seconds that the rest of the job takes on this size, by the speed of its
 * class; NAN: the speed or the length is not known. An assumed speed is none.
 */
double eng_left_s(const struct engine *e, const struct job_record *rec,
                  int32_t nodes, int32_t gpus);
/* A job that has completed adds its length to the mean of its class. */
void eng_models_note(struct engine *e, const struct job_record *rec,
                     const struct store_event *ev);

#endif
