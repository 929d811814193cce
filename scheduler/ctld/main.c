/* main.c - mgpu-ctld: names the concrete parts and puts them together.
 *
 * start: arguments, configuration, directories, helper, identity, store (and
 * its lock), allocator, daemon; stop: the reverse. A system's daemon is root
 * until its helper runs, and never again. Only here and in the daemon's own
 * files is anything logged.
 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db/store_faulty.h"
#include "jobs/base/log.h"
#include "jobs/base/output.h"
#include "jobs/base/version.h"
#include "jobs/conf/conf.h"
#include "jobs/http/http_server.h"
#include "scheduler/ctld/args.h"
#include "scheduler/ctld/ctld.h"
#include "scheduler/ctld/maintenance/audit_log.h"
#include "scheduler/ctld/startup/allocator.h"
#include "scheduler/ctld/startup/daemonize.h"
#include "scheduler/ctld/startup/reload.h"
#include "scheduler/ctld/startup/sd_notify.h"
#include "scheduler/ctld/startup/setup.h"

enum { LOG_PATH_CAP = SETUP_PATH_CAP + 16 };
/* Descriptors for all that is no client: databases, logs, attempts. */
enum { OTHER_FDS = 512 };
/* Free bytes at the end of an arena go back to the system from here on, and a
 * block of so many always does. */
enum { MEMORY_KEPT = 1 << 20 };

/* ---- configuration --------------------------------------------------------
 */

/* As the findings of the file itself, where it has a place there. */
static void print_lack(const char *path, const struct setup_lack *lack,
                       const char *what)
{
    if (lack->line > 0)
        (void)fprintf(stderr, "%s:%d:%d: %s: %s\n", path, lack->line,
                      lack->column, what, lack->why->msg);
    else
        (void)fprintf(stderr, "mgpu-ctld: %s: %s\n", what, lack->why->msg);
}

static void print_wrong(void *arg, const struct setup_lack *lack)
{
    print_lack(*(const char **)arg, lack, "error");
}

static void print_doubt(void *arg, const struct setup_lack *lack)
{
    print_lack(*(const char **)arg, lack, "warning");
}

static int check_config(const char *path)
{
    struct conf conf;
    struct buf text = BUF_INIT;
    struct error err = ERROR_INIT;
    int rc = conf_load(path, &conf, &text, &err);
    (void)fputs(buf_str(&text), stderr); /* findings, warnings among them */
    if (rc < 0) {
        if (text.len == 0) /* else the findings end with their number */
            (void)fprintf(stderr, "mgpu-ctld: %s\n", err.msg);
        buf_clear(&text);
        return error_exit_status(err.code);
    }
    int n = setup_check(&conf, print_wrong, &path);
    (void)setup_doubts(&conf, print_doubt, &path);
    buf_reset(&text);
    rc = n > 0 ? error_set(&err, ERR_CONFIG, "%s lacks something here", path)
               : conf_print(&conf, &text, &err);
    if (rc == 0)
        (void)printf("%s# %s: valid\n", buf_str(&text), path);
    else if (n == 0)
        (void)fprintf(stderr, "mgpu-ctld: %s\n", err.msg);
    conf_clear(&conf);
    buf_clear(&text);
    return rc < 0 ? error_exit_status(err.code) : 0;
}

static void print_finding(void *arg, const char *finding)
{
    (void)arg;
    (void)printf("%s\n", finding);
}

static int check_all(const char *dir,
                     void (*each)(void *arg, const char *finding), void *arg)
{
    return store_sqlite_check(dir, each, arg) + audit_log_check(dir, each, arg);
}

/* Of a directory that no daemon need have. */
static int check_state(const char *dir)
{
    struct error err = ERROR_INIT;
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        (void)(errno == ENOENT
                   ? error_set(&err, ERR_NOTFOUND, "no such directory")
                   : error_sys(&err, errno, "open"));
        (void)fprintf(stderr, "mgpu-ctld: --fsck '%s': %s\n", dir, err.msg);
        return error_exit_status(err.code);
    }
    (void)close(fd);
    int n = check_all(dir, print_finding, NULL);
    if (n == 0)
        (void)printf("%s: sound\n", dir);
    return n == 0 ? 0 : error_exit_status(ERR_IO);
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

/* ---- parts ----------------------------------------------------------------
 */

/* MGPU_FAIL_STORE="N", "N:after" or "N:slow": the process kills itself at the
 * store's N-th call, before or after it, or two seconds into it (docs/ctld.md,
 * "Testing"). */
static int add_fault(struct store **io, struct error *err)
{
    const char *text = getenv("MGPU_FAIL_STORE");
    if (!text || !*text)
        return 0;
    char *end = NULL;
    struct store_fault fault = {.n = strtoll(text, &end, 10), .kill = 1};
    fault.after = strcmp(end, ":after") == 0;
    fault.slow_s = strcmp(end, ":slow") == 0 ? 2 : 0;
    if (fault.n < 1 || (*end && !fault.after && fault.slow_s <= 0))
        return error_set(err, ERR_CONFIG, "MGPU_FAIL_STORE='%s'", text);
    log_warn("ctld", "will be killed at a store call, as asked call=%lld",
             (long long)fault.n);
    return store_faulty_create(*io, &fault, io, err);
}

