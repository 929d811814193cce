/* rig.h - a daemon in a thread, with a store in a directory of its own and an
 * allocator that does what the test says. The test is the worker and the user.
 */
#ifndef MGPU_TESTS_UNIT_CTLD_RIG_H
#define MGPU_TESTS_UNIT_CTLD_RIG_H

#include <ftw.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db/metric_store.h"
#include "db/store_faulty.h"
#include "jobs/http/http_client.h"
#include "scheduler/ctld/ctld.h"
#include "tests/no_sync.h"
#include "tests/tap.h"

/* Ends what hangs; a sanitizer on a busy machine takes more than a minute for a
 * thousand jobs. */
enum { RIG_WAIT_S = 600 };

/* ---- an allocator on strings ----------------------------------------------
 */

struct puppet {
    struct alloc base;
    pthread_mutex_t lock;
    int fd;
    struct alloc_note notes[64];
    size_t n_notes;
    _Atomic bool ends_at_once; /* whatever is granted exits with 0 */
    /* Of the last request for the newest job: who comes back asks again for
     * every job that runs, in no order a test should know. */
    char token[65], dir[512], url[256];
    uint64_t newest;
    int n_requests;
    const char *address; /* of the node; NULL: not known */
    const char *place;   /* that is granted; NULL: "n1:0" */
    const char *wait;    /* what it waits for instead of being granted */
    double expected_s;   /* until when, since 1970; 0: not known */
    const struct alloc_node *nodes; /* NULL: one of 4 slots */
    size_t n_nodes;
    _Atomic bool is_away; /* there is no inventory */
};

static inline int puppet_inventory(struct alloc *a, struct alloc_node *nodes,
                                   size_t cap, size_t *ret_n, struct error *err)
{
    struct puppet *p = (struct puppet *)a;
    (void)cap;
    if (p->is_away)
        return error_set(err, ERR_UNAVAIL, "no answer from the puppet");
    if (p->nodes) {
        pthread_mutex_lock(&p->lock);
        memcpy(nodes, p->nodes, p->n_nodes * sizeof(*nodes));
        *ret_n = p->n_nodes;
        pthread_mutex_unlock(&p->lock);
        return 0;
    }
    nodes[0] = (struct alloc_node){.name = "n1",
                                   .gpu_type = "slot",
                                   .gpus_total = 4,
                                   .gpus_free = 4,
                                   .is_up = 1};
    if (p->address)
        (void)snprintf(nodes[0].address, sizeof(nodes[0].address), "%s",
                       p->address);
    *ret_n = 1;
    return 0;
}

static inline void puppet_note(struct puppet *p, const struct alloc_note *note)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&p->lock);
    p->notes[p->n_notes++] = *note;
    pthread_mutex_unlock(&p->lock);
    (void)!write(p->fd, &one, sizeof(one));
}

static inline int puppet_request(struct alloc *a, const struct alloc_req *req,
                                 struct error *err)
{
    struct puppet *p = (struct puppet *)a;
    struct alloc_note note = {.kind = ALLOC_GRANTED,
                              .job = req->job,
                              .attempt = req->attempt,
                              .native_id = "pid:7"};
    if (p->wait) {
        note.kind = ALLOC_WAITING;
        note.expected_s = p->expected_s;
        (void)error_set(&note.why, ERR_BUSY, "%s", p->wait);
    }
    json_t *o = json_loads(req->launch, 0, NULL);
    (void)err;
    if (!p->wait)
        (void)snprintf(note.place, sizeof(note.place), "%s",
                       p->place ? p->place : "n1:0");
    pthread_mutex_lock(&p->lock);
    if (req->job >= p->newest) {
        p->newest = req->job;
        (void)snprintf(p->token, sizeof(p->token), "%s",
                       json_string_value(json_object_get(o, "token")));
        (void)snprintf(p->url, sizeof(p->url), "%s",
                       json_string_value(json_object_get(o, "url")));
        (void)snprintf(p->dir, sizeof(p->dir), "%s", req->dir);
    }
    p->n_requests++;
    pthread_mutex_unlock(&p->lock);
    json_decref(o);
    (void)mkdir(req->dir, 0700);
    puppet_note(p, &note);
    if (p->ends_at_once) {
        note.kind = ALLOC_EXITED;
        puppet_note(p, &note);
    }
    return 0;
}

