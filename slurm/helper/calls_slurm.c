/* calls_slurm.c - initialize libslurm, and translate its errors. */
#include "slurm/helper/calls_slurm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rpc_call_version_text(char *ret, size_t cap)
{
    long v = SLURM_VERSION_NUMBER;
    (void)snprintf(ret, cap, "%02ld.%02ld.%ld", SLURM_VERSION_MAJOR(v),
                   SLURM_VERSION_MINOR(v), SLURM_VERSION_MICRO(v));
}

/* Loads the plug-ins: libslurm does that lazily, and not thread-safely. */
static int call_once(void)
{
    node_info_msg_t *m = NULL;
    if (slurm_load_node(0, &m, SHOW_ALL | SHOW_DETAIL) != SLURM_SUCCESS)
        return errno;
    slurm_free_node_info_msg(m);
    return 0;
}

void rpc_call_start(const char *conf)
{
    slurm_init(conf);
    (void)call_once();
}

int rpc_call_try(const char *conf)
{
    struct error err;
    slurm_init(conf);
    int rc = call_once();
    if (rc == 0)
        return 0;
    (void)rpc_call_fail(rc, NULL, NULL, &err);
    (void)fprintf(stderr, "%s\n", err.msg);
    return RPC_TRY_UNAVAIL;
}

/* Permanent refusals: a retry of the same request would fail again. */
static enum err_code code_of_refusal(int errnum)
{
    switch (errnum) {
    case ESLURM_ACCESS_DENIED:
    case ESLURM_JOB_MISSING_REQUIRED_PARTITION_GROUP:
    case ESLURM_USER_ID_MISSING:
    case ESLURM_RESERVATION_ACCESS:
    case ESLURM_RESERVATION_USER_GROUP:
    case ESLURM_PARTITION_ASSOC:
    case ESLURM_GROUP_ID_MISSING:
        return ERR_DENIED;
    /* Temporary: a full queue, a limit of a user or an account, a partition or
     * a reservation that is not ready. */
    case EAGAIN: /* MaxJobCount */
    case ESLURM_NODES_BUSY:
    case ESLURM_IN_STANDBY_MODE:
    case ESLURM_IN_STANDBY_USE_BACKUP:
    case ESLURM_RESERVATION_BUSY:
    case ESLURM_RESERVATION_NOT_USABLE:
    case ESLURM_NODE_NOT_AVAIL:
    case ESLURM_PARTITION_NOT_AVAIL:
    case ESLURM_PARTITION_DOWN:
    case ESLURM_SUBMISSIONS_DISABLED:
    case ESLURM_REBOOT_IN_PROGRESS:
    case ESLURM_INTERNAL:
    case ESLURM_WRITING_TO_FILE:
    case ESLURM_ERROR_ON_DESC_TO_RECORD_COPY:
        return ERR_BUSY;
    case ESLURM_ACCOUNTING_POLICY:
    case ESLURM_QOS_THRES:
        return ERR_LIMIT;
    case ESLURM_INVALID_JOB_ID:
    case ESLURM_ALREADY_DONE:
        return ERR_NOTFOUND;
    case ESLURM_TRANSITION_STATE_NO_UPDATE:
    case ESLURM_JOB_PENDING:
    case ESLURM_JOB_NOT_RUNNING:
    case ESLURM_JOB_NOT_PENDING_NOR_RUNNING:
        return ERR_STATE;
    default:
        return ERR_INVAL;
    }
}

/* Tells a refused user what to do. */
static const char *hint(int errnum)
{
    switch (errnum) {
    case ESLURM_INVALID_ACCOUNT:
    case ESLURM_INVALID_QOS:
        return "; see sacctmgr show assoc user=$USER";
    case ESLURM_USER_ID_MISSING:
    case ESLURM_JOB_MISSING_REQUIRED_PARTITION_GROUP:
    case ESLURM_PARTITION_ASSOC:
    case ESLURM_INVALID_PARTITION_NAME:
        return "; who may use which: scontrol show partition";
    default:
        return "";
    }
}

int rpc_call_fail(int errnum, const char *what, bool *ret_is_sure,
                  struct error *err)
{
    /* an answer of slurmctld itself */
    bool is_answer = errnum == EAGAIN || (errnum >= 2000 && errnum < 3000) ||
                     (errnum >= 8000 && errnum < 9000);
    bool is_unsent = errnum == SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR ||
                     errnum == SLURM_COMMUNICATIONS_CONNECTION_ERROR;
    bool is_late = errnum == SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT;
    if (ret_is_sure)
        *ret_is_sure = is_answer || is_unsent;
    return error_set(err,
                     is_answer ? code_of_refusal(errnum)
                     : is_late ? ERR_TIMEOUT
                               : ERR_UNAVAIL,
                     "%s%sSlurm: %s (%d)%s", what ? what : "", what ? ": " : "",
                     errnum == EAGAIN ? "its queue is full (MaxJobCount)"
                                      : slurm_strerror(errnum),
                     errnum, hint(errnum));
}
