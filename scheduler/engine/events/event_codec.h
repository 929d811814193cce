/* event_codec.h - what an event says beyond its name: a small JSON object.
 *
 * One struct for all events but SUBMIT; absent text is "", an absent number
 * -1. Text that comes from outside is made valid UTF-8 and cut to size here,
 * so that writing a detail cannot fail for what it says.
 */
#ifndef MGPU_SCHEDULER_ENGINE_EVENTS_EVENT_CODEC_H
#define MGPU_SCHEDULER_ENGINE_EVENTS_EVENT_CODEC_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/wire/json_scan.h"
#include "scheduler/engine/engine.h"

struct detail {
    char native_id[ALLOC_NATIVE_ID_CAP], place[ALLOC_PLACE_CAP], holder[128];
    char why[JOB_REASON_CAP];
    int32_t nodes, gpus, exit_code, signal;
    int32_t retry;   /* REQUEUE: 1 when it counts against retry.max */
    int32_t stopped; /* GRANT: 1 its ranks are suspended, 0 not any more;
                        CLAIM: 1 no time before it counts for the limit;
                        REPORT: see struct engine_report_extra */
    int32_t wait_ms; /* REQUEUE: not to be started earlier than so long after */
    int32_t priority; /* PRIORITY; INT32_MIN: none */
    int64_t for_job;  /* PREEMPT: the job that its devices go to; 0: it was
                         asked for by a person */
    int32_t grace_ms; /* PREEMPT: and it has so long */
    int64_t cpu_ms, cores_ms; /* REPORT: see struct engine_report_extra; of
                                 an end: as the allocator saw it */
    int64_t ended_ms; /* an end, REQUEUE: since 1970, if it was long before */
    char fault_node[ALLOC_NODE_NAME_CAP]; /* REPORT: where a device failed */
    char exclude[128]; /* REQUEUE: nodes that it is to keep away from, too */
    char gpu_type[32]; /* INTENT: of which its GPUs are to be, where its spec
                          leaves it open and it makes a difference */
    char held[16]; /* HOLD: "dependency"; "": who asked for it says enough */
    /* How far the last attempt came, for an end: what its beats had said. 0
     * and NAN: they said nothing. */
    int64_t iteration, iterations_total;
    int32_t epoch, epochs_total;
    double loss, t_iter, eval_accuracy;
};

#define DETAIL_INIT                                                          \
    {                                                                        \
        .nodes = -1, .gpus = -1, .exit_code = -1, .signal = -1, .retry = -1, \
        .stopped = -1, .wait_ms = -1, .priority = INT32_MIN, .grace_ms = -1, \
        .cpu_ms = -1, .cores_ms = -1, .ended_ms = -1, .loss = NAN,           \
        .t_iter = NAN, .eval_accuracy = NAN                                  \
    }

/* own  *ret_text: the caller frees; NULL when d says nothing */
int detail_encode(const struct detail *d, char **ret_text,
                  struct error *err) MUST_CHECK;
/* in   text  NULL is an empty object.
 * err  ERR_INVAL it is damaged; ERR_NOMEM, also where the JSON library
 *      lacked it, if lack_watch() was called (json_nomem.h) */
int detail_decode(const char *text, struct detail *ret,
                  struct error *err) MUST_CHECK;

/* What people call a task that is at place `task` of its sweep and varies in
 * `vary`: of an array its number, else the place. */
static inline int32_t eng_task_number(const char *vary, int32_t task)
{
    static const char head[] = "{\"array\":\""; /* and nothing more */
    if (strncmp(vary, head, sizeof(head) - 1) != 0)
        return task;
    return (int32_t)strtol(vary + sizeof(head) - 1, NULL, 10);
}

/* SUBMIT: the spec, byte for byte, and what the engine took from it, so that
 * a replay needs no parser of specs and old jobs keep their meaning.
 *
 * in   job, with spec, key and where; dir: NULL says that the job is where
 *      engine_conf.jobs_dir is, wherever that will be; class may be NULL */
int submit_encode(const struct job *job, const char *class, char **ret_text,
                  struct error *err) MUST_CHECK;
/* in   known  the spec, where the caller has just encoded it: it is not parsed
 *             to find its end; or NULL
 * out  ret's fields from user to vary, but spec, key and dir
 * own  what *ret_own points to: texts_clear(); class, dir, vary, words and
 *      depends may be NULL
 * err  as detail_decode() */
struct texts {
    char *spec, *key, *class, *dir, *vary, *rules;
    char *words; /* those of where */
    struct depend *depends;
};
int submit_decode(const char *text, const char *known, struct job *ret,
                  struct texts *ret_own, struct error *err) MUST_CHECK;
void texts_clear(struct texts *t);

/* out  ret  as from, with texts of its own
 * own  *ret_words, which has them: the caller frees; NULL: none */
int where_copy(const struct alloc_where *from, struct alloc_where *ret,
               char **ret_words, struct error *err) MUST_CHECK;

/* Begins the reason of an attempt that was taken back. */
extern const char eng_taken_back[];
/* Both texts, one after the other, as d->why. */
void detail_because(struct detail *d, const char *what, const char *why);

/* Copies src, cut at cap - 1 bytes between characters; every byte that is
 * no UTF-8, and every control character, becomes '?'. */
void text_copy(char *dst, size_t cap, const char *src);
/* The same with what a member says; of what is no text nothing. */
void text_take(char *dst, size_t cap, const struct member *m);

#endif
