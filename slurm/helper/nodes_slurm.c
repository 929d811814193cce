/* nodes_slurm.c - the inventory: what each node has, and how much of it is
 * free.
 *
 * A GPU that Slurm has not allocated is free for us only if the CPUs and the
 * memory that go with it are free, too. A node with GPUs of several types has
 * several entries (alloc.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "slurm/helper/calls_slurm.h"
#include "slurm/helper/gres.h"
#include "slurm/place_text.h"

/* State while the list is built; index is the node's in Slurm's table. */
struct list {
    struct rpc_scan *s;
    struct alloc_node *nodes; /* [from[n]], the entries */
    size_t *from;             /* [n + 1], by index: its first entry; an
                               * unused index of the table has none */
    bool *is_in_up_part;      /* [n] */
    size_t n;
};

/* Appends a word to a list of words; drops it if it does not fit. */
static void join(char *ret, size_t cap, const char *separator, const char *word)
{
    size_t n = strlen(ret);
    size_t more = (n ? strlen(separator) : 0) + strlen(word);
    if (n + more < cap)
        (void)snprintf(ret + n, cap - n, "%s%s", n ? separator : "", word);
}

/* ---- a single node ------------------------------------------------------- */
static const char *fault_of(uint32_t state)
{
    return state & NODE_STATE_FAIL          ? "failing"
           : state & NODE_STATE_INVALID_REG ? "invalid registration"
           : state & NODE_STATE_NO_RESPOND  ? "not responding"
                                            : NULL;
}

static const char drained[] = "drained";

static const char *bad_state(uint32_t state)
{
    switch (state & NODE_STATE_BASE) {
    case NODE_STATE_IDLE:
    case NODE_STATE_ALLOCATED:
    case NODE_STATE_MIXED:
        break;
    case NODE_STATE_DOWN:
        return "down";
    case NODE_STATE_FUTURE:
        return "future node";
    default:
        return "unknown";
    }
    if (fault_of(state))
        return fault_of(state);
    if (state & NODE_STATE_DRAIN)
        return drained;
    if (state & NODE_STATE_MAINT)
        return "maintenance";
    if (state & (NODE_STATE_REBOOT_ISSUED | NODE_STATE_REBOOT_REQUESTED))
        return "to be rebooted";
    return NULL;
}

/* Ended jobs count until their resources are free. */
static bool is_busy(uint32_t state)
{
    uint32_t base = state & NODE_STATE_BASE;
    return base == NODE_STATE_ALLOCATED || base == NODE_STATE_MIXED ||
           (state & NODE_STATE_COMPLETING);
}

static void set_state(const struct list *l, const node_info_t *n,
                      struct alloc_node *ret)
{
    const char *bad = bad_state(n->node_state);
    const char *more = "";
    char user[NAME_USER_CAP];
    ret->is_up = bad == NULL;
    ret->is_drained = bad && strcmp(bad, drained) == 0;
    ret->is_busy = is_busy(n->node_state);
    if (bad == NULL)
        return;
    /* Slurm's reason is the reason of the drain. */
    if (!ret->is_drained && (n->node_state & NODE_STATE_DRAIN))
        more = ", drained";
    if (n->reason == NULL || n->reason[0] == '\0') {
        (void)snprintf(ret->why, sizeof(ret->why), "%s%s", bad, more);
    } else if (n->reason_uid == NO_VAL) {
        (void)snprintf(ret->why, sizeof(ret->why), "%s%s: %s", bad, more,
                       n->reason);
    } else {
        names_user(l->s->names, n->reason_uid, user);
        (void)snprintf(ret->why, sizeof(ret->why), "%s%s by %.63s: %s", bad,
                       more, user, n->reason);
    }
}

static int32_t min32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* For how many GPUs there are CPUs and memory: in total, or free. */
static int32_t gpus_for(const struct helper_conf *c, const node_info_t *n,
                        int32_t cpus_taken, uint64_t mb_taken)
{
    int32_t cpus = n->cpus_efctv ? n->cpus_efctv : n->cpus;
    int32_t left =
        (cpus > cpus_taken ? cpus - cpus_taken : 0) / c->where.cpus_per_gpu;
    if (c->memory_per_gpu > 0) {
        uint64_t taken = mb_taken + n->mem_spec_limit;
        uint64_t mb = n->real_memory > taken ? n->real_memory - taken : 0;
        uint64_t units = (mb << 20) / (uint64_t)c->memory_per_gpu;
        left = min32(left, units > INT32_MAX ? INT32_MAX : (int32_t)units);
    }
    return left;
}

