/* quotas_slurm.c - what accounts, QOSes and reservations allow, for the daemon.
 *
 * slurmctld knows the limits and the use of each association and QOS. What it
 * hides (PrivateData) is not sent: the daemon learns it from refusals and from
 * the reasons of pending jobs. A limit on typed GPUs, CPUs, nodes or memory is
 * learned in the same way.
 *
 * An association limits the GPUs of all jobs below it, so the tightest on the
 * way to the root counts. Limits of a single job are inherited: the
 * association of the user has them. */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <slurm/slurmdb.h>

#include "jobs/base/clock.h"
#include "slurm/helper/calls_slurm.h"

/* Of slurm_conf_t.accounting_storage_enforce; the values are the same from
 * 22.05 to 24.11, and no header of libslurm has them. */
enum { ENFORCE_ASSOCS = 1, ENFORCE_LIMITS = 2, ENFORCE_SAFE = 16 };

/* The list has no time stamp. A large one is read less often. */
enum { MANY = 2000, ROWS_MAX = 8192 };
static const double CONF_AGAIN_S = 60, MANY_AGAIN_S = 10;

struct reading {
    const assoc_mgr_info_msg_t *m;
    slurmdb_assoc_rec_t **by_id; /* owned; [n] */
    size_t n;
    size_t gpu; /* index of gres/gpu among the TRES; SIZE_MAX: it has none */
    int enforced;
    struct buf rows; /* struct alloc_quota[] */
};

/* ---- numbers --------------------------------------------------------------
 */
/* -1: no limit. */
static int64_t limit_at(const struct reading *r, const uint64_t *limits)
{
    uint64_t n = limits && r->gpu != SIZE_MAX && (r->enforced & ENFORCE_LIMITS)
                     ? limits[r->gpu]
                     : INFINITE64;
    return n == INFINITE64 || n == NO_VAL64 || n > INT64_MAX ? -1 : (int64_t)n;
}

static int32_t count_at(const struct reading *r, const uint64_t *limits)
{
    int64_t n = limit_at(r, limits);
    return n > INT32_MAX ? INT32_MAX : (int32_t)n;
}

static int64_t used_at(const struct reading *r, const uint64_t *used)
{
    return used && r->gpu != SIZE_MAX ? (int64_t)used[r->gpu] : 0;
}

