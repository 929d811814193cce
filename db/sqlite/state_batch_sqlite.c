/* state_batch_sqlite.c - write a batch of append() into state.db: its events,
 * and the rows that they changed. */
#include <math.h>

#include "db/sqlite/store_sqlite.h"

static const char insert_event[] =
    "INSERT INTO event (seq, job, attempt, event, at, uid, detail, sum)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)";

static const char replace_job[] =
    "INSERT INTO job (job, name, user, uid, kind, state, reason,"
    " priority, gpus_min, gpus_max, gpus, attempt, exit_code, submitted_at,"
    " started_at, ended_at, idempotency_key, spec, dir, sum,"
    " parent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
    " ?, ?)"
    " ON CONFLICT (job) DO UPDATE SET name = coalesce(excluded.name, name),"
    " user = coalesce(excluded.user, user), uid = excluded.uid,"
    " kind = coalesce(excluded.kind, kind), state = excluded.state,"
    " reason = excluded.reason, priority = excluded.priority,"
    " gpus_min = excluded.gpus_min, gpus_max = excluded.gpus_max,"
    " gpus = excluded.gpus, attempt = excluded.attempt,"
    " exit_code = excluded.exit_code, submitted_at = excluded.submitted_at,"
    " started_at = excluded.started_at, ended_at = excluded.ended_at,"
    " idempotency_key = coalesce(excluded.idempotency_key, idempotency_key),"
    " spec = coalesce(excluded.spec, spec), dir = coalesce(excluded.dir, dir),"
    " sum = excluded.sum, parent = coalesce(excluded.parent, parent)";

static const char replace_attempt[] =
    "INSERT OR REPLACE INTO attempt (job, attempt, state, reason, native_id,"
    " place, class, gpus, nodes, exit_code, signal, intent_at, claimed_at,"
    " running_at, ended_at, sum, resized_from, checkpoint_s, allocator_s,"
    " start_s, cause, needed_bytes, available_bytes, gpu_type, account,"
    " program) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
    " ?, ?, ?, ?, ?, ?, ?, ?)";

static const char insert_archived[] =
    "INSERT INTO archived (job, uid, key, state, ended_at, sum)"
    " VALUES (?, ?, ?, ?, ?, ?)";

static const char insert_line[] =
    "INSERT INTO line (job, line, sum) VALUES (?, ?, ?)";

static int put_event(struct store_sqlite *s, uint64_t seq,
                     const struct store_event *e, struct error *err)
{
    struct db_row r = db_row_summed(s->event);

    db_put_int(&r, (int64_t)seq);
    db_put_int(&r, (int64_t)e->job);
    db_put_int(&r, e->attempt);
    db_put_text(&r, job_event_name(e->ev));
    db_put_real(&r, e->at_s);
    db_put_count(&r, e->uid);
    db_put_text(&r, e->detail);
    db_put_sum(&r);
    return db_run(&s->state, &r, "append an event", err);
}

static int put_job(struct store_sqlite *s, const struct store_job *j,
                   struct error *err)
{
    struct db_row r = db_row_summed(s->job);

    db_put_int(&r, (int64_t)j->id);
    db_put_apart(&r, j->name);
    db_put_apart(&r, j->user);
    db_put_count(&r, j->uid);
    db_put_apart(&r, j->kind);
    db_put_text(&r, j->state);
    db_put_text(&r, j->reason);
    db_put_int(&r, j->priority);
    db_put_int(&r, j->gpus_min);
    db_put_int(&r, j->gpus_max);
    db_put_int(&r, j->gpus);
    db_put_int(&r, j->attempt);
    db_put_count(&r, j->exit_code);
    db_put_real(&r, j->submit_s);
    db_put_real(&r, j->start_s);
    db_put_real(&r, j->end_s);
    db_put_apart(&r, j->idempotency_key);
    db_put_apart(&r, j->spec);
    db_put_apart(&r, j->dir);
    db_put_sum(&r);
    db_put_count(&r, j->parent > 0 ? (int64_t)j->parent : -1);
    return db_run(&s->state, &r, "store a job", err);
}

