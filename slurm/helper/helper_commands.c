/* helper_commands.c - check and execute the daemon's commands. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/log.h"
#include "jobs/base/rng.h"
#include "slurm/as_user/as_user.h"
#include "slurm/as_user/protected_uids.h"
#include "slurm/helper/helper.h"

/* A compromised daemon must gain nothing: it may act for its own user, or in
 * system mode for all users but root and the accounts that are as powerful. */
static int check_uid(const struct helper_conf *c, uid_t uid, struct error *err)
{
    if (!c->is_system && uid != geteuid())
        return error_set(err, ERR_DENIED,
                         "user %lu: this helper serves user %lu only",
                         (unsigned long)uid, (unsigned long)geteuid());
    if (c->is_system && uid == 0 && !c->may_root)
        return error_set(err, ERR_DENIED, "root may not run jobs here");
    return c->is_system && !c->may_root
               ? protected_uids_check(c->slurm_conf, uid, err)
               : 0;
}

/* Requires a tag of our cluster: "mgpu:<cluster>:..". */
static int check_tag(const struct helper_conf *c, const char *tag,
                     struct error *err)
{
    size_t n = strlen(c->cluster);
    if (strncmp(tag, "mgpu:", 5) != 0 || strncmp(tag + 5, c->cluster, n) != 0 ||
        tag[5 + n] != ':')
        return error_set(err, ERR_DENIED, "tag '%s' is not of cluster '%s'",
                         tag, c->cluster);
    return 0;
}

static void or_default(const char **value, const char *def)
{
    if (*value == NULL)
        *value = def;
}

static void add_defaults(const struct helper_conf *c, struct alloc_req *r)
{
    const struct alloc_where *d = &c->where;
    int32_t units = r->gpus_per_node > 0 ? r->gpus_per_node : 1;
    or_default(&r->where.partition, d->partition);
    or_default(&r->where.account, d->account);
    or_default(&r->where.qos, d->qos);
    or_default(&r->where.constraint, d->constraint);
    or_default(&r->where.reservation, d->reservation);
    if (r->gpus_per_node > 0)
        or_default(&r->where.gpu_type, d->gpu_type);
    /* The inventory's name for GPUs to which Slurm gives no type. */
    if (r->where.gpu_type && strcmp(r->where.gpu_type, "gpu") == 0)
        r->where.gpu_type = NULL;
    if (r->where.cpus_per_gpu == 0)
        r->where.cpus_per_gpu = d->cpus_per_gpu;
    if (r->where.memory_bytes == 0)
        r->where.memory_bytes = c->memory_per_gpu * units;
    r->where.exclusive = r->where.exclusive || d->exclusive;
}

/* A temporary failure to write the files has one code: the cause is the user's
 * file system, not Slurm. */
static int dir_failed(struct error *err)
{
    if (err->code == ERR_BUSY || err->code == ERR_TIMEOUT ||
        err->code == ERR_NOMEM || err->code == ERR_INTERNAL)
        err->code = ERR_IO;
    return -1;
}

/* Writes the files as the user, and submits. */
static int submit(struct helper *h, const struct helper_cmd *cmd,
                  uint32_t *ret_id, bool *is_sure, struct error *err)
{
    struct alloc_req r = cmd->req;
    struct as_user u;
    struct batch_conf bc;
    struct buf batch = BUF_INIT;
    char mark[ATTEMPT_SUBMISSION_CAP];
    uint64_t random;
    *is_sure = true;
    if (rng_secret(&random, sizeof(random), err) < 0)
        return -1;
    (void)snprintf(mark, sizeof(mark), "%016" PRIx64, random);
    add_defaults(h->conf, &r);
    int rc = helper_batch_conf(h->conf,
                               r.gpus_per_node > 0 ? r.where.gpu_type : NULL,
                               r.where.cpus_per_gpu, &bc, err);
    if (rc == 0)
        rc = batch_conf_encode(&bc, &batch, err);
    if (rc == 0 && as_user_write(r.uid, r.dir, r.launch, buf_str(&batch), mark,
                                 &u, err) < 0)
        rc = dir_failed(err);
    buf_clear(&batch);
    if (rc < 0)
        return -1;
    struct rpc_owner owner = {.uid = r.uid,
                              .gid = u.gid,
                              .name = u.name,
                              .home = u.home,
                              .shell = u.shell};
    submit_order_wait(&h->order, cmd->id);
    return rpc_submit(h->conf, &r, mark, &owner, ret_id, is_sure, err);
}

