/* compat_slurm.h - what differs between the releases of libslurm.
 *
 * libslurm promises no stable interface: a new major release renames types and
 * functions and moves fields. Every difference that concerns this program is in
 * this file, with the release that made it, and the other files use the name
 * that this file gives. SLURM_VERSION_NUMBER of the header decides, so the
 * program fits the libslurm of the release that it was compiled against.
 *
 * Compiled and linked with 22.05.8 and 24.11.5. The branches for 25.05 and
 * later releases are compiled against their headers only.
 *
 * Errors need no branch. Up to 24.05 slurm_get_errno() returns errno, and 24.11
 * removes it: this program reads errno.
 */
#ifndef MGPU_SLURM_HELPER_COMPAT_SLURM_H
#define MGPU_SLURM_HELPER_COMPAT_SLURM_H

#include <errno.h>
#include <stdint.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

/* 23.02 adds list_t and list_itr_t; 24.05 removes ListIterator, and 24.11 List.
 * The tags of the structures are the same in all releases. */
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(23, 2, 0)
typedef struct xlist list_t;
typedef struct listIterator list_itr_t;
#endif

/* What slurm_hostlist_create() returns. Up to 23.02 hostlist_t is a pointer;
 * 23.11 makes it the structure. */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
typedef hostlist_t *rpc_hostlist;
#else
typedef hostlist_t rpc_hostlist;
#endif

/* libslurm exports the name of a reason, but no header of it declares that.
 * 24.05 renames the function and makes its result const. */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 5, 0)
extern const char *slurm_job_state_reason_string(enum job_state_reason inx);

static inline const char *rpc_reason_name(enum job_state_reason reason)
{
    return slurm_job_state_reason_string(reason);
}
#else
extern char *slurm_job_reason_string(enum job_state_reason inx);

static inline const char *rpc_reason_name(enum job_state_reason reason)
{
    return slurm_job_reason_string(reason);
}
#endif

/* The CPUs and the memory, in MB, of a node that jobs have. 25.05 makes them
 * fields of the node and removes the function. */
static inline void rpc_node_taken(const node_info_t *n, uint16_t *ret_cpus,
                                  uint64_t *ret_mb)
{
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0)
    *ret_cpus = n->alloc_cpus;
    *ret_mb = n->alloc_memory;
#else
    uint16_t cpus = 0;
    uint64_t mb = 0; /* slurm.h says uint32_t; what is written is 64 bits */
    (void)slurm_get_select_nodeinfo(n->select_nodeinfo, SELECT_NODEDATA_SUBCNT,
                                    NODE_STATE_ALLOCATED, &cpus);
    (void)slurm_get_select_nodeinfo(n->select_nodeinfo,
                                    SELECT_NODEDATA_MEM_ALLOC,
                                    NODE_STATE_ALLOCATED, &mb);
    *ret_cpus = cpus;
    *ret_mb = mb;
#endif
}

/* 25.11 moves the id of a submitted job into step_id. */
static inline uint32_t rpc_submitted_id(const submit_response_msg_t *r)
{
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
    return r->step_id.job_id;
#else
    return r->job_id;
#endif
}

/* 26.05 names a job by a slurm_step_id_t where earlier releases take a number,
 * and renames slurm_free_ctl_conf(). */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
static inline slurm_step_id_t rpc_job_id(uint32_t id)
{
    slurm_step_id_t s = SLURM_STEP_ID_INITIALIZER;
    s.job_id = id;
    return s;
}

static inline void rpc_free_conf(slurm_conf_t *conf)
{
    slurm_free_conf(conf);
}
#else
static inline uint32_t rpc_job_id(uint32_t id)
{
    return id;
}

static inline void rpc_free_conf(slurm_conf_t *conf)
{
    slurm_free_ctl_conf(conf);
}
#endif

#endif