static int32_t gpus_for_left(const struct helper_conf *c, const node_info_t *n)
{
    uint16_t cpus;
    uint64_t memory;
    rpc_node_taken(n, &cpus, &memory);
    return gpus_for(c, n, cpus, memory);
}

/* out  ret  one entry per type of n */
static void set_node(const struct list *l, const node_info_t *n,
                     struct alloc_node *ret)
{
    struct gres_kind kinds[GRES_KINDS_MAX];
    size_t n_kinds = gres_kinds(n->gres, n->gres_used, kinds);
    int32_t left = gpus_for_left(l->s->conf, n);
    struct alloc_node *first = &ret[0];
    rpc_scan_copy(first->name, sizeof(first->name), n->name);
    set_state(l, n, first);
    rpc_scan_copy(first->features, sizeof(first->features),
                  n->features_act ? n->features_act : n->features);
    names_address(l->s->names, n->node_addr ? n->node_addr : n->name,
                  first->address);
    if (n_kinds > 1) {
        first->shared_total = gpus_for(l->s->conf, n, 0, 0);
        first->shared_free = left;
    }
    for (size_t i = 0; i < n_kinds; i++) {
        const struct gres_kind *k = &kinds[i];
        ret[i] = *first;
        rpc_scan_copy(ret[i].gpu_type, sizeof(ret[i].gpu_type), k->type);
        ret[i].gpus_total = k->total;
        int32_t not_taken = k->total > k->used ? k->total - k->used : 0;
        ret[i].gpus_free = min32(not_taken, left);
    }
}

/* ---- partitions and reservations ----------------------------------------- */
/* Calls each() for the nodes in a list of index pairs that ends with -1; a
 * node's entries are from[i] to from[i + 1]. */
static void each_node(struct list *l, const int32_t *inx, void *arg,
                      void (*each)(struct list *, size_t, void *))
{
    for (; inx && inx[0] >= 0 && inx[1] >= 0; inx += 2)
        for (int32_t i = inx[0]; i <= inx[1] && (size_t)i < l->n; i++)
            each(l, (size_t)i, arg);
}

static void add_part(struct list *l, size_t i, void *arg)
{
    const partition_info_t *p = arg;
    char name[sizeof(l->nodes->partitions)];
    /* A partition that is down takes jobs, and starts none: its jobs wait, and
     * can be met. */
    if (p->state_up == PARTITION_UP)
        l->is_in_up_part[i] = true;
    (void)snprintf(name, sizeof(name), "%.120s%s", p->name ? p->name : "",
                   p->flags & PART_FLAG_DEFAULT ? "*" : "");
    for (size_t k = l->from[i]; k < l->from[i + 1]; k++)
        join(l->nodes[k].partitions, sizeof(l->nodes[k].partitions), ",", name);
}

static void add_resv(struct list *l, size_t i, void *arg)
{
    const reserve_info_t *r = arg;
    for (size_t k = l->from[i]; k < l->from[i + 1]; k++) {
        struct alloc_node *n = &l->nodes[k];
        if (n->reservation[0] == '\0')
            rpc_scan_copy(n->reservation, sizeof(n->reservation), r->name);
    }
}

static void add_next(struct list *l, size_t i, void *arg)
{
    const reserve_info_t *r = arg;
    for (size_t k = l->from[i]; k < l->from[i + 1]; k++) {
        struct alloc_node *n = &l->nodes[k];
        if (n->next_starts > 0 && n->next_starts <= r->start_time)
            continue;
        n->next_starts = r->start_time;
        rpc_scan_copy(n->next_reservation, sizeof(n->next_reservation),
                      r->name);
    }
}

/* A reservation of some cores, or one whose start moves with the clock, leaves
 * room that only Slurm knows. */
static bool takes_nodes(const struct rpc_scan *s, const reserve_info_t *r)
{
    uint64_t cores = 0;
    for (const int32_t *at = r->node_inx; at && at[0] >= 0 && at[1] >= 0;
         at += 2)
        for (int32_t i = at[0];
             i <= at[1] && (uint32_t)i < s->nodes->record_count; i++)
            cores += (uint64_t)s->nodes->node_array[i].cores *
                     s->nodes->node_array[i].sockets;
    bool is_part = r->core_cnt > 0 && r->core_cnt != NO_VAL &&
                   (uint64_t)r->core_cnt < cores;
    return !is_part && (r->flags & RESERVE_FLAG_TIME_FLOAT) == 0;
}

