/* backup_schedule.c - take backups periodically, as store.backup says.
 *
 * The thread that takes a backup reads from the directory whether one is due:
 * the newest one there counts, whichever daemon took it, and a disk that was
 * replaced by an empty one gets a backup at once. The loop only sets a timer. A
 * failed backup is retried after a minute, and then after twice the time up to
 * an hour, but no later than the next one is due.
 */
#include "scheduler/ctld/maintenance/backup_schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/backup_dir.h"
#include "jobs/base/log.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/maintenance/lost_files.h"
#include "scheduler/ctld/request/reply.h"

static const double RETRY_S = 60, RETRY_MAX_S = 3600;
enum { BACKUPS_QUEUED = 4 };

struct backup_schedule {
    struct loop_source *timer;
    bool is_busy;
    char *dir;                       /* owned; the rest is about this one */
    int32_t n;                       /* in it, at the last look */
    double last_s, next_s, failed_s; /* since 1970; NAN: not known, or none */
    int n_tries;                     /* that failed, one after the other */
    uint64_t n_failed;
    char why[240]; /* "": the last did not fail */
};

struct turn {
    struct task task;
    struct ctld *c;
    char dir[BACKUPS_DIR_CAP], path[BACKUPS_PATH_CAP];
    double every_s, now_s; /* now_s: since 1970 */
    int32_t keep;

    struct backups found;
    bool was_due;
    int32_t n_removed;
    double took_s;
    int rc, prune_rc;
    struct error err, prune_err;
};

int backup_schedule_need_thread(struct ctld *c, struct error *err)
{
    return c->backups ? 0
                      : work_queue_create(c->loop, "backup", BACKUPS_QUEUED,
                                          &c->backups, err);
}

/* ---- on the thread --------------------------------------------------------
 */

static int take(struct turn *t, struct error *err)
{
    const struct ctld_parts *parts = &t->c->parts;
    const struct ctld_conf *conf = parts->conf;
    double began_s = parts->clock->now_s(parts->clock);
    if (backups_begin(t->dir, conf->cluster, t->now_s, t->path, err) < 0 ||
        parts->backup(conf->state_dir, t->path, &t->c->closing, err) < 0)
        return -1;
    t->took_s = parts->clock->now_s(parts->clock) - began_s;
    t->prune_rc = backups_prune(t->dir, conf->cluster, t->now_s, t->keep,
                                &t->n_removed, &t->prune_err);
    return backups_look(t->dir, conf->cluster, t->now_s, &t->found, err);
}

static void turn_run(struct task *task)
{
    struct turn *t = (struct turn *)task;
    t->rc = backups_look(t->dir, t->c->parts.conf->cluster, t->now_s, &t->found,
                         &t->err);
    t->was_due = t->rc < 0 || isnan(t->found.last_s) ||
                 t->now_s - t->found.last_s >= t->every_s;
    if (t->rc == 0 && t->was_due)
        t->rc = take(t, &t->err);
}

/* ---- on the loop ----------------------------------------------------------
 */

static double wall_s(const struct ctld *c)
{
    return c->parts.clock->wall_s(c->parts.clock);
}

static bool is_wanted(const struct ctld *c)
{
    return c->parts.backup && c->parts.conf->backup_dir;
}

static void set_timer(struct ctld *c, double after_s)
{
    c->backup_schedule->next_s = wall_s(c) + after_s;
    loop_timer_set(c->backup_schedule->timer, after_s);
}

static void failed(struct ctld *c, const struct turn *t)
{
    struct backup_schedule *b = c->backup_schedule;
    double retry_s = RETRY_S * exp2(fmin(b->n_tries++, 10));
    retry_s = fmin(fmin(retry_s, RETRY_MAX_S), c->parts.conf->backup_every_s);
    b->n_failed++;
    b->failed_s = wall_s(c);
    (void)snprintf(b->why, sizeof(b->why), "%s", t->err.msg);
    log_err(
        "backup",
        "a backup failed and will be repeated dir=\"%s\" in_s=%.0f why=\"%s\"",
        t->dir, retry_s, t->err.msg);
    set_timer(c, retry_s);
}

static void done(struct ctld *c, const struct turn *t)
{
    struct backup_schedule *b = c->backup_schedule;
    double every_s = c->parts.conf->backup_every_s;
    b->n_tries = 0;
    b->why[0] = '\0';
    b->failed_s = NAN;
    b->n = t->found.n;
    b->last_s = t->found.last_s;
    if (t->was_due)
        log_notice(
            "backup",
            "finished a backup dir=\"%s\" took_s=%.3f removed=%d kept=%d",
            t->path, t->took_s, t->n_removed, t->found.n);
    if (t->was_due && t->prune_rc < 0)
        log_err("backup", "cannot remove old backups dir=\"%s\" why=\"%s\"",
                t->dir, t->prune_err.msg);
    set_timer(c, isnan(b->last_s)
                     ? every_s
                     : fmin(fmax(b->last_s + every_s - wall_s(c), 0), every_s));
}

