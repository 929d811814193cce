/* spec.h - a job specification: what a user writes, mgpu-job(5).
 *
 * One table in spec_table.c names every key with its type, unit, default,
 * range and one line of doc; the parser, --set, --show, the canonical dump
 * and the check of the man page all read it. Scalars are typed by that
 * table, never by YAML's own rules.
 *
 * The canonical dump is JSON with every value present and paths absolute;
 * JSON is YAML, so spec_parse() reads it back: the daemon validates what it
 * receives with the code that the tool used.
 */
#ifndef MGPU_JOBS_SPEC_SPEC_H
#define MGPU_JOBS_SPEC_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

enum spec_kind { SPEC_CV, SPEC_COMMAND };
enum spec_arch { ARCH_MOBILENET_V2 };
enum spec_source { SOURCE_MNIST, SOURCE_SYNTHETIC, SOURCE_IMAGE_FOLDER };
enum spec_augment { AUGMENT_NONE, AUGMENT_FLIP, AUGMENT_CROP };
enum spec_data_path { DATA_PATH_FAST, DATA_PATH_PAPER };
enum spec_bad_row { BAD_ROW_FAIL, BAD_ROW_SKIP };
enum spec_on_limit { ON_LIMIT_TRUNCATE, ON_LIMIT_FAIL };
enum spec_precision {
    PRECISION_FP64,
    PRECISION_FP32,
    PRECISION_TF32,
    PRECISION_FP16,
    PRECISION_BF16
};
enum spec_distribution { DIST_DDP_DS, DIST_DDP_RR, DIST_DDP, DIST_DP };
enum spec_optimizer { OPTIM_SGD, OPTIM_ADAMW, OPTIM_RMSPROP };
enum spec_metric { METRIC_EVAL_ACCURACY, METRIC_EVAL_LOSS };
enum spec_mode { MODE_AUTO, MODE_MAX, MODE_MIN };
enum spec_on_nan { ON_NAN_FAIL, ON_NAN_SKIP, ON_NAN_WARN };
enum spec_no_decay { NO_DECAY_NONE, NO_DECAY_NORM_BIAS };
enum spec_schedule {
    SCHEDULE_CONSTANT,
    SCHEDULE_COSINE,
    SCHEDULE_STEP,
    SCHEDULE_MULTISTEP
};
enum spec_tristate { TRI_AUTO, TRI_FALSE, TRI_TRUE };
enum spec_profile { PROFILE_OFF, PROFILE_SAMPLED, PROFILE_EPOCH };
enum spec_device { DEVICE_AUTO, DEVICE_CUDA, DEVICE_HOST };

struct spec_range {
    int32_t min, max;
};

struct spec_sizes { /* bytes; 0: that end is open, both: any */
    int64_t min, max;
};

struct spec_pair { /* labels, env */
    char *key, *value;
};
struct spec_map {
    struct spec_pair *pairs;
    size_t n;
};
struct spec_list {
    char **items;
    size_t n;
};
enum { SPEC_NUMBERS_CAP = 16 };
struct spec_numbers {
    int32_t n;
    double v[SPEC_NUMBERS_CAP];
};

enum { SPEC_NAME_CAP = 64 };

/* watchdog.action: what comes of a job that makes no progress. */
enum spec_stall {
    STALL_AUTO, /* spec_stall_ends() */
    STALL_END,
    STALL_ALERT
};

struct job_spec {
    int32_t version;
    char name[SPEC_NAME_CAP];
    enum spec_kind kind;
    struct spec_map labels;

