/* spec_good.c - values, defaults, --set, the dump and --show of a job. */
#include "jobs/spec/spec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/spec/spec_table.h"
#include "tests/tap.h"

#define HEAD "version: 1\nkind: cv\n"
#define SYN "dataset: {source: synthetic}\n"
#define OK_CV HEAD SYN
#define OK_CMD "version: 1\nkind: command\ncommand: [ls]\n"

static const struct spec_options here = {.file = "/data/jobs/a.yaml",
                                         .home = "/home/ann"};

static bool parse_with(const char *text, const struct spec_options *opt,
                       struct job_spec *s)
{
    struct spec_report r;
    struct error err = ERROR_INIT;
    int rc = spec_parse(text, strlen(text), opt, s, &r, &err);
    if (rc < 0)
        tap_diag("%s: %s", r.n ? r.findings[0].message : "", err.msg);
    diagnostics_clear(&r);
    return rc == 0;
}

/* The value of one key, as the dump has it. */
static void value_of(const char *text, const char *key,
                     const struct spec_options *opt, char *out, size_t cap)
{
    struct job_spec s;
    struct buf dump = BUF_INIT;
    (void)snprintf(out, cap, "(refused)");
    if (!parse_with(text, opt, &s))
        return;
    char name[80];
    (void)snprintf(name, sizeof(name), "\"%s\":", key);
    const char *p =
        spec_dump(&s, &dump, NULL) == 0 ? strstr(dump.data, name) : NULL;
    if (p) {
        p += strlen(name);
        int depth = 0;
        size_t n = 0;
        while (p[n] && (depth > 0 || (p[n] != ',' && p[n] != '}'))) {
            depth += p[n] == '{' || p[n] == '[';
            depth -= p[n] == '}' || p[n] == ']';
            n++;
        }
        (void)snprintf(out, cap, "%.*s", (int)n, p);
    }
    buf_clear(&dump);
    spec_clear(&s);
}

