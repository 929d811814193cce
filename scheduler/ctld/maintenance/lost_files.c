/* lost_files.c - notice that a database was removed, replaced or truncated
 * under the running daemon, and save what it holds.
 *
 * The store refuses to write to such a file (metric_store.h), so nothing is
 * acknowledged that the next daemon does not find. A daemon that has nothing to
 * write has to notice, too: the loop looks each second. All that was
 * acknowledged is still there, in the open file that has no name any more, and
 * ends with the process. So the thread of the backups copies it at once to a
 * new file beside, and tries again until it has succeeded. A state.db that
 * was truncated or overwritten leaves nothing to copy: the jobs in memory that
 * have not ended are written in its place (saved_jobs.h).
 *
 * The daemon stays as it is after that: attempts go on, what is asked is
 * answered from memory, and an administrator decides which file is the right
 * one (RECOVERY in mgpu-ctld(8)).
 */
#include "scheduler/ctld/maintenance/lost_files.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/maintenance/backup_schedule.h"
#include "scheduler/ctld/maintenance/saved_jobs.h"
#include "scheduler/ctld/request/reply.h"

static const double LOOK_S = 1, RETRY_S = 10;

static const char *const names[STORE_FILE_N] = {"state.db", "metrics.db"};

struct lost_file {
    bool is_lost, is_busy, is_over; /* is_over: nothing more can be saved */
    double retry_s;            /* on the clock; a try before is too early */
    struct error why;          /* of the loss */
    char file[STORE_FILE_CAP]; /* that has what was rescued; "": none yet */
};

struct lost_files {
    struct loop_source *timer;
    struct lost_file files[STORE_FILE_N];
};

struct rescue {
    struct task task;
    struct ctld *c;
    enum store_file which;
    char file[STORE_FILE_CAP];
    int rc;
    struct error err;
};

static double now_s(const struct ctld *c)
{
    return c->parts.clock->now_s(c->parts.clock);
}

/* ---- the rescue -----------------------------------------------------------
 */

static void rescue_run(struct task *t)
{
    struct rescue *r = (struct rescue *)t;
    struct store *s = r->c->parts.store;
    r->rc = s->metrics->rescue(s, r->which, &r->c->closing, r->file, &r->err);
}

static void rescue_failed(struct ctld *c, enum store_file f,
                          const struct error *why)
{
    struct lost_file *l = &c->lost_files->files[f];
    l->retry_s = now_s(c) + RETRY_S;
    log_err("store",
            "what the daemon holds of %s could not be written, trying again: "
            "do not stop the daemon before that in_s=%.0f why=\"%s\"",
            names[f], RETRY_S, why->msg);
}

/* Nothing can be copied. */
static void save_jobs(struct ctld *c, enum store_file f,
                      const struct error *why)
{
    struct lost_file *l = &c->lost_files->files[f];
    struct error err = ERROR_INIT;
    size_t n = 0;
    if (f != STORE_STATE) {
        l->is_over = true;
        log_err("store", "the rows until now are lost file=%s why=\"%s\"",
                names[f], why->msg);
    } else if (saved_jobs_write(c, l->file, &n, &err) < 0) {
        rescue_failed(c, f, &err);
    } else {
        log_err("store",
                "the content of state.db is lost: the jobs that have not ended "
                "are in a file beside, see RECOVERY in mgpu-ctld(8) jobs=%zu "
                "file=\"%s/%s\"",
                n, c->parts.conf->state_dir, l->file);
    }
}

static void say_rescued(struct ctld *c, enum store_file f)
{
    log_err("store",
            "all that was acknowledged is in a new file beside %s, see "
            "RECOVERY in mgpu-ctld(8) file=\"%s/%s\"",
            names[f], c->parts.conf->state_dir, c->lost_files->files[f].file);
}

static void rescue_done(struct task *t)
{
    struct rescue *r = (struct rescue *)t;
    struct ctld *c = r->c;
    struct lost_file *l = &c->lost_files->files[r->which];
    l->is_busy = false;
    if (r->rc < 0 && r->err.code == ERR_STATE) {
        save_jobs(c, r->which, &r->err);
    } else if (r->rc < 0) {
        rescue_failed(c, r->which, &r->err);
    } else {
        memcpy(l->file, r->file, sizeof(l->file));
        say_rescued(c, r->which);
    }
    free(r);
}

