/* spec.h - the job specification, mgpu-job(5): parse, expand, dump and report.
 *
 * One table in spec_table.c names every key with its type, unit, default,
 * range and one line of doc; the parser, --set, --show, the canonical dump
 * and the check of the man page all read it. Scalars are typed by that
 * table, never by YAML's own rules.
 *
 * The canonical dump is JSON with every value present and paths absolute;
 * JSON is YAML, so spec_parse() reads it back: the daemon validates what it
 * receives with the code that the tool used. */
#ifndef MGPU_JOBS_SPEC_SPEC_H
#define MGPU_JOBS_SPEC_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"
#include "jobs/spec/spec_policy.h"
#include "jobs/spec/spec_run.h"
#include "jobs/spec/spec_stopping.h"
#include "jobs/spec/spec_text.h"

enum spec_kind { SPEC_CV, SPEC_COMMAND, SPEC_LLM };
enum spec_arch { ARCH_MOBILENET_V2 };
enum spec_source { SOURCE_MNIST, SOURCE_SYNTHETIC, SOURCE_IMAGE_FOLDER };
enum spec_augment { AUGMENT_NONE, AUGMENT_FLIP, AUGMENT_CROP };
enum spec_data_path { DATA_PATH_FAST, DATA_PATH_PAPER };
enum spec_precision {
    PRECISION_FP64,
    PRECISION_FP32,
    PRECISION_TF32,
    PRECISION_FP16,
    PRECISION_BF16
};
enum spec_distribution {
    DIST_DDP_DS,
    DIST_DDP_RR,
    DIST_DDP,
    DIST_DP,
    DIST_FSDP
};
enum spec_optimizer { OPTIM_SGD, OPTIM_ADAMW, OPTIM_RMSPROP, OPTIM_ADAMW8 };
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

struct spec_sizes { /* bytes; 0: that side is open, both: any */
    int64_t min, max;
};

enum { SPEC_NUMBERS_CAP = 16 };
struct spec_numbers {
    int32_t n;
    double v[SPEC_NUMBERS_CAP];
};

enum { SPEC_NAME_CAP = 64, SPEC_NOTIFY_TO_CAP = 1024 };

struct job_spec {
    int32_t version;
    char name[SPEC_NAME_CAP];
    enum spec_kind kind;
    struct spec_map labels;
    enum spec_method method; /* kind: llm */
    enum spec_preset preset; /* likewise */

    struct { /* kind: cv */
        enum spec_arch arch;
        double width_mult, dropout;
        int32_t num_classes; /* 0: from the data */
        int32_t in_channels; /* 1 or 3 */
    } model;
    struct {
        enum spec_source source;
        char *path; /* absolute directory; NULL: synthetic */
        int32_t image_size;
        int32_t train_samples, eval_samples; /* 0: all; the first n */
        double split; /* evaluation's share; 0: it has its own directory */
        enum spec_augment augment;
        bool drop_last;
        enum spec_bad_row on_bad_row;
        int32_t workers; /* -1: chosen by the number of cores */
        enum spec_data_path data_path;
    } dataset;
    struct {
        char *output_dir, *resume_from; /* NULL: <job's directory>/out, none */
        enum spec_device device;
        int32_t epochs, batch_size;          /* per GPU */
        int32_t global_batch_size;           /* 0: as many as the GPUs make */
        int32_t gradient_accumulation_steps; /* without a global_batch_size */
        int32_t max_steps_per_epoch;         /* 0: all */
        int32_t max_iterations;              /* likewise */
        struct spec_early_stopping early_stopping;
        bool eval_only, weights_only; /* the latter of resume_from */
        enum spec_precision precision;
        bool mixed; /* weights in fp32 */
        enum spec_tristate pin_memory;
        bool deterministic, channels_last; /* images are prepared as NHWC */
        enum spec_distribution distribution;
        int64_t seed; /* -1 until drawn; the dump always has an actual one */
        bool shuffle;
        double label_smoothing;
        double clip_grad_norm, profile_first_s; /* 0: none; all of it */
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