    struct { /* kind: cv */
        enum spec_arch arch;
        double width_mult, dropout;
        int32_t num_classes; /* 0: from the data */
        int32_t in_channels; /* 1 or 3 */
    } model;
    struct {
        enum spec_source source;
        char *path; /* absolute directory; NULL for synthetic */
        int32_t image_size;
        int32_t train_samples, eval_samples; /* 0: all; the first n */
        double split; /* evaluation's share; 0: it has a directory */
        enum spec_augment augment;
        bool drop_last;
        enum spec_bad_row on_bad_row;
        int32_t workers; /* -1: by the cores */
        enum spec_data_path data_path;
    } dataset;
    struct {
        char *output_dir; /* NULL: <attempt's job directory>/out */
        enum spec_device device;
        int32_t epochs, batch_size; /* per GPU */
        int32_t gradient_accumulation_steps;
        int32_t max_steps_per_epoch; /* 0: all */
        enum spec_precision precision;
        bool mixed; /* weights in fp32 */
        enum spec_tristate pin_memory;
        bool deterministic;
        enum spec_distribution distribution;
        int64_t seed; /* -1 until drawn; the dump always has a real one */
        bool shuffle;
        double label_smoothing;
        double clip_grad_norm; /* 0: none */
        enum spec_on_nan on_nan;
        enum spec_profile profile;
        struct {
            double decay; /* 0: none */
        } ema;
        struct {
            enum spec_optimizer name;
            double lr, weight_decay, momentum;
            enum spec_no_decay no_decay;
            bool nesterov;
            struct spec_numbers betas;
            double eps, alpha;
            bool centered;
        } optimizer;
        struct {
            enum spec_schedule name;
            int32_t num_warmup_steps;
            int32_t step_size; /* epochs */
            struct spec_numbers milestones;
            double gamma;
        } lr_scheduler;
    } train;

    struct spec_list command; /* kind: command; argv */
    char *workdir; /* NULL: there was no file; the attempt's directory */

    struct {
        struct spec_range gpus;  /* in all; 0..0: CPU only */
        struct spec_range nodes; /* default 1..1 */
        int32_t gpus_per_node;   /* 0: any; else the two above go with it */
        double time_limit_s;     /* INFINITY: none */
        int32_t warn_signal;     /* before it; SPEC_WARN_AUTO, 0: none */
        double warn_before_s;    /* 0: the default; spec_warning() */
        /* What a cluster's scheduler is told; NULL, 0: as mgpu.yaml says. */
        char *partition, *constraint, *reservation;
        char *gpu_type;
        struct spec_sizes gpu_memory; /* of each GPU */
        bool exclusive;               /* true adds to mgpu.yaml's */
        int32_t cpus_per_gpu;
        int64_t memory_bytes; /* per node */
    } resources;
    struct {
        int32_t priority;    /* -50..50; low -50, normal 0, high 50 */
        char *account, *qos; /* NULL: as mgpu.yaml says */
        bool preemptible;    /* it may be told to go for one of more priority */
        bool force_queue;    /* it waits for nodes that are not there yet */
        char *begin;         /* timestamp.h; NULL: at once */
    } policy;
    struct spec_list depends_on; /* dependency.h */
    struct {
        char *dir;   /* NULL: <output_dir>/ckpt */
        char *every; /* spec_every() reads it */
        bool on_signal;
        double grace_s;
        int32_t keep_last;
        bool keep_best;
        enum spec_metric metric;
        enum spec_mode mode;
    } checkpoint;
    struct {
        int32_t max;
        struct spec_list on;             /* spec_retry() reads each */
        double backoff_s, backoff_max_s; /* before the first, and any */
        bool resume;            /* latest: start from the newest checkpoint */
        bool exclude_node;      /* not again where it was lost */
        struct spec_list rules; /* retry_rule.h */
    } retry;
    struct spec_map env;
    struct spec_list env_passthrough;
    struct spec_list secrets; /* names alone; secrets_file.h */
    struct {
        int64_t max_bytes;
        enum spec_on_limit on_limit;
        bool per_rank; /* lines say whose they are */
    } logs;
    struct {
        char *email, *webhook; /* notify_target.h; NULL: none */
        struct spec_list on;   /* spec_notify() reads each */
    } notify;
    struct {
        double stall_factor, stall_min_s; /* 0: mgpu.yaml's */
        enum spec_stall action;
    } watchdog;
    struct {         /* of the text that the job came from; spec_expand() */
        char *array; /* array.h; NULL: none */
        int32_t max_parallel; /* 0: any number */
        bool stop_on_fail;
    } sweep;
};

/* One finding, compiler style. */
struct spec_finding {
    char code[8]; /* "E010", "W102" */
    bool is_error;
    int32_t line, column; /* from 1; 0 when there is no place in a file */
    int32_t width;        /* columns to underline; 0: one */
    const char *option;   /* without a line: what said it; NULL: --set.
                             borrowed of struct spec_set */
    char path[128];       /* "train.batch_size" */
    char message[240];
    char hint[200]; /* "" for none */
};

