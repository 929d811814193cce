/* walls_slurm.c - the MaxWall of QOSes and associations, for a job that names
 * no time limit.
 *
 * Where a partition has no DefaultTime, Slurm gives such a job the shortest of
 * the partition's MaxTime and these. The thread that looks at Slurm reads them;
 * a thread that submits asks. What PrivateData hides is not known. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <slurm/slurmdb.h>

#include "slurm/helper/calls_slurm.h"

struct wall {
    uint32_t minutes;
    bool is_qos;
    uid_t uid;     /* of an association */
    char name[64]; /* of a QOS */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buf known; /* struct wall[], the last ones read */

static bool is_limit(uint32_t minutes)
{
    return minutes > 0 && minutes != INFINITE && minutes != NO_VAL;
}

static int add_qoses(list_t *all, struct buf *walls, struct error *err)
{
    list_itr_t *at = slurm_list_iterator_create(all);
    const slurmdb_qos_rec_t *q;
    int rc = 0;
    while (rc == 0 && (q = slurm_list_next(at))) {
        struct wall w = {.minutes = q->max_wall_pj, .is_qos = true};
        (void)snprintf(w.name, sizeof(w.name), "%.63s", q->name ? q->name : "");
        if (is_limit(w.minutes))
            rc = buf_add(walls, &w, sizeof(w), err);
    }
    slurm_list_iterator_destroy(at);
    return rc;
}

/* That of the account is in the user's, too: Slurm hands it down. */
static int add_assocs(list_t *all, struct buf *walls, struct error *err)
{
    list_itr_t *at = slurm_list_iterator_create(all);
    const slurmdb_assoc_rec_t *a;
    int rc = 0;
    while (rc == 0 && (a = slurm_list_next(at))) {
        struct wall w = {.minutes = a->max_wall_pj, .uid = a->uid};
        if (a->user && is_limit(w.minutes))
            rc = buf_add(walls, &w, sizeof(w), err);
    }
    slurm_list_iterator_destroy(at);
    return rc;
}

int rpc_walls_read(const assoc_mgr_info_msg_t *m, struct error *err)
{
    struct buf walls = BUF_INIT;
    int rc = m->qos_list ? add_qoses(m->qos_list, &walls, err) : 0;
    if (rc == 0 && m->assoc_list)
        rc = add_assocs(m->assoc_list, &walls, err);
    if (rc == 0) {
        (void)pthread_mutex_lock(&lock);
        struct buf old = known;
        known = walls;
        walls = old;
        (void)pthread_mutex_unlock(&lock);
    }
    buf_clear(&walls);
    return rc;
}

uint32_t rpc_walls_minutes(uid_t uid, const char *qos)
{
    uint32_t least = 0;
    (void)pthread_mutex_lock(&lock);
    const struct wall *all = (const struct wall *)(const void *)known.data;
    for (size_t i = 0; i < known.len / sizeof(*all); i++) {
        bool is_its = all[i].is_qos
                          ? !qos || strncmp(all[i].name, qos,
                                            sizeof(all[i].name) - 1) == 0
                          : all[i].uid == uid;
        if (is_its && (least == 0 || all[i].minutes < least))
            least = all[i].minutes;
    }
    (void)pthread_mutex_unlock(&lock);
    return least;
}
