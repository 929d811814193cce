/* spec_hints.c - U2: mistakes as people make them, each in a whole file, and
 * all that their author is told of them: the line and the column, the code,
 * the path of the key, and what to write instead.
 *
 * A row is one of two good files with one line exchanged. What is said is
 * the hint, or the message where the message says it all; it is compared as
 * a whole, for half a hint sends people to the wrong place. That a mistake
 * makes others (a key that is mistyped is missing as well) is in the rows.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/spec/spec.h"
#include "tests/tap.h"

static const char cv[] = "version: 1\n"
                         "name: mobilenet-mnist\n"
                         "kind: cv\n"
                         "model:\n"
                         "  arch: mobilenet_v2\n"
                         "  width_mult: 1.0\n"
                         "dataset:\n"
                         "  source: mnist\n"
                         "  path: /data/mnist\n"
                         "  image_size: 224\n"
                         "train:\n"
                         "  epochs: 20\n"
                         "  batch_size: 64\n"
                         "  precision: fp16\n"
                         "  distribution: ddp-ds\n"
                         "  optimizer:\n"
                         "    name: adamw\n"
                         "    lr: 3e-4\n"
                         "  lr_scheduler: {name: cosine}\n"
                         "resources:\n"
                         "  gpus: 1..4\n"
                         "  time_limit: 2h\n"
                         "  memory: 32G\n"
                         "policy:\n"
                         "  priority: normal\n"
                         "checkpoint:\n"
                         "  every: 1epoch\n"
                         "retry:\n"
                         "  max: 3\n";

static const char run[] = "version: 1\n"
                          "name: tokenize\n"
                          "kind: command\n"
                          "command: [python3, tokenize.py]\n"
                          "env:\n"
                          "  THREADS: '8'\n"
                          "resources:\n"
                          "  gpus: 0\n"
                          "  time_limit: 90m\n"
                          "depends_on: [afterok:12]\n"
                          "notify:\n"
                          "  to: anna@example.org\n";

static const struct {
    const char *file;
    int line;
    const char *instead, *want;
} rows[] = {
    {cv, 13, "  batchsize: 64",
     "13:3 E010 train.batchsize | did you mean 'batch_size'?"},
    {cv, 12, "  epoch: 20", "12:3 E010 train.epoch | did you mean 'epochs'?"},
    {cv, 20, "resource:", "20:1 E010 resource | did you mean 'resources'?"},
    {cv, 2, "nmae: mobilenet-mnist", "2:1 E010 nmae | did you mean 'name'?"},
    {cv, 18, "    learning_rate: 3e-4",
     "18:5 E010 train.optimizer.learning_rate | did you mean 'lr'?"},
    {cv, 18, "    Lr: 3e-4",
     "18:5 E010 train.optimizer.Lr | did you mean 'lr'?"},
    {cv, 22, "  timelimit: 2h",
     "22:3 E010 resources.timelimit | did you mean 'time_limit'?"},
    {cv, 21, "  gpu: 1..4", "21:3 E010 resources.gpu | did you mean 'gpus'?"},
    {cv, 21, "  num_gpus: 4",
     "21:3 E010 resources.num_gpus | did you mean 'gpus'?"},
    {cv, 15, "  distributio: ddp-ds",
     "15:3 E010 train.distributio | did you mean 'distribution'?"},
    {cv, 19, "  lr_schedule: {name: cosine}",
     "19:3 E010 train.lr_schedule | did you mean 'lr_scheduler'?"},
    {cv, 10, "  img_size: 224",
     "10:3 E010 dataset.img_size | did you mean 'image_size'?"},
    {cv, 27, "  evvery: 1epoch",
     "27:3 E010 checkpoint.evvery | did you mean 'every'?"},
    {cv, 25, "  prioity: high",
     "25:3 E010 policy.prioity | did you mean 'priority'?"},
    {cv, 29, "  maximum: 3", "29:3 E010 retry.maximum | did you mean 'max'?"},
    {run, 4, "cmd: [python3, tokenize.py]",
     "1:1 E011 command | program and arguments; no shell reads them; 4:1 E010 "
     "cmd | did you mean 'command'?"},
    {run, 10, "depend_on: [afterok:12]",
     "10:1 E010 depend_on | did you mean 'depends_on'?"},
    {run, 12, "  too: anna@example.org",
     "12:3 E010 notify.too | did you mean 'to'?"},
    {run, 12, "  email: anna@example.org",
     "12:3 E018 notify.email | notify.to"},
    {run, 12, "  webhook: https://hooks.example.org/x",
     "12:3 E018 notify.webhook | notify.to"},
    {cv, 8, "   source: mnist",
     "9:3 E000 | the keys of a section begin in one column, as on the line "
     "before"},
    {cv, 13, "\tbatch_size: 64", "13:1 E000 | indent with spaces, not tabs"},
    {cv, 14, "  precision:fp16",
     "14:3 E000 | write key: value, with a blank after the colon"},
    {cv, 19, "  lr_scheduler: {name: cosine, num_warmup_steps: 100",
     "20:10 E000 | close the bracket that line 19 opens"},
    {cv, 2, "name: mobilenet: mnist",
     "2:16 E000 | the keys of a section begin in one column; quote a value "
     "that has ': ' in it"},
    {cv, 12, "epochs: 20",
     "13:13 E000 | the keys of a section begin in one column; quote a value "
     "that has ': ' in it"},
    {cv, 13, "  epochs: 64", "13:3 E006 train.epochs | leave one of them out"},
    {cv, 28, "resources:", "28:1 E006 resources | leave one of them out"},
    {cv, 3, "kind: CV", "3:7 E012 kind | did you mean 'cv'?"},
    {cv, 3, "kind: vision",
     "3:7 E012 kind | 'kind' must be one of: cv, command, llm, not "
     "'vision'"},
    {cv, 3, "kind: run",
     "3:7 E012 kind | a run is made by its own program, with mgpu.init() of "
     "mgpu.py"},
    {cv, 14, "  precision: fp-16",
     "14:14 E012 train.precision | did you mean 'fp16'?"},
    {cv, 14, "  precision: float16",
     "14:14 E012 train.precision | 'train.precision' must be one of: fp64, "
     "fp32, tf32, fp16, bf16, not 'float16'"},
    {cv, 15, "  distribution: ddp_ds",
     "15:17 E012 train.distribution | did you mean 'ddp-ds'?"},
    {cv, 15, "  distribution: fsdp",
     "15:17 E018 train.distribution | one of: ddp-ds, ddp-rr, ddp, dp"},
    {cv, 17, "    name: adam",
     "17:11 E012 train.optimizer.name | did you mean 'adamw'?"},
    {cv, 8, "  source: minst",
     "8:11 E012 dataset.source | did you mean 'mnist'?"},
    {cv, 25, "  priority: urgent",
     "25:13 E023 policy.priority | -50..50, low, normal, high"},
    {cv, 5, "  arch: mobilenetv2",
     "5:9 E012 model.arch | did you mean 'mobilenet_v2'?"},
    {cv, 12, "  epochs: 0",
     "12:11 E013 train.epochs | 'train.epochs' must be 1..10000, not '0'"},
    {cv, 12, "  epochs: twenty", "12:11 E013 train.epochs | 1..10000"},
    {cv, 12, "  epochs: 1e3", "12:11 E013 train.epochs | 1..10000"},
    {cv, 13, "  batch_size: [64]",
     "13:15 E011 train.batch_size | 'train.batch_size' must be a single value, "
     "not a list"},
    {cv, 13, "  global_batch_size: 100",
     "13:22 E017 train.global_batch_size | as in global_batch_size: 64, or "
     "128"},
    {cv, 13,
     "  global_batch_size: 77\n  batch_size: 7\n"
     "  gradient_accumulation_steps: 2",
     "15:3 E017 train.gradient_accumulation_steps | "
     "'train.gradient_accumulation_steps' is only for jobs without "
     "train.global_batch_size"},
    {cv, 13, "  batch_size:",
     "13:14 E011 train.batch_size | leave the key out for its default"},
    {cv, 10, "  image_size: 224px", "10:15 E013 dataset.image_size | 28..1024"},
    {cv, 6, "  width_mult: 4",
     "6:15 E013 model.width_mult | 'model.width_mult' must be 0.25..2, not "
     "'4'"},
    {cv, 18, "    lr: 3e-4x",
     "18:9 E013 train.optimizer.lr | write 0.0003, .0003 or 3e-4"},
    {cv, 18, "    lr: -3e-4",
     "18:9 E013 train.optimizer.lr | 'train.optimizer.lr' must be above "
     "0..1000, not '-3e-4'"},
    {cv, 18, "    lr: 0,0003",
     "18:9 E013 train.optimizer.lr | write 0.0003, .0003 or 3e-4"},
    {cv, 21, "  gpus: 4..1",
     "21:9 E021 resources.gpus | 'resources.gpus': 4..1 has its larger end "
     "first"},
    {cv, 21, "  gpus: 1-4",
     "21:9 E021 resources.gpus | write 2, 1..4 or {min: 1, max: 4}"},
    {cv, 21, "  gpus: all",
     "21:9 E021 resources.gpus | write 2, 1..4 or {min: 1, max: 4}"},
    {cv, 21, "  gpus: -1",
     "21:9 E021 resources.gpus | 'resources.gpus' must be within 0..1024, not "
     "-1"},
    {cv, 21, "  gpus: 2\n  nodes: 4",
     "22:10 E021 resources.nodes | give each node at least one GPU"},
    {cv, 22, "  time_limit: 60",
     "22:15 E024 resources.time_limit | write 60s or 60m"},
    {cv, 22, "  time_limit: 4:00",
     "22:15 E024 resources.time_limit | write 4h, or 4m, or 4:00:00"},
    {cv, 22, "  time_limit: 2-12",
     "22:15 E024 resources.time_limit | write 2-12:00:00"},
    {cv, 22, "  time_limit: 2 hours",
     "22:15 E024 resources.time_limit | write 90s, 15m, 8h, 2d, 1h30m, 1:30:00 "
     "or 2-12:00:00"},
    {cv, 22, "  time_limit: unlimited",
     "22:15 E024 resources.time_limit | leave the key out, or write null, for "
     "none"},
    {cv, 23, "  memory: 32", "23:11 E023 resources.memory | write 32M, or 32B"},
    {cv, 23, "  memory: 32GiBs",
     "23:11 E023 resources.memory | write 64M, 64MB or 64MiB (all 64 * 1024 * "
     "1024 bytes); K, M, G, T, or B"},
    {cv, 27, "  every: 500",
     "27:10 E024 checkpoint.every | write 500steps, 10m or 1epoch"},
    {cv, 9, "  split: 0.1",
     "7:1 E015 dataset.path | directory with the data; needed unless source is "
     "synthetic; 9:3 E017 dataset.split | 'dataset.split' is only for "
     "dataset.source: image_folder"},
    {cv, 17, "    name: sgd\n    betas: [0.9, 0.999]",
     "18:5 E017 train.optimizer.betas | 'train.optimizer.betas' is only for "
     "train.optimizer.name: adamw and adamw8bit"},
    {cv, 19, "  lr_scheduler: {name: cosine, step_size: 3}",
     "19:32 E017 train.lr_scheduler.step_size | 'train.lr_scheduler.step_size' "
     "is only for train.lr_scheduler.name: step"},
    {run, 4, "command: python3 tokenize.py",
     "4:10 E011 command | 'command' must be a list ([a, b]), not a single "
     "value"},
    {run, 4, "command: []", "4:10 E011 command | write [program, argument]"},
    {run, 3, "kind: cv",
     "1:1 E012 dataset.source | one of: mnist, image_folder, synthetic; 4:1 "
     "E018 command | 'command' is only for kind: command; 5:1 E018 env | 'env' "
     "is only for kind: command and llm"},
    {run, 6, "  LD_PRELOAD: x.so",
     "6:3 E019 env | a job may not set the variable 'LD_PRELOAD'"},
    {run, 6, "  MY THREADS: '8'", "6:3 E014 env | letters, digits and '_'"},
    {run, 10, "depends_on: afterok:12",
     "10:13 E011 depends_on | 'depends_on' must be a list ([a, b]), not a "
     "single value"},
    {run, 10, "depends_on: [after_ok:12]",
     "10:14 E022 depends_on | depends_on: 'after_ok:12': expected afterok:JOB, "
     "afternotok:JOB, afterany:JOB or after:JOB"},
    {run, 10, "depends_on: [afterok]",
     "10:14 E022 depends_on | depends_on: 'afterok': expected afterok:JOB, "
     "afternotok:JOB, afterany:JOB or after:JOB"},
    {run, 12, "  to: ''",
     "12:7 E023 notify.to | notify.to: expected 1 to 1023 bytes without "
     "control characters"},
    {run, 12, "  on: [end]",
     "12:3 E017 notify.on | 'notify.on' is only for notify.to"},
    {run, 2, "name: tokenize all",
     "2:7 E014 name | letters, digits, '.', '_' and '-'; a letter or digit "
     "first; at most 63"},
    {run, 2, "name: &n tokenize",
     "2:7 E003 name | write the value out where it is used"},
    {run, 6, "  OUT: ${outputdir}/x",
     "6:8 E016 env | did you mean '${output_dir}'?"},
    {run, 6, "  OUT: ${HOME}/x",
     "6:8 E016 env | one of: ${name}, ${job_id}, ${task_id}, ${attempt}, "
     "${user}, ${output_dir}; a shell's own is $name or $${name}"},
    {run, 6, "  OUT: ${output_dir/x",
     "6:8 E016 env | one of: ${name}, ${job_id}, ${task_id}, ${attempt}, "
     "${user}, ${output_dir}; a shell's own is $name or $${name}"},
    {run, 6, "  <<: *base",
     "6:3 E003 env.<< | write the keys out where they are used; 6:7 E003 env | "
     "write the value out where it is used"},
    {run, 6, "  THREADS: !!int 8",
     "6:12 E009 env.THREADS | leave the tag out; the key decides the type"},
};
enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };
_Static_assert(N_ROWS >= 60, "U2 asks for sixty");

/* The file with that line exchanged. */
static void exchange(const char *file, int line, const char *instead,
                     struct buf *out)
{
    const char *from = file;
    for (int i = 1; i < line; i++)
        from = strchr(from, '\n') + 1;
    int rc = buf_add(out, file, (size_t)(from - file), NULL);
    rc |= buf_addstr(out, instead, NULL);
    rc |= buf_addstr(out, strchr(from, '\n'), NULL);
    if (rc != 0)
        ok(false, "memory");
}

