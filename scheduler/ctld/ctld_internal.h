/* ctld_internal.h - struct ctld, for the files of this folder. */
#ifndef MGPU_SCHEDULER_CTLD_CTLD_INTERNAL_H
#define MGPU_SCHEDULER_CTLD_CTLD_INTERNAL_H

#include <jansson.h>
#include <stdatomic.h>

#include "jobs/http/http_server.h"
#include "jobs/wire/wire.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/ctld.h"
#include "scheduler/ctld/loop/event_loop.h"
#include "scheduler/ctld/loop/work_queue.h"
#include "scheduler/ctld/maintenance/audit_log.h"
#include "scheduler/ctld/maintenance/sealed_jobs.h"
#include "scheduler/ctld/notify/notifier.h"
#include "scheduler/ctld/startup/token_secret.h"

enum { CTLD_STEP_BUCKETS = 8 };

/* Of work that takes long: so much in one turn of the loop. */
static const double CTLD_SLICE_S = 0.005;

struct ctld_durations {
    uint64_t n, buckets[CTLD_STEP_BUCKETS]; /* not cumulative; the last is all
                                               above the bounds */
    double sum_s;
};

struct ctld_stats {
    uint64_t events, rows_stored, rows_repeated, lines_dropped, values_dropped,
        spools_undrained, steps_failed, refused, limited, rows_removed,
        jobs_removed;
    struct ctld_durations steps, commits; /* commits: of the disk's part */
};
extern const double ctld_step_bounds_s[CTLD_STEP_BUCKETS - 1];

/* How often one user has asked of late; rate_limit.c. */
enum { CTLD_RATES_MAX = 1024 };
struct ctld_rate {
    int64_t uid;
    double tokens, at_s; /* so many were left then; at_s 0: free */
};

struct intake;
struct users;

struct ctld {
    struct ctld_parts parts;
    struct ctld_conf conf; /* what parts.conf is */
    struct engine_conf engine_conf;
    struct secret secret;
    struct ctld_sealed sealed;
    char jobs_dir[512], url[256];
    double started_wall_s, started_s;
    struct loop *loop;
    struct http_server *http, *scrape; /* scrape may be NULL */
    struct engine *engine;
    struct thread *commits, *writer, *reader, *logs, *submits;
    struct thread *logins; /* or NULL */
    struct users *users;
    struct ctld_rate rates[CTLD_RATES_MAX];
    struct loop_source *stop_timer;
    struct loop_source *term, *intr, *hup, *usr1, *child;
    bool stopping;
    struct error fatal;   /* why it stops, unless it was asked to */
    _Atomic bool closing; /* as stopping, for the threads */

    int port;          /* of TCP; 0: none */
    double refused_s;  /* when a refusal was last logged */
    uint64_t n_unsaid; /* refused since, not logged */

    struct engine_loop *engine_loop;
    struct step_request *step_request;
    struct held_replies *held_replies;

    struct intake *intakes; /* one per live attempt that sent rows */
    struct loop_source *sync_timer;
    bool unsynced;
    double lines_complained_s;

    uint64_t first_seq; /* the last event before this start */
    struct job_watch *job_watch;
    struct log_follow *log_follow;
    struct job_cursors *job_cursors;
    struct start_estimates *start_estimates;

    struct loop_source *watchdog;
    struct thread *backups; /* NULL before the first */
    struct backup_schedule *backup_schedule;
    struct disk_space *disk_space;
    struct metrics_damage *metrics_damage;
    struct metrics_retention *metrics_retention;
    struct malloc_trim *malloc_trim;
    struct job_retention *job_retention;
    struct audit *audit;
    struct admin_actions *admin_actions;
    struct reload_config *reload_config;
    struct policy_settings *policy_settings;
    struct drained_nodes *drained_nodes;

    struct ctld_stats stats;