static inline int puppet_release(struct alloc *a, uint64_t job, int32_t attempt,
                                 double grace_s, struct error *err)
{
    struct alloc_note note = {
        .kind = ALLOC_EXITED, .job = job, .attempt = attempt, .signal = 15};
    (void)grace_s;
    (void)err;
    puppet_note((struct puppet *)a, &note);
    return 0;
}

static inline int puppet_signal(struct alloc *a, uint64_t job, int32_t attempt,
                                int signo, struct error *err)
{
    (void)a;
    (void)job;
    (void)attempt;
    (void)signo;
    (void)err;
    return 0;
}

static inline int puppet_poll(struct alloc *a, struct alloc_note *notes,
                              size_t cap, size_t *ret_n, struct error *err)
{
    struct puppet *p = (struct puppet *)a;
    uint64_t n = 0;
    (void)err;
    (void)!read(p->fd, &n, sizeof(n));
    pthread_mutex_lock(&p->lock);
    *ret_n = p->n_notes < cap ? p->n_notes : cap;
    memcpy(notes, p->notes, *ret_n * sizeof(*notes));
    p->n_notes = 0;
    pthread_mutex_unlock(&p->lock);
    return 0;
}

static inline int puppet_wake_fd(struct alloc *a)
{
    return ((struct puppet *)a)->fd;
}

static inline void puppet_destroy(struct alloc *a)
{
    (void)close(((struct puppet *)a)->fd);
}

static const struct alloc_ops puppet_ops = {
    .name = "puppet",
    .inventory = puppet_inventory,
    .request = puppet_request,
    .release = puppet_release,
    .signal = puppet_signal,
    .poll = puppet_poll,
    .wake_fd = puppet_wake_fd,
    .destroy = puppet_destroy,
};

/* ---- the rig --------------------------------------------------------------
 */

struct rig {
    char dir[64], socket[96], url[112];
    struct puppet alloc;
    struct store *store;
    struct files *files;
    struct files *slow_files;    /* NULL: the files of its directory */
    struct metric_store_ops ops; /* those of a store whose rows() fails */
    bool refuses_rows;           /* it is one */
    _Atomic int n_refused;       /* calls of it */
    /* Operations instead of the store's, or NULL. */
    const struct event_store_ops *(*wrap_store)(
        const struct event_store_ops *ops);
    const struct metric_store_ops *(*wrap_metrics)(
        const struct metric_store_ops *ops);
    const struct clock *clock; /* NULL: the real one */
    struct ctld_conf conf;
    void (*tweak)(struct ctld_conf *conf); /* or NULL */
    /* By SIGHUP, on top of conf; NULL: there is nothing to be read. */
    void (*retweak)(struct ctld_conf *conf);
    _Atomic int n_reloads;
    struct ctld *ctld;
    pthread_t thread;
    struct http_client *http;
    struct buf body;
};

static inline void *rig_main(void *arg)
{
    struct error err = ERROR_INIT;
    if (ctld_run(((struct rig *)arg)->ctld, &err) < 0)
        tap_diag("%s", err.msg);
    return NULL;
}

static inline int rig_reload(void *arg, bool reads_file,
                             const struct spec_set *sets, size_t n,
                             struct ctld_fresh *ret, struct error *err)
{
    struct rig *r = arg;
    (void)reads_file;
    (void)sets;
    (void)n;
    (void)err;
    *ret = (struct ctld_fresh){.conf = r->conf, .policy = policy_find("fifo")};
    r->retweak(&ret->conf);
    return 0;
}

static inline void rig_reloaded(void *arg)
{
    ((struct rig *)arg)->n_reloads++;
}

