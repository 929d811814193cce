/* others.h - an administrator who changes the configuration and takes backups,
 * and a stranger.
 *
 * One administrator at a time, so that history.conf is in the order in which
 * it happened. A version is told by limits.max_jobs_per_user, which is never
 * reached, and by the policy: a bad file has a version too, and would show it.
 */
#ifndef MGPU_TESTS_CRASH_OTHERS_H
#define MGPU_TESTS_CRASH_OTHERS_H

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/crash/world.h"

enum { VERSION_0 = 100000, STRANGER = 65534 };

/* ---- the file --------------------------------------------------------------
 */
static inline const char *policy_of(int version)
{
    return version % 2 ? "fifo" : "backfill";
}

/* Valid until the line that is not; each kind is found by another check. */
static inline const char *wrong_line(int version)
{
    static const char *const lines[] = {
        "limits: {max_jobs_per_user: ", "no_such_key: 1\n",
        "log: {level: loud}\n", "auth: {admins: [nobody-of-that-name]}\n",
        "watchdog: {heartbeat: 2h}\n"};
    return lines[(size_t)version % (sizeof(lines) / sizeof(lines[0]))];
}

/* All of it at once: a daemon that reads meanwhile reads the one or the
 * other. */
static inline void conf_write(struct world *w, bool is_good)
{
    char fresh[PATH_CAP + 8];
    int v = w->h.version + 1;
    (void)snprintf(fresh, sizeof(fresh), "%s.new", w->conf);
    FILE *f = fopen(fresh, "w");
    bool is_there =
        f && fchmod(fileno(f), 0600) == 0 &&
        fprintf(f,
                "version: 1\nscheduler: {policy: %s}\n"
                "limits: {max_jobs_per_user: %d}\n%s",
                policy_of(v), VERSION_0 + v, is_good ? "" : wrong_line(v)) > 0;
    if (f && fclose(f) != 0)
        is_there = false;
    if (!is_there || rename(fresh, w->conf) < 0) {
        perror(fresh);
        world_signal(w, SIGKILL);
        exit(1);
    }
    w->h.version = v;
    note_conf(&w->h, is_good ? CONF_GOOD : CONF_BAD, v);
}

/* in  stays  whatever it is now, so that a daemon may have to refuse it */
static inline void conf_before_start(struct world *w, bool stays)
{
    const struct history *h = &w->h;
    bool is_bad = h->n_conf == 0;
    for (size_t i = 0; i < h->n_conf; i++)
        if (h->conf[i].did == CONF_GOOD || h->conf[i].did == CONF_BAD)
            is_bad = h->conf[i].did == CONF_BAD;
    if (is_bad && (h->n_conf == 0 || !stays))
        conf_write(w, true);
}

/* ---- the administrator -----------------------------------------------------
 */
static inline void admin_file(struct client *c, bool is_good)
{
    conf_write(c->w, is_good);
}

static inline void admin_hup(struct client *c)
{
    note_conf(&c->w->h, CONF_HUP, 0);
    world_signal(c->w, SIGHUP);
}

static inline void admin_reload(struct client *c)
{
    struct history *h = &c->w->h;
    int status = call(c, "POST", NULL, "/v1/admin/reload");
    if (status == 200)
        h->told[DEED_RELOAD]++;
    note_conf(h,
              status == 200                  ? CONF_TAKEN
              : status == 0 || status == 503 ? CONF_HUP /* perhaps */
                                             : CONF_REFUSED,
              0);
}

/* The text after `key` in the reply; "": it is not there. */
static inline const char *after(const struct client *c, const char *key)
{
    const char *at = strstr(buf_str(&c->reply), key);
    return at ? at + strlen(key) + strspn(at + strlen(key), ": \"") : "";
}

/* Notes what is in force. Returns whether that is what is in the file. */
static inline bool shows_file(struct client *c)
{
    struct history *h = &c->w->h;
    if (call(c, "GET", NULL, "/v1/policy") != 200)
        return false;
    const char *key = after(c, "\"limits.max_jobs_per_user\"");
    const char *value = strstr(key, "\"value\"");
    long n =
        value ? strtol(value + 7 + strspn(value + 7, ": \""), NULL, 10) : 0;
    int v = n > VERSION_0 ? (int)(n - VERSION_0) : 0;
    const char *policy = policy_of(v);
    bool is_whole =
        strncmp(after(c, "\"policy\""), policy, strlen(policy)) == 0;
    note_conf(h, CONF_SHOWN, is_whole ? v : 0);
    return v == h->version;
}

static inline bool says_refused(struct client *c)
{
    return call(c, "GET", NULL, "/v1/status") == 200 &&
           strncmp(after(c, "\"is_ok\""), "false", 5) == 0;
}

/* How long its loop stood still. */
static inline void admin_look(struct client *c)
{
    if (call(c, "GET", NULL, "/v1/status") == 200)
        c->w->h.life =
            (struct life){.own_s = strtod(after(c, "\"longest_own_s\""), NULL),
                          .waited_s = strtod(after(c, "\"waited_s\""), NULL)};
}

static inline void admin_resume(struct client *c)
{
    (void)call(c, "POST", NULL, "/v1/admin/resume");
}

/* What was so already is not done again: only an answer with these words is
 * of this deed. */