    struct notices *notices; /* NULL before the first */
    bool knows_told;         /* which events were told of before this start */
    uint64_t told;           /* up to this one */
    uint64_t n_untold;       /* that could not even be posted */
};

/* ---- job_events.c: who is told of which event -----------------------------
 */
/* Before the engine is there, and after. */
int ctld_notice_init(struct ctld *c, struct error *err) MUST_CHECK;
int ctld_notice_begin(struct ctld *c, struct error *err) MUST_CHECK;
/* engine_parts.replayed: what the last life may not have told. */
void ctld_notice_again(void *arg, const struct store_event *event,
                       const struct job *job);
void ctld_notice(struct ctld *c, const struct store_event *event,
                 const struct job *job);
struct notices_counts ctld_notice_counts(struct ctld *c);
/* Whether what a spec asks for can be done here.
 * err  ERR_INVAL, with the key */
int ctld_notice_check(const struct job_spec *spec, bool has_program,
                      struct error *err) MUST_CHECK;

/* ---- job_submit.c ---------------------------------------------------------
 */
int ctld_submit_init(struct ctld *c, struct error *err) MUST_CHECK;

/* ---- why.c, queries.c, dry_run.c -------------------------------------------
 */
/* mgpu.why/1; NULL: err says why. */
json_t *ctld_why_json(const struct ctld *c, const struct job *job,
                      struct error *err);
/* The job's specification without what is secret in it; null: none. */
json_t *ctld_spec_json(const struct job *job);
/* Replies what would come of the submit.
 * in  is_seed_open  its seed was drawn, and is another one when it is submitted
 *     sweep         NULL: one job */
void ctld_dry_run(struct ctld *c, struct http_exchange *x,
                  const struct engine_submit *req,
                  const struct engine_sweep *sweep, bool is_seed_open);

/* ---- reply.c --------------------------------------------------------------
 */
json_t *ctld_num(double v);       /* null for NAN and infinity */
json_t *ctld_text(const char *s); /* null for NULL and "" */
json_t *ctld_time(double wall_s); /* null for NAN */

/* ---- auth.c, worker_address.c: who may speak to us ------------------------
 */
int ctld_auth_init(struct ctld *c, struct error *err) MUST_CHECK;
/* A user's request. False: the caller is nobody whom we serve, which was
 * replied; or it is not known yet who it is, and the handler is called again
 * when it is. */
bool ctld_admit(struct ctld *c, struct http_exchange *x);
/* A worker's, of the route ATTEMPT: replies and returns false unless it shows
 * the token of that attempt, which is not over, from where it may be. */
struct worker {
    uint64_t job;
    int32_t attempt;
    const char *token; /* borrowed from x */
};
bool ctld_admit_worker(struct ctld *c, struct http_exchange *x,
                       struct worker *ret);
/* Whether a process at this address may be a worker of the job's attempt. */
bool ctld_origin_fits(const struct ctld *c, const struct job *job,
                      const char *peer);

/* ---- rate_limit.c ----------------------------------------------------------
 */
/* Whether uid may ask once more, by limits.rpc_rate; else *ret_after_s is when
 * it may. Each call that says yes counts. */
bool ctld_rate_takes(struct ctld *c, int64_t uid, double *ret_after_s);

/* ---- user_names.c ---------------------------------------------------------
 */
enum { CTLD_USER_CAP = 256 }; /* login names have at most 255 bytes */
int ctld_users_init(struct ctld *c, struct error *err) MUST_CHECK;
void ctld_users_clear(struct ctld *c);
/* The caller's name. False: not known yet; the handler is called again when
 * it is, or the reply says why it will not be. */
bool ctld_caller_name(struct ctld *c, struct http_exchange *x,
                      char ret[CTLD_USER_CAP]);

/* ---- reply.c, job_lookup.c: what the handlers share -----------------------
 */