static const struct {
    const char *name, *line, *key, *want;
} values[] = {
    {"B20 lr 3e-4", "train: {optimizer: {lr: 3e-4}}", "lr", "0.0003"},
    {"B20 lr quoted", "train: {optimizer: {lr: \"3e-4\"}}", "lr", "0.0003"},
    {"B20 lr .0003", "train: {optimizer: {lr: .0003}}", "lr", "0.0003"},
    {"float from a whole number", "train: {optimizer: {lr: 1}}", "lr", "1"},
    {"float with a plus", "train: {optimizer: {lr: +1.}}", "lr", "1"},
    {"17 digits", "train: {optimizer: {lr: 0.30000000000000004}}", "lr",
     "0.30000000000000004"},
    {"gpus 2", "resources: {gpus: 2}", "gpus", "{\"min\":2,\"max\":2}"},
    {"gpus quoted", "resources: {gpus: '2'}", "gpus", "{\"min\":2,\"max\":2}"},
    {"gpus 1..4", "resources: {gpus: 1..4}", "gpus", "{\"min\":1,\"max\":4}"},
    {"gpus as a map", "resources: {gpus: {max: 4, min: 1}}", "gpus",
     "{\"min\":1,\"max\":4}"},
    {"gpus 0", "resources: {gpus: 0}", "gpus", "{\"min\":0,\"max\":0}"},
    {"gpus per node, of gpus", "resources: {gpus: 8, gpus_per_node: 4}",
     "nodes", "{\"min\":2,\"max\":2}"},
    {"gpus per node, of a range", "resources: {gpus: 3..9, gpus_per_node: 4}",
     "gpus", "{\"min\":4,\"max\":8}"},
    {"gpus per node, its nodes", "resources: {gpus: 3..9, gpus_per_node: 4}",
     "nodes", "{\"min\":1,\"max\":2}"},
    {"gpus per node, of nodes", "resources: {nodes: 1..3, gpus_per_node: 4}",
     "gpus", "{\"min\":4,\"max\":12}"},
    {"gpus per node alone", "resources: {gpus_per_node: 4}", "gpus",
     "{\"min\":4,\"max\":4}"},
    {"gpus per node, of both",
     "resources: {gpus: 2..16, nodes: 2..3, gpus_per_node: 4}", "gpus",
     "{\"min\":8,\"max\":12}"},
    {"gpus per node, null", "resources: {gpus: 3, gpus_per_node: ~}", "nodes",
     "{\"min\":1,\"max\":1}"},
    {"B21 1:30:00", "resources: {time_limit: 1:30:00}", "time_limit",
     "\"90m\""},
    {"B21 1d2h", "resources: {time_limit: 1d2h}", "time_limit", "\"26h\""},
    {"B21 2-12:00:00", "resources: {time_limit: 2-12:00:00}", "time_limit",
     "\"60h\""},
    {"no limit", "resources: {time_limit: ~}", "time_limit", "null"},
    {"size", "logs: {max_bytes: 2GiB}", "max_bytes", "\"2G\""},
    {"partition", "resources: {partition: gpu_long}", "partition",
     "\"gpu_long\""},
    {"no partition", "resources: {partition: ~}", "partition", "null"},
    {"constraint", "resources: {constraint: 'ib&(nvlink|pcie)*2'}",
     "constraint", "\"ib&(nvlink|pcie)*2\""},
    {"cpus_per_gpu null", "resources: {cpus_per_gpu: ~}", "cpus_per_gpu",
     "null"},
    {"memory", "resources: {memory: 64G}", "memory", "\"64G\""},
    {"no memory", "resources: {memory: ~}", "memory", "null"},
    {"warn signal", "resources: {time_limit: 1h, warn_signal: USR2}",
     "warn_signal", "\"USR2\""},
    {"warn before", "resources: {time_limit: 1h, warn_before: 5m}",
     "warn_before", "\"5m\""},
    {"priority word", "policy: {priority: high}", "priority", "50"},
    {"priority number", "policy: {priority: -7}", "priority", "-7"},
    {"boolean True", "train: {shuffle: True}", "shuffle", "true"},
    {"boolean off", "train: {shuffle: off}", "shuffle", "false"},
    {"boolean quoted", "train: {shuffle: 'no'}", "shuffle", "false"},
    {"tristate auto", "train: {pin_memory: auto}", "pin_memory", "\"auto\""},
    {"tristate yes", "train: {pin_memory: yes}", "pin_memory", "true"},
    {"resume latest", "retry: {resume: latest}", "resume", "true"},
    {"resume no", "retry: {resume: no}", "resume", "false"},
    {"no is a name", "name: no", "name", "\"no\""},
    {"a number is a name", "name: 1e3", "name", "\"1e3\""},
    {"name of 63",
     "name: a23456789.123456789-123456789_123456789."
     "123456789.12345678.012",
     "name",
     "\"a23456789.123456789-123456789_123456789.123456789.12345678.012\""},
    {"seed null", "train: {seed: null}", "seed", "null"},
    {"seed", "train: {seed: 2147483647}", "seed", "2147483647"},
    {"classes", "model: {num_classes: 10}", "num_classes", "10"},
    {"one class", "model: {num_classes: 1}", "num_classes", "1"},
    {"gray", "model: {in_channels: 1}", "in_channels", "1"},
    {"colour", "model:", "in_channels", "3"},
    {"path relative to the file", "train: {output_dir: ../out}", "output_dir",
     "\"/data/jobs/../out\""},
    {"path here", "train: {output_dir: ./out}", "output_dir",
     "\"/data/jobs/out\""},
    {"path of the home", "train: {output_dir: ~/out}", "output_dir",
     "\"/home/ann/out\""},
    {"the home", "train: {output_dir: '~'}", "output_dir", "\"/home/ann\""},
    {"path null", "train: {output_dir: ~}", "output_dir", "null"},
    {"absolute path", "checkpoint: {dir: /ckpt}", "dir", "\"/ckpt\""},
    {"B13 a path is only a path", "checkpoint: {dir: \"/a;rm -rf $(id) %n\"}",
     "dir", "\"/a;rm -rf $(id) %n\""},
    {"labels", "labels: {team: nlp, a.b/c-d_e: 'x: y'}", "labels",
     "{\"team\":\"nlp\",\"a.b/c-d_e\":\"x: y\"}"},
    {"escapes", "env: {A: \"q\\\" b\\\\ t\\t n\\n u\\u00e9 \\U0001f600\"}",
     "env", "{\"A\":\"q\\\" b\\\\ t\\t n\\n u\xc3\xa9 \xf0\x9f\x98\x80\"}"},
    {"empty text", "env: {A: ''}", "env", "{\"A\":\"\"}"},
    {"empty section", "train:", "epochs", "20"},
    {"empty map", "env:", "env", "{}"},
    {"secrets", "env: {A: x}\nsecrets: [HF_TOKEN, WANDB_KEY]", "secrets",
     "[\"HF_TOKEN\",\"WANDB_KEY\"]"},
    {"passthrough", "env_passthrough: [HOME, LANG]", "env_passthrough",
     "[\"HOME\",\"LANG\"]"},
};

