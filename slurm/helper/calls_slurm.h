/* calls_slurm.h - functions shared by the files that call libslurm.
 *
 * libslurm's structures change with every release: compat_slurm.h has the
 * differences, and the program has to be rebuilt for another release. */
#ifndef MGPU_SLURM_HELPER_CALLS_SLURM_H
#define MGPU_SLURM_HELPER_CALLS_SLURM_H

#include "jobs/base/buf.h"
#include "jobs/base/name_lookup.h"
#include "slurm/helper/compat_slurm.h"
#include "slurm/helper/helper.h"

/* Translates Slurm's error number to our code, with Slurm's text.
 *
 * out  ret_is_sure  NULL is fine; true: slurmctld refused, or was never
 *      reached, so a request that changes something has changed nothing */
int rpc_call_fail(int errnum, const char *what, bool *ret_is_sure,
                  struct error *err);

struct rpc_scan {
    const struct helper_conf *conf;
    job_info_msg_t *jobs;
    node_info_msg_t *nodes;
    partition_info_msg_t *parts;
    reserve_info_msg_t *resvs;
    struct names *names;
    struct buf last;       /* the "nodes" line that was sent */
    struct buf last_parts; /* likewise the "partition" lines */
    struct buf last_quotas;
    int enforced; /* slurm_conf_t.accounting_storage_enforce; 0: no accounts */
    bool has_enforced;
    double conf_again_s, quotas_again_s; /* earliest times to ask again */
    struct buf mine;                     /* struct helper_job[] */
    bool is_unsaid; /* a job of ours is pending without a known reason */
};

/* Slurm's word for a job's state; "COMPLETING" before a final one while
 * resources are not free. */
const char *rpc_scan_state_word(uint32_t job_state);
/* As much of Slurm's text as fits; "" for NULL. */
void rpc_scan_copy(char *ret, size_t cap, const char *text);

/* Appends a "nodes" line if it differs from the last one. */
int rpc_nodes_scan(struct rpc_scan *s, struct buf *news,
                   struct error *err) MUST_CHECK;
/* Appends a line for each partition if one differs from the last time. */
int rpc_partitions_scan(struct rpc_scan *s, struct buf *news,
                        struct error *err) MUST_CHECK;
/* Appends a line for each limit and reservation, likewise. */
int rpc_quotas_scan(struct rpc_scan *s, struct buf *news,
                    struct error *err) MUST_CHECK;
/* The longest time limit that one of these partitions takes, in minutes; 0: any
 * limit, or Slurm does not answer. */
uint32_t rpc_partition_minutes(const char *names);
/* The shortest limit, in minutes, that one of them gives a job that names none;
 * MaxTime where there is no DefaultTime. 0: none, or Slurm does not answer.
 * out  ret_is_default  it is a DefaultTime: no MaxWall makes it shorter */
uint32_t rpc_partition_default(const char *names, bool *ret_is_default);
/* Remembers each MaxWall. */
int rpc_partition_walls_read(const assoc_mgr_info_msg_t *m,
                             struct error *err) MUST_CHECK;
/* The shortest that may be a job's and is no shorter than `least`, in minutes;
 * 0: none is known. It is that of the user's association, of the QOS that the
 * job names, or of the QOS of a partition, as of the last call for partitions.
 * A job that names no QOS may get any. */
uint32_t rpc_partition_wall(uid_t uid, const struct alloc_where *where,
                            double least);
/* Whether a user's job may use these partitions, "a,b"; NULL: the default one.
 * err  ERR_DENIED; others as for any call: nothing was submitted */
int rpc_partitions_check(const char *names, struct error *err) MUST_CHECK;
/* Extracts job and attempt from a tag of our cluster; false: it is not one. */
bool rpc_scan_tag(const struct helper_conf *c, const char *comment,
                  unsigned long long *ret_job, unsigned *ret_attempt);

#endif
