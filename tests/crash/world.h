/* world.h - the daemon of a run and its state, and one who asks it. */
#ifndef MGPU_TESTS_CRASH_WORLD_H
#define MGPU_TESTS_CRASH_WORLD_H

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "jobs/base/rng.h"
#include "jobs/http/http_client.h"
#include "tests/crash/history.h"

enum { PATH_CAP = 128 };

struct world {
    char dir[64], state[PATH_CAP], sock[PATH_CAP], url[PATH_CAP], ran[PATH_CAP],
        log[PATH_CAP], conf[PATH_CAP], copy[PATH_CAP];
    const char *bin;
    uint32_t seed;
    pthread_mutex_t daemon_lock; /* around what reaps it, and what signals it */
    pid_t daemon;
    atomic_bool is_over; /* of the round: clients go home */
    atomic_int submits_left, n_answers;
    struct history h;
    struct rng rng; /* the main thread's */
};

static inline uint32_t draw(struct rng *r, uint32_t n)
{
    return rng_u32(r) % n;
}

static inline void nap(int ms)
{
    (void)poll(NULL, 0, ms);
}

/* None is sent to whoever has its number after it. */
static inline void world_signal(struct world *w, int sig)
{
    pthread_mutex_lock(&w->daemon_lock);
    if (w->daemon > 1)
        (void)kill(w->daemon, sig);
    pthread_mutex_unlock(&w->daemon_lock);
}

/* ---- clients ---------------------------------------------------------------
 */
struct client {
    struct world *w; /* borrowed */
    pthread_t thread;
    struct rng rng;
    struct http_client *http; /* owned */
    struct buf body, reply;
};

/* The status, or 0: no answer. */
static inline int call(struct client *c, const char *method, const char *key,
                       const char *where, ...)
    __attribute__((format(printf, 4, 5)));
static inline int call(struct client *c, const char *method, const char *key,
                       const char *where, ...)
{
    char at[96];
    int status = 0;
    struct error err = ERROR_INIT;
    struct http_request req = {.method = method,
                               .path = at,
                               .idempotency_key = key,
                               .body = c->body.len > 0 ? c->body.data : NULL,
                               .body_len = c->body.len};
    va_list ap;
    va_start(ap, where);
    (void)vsnprintf(at, sizeof(at), where, ap);
    va_end(ap);
    buf_reset(&c->reply);
    if (http_client_call(c->http, &req, &status, &c->reply, &err) < 0)
        status = 0;
    buf_reset(&c->body);
    atomic_fetch_add(&c->w->n_answers, status > 0);
    return status;
}

static inline uint64_t id_of(const struct buf *reply)
{
    const char *at = strstr(buf_str(reply), "\"id\"");
    at = at ? at + 4 + strspn(at + 4, ": ") : "0";
    return strtoull(at, NULL, 10);
}

/* JOB_NEW: it is not said. */
static inline enum job_state state_of(const struct buf *reply)
{
    enum job_state s = JOB_NEW;
    char name[24] = "";
    const char *at = strstr(buf_str(reply), "\"state\"");
    if (at) {
        at += 7 + strspn(at + 7, ": \"");
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, "\""), at);
    }
    return job_state_from_name(name, &s) < 0 ? JOB_NEW : s;
}

/* 0, or -1: it cannot ask. */
static inline int client_begin(struct client *c, struct world *w, uint32_t seed)
{
    struct error err = ERROR_INIT;
    struct http_client_conf conf = {.url = w->url, .timeout_s = 30};
    *c = (struct client){.w = w, .body = BUF_INIT, .reply = BUF_INIT};
    rng_seed(&c->rng, seed);
    return http_client_create(&conf, &c->http, &err);
}

static inline void client_end(struct client *c)
{
    http_client_destroy(c->http);
    buf_clear(&c->body);
    buf_clear(&c->reply);
}

#endif