/* Sends o, which it ends; NULL is out of memory. */
void ctld_reply(struct http_exchange *x, int status, json_t *o);
/* The body as a JSON object, {} when empty; replies on failure. */
json_t *ctld_body(struct http_exchange *x);
/* ":id" as a job's number; replies on failure. */
bool ctld_param_id(struct http_exchange *x, size_t i, uint64_t *ret);
/* ":id" as "123", or as "123_4": task 4 of sweep 123. A bare number that is a
 * sweep's stands for the sweep, and for its first task where only one job can
 * be meant. Replies on failure. */
struct target {
    uint64_t id;   /* of the job, or of the sweep's first task */
    bool is_sweep; /* all of it is meant */
};
bool ctld_param_target(struct ctld *c, struct http_exchange *x,
                       struct target *ret);
/* The first job with an id > `after` that is there for all to see, or NULL. */
const struct job *ctld_next_job(const struct ctld *c, uint64_t after);
/* As engine_next_since(). */
const struct job *ctld_next_since(const struct ctld *c, uint64_t after,
                                  double since_s);
/* The same where a sweep cannot be meant, and is refused. */
bool ctld_param_one(struct ctld *c, struct http_exchange *x, uint64_t *ret);
/* archive_load.c: has the job read into memory, with all of its sweep, on
 * another thread. 0: there is nothing to wait for, it is there or nowhere; 1:
 * fn is called on the loop when it is there, or with why it cannot be; -1: err
 * of the store, ERR_BUSY, ERR_NOMEM */
typedef void ctld_recalled_f(void *arg, const struct error *why);
int ctld_recall(struct ctld *c, uint64_t id, ctld_recalled_f *fn, void *arg,
                struct error *err) MUST_CHECK;
/* The same at once for several of the archive, with ids in order: when fn is
 * called all are there but for what it is told of. ERR_INVAL: too many tasks */
int ctld_recall_all(struct ctld *c, const uint64_t *ids, size_t n,
                    ctld_recalled_f *fn, void *arg,
                    struct error *err) MUST_CHECK;
/* For a handler. False: it is called again then, or the reply says why not. */
bool ctld_recall_for(struct ctld *c, struct http_exchange *x, uint64_t id);
/* The job, be it in memory or not; one that is not is read here and now; *ret
 * is NULL when there is none. Valid until the next step.  err  of the store */
int ctld_find(struct ctld *c, uint64_t id, const struct job **ret,
              struct error *err) MUST_CHECK;
/* The same where a failure is as if there was none; it is logged. */
const struct job *ctld_find_or_log(struct ctld *c, uint64_t id);
/* The job, when the caller may see all of it; replies on failure. */
const struct job *ctld_job_of(struct ctld *c, struct http_exchange *x,
                              uint64_t id);
bool ctld_param_job(struct ctld *c, struct http_exchange *x,
                    const struct job **ret);
/* ?name=N within min..max, or absent; replies on failure. */
bool ctld_query_int(struct http_exchange *x, const char *name, int64_t min,
                    int64_t max, int64_t absent, int64_t *ret);

/* ---- status.c --------------------------------------------------------------
 */
/* Of nodes[i] */
json_t *ctld_node_json(const struct alloc_node *nodes, size_t n, size_t i);
/* "up", "down", "drained"; "draining" while anybody's jobs are on it */
const char *ctld_node_state(const struct alloc_node *nodes, size_t n, size_t i);
/* {"name","is_ok","since","why"} */
json_t *ctld_allocator_state(const struct ctld *c);

bool ctld_admit_admin(struct ctld *c, struct http_exchange *x);

/* ---- metrics_listener.c, openmetrics.c -------------------------------------
 */
void ctld_reply_metrics(struct ctld *c, struct http_exchange *x);
/* metrics_listener.c: the same at conf.metrics_listen, if there is one, for
 * everybody.
 * in   like  whose enter and leave it has, too
 * err  as http_server_listen_tcp() */
int ctld_scrape_init(struct ctld *c, const struct http_server_conf *like,
                     struct error *err) MUST_CHECK;

#endif
