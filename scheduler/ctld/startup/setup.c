/* setup.c - see setup.h. */
#include "scheduler/ctld/startup/setup.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/http/cred_munge.h"
#include "jobs/wire/wire.h"
#include "scheduler/ctld/startup/paths.h"
#include "scheduler/policy/goodput_conf.h"
#include "scheduler/policy/policy.h"

enum { CLIENTS_PER_UID = 64, CLIENTS_PER_NET = 1024, RPC_RATE = 20 };
/* An attempt whose start was not answered is asked for again after this. */
static const double RECONCILE_S = 5, KILL_GRACE_S = 30;

/* ---- what must hold -------------------------------------------------------
 */
static int check_policy(const struct conf *conf, struct error *err)
{
    return policy_find(conf->scheduler.policy)
               ? 0
               : error_set(err, ERR_CONFIG, "no policy '%s'",
                           conf->scheduler.policy);
}

static int check_admins(const struct conf *conf, struct error *err)
{
    int64_t *uids = NULL;
    size_t n = 0;
    int rc = privileges_admins(conf, &uids, &n, err);
    free(uids);
    return rc;
}

int setup_check_notify(const struct conf *conf, struct error *err)
{
    const struct spec_list *argv = &conf->notify.program;
    struct stat st;
    if (argv->n == 0 ||
        (stat(argv->items[0], &st) == 0 && S_ISREG(st.st_mode) &&
         access(argv->items[0], X_OK) == 0))
        return 0;
    return error_set(err, ERR_CONFIG, "notify.program: '%s' is no program",
                     argv->items[0]);
}

static int check_journal(const struct conf *conf, struct error *err)
{
    return conf->log.target != LOG_TO_JOURNAL || access(LOG_JOURNAL, W_OK) == 0
               ? 0
               : error_set(err, ERR_CONFIG,
                           "log.target: journal: no journald is at '%s'; use "
                           "auto, file or stderr",
                           LOG_JOURNAL);
}

static int check_program(const char *name, struct error *err)
{
    char path[SETUP_PATH_CAP];
    return paths_program(name, path, sizeof(path), err);
}

static int check_worker(const struct conf *conf, struct error *err)
{
    (void)conf;
    return check_program("mgpu-worker", err);
}

static int check_shepherd(const struct conf *conf, struct error *err)
{
    (void)conf;
    return check_program("mgpu-shepherd", err);
}

static int check_no_user(const struct conf *conf, struct error *err)
{
    return !conf->controller.user
               ? 0
               : error_set(err, ERR_CONFIG,
                           "controller.user: only a daemon with 'allocator: "
                           "slurm' serves other users");
}

static int check_build(const struct conf *conf, struct error *err)
{
    (void)conf;
    return HAVE_SLURM ? 0
                      : error_set(err, ERR_CONFIG,
                                  "allocator: this mgpu-ctld was built without "
                                  "Slurm");
}

static int check_helper(const struct conf *conf, struct error *err)
{
    (void)conf;
    return check_program("mgpu-slurm-helper", err);
}

static int check_batch(const struct conf *conf, struct error *err)
{
    (void)conf;
    return check_program("mgpu-batch", err);
}

/* conf.c has checked that there is a port. */
static int check_listen(const struct conf *conf, struct error *err)
{
    const char *at = conf->controller.listen;
    const char *port = at ? strrchr(at, ':') : NULL;
    return !port || strspn(port + 1, "0") < strlen(port + 1)
               ? 0
               : error_set(err, ERR_CONFIG,
                           "controller.listen: '%s': workers outlive the "
                           "daemon and must find the next one; name a port",
                           at);
}

static int check_slurm_conf(const struct conf *conf, struct error *err)
{
    const char *path = conf->slurm.conf;
    return !path || access(path, R_OK) == 0
               ? 0
               : error_set(err, ERR_CONFIG, "slurm.conf: '%s': %s", path,
                           strerror(errno));
}

static int check_account(const struct conf *conf, struct error *err)
{
    struct account who;
    return conf->controller.user
               ? privileges_account(conf->controller.user, &who, err)
               : 0;
}

static int check_group(const struct conf *conf, struct error *err)
{
    struct account who;
    int64_t gid = 0;
    if (!conf->controller.user || !conf->controller.socket_group)
        return 0;
    return privileges_account(conf->controller.user, &who, NULL) < 0
               ? 0 /* check_account() says so */
               : privileges_group(conf->controller.socket_group, &who, &gid,
                                  err);
}

