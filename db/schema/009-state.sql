-- 009-state.sql - state.db, version 9: that a worker refused its plan for memory,
-- in the row of its attempt: of what (the memory of a GPU, or its share of the
-- machine's), and how many bytes a rank needed and had. And the type of the
-- attempt's GPUs. Columns are only added:
-- who reads them by place finds the old ones. The sum does not cover them; they
-- are copies of an event's detail.

ALTER TABLE attempt ADD COLUMN cause TEXT;
ALTER TABLE attempt ADD COLUMN needed_bytes INTEGER;
ALTER TABLE attempt ADD COLUMN available_bytes INTEGER;
ALTER TABLE attempt ADD COLUMN gpu_type TEXT;

DROP VIEW v_attempt;
CREATE VIEW v_attempt AS
    SELECT job, attempt, state, reason, native_id, place, class, gpus, nodes,
           exit_code, signal, intent_at, claimed_at, running_at, ended_at,
           resized_from, checkpoint_s, allocator_s, start_s, cause,
           needed_bytes, available_bytes, gpu_type
    FROM attempt;

PRAGMA user_version = 9;