static void turn_done(struct task *task)
{
    struct turn *t = (struct turn *)task;
    struct ctld *c = t->c;
    const char *dir = c->parts.conf->backup_dir;
    bool is_other = !dir || strcmp(dir, t->dir) != 0;
    c->backup_schedule->is_busy = false;
    if (c->stopping)
        ; /* whatever came of it, the next daemon finds it */
    else if (is_other)
        backup_schedule_restart(c);
    else if (t->rc < 0)
        failed(c, t);
    else
        done(c, t);
    free(t);
}

static int post(struct ctld *c, struct error *err)
{
    const struct ctld_conf *conf = c->parts.conf;
    if (lost_files_check(c, err) < 0)
        return -1;
    if (strlen(conf->backup_dir) >= BACKUPS_DIR_CAP)
        return error_set(err, ERR_CONFIG, "store.backup.dir is too long");
    if (backup_schedule_need_thread(c, err) < 0)
        return -1;
    struct turn *t = calloc(1, sizeof(*t));
    if (!t)
        return error_set(err, ERR_NOMEM, "backup");
    t->task = (struct task){.run = turn_run, .done = turn_done};
    t->c = c;
    memcpy(t->dir, conf->backup_dir, strlen(conf->backup_dir) + 1);
    t->every_s = conf->backup_every_s;
    t->keep = conf->backup_keep;
    t->now_s = wall_s(c);
    int rc = work_queue_post(c->backups, &t->task, err);
    if (rc < 0)
        free(t);
    return rc;
}

static void on_timer(void *arg)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    if (c->stopping || c->backup_schedule->is_busy || !is_wanted(c))
        return;
    c->backup_schedule->is_busy = true;
    if (post(c, &err) == 0)
        return;
    c->backup_schedule->is_busy = false;
    log_warn("backup",
             "cannot start a backup, will try again in_s=%.0f why=\"%s\"",
             RETRY_S, err.msg);
    set_timer(c, RETRY_S);
}

/* The directory has changed: what is known is about the old one. */
static void forget(struct ctld *c, const char *dir)
{
    struct backup_schedule *b = c->backup_schedule;
    free(b->dir);
    *b = (struct backup_schedule){.timer = b->timer,
                                  .is_busy = b->is_busy,
                                  .dir = dir ? strdup(dir) : NULL,
                                  .last_s = NAN,
                                  .failed_s = NAN,
                                  .n_failed = b->n_failed};
}

void backup_schedule_restart(struct ctld *c)
{
    const char *dir = is_wanted(c) ? c->parts.conf->backup_dir : NULL;
    if (!c->backup_schedule)
        return;
    const char *was = c->backup_schedule->dir;
    if (!dir || !was || strcmp(dir, was) != 0)
        forget(c, dir);
    if (dir)
        set_timer(c, 0);
}

int backup_schedule_init(struct ctld *c, struct error *err)
{
    struct backup_schedule *b = c->backup_schedule = calloc(1, sizeof(*b));
    if (!b)
        return error_set(err, ERR_NOMEM, "backups");
    if (loop_timer_create(c->loop, on_timer, c, &b->timer, err) < 0)
        return -1;
    backup_schedule_restart(c);
    return 0;
}

void backup_schedule_clear(struct ctld *c)
{
    if (!c->backup_schedule)
        return;
    loop_source_destroy(c->backup_schedule->timer);
    free(c->backup_schedule->dir);
    free(c->backup_schedule);
    c->backup_schedule = NULL;
}

struct backup_counts backup_schedule_counts(const struct ctld *c)
{
    const struct backup_schedule *b = c->backup_schedule;
    return (struct backup_counts){
        .n = b->n, .n_failed = b->n_failed, .last_s = b->last_s};
}

json_t *backup_schedule_json(const struct ctld *c)
{
    const struct ctld_conf *conf = c->parts.conf;
    const struct backup_schedule *b = c->backup_schedule;
    if (!is_wanted(c))
        return json_null();
    return json_pack("{s:o, s:f, s:i, s:i, s:o, s:o, s:I, s:o, s:o}", "dir",
                     ctld_text(conf->backup_dir), "every_s",
                     conf->backup_every_s, "keep", conf->backup_keep, "n", b->n,
                     "last", ctld_time(b->last_s), "next", ctld_time(b->next_s),
                     "failures", (json_int_t)b->n_failed, "failed_at",
                     ctld_time(b->failed_s), "why", ctld_text(b->why));
}