static int check_jobs_dir(const struct conf *conf, struct error *err)
{
    const char *dir = conf->controller.jobs_dir;
    struct account who;
    if (!conf->controller.user)
        return 0;
    if (!dir || !strstr(dir, "%u"))
        return error_set(err, ERR_CONFIG,
                         "controller.jobs_dir: with controller.user jobs' "
                         "files are their users'; say where all nodes see "
                         "them and users may write, with %%u for the user, for "
                         "example /home/%%u/.mgpu");
    bool is_known = privileges_account(conf->controller.user, &who, NULL) == 0;
    return is_known && privileges_way(dir, &who, err) < 0
               ? error_wrap(err, "controller.jobs_dir")
               : 0;
}

/* The first administrator who has no account; or NULL. */
static const char *unknown_admin(const struct conf *conf)
{
    size_t i = 0;
    while (i < conf->auth.admins.n && getpwnam(conf->auth.admins.items[i]))
        i++;
    return i < conf->auth.admins.n ? conf->auth.admins.items[i] : NULL;
}

struct check {
    int (*fn)(const struct conf *conf, struct error *err);
    const char *key;                                 /* NULL: it is of none */
    const char *(*item_of)(const struct conf *conf); /* NULL: it has none */
};

static const struct check of_all[] = {
    {check_policy, "scheduler.policy", NULL},
    {check_admins, "auth.admins", unknown_admin},
    {check_worker, NULL, NULL},
    {setup_check_notify, "notify.program", NULL},
    {check_journal, "log.target", NULL},
    {NULL, NULL, NULL}};
static const struct check of_local[] = {{check_shepherd, NULL, NULL},
                                        {NULL, NULL, NULL}};
/* Checks of a daemon whose configuration has no Slurm; --local skips them. */
static const struct check of_user[] = {{check_no_user, "controller.user", NULL},
                                       {NULL, NULL, NULL}};
static const struct check of_slurm[] = {
    {check_build, "allocator", NULL},
    {check_helper, NULL, NULL},
    {check_batch, NULL, NULL},
    {check_listen, "controller.listen", NULL},
    {check_slurm_conf, "slurm.conf", NULL},
    {check_account, "controller.user", NULL},
    {check_group, "controller.socket_group", NULL},
    {check_jobs_dir, "controller.jobs_dir", NULL},
    {NULL, NULL, NULL}};

static int first_wrong(const struct check *checks, const struct conf *conf,
                       struct error *err)
{
    for (; checks->fn; checks++)
        if (checks->fn(conf, err) < 0)
            return -1;
    return 0;
}

static int all_wrong(const struct check *checks, const struct conf *conf,
                     setup_each_f *each, void *arg)
{
    int n = 0;
    for (; checks->fn; checks++) {
        struct error why = ERROR_INIT;
        struct setup_lack lack = {.why = &why};
        if (checks->fn(conf, &why) == 0)
            continue;
        const char *item = checks->item_of ? checks->item_of(conf) : NULL;
        if (checks->key)
            (void)conf_place(conf, checks->key, item, &lack.line, &lack.column);
        each(arg, &lack);
        n++;
    }
    return n;
}

int setup_check(const struct conf *conf, setup_each_f *each, void *arg)
{
    bool is_slurm = conf->allocator == ALLOCATOR_SLURM;
    int n = all_wrong(of_all, conf, each, arg);
    n += all_wrong(is_slurm ? of_slurm : of_local, conf, each, arg);
    return is_slurm ? n : n + all_wrong(of_user, conf, each, arg);
}

static int check_mpirun(const struct conf *conf, struct error *err)
{
    const char *mpirun = conf->local.mpirun;
    return conf->allocator == ALLOCATOR_SLURM || paths_finds(mpirun)
               ? 0
               : error_set(err, ERR_CONFIG,
                           "local.mpirun: there is no program '%s' here; jobs "
                           "of more than one GPU will be held",
                           mpirun);
}

static int check_munge(const struct conf *conf, struct error *err)
{
    struct buf cred = BUF_INIT;
    int rc = 0;
    if (conf->controller.listen && conf->auth.remote == AUTH_MUNGE)
        rc = cred_make(conf->auth.munge_socket, "check", &cred, err);
    buf_clear(&cred);
    return rc < 0 ? error_wrap(err, "auth.munge_socket") : 0;
}

int setup_doubts(const struct conf *conf, setup_each_f *each, void *arg)
{
    static const struct check doubts[] = {
        {check_mpirun, "local.mpirun", NULL},
        {check_munge, "auth.munge_socket", NULL},
        {NULL, NULL, NULL}};
    return all_wrong(doubts, conf, each, arg);
}

/* ---- which daemon ---------------------------------------------------------
 */
/* A daemon that root starts without `controller.user` stays root and serves
 * root's own jobs. Another user's daemon cannot change its user. */
