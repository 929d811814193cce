/* partitions_slurm.c - what partitions take, for the daemon, and which time
 * limit a job gets that names none; and refuse those that are reserved for
 * root.
 *
 * In system mode the helper submits as root, so RootOnly would not stop it;
 * this check enforces RootOnly for the users. (AllowGroups, AllowAccounts and
 * the rest apply to the job's owner, and Slurm enforces them.) */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <slurm/slurmdb.h>

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
    return rpc_call_fail(errno, "partitions", NULL, err);
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

int rpc_partitions_check(const char *names, struct error *err)
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

uint32_t rpc_partition_minutes(const char *names)
{
    uint32_t most = 0;
    bool is_any = false;
    (void)pthread_mutex_lock(&lock);
    is_any = refresh(NULL) < 0;
    for (uint32_t i = 0; !is_any && i < known->record_count; i++) {
        const partition_info_t *p = &known->partition_array[i];
        if (!is_meant(p, names))
            continue;
        is_any = p->max_time == INFINITE || p->max_time == NO_VAL;
        most = p->max_time > most ? p->max_time : most;
    }
    (void)pthread_mutex_unlock(&lock);
    return is_any ? 0 : most;
}

uint32_t rpc_partition_default(const char *names, bool *ret_is_default)
{
    uint32_t least = 0;
    bool is_default = false;
    (void)pthread_mutex_lock(&lock);
    bool is_known = refresh(NULL) == 0;
    for (uint32_t i = 0; is_known && i < known->record_count; i++) {
        const partition_info_t *p = &known->partition_array[i];
        bool has = p->default_time != NO_VAL;
        uint32_t minutes = has ? p->default_time : p->max_time;
        if (!is_meant(p, names) || minutes == INFINITE || minutes == NO_VAL)
            continue;
        if (least == 0 || minutes < least) {
            least = minutes;
            is_default = has;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    *ret_is_default = is_default;
    return least;
}

/* ---- MaxWall of QOSes and associations ------------------------------------
 *
 * Where a partition has no DefaultTime, Slurm gives a job that names no limit
 * the shortest of the partition's MaxTime and these. A job that names a longer
 * one never starts. The thread that looks at
 * Slurm reads them; a thread that submits asks. What PrivateData hides is not
 * known. */
struct wall {
    uint32_t minutes;
    bool is_qos;
    uid_t uid;     /* of an association */
    char name[64]; /* of a QOS */
};

static pthread_mutex_t walls_lock = PTHREAD_MUTEX_INITIALIZER;
static struct buf known_walls; /* struct wall[], the last ones read */

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

int rpc_partition_walls_read(const assoc_mgr_info_msg_t *m, struct error *err)
{
    struct buf walls = BUF_INIT;
    int rc = m->qos_list ? add_qoses(m->qos_list, &walls, err) : 0;
    if (rc == 0 && m->assoc_list)
        rc = add_assocs(m->assoc_list, &walls, err);
    if (rc == 0) {
        (void)pthread_mutex_lock(&walls_lock);
        struct buf old = known_walls;
        known_walls = walls;
        walls = old;
        (void)pthread_mutex_unlock(&walls_lock);
    }
    buf_clear(&walls);
    return rc;
}

static bool is_named(const struct wall *w, const char *qos)
{
    return qos && strncmp(w->name, qos, sizeof(w->name) - 1) == 0;
}

/* Whether it is the QOS of one of these partitions. */
static bool is_partitions(const struct wall *w, const char *names)
{
    bool is = false;
    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; known && !is && i < known->record_count; i++) {
        const partition_info_t *p = &known->partition_array[i];
        is = is_named(w, p->qos_char) && is_meant(p, names);
    }
    (void)pthread_mutex_unlock(&lock);
    return is;
}

uint32_t rpc_partition_wall(uid_t uid, const struct alloc_where *where,
                            double least)
{
    uint32_t ret = 0;
    (void)pthread_mutex_lock(&walls_lock);
    const struct wall *all =
        (const struct wall *)(const void *)known_walls.data;
    for (size_t i = 0; i < known_walls.len / sizeof(*all); i++) {
        const struct wall *w = &all[i];
        bool is_its = w->is_qos ? !where->qos || is_named(w, where->qos) ||
                                      is_partitions(w, where->partition)
                                : w->uid == uid;
        if (is_its && w->minutes >= least && (ret == 0 || w->minutes < ret))
            ret = w->minutes;
    }
    (void)pthread_mutex_unlock(&walls_lock);
    return ret;
}

/* ---- news for the daemon --------------------------------------------------
 */
static int32_t limit_of(uint32_t n)
{
    return n == INFINITE || n == NO_VAL || n > INT32_MAX ? 0 : (int32_t)n;
}

/* A list that does not fit is no rule: Slurm will enforce it. */
static void copy_list(char *ret, size_t cap, const char *list)
{
    bool fits = list && strlen(list) < cap && strcmp(list, "ALL") != 0;
    (void)snprintf(ret, cap, "%s", fits ? list : "");
}

static struct helper_news describe(const partition_info_t *p)
{
    struct helper_news n = {.ev = HELPER_PARTITION};
    struct alloc_partition *to = &n.partition;
    (void)snprintf(to->name, sizeof(to->name), "%s", p->name ? p->name : "?");
    to->is_default = p->flags & PART_FLAG_DEFAULT;
    to->max_minutes = limit_of(p->max_time);
    to->max_nodes = limit_of(p->max_nodes);
    /* As Slurm does without a DefaultTime. */
    to->default_minutes =
        limit_of(p->default_time == NO_VAL ? p->max_time : p->default_time);
    copy_list(to->allow_accounts, sizeof(to->allow_accounts),
              p->allow_accounts);
    /* Slurm looks at a deny list only without an allow list. */
    if (!to->allow_accounts[0])
        copy_list(to->deny_accounts, sizeof(to->deny_accounts),
                  p->deny_accounts);
    copy_list(to->allow_qos, sizeof(to->allow_qos), p->allow_qos);
    if (!to->allow_qos[0])
        copy_list(to->deny_qos, sizeof(to->deny_qos), p->deny_qos);
    return n;
}

int rpc_partitions_scan(struct rpc_scan *s, struct buf *news, struct error *err)
{
    const partition_info_msg_t *m = s->parts;
    struct buf lines = BUF_INIT;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < m->record_count; i++) {
        struct helper_news n = describe(&m->partition_array[i]);
        n.index = (int32_t)i;
        n.count = (int32_t)m->record_count;
        rc = helper_news_encode(&n, &lines, err);
    }
    bool is_new =
        lines.len != s->last_parts.len ||
        memcmp(buf_str(&lines), buf_str(&s->last_parts), lines.len) != 0;
    if (rc == 0 && is_new)
        rc = buf_add(news, buf_str(&lines), lines.len, err);
    if (rc == 0 && is_new) {
        struct buf old = s->last_parts;
        s->last_parts = lines;
        lines = old;
    }
    buf_clear(&lines);
    return rc;
}
