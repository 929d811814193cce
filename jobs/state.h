/* state.h - states and events of a job; the transition table is in state.c.
 *
 *   NEW -submit-> QUEUED <-hold/release-> HELD
 *   QUEUED -intent-> DISPATCHING -unknown-> UNKNOWN   (submit not answered)
 *   DISPATCHING, UNKNOWN -grant-> same state, the allocator's id is known
 *   DISPATCHING, UNKNOWN -claim-> STARTING -run-> RUNNING
 *   RUNNING -stall-> STALLED -run-> RUNNING
 *   STARTING, RUNNING, STALLED -preempt-> CHECKPOINTING -requeue-> QUEUED
 *   DISPATCHING, UNKNOWN -preempt-> same state, marked
 *   live states -finish-> COMPLETED, -fail-> FAILED, -killed-> CANCELLED,
 *               -expire-> TIMEOUT, -lost-> NODE_FAIL, -requeue-> QUEUED
 *   QUEUED, HELD -cancel-> CANCELLED;  live -cancel-> same state, marked
 *   QUEUED -open-> RUNNING   (kind run: with its submit, in one batch)
 *
 * A job's state is the fold of its events, so a restarted daemon rebuilds it by
 * replaying the store. No code assigns a state in any other way. */
#ifndef MGPU_JOBS_STATE_H
#define MGPU_JOBS_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/base/error.h"

enum job_state {
    JOB_NEW,
    JOB_QUEUED,
    JOB_HELD,
    JOB_DISPATCHING,
    JOB_UNKNOWN,
    JOB_STARTING,
    JOB_RUNNING,
    JOB_CHECKPOINTING,
    JOB_STALLED,
    JOB_COMPLETED, /* final from here on */
    JOB_FAILED,
    JOB_CANCELLED,
    JOB_TIMEOUT,
    JOB_NODE_FAIL,
    JOB_STATE_N
};

enum job_event {
    EV_SUBMIT,   /* NEW -> QUEUED */
    EV_HOLD,     /* QUEUED -> HELD */
    EV_RELEASE,  /* HELD -> QUEUED */
    EV_INTENT,   /* QUEUED -> DISPATCHING: an attempt begins */
    EV_UNKNOWN,  /* the allocator's answer is unknown */
    EV_GRANT,    /* the allocator's id and placement are known */
    EV_CLAIM,    /* a worker proved that it is the attempt */
    EV_RUN,      /* the first iteration was reported */
    EV_STALL,    /* no heartbeat or no progress */
    EV_PREEMPT,  /* asked to checkpoint and release its GPUs; with a size:
                  * the next attempt has it */
    EV_REPORT,   /* the worker's final report; the state stays */
    EV_CANCEL,   /* requested by a user; final for a pending job */
    EV_LIMIT,    /* the time limit passed; the state stays until the exit */
    EV_REQUEUE,  /* live -> QUEUED for another attempt */
    EV_FINISH,   /* live -> COMPLETED */
    EV_FAIL,     /* live or pending -> FAILED */
    EV_KILLED,   /* live -> CANCELLED: the end of a cancelled job */
    EV_EXPIRE,   /* live -> TIMEOUT */
    EV_LOST,     /* live -> NODE_FAIL */
    EV_PRIORITY, /* another position in the queue; the state stays */
    EV_WARN,     /* its ranks were warned of the time limit */
    EV_TIME_80,  /* 80 % of the limit have passed; for notifications */
    EV_UPDATE,   /* another time limit, partition, account, priority, or number
                    of tasks at a time; the state stays */
    EV_SAVE_FAILED, /* a checkpoint could not be written; the state stays */
    EV_OPEN, /* QUEUED -> RUNNING: a job of kind run, whose program runs outside
                of mgpu, begins its only attempt */
    EV_N
};

/* The state that follows `from` on `ev`.
 *
 * out  ret_to   untouched on failure
 * err  ERR_STATE the table has no such transition; the job is unchanged */
int job_state_next(enum job_state from, enum job_event ev,
                   enum job_state *ret_to, struct error *err);

bool job_state_is_final(enum job_state s);
bool job_state_is_live(enum job_state s); /* holds GPUs, or may */
/* Pending: in the queue of the daemon, or handed to the allocator, which has
 * not started it: for Slurm it may wait for hours. */
bool job_state_is_pending(enum job_state s);

/* Whether the event begins an attempt: it has the number of the next one. */
static inline bool job_event_begins(enum job_event ev)
{
    return ev == EV_INTENT || ev == EV_OPEN;
}

const char *job_state_name(enum job_state s);  /* "QUEUED", ... */
const char *job_event_name(enum job_event ev); /* "submit", ... */
int job_state_from_name(const char *name,
                        enum job_state *ret); /* -1: unknown */
int job_state_from_text(const char *text, size_t len, enum job_state *ret);
int job_event_from_name(const char *name, enum job_event *ret);

#endif
