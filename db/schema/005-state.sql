-- 005-state.sql - state.db, version 5: which jobs were removed for good.
--
-- Of such a job nothing is left in the other tables. How many events went with
-- it, the sum of their numbers and the highest of them say which are missing
-- in the log by right; so neither a job's number nor an event's is given
-- again. The sum is over all other columns.

CREATE TABLE removed (
    job         INTEGER PRIMARY KEY,
    uid         INTEGER,
    state       TEXT NOT NULL,
    ended_at    REAL,
    removed_at  REAL,
    events      INTEGER NOT NULL,
    seqs        INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    sum         INTEGER
) STRICT;

PRAGMA user_version = 5;