static void set_lists(struct list *l)
{
    const struct rpc_scan *s = l->s;
    time_t now = time(NULL);
    for (uint32_t i = 0; i < s->parts->record_count; i++)
        each_node(l, s->parts->partition_array[i].node_inx,
                  &s->parts->partition_array[i], add_part);
    for (uint32_t i = 0; s->resvs && i < s->resvs->record_count; i++) {
        reserve_info_t *r = &s->resvs->reservation_array[i];
        if (r->start_time <= now && now < r->end_time)
            each_node(l, r->node_inx, r, add_resv);
        else if (now < r->start_time && takes_nodes(s, r))
            each_node(l, r->node_inx, r, add_next);
    }
    for (size_t i = 0; i < l->n; i++)
        for (size_t k = l->from[i]; k < l->from[i + 1]; k++) {
            struct alloc_node *node = &l->nodes[k];
            if (!node->is_up || l->is_in_up_part[i])
                continue;
            node->is_up = 0;
            if (node->partitions[0])
                (void)snprintf(node->why, sizeof(node->why),
                               "partition %.60s is not up", node->partitions);
            else
                rpc_scan_copy(node->why, sizeof(node->why), "in no partition");
        }
}

/* ---- GPUs in use --------------------------------------------------------- */
/* Indexes "0,1" of GPUs of this type, from Slurm's "gpu:h100:2(IDX:0-1)". */
static void indexes(const char *gres, const char *type, char *ret, size_t cap)
{
    unsigned char at[GRES_GPUS_MAX] = {0};
    struct place_text t;
    char text[128];
    int32_t n = gres_indexes(gres, type, at);
    bool has_any = false;
    place_text_begin(&t);
    place_text_node(&t, "");
    for (int32_t k = 0; k < GRES_GPUS_MAX; k++)
        if (at[k]) {
            place_text_index(&t, k);
            has_any = true;
        }
    place_text_end(&t, text, sizeof(text));
    ret[0] = '\0';
    if (has_any)
        rpc_scan_copy(ret, cap, text + (text[0] == ':'));
    else if (n > 0)
        (void)snprintf(ret, cap, "%d GPUs", n);
}

static void name_holder(const struct rpc_scan *s, const slurm_job_info_t *j,
                        char *ret, size_t cap)
{
    char user[NAME_USER_CAP];
    unsigned long long job;
    unsigned attempt;
    if (rpc_scan_tag(s->conf, j->comment, &job, &attempt)) {
        (void)snprintf(ret, cap, "mgpu %llu.%u", job, attempt);
        return;
    }
    if (j->user_name)
        rpc_scan_copy(user, sizeof(user), j->user_name);
    else
        names_user(s->names, j->user_id, user);
    (void)snprintf(ret, cap, "%s %u", user, j->job_id);
}

struct holder {
    const slurm_job_info_t *job;
    char name[NAME_USER_CAP + 32];
    uint32_t n; /* number of nodes visited; Slurm's details are in this order */
};

static void add_holder(struct list *l, size_t i, void *arg)
{
    struct holder *h = arg;
    uint32_t k = h->n++;
    const char *gres =
        k < h->job->gres_detail_cnt ? h->job->gres_detail_str[k] : NULL;
    bool is_one = l->from[i + 1] - l->from[i] == 1;
    for (size_t at = l->from[i]; at < l->from[i + 1]; at++) {
        struct alloc_node *n = &l->nodes[at];
        char gpus[96];
        char part[sizeof(gpus) + sizeof(h->name)];
        n->is_busy = 1; /* Slurm shows a node with suspended jobs as idle */
        indexes(gres, is_one ? NULL : n->gpu_type, gpus, sizeof(gpus));
        if (gpus[0] == '\0')
            continue;
        (void)snprintf(part, sizeof(part), "%s %s", gpus, h->name);
        join(n->used, sizeof(n->used), "; ", part);
    }
}

static void set_holders(struct list *l)
{
    const job_info_msg_t *m = l->s->jobs;
    for (uint32_t i = 0; i < m->record_count; i++) {
        const slurm_job_info_t *j = &m->job_array[i];
        uint32_t state = j->job_state & JOB_STATE_BASE;
        struct holder h = {.job = j};
        if (state != JOB_RUNNING && state != JOB_SUSPENDED)
            continue;
        name_holder(l->s, j, h.name, sizeof(h.name));
        each_node(l, j->node_inx, &h, add_holder);
    }
}