struct spec_report {
    struct spec_finding *findings;  /* in order of line and column */
    size_t n, n_errors, n_warnings; /* n stops at 50; the counts go on */
};
void spec_report_clear(struct spec_report *r);

/* resources.warn_signal: auto */
enum { SPEC_WARN_AUTO = -1 };

struct spec_set { /* one --set key=value, or --unset key with value NULL */
    const char *key, *value;
    const char *option; /* that says it, as "--gpus", or the variable; NULL:
                           --set. Reports
                           point to it */
};

/* The key that a variable MGPU_SET_<name> sets: in capitals, '_' for each dot;
 * below a map such as env the rest as it is. Of a name that is no key's, one
 * that schema_graft() refuses, in the section that was meant. False: it does
 * not fit. */
bool spec_key_of(const char *name, char *out, size_t cap);

/* A specification that others are laid over: --template. Mappings become one,
 * key by key, and any other value of the upper one takes the place of that
 * below. Its places are "template NAME:12", as of options.
 * out  report  always set; its places are lines of the text
 * err  ERR_INVAL it is no YAML that is taken; ERR_NOMEM */
struct spec_base;
int spec_base_create(const char *text, size_t len, const char *name,
                     struct spec_base **ret, struct spec_report *report,
                     struct error *err) MUST_CHECK;
void spec_base_destroy(struct spec_base *b); /* NULL is fine */

struct spec_options {
    const struct spec_base *base; /* NULL: none. Reports borrow from it */
    const char *file;             /* for relative paths and the default name;
                                     NULL: paths must be absolute */
    const char *home;             /* what ~ stands for; NULL: ~ is refused */
    const char *user; /* what ${user} is in a text that is filled now, as
                         those of labels; NULL: it is refused there */
    const struct spec_set *sets;
    size_t n_sets;
    bool draw_seed;  /* replace a null seed by a random one */
    bool take_env;   /* copy what env_passthrough names from our environment
                        to env, and look for the files of secrets below
                        home; spec_show() does not */
    bool is_stored;  /* a taken job: env may have names that sound secret */
    bool wants_text; /* spec_jobs.text of a single job, too */
    double now_s;    /* since 1970, warns of a policy.begin before it; 0: no */
};

/* Parses and validates the text of one job; all findings in one run. No file
 * is read, not even one of secrets that take_env looks for. A sweep is an error
 * here: spec_expand().
 *
 * out  ret     set only when there is no error; end it with spec_clear()
 *      report  always set, also on success (warnings); spec_report_clear()
 * err  ERR_INVAL there are errors: "3 errors"; ERR_NOMEM
 */
int spec_parse(const char *text, size_t len, const struct spec_options *opt,
               struct job_spec *ret, struct spec_report *report,
               struct error *err) MUST_CHECK;
void spec_clear(struct job_spec *s); /* NULL and zeroed are fine */

/* What an attempt knows: puts it into the texts that the job itself reads,
 * train.output_dir first. v->output_dir is what that is when it is not said.
 *
 * err  ERR_INVAL a text with a value that is not known here; s is then of no
 *      use but to spec_clear(). ERR_NOMEM the same */
struct fill_vars;
int spec_fill(struct job_spec *s, const struct fill_vars *v,
              struct error *err) MUST_CHECK;

/* The canonical JSON, one line, keys in the table's order. */
int spec_dump(const struct job_spec *s, struct buf *out,
              struct error *err) MUST_CHECK;
/* The jobs of a text, of which `sweep` makes several. */
enum {
    SPEC_TASKS_MAX = 4096,
    SPEC_TASKS_BYTES = 32 << 20,
    SPEC_AWAITED_MAX = 4096 /* jobs in depends_on of all: one for each */
};
struct spec_task {
    struct job_spec spec;
    char *vary;     /* the keys and values that make it differ, one JSON object
                       of texts in the file's order; NULL without a sweep */
    int32_t number; /* that people know it by: from 0, or as sweep.array says */
};
struct spec_jobs {
    struct spec_task *tasks; /* of a grid the last key varies fastest; grid,
                                zip and list in this order are one product */
    size_t n;                /* 1 or more */
    bool is_sweep;
    int32_t max_parallel; /* 0: any number */
    bool stop_on_fail;
    char *text; /* JSON from which spec_expand() makes the same jobs anywhere;
                   a seed that is to be drawn still is. What nobody wrote is
                   not in it: it is as whoever reads it knows it. NULL of a
                   single job, unless it is wanted */
};

