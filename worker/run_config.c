/* run_config.c - see run_config.h. Rank 0 reads the file and broadcasts its
 * text, so that a file system that is late on another node, or a file that
 * changes, cannot make the ranks disagree; a random seed is drawn once. */
#include "worker/run_config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/schema/interpolate.h"
#include "jobs/text/parent_ref.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/dir_owner.h"

enum { FILE_MAX_BYTES = 1 << 20 };
/* The other ranks may still be starting. */
static const double deadline_s = 120;

/* Rank 0's text, or its error, on every rank. */
static int share(struct comm *c, int rc, struct buf *text, struct error *why,
                 struct error *err)
{
    int64_t len = rc < 0 ? -1 : (int64_t)text->len;
    if (comm_broadcast_now(c, &len, sizeof(len), 0, deadline_s, err) < 0)
        return -1;
    if (len < 0) {
        if (comm_broadcast_now(c, why, sizeof(*why), 0, deadline_s, err) < 0)
            return -1;
        if (err != NULL)
            *err = *why;
        return -1;
    }
    if (buf_reserve(text, (size_t)len + 1, err) < 0)
        return -1;
    text->len = (size_t)len;
    if (comm_broadcast_now(c, text->data, (size_t)len, 0, deadline_s, err) < 0)
        return -1;
    text->data[len] = '\0';
    return 0;
}

/* The daemon says where the job is that train.resume_from names. */
static int set_from(struct wire_launch *l, struct error *err)
{
    struct parent_ref job;
    char **from = &l->spec.train.resume_from;
    if (*from == NULL || parent_ref_parse(*from, &job) != PARENT_JOB)
        return 0;
    if (l->from[0] == '\0')
        return error_set(err, ERR_INVAL,
                         "train.resume_from: only a daemon knows job %.40s: "
                         "name its directory",
                         *from);
    char *dir = strdup(l->from);
    if (dir == NULL)
        return error_set(err, ERR_NOMEM, "out of memory");
    free(*from);
    *from = dir;
    return 0;
}

static int fill(struct wire_launch *l, struct error *err)
{
    char out[sizeof(l->job_dir) + 8];
    const struct fill_vars v = {
        .name = l->spec.name,
        .user = l->user[0] != '\0' ? l->user : NULL,
        .output_dir = out,
        .job = l->job,
        .task = l->sweep > 0 ? l->task : 0,
        .attempt = l->attempt,
    };
    (void)snprintf(out, sizeof(out), "%s/out", l->job_dir);
    return spec_fill(&l->spec, &v, err) < 0 ? -1 : set_from(l, err);
}

static int set_dirs(struct worker_job *j, struct error *err)
{
    const struct job_spec *s = &j->launch.spec;
    const char *out = s->train.output_dir, *ckpt = s->checkpoint.dir;
    int n = out != NULL ? snprintf(j->out_dir, sizeof(j->out_dir), "%s", out)
                        : snprintf(j->out_dir, sizeof(j->out_dir), "%s/out",
                                   j->launch.job_dir);
    int m =
        ckpt != NULL
            ? snprintf(j->ckpt_dir, sizeof(j->ckpt_dir), "%s", ckpt)
            : snprintf(j->ckpt_dir, sizeof(j->ckpt_dir), "%s/ckpt", j->out_dir);
    if (n < 0 || m < 0 || (size_t)n >= sizeof(j->out_dir) ||
        (size_t)m >= sizeof(j->ckpt_dir))
        return error_set(err, ERR_LIMIT, "a path is over 1 KiB long");
    return 0;
}

int job_make_dirs(const struct worker_job *j, struct error *err)
{
    if (j->launch.spec.train.eval_only)
        return 0;
    return checkpoint_make_dirs(j->out_dir, err);
}

static int own_dir(const char *dir, const char *key, const struct dir_owner *o,
                   struct error *err)
{
    if (checkpoint_make_dirs(dir, err) < 0 || dir_owner_take(dir, o, err) < 0)
        return error_wrap(err, "%s", key);
    return 0;
}

int job_own_dirs(const struct worker_job *j, struct error *err)
{
    const struct wire_launch *l = &j->launch;
    struct buf spec = BUF_INIT;
    if (l->spec.kind == SPEC_COMMAND || l->spec.train.eval_only)
        return 0;
    int rc = spec_dump(&l->spec, &spec, err);
    if (rc == 0) {
        const struct dir_owner o = {.id = l->owner,
                                    .cluster = l->cluster,
                                    .job = l->job,
                                    .spec = buf_str(&spec)};
        rc = own_dir(j->out_dir, "train.output_dir", &o, err);
        rc = rc < 0 ? rc : own_dir(j->ckpt_dir, "checkpoint.dir", &o, err);
    }
    buf_clear(&spec);
    /* Another job owns the directory, and will own it later: do not retry. */
    if (rc < 0 && err != NULL && err->code == ERR_STATE)
        err->code = ERR_INVAL;
    return rc;
}

