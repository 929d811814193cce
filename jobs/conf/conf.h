/* conf.h - what an administrator writes: mgpu.yaml(5).
 *
 * The file is a table in conf.c, read by the same code as a job
 * specification (schema.h, tree.h), with the same findings. Keys that this
 * version does not act on are refused (E018), so a setting is never merely
 * believed in.
 */
#ifndef MGPU_JOBS_CONF_CONF_H
#define MGPU_JOBS_CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"
#include "jobs/base/log.h"
#include "jobs/conf/conf_goodput.h"
#include "jobs/spec/spec.h"

enum conf_allocator { ALLOCATOR_AUTO, ALLOCATOR_LOCAL, ALLOCATOR_SLURM };
enum conf_remote { AUTH_NONE, AUTH_MUNGE };
enum conf_workers { WORKERS_FROM_NODES, WORKERS_FROM_ANY };
enum conf_submit { SUBMIT_AS_USER };
enum conf_launcher { LAUNCHER_SRUN, LAUNCHER_MPIRUN };

/* auto: standard error, or ctld.log in the background */
enum conf_log_target {
    LOG_TO_AUTO,
    LOG_TO_STDERR,
    LOG_TO_FILE,
    LOG_TO_JOURNAL
};

enum { CONF_AUTO = -1 }; /* of local.gpus and local.cpu_slots */

struct conf {
    int32_t version;
    char cluster[SPEC_NAME_CAP];
    struct {
        char *state_dir;    /* NULL: the daemon decides */
        char *socket;       /* NULL: the daemon decides */
        char *socket_group; /* who may connect; NULL: everybody */
        int32_t max_clients;
        char *listen; /* "HOST:PORT", "[::1]:PORT"; NULL: no TCP */
        char *url;    /* what workers are told; NULL: this host's name and
                         the port of listen */
        char *metrics_listen; /* as listen, for /metrics alone; NULL: none */
        struct spec_list metrics_labels; /* partition, gpu_type, account */
        /* Of mgpu-web --cluster: "HOST:PORT" or "unix:PATH", NULL: none; a
         * file; names of hosts; the group of the socket, NULL: none */
        char *web_listen, *web_token_file;
        struct spec_list web_hosts;
        char *web_group;
        char *jobs_dir; /* "%u": the submitter's name; NULL: in state_dir */
        char *user;     /* whom a daemon that root started becomes; NULL */
    } controller;
    struct {
        enum conf_remote remote;
        char *munge_socket;      /* NULL: libmunge's own */
        struct spec_list admins; /* names of users */
        enum conf_workers workers_from;
    } auth;
    enum conf_allocator allocator;
    struct {
        int32_t gpus;      /* CONF_AUTO: those that are there; 0: none */
        int32_t cpu_slots; /* CONF_AUTO: one per core */
        bool bind;         /* a CPU slot has cores of its own */
        char *mpirun;      /* a path, or a name for $PATH */
    } local;
    struct {
        char *conf; /* slurm.conf; NULL: where libslurm looks */
        /* What a job that says nothing asks for; NULL, 0: Slurm decides. */
        char *partition, *account, *qos, *constraint, *reservation, *gpu_type;
        bool exclusive;
        int32_t cpus_per_gpu;
        int64_t memory_per_gpu_bytes;
        struct spec_map gpu_memory; /* of a type, "h100" to "80G" */
        enum conf_submit submit_as;
        enum conf_launcher launcher;
        char *srun, *mpirun; /* a path, or a name for $PATH, on the nodes */
        char *mpi;           /* srun --mpi= */
        double poll_interval_s, call_timeout_s, reconcile_after_s;
        double limit_margin_s; /* Slurm's time limit is this much later */
        int32_t submit_ahead;  /* of jobs that do not fit now */
        double resize_patience_s;
    } slurm;
    struct {
        char policy[SPEC_NAME_CAP]; /* "fifo", "backfill" */
        double interval_s;
        struct {
            bool enabled;
            double grace_s, min_runtime_s;
        } preempt;
        struct conf_goodput goodput;
        struct conf_fair_share fair_share;
    } scheduler;
    struct {
        int32_t max_jobs_per_user;
        int32_t max_ended_jobs; /* 0: no limit */
        int32_t max_sweep;
        /* 0: no limit */
        int32_t max_gpus_per_user, max_gpus_per_account;
        int32_t max_running_per_user, max_running_per_account;
        struct spec_map gpu_hours; /* of a user or an account; gpu_hours.h */
        int64_t max_spec_bytes, max_log_bytes;
        int32_t rpc_rate; /* 0: the daemon's default */
        int32_t rpc_burst;
        int32_t max_clients_per_user; /* 0: the daemon's default */
    } limits;
    struct {
        double metrics_retention_s; /* 0: for good */
        double jobs_retention_s;    /* 0: for good */
        int64_t min_free_bytes;     /* 0: no limit */
        struct {
            char *dir; /* NULL: none are taken but those asked for */
            double every_s;
            int32_t keep;
        } backup;
    } store;
    struct {
        double heartbeat_s, node_lost_after_s, run_lost_after_s;
        double stall_factor, stall_min_s; /* factor 0: never */
    } watchdog;
    struct {
        struct spec_list program; /* argv; empty: nobody is told */
    } notify;
    struct {
        enum log_level level;
        enum log_format format;
        enum conf_log_target target;
    } log;
    /* What it was read from, and where each row of the table comes from. */
    struct {
        char *text, *file; /* NULL: the built-in values alone */
        size_t len;
        int32_t *lines; /* by row; CONF_BUILT_IN, CONF_SET, or from 1 */
    } from;
};