        /* kind: llm */
        struct spec_checkpointer checkpointer;
        struct {
            int32_t lora_rank; /* -1: of adapter_checkpoint; alpha 0, too */
            double lora_alpha, lora_dropout;
            struct spec_list lora_attn_modules; /* spec_lora_targets() */
            enum spec_tristate apply_lora_to_mlp, apply_lora_to_output;
        } model;
        struct spec_quantizing quantizer;
        struct spec_tokenizer tokenizer;
        struct spec_loss loss;
        struct spec_text dataset, dataset_val;
        int32_t batch_size_val, run_val_every; /* 0: batch_size, an epoch */
        bool activation_checkpointing, optimizer_in_bwd;
        struct {
            struct spec_list prompts;      /* none: no samples */
            int32_t max_new_tokens, top_k; /* top_k 0: all */
            double temperature, top_p;
            char *every; /* never, or as checkpoint.every */
        } sample;
    } train;

    struct spec_list command; /* kind: command; argv */
    char *workdir; /* NULL: spec without a file; the attempt's directory */
    bool saves;    /* told to stop, it saves its work and exits */
    enum spec_launch launch;

    struct {
        struct spec_range gpus;  /* total; 0..0: CPU only */
        struct spec_range nodes; /* default 1..1 */
        int32_t gpus_per_node;   /* 0: any; otherwise the two above match it */
        double time_limit_s;     /* INFINITY: none */
        int32_t warn_signal;     /* before the limit; SPEC_WARN_AUTO, 0: none */
        double warn_before_s;    /* 0: the default; spec_warning() */
        /* Passed to the cluster's scheduler; NULL, 0: mgpu.yaml's default. */
        char *partition, *constraint, *reservation;
        char *gpu_type;
        struct spec_sizes gpu_memory; /* of each GPU */
        bool exclusive;               /* true adds to mgpu.yaml's */
        int32_t cpus_per_gpu;
        int64_t memory_bytes; /* per node */
    } resources;
    struct spec_policy policy;
    struct spec_list depends_on; /* dependency.h */
    struct {
        char *dir;   /* NULL: <output_dir>/ckpt */
        char *every; /* spec_every() reads it */
        bool on_signal, keep_best;
        double grace_s;
        enum spec_on_error on_error;
        int32_t keep_last;
        enum spec_metric metric;
        enum spec_mode mode;
    } checkpoint;
    struct {
        int32_t max;
        struct spec_list on;             /* spec_retry() reads each */
        double backoff_s, backoff_max_s; /* before the first, and any */
        bool resume;            /* latest: start from the newest checkpoint */
        bool exclude_node;      /* do not use the node where it was lost */
        struct spec_list rules; /* retry_rule.h */
    } retry;
    struct spec_map env;
    struct spec_list env_passthrough;
    struct spec_list secrets; /* only names; secrets_file.h */
    struct spec_logs logs;
    struct {
        char *to;            /* for notify.program; NULL: nobody is told */
        struct spec_list on; /* spec_notify() reads each */
    } notify;
    struct {
        double stall_factor, stall_min_s; /* 0: mgpu.yaml's default */
        enum spec_stall action;
    } watchdog;
    struct {                  /* of the text that the job was expanded from;
                               * spec_expand() */
        char *array;          /* array.h; NULL: none */
        int32_t max_parallel; /* 0: unlimited */
        bool stop_on_fail;
    } sweep;
};

/* One finding, in the style of a compiler. */
struct spec_finding {
    char code[8]; /* "E010", "W102" */
    bool is_error;
    int32_t line, column; /* from 1; 0: no position in a file */
    int32_t width;        /* columns to underline; 0: one */
    const char *option;   /* without a line: the option or variable it refers
                           * to; NULL: --set. borrowed of struct spec_set */
    char path[128];       /* "train.batch_size" */
    char message[400];
    char hint[200]; /* "" for none */
};

struct spec_report {
    struct spec_finding *findings;  /* in order of line and column */
    size_t n, n_errors, n_warnings; /* n is at most 50; the counts include
                                     * the rest */
};
void diagnostics_clear(struct spec_report *r);

/* resources.warn_signal: auto */
enum { SPEC_WARN_AUTO = -1 };

struct spec_set { /* one --set key=value, or --unset key with value NULL */
    const char *key, *value;
    const char *option; /* its origin, such as "--gpus" or a variable; NULL:
                         * --set. Reports borrow it */
};

/* Translates the variable MGPU_SET_<name> to its key: in capitals, '_' for each
 * dot; below a map such as env the rest is literal. For an unknown name,
 * returns a path in the intended section that schema_graft() refuses. False: it
 * does not fit. */
