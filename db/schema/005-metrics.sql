-- 005-metrics.sql - metrics.db, version 5: the type of the GPUs, of each run and
-- of each size in v_scaling. Columns are only added: who reads them by place
-- finds the old ones.

ALTER TABLE run ADD COLUMN gpu_type TEXT;

DROP VIEW v_scaling;
-- A step is one iteration of all ranks and takes as long as its slowest. An
-- attempt's first three warm up and do not count. Speed-up is against the
-- smallest run of the class, as if that one scaled perfectly from one device.
-- Sizes of one type of GPUs are compared; an attempt of before this version has
-- none. The deviation is good to 1e-7 of the mean, which no clock is. Samples are
-- images, or rows of text.
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
    ), speed AS (
        SELECT *, rate / first_value(rate / gpus)
                      OVER (PARTITION BY class, gpu_type
                            ORDER BY gpus, nodes) AS speedup
        FROM size
    )
    SELECT class, gpus, nodes, t_iter, rate AS samples_per_s, speedup,
           speedup / gpus AS efficiency, n, 'measured' AS basis,
           sqrt(variance) AS t_iter_sd, runs,
           gpus * 1e6 / rate / 3600 AS gpu_hours_per_million, tokens_per_s,
           gpu_type
    FROM speed;

PRAGMA user_version = 5;
