/* rows_sqlite.c - insert metric rows into metrics.db.
 *
 * One transaction per call, WAL with synchronous=NORMAL: a commit writes and
 * does not wait for the disk. A crash of the process then loses nothing; a
 * crash of the machine loses the rows since the last sync, which the workers'
 * spools still have. rows() syncs if the last sync is a second old; a caller
 * that stops calling rows() calls sync_rows(). */
#include <math.h>
#include <string.h>

#include "db/sqlite/schema_sqlite.h"
#include "db/sqlite/store_sqlite.h"
#include "jobs/base/clock.h"

static const double SYNC_EVERY_S = 1.0;

static const char insert_run[] =
    "INSERT OR IGNORE INTO main.run (job, attempt, class, gpus, nodes,"
    " gpu_type, program)"
    " SELECT job, attempt, class, gpus, nodes, gpu_type, program"
    " FROM state.attempt"
    " WHERE job = ? AND attempt = ? AND class IS NOT NULL AND gpus > 0";

static const char insert_iteration[] =
    "INSERT INTO main.iteration (job, attempt, iteration, rank, epoch,"
    " started_at, t_iter, t_data, t_h2d, t_forward, t_backward, t_comm,"
    " t_optimizer, loss, lr, samples, tokens, gpu_mem_bytes)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO NOTHING";

static const char insert_epoch[] =
    "INSERT INTO main.epoch (job, attempt, epoch, seconds, train_loss,"
    " eval_loss, eval_accuracy, samples_per_s, tokens_per_s)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";

static const char insert_profile[] =
    "INSERT INTO main.profile (job, attempt, epoch, rank, metric, calls,"
    " total_s, bytes, sampled)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";

static const char insert_value[] =
    "INSERT INTO main.metric (job, attempt, iteration, rank, name, value)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";

static const char delete_guesses[] =
    "DELETE FROM main.guess WHERE class = ? AND gpu_type = ?";

static const char insert_guess[] =
    "INSERT INTO main.guess (class, gpu_type, gpus, nodes, basis, base_gpus,"
    " base_nodes, rate_ratio, t_iter_ratio) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";

static int put_iteration(struct rows *r, struct db_row row,
                         const struct metric_iteration *m, struct error *err)
{
    db_put_int(&row, m->iteration);
    db_put_int(&row, m->rank);
    db_put_count(&row, m->epoch);
    db_put_real(&row, m->started_at);
    db_put_real(&row, m->t_iter);
    db_put_real(&row, m->t_data);
    db_put_real(&row, m->t_h2d);
    db_put_real(&row, m->t_forward);
    db_put_real(&row, m->t_backward);
    db_put_real(&row, m->t_comm);
    db_put_real(&row, m->t_optimizer);
    db_put_loss(&row, m->loss);
    db_put_real(&row, m->lr);
    db_put_count(&row, m->samples);
    db_put_count(&row, m->tokens);
    db_put_count(&row, m->gpu_mem_bytes);
    return db_run(&r->db, &row, "store an iteration", err);
}

static int put_epoch(struct rows *r, struct db_row row,
                     const struct metric_epoch *m, struct error *err)
{
    db_put_int(&row, m->epoch);
    db_put_real(&row, m->seconds);
    db_put_loss(&row, m->train_loss);
    db_put_loss(&row, m->eval_loss);
    db_put_real(&row, m->eval_accuracy);
    db_put_real(&row, m->samples_per_s);
    db_put_real(&row, m->tokens_per_s);
    return db_run(&r->db, &row, "store an epoch", err);
}

static int put_profile(struct rows *r, struct db_row row,
                       const struct metric_profile *m, struct error *err)
{
    db_put_int(&row, m->epoch);
    db_put_int(&row, m->rank);
    db_put_text(&row, m->metric);
    db_put_count(&row, m->calls);
    db_put_real(&row, m->total_s);
    db_put_count(&row, m->bytes);
    db_put_real(&row, m->sampled);
    return db_run(&r->db, &row, "store a profile", err);
}

static int put_value(struct rows *r, struct db_row row,
                     const struct metric_value *m, struct error *err)
{
    db_put_int(&row, m->iteration);
    db_put_int(&row, m->rank);
    db_put_text(&row, m->name);
    db_put_loss(&row, m->value);
    return db_run(&r->db, &row, "store a metric", err);
}