/* "13:3 E010 train.batchsize | did you mean 'batch_size'?; ..." */
static void all_of(const struct spec_report *r, struct buf *out)
{
    int rc = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct spec_finding *f = &r->findings[i];
        rc |= buf_addf(out, NULL, "%s%d:%d %s %s%s| %s", i > 0 ? "; " : "",
                       f->line, f->column, f->code, f->path,
                       *f->path ? " " : "", *f->hint ? f->hint : f->message);
    }
    if (rc != 0)
        ok(false, "memory");
}

static int read_text(const char *text, size_t len, struct buf *ret)
{
    struct job_spec s;
    struct spec_report r;
    struct error err = ERROR_INIT;
    int rc = spec_parse(text, len, NULL, &s, &r, &err);
    all_of(&r, ret);
    if (rc == 0)
        spec_clear(&s);
    diagnostics_clear(&r);
    return rc;
}

int main(void)
{
    struct buf text = BUF_INIT, got = BUF_INIT;

    is_int(read_text(cv, strlen(cv), &got), 0, "the one file is good");
    is_int(read_text(run, strlen(run), &got), 0, "so is the other");
    is_str(buf_str(&got), "", "  and nothing is said of them");
    for (size_t i = 0; i < N_ROWS; i++) {
        buf_reset(&text);
        buf_reset(&got);
        exchange(rows[i].file, rows[i].line, rows[i].instead, &text);
        if (read_text(text.data, text.len, &got) == 0)
            ok(false, "'%s' passes", rows[i].instead);
        is_str(buf_str(&got), rows[i].want, rows[i].instead);
    }
    buf_clear(&text);
    buf_clear(&got);
    return tap_done();
}
