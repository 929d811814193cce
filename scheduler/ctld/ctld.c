/* ctld.c - create the daemon from its parts, run it, and stop it in order.
 *
 * To stop takes tens of milliseconds. The daemon accepts no new connections,
 * makes one last step so that all requests are durable and answered, closes
 * the streams, and runs the loop for STOP_S more so that the answers are sent.
 * It leaves the attempts alone; the next daemon finds them.
 */
#include "scheduler/ctld/ctld.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/log.h"
#include "jobs/wire/wire.h"
#include "scheduler/ctld/api/admin_actions.h"
#include "scheduler/ctld/api/config_apply.h"
#include "scheduler/ctld/api/drain_nodes.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/api/held_replies.h"
#include "scheduler/ctld/api/job_submit.h"
#include "scheduler/ctld/api/log_follow.h"
#include "scheduler/ctld/api/metrics_listener.h"
#include "scheduler/ctld/api/policy_settings.h"
#include "scheduler/ctld/api/reload_config.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/curve_data/curve_cache.h"
#include "scheduler/ctld/engine_loop.h"
#include "scheduler/ctld/ingest/attempt_metrics.h"
#include "scheduler/ctld/ingest/metric_ingest.h"
#include "scheduler/ctld/ingest/run_values.h"
#include "scheduler/ctld/ingest/spool_drain.h"
#include "scheduler/ctld/ingest/stragglers.h"
#include "scheduler/ctld/ingest/teach_speed.h"
#include "scheduler/ctld/job_list/job_cursor.h"
#include "scheduler/ctld/job_list/job_watch.h"
#include "scheduler/ctld/job_list/start_estimates.h"
#include "scheduler/ctld/loop/step_request.h"
#include "scheduler/ctld/maintenance/audit_log.h"
#include "scheduler/ctld/maintenance/backup_schedule.h"
#include "scheduler/ctld/maintenance/disk_space.h"
#include "scheduler/ctld/maintenance/job_retention.h"
#include "scheduler/ctld/maintenance/lost_files.h"
#include "scheduler/ctld/maintenance/malloc_trim.h"
#include "scheduler/ctld/maintenance/metrics_damage.h"
#include "scheduler/ctld/maintenance/metrics_retention.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/rate_limit.h"
#include "scheduler/ctld/request/user_names.h"
#include "scheduler/ctld/startup/paths.h"
#include "scheduler/ctld/startup/restored_ids.h"
#include "scheduler/ctld/startup/sd_notify.h"
#include "scheduler/ctld/usage/event_counts.h"
#include "scheduler/ctld/usage/gpu_hours_limit.h"

enum {
    BODY_MAX_BYTES = WIRE_ROWS_MAX_BYTES, /* a spec is at most as long */
    /* Batches of at most 1 MiB each; with more, workers have to retry. */
    WRITER_QUEUE = 64,
    READER_QUEUE = 256,
    LOGS_QUEUE = 1024
};
static const double REQUEST_S = 10, HEADER_S = 2, IDLE_S = 600, STOP_S = 0.1;

/* ---- the engine's events --------------------------------------------------
 */

static void make_job_dir(const struct ctld *c, const struct job *job)
{
    struct error err = ERROR_INIT;
    if (c->parts.conf->makes_dirs && paths_private_dir(job->dir, &err) < 0)
        log_err("ctld", "cannot create a job's directory job=%llu why=\"%s\"",
                (unsigned long long)job->id, err.msg);
}

static void on_wait(void *arg, const struct job *job)
{
    job_watch_changed(arg, job->id);
}

static void on_event(void *arg, const struct store_event *event,
                     const struct job *job)
{
    struct ctld *c = arg;
    event_counts_note(&c->stats, event, job);
    if (job)
        gpu_hours_limit_note(c, event, job);
    if (job && event->ev == EV_SUBMIT)
        teach_submit(c, job);
    if (job && event->ev == EV_INTENT) /* durable, and not yet asked for */
        make_job_dir(c, job);
    if (job && (job_state_is_final(job->state) || event->ev == EV_REQUEUE))
        metric_ingest_forget(c, event->job, event->attempt);
    if (job && (event->ev == EV_SUBMIT || event->ev == EV_INTENT ||
                event->ev == EV_OPEN || job_state_is_final(job->state)))
        log_info("job", "%s job=%llu attempt=%d state=%s reason=\"%s\"",
                 job_event_name(event->ev), (unsigned long long)event->job,
                 event->attempt, job_state_name(job->state), job->reason);
    if (job)
        ctld_event_notice(c, event, job);
    job_watch_saw_event(c, event->job, event->seq);
    job_watch_changed(c, event->job);
}

/* If the daemon died in between, an INTENT is durable without its directory.
 * The first step asks the allocator for that attempt. */