/* ---- one run of the daemon
 * -------------------------------------------------------------
 */

static void log_path(const struct setup *s, char ret[LOG_PATH_CAP])
{
    (void)snprintf(ret, LOG_PATH_CAP, "%s/ctld.log", s->state_dir);
}

static int serve(const struct ctld_parts *parts, const struct setup *s,
                 struct error *err)
{
    static const char *const modes[] = {[DAEMON_LOCAL] = "local",
                                        [DAEMON_PERSONAL] = "personal",
                                        [DAEMON_SYSTEM] = "system"};
    struct ctld *c = NULL;
    char log_file[LOG_PATH_CAP];
    if (ctld_create(parts, &c, err) < 0)
        return -1;
    log_path(s, log_file);
    enum conf_log_target to = parts->source->log.target;
    int rc = daemonize_ready(log_file, to == LOG_TO_FILE, err);
    if (rc == 0 && to == LOG_TO_JOURNAL && log_to_journal(LOG_JOURNAL) < 0)
        rc = error_sys(err, errno, "log.target: journal: '%s'", LOG_JOURNAL);
    if (rc == 0) {
        log_notice("ctld",
                   "ready version=%s pid=%d mode=%s uid=%ld socket=\"%s\" "
                   "state_dir=\"%s\"",
                   MGPU_VERSION, (int)getpid(), modes[s->kind], (long)geteuid(),
                   s->socket, s->state_dir);
        notify_say("READY=1");
        rc = ctld_run(c, err);
    }
    ctld_destroy(c);
    return rc;
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

#if HAVE_SLURM
/* Standard error of a helper whose daemon has none. */
static int open_log(const struct args *a, const struct conf *conf,
                    const struct setup *s, int *ret_fd, struct error *err)
{
    char path[LOG_PATH_CAP];
    *ret_fd = -1;
    if (!a->background && conf->log.target != LOG_TO_FILE)
        return 0;
    log_path(s, path);
    if (s->kind == DAEMON_SYSTEM)
        return privileges_open_log(path, &s->who, ret_fd, err);
    *ret_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                   0600);
    return *ret_fd < 0 ? error_sys(err, errno, "open '%s'", path) : 0;
}

/* While we are who may: the helper, and then, in system mode, the end of
 * that. */
static int start_helper(const struct args *a, const struct conf *conf,
                        const struct setup *s, struct slurm_helper *ret,
                        struct error *err)
{
    bool is_system = s->kind == DAEMON_SYSTEM;
    int log_fd = -1;
    if (s->kind == DAEMON_LOCAL)
        return 0;
    if (!is_system && geteuid() == 0)
        log_notice("ctld", "serves root only: controller.user is not set");
    if (open_log(a, conf, s, &log_fd, err) < 0)
        return -1;
    int rc = slurm_helper_start(conf, is_system ? SLURM_SYSTEM : SLURM_PERSONAL,
                                s->worker, log_fd, ret, err);
    if (log_fd >= 0)
        (void)close(log_fd);
    if (rc == 0 && is_system)
        rc = privileges_become(&s->who, err);
    return rc;
}

static int compose(const struct args *a, const struct conf *conf,
                   struct slurm_helper *h, int64_t max_fds, struct compose *ret,
                   struct error *err)
{
    return h->pid > 0 ? compose_slurm(conf, h, ret, err)
                      : compose_local(conf, a->slots, max_fds, ret, err);
}
#else /* setup_find() has refused anything but a local daemon */
static int start_helper(const struct args *a, const struct conf *conf,
                        const struct setup *s, struct slurm_helper *ret,
                        struct error *err)
{
    (void)a, (void)conf, (void)s, (void)ret, (void)err;
    return 0;
}

static int compose(const struct args *a, const struct conf *conf,
                   struct slurm_helper *h, int64_t max_fds, struct compose *ret,
                   struct error *err)
{
    (void)h;
    return compose_local(conf, a->slots, max_fds, ret, err);
}
#endif

/* A start that a damaged database prevents: what to do. The words are SQLite's
 * and of db/sqlite/schema_sqlite.c. */
static void advise_damage(const char *dir, const char *backup,
                          const struct error *err)
{
    static const char *const words[] = {"damaged", "malformed",
                                        "not a database"};
    bool is_damage = false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        is_damage = is_damage || strstr(err->msg, words[i]) != NULL;
    if (!is_damage)
        return;
    (void)fprintf(stderr,
                  "mgpu-ctld: 'mgpu-ctld --fsck %s' lists the damage; "
                  "RESTORING in mgpu-admin(8) tells how to start from a "
                  "backup%s%s\n",
                  dir, backup ? ", newest first in " : "",
                  backup ? backup : "");
}

