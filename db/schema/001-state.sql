-- 001-state.sql - state.db: events, jobs, attempts.
--
-- An event is never changed or deleted, but with its whole job. job and attempt
-- hold the fold's latest values, written with the events that changed them.
-- Times are seconds since 1970; NULL is "not yet" or "not known".
--
-- sum is over what a row was written with: SQLite knows its pages and what kind
-- a value is, not whether a byte of a text is the one that was written. NULL:
-- written by hand. Of job it is over what each write names; what is fixed from
-- the submit on is in that event, too. Of attempt it does not cover the columns
-- after it, which are copies of what events say.
--
-- What users may rely on are the views: mgpu-db(5).

CREATE TABLE event (
    seq      INTEGER PRIMARY KEY CHECK (seq > 0),
    job      INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    event    TEXT NOT NULL,
    at       REAL,
    uid      INTEGER,
    detail   TEXT,
    sum      INTEGER
) STRICT;
CREATE INDEX event_of_job ON event (job, seq);

CREATE TABLE job (
    job              INTEGER PRIMARY KEY,
    name             TEXT,
    user             TEXT,
    uid              INTEGER,
    kind             TEXT,
    state            TEXT,
    reason           TEXT,
    priority         INTEGER NOT NULL,
    gpus_min         INTEGER NOT NULL,
    gpus_max         INTEGER NOT NULL,
    gpus             INTEGER NOT NULL,
    attempt          INTEGER NOT NULL,
    exit_code        INTEGER,
    submitted_at     REAL,
    started_at       REAL,
    ended_at         REAL,
    idempotency_key  TEXT,
    spec             TEXT,
    dir              TEXT,
    sum              INTEGER
) STRICT;

-- What a resize cost is in the row of the attempt that has the new size: the
-- GPUs before, and the seconds from the request to stop to the end of the
-- attempt before (checkpoint), from there to new devices (allocator), and from
-- there to the first iteration (start). cause, needed_bytes and available_bytes
-- are of a worker that refused its plan for memory: of a GPU, or its share of
-- the machine's, and how many bytes a rank needed and had.
CREATE TABLE attempt (
    job              INTEGER NOT NULL,
    attempt          INTEGER NOT NULL,
    state            TEXT,
    reason           TEXT,
    native_id        TEXT,
    place            TEXT,
    class            TEXT,
    gpus             INTEGER NOT NULL,
    nodes            INTEGER NOT NULL,
    exit_code        INTEGER,
    signal           INTEGER,
    intent_at        REAL,
    claimed_at       REAL,
    running_at       REAL,
    ended_at         REAL,
    sum              INTEGER,
    resized_from     INTEGER,
    checkpoint_s     REAL,
    allocator_s      REAL,
    start_s          REAL,
    cause            TEXT,
    needed_bytes     INTEGER,
    available_bytes  INTEGER,
    gpu_type         TEXT,
    account          TEXT,
    PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;

-- Jobs that the daemon no longer keeps in memory. A replay of the events passes
-- over a job that has ended and is named here. All else about it stays in the
-- other tables; these columns are what is asked of all such jobs at once.
CREATE TABLE archived (
    job       INTEGER PRIMARY KEY,
    uid       INTEGER,
    key       TEXT,
    state     TEXT NOT NULL,
    ended_at  REAL,
    sum       INTEGER
) STRICT;
CREATE INDEX archived_of_key ON archived (uid, key) WHERE key IS NOT NULL;
CREATE INDEX archived_by_end ON archived (ended_at, job);

-- What a list says of an archived job, written and removed with its row of
-- archived. It says nothing that the events do not say, but a list of a hundred
-- thousand jobs reads a tenth of what it would read of those. The text is the
-- engine's.
CREATE TABLE line (
    job   INTEGER PRIMARY KEY,
    line  TEXT NOT NULL,
    sum   INTEGER
) STRICT;

-- Jobs that were removed for good: nothing of them is left in the other tables.
-- How many events went with a job, the sum of their numbers and the highest of
-- them tell which are missing in the log by right; so neither a job's number
-- nor an event's is given again.
CREATE TABLE removed (
    job         INTEGER PRIMARY KEY,
    uid         INTEGER,
    state       TEXT NOT NULL,
    ended_at    REAL,
    removed_at  REAL,
    events      INTEGER NOT NULL,
    seqs        INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    sum         INTEGER
) STRICT;

-- When a job is removed for good, a copy of each of its attempts stays here, so
-- that the GPU-hours of a user or an account do not depend on how long jobs are
-- kept. It has no sum: it is a copy for reports and limits.
CREATE TABLE usage (
    job           INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    user          TEXT,
    uid           INTEGER,
    account       TEXT,
    class         TEXT,
    gpu_type      TEXT,
    place         TEXT,
    gpus          INTEGER NOT NULL,
    state         TEXT,
    submitted_at  REAL,
    claimed_at    REAL,
    running_at    REAL,
    ended_at      REAL,
    PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_by_end ON usage (ended_at);

CREATE VIEW v_job AS
    SELECT job, name, user, uid, kind, state, reason, priority, gpus_min,
           gpus_max, gpus, attempt, exit_code, submitted_at, started_at,
           ended_at, idempotency_key, spec, dir
    FROM job;

CREATE VIEW v_event AS
    SELECT seq, job, attempt, event, at, uid, detail
    FROM event;

CREATE VIEW v_attempt AS
    SELECT job, attempt, state, reason, native_id, place, class, gpus, nodes,
           exit_code, signal, intent_at, claimed_at, running_at, ended_at,
           resized_from, checkpoint_s, allocator_s, start_s, cause,
           needed_bytes, available_bytes, gpu_type, account
    FROM attempt;

-- A job whose events are damaged is set apart, and the rows of its attempts
-- stay as they were: one that ran has no end. The last of its events, but for a
-- cancel, which may come weeks later, is the last that is known of it.
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

PRAGMA application_id = 0x6d677073; -- "mgps"
PRAGMA user_version = 13; -- the first; 1 to 12 were never released