static struct rig *refusing; /* the one whose store refuses rows */

static inline int rig_refuse_rows(struct store *s, uint64_t job,
                                  int32_t attempt,
                                  const struct metric_row *rows, size_t n,
                                  size_t *ret_new, struct error *err)
{
    (void)s;
    (void)job;
    (void)attempt;
    (void)rows;
    (void)n;
    (void)ret_new;
    refusing->n_refused++;
    return error_set(err, ERR_IO, "metrics.db is damaged");
}

/* A daemon on what the last one left. `fault` as in store_faulty.h, or NULL. */
static inline void rig_up(struct rig *r, const struct store_fault *fault)
{
    struct error err = ERROR_INIT;
    struct http_client_conf http = {
        .url = r->url, .connect_timeout_s = 60, .timeout_s = RIG_WAIT_S};
    r->alloc.base.ops = &puppet_ops;
    r->alloc.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    r->conf = (struct ctld_conf){.cluster = "test",
                                 .state_dir = r->dir,
                                 .makes_dirs = true,
                                 .socket = r->socket,
                                 .worker = "/bin/true",
                                 .allocator = "puppet",
                                 .uid = (int64_t)getuid(),
                                 .heartbeat_s = 10,
                                 .node_lost_s = 90,
                                 .reconcile_s = 5,
                                 .kill_grace_s = 1,
                                 .interval_s = 1,
                                 .max_jobs_per_user = 4000,
                                 .max_clients = 64,
                                 .max_clients_per_uid = 64,
                                 .max_spec_bytes = 65536,
                                 .max_log_bytes = 1 << 30};
    if (r->tweak)
        r->tweak(&r->conf);
    if (store_sqlite_open(r->dir, &r->store, &err) < 0 ||
        files_direct_create(&r->files, &err) < 0 ||
        (fault && store_faulty_create(r->store, fault, &r->store, &err) < 0)) {
        tap_diag("%s", err.msg);
        exit(1);
    }
    if (r->refuses_rows) {
        refusing = r;
        r->ops = *r->store->metrics;
        r->ops.rows = rig_refuse_rows;
        r->store->metrics = &r->ops;
    }
    if (r->wrap_store)
        r->store->ops = r->wrap_store(r->store->ops);
    if (r->wrap_metrics)
        r->store->metrics = r->wrap_metrics(r->store->metrics);
    struct ctld_parts parts = {.clock = r->clock ? r->clock : &clock_real,
                               .policy = policy_find("fifo"),
                               .alloc = &r->alloc.base,
                               .store = r->store,
                               .files =
                                   r->slow_files ? r->slow_files : r->files,
                               .conf = &r->conf,
                               .reload = r->retweak ? rig_reload : NULL,
                               .reloaded = rig_reloaded,
                               .reload_arg = r};
    if (ctld_create(&parts, &r->ctld, &err) < 0 ||
        http_client_create(&http, &r->http, &err) < 0) {
        tap_diag("%s", err.msg);
        exit(1);
    }
    (void)pthread_create(&r->thread, NULL, rig_main, r);
}

static inline void rig_gone(struct rig *r)
{
    (void)pthread_join(r->thread, NULL);
    ctld_destroy(r->ctld);
    http_client_destroy(r->http);
    r->store->ops->destroy(r->store);
    r->files->ops->destroy(r->files);
    r->alloc.base.ops->destroy(&r->alloc.base);
}

/* SIGTERM, as a service manager would. */
static inline void rig_down(struct rig *r)
{
    (void)kill(getpid(), SIGTERM);
    rig_gone(r);
}

static inline void rig_init(struct rig *r)
{
    memset(r, 0, sizeof(*r));
    (void)snprintf(r->dir, sizeof(r->dir), "/tmp/mgpu-ctld.XXXXXX");
    if (!mkdtemp(r->dir))
        exit(1);
    (void)snprintf(r->socket, sizeof(r->socket), "%s/sock", r->dir);
    (void)snprintf(r->url, sizeof(r->url), "unix:%s", r->socket);
    (void)pthread_mutex_init(&r->alloc.lock, NULL);
}

