/* main.c - mgpu-ctld: names the concrete parts and puts them together.
 *
 * start: arguments, configuration, directories, store (and its lock),
 * allocator, daemon; stop: the reverse. Only here and in the daemon's own
 * files is anything logged.
 */
#include <event2/event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/log.h"
#include "jobs/base/version.h"
#include "jobs/conf.h"
#include "jobs/wire.h"
#include "scheduler/ctld/args.h"
#include "scheduler/ctld/ctld.h"
#include "scheduler/ctld/daemonpipe.h"
#include "scheduler/ctld/paths.h"

enum { PATH_CAP = 480, CLIENTS_PER_UID = 1024, NODES_CAP = 64 };
/* Descriptors for all that is no client: databases, logs, attempts. */
enum { OTHER_FDS = 512 };
/* An attempt whose start was not answered is asked for again after this. */
static const double RECONCILE_S = 5, KILL_GRACE_S = 30;

struct places {
    char state_dir[PATH_CAP], socket[PATH_CAP], worker[PATH_CAP],
        shepherd[PATH_CAP];
};

/* ---- configuration --------------------------------------------------------
 */

static int check_config(const char *path)
{
    struct conf conf;
    struct buf text = BUF_INIT;
    struct error err = ERROR_INIT;
    int rc = conf_load(path, &conf, &text, &err);
    (void)fputs(buf_str(&text), rc < 0 ? stderr : stdout);
    buf_clear(&text);
    if (rc < 0) {
        (void)fprintf(stderr, "mgpu-ctld: %s\n", err.msg);
        return error_exit_status(err.code);
    }
    conf_clear(&conf);
    (void)printf("%s: valid\n", path);
    return 0;
}

static int load_config(const char *path, struct conf *ret, struct error *err)
{
    struct buf text = BUF_INIT;
    if (!path)
        return conf_default(ret, err);
    int rc = conf_load(path, ret, &text, err);
    if (text.len > 0)
        (void)fputs(buf_str(&text), stderr);
    buf_clear(&text);
    return rc;
}

static int find_places(const struct args *a, const struct conf *conf,
                       struct places *ret, struct error *err)
{
    const char *state =
        a->state_dir ? a->state_dir : conf->controller.state_dir;
    const char *sock = a->socket ? a->socket : conf->controller.socket;
    if ((state ? paths_absolute(state, ret->state_dir, PATH_CAP, err)
               : paths_personal_state(ret->state_dir, PATH_CAP, err)) < 0)
        return -1;
    if ((sock ? paths_absolute(sock, ret->socket, PATH_CAP, err)
              : wire_personal_socket(ret->socket, PATH_CAP, err)) < 0)
        return -1;
    if (paths_program("mgpu-worker", ret->worker, PATH_CAP, err) < 0 ||
        paths_program("mgpu-shepherd", ret->shepherd, PATH_CAP, err) < 0 ||
        paths_private_dir(ret->state_dir, err) < 0)
        return -1;
    return paths_private_parent(ret->socket, err);
}

/* ---- parts ----------------------------------------------------------------
 */

/* MGPU_FAIL_STORE="N" or "N:after": the process kills itself at the store's
 * N-th call, before or after it (docs/ctld.md, "Testing"). */
static int add_fault(struct store **io, struct error *err)
{
    const char *text = getenv("MGPU_FAIL_STORE");
    if (!text || !*text)
        return 0;
    char *end = NULL;
    struct store_fault fault = {.n = strtoll(text, &end, 10), .kill = 1};
    fault.after = strcmp(end, ":after") == 0;
    if (fault.n < 1 || (*end && !fault.after))
        return error_set(err, ERR_CONFIG, "MGPU_FAIL_STORE='%s'", text);
    log_warn("ctld", "will be killed at a store call, as asked call=%lld",
             (long long)fault.n);
    return store_faulty_create(*io, &fault, io, err);
}

static int32_t n_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}

