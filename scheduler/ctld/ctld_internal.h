/* ctld_internal.h - struct ctld, for the files of this folder and those below.
 *
 * Subsystems with a state of their own hide it: struct ctld has a pointer, and
 * their header has the functions that other files may call.
 */
#ifndef MGPU_SCHEDULER_CTLD_CTLD_INTERNAL_H
#define MGPU_SCHEDULER_CTLD_CTLD_INTERNAL_H

#include <jansson.h>
#include <stdatomic.h>

#include "jobs/http/http_server.h"
#include "jobs/wire/wire.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/ctld.h"
#include "scheduler/ctld/ingest/sol_counts.h"
#include "scheduler/ctld/loop/event_loop.h"
#include "scheduler/ctld/loop/work_queue.h"
#include "scheduler/ctld/notify/notifier.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/job_lookup.h"
#include "scheduler/ctld/request/reply.h"
#include "scheduler/ctld/startup/token_secret.h"
#include "scheduler/ctld/usage/event_counts.h"

enum { CTLD_STEP_BUCKETS = 8 };

/* Long work does no more than this in one turn of the loop. */
static const double CTLD_SLICE_S = 0.005;

struct ctld_durations {
    uint64_t n, buckets[CTLD_STEP_BUCKETS]; /* not cumulative; the last is all
                                               above the bounds */
    double sum_s;
};

struct ctld_stats {
    uint64_t events, rows_stored, rows_repeated, lines_dropped, values_dropped,
        spools_undrained, steps_failed, refused, limited, rows_removed,
        jobs_removed, resizes, predictions;
    double prediction_error; /* sum over predictions: off by this share */
    double resize_s[3];      /* of them: checkpoint, allocator, start */
    struct ctld_durations steps, commits; /* commits: the time of the store */
    struct wait_counts waits;
    struct sol_counts sol;
};
extern const double ctld_step_bounds_s[CTLD_STEP_BUCKETS - 1];

struct ctld {
    struct ctld_parts parts;
    struct ctld_conf conf; /* parts.conf points to it; a reload changes it */
    struct engine_conf engine_conf;
    struct secret secret;
    char jobs_dir[512], url[256];
    double started_wall_s, started_s;
    uint64_t first_seq;   /* the last event before this start */
    int port;             /* of TCP; 0: none */
    bool has_recalled;    /* the speeds of earlier jobs: teach_policy() */
    bool stopping;        /* the daemon accepts no requests any more */
    _Atomic bool closing; /* the same, for the threads */
    struct error fatal;   /* why it stops; none if it was asked to */

    struct loop *loop;
    struct loop_source *term, *intr, *hup, *usr1, *child; /* signals */
    struct loop_source *stop_timer, *watchdog;
    struct http_server *http, *scrape; /* scrape may be NULL */
    struct engine *engine;
    struct thread *commits, *writer, *reader, *logs, *submits;
    struct thread *logins, *backups; /* NULL until they are needed */
    struct ctld_stats stats;

    /* Each of these is known to one file only, which has a header. */
    struct engine_loop *engine_loop;
    struct step_request *step_request;
    struct held_replies *held_replies;
    struct auth *auth;
    struct rate_limit *rate_limit;
    struct user_names *user_names;
    struct metric_ingest *metric_ingest;
    struct curve_cache *curve_cache;
    struct attempt_metrics *attempts; /* the live ones; attempt_metrics.h */
    struct job_watch *job_watch;
    struct log_follow *log_follow;
    struct job_cursors *job_cursors;
    struct start_estimates *start_estimates;
    struct backup_schedule *backup_schedule;
    struct disk_space *disk_space;
    struct metrics_damage *metrics_damage;
    struct lost_files *lost_files;
    struct metrics_retention *metrics_retention;
    struct job_retention *job_retention;
    struct malloc_trim *malloc_trim;
    struct gpu_hours *gpu_hours;
    struct audit_log *audit_log;
    struct admin_actions *admin_actions;
    struct reload_config *reload_config;
    struct policy_settings *policy_settings;
    struct drained_nodes *drained_nodes;

    struct notices *notices; /* NULL before the first */
    bool knows_told;         /* which events were told of before this start */
    uint64_t told;           /* up to this one */
    uint64_t n_untold;       /* that could not even be posted */
};

/* ---- job_events.c: who is told of which event -----------------------------
 */
/* Before the engine is there, and after. */
int ctld_event_notice_init(struct ctld *c, struct error *err) MUST_CHECK;
int ctld_event_notice_begin(struct ctld *c, struct error *err) MUST_CHECK;
/* engine_parts.replayed: events that the daemon before may not have sent. */
void ctld_event_notice_again(void *arg, const struct store_event *event,
                             const struct job *job);
void ctld_event_notice(struct ctld *c, const struct store_event *event,
                       const struct job *job);
struct notices_counts ctld_event_notice_counts(struct ctld *c);
/* Whether what a spec asks for can be done here.
 * err  ERR_INVAL, with the key */
int ctld_event_notice_check(const struct job_spec *spec, bool has_program,
                            struct error *err) MUST_CHECK;

#endif