static void test_values(void)
{
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char text[400], got[200];
        (void)snprintf(text, sizeof(text), "%s%s\n",
                       strncmp(values[i].line, "env", 3) ? OK_CV : OK_CMD,
                       values[i].line);
        value_of(text, values[i].key, &here, got, sizeof(got));
        is_str(got, values[i].want, values[i].name);
    }
}

static void test_defaults(void)
{
    struct job_spec s;
    if (!ok(parse_with("kind: cv\ndataset: {source: synthetic}\n", &here, &s),
            "the smallest file"))
        return;
    is_str(s.name, "a", "the name is the file's");
    is_int(s.model.arch, ARCH_MOBILENET_V2, "arch");
    ok(s.model.width_mult == 1.0 && s.model.dropout == 0.2, "model");
    is_int(s.model.num_classes, 0, "classes from the data");
    ok(s.dataset.path == NULL, "no path");
    is_int(s.dataset.image_size, 224, "image size");
    ok(s.dataset.split == 0 && s.dataset.augment == AUGMENT_NONE &&
           !s.dataset.drop_last && s.dataset.on_bad_row == BAD_ROW_FAIL &&
           s.dataset.workers == -1,
       "images as they are, by as many threads as there is room for");
    is_int(s.train.epochs, 20, "epochs");
    is_int(s.train.batch_size, 64, "batch size");
    is_int(s.train.precision, PRECISION_FP32, "precision");
    is_int(s.train.pin_memory, TRI_AUTO, "pin_memory");
    is_int(s.train.seed, -1, "seed is not drawn");
    is_int(s.train.optimizer.name, OPTIM_ADAMW, "optimizer");
    ok(s.train.optimizer.lr == 1e-3 && s.train.optimizer.weight_decay == 0.01,
       "of AdamW");
    is_int(s.resources.gpus.min, 1, "gpus");
    is_int(s.resources.nodes.max, 1, "nodes");
    ok(isinf(s.resources.time_limit_s), "no time limit");
    ok(!s.resources.partition && !s.resources.constraint &&
           !s.resources.reservation && !s.resources.gpu_type &&
           !s.policy.account && !s.policy.qos,
       "nothing for Slurm");
    ok(!s.resources.exclusive && s.resources.cpus_per_gpu == 0 &&
           s.resources.memory_bytes == 0,
       "nor cores or memory");
    ok(s.checkpoint.on_signal && s.checkpoint.grace_s == 120 &&
           s.checkpoint.keep_last == 2,
       "checkpoint");
    ok(s.retry.max == 2 && s.retry.resume, "retry");
    is_int(s.logs.max_bytes, 64 << 20, "log bytes");
    spec_clear(&s);
    spec_clear(&s);
    spec_clear(NULL);
}

static void test_names(void)
{
    static const struct {
        const char *file, *want;
    } files[] = {
        {"/x/mnist.yaml", "\"mnist\""},
        {"My job (2).yml", "\"My-job-2-\""},
        {".hidden", "\"hidden\""},
        {"-", "\"job\""},
        {NULL, "\"job\""},
        {"a.b.yaml", "\"a.b\""},
        {"/x/\xc3\xa9t\xc3\xa9", "\"t-\""},
        {"/x/", "\"job\""},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char got[100];
        struct spec_options opt = {.file = files[i].file};
        value_of(OK_CV, "name", &opt, got, sizeof(got));
        is_str(got, files[i].want, files[i].file ? files[i].file : "no file");
    }
}

static void test_seed(void)
{
    struct job_spec a, b;
    struct spec_options opt = {.draw_seed = true};
    int differ = 0;
    for (int i = 0; i < 4; i++) {
        if (!parse_with(OK_CV, &opt, &a) || !parse_with(OK_CV, &opt, &b)) {
            ok(false, "draws a seed");
            return;
        }
        differ += a.train.seed != b.train.seed && a.train.seed >= 0 &&
                  a.train.seed <= INT32_MAX;
        spec_clear(&a);
        spec_clear(&b);
    }
    ok(differ >= 3, "a null seed is drawn, each time another");
    if (parse_with(OK_CV "train: {seed: 7}\n", &opt, &a))
        is_int(a.train.seed, 7, "a given seed stays");
    spec_clear(&a);
}

