/* routes.c - the routes of wire.h.
 *
 * Every handler begins with ctld_admit() or ctld_admit_worker() (auth.c).
 */
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/usage/usage_report.h"

#define ATTEMPT "/v1/attempts/:job/:attempt/"

const struct http_route ctld_routes[] = {
    {"POST", "/v1/jobs", serve_submit},
    {"POST", "/v1/dry-run", serve_dry_run},
    {"POST", "/v1/runs", serve_job_open_run},
    {"POST", "/v1/jobs/:id/values", serve_job_put_values},
    {"POST", "/v1/jobs/:id/finish", serve_job_finish_run},
    {"GET", "/v1/jobs", serve_queue},
    {"GET", "/v1/jobs/:id", serve_job},
    {"POST", "/v1/jobs/:id/cancel", serve_cancel},
    {"POST", "/v1/jobs/:id/hold", serve_hold},
    {"POST", "/v1/jobs/:id/release", serve_release},
    {"POST", "/v1/jobs/:id/requeue", serve_requeue},
    {"POST", "/v1/jobs/:id/resize", serve_resize},
    {"POST", "/v1/jobs/:id/update", serve_update},
    {"POST", "/v1/jobs/:id/priority", serve_priority},
    {"GET", "/v1/jobs/:id/events", serve_events},
    {"GET", "/v1/jobs/:id/iterations", serve_iterations},
    {"GET", "/v1/jobs/:id/epochs", serve_epochs},
    {"GET", "/v1/jobs/:id/values", serve_values},
    {"GET", "/v1/jobs/:id/curve", serve_curve},
    {"GET", "/v1/jobs/:id/profile", serve_profile},
    {"GET", "/v1/jobs/:id/scaling", serve_scaling},
    {"GET", "/v1/jobs/:id/efficiency", serve_efficiency},
    {"GET", "/v1/jobs/:id/logs", serve_logs},
    {"GET", "/v1/jobs/:id/why", serve_why},
    {"GET", "/v1/watch", serve_watch},
    {"GET", "/v1/nodes", serve_nodes},
    {"GET", "/v1/gpus", serve_gpus},
    {"GET", "/v1/usage", serve_usage},
    {"GET", "/v1/status", serve_status},
    {"POST", "/v1/admin/pause", serve_pause},
    {"POST", "/v1/admin/drain", serve_drain},
    {"POST", "/v1/admin/resume", serve_resume},
    {"POST", "/v1/admin/reload", serve_reload},
    {"GET", "/v1/policy", serve_policy},
    {"POST", "/v1/admin/policy", serve_policy_set},
    {"GET", "/v1/admin/plan", serve_plan},
    {"POST", "/v1/admin/backup", serve_backup},
    {"POST", "/v1/admin/fsck", serve_fsck},
    {"GET", "/v1/admin/log", serve_admin_log},
    {"POST", ATTEMPT "claim", serve_claim},
    {"POST", ATTEMPT "rows", serve_rows},
    {"POST", ATTEMPT "heartbeat", serve_heartbeat},
    {"POST", ATTEMPT "report", serve_report},
    {"GET", "/metrics", serve_metrics},
    {"GET", "/livez", serve_livez},
    {"GET", "/readyz", serve_readyz},
    {NULL, NULL, NULL},
};
