/* spec_check_stopping.c - check the keys that end a training early, or keep it
 * from beginning, against what the job has to judge by. */
#include "jobs/spec/spec_check.h"
#include "jobs/spec/spec_look.h"
#include "jobs/text/parent_ref.h"

/* A language model has evaluations if it has rows for them. */
static bool has_evaluations(const struct check *c)
{
    return c->s->kind != SPEC_LLM || c->s->train.dataset_val.path != NULL ||
           is_bad(c, "train.dataset_val.path");
}

static void check_metric(const struct check *c)
{
    static const char path[] = "train.early_stopping.metric";
    const enum spec_watched metric = c->s->train.early_stopping.metric;
    if (!is_set(c, path) || metric == WATCH_NONE || c->s->kind == SPEC_COMMAND)
        return;
    if (metric == WATCH_EVAL_ACCURACY && c->s->kind == SPEC_LLM)
        diagnostics_add(c->report, "E018", place_of(c, path), path,
                        "set metric: eval_loss, or train_loss",
                        "'%s: eval_accuracy' is only for kind: cv", path);
    else if (metric != WATCH_TRAIN_LOSS && !has_evaluations(c))
        diagnostics_add(c->report, "E017", place_of(c, path), path,
                        "set train.dataset_val.path, or metric: train_loss",
                        "'%s: eval_loss' needs train.dataset_val", path);
}

static void check_eval_only(const struct check *c)
{
    static const char path[] = "train.eval_only";
    const struct job_spec *s = c->s;
    if (!is_set(c, path) || !s->train.eval_only || s->kind == SPEC_COMMAND)
        return;
    if (!has_evaluations(c))
        diagnostics_add(c->report, "E017", place_of(c, path), path,
                        "set train.dataset_val.path",
                        "'%s' needs train.dataset_val", path);
    if (s->kind == SPEC_CV && s->train.resume_from == NULL &&
        !is_bad(c, "train.resume_from"))
        diagnostics_add(c->report, "E017", place_of(c, path), path,
                        "set train.resume_from to a job, such as 12, to its "
                        "directory, or to one checkpoint",
                        "'%s' has no weights to evaluate", path);
}

static void check_weights_only(const struct check *c)
{
    static const char path[] = "train.weights_only";
    const struct job_spec *s = c->s;
    if (is_set(c, path) && s->train.weights_only && s->kind != SPEC_COMMAND &&
        s->train.resume_from == NULL && !is_bad(c, "train.resume_from"))
        diagnostics_add(c->report, "E017", place_of(c, path), path,
                        "set train.resume_from to a job, such as 12, to its "
                        "directory, or to one checkpoint",
                        "'%s' has no job to take the weights from", path);
}

void spec_look_for_parent(const struct job_spec *s, const char *named,
                          struct mark at, const struct spec_options *opt,
                          struct spec_report *report)
{
    static const char path[] = "train.resume_from";
    struct error why = ERROR_INIT;
    struct parent_ref job;
    if (opt->look == NULL || s->kind == SPEC_COMMAND ||
        parent_ref_parse(named, &job) != PARENT_JOB ||
        opt->look->parent(opt->look->arg, s, named, &why) == 0)
        return;
    if (why.code == ERR_INVAL)
        diagnostics_add(report, "E022", at, path,
                        "a job of your own that has ended, by its number, or "
                        "a directory",
                        "%s: %.230s", path, why.msg);
    else if (why.code == ERR_NOTFOUND)
        diagnostics_add(report, "W104", at, path,
                        "it must exist where the job runs", "%s: %.230s", path,
                        why.msg);
}

void spec_check_stopping(const struct check *c)
{
    check_metric(c);
    check_eval_only(c);
    check_weights_only(c);
}
