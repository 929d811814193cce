-- 011-state.sql - state.db, version 11: v_usage ends the attempts of jobs that
-- no longer run, and finds what removed jobs used by its end.
--
-- A job whose events are damaged is set apart, and the rows of its attempts
-- stay as they were: one that ran has no end. The last of its events, but for a
-- cancel, which may come weeks later, is the last that is known of it.

CREATE INDEX usage_by_end ON usage (ended_at);

DROP VIEW v_usage;
CREATE VIEW v_usage AS
    SELECT a.job, a.attempt, j.user, j.uid, a.account, a.class, a.gpu_type,
           a.place, a.gpus, a.state, j.submitted_at, a.claimed_at,
           a.running_at,
           coalesce(a.ended_at,
                    CASE WHEN j.state IN ('DISPATCHING', 'UNKNOWN', 'STARTING',
                                          'RUNNING', 'CHECKPOINTING', 'STALLED')
                         THEN NULL
                         ELSE (SELECT max(e.at) FROM event AS e
                               WHERE e.job = a.job AND e.attempt = a.attempt
                                 AND e.event <> 'cancel')
                    END) AS ended_at
    FROM attempt AS a JOIN job AS j ON j.job = a.job
    UNION ALL
    SELECT job, attempt, user, uid, account, class, gpu_type, place, gpus,
           state, submitted_at, claimed_at, running_at, ended_at
    FROM usage;

PRAGMA user_version = 11;