/* ---- --set --------------------------------------------------------------- */

static const struct {
    const char *name, *key, *value; /* value NULL: --unset */
    const char *show, *want;        /* a key and its value, or the finding */
} sets[] = {
    {"a number", "train.epochs", "3", "epochs", "3"},
    {"over the file", "name", "other", "name", "\"other\""},
    {"a float", "train.optimizer.lr", "3e-4", "lr", "0.0003"},
    {"two numbers", "train.optimizer.betas", "[0.8, .95]", "betas",
     "[0.8,0.95]"},
    {"a flow map", "resources.gpus", "{min: 1, max: 4}", "gpus",
     "{\"min\":1,\"max\":4}"},
    {"a range", "resources.gpus", "1..4", "gpus", "{\"min\":1,\"max\":4}"},
    {"a flow map of texts", "labels", "{x: y, z: [}", NULL, "E000"},
    {"a flow map of texts", "labels", "{x: y, z: 1}", "labels",
     "{\"x\":\"y\",\"z\":\"1\"}"},
    {"a flow list, of the other kind", "command", "[a, b]", NULL, "E018"},
    {"a quoted text", "labels.x", "\"a\\tb: c\"", NULL, "E014"},
    {"a text that YAML would read", "labels.a", "a: b, #c", "labels",
     "{\"a\":\"a: b, #c\"}"},
    {"a key with a dot", "labels.a.b", "x", "labels", "{\"a.b\":\"x\"}"},
    {"null", "train.seed", "null", "seed", "null"},
    {"nothing for an optional key", "train.seed", "", "seed", "null"},
    {"a path", "train.output_dir", "/o", "output_dir", "\"/o\""},
    {"unset", "train.epochs", NULL, "epochs", "20"},
    {"unset what is not there", "train.batch_size", NULL, "batch_size", "64"},
    {"unset a section", "train", NULL, "epochs", "20"},
    {"unset what is needed", "kind", NULL, NULL, "E012"},
    {"unknown key", "train.foo", "1", NULL, "E010"},
    {"typo", "train.epoch", "1", NULL, "E010"},
    {"no key", "", "1", NULL, "E010"},
    {"dots", "..", "1", NULL, "E010"},
    {"empty step", "train..epochs", "1", NULL, "E010"},
    {"below a scalar", "train.epochs.x", "1", NULL, "E010"},
    {"later key", "watchdog.window", "1", NULL, "E018"},
    {"who is told", "notify.to", "a.b+c@d-e.org", "to", "\"a.b+c@d-e.org\""},
    {"a key of kind llm", "method", "lora", NULL, "E018"},
    {"another name", "train.dtype", "tf32", "precision", "\"tf32\""},
    {"below a key of torchtune", "train.profiler.enabled", "1", NULL, "E018"},
    {"unknown key of a sweep", "sweep.gird", "1", NULL, "E010"},
    {"later key below a section", "train.target", "1", NULL, "E018"},
    {"a key of torchtune", "train.compile", "1", NULL, "E018"},
    {"layout", "train.channels_last", "false", "channels_last", "false"},
    {"bad value", "train.epochs", "0", NULL, "E013"},
    {"list for a scalar", "train.epochs", "[1]", NULL, "E011"},
    {"open flow", "train.epochs", "[1", NULL, "E000"},
    {"alias in a flow", "labels", "{a: *b}", NULL, "E003"},
    {"control character", "labels.a", "\x1b[0m", NULL, "E007"},
    {"Latin-1", "labels.a", "\xe9", NULL, "E008"},
    {"a part of a scalar range", "resources.gpus.min", "1", NULL, "E011"},
    {"a label with another key's name", "labels.kind", "x", "labels",
     "{\"kind\":\"x\"}"},
    {"section by a scalar", "train", "3", NULL, "E011"},
};

