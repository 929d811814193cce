-- 010-state.sql - state.db, version 10: the account that an attempt was charged
-- to, and what removed jobs used.
--
-- When a job is removed for good, a copy of each of its attempts stays in
-- `usage`, so that the GPU-hours of a user or an account do not depend on how
-- long jobs are kept. The sum of an attempt does not cover its account, and
-- `usage` has no sum: both are copies for reports and limits.

ALTER TABLE attempt ADD COLUMN account TEXT;

DROP VIEW v_attempt;
CREATE VIEW v_attempt AS
    SELECT job, attempt, state, reason, native_id, place, class, gpus, nodes,
           exit_code, signal, intent_at, claimed_at, running_at, ended_at,
           resized_from, checkpoint_s, allocator_s, start_s, cause,
           needed_bytes, available_bytes, gpu_type, account
    FROM attempt;

CREATE TABLE usage (
    job           INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    user          TEXT,
    uid           INTEGER,
    account       TEXT,
    class         TEXT,
    gpu_type      TEXT,
    place         TEXT,
    gpus          INTEGER NOT NULL,
    state         TEXT,
    submitted_at  REAL,
    claimed_at    REAL,
    running_at    REAL,
    ended_at      REAL,
    PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;

CREATE VIEW v_usage AS
    SELECT a.job, a.attempt, j.user, j.uid, a.account, a.class, a.gpu_type,
           a.place, a.gpus, a.state, j.submitted_at, a.claimed_at,
           a.running_at, a.ended_at
    FROM attempt AS a JOIN job AS j ON j.job = a.job
    UNION ALL
    SELECT job, attempt, user, uid, account, class, gpu_type, place, gpus,
           state, submitted_at, claimed_at, running_at, ended_at
    FROM usage;

PRAGMA user_version = 10;