/* Every row begins with its job and its attempt. */
static struct db_row begin_row(sqlite3_stmt *stmt, uint64_t job,
                               int32_t attempt)
{
    struct db_row row = db_row(stmt);

    db_put_int(&row, (int64_t)job);
    db_put_int(&row, attempt);
    return row;
}

static int put(struct rows *r, uint64_t job, int32_t attempt,
               const struct metric_row *m, struct error *err)
{
    switch (m->kind) {
    case METRIC_ITERATION:
        return put_iteration(r, begin_row(r->iteration, job, attempt),
                             &m->iteration, err);
    case METRIC_EPOCH:
        return put_epoch(r, begin_row(r->epoch, job, attempt), &m->epoch, err);
    case METRIC_PROFILE:
        return put_profile(r, begin_row(r->profile, job, attempt), &m->profile,
                           err);
    default:
        return put_value(r, begin_row(r->value, job, attempt), &m->value, err);
    }
}

static int put_all(struct rows *r, uint64_t job, int32_t attempt,
                   const struct metric_row *rows, size_t n, size_t *ret_new,
                   struct error *err)
{
    struct db_row run = begin_row(r->run, job, attempt);

    if (db_run(&r->db, &run, "store a run", err) < 0)
        return -1;
    int64_t before = sqlite3_total_changes64(r->db.h);
    for (size_t i = 0; i < n; i++)
        if (put(r, job, attempt, &rows[i], err) < 0)
            return -1;
    *ret_new = (size_t)(sqlite3_total_changes64(r->db.h) - before);
    return db_commit(&r->db, err);
}

/* fsync of the log, without the cost of a checkpoint. */
static int sync_locked(struct rows *r, struct error *err)
{
    sqlite3_file *wal = NULL;

    if (!r->unsynced)
        return 0;
    if (sqlite3_file_control(r->db.h, "main", SQLITE_FCNTL_JOURNAL_POINTER,
                             &wal) != SQLITE_OK)
        return db_fail(&r->db, "sync", err);
    if (wal && wal->pMethods &&
        wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL) != SQLITE_OK)
        return error_set(err, ERR_IO, "%s: sync failed", r->db.name);
    r->unsynced = false;
    r->synced_s = clock_real.now_s(&clock_real);
    return 0;
}

static int insert_locked(struct rows *r, uint64_t job, int32_t attempt,
                         const struct metric_row *rows, size_t n,
                         size_t *ret_new, struct error *err)
{
    if (file_loss_look_inside(&r->loss, &r->db, false, err) < 0 ||
        db_begin(&r->db, err) < 0)
        return -1;
    if (put_all(r, job, attempt, rows, n, ret_new, err) < 0) {
        db_rollback(&r->db);
        return -1;
    }
    r->unsynced = true;
    if (file_loss_look_inside(&r->loss, &r->db, true, err) < 0)
        return -1;
    if (clock_real.now_s(&clock_real) - r->synced_s < SYNC_EVERY_S)
        return 0;
    return sync_locked(r, err);
}

int rows_insert(struct rows *r, uint64_t job, int32_t attempt,
                const struct metric_row *rows, size_t n, size_t *ret_new,
                struct error *err)
{
    size_t added = 0;
    int rc = 0;

    if (n > 0) {
        pthread_mutex_lock(&r->lock);
        rc = insert_locked(r, job, attempt, rows, n, &added, err);
        pthread_mutex_unlock(&r->lock);
    }
    if (rc == 0 && ret_new)
        *ret_new = added;
    return rc;
}

static int put_guess(struct rows *r, const char *class, const char *gpu_type,
                     const struct store_guess *g, struct error *err)
{
    struct db_row row = db_row(r->guess);

    db_put_text(&row, class);
    db_put_text(&row, gpu_type);
    db_put_int(&row, g->gpus);
    db_put_int(&row, g->nodes);
    db_put_text(&row, g->basis);
    db_put_int(&row, g->base_gpus);
    db_put_int(&row, g->base_nodes);
    db_put_real(&row, g->rate_ratio);
    db_put_real(&row, g->t_iter_ratio);
    return db_run(&r->db, &row, "store a guess", err);
}

static int replace_guesses(struct rows *r, const char *class,
                           const char *gpu_type,
                           const struct store_guess *guesses, size_t n,
                           struct error *err)
{
    struct db_row old = db_row(r->no_guess);

