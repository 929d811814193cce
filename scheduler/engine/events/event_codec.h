/* event_codec.h - the detail of an event: a small JSON object.
 *
 * One struct serves all events but SUBMIT; absent text is "", an absent number
 * -1. Text from outside is made valid UTF-8 and cut to size here, so that
 * encoding a detail cannot fail because of its contents.
 */
#ifndef MGPU_SCHEDULER_ENGINE_EVENTS_EVENT_CODEC_H
#define MGPU_SCHEDULER_ENGINE_EVENTS_EVENT_CODEC_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "jobs/wire/json_scan.h"
#include "scheduler/engine/engine.h"

enum { DETAIL_WHERE_CAP = 64 }; /* of a partition, of an account */
struct detail {
    char native_id[ALLOC_NATIVE_ID_CAP], place[ALLOC_PLACE_CAP], holder[128];
    char why[JOB_REASON_CAP];
    int32_t nodes, gpus, exit_code, signal;
    int32_t retry;    /* REQUEUE: 1 if it counts against retry.max */
    int32_t stopped;  /* GRANT: 1 its ranks are suspended, 0 they continue;
                         CLAIM: 1 the time before it does not count against
                         the limit; REPORT: see struct engine_report_extra */
    int32_t wait_ms;  /* REQUEUE: backoff until the next start; PREEMPT: see
                         barred_gpus */
    int64_t left_ms;  /* REQUEUE of a resize: what is left of the time limit */
    int32_t priority; /* PRIORITY, UPDATE; INT32_MIN: none */
    int64_t limit_ms; /* UPDATE: of an attempt; 0: no limit */
    int32_t limit_default; /* UPDATE: 1: the cluster's scheduler sets the limit
                              for jobs that name none */
    int32_t max_parallel;  /* UPDATE: 0: any number */
    char partition[DETAIL_WHERE_CAP]; /* UPDATE */
    char account[DETAIL_WHERE_CAP];   /* UPDATE; INTENT: the cluster's default
                                         account, if nothing names one */
    int64_t for_job;      /* PREEMPT: the job that gets the devices; 0: none.
                             Without a size and a reason, a person requested a
                             requeue */
    int32_t grace_ms;     /* PREEMPT: grace time of the attempt */
    int32_t saves_failed; /* SAVE_FAILED: how many of the attempt with it */
    int32_t to_gpus, to_nodes; /* PREEMPT: size of the next attempt. GPUs 0: as
                                  the policy chooses; nodes 0: any number */
    int32_t barred_gpus; /* PREEMPT: they were not granted, and are not tried
                            for wait_ms */
    int64_t cpu_ms, cores_ms;     /* REPORT: see struct engine_report_extra; an
                                     end: as the allocator measured */
    int64_t gpu_busy_ms, gpus_ms; /* REPORT: likewise */
    int64_t ended_ms; /* an end, REQUEUE: since 1970, if it was long before
                         the event */
    char fault_node[ALLOC_NODE_NAME_CAP]; /* REPORT: node of the failed
                                             device */
    char cause[JOB_CAUSE_CAP]; /* REPORT: see struct engine_report_extra */
    int64_t needed_bytes, available_bytes; /* REPORT: with a cause */
    char exclude[128];                     /* REQUEUE: further nodes to avoid */
    char gpu_type[32]; /* INTENT: type of its GPUs, if the spec leaves it
                          open and the nodes have several; GRANT: the type that
                          was granted; REPORT, RUN: of a refusal for memory, or
                          of its end */
    char held[16]; /* HOLD: "dependency"; "": the uid of the event says it */
    /* Progress of the last attempt, in the event of an end: from its
     * heartbeats. 0 and NAN: not reported. */
    int64_t iteration, iterations_total;
    int32_t epoch, epochs_total;
    double loss, t_iter, eval_loss, eval_accuracy;
};

#define DETAIL_INIT                                                           \
    {                                                                         \
        .nodes = -1, .gpus = -1, .exit_code = -1, .signal = -1, .retry = -1,  \
        .stopped = -1, .wait_ms = -1, .left_ms = -1, .barred_gpus = -1,       \
        .priority = INT32_MIN, .limit_ms = -1, .max_parallel = -1,            \
        .grace_ms = -1, .to_gpus = -1, .to_nodes = -1, .saves_failed = -1,    \
        .cpu_ms = -1, .cores_ms = -1, .ended_ms = -1, .needed_bytes = -1,     \
        .gpu_busy_ms = -1, .gpus_ms = -1, .available_bytes = -1, .loss = NAN, \
        .t_iter = NAN, .eval_loss = NAN, .eval_accuracy = NAN                 \
    }

/* own  *ret_text: the caller frees; NULL if no field of d is set */
int detail_encode(const struct detail *d, char **ret_text,
                  struct error *err) MUST_CHECK;
/* in   text  NULL is an empty object.
 * err  ERR_INVAL it is damaged; ERR_NOMEM, also if the JSON library ran out of
 *      memory and nomem_watch() was called (json_nomem.h) */
int detail_decode(const char *text, struct detail *ret,
                  struct error *err) MUST_CHECK;

/* The display number of the task at index `task` of its sweep, with the values
 * `vary`: in an array its number, else the index. */
static inline int32_t eng_task_number(const char *vary, int32_t task)
{
    static const char head[] = "{\"array\":\""; /* the only member */
    if (strncmp(vary, head, sizeof(head) - 1) != 0)
        return task;
    return (int32_t)strtol(vary + sizeof(head) - 1, NULL, 10);
}

/* SUBMIT: the spec, byte for byte, and what the engine derived from it, so that
 * a replay needs no parser of specs and old jobs keep their meaning.
 *
 * in   job, with spec, key and where; dir: NULL says that the job is in
 *      engine_conf.jobs_dir, also if that moves; class may be NULL */
/* in  class, program  as workload_class.c and program_class.h name them, or
 *                      NULL */
int submit_encode(const struct job *job, const char *class, const char *program,
                  char **ret_text, struct error *err) MUST_CHECK;
/* in   known  the spec, if the caller has just encoded it: the text need not be
 *      parsed to find its end; or NULL
 * out  ret's fields from user to vary, except spec, key and dir
 * own  the strings of *ret_own: texts_clear(); class, program, dir, vary, from,
 *      words and depends may be NULL
 * err  as detail_decode() */
struct texts {
    char *spec, *key, *class, *program, *dir, *vary, *rules, *from;
    char *words; /* strings of where */
    struct depend *depends;
};
int submit_decode(const char *text, const char *known, struct job *ret,
                  struct texts *ret_own, struct error *err) MUST_CHECK;
void texts_clear(struct texts *t);

/* out  ret  a copy of from with strings of its own
 * own  *ret_words, which holds them: the caller frees; NULL: none */
int where_copy(const struct alloc_where *from, struct alloc_where *ret,
               char **ret_words, struct error *err) MUST_CHECK;

/* Prefix of the reason of an attempt that the engine cancelled while it was
 * pending in the allocator. */
extern const char eng_taken_back[];
/* Sets d->why to both texts, one after the other; without room for all, it is
 * cut between words and ends in "...". */
void detail_because(struct detail *d, const char *what, const char *why);

#endif
