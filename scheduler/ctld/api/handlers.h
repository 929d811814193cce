/* handlers.h - the handler of each route of routes.c; arg is the struct ctld.
 */
#ifndef MGPU_SCHEDULER_CTLD_API_HANDLERS_H
#define MGPU_SCHEDULER_CTLD_API_HANDLERS_H

#include "jobs/http/http_server.h"

void serve_submit(void *arg, struct http_exchange *x);
void serve_job_open_run(void *arg, struct http_exchange *x);
void serve_job_put_values(void *arg, struct http_exchange *x);
void serve_job_finish_run(void *arg, struct http_exchange *x);
void serve_dry_run(void *arg, struct http_exchange *x);
void serve_cancel(void *arg, struct http_exchange *x);
void serve_hold(void *arg, struct http_exchange *x);
void serve_release(void *arg, struct http_exchange *x);
void serve_requeue(void *arg, struct http_exchange *x);
void serve_resize(void *arg, struct http_exchange *x);
void serve_update(void *arg, struct http_exchange *x);
void serve_priority(void *arg, struct http_exchange *x);
void serve_drain(void *arg, struct http_exchange *x);
void serve_pause(void *arg, struct http_exchange *x);
void serve_resume(void *arg, struct http_exchange *x);
void serve_policy(void *arg, struct http_exchange *x);
void serve_policy_set(void *arg, struct http_exchange *x);
void serve_plan(void *arg, struct http_exchange *x);
void serve_backup(void *arg, struct http_exchange *x);
void serve_fsck(void *arg, struct http_exchange *x);
void serve_reload(void *arg, struct http_exchange *x);
void serve_admin_log(void *arg, struct http_exchange *x);
void serve_queue(void *arg, struct http_exchange *x);
void serve_job(void *arg, struct http_exchange *x);
void serve_events(void *arg, struct http_exchange *x);
void serve_iterations(void *arg, struct http_exchange *x);
void serve_epochs(void *arg, struct http_exchange *x);
void serve_values(void *arg, struct http_exchange *x);
void serve_curve(void *arg, struct http_exchange *x);
void serve_profile(void *arg, struct http_exchange *x);
void serve_scaling(void *arg, struct http_exchange *x);
void serve_efficiency(void *arg, struct http_exchange *x);
void serve_logs(void *arg, struct http_exchange *x);
void serve_why(void *arg, struct http_exchange *x);
void serve_watch(void *arg, struct http_exchange *x);
void serve_gpus(void *arg, struct http_exchange *x);
void serve_nodes(void *arg, struct http_exchange *x);
void serve_status(void *arg, struct http_exchange *x);
void serve_metrics(void *arg, struct http_exchange *x);
void serve_livez(void *arg, struct http_exchange *x);
void serve_readyz(void *arg, struct http_exchange *x);
void serve_claim(void *arg, struct http_exchange *x);
void serve_rows(void *arg, struct http_exchange *x);
void serve_heartbeat(void *arg, struct http_exchange *x);
void serve_report(void *arg, struct http_exchange *x);

extern const struct http_route ctld_routes[];

#endif
