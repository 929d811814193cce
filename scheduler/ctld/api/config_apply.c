/* config_apply.c - put a configuration in force: at the start, and after
 * mgpu.yaml was read again or a key of the policy was set. */
#include "scheduler/ctld/api/config_apply.h"

#include "jobs/base/log.h"
#include "scheduler/ctld/api/drain_nodes.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/ingest/teach_speed.h"
#include "scheduler/ctld/loop/step_request.h"
#include "scheduler/ctld/maintenance/backup_schedule.h"
#include "scheduler/ctld/maintenance/metrics_retention.h"
#include "scheduler/ctld/usage/gpu_hours_limit.h"

void config_apply_engine(struct ctld *c)
{
    const struct ctld_conf *conf = c->parts.conf;
    size_t n_drained = 0;
    const struct engine_drained *drained = drain_nodes_of_engine(c, &n_drained);
    c->engine_conf = (struct engine_conf){
        .cluster = conf->cluster,
        .jobs_dir = c->jobs_dir,
        .user_jobs_dir = conf->user_jobs_dir,
        .worker = conf->worker,
        .url = c->url,
        .heartbeat_s = conf->heartbeat_s,
        .node_lost_s = conf->node_lost_s,
        .run_lost_s = conf->run_lost_s,
        .stall_factor = conf->stall_factor,
        .stall_min_s = conf->stall_min_s,
        .reconcile_s = conf->reconcile_s,
        .kill_grace_s = conf->kill_grace_s,
        .max_jobs_per_user = conf->max_jobs_per_user,
        .max_ended = conf->max_ended,
        .limits = conf->limits,
        .preempt = conf->preempt,
        .goodput = conf->goodput,
        .fair_share = conf->fair_share,
        .admins = conf->admins,
        .n_admins = conf->n_admins,
        .serves_one = !conf->serves_all,
        .where = conf->where,
        .memory_per_gpu_bytes = conf->memory_per_gpu_bytes,
        .gpu_memory = conf->gpu_memory,
        .submit_ahead = conf->submit_ahead,
        .resize_patience_s = conf->resize_patience_s,
        .limit_margin_s = conf->limit_margin_s,
        .drained = drained,
        .n_drained = n_drained,
    };
}

void config_apply_fresh(struct ctld *c, const struct ctld_fresh *f)
{
    struct ctld_conf *conf = &c->conf;
    struct error err = ERROR_INIT;
    c->parts.reloaded(c->parts.reload_arg);
    c->parts.source = f->source;
    if (engine_set_policy(c->engine, f->policy, &err) < 0)
        log_err("ctld", "policy why=\"%s\"", err.msg);
    conf->admins = f->conf.admins;
    conf->n_admins = f->conf.n_admins;
    conf->heartbeat_s = f->conf.heartbeat_s;
    conf->node_lost_s = f->conf.node_lost_s;
    conf->run_lost_s = f->conf.run_lost_s;
    conf->stall_factor = f->conf.stall_factor;
    conf->stall_min_s = f->conf.stall_min_s;
    conf->interval_s = f->conf.interval_s;
    conf->max_jobs_per_user = f->conf.max_jobs_per_user;
    conf->max_ended = f->conf.max_ended;
    conf->limits = f->conf.limits;
    conf->preempt = f->conf.preempt;
    conf->goodput = f->conf.goodput;
    conf->fair_share = f->conf.fair_share;
    conf->gpu_hours = f->conf.gpu_hours;
    conf->rpc_rate = f->conf.rpc_rate;
    conf->rpc_burst = f->conf.rpc_burst;
    conf->max_clients_per_uid = f->conf.max_clients_per_uid;
    if (c->http)
        http_server_set_per_uid(c->http, conf->max_clients_per_uid);
    conf->max_sweep = f->conf.max_sweep;
    conf->max_spec_bytes = f->conf.max_spec_bytes;
    conf->max_log_bytes = f->conf.max_log_bytes;
    conf->metrics_labels = f->conf.metrics_labels;
    conf->notify_program = f->conf.notify_program;
    conf->jobs_retention_s = f->conf.jobs_retention_s;
    conf->metrics_retention_s = f->conf.metrics_retention_s;
    conf->min_free_bytes = f->conf.min_free_bytes;
    conf->backup_dir = f->conf.backup_dir;
    conf->backup_every_s = f->conf.backup_every_s;
    conf->backup_keep = f->conf.backup_keep;
    conf->where = f->conf.where;
    conf->memory_per_gpu_bytes = f->conf.memory_per_gpu_bytes;
    conf->gpu_memory = f->conf.gpu_memory;
    config_apply_engine(c);
    if (teach_policy(c, &err) < 0)
        log_warn("metrics", "cannot read the speeds of earlier jobs why=\"%s\"",
                 err.msg);
    backup_schedule_restart(c);
    metrics_retention_restart(c);
    gpu_hours_limit_restart(c);
    log_set_level(f->level);
    log_set_format(f->format);
    ctld_step_want(c);
}