/* The smaller one; below 0 is none. */
static int64_t tighter(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* GPU-minutes that may still be used, or reserved by running jobs. Without
 * "safe" Slurm only refuses a start when all are used. */
static int64_t minutes_left(const struct reading *r, const uint64_t *mins,
                            const uint64_t *run_mins, const long double *raw,
                            const uint64_t *run_secs)
{
    int64_t all = limit_at(r, mins), running = limit_at(r, run_mins);
    int64_t used = raw && r->gpu != SIZE_MAX ? (int64_t)(raw[r->gpu] / 60) : 0;
    int64_t runs = used_at(r, run_secs) / 60, left = -1;
    if (all >= 0 && (r->enforced & ENFORCE_SAFE))
        left = all > used + runs ? all - used - runs : 0;
    else if (all >= 0 && used >= all)
        left = 0;
    if (running >= 0)
        left = tighter(left, running > runs ? running - runs : 0);
    return left;
}

/* ---- associations ---------------------------------------------------------
 */
static int by_id(const void *a, const void *b)
{
    uint32_t x = (*(slurmdb_assoc_rec_t *const *)a)->id;
    uint32_t y = (*(slurmdb_assoc_rec_t *const *)b)->id;
    return (x > y) - (x < y);
}

static const slurmdb_assoc_rec_t *assoc_of(const struct reading *r, uint32_t id)
{
    slurmdb_assoc_rec_t key = {.id = id}, *at = &key;
    slurmdb_assoc_rec_t **found =
        r->n > 0
            ? bsearch(&at, r->by_id, r->n, sizeof(slurmdb_assoc_rec_t *), by_id)
            : NULL;
    return found ? *found : NULL;
}

static void add_group(const struct reading *r, const slurmdb_assoc_rec_t *a,
                      bool is_user, struct alloc_quota *io)
{
    const slurmdb_assoc_usage_t *u = a->usage;
    int32_t most = count_at(r, a->grp_tres_ctld);
    int64_t used = used_at(r, u ? u->grp_used_tres : NULL);
    if (most >= 0 && (io->group_gpus < 0 ||
                      most - used < (int64_t)io->group_gpus - io->group_used)) {
        io->group_gpus = most;
        io->group_used = used > INT32_MAX ? INT32_MAX : (int32_t)used;
        rpc_scan_copy(io->group, sizeof(io->group), a->acct);
        io->group_is_user = is_user;
    }
    io->minutes_left = tighter(
        io->minutes_left,
        minutes_left(r, a->grp_tres_mins_ctld, a->grp_tres_run_mins_ctld,
                     u ? u->usage_tres_raw : NULL,
                     u ? u->grp_used_tres_run_secs : NULL));
}

static const char *qos_name(const struct reading *r, uint32_t id)
{
    list_itr_t *at = slurm_list_iterator_create(r->m->qos_list);
    const slurmdb_qos_rec_t *q;
    const char *name = "";
    while (*name == '\0' && (q = slurm_list_next(at)))
        name = q->id == id && q->name ? q->name : "";
    slurm_list_iterator_destroy(at);
    return name;
}

static struct alloc_quota blank(enum alloc_quota_kind kind, const char *name)
{
    struct alloc_quota q = {.kind = kind, ALLOC_QUOTA_NO_LIMITS};
    rpc_scan_copy(q.name, sizeof(q.name), name);
    return q;
}

static int add_assoc(struct reading *r, const slurmdb_assoc_rec_t *a,
                     struct error *err)
{
    struct alloc_quota q = blank(ALLOC_QUOTA_ACCOUNT, a->acct);
    int depth = 0;
    q.uid = a->uid;
    q.is_default = a->is_def != 0;
    rpc_scan_copy(q.partition, sizeof(q.partition), a->partition);
    rpc_scan_copy(q.qos, sizeof(q.qos), qos_name(r, a->def_qos_id));
    q.job_gpus = count_at(r, a->max_tres_ctld);
    q.job_minutes = limit_at(r, a->max_tres_mins_ctld);
    for (; a && depth < 64; depth++) {
        add_group(r, a, depth == 0, &q);
        a = a->parent_id != a->id ? assoc_of(r, a->parent_id) : NULL;
    }
    return buf_add(&r->rows, &q, sizeof(q), err);
}

static int add_assocs(struct reading *r, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->n; i++)
        if (r->by_id[i]->user && r->by_id[i]->acct)
            rc = add_assoc(r, r->by_id[i], err);
    return rc;
}

/* ---- QOSes ----------------------------------------------------------------
 */
/* What each user, or account, uses of it. */
static int add_uses(struct reading *r, const slurmdb_qos_rec_t *of,
                    list_t *uses, bool is_user, struct error *err)
{
    list_itr_t *at = uses ? slurm_list_iterator_create(uses) : NULL;
    const slurmdb_used_limits_t *u;
    int rc = 0;
    while (rc == 0 && at && (u = slurm_list_next(at))) {
        struct alloc_quota q = blank(
            is_user ? ALLOC_QUOTA_QOS_USER : ALLOC_QUOTA_QOS_ACCOUNT, of->name);
        int64_t used = used_at(r, u->tres);
        if (used == 0)
            continue;
        q.uid = is_user ? u->uid : 0;
        rpc_scan_copy(q.group, sizeof(q.group), is_user ? "" : u->acct);
        q.group_used = used > INT32_MAX ? INT32_MAX : (int32_t)used;
        rc = buf_add(&r->rows, &q, sizeof(q), err);
    }
    if (at)
        slurm_list_iterator_destroy(at);
    return rc;
}

