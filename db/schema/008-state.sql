-- 008-state.sql - state.db, version 8: what a resize cost, in the row of the
-- attempt that has the new size: the GPUs before, and the seconds from the word
-- to stop to the end of the attempt before (checkpoint), from there to new
-- devices (allocator), and from there to the first iteration (start). Columns
-- are only added: who reads them by place finds the old ones. The sum does not
-- cover them; the times that they are computed from are those of events.

ALTER TABLE attempt ADD COLUMN resized_from INTEGER;
ALTER TABLE attempt ADD COLUMN checkpoint_s REAL;
ALTER TABLE attempt ADD COLUMN allocator_s REAL;
ALTER TABLE attempt ADD COLUMN start_s REAL;

DROP VIEW v_attempt;
CREATE VIEW v_attempt AS
    SELECT job, attempt, state, reason, native_id, place, class, gpus, nodes,
           exit_code, signal, intent_at, claimed_at, running_at, ended_at,
           resized_from, checkpoint_s, allocator_s, start_s
    FROM attempt;

PRAGMA user_version = 8;
