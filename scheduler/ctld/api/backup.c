/* backup.c - POST /v1/admin/backup and fsck: a copy of the databases, and
 * a look through them, by a thread of its own, for both take as long as the
 * disk does. The reply comes when it is done. One at a time. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/maintenance/audit_log.h"
#include "scheduler/ctld/maintenance/backup_schedule.h"
#include "scheduler/ctld/maintenance/lost_files.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/reply.h"

enum { DIR_MAX = 900 };

struct backup {
    struct task task;
    struct ctld *c;
    struct http_exchange *x;
    char dir[DIR_MAX + 1];
    int64_t uid;
    double began_s;
    int rc;
    struct error err;
};

static void backup_run(struct task *t)
{
    struct backup *b = (struct backup *)t;
    const struct ctld_parts *parts = &b->c->parts;
    b->rc =
        parts->backup(parts->conf->state_dir, b->dir, &b->c->closing, &b->err);
}

static void backup_done(struct task *t)
{
    struct backup *b = (struct backup *)t;
    struct ctld *c = b->c;
    const struct clock *clock = c->parts.clock;
    double took_s = clock->now_s(clock) - b->began_s;
    struct error err = ERROR_INIT;
    if (b->rc < 0) {
        log_err("admin", "backup failed uid=%lld dir=\"%s\" why=\"%s\"",
                (long long)b->uid, b->dir, b->err.msg);
        http_reply_err(b->x, &b->err);
        free(b);
        return;
    }
    if (audit_log_add(c->audit_log, clock->wall_s(clock), b->uid, "backup",
                      json_pack("{s:s}", "dir", b->dir), &err) < 0)
        log_err("admin", "a backup is not in the log why=\"%s\"", err.msg);
    log_notice("admin", "backup uid=%lld dir=\"%s\" took_s=%.3f",
               (long long)b->uid, b->dir, took_s);
    ctld_reply(b->x, 200,
               json_pack("{s:s, s:s, s:f}", "schema", "mgpu.backup/1", "dir",
                         b->dir, "took_s", took_s));
    free(b);
}

static int start(struct ctld *c, struct http_exchange *x, const char *dir,
                 struct error *err)
{
    if (!c->parts.backup)
        return error_set(err, ERR_CONFIG, "this store has no backup");
    if (!dir || dir[0] != '/' || strlen(dir) > DIR_MAX)
        return error_set(err, ERR_INVAL,
                         "dir: expected an absolute path of at most %d bytes",
                         (int)DIR_MAX);
    if (lost_files_check(c, err) < 0 || backup_schedule_need_thread(c, err) < 0)
        return -1;
    struct backup *b = calloc(1, sizeof(*b));
    if (!b)
        return error_set(err, ERR_NOMEM, "backup");
    b->task = (struct task){.run = backup_run, .done = backup_done};
    b->c = c;
    b->x = x;
    b->uid = http_uid(x);
    b->began_s = c->parts.clock->now_s(c->parts.clock);
    memcpy(b->dir, dir, strlen(dir) + 1);
    int rc = work_queue_post(c->backups, &b->task, err);
    if (rc < 0)
        free(b);
    return rc;
}

void serve_backup(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    json_t *body = ctld_admit_admin(c, x) ? ctld_body(x) : NULL;
    if (!body)
        return;
    int rc = start(c, x, json_string_value(json_object_get(body, "dir")), &err);
    json_decref(body);
    if (rc < 0)
        http_reply_err(x, &err);
}

/* ---- fsck ------------------------------------------------------------------
 */

struct fsck {
    struct task task;
    struct ctld *c;
    struct http_exchange *x;
    json_t *findings; /* owned */
    int n;
};

static void add_finding(void *arg, const char *finding)
{
    (void)json_array_append_new(arg, ctld_text(finding));
}

static void fsck_run(struct task *t)
{
    struct fsck *f = (struct fsck *)t;
    f->n = f->c->parts.check(f->c->parts.conf->state_dir, add_finding,
                             f->findings);
}

static void fsck_done(struct task *t)
{
    struct fsck *f = (struct fsck *)t;
    if (f->n > 0)
        log_err("admin", "the store is damaged findings=%d", f->n);
    ctld_reply(f->x, 200,
               json_pack("{s:s, s:i, s:o}", "schema", "mgpu.fsck/1", "n", f->n,
                         "findings", f->findings));
    free(f);
}

void serve_fsck(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    if (!ctld_admit_admin(c, x))
        return;
    struct fsck *f = calloc(1, sizeof(*f));
    int rc = f && (f->findings = json_array())
                 ? 0
                 : error_set(&err, ERR_NOMEM, "fsck");
    if (rc == 0 && !c->parts.check)
        rc = error_set(&err, ERR_CONFIG, "this store has no fsck");
    if (rc == 0)
        rc = backup_schedule_need_thread(c, &err);
    if (rc == 0) {
        f->task = (struct task){.run = fsck_run, .done = fsck_done};
        f->c = c;
        f->x = x;
        rc = work_queue_post(c->backups, &f->task, &err);
    }
    if (rc == 0)
        return;
    if (f)
        json_decref(f->findings);
    free(f);
    http_reply_err(x, &err);
}
