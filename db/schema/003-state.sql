-- 003-state.sql - the job that a job goes on from.
--
-- The job whose checkpoint train.resume_from names; it may have been removed.
-- NULL: of a job before this version, of one that goes on from none, or from a
-- directory that is of no job that the daemon knew.

ALTER TABLE job ADD COLUMN parent INTEGER;

DROP VIEW v_job;
CREATE VIEW v_job AS
    SELECT job, name, user, uid, kind, state, reason, priority, gpus_min,
           gpus_max, gpus, attempt, exit_code, submitted_at, started_at,
           ended_at, idempotency_key, spec, dir, parent
    FROM job;

PRAGMA user_version = 15;