bool spec_key_of(const char *name, char *out, size_t cap);

/* A base specification, which others override: --template. Mappings are merged
 * key by key; any other value of the upper one replaces the lower one. Its
 * positions are "template NAME:12", like those of options.
 * out  report  always set; its positions are lines of the text
 * err  ERR_INVAL not acceptable YAML; ERR_NOMEM */
struct spec_base;
int spec_base_create(const char *text, size_t len, const char *name,
                     struct spec_base **ret, struct spec_report *report,
                     struct error *err) MUST_CHECK;
void spec_base_destroy(struct spec_base *b); /* NULL is fine */

struct spec_options {
    const struct spec_base *base; /* NULL: none. Reports borrow from it */
    const char *file;             /* for relative paths and the default name;
                                   * NULL: paths must be absolute */
    const char *home;             /* value of ~; NULL: ~ is refused */
    const char *user; /* value of ${user} in texts that are substituted now,
                       * such as labels; NULL: refused there */
    const struct spec_set *sets;
    size_t n_sets;
    bool draw_seed;  /* replace a null seed by a random one */
    bool take_env;   /* copy the variables of env_passthrough to env, and check
                      * the files of secrets below home; spec_show() does not */
    bool is_stored;  /* an accepted job: env may have names that sound secret */
    bool wants_text; /* set spec_jobs.text for a single job, too */
    double now_s;    /* since 1970, for policy.begin; 0: it is not checked */
    bool may_repeat; /* a submit that may own its directories already */
    struct spec_look *look; /* spec_look.h; NULL: nobody is asked */
};

/* Parses and validates the text of one job; reports all findings at once. It
 * opens no file, except those of secrets if take_env is set. A sweep is an
 * error here: use spec_expand().
 *
 * out  ret     set only if there is no error; free it with spec_clear()
 *      report  always set, also on success (warnings); diagnostics_clear()
 * err  ERR_INVAL there are errors: "3 errors"; ERR_NOMEM */
int spec_parse(const char *text, size_t len, const struct spec_options *opt,
               struct job_spec *ret, struct spec_report *report,
               struct error *err) MUST_CHECK;
void spec_clear(struct job_spec *s); /* NULL and zeroed are fine */

/* Substitutes the values that an attempt knows in the texts that the job itself
 * reads, train.output_dir first. v->output_dir is the default of output_dir.
 *
 * err  ERR_INVAL a text with a value that is unknown here; s may then only be
 *      passed to spec_clear(). Likewise ERR_NOMEM */
struct fill_vars;
int spec_fill(struct job_spec *s, const struct fill_vars *v,
              struct error *err) MUST_CHECK;

/* The canonical JSON, one line, keys in the table's order. */
int spec_dump(const struct job_spec *s, struct buf *out,
              struct error *err) MUST_CHECK;
/* The jobs of a text; a `sweep` makes several. */
enum {
    SPEC_TASKS_MAX = 4096,
    SPEC_TASKS_BYTES = 32 << 20,
    SPEC_AWAITED_MAX = 4096 /* jobs in all depends_on together: one per task */
};
struct spec_task {
    struct job_spec spec;
    char *vary;     /* the keys and values of this task, one JSON object of
                     * texts in the file's order; NULL without a sweep */
    int32_t number; /* the number that users see: from 0, or from sweep.array */
};
struct spec_jobs {
    struct spec_task *tasks; /* in a grid the last key varies fastest; grid,
                              *      zip and list in this order form one
                              *      product */
    size_t n;                /* 1 or more */
    bool is_sweep;
    int32_t max_parallel; /* 0: unlimited */
    bool stop_on_fail;
    char *text; /* JSON from which spec_expand() makes the same jobs on any
                 * machine; a seed that is to be drawn is not drawn yet. Keys
                 * that the user did not write are omitted: the reader's
                 * defaults apply. NULL for a single job, unless requested */
};

/* Like spec_parse(), for all jobs of the text. A finding that all tasks share
 * is reported once; a finding about one combination of values names the task. A
 * seed that is not varied is the same in all tasks.
 *
 * Further findings: E020 of the sweep itself - unknown keys, keys varied twice
 * or also set; lists without values or of unequal length; more than
 * SPEC_TASKS_MAX tasks, or SPEC_TASKS_BYTES if each were as long as the text
 * own  *ret: spec_jobs_clear() */
