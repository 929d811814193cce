/* status.c - the state of the daemon and of the nodes: /v1/status, /v1/nodes,
 * /livez and /readyz. */
#include "scheduler/ctld/api/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/version.h"
#include "scheduler/ctld/api/admin_actions.h"
#include "scheduler/ctld/api/drain_nodes.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/api/reload_config.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/loop/step_request.h"
#include "scheduler/ctld/maintenance/backup_schedule.h"
#include "scheduler/ctld/maintenance/disk_space.h"
#include "scheduler/ctld/maintenance/lost_files.h"
#include "scheduler/ctld/maintenance/metrics_damage.h"
#include "scheduler/ctld/maintenance/metrics_retention.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/free_slots.h"
#include "scheduler/ctld/request/reply.h"

static json_t *count_jobs(const struct ctld *c)
{
    uint64_t n[JOB_STATE_N] = {0};
    json_t *o = json_object();
    engine_count(c->engine, n);
    for (int s = 0; s < JOB_STATE_N; s++)
        (void)json_object_set_new(o, job_state_name((enum job_state)s),
                                  json_integer((json_int_t)n[s]));
    return o;
}

json_t *status_allocator_json(const struct ctld *c)
{
    double since_s = NAN;
    const char *why = engine_unavailable(c->engine, &since_s);
    return json_pack("{s:s, s:b, s:o, s:o}", "name", c->parts.conf->allocator,
                     "is_ok", why == NULL, "since", ctld_time(since_s), "why",
                     ctld_text(why));
}

static json_t *loop_json(const struct ctld *c)
{
    const struct loop_times *t = loop_times(c->loop);
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "callbacks",
                     (json_int_t)t->n, "longest_s", t->longest_s, "total_s",
                     t->sum_s, "waited_s", t->waited_s, "longest_own_s",
                     t->longest_own_s, "slept_s", t->slept_s, "longest_slept_s",
                     t->longest_slept_s);
}

void serve_status(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    const struct ctld_conf *conf = c->parts.conf;
    int64_t total = 0, n_free = 0;
    char state_db[640], metrics_db[640];
    if (!ctld_admit(c, x))
        return;
    free_slots_count(c, &total, &n_free);
    (void)snprintf(state_db, sizeof(state_db), "%s/state.db", conf->state_dir);
    (void)snprintf(metrics_db, sizeof(metrics_db), "%s/metrics.db",
                   conf->state_dir);
    ctld_reply(
        x, 200,
        json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, "
                  "s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
                  "s:o, s:o, s:o, s:o}",
                  "schema", "mgpu.status/1", "version", MGPU_VERSION, "pid",
                  (int)getpid(), "cluster", conf->cluster, "allocator",
                  conf->allocator, "policy", engine_policy_name(c->engine),
                  "started", ctld_time(c->started_wall_s), "state_dir",
                  ctld_text(conf->state_dir), "state_db", ctld_text(state_db),
                  "metrics_db", ctld_text(metrics_db), "socket",
                  ctld_text(conf->socket), "slots_total", (json_int_t)total,
                  "slots_free", (json_int_t)n_free, "spools_undrained",
                  (json_int_t)c->stats.spools_undrained, "jobs", count_jobs(c),
                  "reload", reload_config_json(c), "paused",
                  admin_actions_pause_json(c), "drained", drain_nodes_json(c),
                  "allocator_state", status_allocator_json(c), "loop",
                  loop_json(c), "backup", backup_schedule_json(c), "storage",
                  disk_space_json(c), "metrics_damage", metrics_damage_json(c),
                  "lost", lost_files_json(c), "kept", metrics_retention_json(c),
                  "partition", ctld_text(conf->where.partition), "account",
                  ctld_text(conf->where.account)));
}

/* A node with GPUs of several types has one entry per type, in a row: true if
 * any of them is in use. */
static bool is_used(const struct alloc_node *nodes, size_t n, size_t i)
{
    const char *name = nodes[i].name;
    while (i > 0 && strcmp(nodes[i - 1].name, name) == 0)
        i--;
    for (; i < n && strcmp(nodes[i].name, name) == 0; i++)
        if (nodes[i].is_busy || nodes[i].used[0])
            return true;
    return false;
}

const char *status_node_state(const struct alloc_node *nodes, size_t n,
                              size_t i)
{
    return nodes[i].is_up         ? "up"
           : !nodes[i].is_drained ? "down"
           : is_used(nodes, n, i) ? "draining"
                                  : "drained";
}

json_t *status_node_json(const struct alloc_node *nodes, size_t n, size_t i)
{
    const struct alloc_node *node = &nodes[i];
    return json_pack(
        "{s:o, s:o, s:o, s:i, s:i, s:i, s:b, s:s, s:o, s:o, s:o, s:o, s:o, "
        "s:o}",
        "name", ctld_text(node->name), "gpu_type", ctld_text(node->gpu_type),
        "gpu_bytes",
        node->gpu_bytes > 0 ? json_integer(node->gpu_bytes) : json_null(),
        "gpus_total", node->gpus_total, "gpus_free", node->gpus_free,
        "gpus_drained", node->gpus_drained, "is_up", node->is_up, "state",
        status_node_state(nodes, n, i), "why", ctld_text(node->why), "used",
        ctld_text(node->used), "partitions", ctld_text(node->partitions),
        "features", ctld_text(node->features), "reservation",
        ctld_text(node->reservation), "address", ctld_text(node->address));
}

void serve_nodes(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    size_t n = 0;
    if (!ctld_admit(c, x))
        return;
    const struct alloc_node *nodes = engine_nodes(c->engine, &n);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(list, status_node_json(nodes, n, i));
    ctld_reply(
        x, 200,
        json_pack("{s:s, s:o}", "schema", "mgpu.nodes/1", "nodes", list));
}

void serve_livez(void *arg, struct http_exchange *x)
{
    (void)arg;
    http_reply_text(x, 200, "text/plain", "ok\n", 3);
}

void serve_readyz(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    static const char no[] = "the store does not take events\n";
    static const char full[] = "ok, but no job is accepted: store.min_free\n";
    static const char lost[] =
        "ok, but metrics.db was damaged: see mgpu-admin status\n";
    static const char gone[] = "state.db was lost: see mgpu-admin status\n";
    static const char rows_gone[] =
        "ok, but metrics.db was lost: see mgpu-admin status\n";
    bool is_damaged = metrics_damage_look(c);
    if (lost_files_is(c, STORE_STATE, NULL))
        http_reply_text(x, 503, "text/plain", gone, sizeof(gone) - 1);
    else if (step_request_has_failed(c) || c->stopping)
        http_reply_text(x, 503, "text/plain", no, sizeof(no) - 1);
    else if (disk_space_is_short(c))
        http_reply_text(x, 200, "text/plain", full, sizeof(full) - 1);
    else if (lost_files_is(c, STORE_METRICS, NULL))
        http_reply_text(x, 200, "text/plain", rows_gone, sizeof(rows_gone) - 1);
    else if (is_damaged)
        http_reply_text(x, 200, "text/plain", lost, sizeof(lost) - 1);
    else
        http_reply_text(x, 200, "text/plain", "ok\n", 3);
}