static int live(const struct args *a, const struct conf *conf,
                const struct setup *s, struct slurm_helper *h,
                struct error *err)
{
    struct ctld_conf ctld;
    struct compose parts = {.alloc = NULL};
    struct store *store = NULL;
    struct reload *reload = NULL;
    setup_ctld(conf, s, &ctld);
    int64_t max_fds = raise_max_fds(ctld.max_clients);
    int rc = store_sqlite_open(s->state_dir, &store, err);
    if (rc < 0)
        advise_damage(s->state_dir, conf->store.backup.dir, err);
    if (rc == 0)
        rc = add_fault(&store, err);
    if (rc == 0)
        rc = compose(a, conf, h, max_fds, &parts, err);
    if (rc == 0)
        rc = reload_create(a, conf, s, &reload, err);
    if (rc == 0) {
        struct ctld_parts all = {.clock = &clock_real,
                                 .policy = policy_find(conf->scheduler.policy),
                                 .alloc = parts.alloc,
                                 .store = store,
                                 .files = parts.files,
                                 .helper = parts.helper,
                                 .conf = &ctld,
                                 .source = conf,
                                 .reload = reload_run,
                                 .reloaded = reload_keep,
                                 .reload_arg = reload,
                                 .reopen_log = daemonize_reopen,
                                 .backup = store_sqlite_backup,
                                 .damage = store_sqlite_damage,
                                 .check = check_all};
        rc = serve(&all, s, err);
    }
    compose_clear(&parts);
    reload_destroy(reload);
    if (store)
        store->ops->destroy(store);
    return rc;
}

static int run(const struct args *a, const struct conf *conf, struct error *err)
{
    struct setup s;
    struct slurm_helper helper = {.pid = 0};
    if (a->background && conf->log.target == LOG_TO_STDERR)
        return error_set(err, ERR_CONFIG,
                         "log.target: stderr: there is none in the background; "
                         "start with --foreground, or write to file or "
                         "journal");
    if (setup_find(a, conf, &s, err) < 0)
        return -1;
    /* Who is refused leaves nothing behind. */
    int rc = http_server_may_listen_unix(s.socket, err);
    if (rc == 0)
        rc = setup_dirs(&s, err);
    if (rc == 0)
        rc = start_helper(a, conf, &s, &helper, err);
    if (rc == 0)
        rc = live(a, conf, &s, &helper, err);
    slurm_helper_clear(&helper);
    setup_clear(&s);
    return rc;
}

static void on_event_log(int severity, const char *msg)
{
    if (severity < EVENT_LOG_WARN)
        return;
    log_warn("libevent", "%s", msg);
    http_server_look_again();
}

/* Each thread has an arena. Left to itself glibc keeps in each of them twice
 * the largest block that was ever freed, for as long as the process runs, which
 * may be months. */
static void bound_free_memory(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, MEMORY_KEPT);
    (void)mallopt(M_TRIM_THRESHOLD, MEMORY_KEPT);
}

static void prepare_process(const struct conf *conf)
{
    bound_free_memory();
    (void)umask(077);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL); /* who ignores it, learns no exit code */
    log_set_level(conf->log.level);
    log_set_format(conf->log.format);
    event_set_log_callback(on_event_log);
}

static int fail(const struct error *err)
{
    int status = error_exit_status(err->code);
    /* Of memory most say only for what. */
    bool is_bare = err->code == ERR_NOMEM && !strstr(err->msg, "memory");
    (void)fprintf(stderr, "%smgpu-ctld: %s%s\n", log_prefix(LOG_ERR),
                  is_bare ? "out of memory: " : "", err->msg);
    daemonize_failed(status);
    return status;
}

/* What was printed is all that was asked for. */
static int printed(int status)
{
    struct error err = ERROR_INIT;
    if (output_close(stdout, &err) < 0 && status == 0) {
        (void)fprintf(stderr, "mgpu-ctld: %s\n", err.msg);
        status = error_exit_status(err.code);
    }
    return status;
}

int main(int argc, char **argv)
{
    struct args a;
    struct conf conf;
    struct error err = ERROR_INIT;
    output_reserve();
    output_quiet_pipe();
    int rc = args_parse(argc, argv, &a, &err);
    if (rc == ARGS_DONE)
        return printed(0);
    if (rc == 0 && a.check_config)
        return printed(check_config(a.check_config));
    if (rc == 0 && a.fsck)
        return printed(check_state(a.fsck));
    (void)signal(SIGPIPE, SIG_IGN);
    if (rc < 0)
        return fail(&err);
    if (load_config(a.config, &conf, &err) < 0)
        return fail(&err);
    prepare_process(&conf);
    notify_init();
    /* What root has open, whoever started us, is not for those that this
     * process and its children become. */
    if (geteuid() == 0)
        closefrom(STDERR_FILENO + 1);
    rc = a.background ? daemonize_start(&err) : 0;
    if (rc == 0)
        rc = run(&a, &conf, &err);
    conf_clear(&conf);
    if (rc < 0)
        return fail(&err);
    log_notice("ctld", "stopped");
    libevent_global_shutdown();
    return 0;
}
