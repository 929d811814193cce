/* scan_slurm.c - one scan of Slurm: jobs, nodes, partitions, quotas.
 *
 * Each list is loaded only if it has changed since the last scan, within the
 * resolution of Slurm's time stamps, seconds; after a failure everything is
 * loaded again. slurmctld finds the reason of a pending job while it holds the
 * lock of all jobs only intermittently, and stamps the change with the start of
 * that search: a client that loaded the list during the search sees no change
 * later. So jobs are loaded on every scan while the reason of one of ours is
 * unknown. */
#include <stdlib.h>
#include <string.h>

#include "slurm/helper/calls_slurm.h"
#include "slurm/helper/gres.h"
#include "slurm/place_text.h"

static const struct names_conf names_conf = {
    .cached = 100000, .keep_s = 600, .keep_unknown_s = 30};

int rpc_scan_create(const struct helper_conf *conf, struct rpc_scan **ret,
                    struct error *err)
{
    struct rpc_scan *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return error_set(err, ERR_NOMEM, "the scan");
    s->conf = conf;
    if (names_create(&names_conf, &s->names, err) < 0) {
        free(s);
        return -1;
    }
    *ret = s;
    return 0;
}

static void forget(struct rpc_scan *s)
{
    slurm_free_job_info_msg(s->jobs);
    slurm_free_node_info_msg(s->nodes);
    slurm_free_partition_info_msg(s->parts);
    slurm_free_reservation_info_msg(s->resvs);
    s->jobs = NULL;
    s->nodes = NULL;
    s->parts = NULL;
    s->resvs = NULL;
}

/* ---- loading ------------------------------------------------------------- */
/* Evaluates rc and errno of a call that may report "no change". */
static int loaded(int rc, bool *ret_is_new, const char *what, struct error *err)
{
    *ret_is_new = rc == SLURM_SUCCESS;
    if (rc == SLURM_SUCCESS || errno == SLURM_NO_CHANGE_IN_DATA)
        return 0;
    return rpc_call_fail(errno, what, NULL, err);
}

static int load_jobs(struct rpc_scan *s, struct error *err)
{
    job_info_msg_t *m = NULL;
    bool is_new;
    time_t since = s->jobs && !s->is_unsaid ? s->jobs->last_update : 0;
    int rc = slurm_load_jobs(since, &m, SHOW_ALL | SHOW_DETAIL | SHOW_LOCAL);
    if (loaded(rc, &is_new, "jobs", err) < 0)
        return -1;
    if (is_new) {
        slurm_free_job_info_msg(s->jobs);
        s->jobs = m;
    }
    return 0;
}

static int load_nodes(struct rpc_scan *s, struct error *err)
{
    node_info_msg_t *m = NULL;
    bool is_new;
    int rc = slurm_load_node(s->nodes ? s->nodes->last_update : 0, &m,
                             SHOW_ALL | SHOW_DETAIL);
    if (loaded(rc, &is_new, "nodes", err) < 0)
        return -1;
    if (is_new) {
        slurm_free_node_info_msg(s->nodes);
        s->nodes = m;
    }
    return 0;
}

static int load_parts(struct rpc_scan *s, struct error *err)
{
    partition_info_msg_t *m = NULL;
    bool is_new;
    int rc = slurm_load_partitions(s->parts ? s->parts->last_update : 0, &m,
                                   SHOW_ALL);
    if (loaded(rc, &is_new, "partitions", err) < 0)
        return -1;
    if (is_new) {
        slurm_free_partition_info_msg(s->parts);
        s->parts = m;
    }
    return 0;
}

static int load_resvs(struct rpc_scan *s, struct error *err)
{
    reserve_info_msg_t *m = NULL;
    bool is_new;
    int rc = slurm_load_reservations(s->resvs ? s->resvs->last_update : 0, &m);
    /* PrivateData: we may not see them, so we may not use them. */
    if (rc != SLURM_SUCCESS && errno == ESLURM_ACCESS_DENIED)
        return 0;
    if (loaded(rc, &is_new, "reservations", err) < 0)
        return -1;
    if (is_new) {
        slurm_free_reservation_info_msg(s->resvs);
        s->resvs = m;
    }
    return 0;
}

