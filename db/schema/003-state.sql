-- 003-state.sql - state.db, version 3: which jobs the daemon keeps in mind no
-- longer.
--
-- A job that has ended and is named here is passed over when events are
-- replayed. All else about it stays in the other tables; what is here is what
-- is asked of all of them at once. The sum is over all other columns.

CREATE TABLE archived (
    job       INTEGER PRIMARY KEY,
    uid       INTEGER,
    key       TEXT,
    state     TEXT NOT NULL,
    ended_at  REAL,
    sum       INTEGER
) STRICT;
CREATE INDEX archived_of_key ON archived (uid, key) WHERE key IS NOT NULL;

PRAGMA user_version = 3;