static void test_sets(void)
{
    static const char text[] =
        OK_CV "name: a\ntrain: {epochs: 5}\nresources: {gpus: 2}\n";
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        struct spec_set set = {sets[i].key, sets[i].value, NULL};
        struct spec_options opt = here;
        opt.sets = &set;
        opt.n_sets = 1;
        if (sets[i].show) {
            char got[200];
            value_of(text, sets[i].show, &opt, got, sizeof(got));
            is_str(got, sets[i].want, sets[i].name);
            continue;
        }
        struct job_spec s;
        struct spec_report r;
        int rc = spec_parse(text, strlen(text), &opt, &s, &r, NULL);
        is_str(rc < 0 && r.n == 1 ? r.findings[0].code : "no finding",
               sets[i].want, sets[i].name);
        if (rc < 0 && r.n == 1 && sets[i].value)
            is_int(r.findings[0].line, 0, "has no line");
        diagnostics_clear(&r);
    }
    struct spec_set two[] = {{"train.epochs", "3", NULL},
                             {"train.epochs", "4", NULL}};
    struct spec_options opt = here;
    char got[40];
    opt.sets = two;
    opt.n_sets = 2;
    value_of(text, "epochs", &opt, got, sizeof(got));
    is_str(got, "4", "the last --set wins");
}

/* ---- env_passthrough ----------------------------------------------------- */

static void check_env(const char *name, const char *text, const char *finding,
                      const char *want)
{
    const struct spec_options opt = {.take_env = true};
    struct job_spec s;
    struct spec_report r;
    struct error err = ERROR_INIT;
    char got[200] = "";
    int rc = spec_parse(text, strlen(text), &opt, &s, &r, &err);
    is_str(r.n == 1 ? r.findings[0].code : "", finding, name);
    for (size_t i = 0; rc == 0 && i < s.env.n; i++) {
        size_t len = strlen(got);
        (void)snprintf(got + len, sizeof(got) - len, "%s=%s ",
                       s.env.pairs[i].key, s.env.pairs[i].value);
    }
    is_str(rc == 0 ? got : err.msg, want, name);
    if (rc == 0)
        spec_clear(&s);
    diagnostics_clear(&r);
}

static void test_passthrough(void)
{
    if (setenv("JOBS_T1", "one", 1) < 0 || setenv("JOBS_T2", "a\nb", 1) < 0 ||
        unsetenv("JOBS_T3") < 0)
        return;
    check_env("passed through", OK_CMD "env_passthrough: [JOBS_T1, JOBS_T2]\n",
              "", "JOBS_T1=one JOBS_T2=a\nb ");
    check_env("env comes first",
              OK_CMD "env_passthrough: [JOBS_T1]\nenv: {JOBS_T1: x, B: y}\n",
              "", "JOBS_T1=x B=y ");
    check_env("named twice", OK_CMD "env_passthrough: [JOBS_T1, JOBS_T1]\n", "",
              "JOBS_T1=one ");
    check_env("not set", OK_CMD "env_passthrough: [JOBS_T3]\n", "W102", "");
    (void)setenv("JOBS_T1", "\x1b", 1);
    check_env("control character", OK_CMD "env_passthrough: [JOBS_T1]\n",
              "E014", "1 error");
    (void)setenv("JOBS_T1", "\xe9", 1);
    check_env("Latin-1", OK_CMD "env_passthrough: [JOBS_T1]\n", "E014",
              "1 error");
    (void)setenv("JOBS_T1", "${x}", 1);
    check_env("interpolation", OK_CMD "env_passthrough: [JOBS_T1]\n", "E014",
              "1 error");
}

/* ---- the dump ------------------------------------------------------------ */

