-- 001-state.sql - state.db, version 1: events, jobs, attempts.
--
-- An event is never changed or deleted. job and attempt hold the fold's
-- latest values, written with the events that changed them. Times are
-- seconds since 1970; NULL is "not yet" or "not known".
-- What users may rely on are the views: mgpu-db(5).

CREATE TABLE event (
    seq      INTEGER PRIMARY KEY CHECK (seq > 0),
    job      INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    event    TEXT NOT NULL,
    at       REAL,
    uid      INTEGER,
    detail   TEXT
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
    dir              TEXT
) STRICT;

CREATE TABLE attempt (
    job         INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    state       TEXT,
    reason      TEXT,
    native_id   TEXT,
    place       TEXT,
    class       TEXT,
    gpus        INTEGER NOT NULL,
    nodes       INTEGER NOT NULL,
    exit_code   INTEGER,
    signal      INTEGER,
    intent_at   REAL,
    claimed_at  REAL,
    running_at  REAL,
    ended_at    REAL,
    PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;

CREATE VIEW v_job AS
    SELECT job, name, user, uid, kind, state, reason, priority, gpus_min,
           gpus_max, gpus, attempt, exit_code, submitted_at, started_at,
           ended_at, idempotency_key, spec, dir
    FROM job;

CREATE VIEW v_attempt AS
    SELECT job, attempt, state, reason, native_id, place, class, gpus, nodes,
           exit_code, signal, intent_at, claimed_at, running_at, ended_at
    FROM attempt;

CREATE VIEW v_event AS
    SELECT seq, job, attempt, event, at, uid, detail
    FROM event;

PRAGMA application_id = 0x6d677073; -- "mgps"
PRAGMA user_version = 1;
