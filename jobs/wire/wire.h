/* wire.h - the protocol of tools, daemon and workers: HTTP/1.1 + JSON.
 *
 * Over the unix socket the kernel reports the caller's uid. Over TCP a user's
 * request has "Authorization: MUNGE <credential>", valid for this one request:
 * its payload is the request's digest (jobs/http/http_digest.h).
 *
 * "X-Mgpu-View: others" on a GET: the reply has what any user sees of the jobs
 * of others, also of the caller's own and for an administrator, and has this
 * header, too (mgpu-web --cluster).
 *
 * Tools:
 *   POST /v1/jobs             {"spec":{..},"hold":false}   Idempotency-Key:
 *                             -> 201 {"id":12}, or 200 if the key is known. A
 *                             sweep is submitted as several jobs, all or
 *                             none, with consecutive ids from the reply's.
 *                             The daemon's defaults apply to missing keys:
 *                             tools send only what the user wrote, so that
 *                             both sides may have different versions
 *   GET  /v1/jobs             ?user=&state=A,B&name=&account=&partition=
 *                             &label=&node=&sweep=&id_min=&id_max=&since=
 *                             &limit=&fields= -> queue
 *                             user: "me" is the caller, "all" everybody
 *                             label: "key=value" or "key", one per line, all
 *                             must match; node: where it runs or ran last;
 *                             fields: "id,name,state": only these members of
 *                             each JOB, without those that are null
 *   POST /v1/runs             {"name":"..","project":"..","config":{..},
 *                             "holder":"HOST PID"}   Idempotency-Key: -> as
 *                             POST /v1/jobs; a job of kind run (engine/run.h)
 *   POST /v1/jobs/:id/values  ?offset=O, of a run: JSON Lines, metric_rows.h;
 *                             O: bytes that were sent before. Empty: it lives
 *                             -> {"acked":N,"dropped":D,"line":L,"why":"..",
 *                             "ignored":[{"key":"..","why":".."}]}: D lines
 *                             are no rows, L is the first; N, D as for rows
 *   POST /v1/jobs/:id/finish  {"exit_code":0,"why":".."}, of a run
 *   POST /v1/dry-run          the same body as /v1/jobs -> mgpu.dry_run/1
 *   GET  /v1/jobs/:id         -> one job with its attempts
 *   POST /v1/jobs/:id/cancel  {"signal":"TERM"} optional: only the signal
 *   POST /v1/jobs/:id/hold, /v1/jobs/:id/release
 *                             :id is 123, or 123_4 for task 4 of sweep 123;
 *                             these three apply a sweep's id to all of its
 *                             tasks, and 123_0 to its first task alone
 *   POST /v1/jobs/:id/requeue its attempt ends, and it is queued again
 *   POST /v1/jobs/:id/resize  {"gpus":4}, and {"nodes":2} or not: so many in
 *                             its next attempt; {"gpus":"any"}: as the policy
 *                             chooses. "says" of the reply: what the request
 *                             does, also if another one has followed
 *   POST /v1/jobs/:id/update  {"time_limit_s":3600,"partition":"a",
 *     "account":"b","priority":7,"max_parallel":2}, some of them; a limit or
 *     max_parallel null: none
 *   POST /v1/jobs/:id/priority {"priority":7} or {"top":true}
 *   GET  /v1/jobs/:id/events  ?after=
 *   GET  /v1/jobs/:id/iterations ?attempt=&rank=&after=&last=&limit=
 *   GET  /v1/jobs/:id/epochs
 *   GET  /v1/jobs/:id/values  the v_metric rows; ?latest=1: the newest one of
 *                             each name, of the lowest rank
 *   GET  /v1/jobs/:id/efficiency -> mgpu.eff/1 of this job, with advice
 *   GET  /v1/jobs/:id/logs    ?follow=1&attempt= -> text, chunked when
 *                             following; rank=: only its lines, without
 *                             labels; since=: only later output
 *   GET  /v1/watch            ?job=&after= -> JSON Lines, one per change:
 *                             the job object; with job= it ends with the job.
 *                             Also the filters of /v1/jobs whose result never
 *                             changes for a job: not state= and node=.
 *                             ?cursor=new or =CURSOR: lines {"schema":
 *                             "mgpu.synced/1","cursor":..,"whole":true} mark
 *                             what a client has; man/mgpu-ctld.8
 *   GET  /v1/jobs/:id/why     -> why it is pending, or in its state
 *   GET  /v1/nodes            -> inventory
 *   GET  /v1/gpus             use of GPUs over time: since=, default an hour
 *                             ago, and the filters of /v1/jobs
 *   GET  /v1/usage            GPU-hours: by=user (or account, class, node),
 *                             since=, default 30 days ago
 *   GET  /v1/status           -> version, pid, policy, counts
 *   POST /v1/admin/pause {"why":".."}, /v1/admin/resume   administrators'
 *   POST /v1/admin/drain {"node":"n1","why":".."}, and resume with a node
 *   POST /v1/admin/reload     reads mgpu.yaml again
 *   GET  /v1/policy           -> the keys of the scheduling policy
 *   POST /v1/admin/policy     {"set":{"KEY":"VALUE"},"for_s":3600} or
 *                             {"unset":["KEY"]}, true for all -> as the GET
 *   GET  /v1/admin/plan       ?job= -> what the policy would do now
 *   POST /v1/admin/backup     {"dir":"/new/directory"}
 *   POST /v1/admin/fsck       looks through the databases
 *   GET  /v1/admin/log        ?last= -> their actions on the daemon
 *   GET  /metrics, /livez, /readyz
 * Workers (Authorization: Bearer <the attempt's token>; over TCP no more):
 *   POST /v1/attempts/:job/:attempt/claim      {"holder":"host pid start",
 *        "native_id":"4711"}   Slurm's job id; absent without Slurm
 *   POST /v1/attempts/:job/:attempt/rows       JSON Lines, metric_rows.h
 *        ?rank=R&offset=O  O: bytes of the spool before this batch
 *        -> 200 {"acked":N}: all bytes of the spool before N are stored
 *   POST /v1/attempts/:job/:attempt/heartbeat  {"iteration":..,"epoch":..,
 *        "iterations_total":..,"epochs_total":..,"loss":..,"t_iter":..,
 *        "eval_loss":..,"eval_accuracy":..,"work":..,"lease_s":..} -> 200 {} or
 *        403 FENCED: the worker must stop
 *        "saving":true  in the middle of a checkpoint; else absent
 *        "tokenised":.41  share of the data, while it is tokenised; else absent
 *        "saves_failed":[".."]  why checkpoints could not be written, the
 *        first 16; absent while there is none
 *        work: changes if the worker has made any progress
 *        lease_s: time since its claim, by the worker's monotonic clock
 *   POST /v1/attempts/:job/:attempt/report     {"exit_code":0,"why":"",
 *        "fault_node":"n2"}   the node whose failed GPU ended it; absent
 *        otherwise; saves_failed: as in a heartbeat
 *
 * Every reply is one JSON object with "schema"; fields are only added, never
 * removed. An invalid query string is refused, never ignored.
 * Times are RFC 3339 UTC, durations seconds, sizes bytes, unknown is null.
 *   mgpu.error/1  {"error":{"code":"NOTFOUND","message":".."}}
 *   JOB = {"id","name","user","uid","kind","state","reason","priority",
 *     "gpus_min","gpus_max","gpus","attempt","exit_code","submitted",
 *     "started","ended","elapsed_s","limit_s","left_s","place","native_id",
 *     "position","start_estimate","start_forecast","start_in_s","iteration",
 *     "iterations_total","epoch","epochs_total","loss","t_iter_s","eta_s","eval_loss",
 *     "eval_accuracy","cancel_asked",
 *     "held_by","display_id","sweep","task","vary","account","partition",
 *     "labels","begin","tokenised","parent","parent_display_id",
 *     "resumed_from"}
 *     begin: policy.begin, or null
 *     parent, parent_display_id, resumed_from: the job whose checkpoint it goes
 *     on from, null if it is not known, and the directory
 *     elapsed_s, left_s: by the wall clock, never negative: 0 if that was set
 * to before the start, or past the limit, which uses the monotonic clock
 *     start_forecast: for one of the first 64 pending jobs without a
 *     start_estimate, because others are before it; start_in_s: seconds to
 *     either of them
 *     held_by: if it is HELD: "user", "admin", "dependency",
 *              "refused", "corrupt"
 *     display_id: "123_4" for a task of a sweep, else the id as text; vary: the
 *     keys and values of this task, {"train.precision":"fp16"}; "********" for
 *     a variable whose name sounds like a secret
 *     For another user's job, which users other than administrators see only
 *     in queue and watch, iteration to eval_accuracy, vary and labels are null,
 *     and so is a reason that its worker reported. account, partition: its own,
 *     or the default
 *   mgpu.job/1    {"job":JOB + {"spec":{..},"dir"}, "sweep":SWEEP,
 *     "attempts":[{"attempt",
 *     "state","native_id","place","reason","gpus","exit_code","signal",
 *     "intent","claimed","running","ended"}]}; the lines of /v1/watch are
 *     {"schema","job":JOB} alone, and replies to POSTs have no attempts, but
 *     "warnings":[{"code","path","message"}] for the user if there are any,
 *     path a key of the spec
 *     SWEEP = {"id","n_tasks","max_parallel","stop_on_fail","states":{"QUEUED":
 *     3,..}} if it is the first task of a sweep; else null
 *   mgpu.queue/1  {"generated","cluster","policy","slots_total","slots_free",
 *     "running","queued","allocator_state":STATE,"jobs":[JOB]}
 *     STATE = {"name","is_ok","since","why"}: since when and why the allocator
 *     is unavailable
 *   mgpu.why/1    {"job":JOB,"since","for_s","nodes_min","nodes_max",
 *     "reasons":[{"token","text"}],"basis","where":{"partition",..},
 *     "gpus_total","gpus_free","nodes":[as in mgpu.nodes/1 + "is_open"],
 *     "holders":[{"job","user","name","gpus","place","ends"}],
 *     "depends_on":[{"depends_on","job","state","is_met"}],
 *     "allocator_state":STATE,"start_forecast","forecast_basis"}
 *     start_forecast: as in JOB, forecast_basis: its assumptions; or null
 *     since, for_s: of the state; reasons: the decisive one first; basis: of
 *     the start estimate, or null; nodes, gpus: those that it may use, now or,
 *     where is_open is false, later; gpus_total: of those that are up;
 *     holders: the jobs with GPUs there
 *   mgpu.dry_run/1 {"fits":true,"is_sweep","n_tasks","max_parallel","n_tried",
 *     "n_start",
 *     "start":{"gpus","nodes","gpus_per_node","gpu_type","on":["n1"]}|null,
 *     "job":the members of JOB known before a submit, "spec":{..},"alike",
 *     and of mgpu.why/1 all but "since" and "for_s"}
 *     n_tried: number of tasks, the first ones, that were planned with the
 * queue; the others were only checked; n_start: how many of these would start
 * now; start: where the first of them would; job: the first that would be
 *     pending, else the first; alike: a job of the caller's that is as fast on
 *     the same GPUs, or null. A job that never fits, or that a submit would
 *     refuse, is an error as there; fits: false if policy.force_queue keeps
 *     such a job. The tool adds "scaling", that job's mgpu.scaling/1, or null
 *   mgpu.events/1 {"job":12,"events":[{"seq","job","attempt","event","at",
 *     "uid","detail":{..}|null}]}
 *   mgpu.iterations/1, mgpu.epochs/1, mgpu.values/1
 *     {"job":12,"columns":["attempt","rank",..],"rows":[[1,0,..],..]} - the
 *     columns of the view in mgpu-db(5), without "job"
 *   mgpu.curve/1  {"job":12,"of","x","complete","width","n","cursor",
 *     "columns":[..],"rows":[[1,128,255,..],..]} - see Curves in mgpu-ctld(8)
 *   mgpu.nodes/1  {"nodes":[{"name","gpu_type","gpu_bytes","gpus_total",
 *     "gpus_free","is_up","state","why","used","partitions","features",
 *     "reservation","address"}]}
 *     state: "up", "down", "drained", "draining" while jobs are on it; a node
 *     with GPUs of several types has one entry for each, in a row
 *   mgpu.gpus/1   {"cluster","since","until","nodes":[{"name","gpu_type",
 *     "gpus_from","gpus_total","is_up","state"}],"holds":[{"job","display_id",
 *     "name","user","attempt","node","gpus":[0,1],"from","to","computing"}]}
 *     a hold is an attempt on a node; to: null while it has them; computing:
 *     share of the time of its last iterations, 0 to 1; null if unknown, or
 *     another user's
 *   mgpu.usage/1  {"cluster","by","since","until","rows":[{"name","jobs",
 *     "failed","gpu_hours","measured_gpu_hours","busy_gpu_hours",
 *     "mean_wait_s"}]}, the largest first; measured: of attempts that tell how
 *     much of their time they computed, of the caller's jobs; by class also
 *     "job_name", of its newest job
 *   mgpu.status/1 {"version","pid","cluster","allocator","policy","started",
 *     "state_dir","state_db","metrics_db","slots_total","slots_free",
 *     "spools_undrained","jobs":{"QUEUED":3,..},"allocator_state":STATE,
 *     "paused":{"uid","since","why"}|null,
 *     "drained":[{"node","uid","since","why"}],
 *     "reload":{"at","is_ok","why","changed","after_restart"}|null,
 *     "loop":{"callbacks","longest_s","total_s","waited_s","longest_own_s",
 *     "slept_s","longest_slept_s"},
 *     "backup":{"dir","every_s","keep","n","last","next","failures",
 *     "failed_at","why"}|null,
 *     "storage":{"free_bytes","min_free_bytes","is_short"},
 *     "metrics_damage":{"file","is_waiting"}|null,
 *     "lost":[{"file","why","rescued"}],
 *     "kept":{"jobs_since","rows_since","jobs_removed","rows_removed",
 *     "looked","waits_for_clock"}}
 *     spools_undrained: attempts since the daemon's start that ended before
 *     all their rows were stored, because the store failed; loop: time spent in
 *     callbacks of the event loop since then, and the longest; how much of that
 *     they waited for a core, and the longest without it; backup: of
 *     store.backup, failed_at and why: of the last one if it failed; storage:
 * of the state directory; is_short: below store.min_free, no job is accepted;
 *     metrics_damage: file: a damaged metrics.db that was put aside in the
 *     state directory, or null; is_waiting: metrics.db is damaged, and the next
 *     start will put it aside; lost: databases that were removed, replaced or
 *     truncated under the daemon, which stores nothing in them any more;
 *     rescued: the file beside that has their content, or null; kept: since
 *     null: all; removed since the start; looked: when the last pass over all
 *     rows ended; waits_for_clock: the kernel reports that the clock is not
 *     synchronised, so that nothing is removed
 *   mgpu.reload/1 {"reload":as in mgpu.status/1}: keys, separated by ", ", that
 *     took effect now, or will after a restart
 *   mgpu.policy/1 {"policy","summary","file","keys":[{"key","value","default",
 *     "type","range","doc","origin","is_live","line","uid","at","until"}]}
 *     origin: "default", "file" with its line, "set" by uid at
 *   mgpu.plan/1   {"policy","summary","generated","paused","gpus_total",
 *     "gpus_free","n_more","jobs":[{"id","display_id","user","name","state",
 *     "act","priority","position","waited_s","gpus_min","gpus_max","gpus",
 *     "nodes","place","reason","start_estimate","ends","use"}]}
 *     act: "runs", "start", "wait", "out": beyond the policy's window, "held";
 * use: with job=: the use of its user's and account's limits mgpu.fsck/1
 * {"n","findings":[".."]}: how many, and the first hundred mgpu.backup/1
 * {"dir","took_s"} mgpu.drain/1  {"drained":as in mgpu.status/1} mgpu.pause/1
 * {"paused":as in mgpu.status/1} mgpu.admin_log/1
 * {"actions":[{"at","uid","do","detail":{..}|null}]}
 *
 * launch.json, which the allocator passes to each rank and to the program that
 * starts the ranks (0600; has the token):
 *   {"version":1,"cluster":"local","job":12,"attempt":1,"token":"..",
 *    "url":"unix:/..","dir":"/../12/1","job_dir":"/../12","heartbeat_s":10,
 *    "nodes":1,"gpus_per_node":2,"spec":{..}}
 *   for a task of a sweep also "sweep":10,"task":2,"tasks":3
 *  "owner":"32 hexadecimal digits", which its directories are marked with;
 *  absent for a job of an older daemon
 *  "parent":"7_2","from":"/../ckpt", the job whose checkpoint
 *  train.resume_from names, and where its checkpoints are, or the one
 * In <dir> the worker writes spool.<rank> (JSON Lines, metric_rows.h), and the
 * allocator log and exit.
 */