    db_put_text(&old, class);
    db_put_text(&old, gpu_type);
    if (db_run(&r->db, &old, "replace guesses", err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (put_guess(r, class, gpu_type, &guesses[i], err) < 0)
            return -1;
    return db_commit(&r->db, err);
}

static int guesses_locked(struct rows *r, const char *class,
                          const char *gpu_type,
                          const struct store_guess *guesses, size_t n,
                          struct error *err)
{
    if (file_loss_look_inside(&r->loss, &r->db, false, err) < 0 ||
        db_begin(&r->db, err) < 0)
        return -1;
    if (replace_guesses(r, class, gpu_type ? gpu_type : "", guesses, n, err) <
        0) {
        db_rollback(&r->db);
        return -1;
    }
    r->unsynced = true;
    return file_loss_look_inside(&r->loss, &r->db, true, err);
}

int rows_guesses(struct rows *r, const char *class, const char *gpu_type,
                 const struct store_guess *guesses, size_t n, struct error *err)
{
    pthread_mutex_lock(&r->lock);
    int rc = guesses_locked(r, class, gpu_type, guesses, n, err);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

int rows_sync(struct rows *r, struct error *err)
{
    pthread_mutex_lock(&r->lock);
    int rc = file_loss_look(&r->loss, err);
    if (rc == 0)
        rc = sync_locked(r, err);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

int rows_purge(struct rows *r, struct store_purge *io, struct error *err)
{
    pthread_mutex_lock(&r->lock);
    int rc = file_loss_look_inside(&r->loss, &r->db, false, err);
    if (rc == 0)
        rc = purge_some(&r->purge, &r->db, io, err);
    r->unsynced = r->unsynced || (rc == 0 && io->n > 0);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

/* state.db is attached to copy an attempt's class and size from it; this
 * connection does not write to it. */
static int attach_state(struct rows *r, const char *path, struct error *err)
{
    sqlite3_stmt *st = NULL;

    if (db_prepare(&r->db, "ATTACH ? AS state", &st, err) < 0)
        return -1;
    struct db_row row = db_row(st);
    db_put_text(&row, path);
    int rc = db_run(&r->db, &row, "attach state.db", err);
    sqlite3_finalize(st);
    return rc;
}

int rows_open(struct rows *r, const char *path, const char *state_path,
              struct error *err)
{
    const struct db *d = &r->db;

    pthread_mutex_init(&r->lock, NULL); /* cannot fail without attributes */
    r->synced_s = clock_real.now_s(&clock_real);
    if (db_open(&r->db, path, "metrics.db", false, err) < 0)
        return -1;
    r->db.damaged = &r->is_damaged;
    if (schema_check(d, &schema_metrics, err) < 0 || db_wal(d, err) < 0 ||
        /* 32 MiB: a checkpoint each second or so at full speed */
        db_exec(d,
                "PRAGMA synchronous = NORMAL;"
                /* otherwise pages of deleted rows are written once more */
                "PRAGMA secure_delete = OFF;"
                "PRAGMA wal_autocheckpoint = 8192",
                err) < 0 ||
        schema_migrate(d, &schema_metrics, err) < 0 ||
        attach_state(r, state_path, err) < 0 ||
        db_prepare(d, insert_run, &r->run, err) < 0 ||
        db_prepare(d, insert_iteration, &r->iteration, err) < 0 ||
        db_prepare(d, insert_epoch, &r->epoch, err) < 0 ||
        db_prepare(d, insert_profile, &r->profile, err) < 0 ||
        db_prepare(d, insert_value, &r->value, err) < 0 ||
        db_prepare(d, delete_guesses, &r->no_guess, err) < 0 ||
        db_prepare(d, insert_guess, &r->guess, err) < 0 ||
        file_loss_open(&r->loss, d, path, err) < 0)
        return -1;
    return 0;
}

void rows_close(struct rows *r)
{
    if (!r->db.h)
        return;
    (void)sync_locked(r, NULL); /* closing checkpoints, which syncs too */
    sqlite3_finalize(r->run);
    sqlite3_finalize(r->iteration);
    sqlite3_finalize(r->epoch);
    sqlite3_finalize(r->profile);
    sqlite3_finalize(r->value);
    sqlite3_finalize(r->guess);
    sqlite3_finalize(r->no_guess);
    purge_close(&r->purge);
    file_loss_close(&r->loss);
    db_close(&r->db);
    pthread_mutex_destroy(&r->lock);
}