/* ---- jobs ---------------------------------------------------------------- */
bool rpc_scan_tag(const struct helper_conf *c, const char *comment,
                  unsigned long long *ret_job, unsigned *ret_attempt)
{
    size_t n = strlen(c->cluster);
    if (comment == NULL || strlen(comment) >= HELPER_TAG_CAP ||
        strncmp(comment, "mgpu:", 5) != 0 ||
        strncmp(comment + 5, c->cluster, n) != 0 || comment[5 + n] != ':')
        return false;
    /* A comment may hold anything. */
    if (comment[strspn(comment, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz0123456789:._-")])
        return false;
    char *end;
    *ret_job = strtoull(comment + 6 + n, &end, 10);
    *ret_attempt = *end == ':' ? (unsigned)strtoul(end + 1, NULL, 10) : 0;
    return true;
}

const char *rpc_scan_state_word(uint32_t job_state)
{
    static const char *const words[] = {
        [JOB_PENDING] = "PENDING",     [JOB_RUNNING] = "RUNNING",
        [JOB_SUSPENDED] = "SUSPENDED", [JOB_COMPLETE] = "COMPLETED",
        [JOB_CANCELLED] = "CANCELLED", [JOB_FAILED] = "FAILED",
        [JOB_TIMEOUT] = "TIMEOUT",     [JOB_NODE_FAIL] = "NODE_FAIL",
        [JOB_PREEMPTED] = "PREEMPTED", [JOB_BOOT_FAIL] = "BOOT_FAIL",
        [JOB_DEADLINE] = "DEADLINE",   [JOB_OOM] = "OUT_OF_MEMORY"};
    uint32_t base = job_state & JOB_STATE_BASE;
    if ((job_state & JOB_COMPLETING) && base >= JOB_COMPLETE)
        return "COMPLETING";
    return base < sizeof(words) / sizeof(words[0]) ? words[base] : "UNKNOWN";
}

void rpc_scan_copy(char *ret, size_t cap, const char *text)
{
    size_t n = strnlen(text ? text : "", cap - 1);
    if (n > 0)
        memcpy(ret, text, n);
    ret[n] = '\0';
}

/* As squeue shows it: the text of the administrator or of Slurm, else the
 * reason's name. */
static void set_reason(const slurm_job_info_t *j, struct helper_job *ret)
{
    rpc_scan_copy(ret->reason, sizeof(ret->reason),
                  j->state_desc ? j->state_desc
                                : rpc_reason_name(j->state_reason));
    if (strcmp(ret->reason, "None") == 0)
        ret->reason[0] = '\0';
}

/* "node1:0,1 node2:0,1"; Slurm knows the indexes only while it runs. */
static void set_place(const slurm_job_info_t *j, struct helper_job *ret)
{
    struct place_text t;
    rpc_hostlist hl = j->nodes ? slurm_hostlist_create(j->nodes) : NULL;
    char *host;
    ret->place[0] = '\0';
    if (hl == NULL)
        return;
    place_text_begin(&t);
    for (uint32_t i = 0; (host = slurm_hostlist_shift(hl)); i++) {
        unsigned char at[GRES_GPUS_MAX] = {0};
        const char *text =
            i < j->gres_detail_cnt ? j->gres_detail_str[i] : NULL;
        place_text_node(&t, host);
        (void)gres_indexes(text, NULL, at);
        for (int32_t k = 0; k < GRES_GPUS_MAX; k++)
            if (at[k])
                place_text_index(&t, k);
        free(host);
    }
    slurm_hostlist_destroy(hl);
    place_text_end(&t, ret->place, sizeof(ret->place));
}

/* With a GraceTime, Slurm tells a job to stop before it takes its nodes. Before
 * 24.05 a job that ends in time is COMPLETED or FAILED. A job that was only
 * suspended for another one has a later suspend_time. */
static bool was_preempted(const slurm_job_info_t *j)
{
    uint32_t base = j->job_state & JOB_STATE_BASE;
    return (base == JOB_COMPLETE || base == JOB_FAILED) &&
           j->preempt_time > 0 && j->suspend_time < j->preempt_time;
}

static void describe(const slurm_job_info_t *j, struct helper_job *ret)
{
    uint32_t state = j->job_state;

    if (was_preempted(j))
        state = (state & ~(uint32_t)JOB_STATE_BASE) | JOB_PREEMPTED;
    *ret = (struct helper_job){.uid = j->user_id,
                               .slurm_id = j->job_id,
                               .restarts = j->restart_cnt,
                               .submitted = j->submit_time};
    if (j->time_limit != INFINITE && j->time_limit != NO_VAL)
        ret->limit_min = (int32_t)j->time_limit;
    ret->nice = (int32_t)((int64_t)j->nice - NICE_OFFSET);
    rpc_scan_copy(ret->tag, sizeof(ret->tag), j->comment);
    rpc_scan_copy(ret->state, sizeof(ret->state), rpc_scan_state_word(state));
    set_reason(j, ret);
    set_place(j, ret);
    /* Slurm's backfill sets it for a pending job, if it looks that far. */
    if ((j->job_state & JOB_STATE_BASE) == JOB_PENDING &&
        j->start_time > time(NULL))
        ret->expected = j->start_time;
    if ((j->job_state & JOB_STATE_BASE) >= JOB_COMPLETE) {
        /* As in wait(2). */
        ret->exit_code = (int32_t)((j->exit_code >> 8) & 0xff);
        ret->signal = (int32_t)(j->exit_code & 0x7f);
        ret->signal = ret->signal > 64 ? 0 : ret->signal;
        ret->ended = j->end_time > 0 ? j->end_time : 0;
    }
}

/* A job that Slurm refused at once leaves a record, too; the reply has reported
 * it. */
static bool was_refused(const slurm_job_info_t *j)
{
    return (j->job_state & JOB_STATE_BASE) == JOB_FAILED &&
           j->state_reason == FAIL_BAD_CONSTRAINTS &&
           (j->nodes == NULL || j->nodes[0] == '\0');
}

static int collect(struct rpc_scan *s, struct error *err)
{
    unsigned long long job;
    unsigned attempt;
    buf_reset(&s->mine);
    s->is_unsaid = false;
    for (uint32_t i = 0; i < s->jobs->record_count; i++) {
        const slurm_job_info_t *j = &s->jobs->job_array[i];
        struct helper_job h;
        if (!rpc_scan_tag(s->conf, j->comment, &job, &attempt) ||
            j->job_id == 0 || was_refused(j))
            continue;
        describe(j, &h);
        s->is_unsaid =
            s->is_unsaid || ((j->job_state & JOB_STATE_BASE) == JOB_PENDING &&
                             h.reason[0] == '\0');
        if (buf_add(&s->mine, &h, sizeof(h), err) < 0)
            return -1;
    }
    return 0;
}

/* ---- entry points -------------------------------------------------------- */
int rpc_scan_once(struct rpc_scan *s, struct seen *seen, struct buf *news,
                  struct error *err)
{
    uint64_t when = known_jobs_scan_begin(seen);
    if (load_jobs(s, err) < 0 || load_nodes(s, err) < 0 ||
        load_parts(s, err) < 0 || load_resvs(s, err) < 0) {
        forget(s);
        return -1;
    }
    if (collect(s, err) < 0 ||
        known_jobs_scan_end(
            seen, when, (const struct helper_job *)(const void *)s->mine.data,
            s->mine.len / sizeof(struct helper_job), news, err) < 0)
        return -1;
    return rpc_partitions_scan(s, news, err) < 0 ||
                   rpc_quotas_scan(s, news, err) < 0
               ? -1
               : rpc_nodes_scan(s, news, err);
}
