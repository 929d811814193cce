-- 004-state.sql - state.db, version 4: archived jobs are found by their end, as
-- lists of those of the last hour want them.

CREATE INDEX archived_by_end ON archived (ended_at, job);

PRAGMA user_version = 4;