static void make_live_dirs(const struct ctld *c)
{
    for (const struct job *job = engine_next_since(c->engine, 0, INFINITY); job;
         job = engine_next_since(c->engine, job->id, INFINITY))
        if (job_state_is_live(job->state) && !job->is_run)
            make_job_dir(c, job);
}

/* ---- parts ----------------------------------------------------------------
 */

/* When the daemon dies, news that wait are told again by what is replayed. */
static bool may_leave(void *arg, const struct job *job)
{
    struct ctld *c = arg;
    if (job->notify_on != 0 && ctld_event_notice_counts(c).waiting > 0)
        return false;
    job_watch_leaves(c, job->id);
    return true;
}

/* Logs each job that is set apart as damaged, and the number of events without
 * a job. */
static void log_corrupt(const struct engine *e)
{
    size_t n_stray, n = engine_corrupt(e, &n_stray);
    if (n == 0 && n_stray == 0)
        return;
    log_err("ctld", "events are damaged jobs=%zu stray=%zu, see --fsck", n,
            n_stray);
    for (const struct job *j = engine_next_since(e, 0, INFINITY); j;
         j = engine_next_since(e, j->id, INFINITY))
        if (j->held_by == HELD_CORRUPT && j->state == JOB_HELD)
            log_err("ctld", "a damaged job is held job=%llu reason=\"%s\"",
                    (unsigned long long)j->id, j->reason);
}

static void on_replayed(void *arg, const struct store_event *event,
                        const struct job *job)
{
    ctld_event_notice_again(arg, event, job);
}

static int make_engine(struct ctld *c, struct error *err)
{
    const struct ctld_conf *conf = c->parts.conf;
    config_apply_engine(c);
    struct engine_parts parts = {
        .clock = c->parts.clock,
        .policy = c->parts.policy,
        .alloc = c->parts.alloc,
        .store = c->parts.store,
        .conf = &c->engine_conf,
        .secret_of = secret_of,
        .secret_arg = &c->secret,
        .replayed = on_replayed,
        .replayed_arg = c,
        .may_leave = may_leave,
        .leave_arg = c,
        .lags = stragglers_describe,
        .lags_arg = c,
    };
    if (secret_load(conf->state_dir, conf->cluster, &c->secret, err) < 0 ||
        ctld_event_notice_init(c, err) < 0 ||
        engine_create(&parts, &c->engine, err) < 0)
        return -1;
    c->first_seq = engine_last_seq(c->engine);
    if (ctld_event_notice_begin(c, err) < 0)
        return -1;
    log_corrupt(c->engine);
    uint64_t first_id;
    if (restored_first_id(conf->state_dir, c->jobs_dir,
                          engine_last_id(c->engine), c->first_seq, &first_id,
                          err) < 0)
        return -1;
    engine_skip_to(c->engine, first_id);
    engine_on_event(c->engine, on_event, c);
    engine_on_wait(c->engine, on_wait, c);
    engine_on_exit(c->engine, spool_drain_on_exit, c);
    make_live_dirs(c);
    run_values_resume(c);
    return 0;
}

/* Sets the URL for workers. It has this host's name: workers are on the same
 * network, and a name stays when the address changes. */
static int make_port(struct ctld *c, struct error *err)
{
    const struct ctld_conf *conf = c->parts.conf;
    char host[HOST_NAME_MAX + 1] = "";
    int n = snprintf(c->url, sizeof(c->url), "unix:%s", conf->socket);
    if (conf->listen) {
        if (http_server_listen_tcp(c->http, conf->listen, &c->port, err) < 0)
            return -1;
        log_notice("ctld", "listens at=\"%s\" port=%d tools=%s", conf->listen,
                   c->port, conf->auth_remote == AUTH_MUNGE ? "munge" : "none");
    }
    if (conf->workers_remote && conf->url)
        n = snprintf(c->url, sizeof(c->url), "%s", conf->url);
    else if (conf->workers_remote && gethostname(host, sizeof(host)) < 0)
        return error_sys(err, errno, "find this machine's name");
    else if (conf->workers_remote)
        n = snprintf(c->url, sizeof(c->url), "http://%s:%d", host, c->port);
    if (n < 0 || (size_t)n >= sizeof(c->url))
        return error_set(err, ERR_CONFIG, "the url for workers is too long");
    return 0;
}

static void on_enter(void *arg)
{
    loop_enter(((struct ctld *)arg)->loop);
}

static void on_leave(void *arg, const char *path)
{
    loop_leave(((struct ctld *)arg)->loop, path);
}

/* Administrators may connect even if all connections are in use. */
static bool is_let_in(void *arg, int64_t uid)
{
    return engine_is_admin(((struct ctld *)arg)->engine, uid);
}