static int find_kind(const struct args *a, const struct conf *conf,
                     enum daemon_kind *ret, struct error *err)
{
    const char *user = conf->controller.user;
    bool is_slurm = !a->local && conf->allocator == ALLOCATOR_SLURM;
    struct account who;
    if (is_slurm && a->slots > 0)
        return error_set(err, ERR_USAGE, "--slots: Slurm has its own nodes");
    *ret = !is_slurm                ? DAEMON_LOCAL
           : geteuid() == 0 && user ? DAEMON_SYSTEM
                                    : DAEMON_PERSONAL;
    if (*ret == DAEMON_LOCAL && !a->local)
        return check_no_user(conf, err);
    if (*ret != DAEMON_PERSONAL || !user)
        return 0;
    if (privileges_account(user, &who, err) < 0)
        return -1;
    return who.uid == geteuid()
               ? 0
               : error_set(err, ERR_CONFIG,
                           "controller.user: only root can become '%s'", user);
}

static int find_places(const struct args *a, const struct conf *conf,
                       struct setup *s, struct error *err)
{
    const char *state =
        a->state_dir ? a->state_dir : conf->controller.state_dir;
    const char *sock = a->socket ? a->socket : conf->controller.socket;
    if (s->kind == DAEMON_SYSTEM) {
        state = state ? state : "/var/lib/mgpu";
        sock = sock ? sock : "/run/mgpu/ctld.sock";
    }
    if ((state ? paths_absolute(state, s->state_dir, SETUP_PATH_CAP, err)
               : paths_personal_state(s->state_dir, SETUP_PATH_CAP, err)) < 0)
        return -1;
    if ((sock ? paths_absolute(sock, s->socket, SETUP_PATH_CAP, err)
              : wire_personal_socket(s->socket, SETUP_PATH_CAP, err)) < 0)
        return -1;
    return paths_program("mgpu-worker", s->worker, SETUP_PATH_CAP, err);
}

void setup_clear(struct setup *s)
{
    free(s->admins);
    *s = (struct setup){.admins = NULL};
}

int setup_find(const struct args *a, const struct conf *conf, struct setup *ret,
               struct error *err)
{
    struct setup s = {.admins = NULL};
    if (find_kind(a, conf, &s.kind, err) < 0 ||
        first_wrong(s.kind == DAEMON_LOCAL ? of_local : of_slurm, conf, err) <
            0 ||
        first_wrong(of_all, conf, err) < 0 || find_places(a, conf, &s, err) < 0)
        return -1;
    if (s.kind == DAEMON_SYSTEM &&
        (privileges_file(a->config, err) < 0 ||
         privileges_account(conf->controller.user, &s.who, err) < 0 ||
         (conf->controller.socket_group &&
          privileges_group(conf->controller.socket_group, &s.who, &s.socket_gid,
                           err) < 0)))
        return -1;
    if (privileges_admins(conf, &s.admins, &s.n_admins, err) < 0)
        return -1;
    *ret = s;
    return 0;
}

/* ---- directories ----------------------------------------------------------
 */
static int system_dirs(struct setup *s, struct error *err)
{
    char dir[SETUP_PATH_CAP], real[SETUP_PATH_CAP], name[SETUP_PATH_CAP];
    char *slash = strrchr(s->socket, '/');
    if (slash == s->socket)
        return error_set(err, ERR_CONFIG, "'%s' is in no directory of ours",
                         s->socket);
    memcpy(dir, s->socket, (size_t)(slash - s->socket));
    dir[slash - s->socket] = '\0';
    memcpy(name, slash, strlen(slash) + 1);
    if (privileges_dir(s->state_dir, &s->who, 0700, real, sizeof(real), err) <
        0)
        return -1;
    memcpy(s->state_dir, real, sizeof(real));
    if (privileges_dir(dir, &s->who, 0755, real, sizeof(real), err) < 0)
        return -1;
    if (strlen(real) + strlen(name) >= sizeof(s->socket))
        return error_set(err, ERR_CONFIG, "path is too long: '%s%s'", real,
                         name);
    memcpy(s->socket, real, strlen(real));
    memcpy(s->socket + strlen(real), name, strlen(name) + 1);
    return 0;
}

int setup_dirs(struct setup *s, struct error *err)
{
    if (s->kind == DAEMON_SYSTEM)
        return system_dirs(s, err);
    if (paths_private_dir(s->state_dir, err) < 0)
        return -1;
    return paths_private_parent(s->socket, err);
}

/* ---- what the daemon is told ----------------------------------------------
 */