static inline int rig_unlink(const char *path, const struct stat *st, int kind,
                             struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static inline void rig_clear(struct rig *r)
{
    buf_clear(&r->body);
    (void)nftw(r->dir, rig_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- speaking -------------------------------------------------------------
 */

/* The status; the reply is in r->body. Negative: the error's code. */
static inline int call(struct rig *r, const char *method, const char *path,
                       const char *body, const char *key)
{
    struct http_request req = {.method = method,
                               .path = path,
                               .body = body,
                               .body_len = body ? strlen(body) : 0,
                               .idempotency_key = key};
    struct error err = ERROR_INIT;
    int status = 0;
    buf_reset(&r->body);
    if (http_client_call(r->http, &req, &status, &r->body, &err) < 0) {
        tap_diag("%s %s: %s", method, path, err.msg);
        return -(int)err.code;
    }
    return status;
}

/* A submit of a sweep of so many tasks. own  ret: buf_clear() */
static inline void sweep_text(struct buf *ret, const char *name, int tasks)
{
    int rc = buf_addf(ret, NULL,
                      "{\"spec\":{\"version\":1,\"kind\":\"command\",\"name\":"
                      "\"%s\",\"command\":[\"true\"],\"sweep\":{\"grid\":"
                      "{\"env.I\":[0",
                      name);
    for (int i = 1; rc == 0 && i < tasks; i++)
        rc = buf_addf(ret, NULL, ",%d", i);
    if (rc < 0 || buf_addstr(ret, "]}}}}", NULL) < 0)
        exit(1);
}

static inline int get(struct rig *r, const char *path)
{
    return call(r, "GET", path, NULL, NULL);
}

static inline bool has(const struct rig *r, const char *text)
{
    return strstr(buf_str(&r->body), text) != NULL;
}

/* As the worker of the last request. */
static inline int as_worker(struct rig *r, const char *what, const char *body)
{
    struct http_client *mine = r->http;
    char path[128], token[65];
    struct http_client_conf conf = {.url = r->url,
                                    .bearer = token,
                                    .connect_timeout_s = 60,
                                    .timeout_s = RIG_WAIT_S};
    pthread_mutex_lock(&r->alloc.lock);
    memcpy(token, r->alloc.token, sizeof(token));
    pthread_mutex_unlock(&r->alloc.lock);
    if (http_client_create(&conf, &r->http, NULL) < 0)
        exit(1);
    (void)snprintf(path, sizeof(path), "/v1/attempts/%s", what);
    int status = call(r, "POST", path, body, NULL);
    http_client_destroy(r->http);
    r->http = mine;
    return status;
}

/* Until GET path has `text` in it; 60 s at most. */
static inline bool becomes(struct rig *r, const char *path, const char *text)
{
    for (int i = 0; i < 3000; i++) {
        if (get(r, path) == 200 && has(r, text))
            return true;
        (void)poll(NULL, 0, 20);
    }
    tap_diag("%s: %s", path, buf_str(&r->body));
    return false;
}

static inline void put_file(struct rig *r, const char *name, const char *text,
                            size_t len)
{
    char path[640];
    pthread_mutex_lock(&r->alloc.lock);
    (void)snprintf(path, sizeof(path), "%s/%s", r->alloc.dir, name);
    pthread_mutex_unlock(&r->alloc.lock);
    FILE *f = fopen(path, "w");
    if (!f || fwrite(text, 1, len, f) != len || fclose(f) != 0)
        exit(1);
}

static inline void exits(struct rig *r, uint64_t job, int code)
{
    struct alloc_note note = {
        .kind = ALLOC_EXITED, .job = job, .attempt = 1, .exit_code = code};
    puppet_note(&r->alloc, &note);
}

#define SPEC(name)                                                         \
    "{\"spec\":{\"version\":1,\"kind\":\"command\",\"name\":\"" name "\"," \
    "\"command\":[\"true\"]}}"

#endif