#ifndef MGPU_JOBS_WIRE_WIRE_H
#define MGPU_JOBS_WIRE_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/spec/spec.h"

/* limits.max_spec_bytes bounds a specification's text; its dump, with all
 * escapes, may be longer. */
enum { WIRE_LAUNCH_MAX_BYTES = 1 << 20, WIRE_FROM_CAP = 1024 };
struct wire_launch {
    int32_t attempt, nodes, gpus_per_node;
    uint64_t job;
    uint64_t sweep; /* 0: not of a sweep */
    int32_t task, n_tasks;
    char cluster[64], token[65], url[256];
    char owner[33]; /* the job's id for its directories; "": it has none */
    char user[64];  /* for ${user}; "": it cannot be substituted */
    char dir[512], job_dir[512];
    /* The job that it goes on from, and the directory of its checkpoints, or
     * one of them; "": none, or not known. */
    char parent[40], from[WIRE_FROM_CAP];
    double heartbeat_s;
    struct job_spec spec;
};

/* err  ERR_INVAL not the format above, or the spec in it is not valid */
int wire_launch_parse(const char *text, size_t len, struct wire_launch *ret,
                      struct error *err) MUST_CHECK;
void wire_launch_clear(struct wire_launch *l);
/* How many ranks each node has: one per GPU, or one that has all of them. */
int32_t wire_launch_ranks(const struct wire_launch *l);
/* spec_json is inserted literally. */
int wire_launch_encode(const struct wire_launch *l, const char *spec_json,
                       struct buf *out, struct error *err) MUST_CHECK;

#define WIRE_VIEW "X-Mgpu-View"
#define WIRE_VIEW_OTHERS "others"

/* A batch of a rank's spool has whole lines and at most this many bytes. */
enum { WIRE_ROWS_MAX_BYTES = 1 << 20 };
/* An administrator's reason, with its NUL: for a pause, and for each node. */
enum { WIRE_PAUSE_WHY_CAP = 200, WIRE_DRAIN_WHY_CAP = 64 };

/* "2026-11-21T10:02:11.123Z" from seconds since 1970; "" for NAN. */
enum { WIRE_TIME_CAP = 32 };
void wire_time(double at_s, char ret[WIRE_TIME_CAP]);

/* The daemon's URL for tools: $MGPU_URL, else the personal daemon's
 * "unix:$XDG_RUNTIME_DIR/mgpu/ctld.sock" (without XDG_RUNTIME_DIR:
 * "unix:/tmp/mgpu-<uid>/ctld.sock") when it exists, else
 * "unix:/run/mgpu/ctld.sock". */
int wire_default_url(char *ret, size_t cap, struct error *err) MUST_CHECK;
/* The personal daemon's socket path, for the daemon itself. */
int wire_personal_socket(char *ret, size_t cap, struct error *err) MUST_CHECK;

#endif