int spec_expand(const char *text, size_t len, const struct spec_options *opt,
                struct spec_jobs *ret, struct spec_report *report,
                struct error *err) MUST_CHECK;
void spec_jobs_clear(struct spec_jobs *j); /* no effect on a zeroed struct */

/* --show: YAML, each value with its origin as a comment ("# default", "#
 * file:7", "# --set"); the tasks of a sweep as comments. */
int spec_show(const char *text, size_t len, const struct spec_options *opt,
              struct buf *out, struct error *err) MUST_CHECK;

/* The findings for display: "file:line:col: error[E010]: ...", the source line
 * with a caret, the hint; then the summary line. */
int diagnostics_print(const struct spec_report *r, const char *file,
                      const char *text, size_t len, struct buf *out,
                      struct error *err) MUST_CHECK;
/* As a JSON array of {code,severity,file,line,column,path,message,hint}. */
int diagnostics_json(const struct spec_report *r, const char *file,
                     struct buf *out, struct error *err) MUST_CHECK;

/* One row per key, for --help, the man page check and completion: calls each()
 * with "train.batch_size", "int", "64", "1..65536", "per GPU". The default may
 * be "required", or "" if there is none. */
void spec_each_key(void (*each)(void *arg, const char *path, const char *type,
                                const char *def, const char *range,
                                const char *doc),
                   void *arg);

/* "cv", "command", "llm" */
const char *spec_kind_word(enum spec_kind kind);
/* That of such a word, of len bytes; false: there is none. */
bool spec_kind_of(const char *word, size_t len, enum spec_kind *ret);

/* checkpoint.every: "500steps", "10m", "1epoch". */
enum spec_every_unit { EVERY_STEPS, EVERY_SECONDS, EVERY_EPOCHS };
struct spec_every {
    enum spec_every_unit unit;
    double n; /* 1 or more; a whole number of steps or epochs */
};
int spec_every(const char *s, struct spec_every *ret,
               struct error *err) MUST_CHECK;

/* retry.on: which ends are retried; a bit set. */
enum spec_retry {
    RETRY_NODE_FAIL = 1,  /* lost, or never started */
    RETRY_STALLED = 2,    /* ended by the watchdog after silence */
    RETRY_SIGNAL = 4,     /* a rank died of a signal */
    RETRY_EXIT = 8,       /* a nonzero code */
    RETRY_TIME_LIMIT = 16 /* of the job, or its partition's */
};
enum spec_retry spec_retry(const char *word); /* 0: unknown word */

/* notify.on: which events cause a notification; a bit set. */
enum spec_notify {
    NOTIFY_BEGIN = 1,    /* an attempt begins: its worker has connected */
    NOTIFY_END = 2,      /* the job ends in any state */
    NOTIFY_FAIL = 4,     /* as FAILED, TIMEOUT or NODE_FAIL */
    NOTIFY_STALLED = 8,  /* its worker is silent */
    NOTIFY_TIME_80 = 16, /* 80 percent of its time limit have passed */
    NOTIFY_HELD = 32,    /* held, but not by its own user */
    NOTIFY_REQUEUE = 64, /* pending for another attempt */
};
/* 0: unknown word; NULL: unknown bit */
enum spec_notify spec_notify(const char *word);
const char *spec_notify_word(enum spec_notify bit);

/* The signal that warns of the time limit, and how long before it; ret_before_s
 * may be NULL. 0: none. */
int32_t spec_warning(const struct job_spec *s, double *ret_before_s);

/* Whether the watchdog ends it if it makes no progress, or only notifies. */
bool spec_stall_ends(const struct job_spec *s);

/* Whether it saves its progress when it is stopped, and resumes from there. */
bool spec_saves(const struct job_spec *s);

/* kind: llm: the linears with an adapter, as bits: q 1, k 2, v 4, output 8,
 * gate 16, up 32 and down 64 of a layer, 128 the output layer; 0: none has. */
uint32_t spec_lora_targets(const struct job_spec *s);

/* Parsers of scalars for other files; err has the allowed syntax. */
int parse_duration(const char *s, double *ret_s, struct error *err) MUST_CHECK;
int parse_size(const char *s, int64_t *ret_bytes, struct error *err) MUST_CHECK;

#endif