static int do_submit(struct helper *h, const struct helper_cmd *c,
                     struct helper_news *n)
{
    enum seen_answer was;
    n->is_sure = true;
    if (check_uid(h->conf, c->req.uid, &n->why) < 0 ||
        check_tag(h->conf, c->req.tag, &n->why) < 0 ||
        helper_check_up(h, &n->why) < 0 ||
        known_jobs_ask(h->seen, c->req.tag, c->req.uid, &was, &n->slurm_id,
                       &n->why) < 0)
        return -1;
    if (was == SEEN_BEFORE)
        return 0;
    if (was == SEEN_NOW) {
        n->is_sure = false;
        return error_set(&n->why, ERR_BUSY, "it is being submitted");
    }
    int rc = submit(h, c, &n->slurm_id, &n->is_sure, &n->why);
    known_jobs_done(h->seen, c->req.tag, c->req.uid, rc == 0 ? n->slurm_id : 0);
    helper_poke(h);
    return rc;
}

/* What each command for a job in Slurm checks first. */
static int check_of_job(struct helper *h, const struct helper_cmd *c,
                        struct helper_news *n)
{
    n->is_sure = true;
    return check_uid(h->conf, c->req.uid, &n->why) < 0 ||
                   check_tag(h->conf, c->req.tag, &n->why) < 0 ||
                   helper_check_up(h, &n->why) < 0
               ? -1
               : 0;
}

static int do_signal(struct helper *h, const struct helper_cmd *c,
                     struct helper_news *n)
{
    if (check_of_job(h, c, n) < 0)
        return -1;
    int rc = rpc_signal(h->conf, c->slurm_id, c->req.tag, c->req.uid,
                        c->op == HELPER_KILL ? 0 : c->signo, c->is_cancel,
                        &n->is_sure, &n->why);
    helper_poke(h);
    return rc;
}

static int do_limit(struct helper *h, const struct helper_cmd *c,
                    struct helper_news *n)
{
    if (check_of_job(h, c, n) < 0)
        return -1;
    int rc = rpc_limit(h->conf, c->slurm_id, &c->req, &n->job.limit_min,
                       &n->is_sure, &n->why);
    helper_poke(h);
    return rc;
}

static int do_read_exit(struct helper *h, const struct helper_cmd *c,
                        struct helper_news *n)
{
    struct attempt_exit x;
    n->is_sure = true;
    if (check_uid(h->conf, c->req.uid, &n->why) < 0 ||
        as_user_read_exit(c->req.uid, c->req.dir, &x, &n->why) < 0)
        return -1;
    n->exit_code = x.code;
    n->signal = x.signal;
    n->slurm_id = x.slurm_id;
    n->is_ending = x.is_ending;
    n->is_other = x.is_other;
    n->ended_ms = attempt_ended_ms(&x);
    memcpy(n->told, x.told, sizeof(n->told));
    return 0;
}

static int do_recall(struct helper *h, const struct helper_cmd *c,
                     struct helper_news *n)
{
    n->is_sure = true;
    return check_uid(h->conf, c->req.uid, &n->why) < 0 ||
                   check_tag(h->conf, c->req.tag, &n->why) < 0 ||
                   helper_check_up(h, &n->why) < 0 ||
                   rpc_accounting_recall(&c->req, c->slurm_id, n, &n->why) < 0
               ? -1
               : 0;
}

void helper_do(struct helper *h, const struct helper_cmd *c)
{
    struct helper_news n = {.ev = HELPER_REPLY, .id = c->id};
    int rc = -1;
    switch (c->op) {
    case HELPER_SUBMIT:
        rc = do_submit(h, c, &n);
        break;
    case HELPER_SIGNAL:
    case HELPER_KILL:
        rc = do_signal(h, c, &n);
        break;
    case HELPER_LIMIT:
        rc = do_limit(h, c, &n);
        break;
    case HELPER_READ_EXIT:
        rc = do_read_exit(h, c, &n);
        break;
    case HELPER_RECALL:
        rc = do_recall(h, c, &n);
        break;
    case HELPER_AGAIN:
        log_notice("helper",
                   "daemon requests all news again, restarting the child");
        _exit(0);
    }
    n.is_ok = rc == 0;
    helper_line_send_news(h, &n);
}
