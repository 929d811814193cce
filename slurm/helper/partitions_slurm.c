/* partitions_slurm.c - refuse partitions that are reserved for root.
 *
 * In system mode the helper submits as root, so RootOnly would not stop it;
 * this check enforces RootOnly for the users. (AllowGroups, AllowAccounts and
 * the rest apply to the job's owner, and Slurm enforces them.) */
#include <pthread.h>
#include <string.h>

#include "slurm/helper/calls_slurm.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static partition_info_msg_t *known; /* the last one loaded */

/* Refreshes it: one message from slurmctld if nothing has changed. */
static int refresh(struct error *err)
{
    partition_info_msg_t *m = NULL;
    if (slurm_load_partitions(known ? known->last_update : 0, &m, SHOW_ALL) ==
        SLURM_SUCCESS) {
        slurm_free_partition_info_msg(known);
        known = m;
        return 0;
    }
    if (known && errno == SLURM_NO_CHANGE_IN_DATA)
        return 0;
    return rpc_fail(errno, "partitions", NULL, err);
}

/* in  names  "a,b"; NULL: the default partition */
static bool is_meant(const partition_info_t *p, const char *names)
{
    if (names == NULL)
        return p->flags & PART_FLAG_DEFAULT;
    size_t n = strlen(p->name ? p->name : "");
    for (const char *at = names; n > 0 && *at; at += strcspn(at, ",")) {
        at += *at == ',';
        if (strncmp(at, p->name, n) == 0 && (at[n] == ',' || !at[n]))
            return true;
    }
    return false;
}

int rpc_check_partitions(const char *names, struct error *err)
{
    (void)pthread_mutex_lock(&lock);
    int rc = refresh(err);
    for (uint32_t i = 0; rc == 0 && i < known->record_count; i++) {
        const partition_info_t *p = &known->partition_array[i];
        if ((p->flags & PART_FLAG_ROOT_ONLY) && is_meant(p, names))
            rc = error_set(err, ERR_DENIED,
                           "Slurm: partition '%s' is only for root (RootOnly)",
                           p->name);
    }
    (void)pthread_mutex_unlock(&lock);
    return rc;
}