static inline void admin_pause(struct client *c)
{
    struct history *h = &c->w->h;
    char why[24];
    (void)snprintf(why, sizeof(why), "pause-%d", h->told[DEED_PAUSE]);
    if (buf_addf(&c->body, NULL, "{\"why\":\"%s\"}", why) < 0 ||
        call(c, "POST", NULL, "/v1/admin/pause") != 200 ||
        !strstr(buf_str(&c->reply), why))
        return;
    h->told[DEED_PAUSE]++;
    if (call(c, "POST", NULL, "/v1/admin/resume") == 200)
        h->told[DEED_RESUME]++;
}

/* Of our own making alone, and not through links. */
static inline void remove_dir(const char *dir)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)execlp("rm", "rm", "-rf", "--", dir, (char *)NULL);
        _exit(127);
    }
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
}

/* While all the others go on. What a life that was ended in the middle has
 * left of one is the next one's to remove. */
static inline void admin_backup(struct client *c)
{
    struct world *w = c->w;
    struct kept *k = &w->h.kept;
    k->is_there = false;
    remove_dir(w->copy);
    pthread_mutex_lock(&w->h.lock);
    k->n = w->h.n;
    memcpy(k->jobs, w->h.jobs, k->n * sizeof(*k->jobs));
    pthread_mutex_unlock(&w->h.lock);
    if (buf_addf(&c->body, NULL, "{\"dir\":\"%s\"}", w->copy) < 0)
        return;
    int status = call(c, "POST", NULL, "/v1/admin/backup");
    k->is_there = status == 200;
    w->h.told[DEED_BACKUP] += status == 200;
    if (status != 200 && status != 0 && status != 503)
        heed(&w->h, "F07", buf_str(&c->reply), 0);
}

static inline void *administer(void *arg)
{
    struct client *c = arg;
    (void)shows_file(c);
    admin_resume(c);
    while (!atomic_load(&c->w->is_over) &&
           c->w->h.n_conf + 8 < CONF_NOTES_MAX) {
        switch (draw(&c->rng, 9)) {
        case 0:
        case 1:
        case 2:
            admin_file(c, draw(&c->rng, 2) == 0);
            if (draw(&c->rng, 2) == 0)
                admin_hup(c);
            else
                admin_reload(c);
            break;
        case 3:
        case 4:
        case 5:
            (void)shows_file(c);
            break;
        case 6:
            admin_pause(c);
            break;
        case 7:
            admin_backup(c);
            break;
        default:
            admin_look(c);
        }
        nap((int)draw(&c->rng, 8));
    }
    return NULL;
}

/* ---- the stranger ----------------------------------------------------------
 */
/* The kernel names the caller: without this a stranger does not come as far
 * as to be refused. Only root can be somebody else. */
static inline void strangers_let_in(const struct world *w)
{
    if (geteuid() == 0 && chmod(w->sock, 0666) < 0)
        perror(w->sock);
}

/* This thread alone; glibc's call would take all of them along. */
static inline bool become(uid_t uid)
{
    return syscall(SYS_setresuid, (uid_t)-1, uid, (uid_t)-1) == 0;
}

static inline uint64_t any_job(struct client *c)
{
    struct history *h = &c->w->h;
    uint64_t id = 0;
    pthread_mutex_lock(&h->lock);
    if (h->n > 0)
        id = h->jobs[draw(&c->rng, (uint32_t)h->n)].id;
    pthread_mutex_unlock(&h->lock);
    return id > 0 ? id : 1;
}

static inline void intrude_once(struct client *c)
{
    static const struct {
        const char *method, *path, *body; /* of the job, or from /v1/ */
    } tries[] = {{"POST", "/cancel", "{}"},
                 {"POST", "/hold", ""},
                 {"POST", "/release", ""},
                 {"POST", "/requeue", ""},
                 {"POST", "/priority", "{\"priority\":9}"},
                 {"GET", "", ""},
                 {"GET", "/events", ""},
                 {"POST", "/v1/admin/pause", "{\"why\":\"stranger\"}"},
                 {"POST", "/v1/admin/reload", ""},
                 {"POST", "/v1/jobs",
                  "{\"spec\":{\"version\":1,\"kind\":\"command\",\"name\":"
                  "\"s\",\"command\":[\"true\"],\"resources\":{\"gpus\":1}}}"}};
    struct history *h = &c->w->h;
    size_t k = draw(&c->rng, sizeof(tries) / sizeof(tries[0]));
    uint64_t id = any_job(c);
    if (buf_addf(&c->body, NULL, "%s", tries[k].body) < 0)
        return;
    int status = strncmp(tries[k].path, "/v1/", 4) == 0
                     ? call(c, tries[k].method, NULL, "%s", tries[k].path)
                     : call(c, tries[k].method, NULL, "/v1/jobs/%" PRIu64 "%s",
                            id, tries[k].path);
    if (status > 0 && status != 503) /* it is up to no request */
        h->strange[h->n_strange++] = (struct strange){id, status};
}

static inline void *intrude(void *arg)
{
    struct client *c = arg;
    if (geteuid() != 0 || !become(STRANGER))
        return NULL;
    while (!atomic_load(&c->w->is_over) && c->w->h.n_strange < STRANGERS_MAX) {
        intrude_once(c);
        nap((int)draw(&c->rng, 8));
    }
    (void)become(0);
    return NULL;
}

#endif