static int make_http(struct ctld *c, struct error *err)
{
    const struct ctld_conf *conf = c->parts.conf;
    struct http_server_conf http = {
        .routes = ctld_routes,
        .arg = c,
        .max_body_bytes = BODY_MAX_BYTES,
        .request_timeout_s = REQUEST_S,
        .header_timeout_s = HEADER_S,
        .idle_timeout_s = IDLE_S,
        .max_clients = conf->max_clients,
        .max_clients_per_uid = conf->max_clients_per_uid,
        .max_clients_per_net = conf->max_clients_per_net,
        .is_let_in = is_let_in,
        .enter = on_enter,
        .leave = on_leave,
    };
    if (http_server_create(loop_base(c->loop), &http, &c->http, err) < 0)
        return -1;
    if (http_server_listen_unix(c->http, conf->socket,
                                !conf->serves_all       ? 0600
                                : conf->socket_gid != 0 ? 0660
                                                        : 0666,
                                conf->socket_gid, err) < 0)
        return -1;
    return make_port(c, err) < 0 ? -1 : metrics_listener_init(c, &http, err);
}

/* ---- signals ---------------------------------------------------------------
 */

/* The last step is over. */
static void on_engine_stopped(void *arg)
{
    struct ctld *c = arg;
    job_watch_end(c);
    log_follow_end(c);
    loop_timer_set(c->stop_timer, STOP_S);
}

static void on_stop(void *arg)
{
    loop_stop(((struct ctld *)arg)->loop);
}

static void stop(struct ctld *c)
{
    if (c->stopping)
        return;
    notify_say("STOPPING=1");
    c->stopping = true;
    atomic_store(&c->closing, true);
    http_server_close(c->http);
    if (c->scrape)
        http_server_close(c->scrape);
    engine_loop_stop(c);
}

static void on_term(void *arg)
{
    struct ctld *c = arg;
    log_notice("ctld", "asked to stop");
    c->fatal = (struct error)
        ERROR_INIT; /* the helper ends, too, and that is no failure */
    stop(c);
}

static void on_hup(void *arg)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    notify_reloading();
    int rc = reload_config_by_signal(c, &err);
    notify_say(rc < 0 ? "READY=1\nSTATUS=reload failed, see the log"
                      : "READY=1\nSTATUS=");
}

/* logrotate(8) moved the log away, for example. */
static void on_usr1(void *arg)
{
    const struct ctld *c = arg;
    struct error err = ERROR_INIT;
    if (c->parts.reopen_log && c->parts.reopen_log(&err) < 0)
        log_err("ctld",
                "cannot reopen the log, it stays in the old file why=\"%s\"",
                err.msg);
    else
        log_notice("ctld", "reopened the log");
}

/* A system daemon has no privileges to start another helper. So it stops, and
 * the service manager starts both again. */