static int put_attempt(struct store_sqlite *s, const struct store_attempt *a,
                       struct error *err)
{
    struct db_row r = db_row_summed(s->attempt);

    db_put_int(&r, (int64_t)a->job);
    db_put_int(&r, a->attempt);
    db_put_text(&r, a->state);
    db_put_text(&r, a->reason);
    db_put_text(&r, a->native_id);
    db_put_text(&r, a->place);
    db_put_text(&r, a->class);
    db_put_int(&r, a->gpus);
    db_put_int(&r, a->nodes);
    db_put_count(&r, a->exit_code);
    db_put_int(&r, a->signal);
    db_put_real(&r, a->intent_s);
    db_put_real(&r, a->claim_s);
    db_put_real(&r, a->run_s);
    db_put_real(&r, a->end_s);
    db_put_sum(&r);
    db_put_count(&r, a->resized_from > 0 ? a->resized_from : -1);
    db_put_real(&r, a->resized_from > 0 ? a->checkpoint_s : (double)NAN);
    db_put_real(&r, a->resized_from > 0 ? a->allocator_s : (double)NAN);
    db_put_real(&r, a->resized_from > 0 ? a->start_s : (double)NAN);
    db_put_text(&r, a->cause);
    db_put_count(&r, a->cause ? a->needed_bytes : -1);
    db_put_count(&r, a->cause ? a->available_bytes : -1);
    db_put_text(&r, a->gpu_type);
    db_put_text(&r, a->account);
    db_put_text(&r, a->program);
    return db_run(&s->state, &r, "store an attempt", err);
}

static int put_archived(struct store_sqlite *s, const struct store_archived *a,
                        struct error *err)
{
    struct db_row r = db_row_summed(s->archived);

    db_put_int(&r, (int64_t)a->job);
    db_put_count(&r, a->uid);
    db_put_text(&r, a->key);
    db_put_text(&r, job_state_name(a->state));
    db_put_real(&r, a->end_s);
    db_put_sum(&r);
    return db_run(&s->state, &r, "archive a job", err);
}

static int put_line(struct store_sqlite *s, const struct store_archived *a,
                    struct error *err)
{
    struct db_row r = db_row_summed(s->line);

    db_put_int(&r, (int64_t)a->job);
    db_put_text(&r, a->line);
    db_put_sum(&r);
    return db_run(&s->state, &r, "archive a job", err);
}

int batch_put(struct store_sqlite *s, const struct store_batch *b,
              struct error *err)
{
    for (size_t i = 0; i < b->n_events; i++)
        if (put_event(s, s->seq + i + 1, &b->events[i], err) < 0)
            return -1;
    for (size_t i = 0; i < b->n_jobs; i++)
        if (put_job(s, &b->jobs[i], err) < 0)
            return -1;
    for (size_t i = 0; i < b->n_attempts; i++)
        if (put_attempt(s, &b->attempts[i], err) < 0)
            return -1;
    for (size_t i = 0; i < b->n_archived; i++)
        if (put_archived(s, &b->archived[i], err) < 0 ||
            (b->archived[i].line && put_line(s, &b->archived[i], err) < 0))
            return -1;
    return db_commit(&s->state, err);
}

int batch_prepare(struct store_sqlite *s, struct error *err)
{
    const struct db *d = &s->state;

    if (db_prepare(d, insert_event, &s->event, err) < 0 ||
        db_prepare(d, replace_job, &s->job, err) < 0 ||
        db_prepare(d, replace_attempt, &s->attempt, err) < 0 ||
        db_prepare(d, insert_archived, &s->archived, err) < 0)
        return -1;
    return db_prepare(d, insert_line, &s->line, err);
}

void batch_finalize(struct store_sqlite *s)
{
    sqlite3_finalize(s->event);
    sqlite3_finalize(s->job);
    sqlite3_finalize(s->attempt);
    sqlite3_finalize(s->archived);
    sqlite3_finalize(s->line);
}
