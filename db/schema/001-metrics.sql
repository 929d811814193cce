-- 001-metrics.sql - metrics.db: what running jobs report.
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
    tokens_per_s   REAL,
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

-- sampled: the share of the epoch's iterations that the profiler looked at.
CREATE TABLE profile (
    job      INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    epoch    INTEGER NOT NULL,
    rank     INTEGER NOT NULL,
    metric   TEXT NOT NULL,
    calls    INTEGER,
    total_s  REAL,
    bytes    INTEGER,
    sampled  REAL,
    PRIMARY KEY (job, attempt, epoch, rank, metric)
) STRICT, WITHOUT ROWID;

-- What of an attempt v_scaling needs, copied from state.db with its rows.
CREATE TABLE run (
    job       INTEGER NOT NULL,
    attempt   INTEGER NOT NULL,
    class     TEXT NOT NULL,
    gpus      INTEGER NOT NULL,
    nodes     INTEGER NOT NULL,
    gpu_type  TEXT,
    PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;

-- A size of a class on a type of GPUs ('': unknown), relative to one that was
-- measured: how many times its samples a second, and its iteration time. The
-- daemon writes all sizes of a class and type anew as the class is measured.
CREATE TABLE guess (
    class         TEXT NOT NULL,
    gpu_type      TEXT NOT NULL,
    gpus          INTEGER NOT NULL,
    nodes         INTEGER NOT NULL,
    basis         TEXT NOT NULL,
    base_gpus     INTEGER NOT NULL,
    base_nodes    INTEGER NOT NULL,
    rate_ratio    REAL NOT NULL,
    t_iter_ratio  REAL NOT NULL,
    PRIMARY KEY (class, gpu_type, gpus, nodes)
) STRICT, WITHOUT ROWID;

CREATE VIEW v_iteration AS
    SELECT job, attempt, rank, iteration, epoch, started_at, t_iter, t_data,
           t_h2d, t_forward, t_backward, t_comm, t_optimizer, loss, lr,
           samples, tokens, gpu_mem_bytes
    FROM iteration;

CREATE VIEW v_epoch AS
    SELECT job, attempt, epoch, seconds, train_loss, eval_loss, eval_accuracy,
           samples_per_s, tokens_per_s
    FROM epoch;

CREATE VIEW v_metric AS
    SELECT job, attempt, rank, nullif(iteration, -1) AS iteration, name, value
    FROM metric;

CREATE VIEW v_profile AS
    SELECT job, attempt, rank, epoch, metric, calls, total_s, bytes, sampled
    FROM profile;

-- A step is one iteration of all ranks and takes as long as its slowest. An
-- attempt's first three warm up and do not count. Speed-up is against the
-- smallest run of the class, as if that one scaled perfectly from one device.
-- Sizes of one type of GPUs are compared. The deviation is good to 1e-7 of the
-- mean, which no clock is. Samples are images, or rows of text. A guess, which
-- is what the daemon's model of the class says of a size that did not run,
-- counts until its size is measured; its base is the measured size on its own
-- type, else on none. Who reads measurements asks for basis = 'measured'.
CREATE VIEW v_scaling AS
    WITH step AS (
        SELECT r.class, r.gpus, r.nodes, r.gpu_type, r.job, r.attempt,
               max(i.t_iter) AS t_iter, sum(i.samples) AS samples,
               sum(i.tokens) AS tokens
        FROM run AS r
        JOIN iteration AS i ON i.job = r.job AND i.attempt = r.attempt
        WHERE i.t_iter IS NOT NULL
          AND i.iteration >= 3 + (SELECT min(f.iteration) FROM iteration AS f
                                  WHERE f.job = r.job
                                    AND f.attempt = r.attempt)
        GROUP BY r.job, r.attempt, i.iteration
    ), size AS (
        SELECT class, gpus, nodes, gpu_type, avg(t_iter) AS t_iter, count(*) AS n,
               count(DISTINCT job || '/' || attempt) AS runs,
               max(0, sum(t_iter * t_iter)
                          - count(*) * avg(t_iter) * avg(t_iter))
                   / nullif(count(*) - 1, 0) AS variance,
               sum(samples) / sum(t_iter) FILTER (WHERE samples IS NOT NULL)
                   AS rate,
               sum(tokens) / sum(t_iter) FILTER (WHERE tokens IS NOT NULL)
                   AS tokens_per_s
        FROM step
        GROUP BY class, gpus, nodes, gpu_type
    ), measured AS (
        SELECT class, gpus, nodes, gpu_type, t_iter, rate, tokens_per_s, n,
               'measured' AS basis, sqrt(variance) AS t_iter_sd, runs,
               first_value(rate / gpus) OVER (PARTITION BY class, gpu_type
                                              ORDER BY gpus, nodes) AS one_rate
        FROM size
    ), speed AS (
        SELECT * FROM measured
        UNION ALL
        SELECT g.class, g.gpus, g.nodes, nullif(g.gpu_type, ''),
               b.t_iter * g.t_iter_ratio, b.rate * g.rate_ratio,
               b.tokens_per_s * g.rate_ratio, 0, g.basis, NULL, 0, b.one_rate
        FROM guess AS g
        JOIN measured AS b ON b.class = g.class AND b.gpus = g.base_gpus
                              AND b.nodes = g.base_nodes
        WHERE b.gpu_type IS (SELECT max(s.gpu_type) FROM measured AS s
                             WHERE s.class = g.class
                               AND s.gpus = g.base_gpus
                               AND s.nodes = g.base_nodes
                               AND s.gpu_type = g.gpu_type)
          AND NOT EXISTS (SELECT 1 FROM measured AS s
                          WHERE s.class = g.class AND s.gpus = g.gpus
                            AND s.nodes = g.nodes
                            AND ifnull(s.gpu_type, '') IN (g.gpu_type, ''))
    )
    SELECT class, gpus, nodes, t_iter, rate AS samples_per_s,
           rate / one_rate AS speedup, rate / one_rate / gpus AS efficiency, n,
           basis, t_iter_sd, runs,
           gpus * 1e6 / rate / 3600 AS gpu_hours_per_million, tokens_per_s,
           gpu_type
    FROM speed;

PRAGMA application_id = 0x6d67706d; -- "mgpm"
PRAGMA user_version = 7; -- the first; 1 to 6 were never released
