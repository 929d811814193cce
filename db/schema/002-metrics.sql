-- 002-metrics.sql - metrics.db, version 2: of a profiler's rows also bytes,
-- and which share of an epoch's iterations was looked at.

ALTER TABLE profile ADD COLUMN bytes INTEGER;
ALTER TABLE profile ADD COLUMN sampled REAL;

DROP VIEW v_profile;
CREATE VIEW v_profile AS
    SELECT job, attempt, rank, epoch, metric, calls, total_s, bytes, sampled
    FROM profile;

PRAGMA user_version = 2;