static int count_gpus(struct alloc *a, int32_t *ret, struct error *err)
{
    struct alloc_node nodes[NODES_CAP];
    size_t n = 0;
    *ret = 0;
    if (a->ops->inventory(a, nodes, NODES_CAP, &n, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        *ret += nodes[i].gpus_total;
    return 0;
}

/* The machine's GPUs; without any, slots on its cores. */
static int make_alloc(const struct args *a, const struct conf *conf,
                      const struct places *at, int64_t max_fds,
                      struct alloc **ret, struct error *err)
{
    int32_t gpus = 0, want = conf->local.gpus;
    struct alloc_local_conf local = {.mpirun = conf->local.mpirun,
                                     .shepherd = at->shepherd,
                                     .max_fds = max_fds};
    int32_t slots =
        conf->local.cpu_slots > 0 ? conf->local.cpu_slots : n_cores();
    if (a->slots > 0 || want == 0) {
        local.slots = a->slots > 0 ? a->slots : slots;
        return alloc_local_create(&local, ret, err);
    }
    if (alloc_local_create(&local, ret, err) < 0)
        return -1;
    int rc = count_gpus(*ret, &gpus, err);
    if (rc == 0 && want > 0 && want != gpus)
        rc = error_set(err, ERR_CONFIG,
                       "local.gpus is %d, but this machine has %d", want, gpus);
    if (rc == 0 && gpus > 0)
        return 0;
    (*ret)->ops->destroy(*ret);
    *ret = NULL;
    if (rc < 0)
        return -1;
    local.slots = slots;
    return alloc_local_create(&local, ret, err);
}

/* ---- one life -------------------------------------------------------------
 */

static int serve(const struct ctld_parts *parts, const struct places *at,
                 struct error *err)
{
    struct ctld *c = NULL;
    char log_file[PATH_CAP + 16];
    if (ctld_create(parts, &c, err) < 0)
        return -1;
    (void)snprintf(log_file, sizeof(log_file), "%s/ctld.log", at->state_dir);
    int rc = daemonpipe_ready(log_file, err);
    if (rc == 0) {
        log_notice("ctld",
                   "ready version=%s pid=%d socket=\"%s\" state_dir=\"%s\"",
                   MGPU_VERSION, (int)getpid(), at->socket, at->state_dir);
        rc = ctld_run(c, err);
    }
    ctld_destroy(c);
    return rc;
}

static struct alloc_where slurm_where(const struct conf *conf)
{
    return (struct alloc_where){
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

static void set_conf(const struct args *a, const struct conf *conf,
                     const struct places *at, struct ctld_conf *ret)
{
    int32_t clients = conf->controller.max_clients;
    *ret = (struct ctld_conf){
        .cluster = conf->cluster,
        .state_dir = at->state_dir,
        .user_jobs_dir = conf->controller.jobs_dir,
        .makes_dirs = true,
        .socket = at->socket,
        .worker = at->worker,
        .allocator = "local",
        .uid = (int64_t)geteuid(),
        .heartbeat_s = conf->watchdog.heartbeat_s,
        .node_lost_s = conf->watchdog.node_lost_after_s,
        .reconcile_s = RECONCILE_S,
        .kill_grace_s = KILL_GRACE_S,
        .interval_s = conf->scheduler.interval_s,
        .max_jobs_per_user = conf->limits.max_jobs_per_user,
        .max_clients = clients,
        .max_clients_per_uid =
            clients < CLIENTS_PER_UID ? clients : CLIENTS_PER_UID,
        .max_spec_bytes = conf->limits.max_spec_bytes,
        .max_log_bytes = conf->limits.max_log_bytes,
    };
    if (conf->allocator != ALLOCATOR_SLURM || a->local)
        return;
    ret->where = slurm_where(conf);
    ret->memory_per_gpu_bytes = conf->slurm.memory_per_gpu_bytes;
}

/* To what the daemon needs; returns what it was, for the jobs. They inherit
 * it otherwise, and what loops over all descriptors or calls select(2) fares
 * badly with a high one. */
static int64_t raise_max_fds(int32_t max_clients)
{
    struct rlimit fds;
    if (getrlimit(RLIMIT_NOFILE, &fds) < 0)
        return 0;
    rlim_t was = fds.rlim_cur, want = (rlim_t)max_clients + OTHER_FDS;
    fds.rlim_cur = want < fds.rlim_max ? want : fds.rlim_max;
    /* Refused: http_server.c lives with fewer. */
    if (was >= fds.rlim_cur || setrlimit(RLIMIT_NOFILE, &fds) < 0)
        return 0;
    return (int64_t)was;
}

static int run(const struct args *a, const struct conf *conf, struct error *err)
{
    struct places at;
    struct ctld_conf ctld;
    struct store *store = NULL;
    struct alloc *alloc = NULL;
    struct files *files = NULL;
    if (find_places(a, conf, &at, err) < 0)
        return -1;
    set_conf(a, conf, &at, &ctld);
    int64_t max_fds = raise_max_fds(ctld.max_clients);
    struct ctld_parts parts = {.clock = &clock_real,
                               .policy = policy_find(conf->scheduler.policy),
                               .conf = &ctld};
    if (!parts.policy)
        return error_set(err, ERR_CONFIG, "no policy '%s'",
                         conf->scheduler.policy);
    int rc = store_sqlite_open(at.state_dir, &store, err);
    if (rc == 0)
        rc = add_fault(&store, err);
    if (rc == 0)
        rc = make_alloc(a, conf, &at, max_fds, &alloc, err);
    if (rc == 0)
        rc = files_direct_create(&files, err);
    if (rc == 0) {
        parts.store = store;
        parts.alloc = alloc;
        parts.files = files;
        rc = serve(&parts, &at, err);
    }
    if (files)
        files->ops->destroy(files);
    if (alloc)
        alloc->ops->destroy(alloc);
    if (store)
        store->ops->destroy(store);
    return rc;
}

static void on_event_log(int severity, const char *msg)
{
    if (severity >= EVENT_LOG_WARN)
        log_warn("libevent", "%s", msg);
}

static void prepare_process(const struct conf *conf)
{
    (void)umask(077);
    (void)signal(SIGPIPE, SIG_IGN);
    log_set_level(conf->log.level);
    event_set_log_callback(on_event_log);
}

static int fail(const struct error *err)
{
    int status = error_exit_status(err->code);
    (void)fprintf(stderr, "mgpu-ctld: %s\n", err->msg);
    daemonpipe_failed(status);
    return status;
}

int main(int argc, char **argv)
{
    struct args a;
    struct conf conf;
    struct error err = ERROR_INIT;
    int rc = args_parse(argc, argv, &a, &err);
    if (rc < 0)
        return fail(&err);
    if (rc == ARGS_DONE)
        return fflush(stdout) == 0 ? 0 : error_exit_status(ERR_IO);
    if (a.check_config)
        return check_config(a.check_config);
    if (!a.local) {
        (void)error_set(&err, ERR_USAGE,
                        "--local is missing: this version serves one user on "
                        "one machine");
        return fail(&err);
    }
    if (load_config(a.config, &conf, &err) < 0)
        return fail(&err);
    prepare_process(&conf);
    rc = a.background ? daemonpipe_start(&err) : 0;
    if (rc == 0)
        rc = run(&a, &conf, &err);
    conf_clear(&conf);
    if (rc < 0)
        return fail(&err);
    log_notice("ctld", "stopped");
    libevent_global_shutdown();
    return 0;
}
