-- 002-state.sql - the program of an attempt.
--
-- Commands that differ in numbers and paths alone are of one program; NULL: of
-- an attempt before this version, or of no command.

ALTER TABLE attempt ADD COLUMN program TEXT;

DROP VIEW v_attempt;
CREATE VIEW v_attempt AS
    SELECT job, attempt, state, reason, native_id, place, class, gpus, nodes,
           exit_code, signal, intent_at, claimed_at, running_at, ended_at,
           resized_from, checkpoint_s, allocator_s, start_s, cause,
           needed_bytes, available_bytes, gpu_type, account, program
    FROM attempt;

PRAGMA user_version = 14;