static const char *const dumps[] = {
    OK_CV,
    OK_CV "train: {resume_from: 12}\n",
    "kind: command\ncommand: [sh, -c, \"echo \\\"$A\\\"\\n\\ttrue\\\\\", '']\n"
    "env: {A: \"\xc3\xa9\xf0\x9f\x98\x80\", B: \"'\", C: '\"', D: '#: - ?'}\n"
    "env_passthrough: [HOME]\nsecrets: [A_KEY]\nlabels: {a: b}\nretry: {max: "
    "0}\n"
    "resources: {gpus: 0, time_limit: 1m}\n",
    HEAD
    "dataset: {source: mnist, path: \"/a b/'\\\"\\\\\"}\nname: x\n"
    "train: {seed: 5, precision: fp64, pin_memory: no, device: host,\n"
    " optimizer: {name: sgd, lr: 0.1, nesterov: yes, weight_decay: 0},\n"
    " lr_scheduler: {name: cosine, num_warmup_steps: 78},\n"
    " max_steps_per_epoch: 10, output_dir: /o, max_iterations: 70,\n"
    " early_stopping: {metric: eval_accuracy, patience: 2, min_delta: .5},\n"
    " eval_only: yes, resume_from: /r}\n"
    "model: {width_mult: 0.35, num_classes: 10, in_channels: 1, dropout: 0}\n"
    "resources: {gpus: 1..4, nodes: 1..2, time_limit: 1d2h3m4s,\n"
    "  warn_signal: HUP, warn_before: 90s,\n"
    " partition: p, constraint: 'a|b', reservation: r, gpu_type: h100,\n"
    " exclusive: on, cpus_per_gpu: 8, memory: 64G, gpu_memory: 40G..80G}\n"
    "policy: {priority: -50, account: a, qos: q, preemptible: no, goal: fit}\n"
    "retry: {on: [exit, time_limit], backoff: 0s, backoff_max: 90s,\n"
    "  exclude_node: false, rules: ['exit:75 retry', 'signal:BUS fail']}\n"
    "depends_on: [afterok:1, 2, afterany:3:4, 'afternotok:5', after:6_1]\n"
    "logs: {max_bytes: 5000B}\n"
    "checkpoint: {dir: /c, on_signal: no, grace: 1h, keep_last: 9}\n",
    HEAD "dataset: {source: image_folder, path: /x}\n",
    HEAD "dataset: {source: image_folder, path: /x, split: 0.25, workers: 0,\n"
         " augment: flip, on_bad_row: skip, drop_last: yes}\n",
    OK_CV "train:\n"
          "  optimizer: {name: rmsprop, alpha: 0.9, eps: 1e-3, momentum: 0,\n"
          "              centered: yes, no_decay: norm_bias}\n"
          "  ema: {decay: 0.99}\n"
          "  on_nan: skip\n"
          "  clip_grad_norm: 1\n  label_smoothing: .1\n"
          "  gradient_accumulation_steps: 4\n"
          "  lr_scheduler: {name: multistep, milestones: [3, 7], gamma: .5}\n"
          "checkpoint: {every: 500steps, keep_best: on, metric: eval_loss,\n"
          "             mode: min}\n",
};

static void test_dump(void)
{
    for (size_t i = 0; i < sizeof(dumps) / sizeof(dumps[0]); i++) {
        struct job_spec a, b;
        struct buf one = BUF_INIT, two = BUF_INIT;
        if (!ok(parse_with(dumps[i], &here, &a), "specification %zu", i))
            continue;
        is_int(spec_dump(&a, &one, NULL), 0, "dumps");
        ok(strchr(one.data, '\n') == NULL, "one line");
        /* The daemon has no file and no home. */
        if (ok(parse_with(one.data, NULL, &b), "is read back")) {
            is_int(spec_dump(&b, &two, NULL), 0, "dumps again");
            is_str(two.data, one.data, "to the same");
            is_int(a.command.n == b.command.n && a.env.n == b.env.n, 1,
                   "as many items");
            spec_clear(&b);
        }
        spec_clear(&a);
        buf_clear(&one);
        buf_clear(&two);
    }
}

/* ---- what people see ----------------------------------------------------- */

