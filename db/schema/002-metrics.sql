-- 002-metrics.sql - the speed of a program: of all commands that differ in
-- numbers and paths alone. NULL: of a run before this version, or of no command.

ALTER TABLE run ADD COLUMN program TEXT;

-- A step is one iteration of all ranks and takes as long as its slowest. An
-- attempt's first three warm up and do not count. Speed-up is against the
-- smallest run of the class, as if that one scaled perfectly from one device.
-- Sizes of one type of GPUs are compared. The deviation is good to 1e-7 of the
-- mean, which no clock is. Samples are images, or rows of text. A guess, which
-- is what the daemon's model of the class says of a size that did not run,
-- counts until its size is measured; its base is the measured size on its own
-- type, else on none. Who reads measurements asks for basis = 'measured'.
-- A program is all of its classes together, under its own name.
DROP VIEW v_scaling;
CREATE VIEW v_scaling AS
    WITH step AS (
        SELECT r.class, r.program, r.gpus, r.nodes, r.gpu_type, r.job,
               r.attempt, max(i.t_iter) AS t_iter, sum(i.samples) AS samples,
               sum(i.tokens) AS tokens
        FROM run AS r
        JOIN iteration AS i ON i.job = r.job AND i.attempt = r.attempt
        WHERE i.t_iter IS NOT NULL
          AND i.iteration >= 3 + (SELECT min(f.iteration) FROM iteration AS f
                                  WHERE f.job = r.job
                                    AND f.attempt = r.attempt)
        GROUP BY r.job, r.attempt, i.iteration
    ), part AS MATERIALIZED (
        SELECT class, program, gpus, nodes, gpu_type, count(*) AS n,
               count(DISTINCT job || '/' || attempt) AS runs,
               sum(t_iter) AS t, sum(t_iter * t_iter) AS tt,
               sum(samples) AS samples,
               sum(t_iter) FILTER (WHERE samples IS NOT NULL) AS samples_t,
               sum(tokens) AS tokens,
               sum(t_iter) FILTER (WHERE tokens IS NOT NULL) AS tokens_t
        FROM step
        GROUP BY class, program, gpus, nodes, gpu_type
    ), member AS (
        SELECT class AS name, 1 AS classes, * FROM part
        UNION ALL
        SELECT p.program, n.classes, p.*
        FROM part AS p
        JOIN (SELECT program, count(DISTINCT class) AS classes FROM part
              GROUP BY program) AS n ON n.program = p.program
    ), size AS (
        SELECT name AS class, gpus, nodes, gpu_type, sum(t) / sum(n) AS t_iter,
               sum(n) AS n, sum(runs) AS runs,
               max(0, sum(tt) - sum(n) * (sum(t) / sum(n)) * (sum(t) / sum(n)))
                   / nullif(sum(n) - 1, 0) AS variance,
               sum(samples) / sum(samples_t) AS rate,
               sum(tokens) / sum(tokens_t) AS tokens_per_s,
               max(classes) AS classes
        FROM member
        GROUP BY name, gpus, nodes, gpu_type
    ), measured AS (
        SELECT class, gpus, nodes, gpu_type, t_iter, rate, tokens_per_s, n,
               'measured' AS basis, sqrt(variance) AS t_iter_sd, runs, classes,
               first_value(rate / gpus) OVER (PARTITION BY class, gpu_type
                                              ORDER BY gpus, nodes) AS one_rate
        FROM size
    ), speed AS (
        SELECT * FROM measured
        UNION ALL
        SELECT g.class, g.gpus, g.nodes, nullif(g.gpu_type, ''),
               b.t_iter * g.t_iter_ratio, b.rate * g.rate_ratio,
               b.tokens_per_s * g.rate_ratio, 0, g.basis, NULL, 0, b.classes,
               b.one_rate
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
           gpu_type, classes
    FROM speed;

PRAGMA user_version = 8;