static int post(struct ctld *c, enum store_file f, struct error *err)
{
    if (backup_schedule_need_thread(c, err) < 0)
        return -1;
    struct rescue *r = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, ERR_NOMEM, "rescue");
    r->task = (struct task){.run = rescue_run, .done = rescue_done};
    r->c = c;
    r->which = f;
    int rc = work_queue_post(c->backups, &r->task, err);
    if (rc < 0)
        free(r);
    return rc;
}

static void save(struct ctld *c, enum store_file f)
{
    struct lost_file *l = &c->lost_files->files[f];
    struct error err = ERROR_INIT;
    if (!l->is_lost || l->is_busy || l->is_over || l->file[0] ||
        now_s(c) < l->retry_s)
        return;
    l->is_busy = post(c, f, &err) == 0;
    if (!l->is_busy)
        rescue_failed(c, f, &err);
}

/* ---- looking --------------------------------------------------------------
 */

static struct lost_file *look(struct ctld *c, enum store_file f)
{
    struct store *s = c->parts.store;
    struct lost_file *l = &c->lost_files->files[f];
    if (l->is_lost || s->metrics->intact(s, f, &l->why) == 0)
        return l;
    l->is_lost = true;
    log_err("store", "a database was lost file=%s why=\"%s\"", names[f],
            l->why.msg);
    return l;
}

static void on_timer(void *arg)
{
    struct ctld *c = arg;
    if (c->stopping)
        return;
    for (int f = 0; f < STORE_FILE_N; f++) {
        (void)look(c, (enum store_file)f);
        save(c, (enum store_file)f);
    }
    loop_timer_set(c->lost_files->timer, LOOK_S);
}

bool lost_files_is(struct ctld *c, enum store_file f, struct error *err)
{
    const struct lost_file *l = look(c, f);
    if (l->is_lost && err)
        *err = l->why;
    return l->is_lost;
}

int lost_files_check(struct ctld *c, struct error *err)
{
    return lost_files_is(c, STORE_STATE, err) ||
                   lost_files_is(c, STORE_METRICS, err)
               ? -1
               : 0;
}

json_t *lost_files_json(struct ctld *c)
{
    json_t *list = json_array();
    for (int f = 0; f < STORE_FILE_N; f++) {
        const struct lost_file *l = look(c, (enum store_file)f);
        if (l->is_lost)
            (void)json_array_append_new(
                list, json_pack("{s:s, s:o, s:o}", "file", names[f], "why",
                                ctld_text(l->why.msg), "rescued",
                                ctld_text(l->file)));
    }
    return list;
}

int lost_files_init(struct ctld *c, struct error *err)
{
    struct lost_files *l = c->lost_files = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, ERR_NOMEM, "lost files");
    if (loop_timer_create(c->loop, on_timer, c, &l->timer, err) < 0)
        return -1;
    loop_source_name(l->timer, "lost files");
    loop_timer_set(l->timer, LOOK_S);
    return 0;
}

/* The daemon ends, and with it what it still holds: a loss that nobody has
 * noticed yet, or whose copy was cut off, is saved now. */
static void save_last(struct ctld *c, enum store_file f)
{
    struct store *s = c->parts.store;
    struct lost_file *l = look(c, f);
    struct error err = ERROR_INIT;
    if (!l->is_lost || l->file[0] || l->is_over)
        return;
    if (s->metrics->rescue(s, f, NULL, l->file, &err) == 0) {
        say_rescued(c, f);
        return;
    }
    l->file[0] = '\0';
    log_err("store", "what the daemon held of %s is lost why=\"%s\"", names[f],
            err.msg);
}

void lost_files_clear(struct ctld *c)
{
    if (!c->lost_files)
        return;
    for (int f = 0; f < STORE_FILE_N; f++)
        save_last(c, (enum store_file)f);
    loop_source_destroy(c->lost_files->timer);
    free(c->lost_files);
    c->lost_files = NULL;
}