static void test_show(void)
{
    static const char text[] =
        "version: 1\nkind: command\ncommand: [ls]\nenv: {HF_TOKEN: hunter2}\n";
    static const char want[] =
        "version: 1                              # file:1\n"
        "name: \"a\"                               # from the file's name\n"
        "kind: command                           # file:2\n"
        "labels: {}                              # default\n"
        "command: [\"ls\"]                         # file:3\n"
        "workdir: \"/data/jobs\"                   # the file's directory\n"
        "saves: false                            # default\n"
        "launch: ranks                           # default\n"
        "resources:\n"
        "  gpus: {\"min\":1,\"max\":1}               # default\n"
        "  nodes: {\"min\":1,\"max\":1}              # default\n"
        "  gpus_per_node: null                   # default\n"
        "  time_limit: 2h                        # --set\n"
        "  warn_signal: auto                     # default\n"
        "  warn_before: null                     # default\n"
        "  partition: null                       # default\n"
        "  constraint: null                      # default\n"
        "  reservation: null                     # default\n"
        "  gpu_type: null                        # default\n"
        "  gpu_memory: null                      # default\n"
        "  exclusive: false                      # default\n"
        "  cpus_per_gpu: null                    # default\n"
        "  memory: null                          # default\n"
        "policy:\n"
        "  priority: 0                           # default\n"
        "  account: null                         # default\n"
        "  qos: null                             # default\n"
        "  preemptible: true                     # default\n"
        "  goal: null                            # default\n"
        "  min_efficiency: null                  # default\n"
        "  force_queue: false                    # default\n"
        "  begin: null                           # default\n"
        "depends_on: []                          # default\n"
        "checkpoint:\n"
        "  grace: 2m                             # default\n"
        "retry:\n"
        "  max: 2                                # default\n"
        "  on: [\"node_fail\",\"stalled\",\"signal\"]  # default\n"
        "  backoff: 10s                          # default\n"
        "  backoff_max: 10m                      # default\n"
        "  exclude_node: true                    # default\n"
        "  rules: []                             # default\n"
        "env: {\"HF_TOKEN\":\"********\"}            # file:4\n"
        "env_passthrough: []                     # default\n"
        "secrets: []                             # default\n"
        "logs:\n"
        "  max_bytes: 64M                        # default\n"
        "  on_limit: truncate                    # default\n"
        "  per_rank: true                        # default\n"
        "notify:\n"
        "  to: null                              # default\n"
        "watchdog:\n"
        "  stall_factor: null                    # default\n"
        "  stall_min: null                       # default\n"
        "  action: auto                          # default\n";
    struct spec_set set = {"resources.time_limit", "120m", NULL};
    struct spec_options opt = here;
    struct buf out = BUF_INIT;
    struct error err = ERROR_INIT;
    opt.is_stored = true; /* of an older mgpu: its values are masked */
    opt.sets = &set;
    opt.n_sets = 1;
    is_int(spec_show(text, strlen(text), &opt, &out, &err), 0, "--show");
    is_str(buf_str(&out), want, "S11: names the origin, hides the secret");
    ok(strstr(buf_str(&out), "hunter2") == NULL, "the secret is not there");
    buf_reset(&out);
    is_int(spec_show("kind: x\n", 8, &opt, &out, &err), -1, "of a bad file");
    is_str(err.msg, "1 error, 1 warning", "counts");
    is_int((long long)out.len, 0, "and writes nothing");
    buf_clear(&out);
}

/* ---- the table ----------------------------------------------------------- */

static void count_key(void *arg, const char *path, const char *type,
                      const char *def, const char *range, const char *doc)
{
    int *n = arg;
    (*n)++;
    if (!*path || !*type || !def || !range || !*doc || strlen(doc) > 76)
        ok(false, "the row of '%s' is complete", path);
}

static void test_every(void)
{
    static const struct {
        const char *s;
        enum spec_every_unit unit;
        double n; /* 0: refused */
    } all[] = {
        {"1step", EVERY_STEPS, 1},           {"500steps", EVERY_STEPS, 500},
        {"1epoch", EVERY_EPOCHS, 1},         {"20epochs", EVERY_EPOCHS, 20},
        {"10m", EVERY_SECONDS, 600},         {"1h30m", EVERY_SECONDS, 5400},
        {"steps", EVERY_STEPS, 0},           {"0epochs", EVERY_EPOCHS, 0},
        {"9999999999steps", EVERY_STEPS, 0}, {"500", EVERY_STEPS, 0},
        {"-1step", EVERY_STEPS, 0},          {"", EVERY_STEPS, 0},
        {"5 steps", EVERY_STEPS, 0},         {"0s", EVERY_SECONDS, 0},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct spec_every e = {.n = 0};
        struct error err = ERROR_INIT;
        int rc = spec_every(all[i].s, &e, &err);
        ok(all[i].n > 0 ? rc == 0 && e.unit == all[i].unit && e.n == all[i].n
                        : rc < 0 && err.msg[0] != '\0',
           "every '%s': %s", all[i].s, err.msg);
    }
}

static void test_table(void)
{
    int n = 0, later = 0;
    spec_each_key(count_key, &n);
    is_int(n, (long long)spec_schema.n, "each row is told");
    ok(spec_schema.n <= SPEC_KEYS_CAP, "%zu rows fit", spec_schema.n);
    for (const char *const *p = spec_schema.later; *p; p++)
        for (size_t i = 0; i < spec_schema.n; i++)
            later += strcmp(*p, spec_schema.keys[i].path) == 0;
    is_int(later, 0, "no key is both there and for later");
}

int main(void)
{
    test_values();
    test_defaults();
    test_names();
    test_seed();
    test_sets();
    test_passthrough();
    test_dump();
    test_show();
    test_table();
    test_every();
    return tap_done();
}