/* Where a value comes from, if it is no line of the file. */
enum { CONF_BUILT_IN = 0, CONF_SET = -1 };

/* The built-in values. ret is cleared with conf_clear(). */
int conf_default(struct conf *ret, struct error *err) MUST_CHECK;
void conf_clear(struct conf *c); /* NULL and zeroed are fine */

/* Parses and validates text; all findings in one run.
 *
 * in   file    for relative paths; NULL: paths must be absolute
 * out  ret     set only when there is no error: all or nothing
 *      report  always set; diagnostics_clear()
 * err  ERR_CONFIG there are errors: "3 errors"; ERR_NOMEM
 */
int conf_parse(const char *text, size_t len, const char *file, struct conf *ret,
               struct spec_report *report, struct error *err) MUST_CHECK;

/* The same from a file; findings are appended to `text_out` as a person
 * reads them, warnings too.
 * err  ERR_CONFIG there are errors; ERR_NOTFOUND, ERR_DENIED, ERR_IO the
 *      file; ERR_LIMIT over 1 MiB */
int conf_load(const char *path, struct conf *ret, struct buf *text_out,
              struct error *err) MUST_CHECK;

/* What base was read from, once more, with these on top of it as
 * --set key=value; the file itself is not looked at.
 *
 * out  ret  as conf_parse(); text_out has all findings, as conf_load()
 * err  as conf_parse() */
int conf_with(const struct conf *base, const struct spec_set *sets, size_t n,
              struct conf *ret, struct buf *text_out,
              struct error *err) MUST_CHECK;
/* conf_load() with these on top. */
int conf_load_with(const char *path, const struct spec_set *sets, size_t n,
                   struct conf *ret, struct buf *text_out,
                   struct error *err) MUST_CHECK;

/* The effective values as YAML, each with "live" or "restart": whether a
 * running daemon takes a change up, or a new one is needed. */
int conf_print(const struct conf *c, struct buf *out,
               struct error *err) MUST_CHECK;

/* Calls each() for every key whose value differs, in the table's order. */
void conf_changes(const struct conf *a, const struct conf *b,
                  void (*each)(void *arg, const char *path, bool live),
                  void *arg);

/* Where the file has a key's value; of a list's, `item`, unless that is NULL.
 * Of a key that it does not have, the section that it would be in. False: the
 * file has neither.
 * out  ret_line, ret_column  from 1 */
bool conf_place(const struct conf *c, const char *path, const char *item,
                int32_t *ret_line, int32_t *ret_column);

/* What mgpu-admin policy(8) makes of a key: it shows what decides which job
 * gets what and when, and sets of these what is live. */
enum conf_key {
    CONF_UNKNOWN,
    CONF_OTHER, /* a section, too */
    CONF_POLICY_AT_START,
    CONF_POLICY,
};
enum conf_key conf_key_of(const char *path);

/* One key, and what it is. */
struct conf_value {
    const char *path, *type, *def, *range, *doc;
    const char *value; /* as a file would have it */
    int32_t line;      /* of the file; CONF_BUILT_IN or CONF_SET */
    enum conf_key key;
};
/* Calls each() for every key in the table's order; texts are good for the
 * call. */
int conf_each_value(const struct conf *c,
                    void (*each)(void *arg, const struct conf_value *v),
                    void *arg, struct error *err) MUST_CHECK;

/* One row per key; as spec_each_key(), with `live`. `def` is "" without a
 * default. */
void conf_each_key(void (*each)(void *arg, const char *path, const char *type,
                                const char *def, const char *range, bool live,
                                const char *doc),
                   void *arg);

#endif
