/* helper.h - the inside of mgpu-slurm-helper, the only program with libslurm.
 *
 * Three kinds of process, so that each has one reason to fail:
 *
 *   helper.c         the supervisor: one thread, no libslurm; starts the
 *                    others again when they die, ends with the daemon
 *   helper_rpc.c     answers commands: a lobby until Slurm's configuration
 *                    is known to be sane, then a poller and a few workers;
 *                    helper_probe.c, and *_slurm.c for every call of libslurm
 *   files_serve()    reads jobs' files (files.h)
 *
 * and, per request, as_user.h: what is done in a user's directory.
 */
#ifndef MGPU_SLURM_HELPER_HELPER_H
#define MGPU_SLURM_HELPER_HELPER_H

#include <pthread.h>
#include <sys/stat.h>

#include "slurm/helper/known_jobs.h"
#include "slurm/protocol/batch_conf.h"
#include "slurm/protocol/helper_wire.h"

/* The command line: what no line of the daemon can change. */
struct helper_conf {
    const char *cluster;
    const char *slurm_conf; /* absolute */
    double call_timeout_s, poll_s;
    struct alloc_where where; /* for jobs that do not say */
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

/* What mgpu-batch is told; the same for every rank.
 * in   gpu_type  NULL: any
 * err  ERR_USAGE */
int helper_batch_conf(const struct helper_conf *c, int32_t nodes,
                      int32_t gpus_per_node, const char *gpu_type,
                      int32_t cpus_per_gpu, int64_t log_max_bytes,
                      struct batch_conf *ret, struct error *err) MUST_CHECK;

/* The process that calls libslurm. One thread writes a line at a time. */
struct helper {
    const struct helper_conf *conf;
    int fd;
    uint64_t generation;
    pthread_mutex_t out_lock;
    struct seen *seen;
    struct stat conf_stat; /* of slurm.conf, before it was read */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;  /* the poller: something has probably changed */
    bool is_poked;
    bool is_down;
    int64_t down_since; /* seconds since 1970; 0: it was never down */
    struct error down_why;
};

/* Serves until the daemon is gone. Never returns; the exit status is for the
 * supervisor's words only. */
void helper_rpc(const struct helper_conf *conf, int fd, uint64_t generation)
    __attribute__((noreturn));

/* Sends lines that are complete; exits when the daemon has gone. */
void helper_send(struct helper *h, const struct buf *lines);
void helper_send_news(struct helper *h, const struct helper_news *n);

/* Slurm does not answer: tells the daemon once, until helper_up(). */
void helper_down(struct helper *h, const struct error *why);
void helper_up(struct helper *h); /* nothing if it was not down */
/* err ERR_UNAVAIL it is down: who says so and since when */
int helper_check_up(struct helper *h, struct error *err) MUST_CHECK;
void helper_poke(struct helper *h); /* look again soon */

/* ---- commands ------------------------------------------------------------ */
/* What came from the daemon and is not yet a whole line. */
struct helper_in {
    struct buf bytes;
    bool is_first; /* may be the tail of a line that a dead child had read */
};
/* Reads once; waits at most timeout_ms (-1: for ever). Exits when the daemon
 * has gone. */
void helper_read(struct helper *h, struct helper_in *in, int timeout_ms);
/* true: *ret is the next command; the caller clears it. */
bool helper_next(struct helper *h, struct helper_in *in,
                 struct helper_cmd *ret);
/* Does it and sends the reply. */
void helper_do(struct helper *h, const struct helper_cmd *c);

/* Returns when the configuration is good enough for libslurm not to end the
 * process; answers every command until then.
 * out  ret_fd  our copy of the configuration, to be named by its path */
void helper_lobby(struct helper *h, struct helper_in *in, int *ret_fd);
/* Whether the administrator has changed it since. */
bool helper_has_new_conf(const struct helper *h);
enum { HELPER_CONF_PATH_CAP = 32 };
void helper_conf_path(int fd, char ret[static HELPER_CONF_PATH_CAP]);

/* ---- with libslurm ------------------------------------------------------- */
void rpc_version_text(char *ret, size_t cap);
/* Reads the configuration and loads the plugins: may exit(1), with a word on
 * standard error. Calls that are given a time-out keep it from here on. */
void rpc_start(const char *conf);
/* In a process of its own: as rpc_start(), which calls Slurm once. Returns
 * the exit status; what is wrong is the last line on standard error. */
int rpc_try(const char *conf);
enum { RPC_TRY_UNAVAIL = 75 }; /* no more than that it does not answer */

/* in   req    with defaults filled in; `name` .. of its owner
 *      mark   of the submission, for the batch step (attempt_dir.h)
 * out  ret_id
 *      is_sure  on failure: it was certainly not accepted */
struct rpc_owner {
    uid_t uid;
    gid_t gid;
    const char *name, *home, *shell;
};
int rpc_submit(const struct helper_conf *conf, const struct alloc_req *req,
               const char *mark, const struct rpc_owner *owner,
               uint32_t *ret_id, bool *is_sure, struct error *err) MUST_CHECK;
/* signo 0: ends the job; others go to the ranks. Under mpirun, whose ranks
 * are no step, mgpu-batch is told and passes on what it can (batch.c). */
int rpc_signal(const struct helper_conf *conf, uint32_t slurm_id,
               const char *tag, uid_t uid, int signo, bool *is_sure,
               struct error *err) MUST_CHECK;

/* What accounting says of a job that slurmctld knows no more: of the owner's
 * with this working directory; slurm_id 0: not known. Waits for slurmdbd as
 * long as it takes to be refused, or for the time-out of a call.
 *
 * out  ret  job.state "" it says nothing; slurm_id, exit_code, signal,
 *           job.reason, has_accounting, booted
 * err  as for other calls: accounting, or slurmctld, does not answer */
int rpc_recall(const struct alloc_req *req, uint32_t slurm_id,
               struct helper_news *ret, struct error *err) MUST_CHECK;

/* The poller: one look at everything. */
struct rpc_scan;
int rpc_scan_create(const struct helper_conf *conf, struct rpc_scan **ret,
                    struct error *err) MUST_CHECK;
/* Appends what has changed to news: jobs, then "scan", then "nodes". */
int rpc_scan_once(struct rpc_scan *s, struct seen *seen, struct buf *news,
                  struct error *err) MUST_CHECK;

#endif