/* ---- GPUs that others wait for -------------------------------------------
 */
static bool has_gpus(const char *tres)
{
    return tres && (strstr(tres, "gres:gpu") || strstr(tres, "gres/gpu"));
}

/* Whether it is pending for GPUs now. A job that is held, depends on another,
 * or has a begin time takes none before a person or a clock changes that. */
static bool wants_gpus(const slurm_job_info_t *j)
{
    return (j->job_state & JOB_STATE_BASE) == JOB_PENDING && j->priority > 0 &&
           j->state_reason != WAIT_DEPENDENCY && j->state_reason != WAIT_TIME &&
           (has_gpus(j->tres_per_job) || has_gpus(j->tres_per_node) ||
            has_gpus(j->tres_per_socket) || has_gpus(j->tres_per_task) ||
            has_gpus(j->tres_req_str));
}

static void want(struct list *l, size_t i, void *arg)
{
    (void)arg;
    for (size_t k = l->from[i]; k < l->from[i + 1]; k++)
        l->nodes[k].is_wanted = 1;
}

/* A pending job may name several partitions, "batch,urgent". */
static bool names_part(const char *names, const char *part)
{
    size_t len = part ? strlen(part) : 0;

    for (const char *p = names; len > 0 && p && *p;) {
        size_t n = strcspn(p, ",");
        if (n == len && memcmp(p, part, n) == 0)
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

static void set_wanted(struct list *l)
{
    const job_info_msg_t *m = l->s->jobs;
    const partition_info_msg_t *parts = l->s->parts;

    for (uint32_t i = 0; i < m->record_count; i++) {
        const slurm_job_info_t *j = &m->job_array[i];
        unsigned long long job;
        unsigned attempt;
        if (!wants_gpus(j) ||
            rpc_scan_tag(l->s->conf, j->comment, &job, &attempt))
            continue;
        for (uint32_t k = 0; k < parts->record_count; k++)
            if (names_part(j->partition, parts->partition_array[k].name))
                each_node(l, parts->partition_array[k].node_inx, NULL, want);
    }
}

/* ---- the message to the daemon ------------------------------------------- */
static int send_if_new(struct list *l, struct buf *news, struct error *err)
{
    struct buf *last = &l->s->last;
    struct buf line = BUF_INIT;
    struct helper_news all = {
        .ev = HELPER_NODES, .nodes = l->nodes, .n_nodes = l->from[l->n]};
    int rc = helper_news_encode(&all, &line, err);
    if (rc == 0 && (line.len != last->len ||
                    memcmp(buf_str(&line), buf_str(last), line.len) != 0)) {
        rc = buf_add(news, line.data, line.len, err);
        if (rc == 0) {
            struct buf old = *last;
            *last = line;
            line = old;
        }
    }
    buf_clear(&line);
    return rc;
}

static int make_room(struct list *l, const node_info_msg_t *m,
                     struct error *err)
{
    struct gres_kind kinds[GRES_KINDS_MAX];
    l->from = calloc(l->n + 1, sizeof(*l->from));
    l->is_in_up_part = calloc(l->n + 1, sizeof(*l->is_in_up_part));
    if (!l->from || !l->is_in_up_part)
        return error_set(err, ERR_NOMEM, "%zu nodes", l->n);
    for (size_t i = 0; i < l->n; i++) {
        const node_info_t *n = &m->node_array[i];
        l->from[i + 1] =
            l->from[i] + (n->name ? gres_kinds(n->gres, NULL, kinds) : 0);
    }
    l->nodes = calloc(l->from[l->n] + 1, sizeof(*l->nodes));
    return l->nodes ? 0 : error_set(err, ERR_NOMEM, "%zu nodes", l->n);
}

int rpc_nodes_scan(struct rpc_scan *s, struct buf *news, struct error *err)
{
    const node_info_msg_t *m = s->nodes;
    struct list l = {.s = s, .n = m->record_count};
    int rc = make_room(&l, m, err);
    for (size_t i = 0; rc == 0 && i < l.n; i++)
        if (m->node_array[i].name)
            set_node(&l, &m->node_array[i], &l.nodes[l.from[i]]);
    if (rc == 0) {
        set_lists(&l);
        set_holders(&l);
        set_wanted(&l);
        rc = send_if_new(&l, news, err);
    }
    free(l.nodes);
    free(l.from);
    free(l.is_in_up_part);
    return rc;
}
