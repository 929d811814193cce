/* spec_table.c - every key of a job specification, one row each.
 *
 * The order is that of the canonical dump. A row's code is that of the finding
 * for a bad value. Keys and words of other versions of mgpu are listed here,
 * too, so that they are neither reported as misspelt nor ignored. */
#include "jobs/spec/spec_table.h"

#include <math.h>
#include <signal.h>
#include <stdint.h>

#include "jobs/schema/schema_doc.h"
#include "jobs/schema/schema_row.h"

#define AT(m) AT_IN(struct job_spec, m)

static const struct schema_key keys[] = {
    {"version", KEY_INT, AT(version), .def = "1", RANGE(1, 1), .code = "E011",
     .doc = "version of this format"},
    {"name", KEY_NAME, AT(name), .code = "E014",
     .doc = "the job's name; without one, the file's, less its ending"},
    {"kind", KEY_ENUM, AT(kind), .required = true, .code = "E012",
     .words = WORDS(WORD("cv", SPEC_CV), WORD("command", SPEC_COMMAND),
                    LATER("llm")),
     .doc = "what the job does: train an image model, or run a program"},
    {"labels", KEY_MAP, AT(labels), .fill = FILL_SUBMIT, .code = "E014",
     .doc = "up to 16 words of your own for finding the job again"},

    {"model.arch", KEY_ENUM, AT(model.arch), .def = "mobilenet_v2",
     .code = "E012", .when = WHEN_CV,
     .words = WORDS(WORD("mobilenet_v2", ARCH_MOBILENET_V2)),
     .doc = "the network"},
    {"model.width_mult", KEY_FLOAT, AT(model.width_mult), .def = "1.0",
     RANGE(0.25, 2), .code = "E013", .when = WHEN_CV,
     .doc = "factor on the number of channels"},
    {"model.dropout", KEY_FLOAT, AT(model.dropout), .def = "0.2",
     RANGE(0, 0.95), .code = "E013", .when = WHEN_CV,
     .doc = "probability with which the classifier drops an input"},
    {"model.num_classes", KEY_INT, AT(model.num_classes), .def = "null",
     RANGE(1, 100000), NONE(0), .code = "E013", .when = WHEN_CV,
     .doc = "classes; null: as many as the data has"},
    {"model.in_channels", KEY_INT, AT(model.in_channels), .def = "3",
     RANGE(1, 3), .code = "E013", .when = WHEN_CV,
     .doc = "channels of the images that the network is given"},

    {"dataset.source", KEY_ENUM, AT(dataset.source), .required = true,
     .code = "E012", .when = WHEN_CV,
     .words = WORDS(WORD("mnist", SOURCE_MNIST),
                    WORD("image_folder", SOURCE_IMAGE_FOLDER),
                    WORD("synthetic", SOURCE_SYNTHETIC)),
     .doc = "where the images come from"},
    {"dataset.path", KEY_PATH, AT(dataset.path), .fill = FILL_START,
     .code = "E015", .required = true, .when = WHEN_FILES,
     .doc = "directory with the data; needed unless source is synthetic"},
    {"dataset.image_size", KEY_INT, AT(dataset.image_size), .def = "224",
     RANGE(28, 1024), .code = "E013", .when = WHEN_CV,
     .doc = "pixels on each side; images are resized to it"},
    {"dataset.train_samples", KEY_INT, AT(dataset.train_samples), .def = "0",
     RANGE(0, INT32_MAX), .code = "E013", .when = WHEN_CV,
     .doc = "so many training images; 0: all, or 1024 synthetic"},
    {"dataset.eval_samples", KEY_INT, AT(dataset.eval_samples), .def = "0",
     RANGE(0, INT32_MAX), .code = "E013", .when = WHEN_CV,
     .doc = "so many test images; 0: all, or 256 synthetic"},
    {"dataset.split", KEY_FLOAT, AT(dataset.split), .def = "null",
     RANGE(0, 0.9), .above_min = true, NONE(0), .code = "E013",
     .when = WHEN_FOLDER,
     .doc = "share of the images that is kept for evaluation"},
    {"dataset.augment", KEY_ENUM, AT(dataset.augment), .def = "none",
     .code = "E012", .when = WHEN_CV,
     .words = WORDS(WORD("none", AUGMENT_NONE), WORD("flip", AUGMENT_FLIP),
                    WORD("crop", AUGMENT_CROP)),
     .doc = "how training images are changed each time they are seen"},
    {"dataset.drop_last", KEY_BOOL, AT(dataset.drop_last), .def = "false",
     .code = "E011", .when = WHEN_CV,
     .doc = "leave out what does not fill a batch on every rank"},
    {"dataset.on_bad_row", KEY_ENUM, AT(dataset.on_bad_row), .def = "fail",
     .code = "E012", .when = WHEN_FOLDER,
     .words = WORDS(WORD("fail", BAD_ROW_FAIL), WORD("skip", BAD_ROW_SKIP)),
     .doc = "what to do with an image that cannot be read"},
    {"dataset.workers", KEY_INT, AT(dataset.workers), .def = "null",
     RANGE(0, 256), NONE(-1), .code = "E013", .when = WHEN_CV,
     .doc = "threads per rank that prepare images; null: by its cores"},
    {"dataset.data_path", KEY_ENUM, AT(dataset.data_path), .def = "fast",
     .code = "E012", .when = WHEN_CV,
     .words =
         WORDS(WORD("fast", DATA_PATH_FAST), WORD("paper", DATA_PATH_PAPER)),
     .doc = "how images reach the device; fast: as bytes, as they are stored"},

    {"train.output_dir", KEY_PATH, AT(train.output_dir), .def = "null", NONE(0),
     .fill = FILL_OUTPUT, .code = "E015", .when = WHEN_CV,
     .doc = "directory for results; null: out/ in the job's directory"},
    {"train.device", KEY_ENUM, AT(train.device), .def = "auto", .code = "E012",
     .when = WHEN_CV,
     .words = WORDS(WORD("auto", DEVICE_AUTO), WORD("cuda", DEVICE_CUDA),
                    WORD("host", DEVICE_HOST)),
     .doc = "where to compute; auto: cuda if the job has GPUs, else host"},
    {"train.epochs", KEY_INT, AT(train.epochs), .def = "20", RANGE(1, 10000),
     .code = "E013", .when = WHEN_CV, .doc = "passes over the training data"},
    {"train.batch_size", KEY_INT, AT(train.batch_size), .def = "64",
     RANGE(1, 65536), .code = "E013", .when = WHEN_CV,
     .doc = "images per GPU and iteration"},
    {"train.gradient_accumulation_steps", KEY_INT,
     AT(train.gradient_accumulation_steps), .def = "1", RANGE(1, 65536),
     .code = "E013", .when = WHEN_CV,
     .doc = "batches per GPU that make up one iteration"},
    {"train.max_steps_per_epoch", KEY_INT, AT(train.max_steps_per_epoch),
     .def = "null", RANGE(1, INT32_MAX), NONE(0), .code = "E013",
     .when = WHEN_CV, .doc = "iterations per epoch at most; null: all"},
    {"train.precision", KEY_ENUM, AT(train.precision), .def = "fp32",
     .code = "E012", .when = WHEN_CV,
     .words = WORDS(WORD("fp64", PRECISION_FP64), WORD("fp32", PRECISION_FP32),
                    WORD("tf32", PRECISION_TF32), WORD("fp16", PRECISION_FP16),
                    WORD("bf16", PRECISION_BF16)),
     .doc = "number format of weights, activations and gradients"},
    {"train.mixed", KEY_BOOL, AT(train.mixed), .def = "false", .code = "E011",
     .when = WHEN_CV, .doc = "keep fp32 weights behind those in 16 bits"},
    {"train.pin_memory", KEY_TRISTATE, AT(train.pin_memory), .def = "auto",
     .code = "E011", .when = WHEN_CV,
     .doc = "page-locked host buffers; auto: on GPUs"},
    {"train.deterministic", KEY_BOOL, AT(train.deterministic), .def = "true",
     .code = "E011", .when = WHEN_CV,
     .doc = "the same bits in every run on the same devices"},
    {"train.distribution", KEY_ENUM, AT(train.distribution), .def = "ddp-ds",
     .code = "E012", .when = WHEN_CV,
     .words = WORDS(WORD("ddp-ds", DIST_DDP_DS), WORD("ddp-rr", DIST_DDP_RR),
                    WORD("ddp", DIST_DDP), WORD("dp", DIST_DP), LATER("fsdp")),
     .doc = "how the data is shared; ddp-ds: each GPU has its own part"},
    {"train.seed", KEY_INT, AT(train.seed), .def = "null", RANGE(0, INT32_MAX),
     NONE(-1), .code = "E013", .when = WHEN_CV,
     .doc = "seed of weights, shuffling and dropout; null: drawn and recorded"},
    {"train.shuffle", KEY_BOOL, AT(train.shuffle), .def = "true",
     .code = "E011", .when = WHEN_CV,
     .doc = "a new order of the training data in each epoch"},
    {"train.label_smoothing", KEY_FLOAT, AT(train.label_smoothing), .def = "0",
     RANGE(0, 0.99), .code = "E013", .when = WHEN_CV,
     .doc = "share of a label that is spread over all classes"},
    {"train.clip_grad_norm", KEY_FLOAT, AT(train.clip_grad_norm), .def = "null",
     RANGE(0, 1e9), .above_min = true, NONE(0), .code = "E013", .when = WHEN_CV,
     .doc = "longest gradient; null: as long as it is"},
    {"train.on_nan", KEY_ENUM, AT(train.on_nan), .def = "fail", .code = "E012",
     .when = WHEN_CV,
     .words = WORDS(WORD("fail", ON_NAN_FAIL), WORD("skip", ON_NAN_SKIP),
                    WORD("warn", ON_NAN_WARN)),
     .doc = "what to do when the loss or the gradient is not a number"},
    {"train.profile", KEY_ENUM, AT(train.profile), .def = "off", .code = "E012",
     .when = WHEN_CV,
     .words = WORDS(WORD("off", PROFILE_OFF), WORD("sampled", PROFILE_SAMPLED),
                    WORD("epoch", PROFILE_EPOCH)),
     .doc = "what each epoch consisted of, for mgpu-stat --profile"},
    {"train.ema.decay", KEY_FLOAT, AT(train.ema.decay), .def = "null",
     RANGE(0, 0.999999), .above_min = true, NONE(0), .code = "E013",
     .when = WHEN_CV, .doc = "what a running mean of the weights keeps"},
    {"train.optimizer.name", KEY_ENUM, AT(train.optimizer.name), .def = "adamw",
     .code = "E012", .when = WHEN_CV,
     .words = WORDS(WORD("sgd", OPTIM_SGD), WORD("adamw", OPTIM_ADAMW),
                    WORD("rmsprop", OPTIM_RMSPROP)),
     .doc = "the update rule"},
    {"train.optimizer.lr", KEY_FLOAT, AT(train.optimizer.lr), .def = "1e-3",
     RANGE(0, 1000), .above_min = true, .code = "E013", .when = WHEN_CV,
     .doc = "learning rate at its highest"},
    {"train.optimizer.weight_decay", KEY_FLOAT,
     AT(train.optimizer.weight_decay), .def = "0.01", RANGE(0, 1000),
     .code = "E013", .when = WHEN_CV, .doc = "decay of the weights"},
    {"train.optimizer.no_decay", KEY_ENUM, AT(train.optimizer.no_decay),
     .def = "none", .code = "E012", .when = WHEN_CV,
     .words = WORDS(WORD("none", NO_DECAY_NONE),
                    WORD("norm_bias", NO_DECAY_NORM_BIAS)),
     .doc = "parameters that do not decay"},
    {"train.optimizer.momentum", KEY_FLOAT, AT(train.optimizer.momentum),
     .def = "0.9", RANGE(0, 1), .code = "E013", .when = WHEN_MOMENTUM,
     .doc = "momentum of sgd and rmsprop"},
    {"train.optimizer.nesterov", KEY_BOOL, AT(train.optimizer.nesterov),
     .def = "false", .code = "E011", .when = WHEN_SGD,
     .doc = "Nesterov's form of the momentum of sgd"},
    {"train.optimizer.betas", KEY_NUMBERS, AT(train.optimizer.betas),
     .def = "[0.9, 0.999]", RANGE(0, 0.999999), .code = "E013",
     .when = WHEN_ADAMW,
     .doc = "how much of their past the two means of adamw keep"},
    {"train.optimizer.eps", KEY_FLOAT, AT(train.optimizer.eps), .def = "1e-8",
     RANGE(0, 1), .above_min = true, .code = "E013", .when = WHEN_EPS,
     .doc = "keeps adamw and rmsprop from dividing by zero"},
    {"train.optimizer.alpha", KEY_FLOAT, AT(train.optimizer.alpha),
     .def = "0.99", RANGE(0, 0.999999), .code = "E013", .when = WHEN_RMSPROP,
     .doc = "how much of its past the mean of rmsprop keeps"},
    {"train.optimizer.centered", KEY_BOOL, AT(train.optimizer.centered),
     .def = "false", .code = "E011", .when = WHEN_RMSPROP,
     .doc = "rmsprop by the variance of the gradient, not its square"},
    {"train.lr_scheduler.name", KEY_ENUM, AT(train.lr_scheduler.name),
     .def = "constant", .code = "E012", .when = WHEN_CV,
     .words = WORDS(
         WORD("constant", SCHEDULE_CONSTANT), WORD("cosine", SCHEDULE_COSINE),
         WORD("step", SCHEDULE_STEP), WORD("multistep", SCHEDULE_MULTISTEP)),
     .doc = "the learning rate after the warm-up"},
    {"train.lr_scheduler.num_warmup_steps", KEY_INT,
     AT(train.lr_scheduler.num_warmup_steps), .def = "0", RANGE(0, INT32_MAX),
     .code = "E013", .when = WHEN_CV,
     .doc = "iterations in which the learning rate rises from 0"},
    {"train.lr_scheduler.step_size", KEY_INT, AT(train.lr_scheduler.step_size),
     .def = "30", RANGE(1, 10000), .code = "E013", .when = WHEN_STEP,
     .doc = "epochs between two steps down"},
    {"train.lr_scheduler.milestones", KEY_NUMBERS,
     AT(train.lr_scheduler.milestones), .required = true, RANGE(1, 10000),
     .code = "E013", .when = WHEN_MULTISTEP,
     .doc = "epochs after which the learning rate steps down"},
    {"train.lr_scheduler.gamma", KEY_FLOAT, AT(train.lr_scheduler.gamma),
     .def = "0.1", RANGE(0, 1), .above_min = true, .code = "E013",
     .when = WHEN_GAMMA,
     .doc = "what each step multiplies the learning rate by"},

    {"command", KEY_LIST, AT(command), .required = true, .fill = FILL_START,
     .code = "E011", .when = WHEN_COMMAND,
     .doc = "program and arguments; no shell reads them"},
    {"workdir", KEY_PATH, AT(workdir), .def = "null", NONE(0),
     .fill = FILL_START, .code = "E015", .when = WHEN_COMMAND,
     .doc = "directory that it starts in; null: that of the file"},

    {"resources.gpus", KEY_RANGE, AT(resources.gpus), .def = "1",
     RANGE(0, 1024), .code = "E021",
     .doc = "GPUs in all; 0: CPU only; a range lets the scheduler choose"},
    {"resources.nodes", KEY_RANGE, AT(resources.nodes), .def = "1",
     RANGE(1, 1024), .code = "E021", .doc = "machines to spread them over"},
    {"resources.gpus_per_node", KEY_INT, AT(resources.gpus_per_node),
     .def = "null", RANGE(1, 1024), NONE(0), .code = "E021",
     .doc =
         "GPUs on each of them, from which nodes, or gpus, follow; null: any"},
    {"resources.time_limit", KEY_DURATION, AT(resources.time_limit_s),
     .def = "null", RANGE(1, 365.0 * 86400), NONE(INFINITY), .code = "E023",
     .doc = "the job is ended after it; null: no limit"},
    {"resources.warn_signal", KEY_ENUM, AT(resources.warn_signal),
     .def = "auto", .code = "E012",
     .words = WORDS(WORD("auto", SPEC_WARN_AUTO), WORD("none", 0),
                    WORD("USR1", SIGUSR1), WORD("USR2", SIGUSR2),
                    WORD("HUP", SIGHUP), WORD("TERM", SIGTERM)),
     .doc = "what says that the limit comes; auto: USR1 to training"},
    {"resources.warn_before", KEY_DURATION, AT(resources.warn_before_s),
     .def = "null", RANGE(1, 86400), NONE(0), .code = "E023",
     .doc = "so long before it; null: checkpoint.grace, or half the limit"},
    {"resources.partition", KEY_WORD, AT(resources.partition), .def = "null",
     NONE(0), .fill = FILL_SUBMIT, .code = "E040",
     .doc = "Slurm's; of several, a,b, the first that can; null: the default"},
    {"resources.constraint", KEY_WORD, AT(resources.constraint), .def = "null",
     NONE(0), .fill = FILL_SUBMIT, .code = "E040",
     .doc = "features that a node must have, as sbatch reads them"},
    {"resources.reservation", KEY_WORD, AT(resources.reservation),
     .def = "null", NONE(0), .fill = FILL_SUBMIT, .code = "E040",
     .doc = "reservation to run in"},
    {"resources.gpu_type", KEY_WORD, AT(resources.gpu_type), .def = "null",
     NONE(0), .name_only = true, .code = "E040",
     .doc = "type of the GPUs, as in mgpu-stat --nodes; null: any"},
    {"resources.gpu_memory", KEY_SIZES, AT(resources.gpu_memory), .def = "null",
     RANGE(1048576, 1125899906842624.0), .null_ok = true, .code = "E021",
     .doc = "memory that each of them has, as in 40G..; null: any"},
    {"resources.exclusive", KEY_BOOL, AT(resources.exclusive), .def = "false",
     .code = "E011", .doc = "share the nodes with no other job"},
    {"resources.cpus_per_gpu", KEY_INT, AT(resources.cpus_per_gpu),
     .def = "null", RANGE(1, 1024), NONE(0), .code = "E013",
     .doc = "cores per GPU, or of a job without GPUs; null: the default"},
    {"resources.memory", KEY_SIZE, AT(resources.memory_bytes), .def = "null",
     RANGE(1048576, 1125899906842624.0), NONE(0), .code = "E023",
     .doc = "memory per node; null: the default"},

    {"policy.priority", KEY_INT, AT(policy.priority), .def = "normal",
     RANGE(-50, 50), .code = "E023",
     .words = WORDS(WORD("low", -50), WORD("normal", 0), WORD("high", 50)),
     .doc = "larger starts earlier; the words are -50, 0 and 50"},
    {"policy.account", KEY_WORD, AT(policy.account), .def = "null", NONE(0),
     .fill = FILL_SUBMIT, .code = "E040",
     .doc = "account that is charged; null: the default"},
    {"policy.qos", KEY_WORD, AT(policy.qos), .def = "null", NONE(0),
     .fill = FILL_SUBMIT, .code = "E040",
     .doc = "quality of service; null: the default"},
    {"policy.preemptible", KEY_BOOL, AT(policy.preemptible), .def = "true",
     .code = "E011",
     .doc = "whether it makes room for jobs of higher priority"},
    {"policy.force_queue", KEY_BOOL, AT(policy.force_queue), .def = "false",
     .code = "E011",
     .doc = "wait for nodes that could hold it, where there are none"},

    {"policy.begin", KEY_STRING, AT(policy.begin), .def = "null", NONE(0),
     .code = "E023",
     .doc = "not before, as in 2026-12-01T08:00:00Z or +2h; null: at once"},

    {"depends_on", KEY_LIST, AT(depends_on), .code = "E022",
     .doc = "jobs that come first, as in afterok:12; see DEPENDENCIES"},

    {"checkpoint.dir", KEY_PATH, AT(checkpoint.dir), .def = "null", NONE(0),
     .fill = FILL_START, .code = "E015", .when = WHEN_CV,
     .doc = "directory for checkpoints; null: ${output_dir}/ckpt"},
    {"checkpoint.every", KEY_WORD, AT(checkpoint.every), .def = "1epoch",
     .code = "E024", .when = WHEN_CV,
     .doc = "how often one is written, as in 500steps, 10m, 1epoch"},
    {"checkpoint.on_signal", KEY_BOOL, AT(checkpoint.on_signal), .def = "true",
     .code = "E011", .when = WHEN_CV,
     .doc = "write one when the job is told to stop"},
    {"checkpoint.grace", KEY_DURATION, AT(checkpoint.grace_s), .def = "120s",
     RANGE(1, 3600), .code = "E023",
     .doc = "time between being told to stop and being killed"},
    {"checkpoint.keep_last", KEY_INT, AT(checkpoint.keep_last), .def = "2",
     RANGE(1, 1000), .code = "E013", .when = WHEN_CV,
     .doc = "number of checkpoints that are kept"},
    {"checkpoint.keep_best", KEY_BOOL, AT(checkpoint.keep_best), .def = "false",
     .code = "E011", .when = WHEN_CV,
     .doc = "keep that of the best evaluation too, as best/"},
    {"checkpoint.metric", KEY_ENUM, AT(checkpoint.metric),
     .def = "eval_accuracy", .code = "E012", .when = WHEN_BEST,
     .words = WORDS(WORD("eval_accuracy", METRIC_EVAL_ACCURACY),
                    WORD("eval_loss", METRIC_EVAL_LOSS)),
     .doc = "what makes an evaluation the best"},
    {"checkpoint.mode", KEY_ENUM, AT(checkpoint.mode), .def = "auto",
     .code = "E012", .when = WHEN_BEST,
     .words = WORDS(WORD("auto", MODE_AUTO), WORD("max", MODE_MAX),
                    WORD("min", MODE_MIN)),
     .doc = "whether more of it is better; auto: of the accuracy"},

    {"retry.max", KEY_INT, AT(retry.max), .def = "2", RANGE(0, 100),
     .code = "E013", .doc = "further attempts after a failure"},
    {"retry.on", KEY_LIST, AT(retry.on), .def = "[node_fail, stalled, signal]",
     .code = "E012", .doc = "ends after which there is one; see RETRIES"},
    {"retry.backoff", KEY_DURATION, AT(retry.backoff_s), .def = "10s",
     RANGE(0, 86400), .code = "E023",
     .doc = "longest wait before the first; before each further it doubles"},
    {"retry.backoff_max", KEY_DURATION, AT(retry.backoff_max_s), .def = "10m",
     RANGE(0, 86400), .code = "E023", .doc = "longest wait before any"},
    {"retry.resume", KEY_BOOL, AT(retry.resume), .def = "true", .code = "E011",
     .when = WHEN_CV, .words = WORDS(WORD("latest", 1)),
     .doc = "start from the newest checkpoint; latest is true"},
    {"retry.exclude_node", KEY_BOOL, AT(retry.exclude_node), .def = "true",
     .code = "E011", .doc = "not again on a node that failed or fell silent"},
    {"retry.rules", KEY_LIST, AT(retry.rules), .code = "E017",
     .doc = "what else to do about an end, as in 'exit:75 retry'"},

    {"env", KEY_MAP, AT(env), .fill = FILL_START, .code = "E014",
     .when = WHEN_COMMAND, .hidden = true,
     .doc = "variables of the command's environment"},
    {"env_passthrough", KEY_LIST, AT(env_passthrough), .code = "E014",
     .when = WHEN_COMMAND,
     .doc = "variables taken over from the environment of mgpu-submit"},

    {"secrets", KEY_LIST, AT(secrets), .code = "E014", .when = WHEN_COMMAND,
     .doc = "variables whose values are files of the user, NAME in "
            "~/.config/mgpu/secrets"},

    {"logs.max_bytes", KEY_SIZE, AT(logs.max_bytes), .def = "64M",
     RANGE(4096, 1099511627776.0), .code = "E023",
     .doc = "output that is kept; the middle of what is more is dropped"},
    {"logs.on_limit", KEY_ENUM, AT(logs.on_limit), .def = "truncate",
     .code = "E012",
     .words = WORDS(WORD("truncate", ON_LIMIT_TRUNCATE),
                    WORD("fail", ON_LIMIT_FAIL)),
     .doc = "what becomes of a job that prints more; fail: it is ended"},
    {"logs.per_rank", KEY_BOOL, AT(logs.per_rank), .def = "true",
     .code = "E011",
     .doc = "of several ranks, begin each line with its rank's label"},

    {"notify.email", KEY_STRING, AT(notify.email), .def = "null", NONE(0),
     .fill = FILL_SUBMIT, .code = "E023",
     .doc = "who gets a mail, as alice@example.org; null: "
            "nobody"},
    {"notify.webhook", KEY_STRING, AT(notify.webhook), .def = "null", NONE(0),
     .fill = FILL_SUBMIT, .code = "E023",
     .doc = "URL that notify.program may call; null: none"},
    {"notify.on", KEY_LIST, AT(notify.on), .def = "[end, fail, stalled, held]",
     .code = "E012", .when = WHEN_NOTIFY, .doc = "what of; see NOTIFICATIONS"},

    {"watchdog.stall_factor", KEY_FLOAT, AT(watchdog.stall_factor),
     .def = "null", RANGE(2, 1000000), NONE(0), .code = "E013",
     .doc = "STALLED after so many iterations' time without one; null: as "
            "mgpu.yaml says"},
    {"watchdog.stall_min", KEY_DURATION, AT(watchdog.stall_min_s),
     .def = "null", RANGE(1, 7 * 86400.0), NONE(0), .code = "E023",
     .doc = "but not before so long; null: as mgpu.yaml says"},
    {"watchdog.action", KEY_ENUM, AT(watchdog.action), .def = "auto",
     .code = "E012",
     .words = WORDS(WORD("auto", STALL_AUTO), WORD("end", STALL_END),
                    WORD("alert", STALL_ALERT)),
     .doc = "what then; auto: end of training, alert of a command"},

    {"sweep.grid", KEY_MAP_TREE, .code = "E020", .when = WHEN_SWEEP,
     .doc = "keys, each with a list of values: every combination is a job"},
    {"sweep.zip", KEY_MAP_TREE, .code = "E020", .when = WHEN_SWEEP,
     .doc = "keys, each with as many values: the n-th of each make a job"},
    {"sweep.list", KEY_LIST_TREE, .code = "E020", .when = WHEN_SWEEP,
     .doc = "maps of keys and values: each is a job"},
    {"sweep.array", KEY_STRING, AT(sweep.array), .def = "null", NONE(0),
     .code = "E020", .when = WHEN_SWEEP,
     .doc = "numbers, as 0-15%4 or 1,3,7-9: each is a job that finds its own"},
    {"sweep.max_parallel", KEY_INT, AT(sweep.max_parallel), .def = "0",
     RANGE(0, 4096), .code = "E020", .when = WHEN_SWEEP,
     .doc = "so many of the jobs at a time; 0: as many as fit"},
    {"sweep.stop_on_fail", KEY_BOOL, AT(sweep.stop_on_fail), .def = "false",
     .code = "E011", .when = WHEN_SWEEP,
     .doc = "cancel what has not begun when one of the jobs fails"},
};

