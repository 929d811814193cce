-- 002-state.sql - state.db, version 2: a sum over what a row was written with.
--
-- SQLite knows its pages and what kind a value is, not whether a byte of a
-- text is the one that was written. NULL: written before, or by hand. Of job
-- it is over what each write names; what is fixed from the submit on is in
-- that event, too.

ALTER TABLE event ADD COLUMN sum INTEGER;
ALTER TABLE job ADD COLUMN sum INTEGER;
ALTER TABLE attempt ADD COLUMN sum INTEGER;

PRAGMA user_version = 2;