static void set_slurm(const struct conf *conf, const struct setup *s,
                      struct ctld_conf *ret)
{
    ret->allocator = "slurm";
    ret->makes_dirs = false;
    ret->serves_all = s->kind == DAEMON_SYSTEM;
    ret->refuses_root = s->kind == DAEMON_SYSTEM;
    ret->workers_remote = true;
    ret->memory_per_gpu_bytes = conf->slurm.memory_per_gpu_bytes;
    ret->gpu_memory = &conf->slurm.gpu_memory;
    ret->submit_ahead = conf->slurm.submit_ahead;
    ret->resize_patience_s = conf->slurm.resize_patience_s;
    ret->limit_margin_s = conf->slurm.limit_margin_s;
    ret->where = (struct alloc_where){
        .partition = conf->slurm.partition,
        .account = conf->slurm.account,
        .qos = conf->slurm.qos,
        .constraint = conf->slurm.constraint,
        .reservation = conf->slurm.reservation,
        .gpu_type = conf->slurm.gpu_type,
        .cpus_per_gpu = conf->slurm.cpus_per_gpu,
        .exclusive = conf->slurm.exclusive,
    };
}

static int32_t at_most(int32_t n, int32_t most)
{
    return n < most ? n : most;
}

void setup_ctld(const struct conf *conf, const struct setup *s,
                struct ctld_conf *ret)
{
    int32_t clients = conf->controller.max_clients;
    *ret = (struct ctld_conf){
        .cluster = conf->cluster,
        .state_dir = s->state_dir,
        .user_jobs_dir = conf->controller.jobs_dir,
        .makes_dirs = true,
        .socket = s->socket,
        .socket_gid = s->socket_gid,
        .worker = s->worker,
        .allocator = "local",
        .uid = (int64_t)geteuid(),
        .admins = s->admins,
        .n_admins = s->n_admins,
        .listen = conf->controller.listen,
        .url = conf->controller.url,
        .metrics_listen = conf->controller.metrics_listen,
        .metrics_labels = &conf->controller.metrics_labels,
        .workers_from = conf->auth.workers_from,
        .auth_remote = conf->auth.remote,
        .munge_socket = conf->auth.munge_socket,
        .heartbeat_s = conf->watchdog.heartbeat_s,
        .node_lost_s = conf->watchdog.node_lost_after_s,
        .run_lost_s = conf->watchdog.run_lost_after_s,
        .stall_factor = conf->watchdog.stall_factor,
        .stall_min_s = conf->watchdog.stall_min_s,
        .reconcile_s = RECONCILE_S,
        .kill_grace_s = KILL_GRACE_S,
        .interval_s = conf->scheduler.interval_s,
        .max_jobs_per_user = conf->limits.max_jobs_per_user,
        .max_ended = conf->limits.max_ended_jobs,
        .limits = {.gpus_per_user = conf->limits.max_gpus_per_user,
                   .gpus_per_account = conf->limits.max_gpus_per_account,
                   .running_per_user = conf->limits.max_running_per_user,
                   .running_per_account = conf->limits.max_running_per_account},
        .preempt = {.is_on = conf->scheduler.preempt.enabled,
                    .grace_s = conf->scheduler.preempt.grace_s,
                    .min_runtime_s = conf->scheduler.preempt.min_runtime_s},
        .goodput = policy_goodput_of_conf(&conf->scheduler.goodput),
        .fair_share = &conf->scheduler.fair_share,
        .gpu_hours = &conf->limits.gpu_hours,
        .max_clients = clients,
        .max_clients_per_net = at_most(CLIENTS_PER_NET, clients),
        .max_sweep = conf->limits.max_sweep,
        .max_spec_bytes = conf->limits.max_spec_bytes,
        .max_log_bytes = conf->limits.max_log_bytes,
        .notify_program = &conf->notify.program,
        .jobs_retention_s = conf->store.jobs_retention_s,
        .metrics_retention_s = conf->store.metrics_retention_s,
        .min_free_bytes = conf->store.min_free_bytes,
        .backup_dir = conf->store.backup.dir,
        .backup_every_s = conf->store.backup.every_s,
        .backup_keep = conf->store.backup.keep,
    };
    if (s->kind != DAEMON_LOCAL)
        set_slurm(conf, s, ret);
    /* A user's own daemon has no limit unless the user sets one. */
    ret->rpc_burst = conf->limits.rpc_burst;
    ret->rpc_rate = conf->limits.rpc_rate > 0 ? conf->limits.rpc_rate
                    : ret->serves_all         ? RPC_RATE
                                              : 0;
    int32_t of_one = conf->limits.max_clients_per_user;
    if (of_one == 0)
        of_one = ret->serves_all ? CLIENTS_PER_UID : CLIENTS_PER_NET;
    ret->max_clients_per_uid = at_most(of_one, clients);
}