static int add_qos(struct reading *r, const slurmdb_qos_rec_t *of,
                   struct error *err)
{
    struct alloc_quota q = blank(ALLOC_QUOTA_QOS, of->name);
    const slurmdb_qos_usage_t *u = of->usage;
    int64_t used = used_at(r, u ? u->grp_used_tres : NULL);
    q.group_gpus = count_at(r, of->grp_tres_ctld);
    q.group_used = used > INT32_MAX ? INT32_MAX : (int32_t)used;
    q.job_gpus = count_at(r, of->max_tres_pj_ctld);
    q.user_gpus = count_at(r, of->max_tres_pu_ctld);
    q.account_gpus = count_at(r, of->max_tres_pa_ctld);
    q.job_minutes = limit_at(r, of->max_tres_mins_pj_ctld);
    q.minutes_left = minutes_left(
        r, of->grp_tres_mins_ctld, of->grp_tres_run_mins_ctld,
        u ? u->usage_tres_raw : NULL, u ? u->grp_used_tres_run_secs : NULL);
    int rc = buf_add(&r->rows, &q, sizeof(q), err);
    if (rc == 0 && u && q.user_gpus >= 0)
        rc = add_uses(r, of, u->user_limit_list, true, err);
    if (rc == 0 && u && q.account_gpus >= 0)
        rc = add_uses(r, of, u->acct_limit_list, false, err);
    return rc;
}

static int add_qoses(struct reading *r, struct error *err)
{
    list_itr_t *at = slurm_list_iterator_create(r->m->qos_list);
    const slurmdb_qos_rec_t *q;
    int rc = 0;
    while (rc == 0 && (q = slurm_list_next(at)))
        rc = q->name ? add_qos(r, q, err) : 0;
    slurm_list_iterator_destroy(at);
    return rc;
}

/* ---- reservations ---------------------------------------------------------
 */
static int add_resvs(const struct rpc_scan *s, struct buf *rows,
                     struct error *err)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && s->resvs && i < s->resvs->record_count;
         i++) {
        const reserve_info_t *of = &s->resvs->reservation_array[i];
        struct alloc_quota q = blank(ALLOC_QUOTA_RESERVATION, of->name);
        q.starts = of->start_time > 0 ? of->start_time : 0;
        q.ends = of->end_time > 0 ? of->end_time : 0;
        rc = buf_add(rows, &q, sizeof(q), err);
    }
    return rc;
}

/* ---- reading --------------------------------------------------------------
 */
/* What slurmctld enforces, asked once a minute: it changes with slurm.conf. */
static void ask_conf(struct rpc_scan *s)
{
    slurm_conf_t *conf = NULL;
    double now_s = clock_real.now_s(&clock_real);
    if (s->has_enforced && now_s < s->conf_again_s)
        return;
    if (slurm_load_ctl_conf(0, &conf) != SLURM_SUCCESS)
        return;
    const char *type = conf->accounting_storage_type;
    s->enforced = type && strstr(type, "slurmdbd")
                      ? (int)conf->accounting_storage_enforce
                      : 0;
    s->has_enforced = true;
    s->conf_again_s = now_s + CONF_AGAIN_S;
    rpc_free_conf(conf);
}

static int index_assocs(struct reading *r, struct error *err)
{
    list_itr_t *at = slurm_list_iterator_create(r->m->assoc_list);
    slurmdb_assoc_rec_t *a;
    size_t cap = 0;
    while (slurm_list_next(at))
        cap++;
    slurm_list_iterator_reset(at);
    r->by_id = calloc(cap + 1, sizeof(slurmdb_assoc_rec_t *));
    while (r->by_id && r->n < cap && (a = slurm_list_next(at)))
        r->by_id[r->n++] = a;
    slurm_list_iterator_destroy(at);
    if (!r->by_id)
        return error_set(err, ERR_NOMEM, "%zu associations", cap);
    qsort(r->by_id, r->n, sizeof(slurmdb_assoc_rec_t *), by_id);
    return 0;
}

