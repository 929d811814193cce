/* helper.h - internals of mgpu-slurm-helper, the only program that links
 * libslurm.
 *
 * It has three kinds of process, so that each has one reason to fail:
 *
 *   helper.c         the supervisor: one thread, no libslurm; restarts the
 *                    others when they die, exits with the daemon
 *   helper_rpc.c     answers commands: a lobby until Slurm's configuration
 *                    is known to be valid, then a poller and a few workers;
 *                    helper_probe.c, and *_slurm.c for every call of libslurm
 *   files_serve()    reads jobs' files (files.h)
 *
 * A request that touches a user's directory runs in one more process
 * (as_user.h). */
#ifndef MGPU_SLURM_HELPER_HELPER_H
#define MGPU_SLURM_HELPER_HELPER_H

#include <pthread.h>
#include <sys/stat.h>

#include "slurm/helper/known_jobs.h"
#include "slurm/helper/submit_order.h"
#include "slurm/protocol/batch_conf.h"
#include "slurm/protocol/helper_wire.h"

/* The command line: the limits that no line of the daemon can change. */
struct helper_conf {
    const char *cluster;
    const char *slurm_conf; /* absolute */
    double call_timeout_s, poll_s;
    struct alloc_where where; /* defaults for jobs that do not set them */
    int64_t memory_per_gpu;   /* 0: Slurm's default */
    double limit_margin_s;
    enum batch_launcher launcher;
    const char *srun, *mpirun, *mpi;
    const char *batch, *worker; /* absolute */
    bool is_system;             /* acts for every user */
    bool may_root;              /* and for root */
};

/* err  ERR_USAGE; ERR_DENIED --system without being root */
int helper_conf_parse(int argc, char **argv, struct helper_conf *ret,
                      struct error *err) MUST_CHECK;
extern const char helper_usage[];

/* The batch.json for mgpu-batch.
 * in   gpu_type  NULL: any
 * err  ERR_USAGE */
int helper_batch_conf(const struct helper_conf *c, const char *gpu_type,
                      int32_t cpus_per_gpu, struct batch_conf *ret,
                      struct error *err) MUST_CHECK;

/* The process that calls libslurm. One thread writes a line at a time. */
struct helper {
    const struct helper_conf *conf;
    int fd;
    uint64_t generation;
    pthread_mutex_t out_lock;
    struct seen *seen;
    struct submit_order order;
    struct stat conf_stat; /* of slurm.conf, before it was read */

    pthread_mutex_t lock; /* protects the fields below */
    pthread_cond_t wake;  /* the poller: something has probably changed */
    bool is_poked;
    bool is_down;
    int64_t down_since; /* seconds since 1970; 0: it is up */
    struct error down_why;
};

/* Serves until the daemon has exited. Never returns; only the supervisor's
 * messages use the exit status. */
void helper_rpc(const struct helper_conf *conf, int fd, uint64_t generation)
    __attribute__((noreturn));

/* Sends complete lines; exits if the daemon has exited. */
void helper_line_send(struct helper *h, const struct buf *lines);
void helper_line_send_news(struct helper *h, const struct helper_news *n);

/* Slurm does not answer: reports it to the daemon once, until helper_up(). */
void helper_down(struct helper *h, const struct error *why);
void helper_up(struct helper *h); /* no effect if it is up */
/* err ERR_UNAVAIL it is down: err has the reason and the time */
int helper_check_up(struct helper *h, struct error *err) MUST_CHECK;
void helper_poke(struct helper *h); /* wakes the poller for a scan */

/* ---- commands ------------------------------------------------------------ */
/* Input from the daemon that is not a complete line yet. */
struct helper_in {
    struct buf bytes;
    bool is_first; /* it may be the rest of a line that a dead child had
                    * begun to read */
};
/* Reads once; waits at most timeout_ms (-1: no limit). Exits if the daemon has
 * exited. */
void helper_line_read(struct helper *h, struct helper_in *in, int timeout_ms);
/* true: *ret is the next command; the caller clears it. */
bool helper_line_next(struct helper *h, struct helper_in *in,
                      struct helper_cmd *ret);
/* Executes it and sends the reply. */
void helper_do(struct helper *h, const struct helper_cmd *c);

/* Returns when the configuration is valid enough that libslurm does not exit;
 * answers every command until then.
 * out  ret_fd  our copy of the configuration; use its path */
void helper_lobby(struct helper *h, struct helper_in *in, int *ret_fd);
/* Whether slurm.conf has changed since it was read. */
bool helper_has_new_conf(const struct helper *h);
enum { HELPER_CONF_PATH_CAP = 32 };
void helper_conf_path(int fd, char ret[static HELPER_CONF_PATH_CAP]);

/* ---- with libslurm ------------------------------------------------------- */
void rpc_call_version_text(char *ret, size_t cap);
/* Reads the configuration and loads the plug-ins: may exit(1), with a message
 * on standard error. Later calls use the time-out of conf. */
void rpc_call_start(const char *conf);
/* In a process of its own: rpc_call_start() and one call of Slurm. Returns the
 * exit status; the last line on standard error has the error. */
int rpc_call_try(const char *conf);
enum {
    RPC_TRY_UNAVAIL = 75
}; /* Slurm does not answer, but the
    * configuration is valid */

/* in   req    with defaults filled in; `name` .. of its owner
 *      mark   of the submission, for the batch step (attempt_dir.h)
 * out  ret_id
 *      is_sure  on failure: Slurm certainly did not accept it */
struct rpc_owner {
    uid_t uid;
    gid_t gid;
    const char *name, *home, *shell;
};
int rpc_submit(const struct helper_conf *conf, const struct alloc_req *req,
               const char *mark, const struct rpc_owner *owner,
               uint32_t *ret_id, bool *is_sure, struct error *err) MUST_CHECK;
/* signo 0: ends the job; others go to the ranks. Under mpirun the ranks are not
 * a step, so mgpu-batch receives the signal and forwards what it can
 * (batch.c). */
int rpc_signal(const struct helper_conf *conf, uint32_t slurm_id,
               const char *tag, uid_t uid, int signo, bool is_cancel,
               bool *is_sure, struct error *err) MUST_CHECK;

/* Gives the job another time limit, in req->limit_s. out ret_min as Slurm has
 * it now; 0: none */
int rpc_limit(const struct helper_conf *conf, uint32_t slurm_id,
              const struct alloc_req *req, int32_t *ret_min, bool *is_sure,
              struct error *err) MUST_CHECK;

/* Queries accounting for a job that slurmctld has forgotten: the owner's job
 * with this working directory; slurm_id 0: unknown. Waits for slurmdbd until it
 * refuses, or for the time-out of a call.
 *
 * out  ret  job.state "": accounting has no end of it; slurm_id, exit_code,
 *           signal, job.reason, has_accounting, booted
 * err  as for other calls: accounting, or slurmctld, does not answer */
int rpc_accounting_recall(const struct alloc_req *req, uint32_t slurm_id,
                          struct helper_news *ret,
                          struct error *err) MUST_CHECK;

/* The state of the poller's scans. */
struct rpc_scan;
int rpc_scan_create(const struct helper_conf *conf, struct rpc_scan **ret,
                    struct error *err) MUST_CHECK;
/* Appends changes to news: jobs, then "scan", then "nodes". */
int rpc_scan_once(struct rpc_scan *s, struct seen *seen, struct buf *news,
                  struct error *err) MUST_CHECK;

#endif