int job_from_launch(const char *file, struct comm *c, struct worker_job *ret,
                    struct error *err)
{
    struct buf text = BUF_INIT;
    struct worker_job j = {.out_dir = ""};
    struct error why = ERROR_INIT;
    int rc =
        c->rank == 0 ? buf_read_own_file(&text, file, FILE_MAX_BYTES, &why) : 0;
    rc = share(c, rc, &text, &why, err);
    rc = rc < 0 ? rc
                : wire_launch_parse(buf_str(&text), text.len, &j.launch, err);
    buf_clear(&text);
    if (rc < 0)
        return error_wrap(err, "%s", file);
    if (fill(&j.launch, err) < 0 || set_dirs(&j, err) < 0) {
        job_clear(&j);
        return -1;
    }
    *ret = j;
    return 0;
}

int run_config_read_job(const char *file, struct job_spec *ret,
                        struct error *err)
{
    struct buf text = BUF_INIT, findings = BUF_INIT;
    char user[FILL_USER_CAP];
    struct spec_options opt = {.file = file,
                               .home = getenv("HOME"),
                               .user = interpolate_own_user(user),
                               .draw_seed = true};
    struct spec_report report = {.n = 0};
    if (buf_read_operand(&text, file, FILE_MAX_BYTES, err) < 0) {
        buf_clear(&text);
        return -1;
    }
    int rc = spec_parse(buf_str(&text), text.len, &opt, ret, &report, err);
    if (report.n > 0 && diagnostics_print(&report, file, buf_str(&text),
                                          text.len, &findings, NULL) == 0)
        (void)fputs(buf_str(&findings), stderr);
    diagnostics_clear(&report);
    buf_clear(&findings);
    buf_clear(&text);
    return rc;
}

/* The specification as canonical JSON, its seed drawn. */
static int read_spec(const char *file, struct buf *out, struct error *err)
{
    struct job_spec s;
    if (run_config_read_job(file, &s, err) < 0)
        return -1;
    int rc = spec_dump(&s, out, err);
    spec_clear(&s);
    return rc;
}

static int parse_shared(const struct buf *text, struct job_spec *ret,
                        struct error *err)
{
    struct spec_options opt = {.is_stored = true};
    struct spec_report report = {.n = 0};
    int rc = spec_parse(buf_str(text), text->len, &opt, ret, &report, err);
    diagnostics_clear(&report);
    return rc;
}

static int set_launch(struct wire_launch *l, const char *dir, struct comm *c,
                      struct error *err)
{
    char here[PATH_MAX], name[SPEC_NAME_CAP + 8], path[2 * PATH_MAX];
    (void)snprintf(name, sizeof(name), "%s.run", l->spec.name);
    if (dir == NULL)
        dir = name;
    if (getcwd(here, sizeof(here)) == NULL)
        return error_sys(err, errno, "working directory");
    (void)snprintf(path, sizeof(path), "%s%s%s", dir[0] == '/' ? "" : here,
                   dir[0] == '/' ? "" : "/", dir);
    if (strlen(path) >= sizeof(l->dir))
        return error_set(err, ERR_LIMIT, "'%.80s...' is over %zu bytes long",
                         path, sizeof(l->dir) - 1);
    memcpy(l->dir, path, strlen(path) + 1);
    memcpy(l->job_dir, path, strlen(path) + 1);
    (void)interpolate_own_user(l->user);
    l->attempt = 1;
    l->nodes = 1;
    l->gpus_per_node = l->spec.resources.gpus.max > 0 ? c->local_size : 0;
    if (l->spec.launch == LAUNCH_NODE)
        l->gpus_per_node = l->spec.resources.gpus.max / c->size;
    l->heartbeat_s = 10;
    if (checkpoint_make_dirs(path, err) < 0)
        return -1;
    /* A run in the same directory is another attempt of the same job. */
    struct error why = ERROR_INIT;
    int64_t code = c->rank == 0 && dir_owner_of_run(path, l->owner, &why) < 0
                       ? why.code
                       : ERR_NONE;
    if (comm_broadcast_now(c, &code, sizeof(code), 0, deadline_s, err) < 0 ||
        comm_broadcast_now(c, l->owner, sizeof(l->owner), 0, deadline_s, err) <
            0)
        return -1;
    return code == ERR_NONE
               ? 0
               : error_set(err, (enum err_code)code, "%s",
                           c->rank == 0 ? why.msg : "rank 0 cannot use --dir");
}

int job_from_spec(const char *file, const char *dir, struct comm *c,
                  struct worker_job *ret, struct error *err)
{
    struct buf text = BUF_INIT;
    struct worker_job j = {.out_dir = ""};
    struct error why = ERROR_INIT;
    int rc = c->rank == 0 ? read_spec(file, &text, &why) : 0;
    rc = share(c, rc, &text, &why, err);
    rc = rc < 0 ? rc : parse_shared(&text, &j.launch.spec, err);
    buf_clear(&text);
    if (rc < 0)
        return error_wrap(err, "%s", file);
    if (set_launch(&j.launch, dir, c, err) < 0 || fill(&j.launch, err) < 0 ||
        set_dirs(&j, err) < 0) {
        job_clear(&j);
        return -1;
    }
    *ret = j;
    return 0;
}

void job_clear(struct worker_job *j)
{
    wire_launch_clear(&j->launch);
}

struct report_conf job_report_conf(const struct worker_job *j, int32_t rank)
{
    const struct wire_launch *l = &j->launch;
    return (struct report_conf){.url = l->url,
                                .token = l->token,
                                .dir = l->dir,
                                .job = l->job,
                                .attempt = l->attempt,
                                .rank = rank,
                                .heartbeat_s = l->heartbeat_s};
}
