/* resume_from.c - see resume_from.h. */
#include "worker/train/resume_from.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/spec/spec_table.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/dir_owner.h"

static bool begins_with_any(const char *path, const char *const *parts)
{
    for (int i = 0; parts[i] != NULL; i++)
        if (strncmp(path, parts[i], strlen(parts[i])) == 0)
            return true;
    return false;
}

/* Data, and how it is dealt, decide nothing of the weights. */
static bool is_of_data(const char *path)
{
    static const char *const parts[] = {
        "dataset.",        "train.dataset",       "train.batch_size",
        "train.gradient_", "train.global_batch_", "train.run_val_",
        "train.max_steps", "train.lr_scheduler.", NULL};
    return begins_with_any(path, parts);
}

/* Nor do these, for weights that another optimizer goes on with. */
static bool is_of_updates(const char *path)
{
    static const char *const parts[] = {"train.optimizer",
                                        "train.ema.",
                                        "train.clip_grad_norm",
                                        "train.label_smoothing",
                                        "train.loss.",
                                        "train.shuffle",
                                        "train.on_nan",
                                        "train.tokenizer.max_seq_len",
                                        NULL};
    return begins_with_any(path, parts);
}

static bool may_differ(const struct job_spec *s, const char *path)
{
    const bool weights = s->train.weights_only;
    return ((s->train.eval_only || weights) && is_of_data(path)) ||
           (weights && is_of_updates(path));
}

/* Keys that may differ: where and when a job runs, what it prints, where its
 * files are, and how long it trains. */
static bool is_free(const char *path)
{
    static const char *const free_keys[] = {"version",
                                            "name",
                                            "labels",
                                            "train.epochs",
                                            "train.max_iterations",
                                            "train.eval_only",
                                            "train.weights_only",
                                            "train.device",
                                            "train.resume_from",
                                            "train.output_dir",
                                            "train.profile",
                                            "train.profile_first_s",
                                            "train.seed",
                                            "depends_on",
                                            "secrets",
                                            "env_passthrough",
                                            NULL};
    static const char *const free_parts[] = {"train.sample.",
                                             "resources.",
                                             "policy.",
                                             "checkpoint.",
                                             "train.early_stopping.",
                                             "retry.",
                                             "env.",
                                             "logs.",
                                             "notify.",
                                             "watchdog.",
                                             "sweep.",
                                             NULL};
    for (int i = 0; free_keys[i] != NULL; i++)
        if (strcmp(path, free_keys[i]) == 0)
            return true;
    return begins_with_any(path, free_parts);
}

static int compare(const struct job_spec *s, const struct job_spec *was,
                   struct buf *notes, struct error *err)
{
    struct buf keys = BUF_INIT;
    int rc = 0, n = 0;
    for (size_t i = 0; i < spec_schema.n && rc == 0; i++) {
        const struct schema_key *k = &spec_schema.keys[i];
        if (is_free(k->path) || schema_same(k, s, was) ||
            may_differ(s, k->path))
            continue;
        n++;
        if (keys.len < 100)
            rc = buf_addf(&keys, err, "%s%s", n > 1 ? ", " : "", k->path);
        else if (keys.data[keys.len - 1] != '.')
            rc = buf_addstr(&keys, ", ...", err);
    }
    if (rc == 0 && n > 0)
        rc = error_set(
            err, ERR_INVAL, "'%.40s' had another %s: only %s may differ",
            s->train.resume_from, buf_str(&keys),
            s->train.weights_only
                ? "data, batch sizes, loss, ema, optimizer and lr_scheduler"
            : s->train.eval_only ? "data, batch sizes and lr_scheduler"
                                 : "train.epochs and max_iterations");
    buf_clear(&keys);
    if (rc == 0 && s->train.seed != was->train.seed && !s->train.weights_only)
        rc = buf_addf(notes, err,
                      "train.seed stays %" PRId64
                      ", with which the checkpoint was made\n",
                      was->train.seed);
    return rc;
}

static int check_spec(const struct job_spec *s, const char *text, size_t len,
                      struct buf *notes, struct error *err)
{
    const struct spec_options opt = {.is_stored = true};
    struct spec_report report = {.n = 0};
    struct job_spec was;
    int rc = spec_parse(text, len, &opt, &was, &report, err);
    diagnostics_clear(&report);
    if (rc < 0)
        return error_set(err, ERR_INVAL,
                         "the specification of the job of '%.100s' is of "
                         "another version of mgpu",
                         s->train.resume_from);
    rc = compare(s, &was, notes, err);
    spec_clear(&was);
    return rc;
}

/* A directory without a record cannot be compared; tensors that fit are
 * loaded. */
static int check_record(const struct job_spec *s, const char *dir,
                        struct buf *notes, struct error *err)
{
    struct buf text = BUF_INIT;
    struct error why = ERROR_INIT;
    int rc = dir_owner_spec(dir, &text, &why);
    if (rc == 0)
        rc = check_spec(s, buf_str(&text), text.len, notes, err);
    else if (why.code == ERR_NOTFOUND)
        rc = buf_addf(notes, err,
                      "%s: the job's specification is not on record, so it is "
                      "not compared with this one\n",
                      dir);
    else
        rc = error_set(err, why.code, "%s", why.msg);
    buf_clear(&text);
    return rc;
}

/* The record of a checkpoint is in the directory that it lies in. */
static int check_one(const struct job_spec *s, const char *step,
                     struct buf *notes, struct error *err)
{
    struct buf dir = BUF_INIT;
    int rc = buf_addf(&dir, err, "%s/..", step);
    rc = rc < 0 ? rc : check_record(s, buf_str(&dir), notes, err);
    buf_clear(&dir);
    return rc;
}

int resume_from_find(const struct job_spec *s, struct buf *ret_dir,
                     bool *ret_is_one, struct buf *ret_notes, struct error *err)
{
    static const char *const below[] = {"", "/ckpt"};
    bool has = false;
    const size_t was = ret_dir->len;
    *ret_is_one = checkpoint_is_one(s->train.resume_from);
    if (*ret_is_one)
        return buf_addstr(ret_dir, s->train.resume_from, err) < 0
                   ? -1
                   : check_one(s, s->train.resume_from, ret_notes, err);
    for (int i = 0; i < 2; i++) {
        ret_dir->len = was;
        if (buf_addf(ret_dir, err, "%s%s", s->train.resume_from, below[i]) <
                0 ||
            dir_owner_has_checkpoints(buf_str(ret_dir), &has, err) < 0)
            return -1;
        if (has)
            return check_record(s, buf_str(ret_dir), ret_notes, err);
    }
    return error_set(err, ERR_NOTFOUND,
                     "no checkpoint in '%.100s', and none in its ckpt/",
                     s->train.resume_from);
}
