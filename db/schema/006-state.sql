-- 006-state.sql - state.db, version 6: when a daemon was there, by the clock.
--
-- A span is a stretch of the wall clock in which it went as the monotonic one
-- did, and no daemon was away for more than a day. Ages are told by them, so
-- that a clock which is wrong for a while makes nothing old. In the order in
-- which they were lived, which need not be that of their times; the sum is over
-- all other columns.
--
-- Nothing reads or writes it any more: retention goes by the synchronised wall
-- clock. The table stays, so that a file of any version has one shape.

CREATE TABLE span (
    span        INTEGER PRIMARY KEY,
    begin_at    REAL NOT NULL,
    end_at      REAL NOT NULL,
    is_synced   INTEGER NOT NULL,
    sum         INTEGER
) STRICT;

-- Of what was lived before this version the last moment alone. Before the first
-- span time is taken to have gone as the clock says, which is as good; and one
-- from the first event on would say that decades passed where the clock stood
-- ahead at either.
INSERT INTO span (span, begin_at, end_at, is_synced)
    SELECT 1, at, at, 0 FROM event WHERE at IS NOT NULL
    ORDER BY seq DESC LIMIT 1;

PRAGMA user_version = 6;
