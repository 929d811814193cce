-- 001-metrics.sql - metrics.db, version 1: what running jobs report.
--
-- The primary keys make ingestion idempotent. They lead with the iteration,
-- then the rank, because a curve is read in that order. iteration is -1 for
-- a value that was reported outside any. Times in seconds, sizes in bytes.

CREATE TABLE iteration (
    job            INTEGER NOT NULL,
    attempt        INTEGER NOT NULL,
    iteration      INTEGER NOT NULL,
    rank           INTEGER NOT NULL,
    epoch          INTEGER,
    started_at     REAL,
    t_iter         REAL,
    t_data         REAL,
    t_h2d          REAL,
    t_forward      REAL,
    t_backward     REAL,
    t_comm         REAL,
    t_optimizer    REAL,
    loss           REAL,
    lr             REAL,
    samples        INTEGER,
    tokens         INTEGER,
    gpu_mem_bytes  INTEGER,
    PRIMARY KEY (job, attempt, iteration, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE epoch (
    job            INTEGER NOT NULL,
    attempt        INTEGER NOT NULL,
    epoch          INTEGER NOT NULL,
    seconds        REAL,
    train_loss     REAL,
    eval_loss      REAL,
    eval_accuracy  REAL,
    samples_per_s  REAL,
    PRIMARY KEY (job, attempt, epoch)
) STRICT, WITHOUT ROWID;

CREATE TABLE metric (
    job        INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    iteration  INTEGER NOT NULL,
    rank       INTEGER NOT NULL,
    name       TEXT NOT NULL,
    value      REAL,
    PRIMARY KEY (job, attempt, iteration, rank, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE profile (
    job      INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    epoch    INTEGER NOT NULL,
    rank     INTEGER NOT NULL,
    metric   TEXT NOT NULL,
    calls    INTEGER,
    total_s  REAL,
    PRIMARY KEY (job, attempt, epoch, rank, metric)
) STRICT, WITHOUT ROWID;

-- What of an attempt v_scaling needs, copied from state.db with its rows.
CREATE TABLE run (
    job      INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    class    TEXT NOT NULL,
    gpus     INTEGER NOT NULL,
    nodes    INTEGER NOT NULL,
    PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;

CREATE VIEW v_iteration AS
    SELECT job, attempt, rank, iteration, epoch, started_at, t_iter, t_data,
           t_h2d, t_forward, t_backward, t_comm, t_optimizer, loss, lr,
           samples, tokens, gpu_mem_bytes
    FROM iteration;

CREATE VIEW v_epoch AS
    SELECT job, attempt, epoch, seconds, train_loss, eval_loss, eval_accuracy,
           samples_per_s
    FROM epoch;

CREATE VIEW v_metric AS
    SELECT job, attempt, rank, nullif(iteration, -1) AS iteration, name, value
    FROM metric;

CREATE VIEW v_profile AS
    SELECT job, attempt, rank, epoch, metric, calls, total_s
    FROM profile;

-- A step is one iteration of all ranks and takes as long as its slowest. An
-- attempt's first three warm up and do not count. Speed-up is against the
-- smallest run of the class, as if that one scaled perfectly from one device.
CREATE VIEW v_scaling AS
    WITH step AS (
        SELECT r.class, r.gpus, r.nodes, max(i.t_iter) AS t_iter,
               sum(i.samples) AS samples
        FROM run AS r
        JOIN iteration AS i ON i.job = r.job AND i.attempt = r.attempt
        WHERE i.t_iter IS NOT NULL
          AND i.iteration >= 3 + (SELECT min(f.iteration) FROM iteration AS f
                                  WHERE f.job = r.job
                                    AND f.attempt = r.attempt)
        GROUP BY r.job, r.attempt, i.iteration
    ), size AS (
        SELECT class, gpus, nodes, avg(t_iter) AS t_iter, count(*) AS n,
               sum(samples) / sum(t_iter) FILTER (WHERE samples IS NOT NULL)
                   AS rate
        FROM step
        GROUP BY class, gpus, nodes
    ), speed AS (
        SELECT *, rate / first_value(rate / gpus)
                      OVER (PARTITION BY class ORDER BY gpus, nodes) AS speedup
        FROM size
    )
    SELECT class, gpus, nodes, t_iter, rate AS samples_per_s, speedup,
           speedup / gpus AS efficiency, n, 'measured' AS basis
    FROM speed;

PRAGMA application_id = 0x6d67706d; -- "mgpm"
PRAGMA user_version = 1;
