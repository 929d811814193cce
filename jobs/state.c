/* state.c - the transition table of jobs. A new state or event is one row. */
#include "jobs/state.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BIT(s) (1u << (s))

/* The states in which an attempt holds GPUs, or may. */
enum {
    LIVE = BIT(JOB_DISPATCHING) | BIT(JOB_UNKNOWN) | BIT(JOB_STARTING) |
           BIT(JOB_RUNNING) | BIT(JOB_CHECKPOINTING) | BIT(JOB_STALLED),
    CLAIMED = BIT(JOB_STARTING) | BIT(JOB_RUNNING) | BIT(JOB_CHECKPOINTING) |
              BIT(JOB_STALLED),
    UNCLAIMED = BIT(JOB_DISPATCHING) | BIT(JOB_UNKNOWN),
    WAITING = BIT(JOB_QUEUED) | BIT(JOB_HELD),
    SAME = JOB_STATE_N, /* as `to`: the job stays in its state */
};

static const struct {
    uint32_t from; /* any of these states */
    enum job_event ev;
    int to;
} moves[] = {
    {BIT(JOB_NEW), EV_SUBMIT, JOB_QUEUED},
    {BIT(JOB_QUEUED), EV_HOLD, JOB_HELD},
    {BIT(JOB_HELD), EV_HOLD, SAME}, /* by another user */
    {BIT(JOB_HELD), EV_RELEASE, JOB_QUEUED},
    {BIT(JOB_QUEUED), EV_INTENT, JOB_DISPATCHING},
    {BIT(JOB_DISPATCHING), EV_UNKNOWN, JOB_UNKNOWN},
    {LIVE, EV_GRANT, SAME},
    {UNCLAIMED, EV_CLAIM, JOB_STARTING},
    {BIT(JOB_STARTING) | BIT(JOB_STALLED), EV_RUN, JOB_RUNNING},
    {BIT(JOB_STARTING) | BIT(JOB_RUNNING), EV_STALL, JOB_STALLED},
    {CLAIMED, EV_PREEMPT, JOB_CHECKPOINTING},
    {UNCLAIMED | WAITING, EV_PREEMPT, SAME}, /* waiting: its next size */
    {CLAIMED, EV_REPORT, SAME},
    {WAITING, EV_CANCEL, JOB_CANCELLED},
    {LIVE, EV_CANCEL, SAME},
    {LIVE, EV_LIMIT, SAME},
    {LIVE, EV_REQUEUE, JOB_QUEUED},
    {CLAIMED, EV_FINISH, JOB_COMPLETED},
    {LIVE | WAITING, EV_FAIL, JOB_FAILED},
    {LIVE, EV_KILLED, JOB_CANCELLED},
    {LIVE, EV_EXPIRE, JOB_TIMEOUT},
    {LIVE, EV_LOST, JOB_NODE_FAIL},
    {LIVE | WAITING, EV_PRIORITY, SAME},
    {BIT(JOB_RUNNING) | BIT(JOB_STALLED), EV_WARN, SAME},
    {CLAIMED, EV_TIME_80, SAME},
    {LIVE | WAITING, EV_UPDATE, SAME},
    {CLAIMED, EV_SAVE_FAILED, SAME},
    {BIT(JOB_QUEUED), EV_OPEN, JOB_RUNNING},
};

static const char *const state_names[JOB_STATE_N] = {
    [JOB_NEW] = "NEW",         [JOB_QUEUED] = "QUEUED",
    [JOB_HELD] = "HELD",       [JOB_DISPATCHING] = "DISPATCHING",
    [JOB_UNKNOWN] = "UNKNOWN", [JOB_STARTING] = "STARTING",
    [JOB_RUNNING] = "RUNNING", [JOB_CHECKPOINTING] = "CHECKPOINTING",
    [JOB_STALLED] = "STALLED", [JOB_COMPLETED] = "COMPLETED",
    [JOB_FAILED] = "FAILED",   [JOB_CANCELLED] = "CANCELLED",
    [JOB_TIMEOUT] = "TIMEOUT", [JOB_NODE_FAIL] = "NODE_FAIL",
};

static const char *const event_names[EV_N] = {
    [EV_SUBMIT] = "submit",   [EV_HOLD] = "hold",
    [EV_RELEASE] = "release", [EV_INTENT] = "intent",
    [EV_UNKNOWN] = "unknown", [EV_GRANT] = "grant",
    [EV_CLAIM] = "claim",     [EV_RUN] = "run",
    [EV_STALL] = "stall",     [EV_PREEMPT] = "preempt",
    [EV_REPORT] = "report",   [EV_CANCEL] = "cancel",
    [EV_LIMIT] = "limit",     [EV_REQUEUE] = "requeue",
    [EV_FINISH] = "finish",   [EV_FAIL] = "fail",
    [EV_KILLED] = "killed",   [EV_EXPIRE] = "expire",
    [EV_LOST] = "lost",       [EV_PRIORITY] = "priority",
    [EV_WARN] = "warn",       [EV_TIME_80] = "time_80",
    [EV_UPDATE] = "update",   [EV_SAVE_FAILED] = "save_failed",
    [EV_OPEN] = "open",
};

const char *job_state_name(enum job_state s)
{
    return (unsigned)s < JOB_STATE_N ? state_names[s] : "?";
}

const char *job_event_name(enum job_event ev)
{
    return (unsigned)ev < EV_N ? event_names[ev] : "?";
}

int job_state_from_text(const char *text, size_t len, enum job_state *ret)
{
    for (int i = 0; len >= 2 && i < JOB_STATE_N; i++) {
        const char *s = state_names[i];
        if (s[0] == text[0] && s[1] == text[1] && strlen(s) == len &&
            memcmp(s, text, len) == 0) {
            *ret = (enum job_state)i;
            return 0;
        }
    }
    return -1;
}

int job_state_from_name(const char *name, enum job_state *ret)
{
    return job_state_from_text(name, strlen(name), ret);
}

int job_event_from_name(const char *name, enum job_event *ret)
{
    for (int i = 0; i < EV_N; i++) {
        if (strcmp(event_names[i], name) == 0) {
            *ret = (enum job_event)i;
            return 0;
        }
    }
    return -1;
}

bool job_state_is_final(enum job_state s)
{
    return s >= JOB_COMPLETED && s < JOB_STATE_N;
}

bool job_state_is_live(enum job_state s)
{
    return (unsigned)s < JOB_STATE_N && (LIVE & BIT(s)) != 0;
}

bool job_state_is_pending(enum job_state s)
{
    return s == JOB_QUEUED || s == JOB_DISPATCHING;
}

int job_state_next(enum job_state from, enum job_event ev,
                   enum job_state *ret_to, struct error *err)
{
    for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
        if (moves[i].ev == ev && (unsigned)from < JOB_STATE_N &&
            (moves[i].from & BIT(from)) != 0) {
            *ret_to = moves[i].to == SAME ? from : (enum job_state)moves[i].to;
            return 0;
        }
    }
    return error_set(err, ERR_STATE, "a job that is %s cannot %s",
                     job_state_name(from), job_event_name(ev));
}