/* An ordinary user needs no more than its own. */
static int load(assoc_mgr_info_msg_t **ret)
{
    char room[16384];
    struct passwd pw, *me = NULL;
    assoc_mgr_info_request_msg_t req = {.flags = ASSOC_MGR_INFO_FLAG_ASSOC |
                                                 ASSOC_MGR_INFO_FLAG_QOS};
    if (geteuid() != 0 &&
        getpwuid_r(geteuid(), &pw, room, sizeof(room), &me) == 0 && me) {
        req.user_list = slurm_list_create(NULL);
        (void)slurm_list_append(req.user_list, me->pw_name);
    }
    int rc = slurm_load_assoc_mgr_info(&req, ret);
    if (req.user_list)
        slurm_list_destroy(req.user_list);
    return rc;
}

static int read_all(struct rpc_scan *s, struct buf *rows, struct error *err)
{
    assoc_mgr_info_msg_t *m = NULL;
    struct reading r = {.gpu = SIZE_MAX, .enforced = s->enforced};
    if (load(&m) != SLURM_SUCCESS || !m)
        return 0; /* not told: what it allows is learned from its answers */
    r.m = m;
    r.rows = *rows;
    for (uint32_t i = 0; i < m->tres_cnt && r.gpu == SIZE_MAX; i++)
        if (m->tres_names[i] && strcmp(m->tres_names[i], "gres/gpu") == 0)
            r.gpu = i;
    int rc = 0;
    if (m->assoc_list && m->qos_list)
        rc = index_assocs(&r, err);
    s->quotas_again_s =
        r.n > MANY ? clock_real.now_s(&clock_real) + MANY_AGAIN_S : 0;
    if (rc == 0)
        rc = add_assocs(&r, err);
    if (rc == 0 && m->qos_list)
        rc = add_qoses(&r, err);
    *rows = r.rows;
    if (rc == 0 && (r.enforced & ENFORCE_LIMITS))
        rc = rpc_partition_walls_read(m, err);
    free(r.by_id);
    slurm_free_assoc_mgr_info_msg(m);
    return rc;
}

/* ---- news -----------------------------------------------------------------
 */
static int send_if_new(struct rpc_scan *s, const struct alloc_quota *rows,
                       size_t n, struct buf *news, struct error *err)
{
    struct buf lines = BUF_INIT;
    struct helper_news none = {.ev = HELPER_QUOTA};
    int rc = n == 0 ? helper_news_encode(&none, &lines, err) : 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct helper_news one = {.ev = HELPER_QUOTA,
                                  .quota = rows[i],
                                  .index = (int32_t)i,
                                  .count = (int32_t)n};
        rc = helper_news_encode(&one, &lines, err);
    }
    bool is_new =
        lines.len != s->last_quotas.len ||
        memcmp(buf_str(&lines), buf_str(&s->last_quotas), lines.len) != 0;
    if (rc == 0 && is_new)
        rc = buf_add(news, buf_str(&lines), lines.len, err);
    if (rc == 0 && is_new) {
        struct buf old = s->last_quotas;
        s->last_quotas = lines;
        lines = old;
    }
    buf_clear(&lines);
    return rc;
}

int rpc_quotas_scan(struct rpc_scan *s, struct buf *news, struct error *err)
{
    struct buf rows = BUF_INIT;
    int rc = 0;
    if (clock_real.now_s(&clock_real) < s->quotas_again_s)
        return 0;
    ask_conf(s);
    if (s->enforced & ENFORCE_ASSOCS)
        rc = read_all(s, &rows, err);
    if (rc == 0)
        rc = add_resvs(s, &rows, err);
    size_t n = rows.len / sizeof(struct alloc_quota);
    if (rc == 0 && n <= ROWS_MAX)
        rc = send_if_new(s, (const struct alloc_quota *)(const void *)rows.data,
                         n, news, err);
    buf_clear(&rows);
    return rc;
}