static void look_at_helper(struct ctld *c)
{
    int status = 0;
    pid_t pid = c->parts.helper;
    if (pid <= 0 || waitpid(pid, &status, WNOHANG) != pid)
        return;
    c->parts.helper = 0;
    if (c->stopping)
        return;
    (void)error_set(
        &c->fatal, ERR_UNAVAIL,
        "mgpu-slurm-helper has %s %d, and nothing works without "
        "it; jobs go on, start the daemon again",
        WIFSIGNALED(status) ? "died of signal" : "ended with status",
        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    stop(c);
}

static void on_child(void *arg)
{
    look_at_helper(arg);
    ctld_step_want(arg); /* the allocator reaps what is its own */
}

/* The loop notifies the watchdog, so a loop that hangs counts as dead. */
static void on_watchdog(void *arg)
{
    struct ctld *c = arg;
    notify_say("WATCHDOG=1");
    loop_timer_set(c->watchdog, notify_watchdog_s());
}

static int make_signals(struct ctld *c, struct error *err)
{
    struct loop *l = c->loop;
    if (loop_timer_create(l, on_watchdog, c, &c->watchdog, err) < 0)
        return -1;
    if (notify_watchdog_s() > 0)
        loop_timer_set(c->watchdog, notify_watchdog_s());
    if (loop_signal_create(l, SIGTERM, on_term, c, &c->term, err) < 0 ||
        loop_signal_create(l, SIGINT, on_term, c, &c->intr, err) < 0 ||
        loop_signal_create(l, SIGHUP, on_hup, c, &c->hup, err) < 0 ||
        loop_signal_create(l, SIGUSR1, on_usr1, c, &c->usr1, err) < 0 ||
        loop_signal_create(l, SIGCHLD, on_child, c, &c->child, err) < 0)
        return -1;
    return loop_timer_create(l, on_stop, c, &c->stop_timer, err);
}

int ctld_create(const struct ctld_parts *parts, struct ctld **ret,
                struct error *err)
{
    struct ctld *c = calloc(1, sizeof(*c));
    if (!c)
        return error_set(err, ERR_NOMEM, "daemon");
    c->parts = *parts;
    c->conf = *parts->conf; /* parts of it may change */
    c->parts.conf = &c->conf;
    c->started_wall_s = parts->clock->wall_s(parts->clock);
    c->started_s = parts->clock->now_s(parts->clock);
    (void)snprintf(c->jobs_dir, sizeof(c->jobs_dir), "%s/jobs",
                   parts->conf->state_dir);
    if (held_replies_init(c, err) < 0 || drain_nodes_init(c, err) < 0 ||
        reload_config_init(c, err) < 0 || disk_space_init(c, err) < 0 ||
        metrics_damage_init(c, err) < 0 || loop_create(&c->loop, err) < 0 ||
        make_signals(c, err) < 0 || lost_files_init(c, err) < 0 ||
        work_queue_create(c->loop, "writer", WRITER_QUEUE, &c->writer, err) <
            0 ||
        work_queue_create(c->loop, "reader", READER_QUEUE, &c->reader, err) <
            0 ||
        work_queue_create(c->loop, "logs", LOGS_QUEUE, &c->logs, err) < 0 ||
        curve_cache_create(CURVE_CACHE_BYTES, &c->curve_cache, err) < 0 ||
        auth_init(c, err) < 0 || rate_limit_init(c, err) < 0 ||
        user_names_init(c, err) < 0 || job_submit_init(c, err) < 0 ||
        engine_loop_init(c, on_engine_stopped, err) < 0 ||
        metric_ingest_init(c, err) < 0 || job_watch_init(c, err) < 0 ||
        job_cursor_init(c, err) < 0 || log_follow_init(c, err) < 0 ||
        start_estimates_init(c, err) < 0 || make_engine(c, err) < 0 ||
        policy_settings_init(c, err) < 0 || admin_actions_init(c, err) < 0 ||
        policy_settings_start(c, err) < 0 || gpu_hours_limit_init(c, err) < 0 ||
        make_http(c, err) < 0 || backup_schedule_init(c, err) < 0 ||
        job_retention_init(c, err) < 0 || metrics_retention_init(c, err) < 0 ||
        malloc_trim_init(c, err) < 0 || teach_begin(c, err) < 0) {
        ctld_destroy(c);
        return -1;
    }
    (void)metrics_damage_look(c);
    ctld_step_want(c);
    *ret = c;
    return 0;
}

int ctld_port(const struct ctld *c)
{
    return c->port;
}

int ctld_run(struct ctld *c, struct error *err)
{
    look_at_helper(c); /* it may have ended before the loop ran */
    if (loop_run(c->loop, err) < 0)
        return -1;
    return c->fatal.code == ERR_NONE
               ? 0
               : error_set(err, c->fatal.code, "%s", c->fatal.msg);
}

/* In the reverse order; the threads first, because their tasks use all parts.
 */
void ctld_destroy(struct ctld *c)
{
    if (!c)
        return;
    c->stopping = true;
    atomic_store(&c->closing, true);
    job_retention_stop(c);
    work_queue_destroy(c->commits);
    notifier_destroy(c->notices);
    work_queue_destroy(c->logins);
    user_names_clear(c);
    work_queue_destroy(c->backups);
    work_queue_destroy(c->submits);
    work_queue_destroy(c->logs);
    work_queue_destroy(c->reader);
    work_queue_destroy(c->writer);
    curve_cache_destroy(c->curve_cache);
    job_watch_clear(c);
    job_cursor_clear(c);
    start_estimates_clear(c);
    log_follow_clear(c);
    held_replies_clear(c);
    engine_loop_clear(c);
    metric_ingest_clear(c);
    http_server_destroy(c->http);
    http_server_destroy(c->scrape);
    engine_destroy(c->engine);
    admin_actions_clear(c);
    drain_nodes_clear(c);
    reload_config_clear(c);
    loop_source_destroy(c->term);
    loop_source_destroy(c->intr);
    loop_source_destroy(c->hup);
    loop_source_destroy(c->usr1);
    loop_source_destroy(c->child);
    loop_source_destroy(c->stop_timer);
    loop_source_destroy(c->watchdog);
    policy_settings_clear(c);
    backup_schedule_clear(c);
    metrics_retention_clear(c);
    job_retention_clear(c);
    malloc_trim_clear(c);
    gpu_hours_limit_clear(c);
    rate_limit_clear(c);
    auth_clear(c);
    metrics_damage_clear(c);
    lost_files_clear(c);
    disk_space_clear(c);
    loop_destroy(c->loop);
    secret_clear(&c->secret);
    free(c);
}
