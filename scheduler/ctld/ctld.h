/* ctld.h - the daemon without its main(): parts in, requests served.
 *
 * main.c composes a store, an allocator and a policy and hands them over;
 * tests hand over the ones in memory. One thread runs everything but the
 * helpers of work_queue.h; docs/ctld.md is the guide to this folder.
 */
#ifndef MGPU_CTLD_CTLD_H
#define MGPU_CTLD_CTLD_H

#include <stdbool.h>
#include <stdint.h>

#include "db/metric_store.h"
#include "jobs/base/clock.h"
#include "jobs/conf/conf.h"
#include "scheduler/engine/engine.h"
#include "slurm/as_user/files.h"

struct ctld_conf { /* borrowed strings outlive the daemon */
    const char *cluster;
    const char *state_dir;     /* absolute; databases, jobs/ */
    const char *user_jobs_dir; /* controller.jobs_dir, or NULL: jobs/ */
    bool makes_dirs;       /* jobs' directories; else the allocator does, as the
                              user whose they are */
    const char *socket;    /* absolute; its directory exists */
    int64_t socket_gid;    /* who may connect, if it serves all; 0: everybody */
    const char *worker;    /* mgpu-worker, absolute */
    const char *allocator; /* as /v1/status names it */
    int64_t uid;           /* whom it serves, besides root */
    bool serves_all;       /* it serves everybody, each with his own jobs */
    bool refuses_root;     /* but runs no jobs of root's */
    const int64_t
        *admins; /* uids [n_admins] who may touch all jobs, besides 0 */
    size_t n_admins;

    /* Workers and tools of other machines. */
    const char *listen;  /* "HOST:PORT" beside the socket; NULL: none */
    bool workers_remote; /* workers run elsewhere: they are told url ... */
    const char *url;     /* NULL: this host's name and the port of listen */
    /* "HOST:PORT" of metrics_listener.c; NULL: none */
    const char *metrics_listen;
    const struct spec_list *metrics_labels; /* group_metrics.c; NULL: none */
    enum conf_workers workers_from;
    enum conf_remote auth_remote; /* of tools over TCP */
    const char *munge_socket;     /* NULL: the one that libmunge knows */

    double heartbeat_s, node_lost_s, run_lost_s, reconcile_s, kill_grace_s;
    double stall_factor, stall_min_s; /* as engine_conf's */
    double interval_s; /* between two steps when nothing happens */
    int32_t max_jobs_per_user;
    int32_t max_clients, max_clients_per_uid, max_clients_per_net;
    int32_t max_ended;           /* engine.h */
    int32_t rpc_rate, rpc_burst; /* requests of one user, per second and at
                                    once; rate 0: any number */
    struct engine_limits limits;
    struct policy_preempt preempt;
    struct policy_goodput goodput;
    const struct conf_fair_share *fair_share; /* NULL: none */
    const struct spec_map *gpu_hours;         /* limits.gpu_hours; NULL: none */
    int32_t max_sweep;        /* jobs of one; 0: no limit of ours */
    int64_t max_spec_bytes;   /* of a spec as it comes */
    int64_t max_log_bytes;    /* that a spec may ask for */
    struct alloc_where where; /* as engine_conf's */
    int64_t memory_per_gpu_bytes;
    const struct spec_map *gpu_memory;
    int32_t submit_ahead;                   /* as engine_conf's */
    double resize_patience_s;               /* likewise */
    double limit_margin_s;                  /* likewise */
    const struct spec_list *notify_program; /* argv; NULL or empty: none */
    double jobs_retention_s;                /* job_retention.c; 0: for good */
    double metrics_retention_s; /* metrics_retention.c; 0: for good */
    int64_t min_free_bytes;     /* disk_space.c; 0: no limit */
    const char *backup_dir;     /* absolute; NULL: backups are asked for */
    double backup_every_s;
    int32_t backup_keep;
};

/* What a configuration that was read again says. */
struct ctld_fresh {
    struct ctld_conf conf; /* of it only what may change; texts live until the
                              reload after the next */
    const struct policy *policy;
    enum log_level level;
    enum log_format format;
    char changed[1024], waiting[1024]; /* keys, ", " between: in effect now, and
                                          after a restart */
    const struct conf *source;         /* lives as its texts do */
};

struct ctld_parts { /* all borrowed, all outlive the daemon */
    const struct clock *clock;
    const struct policy *policy;
    struct alloc *alloc;
    struct store *store;
    struct files *files; /* of jobs */
    pid_t helper; /* a child without which the allocator is of no use: when
                     it ends, so does the daemon; 0: none */
    const struct ctld_conf *conf;
    /* What conf came of, for those who ask; NULL in tests. */
    const struct conf *source;
    /* The configuration with these keys set on top of it: of the file, read
     * again, or of what was last read. NULL: there is none. What is answered
     * is in force when reloaded() is called, which cannot fail; without that
     * nothing is changed.
     * err  ERR_CONFIG with the file and line */
    int (*reload)(void *arg, bool reads_file, const struct spec_set *sets,
                  size_t n, struct ctld_fresh *ret, struct error *err);
    void (*reloaded)(void *arg);
    void *reload_arg;
    /* Opens the log anew, where it is a file of ours; NULL: it never is. */
    int (*reopen_log)(struct error *err);
    /* store_sqlite_backup(), or NULL; called on a thread of its own. */
    int (*backup)(const char *state_dir, const char *dest,
                  const _Atomic bool *stop, struct error *err);
    /* store_sqlite_damage(), or NULL. */
    bool (*damage)(const char *state_dir, struct store_damage *ret);
    /* store_sqlite_check(), or NULL; as backup. */
    int (*check)(const char *state_dir,
                 void (*each)(void *arg, const char *finding), void *arg);
};

struct ctld;

/* Replays the store and listens; requests are answered once it runs.
 * err  as engine_create() and http_server_listen_unix() say */
int ctld_create(const struct ctld_parts *parts, struct ctld **ret,
                struct error *err) MUST_CHECK;
/* Until SIGTERM or SIGINT. Attempts live on.
 * err  ERR_UNAVAIL the helper has ended */
int ctld_run(struct ctld *c, struct error *err) MUST_CHECK;
void ctld_destroy(struct ctld *c);   /* NULL is fine */
int ctld_port(const struct ctld *c); /* of conf.listen; 0: none */

#endif