/* As spec_parse(), of all jobs of the text. What two tasks have in common is
 * found once; a mistake that one combination of values makes names the task.
 * A seed that is not varied is the same in all tasks.
 *
 * Further findings: E020 of the sweep itself - keys that are none, or varied
 * twice, or set as well; lists without values or of unequal length; more than
 * SPEC_TASKS_MAX tasks, or SPEC_TASKS_BYTES if each were as long as the text
 * own  *ret: spec_jobs_clear() */
int spec_expand(const char *text, size_t len, const struct spec_options *opt,
                struct spec_jobs *ret, struct spec_report *report,
                struct error *err) MUST_CHECK;
void spec_jobs_clear(struct spec_jobs *j); /* zeroed is fine */

/* --show: YAML, each value with where it came from as a comment
 * ("# default", "# file:7", "# --set"); the tasks of a sweep as comments. */
int spec_show(const char *text, size_t len, const struct spec_options *opt,
              struct buf *out, struct error *err) MUST_CHECK;

/* The findings as a person reads them: "file:line:col: error[E010]: ...",
 * the source line with a caret, the hint; then the summary line. */
int spec_report_print(const struct spec_report *r, const char *file,
                      const char *text, size_t len, struct buf *out,
                      struct error *err) MUST_CHECK;
/* As a JSON array of {code,severity,file,line,column,path,message,hint}. */
int spec_report_json(const struct spec_report *r, const char *file,
                     struct buf *out, struct error *err) MUST_CHECK;

/* One row per key, for --help, the man page check and completion: calls
 * each() with "train.batch_size", "int", "64", "1..65536", "per GPU". The
 * default may be "required", or "": none. */
void spec_each_key(void (*each)(void *arg, const char *path, const char *type,
                                const char *def, const char *range,
                                const char *doc),
                   void *arg);

/* checkpoint.every: "500steps", "10m", "1epoch". */
enum spec_every_unit { EVERY_STEPS, EVERY_SECONDS, EVERY_EPOCHS };
struct spec_every {
    enum spec_every_unit unit;
    double n; /* 1 or more; of steps and epochs a whole number */
};
int spec_every(const char *s, struct spec_every *ret,
               struct error *err) MUST_CHECK;

/* retry.on: which ends are tried again; the bits of a set. */
enum spec_retry {
    RETRY_NODE_FAIL = 1,  /* lost, or never begun */
    RETRY_STALLED = 2,    /* given up, for it was silent */
    RETRY_SIGNAL = 4,     /* a rank died of a signal */
    RETRY_EXIT = 8,       /* a code other than 0 */
    RETRY_TIME_LIMIT = 16 /* of the job, or its partition's */
};
/* 0: no such word */
enum spec_retry spec_retry(const char *word);

/* notify.on: what somebody is told of; the bits of a set. */
enum spec_notify {
    NOTIFY_BEGIN = 1,    /* an attempt: its worker is there */
    NOTIFY_END = 2,      /* the job, however */
    NOTIFY_FAIL = 4,     /* as FAILED, TIMEOUT or NODE_FAIL */
    NOTIFY_STALLED = 8,  /* its worker is silent */
    NOTIFY_TIME_80 = 16, /* so many percent of its time limit are over */
    NOTIFY_HELD = 32,    /* but not by its own user */
    NOTIFY_REQUEUE = 64, /* it waits for another attempt */
};
/* 0: no such word; NULL: no such bit */
enum spec_notify spec_notify(const char *word);
const char *spec_notify_word(enum spec_notify bit);

/* The signal that says that the time limit comes, and how long before it;
 * ret_before_s may be NULL. 0: none. */
int32_t spec_warning(const struct job_spec *s, double *ret_before_s);

/* Whether it is ended for making no progress, or somebody is only told. */
bool spec_stall_ends(const struct job_spec *s);

/* Whether it goes on where it was when it is told to stop and started again
 * later. */
bool spec_saves(const struct job_spec *s);

/* Scalars that other files share; err says what is allowed. */
int parse_duration(const char *s, double *ret_s, struct error *err) MUST_CHECK;
int parse_size(const char *s, int64_t *ret_bytes, struct error *err) MUST_CHECK;

#endif