/* Keys of other versions of mgpu; an entry includes all keys below it. */
static const char *const later[] = {
    "watchdog.min_gpu_util",
    "watchdog.window",
    "method",
    "train.dtype",
    "train.target",
    "train.model",
    "train.tokenizer",
    "train.checkpointer",
    "train.dataset",
    "train.dataset_val",
    "train.batch_size_val",
    "train.run_val_every_n_steps",
    "train.quantizer",
    "train.loss",
    "train.compile",
    "train.enable_activation_checkpointing",
    "train.enable_activation_offloading",
    "train.optimizer_in_bwd",
    "train.log_every_n_steps",
    "train.log_peak_memory_stats",
    "train.resume_from_checkpoint",
    "train.save_adapter_weights_only",
    "train.profiler",
    "train.metric_logger",
    "train.log_level",
    "train.channels_last",
    "train.optimizer._component_",
    "train.optimizer.fused",
    "train.lr_scheduler._component_",
    "policy.deadline",
    "policy.goal",
    "policy.min_efficiency",
    NULL,
};

const struct schema spec_schema = {
    .keys = keys,
    .n = sizeof(keys) / sizeof(keys[0]),
    .later = later,
    .notes = "x-",
};

/* Keys of one optimizer, or of one schedule. */
static bool applies_to_training(const struct schema_key *k,
                                const struct job_spec *s)
{
    enum spec_optimizer o = s->train.optimizer.name;
    enum spec_schedule l = s->train.lr_scheduler.name;
    switch ((enum spec_when)k->when) {
    case WHEN_SGD:
        return o == OPTIM_SGD;
    case WHEN_ADAMW:
        return o == OPTIM_ADAMW;
    case WHEN_RMSPROP:
        return o == OPTIM_RMSPROP;
    case WHEN_MOMENTUM:
        return o != OPTIM_ADAMW;
    case WHEN_EPS:
        return o != OPTIM_SGD;
    case WHEN_STEP:
        return l == SCHEDULE_STEP;
    case WHEN_MULTISTEP:
        return l == SCHEDULE_MULTISTEP;
    case WHEN_BEST:
        return s->checkpoint.keep_best;
    case WHEN_GAMMA:
        return l == SCHEDULE_STEP || l == SCHEDULE_MULTISTEP;
    default:
        return true;
    }
}

bool spec_applies(const struct schema_key *k, const void *spec)
{
    const struct job_spec *s = spec;
    bool is_cv = s->kind == SPEC_CV;
    switch ((enum spec_when)k->when) {
    case WHEN_CV:
        return is_cv;
    case WHEN_COMMAND:
        return s->kind == SPEC_COMMAND;
    case WHEN_FILES:
        return is_cv && s->dataset.source != SOURCE_SYNTHETIC;
    case WHEN_FOLDER:
        return is_cv && s->dataset.source == SOURCE_IMAGE_FOLDER;
    case WHEN_NOTIFY:
        return s->notify.email || s->notify.webhook;
    case WHEN_SWEEP:
        return false;
    default:
        return !is_cv ? k->when == WHEN_ALWAYS : applies_to_training(k, s);
    }
}

void spec_each_key(void (*each)(void *arg, const char *path, const char *type,
                                const char *def, const char *range,
                                const char *doc),
                   void *arg)
{
    schema_each(&spec_schema, each, arg);
}
