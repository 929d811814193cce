-- 007-state.sql - state.db, version 7: what a list says of an archived job.
--
-- Written with the row of `archived`, and gone with it. It says nothing that
-- the events do not say, but a list of a hundred thousand jobs reads a tenth of
-- what it would read of those. The text is the engine's. Jobs that were archived
-- before this version have none: of them a list reads the events. The sum is
-- over both other columns.

CREATE TABLE line (
    job     INTEGER PRIMARY KEY,
    line    TEXT NOT NULL,
    sum     INTEGER
) STRICT;

PRAGMA user_version = 7;
